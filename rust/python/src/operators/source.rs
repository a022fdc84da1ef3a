//! The class `Source`, into which a thread pushes rows.

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::Field;
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};
use tidegate::stream::{self, Side, SourceStats, lock};
use tidegate::{Extra, Stop, WorkOf};

use crate::arrow::{export, import};
use crate::inputs::arguments::word;
use crate::inputs::time::time;
use crate::interpreter::threads::released;
use crate::interpreter::{callbacks, interrupt};
use crate::operators::handle::{briefly, check_process, in_turn, number_of};

/// The time between two checks for room within the memory limit.
const ROOM: Duration = Duration::from_millis(1);

/// The maximum number of rows that a source sorts without noticeable delay.
const FEW_ROWS: usize = 1 << 17;

#[doc = manual!(Source)]
#[pyclass(frozen, module = "tidegate")]
#[derive(Clone)]
pub(crate) struct Source {
    source: Arc<Mutex<stream::Source>>,
    pub(super) side: Option<Side>,
    pub(super) number: u16,
    pub(super) time_field: Field,
    process: u32,
}

impl Source {
    pub(crate) fn new(source: &Arc<Mutex<stream::Source>>, side: Option<Side>) -> Self {
        let (number, time_field) = {
            let source = lock(source);
            (source.number(), source.time_field().clone())
        };
        Source { source: source.clone(), side, number, time_field, process: std::process::id() }
    }

    /// Converts rows given as Python objects to a table.
    fn table<'py>(
        &self,
        rows: &Bound<'py, PyAny>,
        extra: Extra,
        unit: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = rows.py();
        let (name, schema) =
            self.briefly(py, |source| Ok((source.stats().name, source.schema().clone())))?;
        let schema = export::schema(py, &schema)?;
        callbacks::table_of_rows(rows, schema, &name, extra == Extra::Ignore, unit)
    }

    /// Calls `work` with the source once the source is free. The call runs in the background if the
    /// source has to sort many rows. The source sorts the rows that it holds back, plus `rows` new
    /// ones.
    pub(super) fn feed<R: Send + 'static>(
        &self,
        py: Python<'_>,
        rows: usize,
        work: impl FnOnce(&mut stream::Source, &Stop) -> tidegate::Result<R> + Send + 'static,
    ) -> PyResult<R> {
        let (stop, mut work) = (Stop::default(), Some(work));
        let mut take = || work.take().expect("it is taken once");
        let at_once = |source: &mut stream::Source| {
            let is_short = source.rows_held() + rows < FEW_ROWS;
            is_short.then(|| take()(source, &stop)).transpose()
        };
        if let Some(done) = self.briefly(py, at_once)? {
            return Ok(done);
        }
        let (source, asked, work) = (self.source.clone(), stop.clone(), take());
        // This may run code that calls the source, such as the release of a producer's batch.
        let object = number_of(&self.source);
        interrupt::run(py, &stop, move || {
            in_turn(&source, &asked, |source| WorkOf::one(object, || work(source, &asked)))
        })
    }

    pub(super) fn briefly<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut stream::Source) -> tidegate::Result<R> + Send,
    ) -> PyResult<R> {
        briefly(py, &self.source, "source", work)
    }
}

#[pymethods]
impl Source {
    #[doc = manual!(Source.number)]
    #[getter]
    fn number(&self) -> u16 {
        self.number
    }

