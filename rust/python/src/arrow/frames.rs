//! Converts short pandas frames to pyarrow tables, column by column.
//!
//! Converting a whole frame with pyarrow takes several times as long as converting its columns one
//! by one, mostly because of metadata. Apart from the index, the metadata depends only on the names
//! and types of the columns. The metadata is therefore cached for the next frame with the same
//! columns.

use pyo3::exceptions::{
    PyAttributeError, PyKeyError, PyNotImplementedError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyDict, PyList, PyString, PyTuple};

/// Frames with at most this many rows are converted on the caller's thread.
const FEW_ROWS: usize = 10_000;

/// The maximum number of cached schemas. When the cache is full, it is cleared.
const KEPT_SCHEMAS: usize = 64;

/// Converts a short frame in the same way as pandas, but on the current thread. With pyarrow's
/// thread pool, converting only a few rows takes several times as long.
///
/// Returns `None` for frames that pandas should convert: long frames, frames whose index would
/// become a column, and frames that cannot be converted here. Also returns `None` if a column
/// contains times with a time zone, because pandas suppresses a warning when converting such a
/// column.
pub(crate) fn short<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let is_short = frame.len()? <= FEW_ROWS;
    if !is_short || frame.getattr("index")?.get_type().name()? != "RangeIndex" {
        return Ok(None);
    }
    if let Some(table) = unless_refused(frame.py(), of_columns(frame))?.flatten() {
        return Ok(Some(table));
    }
    // `dtypes` takes longer than looking at each column, but also works for equal names.
    for dtype in frame.getattr("dtypes")?.try_iter()? {
        if matches!(Values::of(&dtype?)?, Values::Zoned) {
            return Ok(None);
        }
    }
    unless_refused(frame.py(), of_pyarrow(frame))
}

/// The values of a column, classified by how they are converted.
enum Values {
    /// NumPy numbers or times, which pyarrow converts quickly if they are passed as a NumPy array.
    Numpy,
    /// Arrow strings, which pyarrow converts quickly if they are passed as a pandas array.
    Strings,
    /// Times with a time zone.
    Zoned,
    Others,
}

impl Values {
    fn of(dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let kind = dtype.getattr("kind")?;
        // Only NumPy dtypes have the attribute `num`.
        if dtype.hasattr("num")? {
            return Ok(match kind.extract()? {
                "i" | "u" | "f" | "b" | "M" | "m" => Values::Numpy,
                _ => Values::Others,
            });
        }
        if kind.eq("M")? && dtype.hasattr("tz")? {
            return Ok(Values::Zoned);
        }
        let is_text = dtype.get_type().name()? == "StringDtype"
            && dtype
                .getattr_opt("storage")?
                .is_some_and(|kind| kind.eq("pyarrow").unwrap_or(false));
        Ok(if is_text { Values::Strings } else { Values::Others })
    }
}

/// Returns `None` for a frame that cannot be converted; pandas then converts the frame and reports
/// the reason. If a signal handler raises an exception in the meantime, the exception is still
/// returned as an error.
fn unless_refused<T>(py: Python<'_>, made: PyResult<T>) -> PyResult<Option<T>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(error)
            if error.is_instance_of::<PyValueError>(py)
                || error.is_instance_of::<PyTypeError>(py)
                || error.is_instance_of::<PyAttributeError>(py)
                || error.is_instance_of::<PyKeyError>(py)
                || error.is_instance_of::<PyNotImplementedError>(py) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn of_pyarrow<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let arguments = [("nthreads", 1)].into_py_dict(frame.py())?;
    pyarrow_table(frame.py())?.call_method("from_pandas", (frame,), Some(&arguments))
}

fn pyarrow_table(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("pyarrow")?.getattr("Table")
}

/// Converts a frame whose columns are all plain, one column at a time. Returns `None` if a column
/// is not plain, or if the frame's schema depends on more than the names and types of its columns.
/// The checks are made before any column is converted.
fn of_columns<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = frame.py();
    let labels = frame.getattr("columns")?;
    if frame.getattr("attrs")?.len()? > 0 || !labels.getattr("name")?.is_none() {
        return Ok(None);
    }
    let names = labels.call_method0("tolist")?.cast_into::<PyList>()?;
    if names.is_empty() {
        return Ok(None);
    }
    let (values, key) = (PyList::empty(py), PyList::empty(py));
    for name in &names {
        let name = name.cast_into_exact::<PyString>()?;
        let series = frame.get_item(&name)?;
        let dtype = series.getattr("dtype")?;
        values.append(match Values::of(&dtype)? {
            Values::Numpy => series.call_method0("to_numpy")?,
            Values::Strings => series.getattr("array")?,
            Values::Zoned | Values::Others => return Ok(None),
        })?;
        key.append(name)?;
        key.append(dtype)?;
    }
    let make = py.import("pyarrow")?.getattr("array")?;
    let options = [("from_pandas", true)].into_py_dict(py)?;
    let arrays = PyList::empty(py);
    for values in &values {
        arrays.append(make.call((values,), Some(&options))?)?;
    }
    let schema = schema(frame, key.to_tuple())?;
    let arguments = [("schema", schema)].into_py_dict(py)?;
    pyarrow_table(py)?.call_method("from_arrays", (arrays,), Some(&arguments)).map(Some)
}

/// Returns the schema that pyarrow assigns to a frame with these columns. The schema is computed
/// from an empty frame.
fn schema<'py>(frame: &Bound<'py, PyAny>, key: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    static SCHEMAS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let py = frame.py();
    let kept = SCHEMAS.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    if let Some(schema) = kept.get_item(&key)? {
        return Ok(schema);
    }
    let nothing = frame.call_method1("head", (0,))?;
    let schema = of_pyarrow(&nothing)?.getattr("schema")?;
    if kept.len() >= KEPT_SCHEMAS {
        kept.clear();
    }
    kept.set_item(key, &schema)?;
    Ok(schema)
}
