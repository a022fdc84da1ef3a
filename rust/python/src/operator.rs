//! What the classes of all incremental operators share: sources, and numbers for people.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, SchemaRef};
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDate, PyDateTime, PyDict, PyType};
use pyo3_arrow::PyField;
use tidegate::stream::{self, Memory, SourceStats, lock};
use tidegate::{Error, Stop};

use crate::error::raise;
use crate::handle::{check_process, hold};
use crate::input::count;
use crate::interrupt::detached;
use crate::{input, interrupt};

/// Rows that a source puts in order within a moment.
const FEW_ROWS: usize = 1 << 17;

/// Feed rows into an operator.
#[pyclass(frozen, module = "tidegate")]
#[derive(Clone)]
pub(crate) struct Source {
    source: Arc<Mutex<stream::Source>>,
    number: u16,
    time_field: Field,
    process: u32,
}

impl Source {
    pub(crate) fn new(source: &Arc<Mutex<stream::Source>>) -> Self {
        let (number, time_field) = {
            let source = lock(source);
            (source.number(), source.time_field().clone())
        };
        Source { source: source.clone(), number, time_field, process: std::process::id() }
    }

    /// Calls `work` with the source, once it is its turn: in the background if it puts many rows in
    /// order, those that the source holds back and so many more.
    fn feed(
        &self,
        py: Python<'_>,
        rows: usize,
        work: impl FnOnce(&mut stream::Source, &Stop) -> tidegate::Result<()> + Send + 'static,
    ) -> PyResult<()> {
        let mut source = hold(py, &self.source)?;
        let stop = Stop::default();
        if source.rows_held() + rows < FEW_ROWS {
            return detached(py, move || work(&mut source, &stop));
        }
        let asked = stop.clone();
        interrupt::run(py, &stop, move || work(&mut source, &asked))
    }
}

#[pymethods]
impl Source {
    /// The number of the source.
    #[getter]
    fn number(&self) -> u16 {
        self.number
    }

    /// Add rows.
    fn push(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        check_process(self.process, "source")?;
        // All is read before the source is touched, so that a stream may use the source itself.
        let (schema, batches) = input::read("data", data, &Stop::default())?;
        let count = batches.iter().map(RecordBatch::num_rows).sum();
        self.feed(py, count, move |source, stop| source.push(&schema, batches, stop))
    }

    /// Promise that no later row is before a time.
    fn advance(&self, py: Python<'_>, ts: &Bound<'_, PyAny>) -> PyResult<()> {
        check_process(self.process, "source")?;
        let ts = time(ts, &self.time_field)?;
        self.feed(py, 0, move |source, _| source.advance(ts))
    }

