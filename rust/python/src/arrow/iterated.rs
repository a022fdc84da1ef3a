//! Reads batches from a Python object, one batch ahead of the consumer.

use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use tidegate::{Error, Next, check_call, in_background};

use crate::arrow::import;
use crate::arrow::reader::{BatchReader, BatchStream, HeldInputs, Numbers};
use crate::interpreter::error::{of_python, raise};
use crate::interpreter::threads::{attached, this_thread};

// `rows` has a `schema`, a `__next__` that returns a batch or None, a `stats` that returns a dict,
// and a `close`.
#[doc = manual!(reader_of)]
#[pyfunction]
pub(crate) fn reader_of(rows: Bound<'_, PyAny>, made_by: &str) -> PyResult<BatchReader> {
    let schema = import::schema("the result", &rows.getattr("schema")?)?;
    Ok(BatchReader::new(IteratedBatches::new(rows.unbind(), schema.clone()), schema, made_by))
}

/// The batches, and the thread that produces them.
struct IteratedBatches {
    shared: Arc<ReaderState>,
}

struct ReaderState {
    /// The object whose `__next__` returns batches. `__next__` occasionally returns `None`, so that
    /// this code can notice that the reader has been closed.
    rows: Py<PyAny>,
    schema: SchemaRef,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The most recently produced item: a batch, the end or an error.
    made: Option<tidegate::Result<Option<RecordBatch>>>,
    has_begun: bool,
    closed: bool,
    /// Python's identifier for the thread that produces batches, while that thread is running.
    thread: Option<u64>,
}

impl ReaderState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Produces batches until there are no more, an error occurs, or the reader is closed.
    fn make(&self) {
        loop {
            let mut state = self.state();
            while state.made.is_some() && !state.closed {
                state = self.wait(state);
            }
            if state.closed {
                return;
            }
            drop(state);
            // If the interpreter has shut down, there are no more readers.
            let step = check_call().map(|()| attached(|py| self.step(py)));
            let step = match step {
                Ok(Some(step)) => step,
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let mut state = self.state();
            state.thread = None;
            let made = match step {
                Ok(Step::NotYet) => continue,
                Ok(Step::Batch(batch)) => Ok(Some(batch)),
                Ok(Step::End) => Ok(None),
                Err(error) => Err(error),
            };
            let is_last = !matches!(made, Ok(Some(_)));
            state.made = Some(made);
            drop(state);
            self.changed.notify_all();
            if is_last {
                return;
            }
        }
    }

    fn step(&self, py: Python<'_>) -> tidegate::Result<Step> {
        let step = || {
            let thread = this_thread(py)?;
            self.state().thread = Some(thread);
            let item = self.rows.bind(py).call_method0("__next__")?;
            if item.is_none() {
                return Ok(Step::NotYet);
            }
            let Some(batch) = import::batch("the result", &item)? else { return Ok(Step::NotYet) };
            // Consumers interpret the buffers according to the types that the reader has promised.
            if !has_types(&batch, &self.schema) {
                return Err(raise(Error::bug("a batch has different types from its reader")));
            }
            Ok(Step::Batch(batch))
        };
        step().or_else(|error: PyErr| {
            if error.is_instance_of::<PyStopIteration>(py) {
                Ok(Step::End)
            } else {
                Err(of_python(py, error))
            }
        })
    }
}

fn has_types(batch: &RecordBatch, schema: &SchemaRef) -> bool {
    let (found, promised) = (batch.columns().iter(), schema.fields());
    found.len() == promised.len()
        && found.zip(promised).all(|(column, field)| column.data_type() == field.data_type())
}

enum Step {
    Batch(RecordBatch),
    NotYet,
    End,
}

impl IteratedBatches {
    fn new(rows: Py<PyAny>, schema: SchemaRef) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        IteratedBatches { shared: Arc::new(ReaderState { rows, schema, state, changed }) }
    }
}

impl BatchStream for IteratedBatches {
    fn next_within(&self, patience: Duration) -> tidegate::Result<Next> {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.state();
        if !state.has_begun && !state.closed {
            let shared = self.shared.clone();
            in_background(move || {
                shared.make();
                // Closing the producer removes its temporary files. Otherwise, they are removed
                // when its last reference is dropped.
                check_call().ok()?;
                attached(|py| shared.rows.bind(py).call_method0("close").map(drop).map_err(|_| ()))
            })?;
            state.has_begun = true;
        }
        loop {
            if state.closed {
                return Err(Error::closed("the reader is closed"));
            }
            match state.made.take() {
                Some(Ok(Some(batch))) => {
                    self.shared.changed.notify_all();
                    return Ok(Next::Batch(batch));
                }
                Some(Ok(None)) => {
                    state.made = Some(Ok(None));
                    return Ok(Next::End);
                }
                Some(Err(error)) => {
                    state.made = Some(Err(error.clone()));
                    return Err(error);
                }
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Next::NotYet);
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn stats(&self) -> Numbers {
        let shared = self.shared.clone();
        Box::new(move |py| Ok(shared.rows.bind(py).call_method0("stats")?.cast_into()?))
    }

    fn close(&self) {
        let mut state = self.shared.state();
        state.closed = true;
        let made = state.made.take();
        drop(state);
        self.shared.changed.notify_all();
        // The lock is released first, because dropping the batch may return memory to an owner that
        // accesses this reader.
        drop(made);
    }

    fn held(&self) -> HeldInputs {
        let shared: Arc<dyn Any + Send + Sync> = self.shared.clone();
        Arc::downgrade(&shared)
    }

    fn user_thread(&self) -> Option<u64> {
        self.shared.state().thread
    }

    fn needs_gil(&self) -> bool {
        true
    }
}

impl Drop for IteratedBatches {
    fn drop(&mut self) {
        self.close();
    }
}
