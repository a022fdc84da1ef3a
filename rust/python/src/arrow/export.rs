//! Exports Arrow data as pyarrow objects, or as streams for any consumer.
//!
//! pyarrow takes ownership of the data when it imports an object that implements Arrow's PyCapsule
//! interface. The classes in this file implement only that interface. Each object is used for a
//! single call to pyarrow.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, StructArray};
use arrow_cast::display::FormatOptions;
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tidegate::Error;

use crate::arrow::capsule;
use crate::interpreter::error::raise;
use crate::interpreter::threads::calling;

/// A `pyarrow.Field`.
pub(crate) fn field<'py>(py: Python<'py>, field: &Field) -> PyResult<Bound<'py, PyAny>> {
    let exported = FFI_ArrowSchema::try_from(field).map_err(failed)?;
    pyarrow("field", &exported_schema(py, exported)?)
}

/// A `pyarrow.Schema`.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyAny>> {
    let exported = FFI_ArrowSchema::try_from(schema).map_err(failed)?;
    pyarrow("schema", &exported_schema(py, exported)?)
}

/// A `pyarrow.RecordBatch`.
pub(crate) fn batch(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyAny>> {
    pyarrow("record_batch", Bound::new(py, ExportedBatch { batch })?.as_any())
}

/// A `pyarrow.Table`.
pub(crate) fn table(
    py: Python<'_>,
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
) -> PyResult<Bound<'_, PyAny>> {
    // The consumer interprets the memory of each batch according to the types of the table.
    let fits =
        |batch: &RecordBatch| structure(batch.schema_ref()).equals_datatype(&structure(&schema));
    if !batches.iter().all(fits) {
        return Err(raise(Error::bug("the batches of a table have the table's types")));
    }
    let exported = Bound::new(py, ExportedTable { batches, schema })?;
    // The function `pyarrow.table` would import pandas, which takes longer than most calls.
    calling(py, || {
        let reader = py.import("pyarrow")?.getattr("RecordBatchReader")?;
        reader.call_method1("from_stream", (exported,))?.call_method0("read_all")
    })
}

/// Returns a stream of batches with this schema. The batches are cast to the types that the
/// consumer requests, if possible.
pub(crate) fn stream<'py>(
    py: Python<'py>,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    schema: SchemaRef,
    requested_schema: Option<&Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let shape = Shape::new(schema, requested_schema)?;
    let schema = shape.schema.clone();
    let batches = batches.map(move |batch| shape.of(batch?));
    let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(batches, schema)));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// Calls a pyarrow function with an exported object.
fn pyarrow<'py>(function: &str, exported: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = exported.py();
    calling(py, || py.import("pyarrow")?.call_method1(function, (exported,)))
}

fn schema_capsule(py: Python<'_>, schema: FFI_ArrowSchema) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

fn exported_schema(py: Python<'_>, schema: FFI_ArrowSchema) -> PyResult<Bound<'_, PyAny>> {
    let capsule = schema_capsule(py, schema)?.unbind();
    Ok(Bound::new(py, ExportedSchema { capsule })?.into_any())
}

fn structure(schema: &Schema) -> DataType {
    DataType::Struct(schema.fields().clone())
}

/// Converts an error from arrow-rs. Either a type cannot be exported, or a cast fails although
/// arrow-rs reported that it was possible.
fn failed(error: ArrowError) -> PyErr {
    raise(Error::data(error.to_string()))
}

/// The schema of exported batches.
struct Shape {
    schema: SchemaRef,
    /// The types to cast the batches to, if the consumer requested other types.
    cast_to: Option<DataType>,
}

impl Shape {
    /// Uses the requested schema or, if the batches cannot be cast, their own schema, as Arrow's
    /// PyCapsule interface specifies.
    fn new(schema: SchemaRef, requested: Option<&Bound<'_, PyCapsule>>) -> PyResult<Self> {
        let Some(requested) = requested.map(capsule::requested_schema).transpose()? else {
            return Ok(Shape { schema, cast_to: None });
        };
        let types = structure(&requested);
        if !can_cast_types(&structure(&schema), &types) {
            return Ok(Shape { schema, cast_to: None });
        }
        let wanted =
            Schema::new_with_metadata(requested.fields().clone(), schema.metadata().clone());
        Ok(Shape { schema: Arc::new(wanted), cast_to: Some(types) })
    }

    fn of(&self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let Some(types) = &self.cast_to else { return Ok(batch) };
        // Values that do not fit cause an error, whereas Arrow would replace them with nulls by
        // default.
        let exact = CastOptions { safe: false, format_options: FormatOptions::new() };
        Ok(cast_with_options(&StructArray::from(batch), types, &exact)?.as_struct().into())
    }
}

#[pyclass(frozen, module = "tidegate")]
struct ExportedSchema {
    capsule: Py<PyCapsule>,
}

#[pymethods]
impl ExportedSchema {
    fn __arrow_c_schema__(&self, py: Python<'_>) -> Py<PyCapsule> {
        self.capsule.clone_ref(py)
    }
}

#[pyclass(frozen, module = "tidegate")]
struct ExportedBatch {
    batch: RecordBatch,
}

#[pymethods]
impl ExportedBatch {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let shape = Shape::new(self.batch.schema(), requested_schema.as_ref())?;
        let schema = FFI_ArrowSchema::try_from(&*shape.schema).map_err(failed)?;
        let rows = StructArray::from(shape.of(self.batch.clone()).map_err(failed)?);
        let array = FFI_ArrowArray::new(&rows.into_data());
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((schema_capsule(py, schema)?, array))
    }
}

#[pyclass(frozen, module = "tidegate")]
struct ExportedTable {
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
}

#[pymethods]
impl ExportedTable {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = self.batches.clone().into_iter().map(Ok);
        stream(py, batches, self.schema.clone(), requested_schema.as_ref())
    }
}
