//! Arrow's capsules. Only the code in this file relies on pointers from Python.
//!
//! `tidegate-import` checks everything that can be checked in the structure behind the pointer.

#![allow(unsafe_code, reason = "a capsule is a pointer")]

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate::{Error, shown};
use tidegate_import::{UnopenedStream, UnreadBatch};

use crate::interpreter::error::{error, raise};
use crate::interpreter::threads::calling;

/// Returns the stream that an object exports through `__arrow_c_stream__`. Messages call the object
/// `name`.
pub(crate) fn stream(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<UnopenedStream> {
    const METHOD: &str = "__arrow_c_stream__";
    let capsule = call(name, ob, || ob.call_method0(METHOD))?;
    let pointer = pointer(name, METHOD, &capsule, c"arrow_array_stream")?;
    // SAFETY: a capsule with this name holds a stream, which the consumer is allowed to take (Arrow
    // PyCapsule interface). This thread holds the GIL, or the capsule's other users synchronize
    // with it as that interface requires.
    imported(name, || unsafe { UnopenedStream::take(pointer) })
}

/// Returns the rows that an object exports through `__arrow_c_array__`.
pub(crate) fn batch(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<UnreadBatch> {
    const METHOD: &str = "__arrow_c_array__";
    let capsules = call(name, ob, || ob.call_method0(METHOD))?;
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
        capsules.extract().map_err(|_| no_capsule(name, METHOD, &capsules))?;
    let schema = pointer(name, METHOD, &schema, c"arrow_schema")?;
    let array = pointer(name, METHOD, &array, c"arrow_array")?;
    // SAFETY: capsules with these names hold a schema and an array. The consumer is allowed to take
    // the array. Both stay valid until this call returns. Any thread may release the array.
    imported(name, || unsafe { UnreadBatch::take(schema, array) })
}

/// Returns the schema that an object exports through `__arrow_c_schema__`.
pub(crate) fn schema(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    let capsule = call(name, ob, || ob.call_method0("__arrow_c_schema__"))?;
    let pointer = pointer(name, "__arrow_c_schema__", &capsule, c"arrow_schema")?;
    // SAFETY: a capsule with this name holds a schema, which stays valid until this call returns.
    imported(name, || unsafe { tidegate_import::schema(pointer) })
}

/// Returns the schema that a consumer of rows requests.
pub(crate) fn requested_schema(capsule: &Bound<'_, PyCapsule>) -> PyResult<SchemaRef> {
    let pointer = capsule.pointer_checked(Some(c"arrow_schema")).map_err(|_| {
        PyTypeError::new_err("requested_schema: expected a capsule that is an `arrow_schema`")
    })?;
    // SAFETY: the reason is the same as in `schema`.
    imported("requested_schema", || unsafe { tidegate_import::schema(pointer.cast()) })
}

/// Rejects a polars frame or schema that has a column of Python objects. Otherwise, polars would
/// export the addresses of Python objects as if they were values.
fn refuse_objects(name: &str, ob: &Bound<'_, PyAny>) -> PyResult<()> {
    if !ob.get_type().module()?.to_str()?.starts_with("polars.") {
        return Ok(());
    }
    calling(ob.py(), || {
        let schema = ob.getattr_opt("schema")?.unwrap_or_else(|| ob.clone());
        if !schema.hasattr("items")? {
            return Ok(());
        }
        for item in schema.call_method0("items")?.try_iter()? {
            let (column, data_type): (String, Bound<'_, PyAny>) = item?.extract()?;
            if data_type.str()? == "Object" {
                return Err(raise(Error::schema(format!(
                    "{name}: column `{}` contains Python objects (polars type Object), for which \
                     Arrow has no type; convert it to another type, or remove it with .drop()",
                    shown(&column)
                ))));
            }
        }
        Ok(())
    })
}

/// Calls `export`, which returns Arrow capsules for `ob`. Errors from pyarrow are converted to
/// errors that name the argument.
fn call<'py>(
    name: &str,
    ob: &Bound<'py, PyAny>,
    export: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    refuse_objects(name, ob)?;
    let py = ob.py();
    calling(py, export).map_err(|error| {
        let module = error.get_type(py).module();
        if !module.is_ok_and(|module| module.to_string_lossy().starts_with("pyarrow")) {
            return error;
        }
        let text = format!("{name}: {} returned no Arrow data: {}", ob.get_type(), error.value(py));
        let raised = raise(Error::schema(text));
        raised.set_cause(py, Some(error));
        raised
    })
}

fn no_capsule(name: &str, method: &str, got: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{name}: {method}() returned {}, not an Arrow capsule",
        got.get_type()
    ))
}

fn pointer<T>(
    name: &str,
    method: &str,
    ob: &Bound<'_, PyAny>,
    kind: &CStr,
) -> PyResult<NonNull<T>> {
    let capsule = ob.cast::<PyCapsule>().map_err(|_| no_capsule(name, method, ob))?;
    capsule.pointer_checked(Some(kind)).map(NonNull::cast).map_err(|_| {
        let kind = kind.to_string_lossy();
        raise(Error::schema(format!(
            "{name}: {method}() returned a capsule that is not a `{kind}`"
        )))
    })
}

/// Calls `import` and returns its result. A panic is converted to an error.
fn imported<T>(name: &str, import: impl FnOnce() -> tidegate_import::Result<T>) -> PyResult<T> {
    let imported = catch_unwind(AssertUnwindSafe(import))
        .map_err(|panic| raise(Error::from_panic(&*panic)))?;
    imported.map_err(|failure| raise(error(name, failure)))
}
