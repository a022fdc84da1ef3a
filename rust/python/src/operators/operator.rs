//! The class `Operator`, with everything that operators share except the constructor.

use std::ffi::CString;
use std::time::Duration;

use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use pyo3::exceptions::{PyResourceWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyType};
use tidegate::stream::{self, DriverWork, Memory, ResultTime, Side};
use tidegate::{Digest as Rows, Stop};

use crate::arrow::{export, import};
use crate::inputs::arguments::{bound, bytes, word};
use crate::inputs::time::time;
use crate::interpreter::threads::{attached, calling};
use crate::operators::digest::Digest;
use crate::operators::handle::Handle;
use crate::operators::source::Source;
use crate::operators::stats::stats;

const SIDE: [(&str, Side); 2] = [("left", Side::Left), ("right", Side::Right)];

const RESULT_TIME: [(&str, ResultTime); 2] =
    [("later", ResultTime::Later), ("earlier", ResultTime::Earlier)];

#[doc = manual!(Operator)]
#[pyclass(frozen, subclass, generic, module = "tidegate")]
pub(crate) struct Operator {
    pub(crate) handle: Handle,
    pub(crate) schema: SchemaRef,
    /// A copy of the sources, which can be read while the operator is working.
    sources: Mutex<Vec<Source>>,
    memory: Memory,
}

impl Operator {
    /// Creates an operator. If requested, the operator computes a digest of its results.
    pub(crate) fn new(operator: stream::Operator, digest: bool) -> Self {
        let operator = if digest { operator.with_digest() } else { operator };
        Operator {
            schema: operator.schema().clone(),
            sources: Mutex::new(sources(&operator)),
            memory: operator.memory(),
            handle: Handle::new(operator),
        }
    }

    /// Returns the sources by number, with left sources first.
    fn all_sources(&self) -> PyResult<Vec<Source>> {
        self.handle.check()?;
        Ok(self.sources.lock().clone())
    }

    /// Stores the sources, unless another call has already stored more.
    fn keep(&self, all: Vec<Source>) {
        let mut sources = self.sources.lock();
        if all.len() > sources.len() {
            *sources = all;
        }
    }

    /// Returns the sources of a side, by number.
    pub(crate) fn sources_of(&self, side: Side) -> PyResult<Vec<Source>> {
        let mut sources = self.all_sources()?;
        sources.retain(|source| source.side == Some(side));
        Ok(sources)
    }
}

/// The sources of an operator.
fn sources(operator: &stream::Operator) -> Vec<Source> {
    let with_sides = operator.sources().iter().zip(operator.sides());
    with_sides.map(|(source, side)| Source::new(source, side)).collect()
}

/// Warns about pushed rows whose results were never read. Python shows this warning in development
/// mode.
impl Drop for Operator {
    fn drop(&mut self) {
        let Some(lost) = self.handle.lost() else { return };
        // This does nothing once Python has shut down.
        attached(|py| {
            let kind = py.get_type::<PyResourceWarning>();
            if let Ok(text) = CString::new(lost)
                && let Err(error) = PyErr::warn(py, &kind, &text, 1)
            {
                error.write_unraisable(py, None);
            }
        });
    }
}

