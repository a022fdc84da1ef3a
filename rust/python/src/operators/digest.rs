//! `digest` and the class `Digest`.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate::{Digest as Rows, Driver, Error, Stop};

use crate::arrow::import::take;
use crate::inputs::arguments::threads_of;
use crate::inputs::rows::{InputRows, schema};
use crate::interpreter::error::raise;
use crate::interpreter::interrupt;
use crate::interpreter::native::module;

#[doc = manual!(digest)]
#[pyfunction]
#[pyo3(signature = (data, *, ordered=true, threads=None))]
pub(crate) fn digest(
    data: &Bound<'_, PyAny>,
    ordered: bool,
    threads: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let rows = read(data, threads, None)?;
    Ok(text(if ordered { rows.ordered() } else { rows.unordered() }))
}

/// The function that rebuilds a digest, with its arguments: the columns and the state.
type PickledDigest<'py> = (Bound<'py, PyAny>, (Vec<(String, String)>, Bound<'py, PyBytes>));

#[doc = manual!(Digest)]
#[pyclass(frozen, module = "tidegate")]
pub(crate) struct Digest {
    /// The lock is held only briefly, and only by threads that do not need the GIL.
    rows: Mutex<Rows>,
    /// The digest of an empty input with these columns.
    nothing: Rows,
}

impl From<(Rows, Rows)> for Digest {
    /// Creates a digest from two parts: the digest of some rows, and the digest of an empty input
    /// with the same columns.
    fn from((rows, nothing): (Rows, Rows)) -> Self {
        Digest { rows: Mutex::new(rows), nothing }
    }
}

#[pymethods]
impl Digest {
    #[new]
    fn new(schema: &Bound<'_, PyAny>) -> PyResult<Self> {
        let nothing = Rows::new(&*self::schema("schema", schema)?);
        Ok((nothing.clone(), nothing).into())
    }

    /// Adds the rows in Arrow data.
    #[pyo3(signature = (data, threads))]
    fn _update(&self, data: &Bound<'_, PyAny>, threads: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        // All rows are read before any of them is added.
        let later = read(data, threads, Some(self.nothing.clone()))?;
        self.rows.lock().append(&later).map_err(raise)
    }

    #[doc = manual!(Digest.append)]
    fn append(&self, later: &Self) -> PyResult<()> {
        // Copied first, because both may be the same digest.
        let rows = later.rows.lock().clone();
        self.rows.lock().append(&rows).map_err(raise)
    }

    #[doc = manual!(Digest.rows)]
    #[getter]
    fn rows(&self) -> u64 {
        self.rows.lock().rows()
    }

    #[doc = manual!(Digest.ordered)]
    #[getter]
    fn ordered(&self) -> String {
        text(self.rows.lock().ordered())
    }

    #[doc = manual!(Digest.unordered)]
    #[getter]
    fn unordered(&self) -> String {
        text(self.rows.lock().unordered())
    }

    #[doc = manual!(Digest.sum)]
    #[getter]
    fn sum(&self) -> String {
        text(self.rows.lock().sum())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<PickledDigest<'py>> {
        let rows = self.rows.lock();
        let arguments = (rows.columns().to_vec(), PyBytes::new(py, &rows.to_bytes()));
        Ok((module::<InputRows>(py)?.getattr("unpickled_digest")?, arguments))
    }

    fn __repr__(&self) -> String {
        let rows = self.rows.lock();
        format!(
            "Digest(rows={}, ordered='{}', unordered='{}')",
            rows.rows(),
            text(rows.ordered()),
            text(rows.unordered())
        )
    }
}

#[doc = manual!(unpickled_digest)]
#[pyfunction]
pub(crate) fn unpickled_digest(columns: Vec<(String, String)>, state: &[u8]) -> PyResult<Digest> {
    let nothing = Rows::of_columns(columns);
    let rows = nothing.clone().with_state(state);
    let rows = rows.ok_or_else(|| raise(Error::state("the pickled digest is damaged")))?;
    Ok((rows, nothing).into())
}

/// Reads an input batch by batch, and returns the digest of all its rows. If `like` is given, the
/// input must have the same columns.
fn read(
    data: &Bound<'_, PyAny>,
    threads: Option<&Bound<'_, PyAny>>,
    like: Option<Rows>,
) -> PyResult<Rows> {
    let threads = threads_of(threads)?;
    let input = take("data", data)?;
    let stop = Stop::default();
    let running = stop.clone();
    interrupt::run(data.py(), &stop, move || {
        let driver = Driver::new(threads, running.clone());
        let mut batches = input.open_until(&running)?;
        let own = Rows::new(batches.columns());
        let mut rows = like.unwrap_or_else(|| own.clone());
        // The columns are part of the digest even if there are no batches.
        rows.append(&own)?;
        while let Some(batch) = batches.next_batch(&driver)? {
            rows.add(&batch, &driver)?;
        }
        Ok(rows)
    })
}

fn text(digest: u128) -> String {
    format!("{digest:032x}")
}