    #[doc = manual!(Source.push)]
    #[pyo3(signature = (data, *, extra = "error", unit = None, block = None))]
    fn push(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        extra: &str,
        unit: Option<&str>,
        block: Option<bool>,
    ) -> PyResult<()> {
        check_process(self.process, "source")?;
        let extra = word("extra", extra, &EXTRA)?;
        // Read everything before accessing the source, so that a stream can use the source itself.
        check_data(data)?;
        if let Some(unit) = unit {
            word("unit", unit, &UNITS)?;
        }
        let is_of_objects = data.is_instance_of::<PyList>() || data.is_instance_of::<PyDict>();
        if unit.is_some() && !is_of_objects {
            return Err(PyTypeError::new_err(
                "unit: the types of Arrow data have their own units; leave unit out, or cast the \
                 times to a timestamp first",
            ));
        }
        let given = match is_of_objects {
            false => import::read("data", data, &Stop::default())?,
            true => import::read("data", &self.table(data, extra, unit)?, &Stop::default())?,
        };
        let count = given.rows();
        let mut waits = false;
        loop {
            let given = given.clone();
            let push = move |source: &mut stream::Source, stop: &Stop| {
                let before = source.rows_late();
                given.push(source, extra, stop)?;
                let late = source.rows_late() - before;
                Ok((late > 0).then(|| (late, source.stats())))
            };
            let error = match self.feed(py, count, push) {
                Ok(None) => return Ok(()),
                Ok(Some((late, SourceStats { name, rows_late, rows_in, .. }))) => {
                    let text = format!(
                        "{name}: {late} of {count} rows were set aside because they are late or \
                         too wide ({rows_late} of {rows_in} so far); late() returns them"
                    );
                    callbacks::tell(py, &self.source, "late", &text);
                    return Ok(());
                }
                Err(error) => error,
            };
            let (is_full, news) =
                self.briefly(py, |source| Ok((source.is_full(), source.news())))?;
            if is_full && !std::mem::replace(&mut waits, true) {
                callbacks::tell(py, &self.source, "full", &error.value(py).to_string());
            }
            // A thread that drives the operator must not wait, because it would wait for itself.
            let waits_for_polls =
                block.unwrap_or(news.driven().is_some()) && !news.is_driven_here();
            if !is_full || !waits_for_polls {
                return Err(error);
            }
            // There is no notification when room becomes available, but the next results make room
            // within about a millisecond.
            released(py, || std::thread::sleep(ROOM));
            py.check_signals()?;
        }
    }

    /// Returns whether the last push was refused because of the memory limit, but would fit if less
    /// memory were held.
    fn _is_full(&self, py: Python<'_>) -> PyResult<bool> {
        self.briefly(py, |source| Ok(source.is_full()))
    }

    #[doc = manual!(Source.advance)]
    fn advance(&self, py: Python<'_>, ts: &Bound<'_, PyAny>) -> PyResult<()> {
        check_process(self.process, "source")?;
        let ts = time("ts", ts, &self.time_field)?;
        self.feed(py, 0, move |source, _| source.advance(ts))
    }

    #[doc = manual!(Source.idle)]
    fn idle(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process, "source")?;
        self.feed(py, 0, |source, _| source.idle())
    }

    #[doc = manual!(Source.close)]
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process, "source")?;
        self.feed(py, 0, |source, _| {
            source.close();
            Ok(())
        })
    }

    #[doc = manual!(Source.abandon)]
    fn abandon(&self, py: Python<'_>, reason: String) -> PyResult<()> {
        check_process(self.process, "source")?;
        self.feed(py, 0, move |source, _| {
            source.abandon(&reason);
            Ok(())
        })
    }

    /// Two views of the same source are equal.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Source>().is_ok_and(|other| Arc::ptr_eq(&self.source, &other.get().source))
    }

    fn __hash__(&self) -> u64 {
        Arc::as_ptr(&self.source).addr() as u64
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyType>>,
        value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match kind {
            None => self.close(py),
            Some(kind) => self.abandon(py, format!("{}: {value}", kind.name()?)),
        }
    }
}

const UNITS: [(&str, ()); 4] = [("s", ()), ("ms", ()), ("us", ()), ("ns", ())];

const EXTRA: [(&str, Extra); 2] = [("error", Extra::Refuse), ("ignore", Extra::Ignore)];

/// Rejects data that is not rows, but that users often push.
fn check_data(data: &Bound<'_, PyAny>) -> PyResult<()> {
    let (found, next) = if data.is_instance_of::<PyTuple>() {
        ("a tuple", "push([row]) for one row")
    } else if data.is_instance_of::<PyBytes>() || data.is_instance_of::<PyString>() {
        ("text", "push_json(data) for JSON")
    } else {
        return Ok(());
    };
    Err(PyTypeError::new_err(format!(
        "data: expected Arrow data, a list of dicts or tuples, or a dict of lists, got {found}; \
         write {next}"
    )))
}