#[pymethods]
impl Operator {
    #[doc = manual!(Operator.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, &self.schema)
    }

    #[doc = manual!(Operator.sources)]
    #[getter]
    fn sources(&self) -> PyResult<Vec<Source>> {
        self.all_sources()
    }

    #[doc = manual!(Operator.add_source)]
    #[pyo3(signature = (*, side = None, since = None, lateness = None))]
    fn add_source(
        &self,
        py: Python<'_>,
        side: Option<&str>,
        since: Option<&Bound<'_, PyAny>>,
        lateness: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Source> {
        let side = side.map(|side| word("side", side, &SIDE)).transpose()?;
        let lateness = lateness.map(|one| bound("lateness", one)).transpose()?.flatten();
        let time_field = {
            let sources = self.sources.lock();
            let like = sources.iter().find(|source| source.side == side).or(sources.first());
            like.map(|source| source.time_field.clone())
        };
        let since = since.zip(time_field).map(|(since, field)| time("since", since, &field));
        let since = since.transpose()?;
        let add = |operator: &mut stream::Operator| operator.add_source(side, since, lateness);
        let added = Source::new(&self.handle.briefly(py, add)?, side);
        let mut sources = self.sources.lock();
        if usize::from(added.number) == sources.len() {
            sources.push(added.clone());
            return Ok(added);
        }
        // Concurrent calls may reach this point in a different order.
        drop(sources);
        self.keep(self.handle.briefly(py, |operator| Ok(self::sources(operator)))?);
        Ok(added)
    }

    #[doc = manual!(Operator.skip)]
    fn skip(&self, py: Python<'_>) -> PyResult<bool> {
        self.handle.briefly(py, |operator| Ok(operator.skip()))
    }

    #[doc = manual!(Operator.memory_limit)]
    #[getter]
    fn memory_limit(&self) -> Option<usize> {
        self.memory.limit()
    }

    #[setter]
    fn set_memory_limit(&self, limit: &Bound<'_, PyAny>) -> PyResult<()> {
        self.handle.check()?;
        let limit = if limit.is_none() { None } else { bytes("memory_limit", Some(limit))? };
        self.memory.set_limit(limit);
        Ok(())
    }

    #[doc = manual!(Operator.poll)]
    fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.handle.poll(py)
    }

    #[doc = manual!(Operator.late)]
    fn late<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle.late(py, stream::Operator::forget_late)
    }

    /// Like `late`, but the operator keeps the rows until `_settle_late` reports that they were
    /// accepted.
    fn _lend_late<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.handle.late(py, stream::Operator::lend_late)
    }

    #[pyo3(signature = (*, were_taken))]
    fn _settle_late(&self, py: Python<'_>, were_taken: bool) -> PyResult<()> {
        self.handle.briefly(py, |operator| {
            operator.settle_late(were_taken);
            Ok(())
        })
    }

    #[doc = manual!(Operator.stats)]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats(py, &self.handle.briefly(py, |operator| Ok(operator.stats()))?)
    }

    #[doc = manual!(Operator.digest)]
    fn digest(&self, py: Python<'_>) -> PyResult<Digest> {
        let rows = self.handle.briefly(py, |operator| operator.digest().cloned())?;
        Ok((rows, Rows::new(&self.schema)).into())
    }

    #[doc = manual!(Operator.promised)]
    #[getter]
    fn promised(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.handle.briefly(py, |operator| Ok(operator.promised()))
    }

    #[doc = manual!(Operator.explain)]
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        self.handle.briefly(py, |operator| Ok(operator.explain()))
    }

    #[doc = manual!(Operator.snapshot)]
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let snapshot = self.handle.at_length(py, &Stop::default(), stream::Operator::snapshot)?;
        // Python raises its own error if it has no memory for the bytes.
        PyBytes::new_with(py, snapshot.len(), |bytes| {
            bytes.copy_from_slice(&snapshot);
            Ok(())
        })
    }

    #[doc = manual!(Operator.restore)]
    fn restore(&self, py: Python<'_>, snapshot: PyBackedBytes) -> PyResult<()> {
        let restore =
            move |operator: &mut stream::Operator, stop: &Stop| operator.restore(&snapshot, stop);
        self.handle.at_length(py, &Stop::default(), restore)?;
        self.keep(self.handle.briefly(py, |operator| Ok(self::sources(operator)))?);
        self.handle.tell_restored(py)
    }

    /// Processes the rows that are ready now without emitting their results. These results have
    /// already been emitted by the operator that this operator continues.
    fn _recall(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.at_length(py, &Stop::default(), stream::Operator::recall)
    }

    #[doc = manual!(Operator.close)]
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.close(py)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let kind = slf.get_type();
        Err(PyTypeError::new_err(format!(
            "cannot pickle a {}, which has threads and open sources; call snapshot(), and \
             restore() the bytes into an operator with the same arguments",
            kind.name()?
        )))
    }

    /// Feeds this operator's results to a source. Returns the name of the source's time column. If
    /// the results do not contain this column, also returns the columns from which it is computed.
    fn _feed(
        &self,
        py: Python<'_>,
        source: &Source,
        of: Option<&str>,
    ) -> PyResult<(String, Vec<String>)> {
        let of = of.map(|of| word("feeds", of, &RESULT_TIME)).transpose()?;
        let times = self.handle.briefly(py, |operator| Ok(operator.times()))?;
        let schema = self.schema.clone();
        let follow = move |source: &mut stream::Source| source.follow(&times, &schema, of);
        Ok((source.time_field.name().clone(), source.briefly(py, follow)?))
    }

    /// Passes this operator's promise on to a source, unless there are results waiting to be read.
    fn _promise(&self, py: Python<'_>, source: &Source) -> PyResult<()> {
        match self.handle.briefly(py, |operator| Ok(operator.promised()))? {
            None => Ok(()),
            Some(place) => source.feed(py, 0, move |source, _| source.promise_of_results(place)),
        }
    }

    /// Takes back the last polled batch because the sink did not accept it.
    fn _take_back(&self, py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        import::batch("batch", batch)?.map_or(Ok(()), |batch| self.handle.take_back(py, batch))
    }

    /// Sets whether a thread drives the operator, and returns whether one did before. A driving
    /// thread that has failed no longer makes room for waiting pushes.
    #[pyo3(signature = (*, is_driven, fetches_late = false, has_failed = false))]
    fn _set_driven(&self, is_driven: bool, fetches_late: bool, has_failed: bool) -> PyResult<bool> {
        self.handle.check()?;
        if has_failed {
            self.handle.leave();
        }
        Ok(self.handle.set_driven(is_driven.then_some(DriverWork { fetches_late })))
    }

    /// Records that a poll is about to start, for example when a chain first passes on rows.
    fn _go_on(&self) {
        self.handle.go_on();
    }

    /// Makes a memory request fail after this many requests have succeeded. `None` cancels the
    /// refusal. Returns whether an earlier refusal was still pending.
    #[cfg(debug_assertions)]
    #[staticmethod]
    fn _refuse_memory(after: Option<usize>) -> bool {
        tidegate::refusal::after(after)
    }

    /// Does the work required before the next batch. Returns true once the batch is available.
    /// Returns `None` if this takes longer than `seconds`, and false at the end.
    fn _is_ready_within(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<bool>> {
        self.handle.is_ready_within(py, Duration::from_secs_f64(seconds.clamp(0.0, 60.0)))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let schema = export::schema(slf.py(), &slf.get().schema)?;
        calling(slf.py(), || {
            let readers = slf.py().import("pyarrow")?.getattr("RecordBatchReader")?;
            let reader = readers.call_method1("from_batches", (schema, slf))?;
            reader.call_method1("__arrow_c_stream__", (requested_schema,))
        })
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.handle.next(py)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _type: Option<&Bound<'_, PyType>>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }
}
