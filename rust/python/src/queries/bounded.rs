//! Calls with a `memory_limit`: the Python room `tidegate.bounded` makes their batches, on a thread
//! of its own.

use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tidegate::{Error, Next, Stop, check_call, in_background};

use crate::arrow::import;
use crate::arrow::reader::{BatchReader, BatchStream, Held, Numbers};
use crate::inputs::arguments::{Given, bytes};
use crate::inputs::opened::elsewhere;
use crate::interpreter::error::{of_python, raise};
use crate::interpreter::threads::{attached, calling, this_thread};
use crate::queries::plan::JoinPlan;
use crate::queries::tables::{self, Query};

pub(crate) const ROOM: &str = "tidegate.bounded";

/// The arguments `memory_limit` and `lateness`, as they came.
pub(crate) struct Limits<'a, 'py> {
    pub(crate) memory_limit: Option<Given<'a, 'py>>,
    pub(crate) lateness: Option<Given<'a, 'py>>,
}

impl Limits<'_, '_> {
    /// The bytes, if there is a limit. A `lateness` has no meaning without.
    pub(crate) fn read(&self) -> PyResult<Option<usize>> {
        let limit = bytes("memory_limit", self.memory_limit)?;
        if limit.is_none() && self.lateness.is_some() {
            return Err(raise(Error::argument(
                "lateness: rows may be in any order where there is no memory_limit; leave lateness \
                 out, or give memory_limit, such as memory_limit=\"2GB\"",
            )));
        }
        Ok(limit)
    }
}

/// A call with a limit, whose arguments have been checked.
pub(crate) struct Call<'a, 'py> {
    /// The function, by the name under which it makes batches.
    pub(crate) batches: &'static str,
    pub(crate) inputs: Bound<'py, PyTuple>,
    pub(crate) limit: usize,
    pub(crate) lateness: Option<Given<'a, 'py>>,
    /// All other arguments, by their names.
    pub(crate) arguments: Bound<'py, PyDict>,
}

impl Call<'_, '_> {
    /// Begins the work of the function `opener` of the room.
    pub(crate) fn open(self, opener: &'static str, share: f64) -> PyResult<BatchReader> {
        let py = self.arguments.py();
        let batches = self.batches;
        let lateness = self.lateness.map(|lateness| lateness.clone().unbind());
        let limit = (self.limit as f64 * share) as usize;
        let (inputs, arguments) = (self.inputs.unbind(), self.arguments.unbind());
        let rows = elsewhere(py, &Stop::default(), move |py| {
            let given = (batches, inputs, limit, lateness, arguments);
            py.import(ROOM)?.call_method1(opener, given).map(Bound::unbind)
        })?;
        let schema = import::schema("the result", &rows.bind(py).getattr("schema")?)?;
        Ok(BatchReader::new(Made::new(rows), schema, batches))
    }

    /// All batches as one table, which may have half of the limit.
    pub(crate) fn table<'py>(
        self,
        py: Python<'py>,
        opener: &'static str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (limit, batches) = (self.limit, self.batches);
        let reader = self.open(opener, 0.5)?;
        calling(py, || py.import(ROOM)?.call_method1("table", (reader, limit, batches)))
    }
}

/// Joins two inputs and returns the result as a `pyarrow.Table`.
pub(crate) fn to_table<'py>(
    py: Python<'py>,
    call: Call<'_, 'py>,
    _query: impl Query,
) -> PyResult<Bound<'py, PyAny>> {
    call.table(py, "joined")
}

/// Joins two inputs and returns a reader of the result's batches.
pub(crate) fn to_reader<'py>(
    _py: Python<'py>,
    call: Call<'_, 'py>,
    _query: impl Query,
) -> PyResult<BatchReader> {
    call.open("joined", 1.0)
}

/// The plan of the join of two inputs, with a line on the limit.
pub(crate) fn to_plan<'py>(
    py: Python<'py>,
    call: Call<'_, 'py>,
    query: impl Query,
) -> PyResult<JoinPlan> {
    let (left, right) = (call.inputs.get_item(0)?, call.inputs.get_item(1)?);
    let limit = call.limit;
    Ok(tables::to_plan(py, &left, &right, query)?.with_line(&format!(
        "  limit      {limit} bytes: rows by time, slice by slice of left rows with the right rows \
         in their reach; an input that is not known to be in order is sorted in temporary files"
    )))
}

/// The batches that an object of the room makes, a batch ahead of who reads.
pub(crate) struct Made {
    shared: Arc<Shared>,
}

struct Shared {
    /// Gives batches by `__next__`, and None from time to time, so that a closed reader is noticed.
    rows: Py<PyAny>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What was made last: a batch, the end or an error.
    made: Option<tidegate::Result<Option<RecordBatch>>>,
    has_begun: bool,
    closed: bool,
    /// The thread that makes batches, by Python's number, while it does.
    thread: Option<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes batches until the end, an error, or the reader is closed.
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
            // There is nobody who reads where there is no Python any more.
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
            Ok(import::batch("the result", &item)?.map_or(Step::NotYet, Step::Batch))
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

enum Step {
    Batch(RecordBatch),
    NotYet,
    End,
}

impl Made {
    pub(crate) fn new(rows: Py<PyAny>) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Made { shared: Arc::new(Shared { rows, state, changed }) }
    }
}

impl BatchStream for Made {
    fn next_within(&self, patience: Duration) -> tidegate::Result<Next> {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.state();
        if !state.has_begun && !state.closed {
            let shared = self.shared.clone();
            in_background(move || {
                shared.make();
                // Temporary files go with what makes the batches, now or with its last reference.
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
        // Without the lock, for memory may be given back to an owner who looks at this.
        drop(made);
    }

    fn held(&self) -> Held {
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

impl Drop for Made {
    fn drop(&mut self) {
        self.close();
    }
}
