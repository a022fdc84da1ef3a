//! The reader of a result's batches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, Field, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyType};
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};
use pyo3_arrow::{PyRecordBatch, PySchema};
use tidegate::{Error, Next};

use crate::error::raise;
use crate::interrupt::{PATIENCE, detached};

/// Numbers that describe the work so far, which become a dict once the GIL is held again.
pub(crate) type Numbers = Box<dyn FnOnce(Python<'_>) -> PyResult<Bound<'_, PyDict>> + Send>;

/// Batches that are made while they are read.
pub(crate) trait BatchStream: Send {
    /// The next batch, if it comes within `patience`.
    fn next_within(&mut self, patience: Duration) -> tidegate::Result<Next>;

    /// Numbers that describe the work so far.
    fn stats(&self) -> Numbers;

    /// Ends the work; reads fail from now on.
    fn close(&mut self);

    /// As [`close`](Self::close), and waits for threads that still hold inputs, if there are any.
    fn end(&mut self) {
        self.close();
    }
}

/// A reader and the process that its threads belong to.
type Open = (u32, Weak<Mutex<dyn BatchStream>>);

/// Readers that may have threads.
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// Ends all readers before the interpreter does.
///
/// A thread that dropped an input later would ask for the GIL, to give memory back to NumPy, say; it would be ended in
/// the middle of that, and with it, by C++'s rules, the process.
#[pyfunction]
pub(crate) fn end_readers(py: Python<'_>) {
    py.detach(|| {
        let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
        let here = open.into_iter().filter(|(process, _)| *process == std::process::id());
        here.filter_map(|(_, reader)| reader.upgrade()).for_each(|reader| lock(&reader).end());
    });
}

/// Read the record batches of a result, in order.
#[pyclass(frozen, generic, module = "tidegate")]
pub(crate) struct BatchReader {
    batches: Arc<Mutex<dyn BatchStream>>,
    schema: SchemaRef,
    /// The function that made the reader.
    made_by: &'static str,
    /// The process that the reader's threads belong to.
    process: u32,
}

impl BatchReader {
    pub(crate) fn new(batches: impl BatchStream + 'static, schema: SchemaRef, made_by: &'static str) -> Self {
        let (batches, process): (Arc<Mutex<dyn BatchStream>>, _) = (Arc::new(Mutex::new(batches)), std::process::id());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, reader)| reader.strong_count() > 0);
        open.push((process, Arc::downgrade(&batches)));
        drop(open);
        BatchReader { batches, schema, made_by, process }
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let made_by = self.made_by;
        Err(raise(Error::closed(format!(
            "this reader was made before the process forked; call {made_by} in the child"
        ))))
    }
}

/// The reader, which stays whole if a call panics.
fn lock<'a>(batches: &'a Mutex<dyn BatchStream>) -> MutexGuard<'a, dyn BatchStream + 'static> {
    batches.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the next batch as long as it takes.
fn next(batches: &Mutex<dyn BatchStream>) -> tidegate::Result<Option<RecordBatch>> {
    loop {
        match lock(batches).next_within(PATIENCE)? {
            Next::Batch(batch) => return Ok(Some(batch)),
            Next::End => return Ok(None),
            Next::NotYet => {}
        }
    }
}

#[pymethods]
impl BatchReader {
    /// The schema of every batch, a `pyarrow.Schema`.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PySchema::new(self.schema.clone()).into_pyarrow(py)
    }

    /// Return numbers that describe the work so far.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_process()?;
        // Taken without the GIL, since a reader that works holds the lock.
        let numbers = py.detach(|| lock(&self.batches).stats());
        numbers(py)
    }

    /// End the work and drop the batches that were made ahead.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        py.detach(|| lock(&self.batches).close());
        Ok(())
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.check_process()?;
        loop {
            match detached(py, || lock(&self.batches).next_within(PATIENCE))? {
                Next::Batch(batch) => return PyRecordBatch::new(batch).into_pyarrow(py).map(Some),
                Next::End => return Ok(None),
                Next::NotYet => py.check_signals()?,
            }
        }
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

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.check_process()?;
        let reader = self.batches.clone();
        let batches = std::iter::from_fn(move || {
            // The consumer is C code, which a panic must not reach.
            let batch = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| next(&reader)));
            let batch = batch.unwrap_or_else(|panic| Err(Error::from_panic(&*panic))).transpose()?;
            let array = batch.map(|batch| Arc::new(StructArray::from(batch)) as ArrayRef);
            Some(array.map_err(|error| ArrowError::ExternalError(Box::new(error))))
        });
        let field =
            Field::new_struct("", self.schema.fields().clone(), false).with_metadata(self.schema.metadata().clone());
        let stream = ArrayIterator::new(batches, Arc::new(field));
        Ok(to_stream_pycapsule(py, Box::new(stream), requested_schema)?)
    }
}