    /// Promise that there are no more rows.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_process(self.process, "source")?;
        self.feed(py, 0, |source, _| {
            source.close();
            Ok(())
        })
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

/// A time in steps of the unit of a column: an integer, or a date or time of the column's kind,
/// without loss.
fn time(ob: &Bound<'_, PyAny>, field: &Field) -> PyResult<i64> {
    let wrong = |why: &str| {
        let (name, data_type) = (field.name(), field.data_type());
        Error::argument(format!(
            "ts: expected a time of column `{name}`, which is {data_type}, or an integer in its unit, got {ob:?}{why}"
        ))
    };
    if ob.hasattr("__index__")? && !ob.is_instance_of::<PyBool>() {
        return ob.extract().map_err(|_| raise(wrong(", which does not fit 64 bits")));
    }
    let Some(kind) = Kind::of(ob)? else {
        return Err(PyTypeError::new_err(wrong("").message().to_owned()));
    };
    match (kind, field.data_type()) {
        (Kind::Time { zoned: true }, DataType::Timestamp(_, None)) => {
            Err(raise(wrong(", which has a zone")))
        }
        (Kind::Time { zoned: false }, DataType::Timestamp(_, Some(_))) => {
            Err(raise(wrong(", which has no zone")))
        }
        (Kind::Time { .. }, DataType::Timestamp(..))
        | (Kind::Date, DataType::Date32 | DataType::Date64) => {
            steps(ob, field).map_err(|error| raise(wrong(&format!(": {}", error.value(ob.py())))))
        }
        _ => Err(raise(wrong(""))),
    }
}

/// What an object says about time.
enum Kind {
    Date,
    Time { zoned: bool },
}

impl Kind {
    fn of(ob: &Bound<'_, PyAny>) -> PyResult<Option<Kind>> {
        if ob.is_instance_of::<PyDateTime>() {
            return Ok(Some(Kind::Time { zoned: !ob.getattr("tzinfo")?.is_none() }));
        }
        if ob.is_instance_of::<PyDate>() {
            return Ok(Some(Kind::Date));
        }
        let numpy = ob.py().import("numpy")?;
        if !ob.is_instance(&numpy.getattr("datetime64")?)? {
            return Ok(None);
        }
        let (unit, _): (String, i64) =
            numpy.call_method1("datetime_data", (ob.getattr("dtype")?,))?.extract()?;
        Ok(Some(if unit == "D" { Kind::Date } else { Kind::Time { zoned: false } }))
    }
}

/// A date or time in the unit of a column.
fn steps(ob: &Bound<'_, PyAny>, field: &Field) -> PyResult<i64> {
    let pyarrow = ob.py().import("pyarrow")?;
    let column = PyField::new(Arc::new(field.clone()));
    let data_type = column.to_pyarrow(ob.py())?.getattr("type")?;
    let scalar = match (ob.hasattr("dtype")?, ob.getattr_opt("nanosecond")?) {
        (true, _) => {
            pyarrow.call_method1("array", (ob.call_method1("reshape", (1,))?,))?.get_item(0)?
        }
        // pandas' times are those of Python with three more digits, which pyarrow sees if it is
        // told to.
        (_, Some(digits)) if digits.is_truthy()? => {
            let nanoseconds =
                pyarrow.call_method1("timestamp", ("ns", data_type.getattr("tz")?))?;
            pyarrow.call_method1("scalar", (ob, nanoseconds))?
        }
        _ => pyarrow.call_method1("scalar", (ob,))?,
    };
    scalar.call_method1("cast", (data_type,))?.getattr("value")?.extract()
}

/// Changes how much an operator may hold.
pub(crate) fn set_limit(memory: &Memory, limit: &Bound<'_, PyAny>) -> PyResult<()> {
    let limit =
        if limit.is_none() { None } else { count("memory_limit", Some(limit), 0, i64::MAX)? };
    memory.set_limit(limit.map(|bytes| bytes as usize));
    Ok(())
}

/// Batches as a `pyarrow.Table`.
pub(crate) fn table<'py>(
    py: Python<'py>,
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
) -> PyResult<Bound<'py, PyAny>> {
    pyo3_arrow::PyTable::try_new(batches, schema)?.into_pyarrow(py)
}

/// A copy of bytes; Python's error where it has no memory for them.
pub(crate) fn bytes<'py>(py: Python<'py>, of: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, of.len(), |bytes| {
        bytes.copy_from_slice(of);
        Ok(())
    })
}

/// Numbers that describe sources, one dict a source, and their sums into `total`.
pub(crate) fn source_stats<'py>(
    py: Python<'py>,
    sources: &[SourceStats],
    total: &Bound<'py, PyDict>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let sum = |of: fn(&SourceStats) -> u64| sources.iter().map(of).sum::<u64>();
    let (rows_in, rows_late) = (sum(|source| source.rows_in), sum(|source| source.rows_late));
    total.set_item("rows_in", rows_in)?;
    total.set_item("rows_used", rows_in - rows_late)?;
    total.set_item("rows_late", rows_late)?;
    let one = |source: &SourceStats| {
        let dict = PyDict::new(py);
        dict.set_item("name", &*source.name)?;
        dict.set_item("rows_in", source.rows_in)?;
        dict.set_item("rows_used", source.rows_in - source.rows_late)?;
        dict.set_item("rows_late", source.rows_late)?;
        dict.set_item("watermark", source.watermark)?;
        dict.set_item("closed", source.closed)?;
        dict.set_item("memory", source.memory)?;
        Ok(dict)
    };
    sources.iter().map(one).collect()
}
