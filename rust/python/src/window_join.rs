//! `window_join` and the forms of it, and the class `WindowJoin`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use tidegate::{Algorithm, Window, WindowJoin as Query, stream};

use crate::error::raise;
use crate::input::{bound, name_pair, schema};
use crate::join::{Options, to_reader, to_table, word};
use crate::reader::BatchReader;
use crate::stream_join::{StreamJoin, options};

#[doc = manual!(window_join)]
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, window, by=None, r#where=None, how="inner", suffix="_right", columns=None,
    algorithm="auto", threads=None, max_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn window_join<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    on: &Bound<'py, PyAny>,
    window: &Bound<'py, PyAny>,
    by: Option<&Bound<'py, PyAny>>,
    r#where: Option<&Bound<'py, PyAny>>,
    how: &str,
    suffix: &str,
    columns: Option<&Bound<'py, PyAny>>,
    algorithm: &str,
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options =
        Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows: None };
    let join = read(on, window, algorithm, options)?;
    to_table(py, left, right, join.options.threads, move |left, right, stop| {
        join.start(left, right, stop)
    })
}

#[doc = manual!(window_join_batches)]
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, window, by=None, r#where=None, how="inner", suffix="_right", columns=None,
    algorithm="auto", threads=None, max_rows=None, batch_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn window_join_batches<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    on: &Bound<'py, PyAny>,
    window: &Bound<'py, PyAny>,
    by: Option<&Bound<'py, PyAny>>,
    r#where: Option<&Bound<'py, PyAny>>,
    how: &str,
    suffix: &str,
    columns: Option<&Bound<'py, PyAny>>,
    algorithm: &str,
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
    batch_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<BatchReader> {
    let join = read(
        on,
        window,
        algorithm,
        Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows },
    )?;
    let threads = join.options.threads;
    to_reader(
        py,
        left,
        right,
        threads,
        move |left, right, stop| join.start(left, right, stop),
        "window_join_batches",
    )
}

#[doc = manual!(explain_window_join)]
#[pyfunction]
#[pyo3(signature = (
    left, right, *, on, window, by=None, r#where=None, how="inner", suffix="_right", columns=None,
    algorithm="auto", threads=None, max_rows=None, batch_rows=None
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn explain_window_join<'py>(
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    on: &Bound<'py, PyAny>,
    window: &Bound<'py, PyAny>,
    by: Option<&Bound<'py, PyAny>>,
    r#where: Option<&Bound<'py, PyAny>>,
    how: &str,
    suffix: &str,
    columns: Option<&Bound<'py, PyAny>>,
    algorithm: &str,
    threads: Option<&Bound<'py, PyAny>>,
    max_rows: Option<&Bound<'py, PyAny>>,
    batch_rows: Option<&Bound<'py, PyAny>>,
) -> PyResult<String> {
    let join = read(
        on,
        window,
        algorithm,
        Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows },
    )?;
    join.explain(&*schema("left", left)?, &*schema("right", right)?).map_err(raise)
}

const ALGORITHMS: [(&str, Option<Algorithm>); 6] = [
    ("auto", None),
    ("scalejoin", Some(Algorithm::ScaleJoin)),
    ("cell", Some(Algorithm::Cell)),
    ("three-step", Some(Algorithm::ThreeStep)),
    ("handshake", Some(Algorithm::Handshake)),
    ("low-latency-handshake", Some(Algorithm::LowLatencyHandshake)),
];

/// Join rows as they come, by sliding windows.
#[pyclass(frozen, extends = StreamJoin, module = "tidegate")]
pub(crate) struct WindowJoin;

#[pymethods]
impl WindowJoin {
    #[new]
    #[pyo3(signature = (
        left, right, *, on, window, by=None, r#where=None, how="inner", suffix="_right", columns=None, sources=None,
        lateness=None, algorithm="auto", threads=None, memory_limit=None, ordered=true, pin=true
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new<'py>(
        left: &Bound<'py, PyAny>,
        right: &Bound<'py, PyAny>,
        on: &Bound<'py, PyAny>,
        window: &Bound<'py, PyAny>,
        by: Option<&Bound<'py, PyAny>>,
        r#where: Option<&Bound<'py, PyAny>>,
        how: &str,
        suffix: &str,
        columns: Option<&Bound<'py, PyAny>>,
        sources: Option<&Bound<'py, PyAny>>,
        lateness: Option<&Bound<'py, PyAny>>,
        algorithm: &str,
        threads: Option<&Bound<'py, PyAny>>,
        memory_limit: Option<&Bound<'py, PyAny>>,
        ordered: bool,
        pin: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (max_rows, batch_rows) = (None, None);
        let query = read(
            on,
            window,
            algorithm,
            Options { by, r#where, how, suffix, columns, threads, max_rows, batch_rows },
        )?;
        let options = options(sources, lateness, memory_limit, ordered, pin)?;
        let (left, right) = (schema("left", left)?, schema("right", right)?);
        let join = stream::StreamJoin::window(&query, left, right, &options).map_err(raise)?;
        Ok(PyClassInitializer::from(StreamJoin::new(join)).add_subclass(WindowJoin))
    }
}

fn read(
    on: &Bound<'_, PyAny>,
    window: &Bound<'_, PyAny>,
    algorithm: &str,
    options: Options<'_, '_>,
) -> PyResult<Query> {
    let algorithm = word("algorithm", algorithm, &ALGORITHMS)?;
    Ok(Query {
        on: name_pair("on", on)?,
        window: windows(window)?,
        algorithm,
        options: options.read()?,
    })
}

/// A window for both sides, or a pair.
pub(crate) fn windows(ob: &Bound<'_, PyAny>) -> PyResult<(Window, Window)> {
    let Ok(pair) = ob.cast::<PyTuple>() else {
        let both = window(ob)?;
        return Ok((both, both));
    };
    match pair.len() {
        2 => Ok((window(&pair.get_item(0)?)?, window(&pair.get_item(1)?)?)),
        items => Err(PyTypeError::new_err(format!(
            "window: expected one window or a pair of them, got {items}"
        ))),
    }
}

/// A length of time, or `tidegate.rows(n)`.
fn window(ob: &Bound<'_, PyAny>) -> PyResult<Window> {
    static ROWS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if ob.is_instance(ROWS.import(ob.py(), "tidegate.windows", "Rows")?)? {
        return Ok(Window::Rows(ob.getattr("count")?.extract()?));
    }
    let wrong = || {
        PyTypeError::new_err(format!(
            "window: expected a timedelta, a string such as \"15m\", an integer in the time column's unit, or \
             tidegate.rows(n); got {}",
            ob.get_type()
        ))
    };
    match bound("window", ob) {
        Ok(length) => length.map(Window::Time).ok_or_else(wrong),
        Err(error) if error.is_instance_of::<PyTypeError>(ob.py()) => Err(wrong()),
        Err(error) => Err(error),
    }
}
