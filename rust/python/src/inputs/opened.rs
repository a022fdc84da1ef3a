//! Inputs of functions: Arrow data, and all else that the Python room `tidegate.io.given` opens,
//! such as files. Of these, a query reads the columns that it needs.

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use tidegate::{Error, Stop};

use crate::arrow::import::{self, Unchecked, is_arrow};
use crate::interpreter::error::raise;
use crate::interpreter::interrupt;
use crate::interpreter::threads::attached;

/// An input whose schema is known.
enum Known<'py> {
    /// Arrow data, which has been read.
    Read(Unchecked),
    /// An open table of Python, whose rows are still to be read.
    Open(SchemaRef, Bound<'py, PyAny>),
}

impl Known<'_> {
    fn schema(&self) -> &SchemaRef {
        match self {
            Known::Read(rows) => rows.schema(),
            Known::Open(schema, _) => schema,
        }
    }
}

/// Reads inputs, each with its name. `needed` tells, of the schemas, which columns of each are
/// read; it is asked only where an input can leave some out.
///
/// One input is read before the next is asked for its stream: an open result of DuckDB keeps its
/// connection from giving another.
pub(crate) fn read(
    inputs: &[(&str, &Bound<'_, PyAny>)],
    stop: &Stop,
    needed: impl FnOnce(&[SchemaRef]) -> tidegate::Result<Vec<Vec<usize>>>,
) -> PyResult<Vec<Unchecked>> {
    let known: Vec<Known<'_>> =
        inputs.iter().map(|(name, ob)| known(name, ob, stop)).collect::<PyResult<_>>()?;
    let needed = if known.iter().all(|known| matches!(known, Known::Read(_))) {
        vec![Vec::new(); known.len()]
    } else {
        let schemas: Vec<SchemaRef> = known.iter().map(|known| known.schema().clone()).collect();
        needed(&schemas).map_err(raise)?
    };
    let mut read = Vec::with_capacity(known.len());
    for ((known, columns), (name, _)) in known.into_iter().zip(needed).zip(inputs) {
        read.push(match known {
            Known::Read(rows) => rows,
            Known::Open(schema, table) => {
                let names = columns.iter().map(|&at| schema.field(at).name().clone());
                read_open(name, &table, names.collect(), stop)?
            }
        });
    }
    Ok(read)
}

/// Reads Arrow data, and asks all else for its schema.
fn known<'py>(name: &str, ob: &Bound<'py, PyAny>, stop: &Stop) -> PyResult<Known<'py>> {
    match opened(name, ob, WHOLE, stop)? {
        None => import::read(name, ob, stop).map(Known::Read),
        Some(table) => Ok(Known::Open(import::schema(name, &table.getattr("schema")?)?, table)),
    }
}

/// Reads the columns of an open table.
fn read_open(
    name: &str,
    table: &Bound<'_, PyAny>,
    columns: Vec<String>,
    stop: &Stop,
) -> PyResult<Unchecked> {
    let open = table.clone().unbind();
    let stream = elsewhere(table.py(), stop, move |py| {
        open.bind(py).call_method1("read", (columns,)).map(Bound::unbind)
    })?;
    import::read(name, stream.bind(table.py()), stop).map_err(|error| {
        // Arrow's C interface hands on the text of an exception alone.
        match table.getattr("failure") {
            Ok(failure) if !failure.is_none() => PyErr::from_value(failure),
            _ => error,
        }
    })
}

/// The input as Arrow data that is read batch by batch.
pub(crate) fn stream<'py>(name: &str, ob: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match opened(name, ob, STREAMED, &Stop::default())? {
        None => Ok(ob.clone()),
        Some(table) => table.call_method0("batches"),
    }
}

/// The schema of an input, or of anything that has one.
pub(crate) fn schema(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    if ob.hasattr("__arrow_c_schema__")? {
        return import::schema(name, ob);
    }
    match opened(name, ob, WHOLE, &Stop::default())? {
        None => import::schema(name, ob),
        Some(table) => import::schema(name, &table.getattr("schema")?),
    }
}

/// Opens an input that is no Arrow data.
fn opened<'py>(
    name: &str,
    ob: &Bound<'py, PyAny>,
    way: &'static str,
    stop: &Stop,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if is_arrow(ob)? {
        return Ok(None);
    }
    let (given, name) = (ob.clone().unbind(), name.to_owned());
    let open = elsewhere(ob.py(), stop, move |py| {
        let room = py.import(ROOM)?;
        room.call_method1("open_table", (given, name, room.getattr(way)?)).map(Bound::unbind)
    })?;
    Ok(Some(open.into_bound(ob.py())))
}

/// The streams that the argument `streams` lists. One input is one stream.
pub(crate) fn listed<'py>(ob: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if !ob.is_instance_of::<PyList>() && !ob.is_instance_of::<PyTuple>() {
        let room = || ob.py().import(ROOM)?.call_method1("is_table", (ob,))?.is_truthy();
        if is_arrow(ob)? || room()? {
            return Ok(vec![ob.clone()]);
        }
    }
    ob.try_iter()
        .map_err(|error| {
            let refused = ob.py().import(ROOM).and_then(|room| {
                room.call_method1("refused", (ob, "streams")).map(PyErr::from_value)
            });
            refused.unwrap_or(error)
        })?
        .collect()
}

/// As [`listed`], but where a path stands alone, each of its files is a stream.
pub(crate) fn listed_files<'py>(
    ob: &Bound<'py, PyAny>,
    way: &'static str,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let is_path = ob.is_instance_of::<PyString>() || ob.hasattr("__fspath__")?;
    if !is_path {
        return listed(ob);
    }
    let given = ob.clone().unbind();
    let files = elsewhere(ob.py(), &Stop::default(), move |py| {
        let room = py.import(ROOM)?;
        room.call_method1("open_files", (given, "streams", room.getattr(way)?)).map(Bound::unbind)
    })?;
    files.bind(ob.py()).try_iter()?.collect()
}

const ROOM: &str = "tidegate.io.given";

/// The names of the two ways to read files: all rows at once, or batch by batch.
pub(crate) const WHOLE: &str = "WHOLE";
pub(crate) const STREAMED: &str = "STREAMED";

/// Runs Python code on another thread, such that Ctrl-C ends the wait for it.
pub(crate) fn elsewhere(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    interrupt::run(py, stop, move || {
        attached(work).ok_or_else(|| Error::closed("the interpreter is shutting down"))
    })?
}
