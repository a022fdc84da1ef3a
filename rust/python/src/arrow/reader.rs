//! The reader that returns the batches of a result.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyType};
use tidegate::{Error, Next, WorkOf};

use crate::arrow::export;
use crate::interpreter::callbacks::waits_for;
use crate::interpreter::error::{of_python, raise};
use crate::interpreter::interrupt::{PATIENCE, check_wait_for, detached, end_calls};
use crate::interpreter::threads::{self, attached, check_call_to, released, this_thread};

/// Statistics about the work so far. The statistics are converted to a dict once the GIL is held
/// again.
pub(crate) type Numbers = Box<dyn FnOnce(Python<'_>) -> PyResult<Bound<'_, PyDict>> + Send>;

/// Batches that are built while they are being read. Threads can share the stream. Only
/// `next_within` can wait for user code, and it does so without holding a lock.
pub(crate) trait BatchStream: Send + Sync {
    /// Returns the next batch if it is available within `patience`.
    fn next_within(&self, patience: Duration) -> tidegate::Result<Next>;

    /// Returns statistics about the work so far.
    fn stats(&self) -> Numbers;

    /// Stops the work. All subsequent reads fail.
    fn close(&self);

    /// Returns a reference that stays alive until this stream is dropped and none of its threads
    /// holds inputs any longer.
    fn held(&self) -> HeldInputs;

    /// Returns the Python identifier of the thread that runs user code to build batches, if there
    /// is one.
    fn user_thread(&self) -> Option<u64> {
        None
    }

    /// Returns whether building a batch may require the GIL.
    fn needs_gil(&self) -> bool {
        false
    }
}

/// A stream that a reader shares with the thread that continues reading.
pub(crate) type SharedStream = Arc<ReaderStream>;

/// The finished batches, preceded by batches that could not be delivered earlier.
pub(crate) struct ReaderStream {
    batches: Box<dyn BatchStream>,
    returned: Mutex<Vec<RecordBatch>>,
}

impl Deref for ReaderStream {
    type Target = dyn BatchStream;

    fn deref(&self) -> &Self::Target {
        &*self.batches
    }
}

impl ReaderStream {
    fn returned(&self) -> MutexGuard<'_, Vec<RecordBatch>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next batch if it is available within `patience`.
    pub(crate) fn next_within(&self, patience: Duration) -> tidegate::Result<Next> {
        let object = self.number();
        check_call_to(object, "reader")?;
        if let Some(batch) = self.returned().pop() {
            return Ok(Next::Batch(batch));
        }
        WorkOf::one(object, || self.batches.next_within(patience))
    }

    /// Returns a batch. If returning it fails, the batch is kept for the next read. Returning a
    /// batch can run Python code, in which a signal handler can raise an exception. A signal that
    /// has arrived in the meantime is reported here, before a batch can be lost.
    fn hand_out<'py>(
        &self,
        py: Python<'py>,
        batch: RecordBatch,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let handed_out = export::batch(py, batch.clone());
        let handed_out = handed_out.and_then(|handed_out| py.check_signals().map(|()| handed_out));
        if handed_out.is_err() {
            self.returned().push(batch);
        }
        handed_out.map(Some)
    }

    /// Returns the number that identifies this reader in [`WorkOf`].
    fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn close(&self) {
        let returned = std::mem::take(&mut *self.returned());
        // Drop the batches without holding the lock. Their memory may belong to another library,
        // which may run Python code.
        drop(returned);
        self.batches.close();
    }
}

/// A reference that stays alive as long as threads hold inputs.
pub(crate) type HeldInputs = Weak<dyn Any + Send + Sync>;

/// An open stream: the process that owns its threads, the stream itself, and a reference that stays
/// alive while these threads hold inputs.
type OpenStream = (u32, Weak<ReaderStream>, HeldInputs);

/// Streams that may have running threads.
static OPEN: Mutex<Vec<OpenStream>> = Mutex::new(Vec::new());

/// Ends all readers, and all calls that continue after Ctrl-C, before the interpreter shuts down.
///
/// A thread that drops an input after that point could request the GIL, for example to return
/// memory to NumPy. Python would then terminate the thread, which by C++ rules aborts the entire
/// process. This function waits as long as threads are computing, even if they are slow because the
/// machine is busy. The wait ends soon after all threads become inactive, because a thread may be
/// sleeping in user code.
#[pyfunction]
pub(crate) fn end_readers(py: Python<'_>) -> PyResult<()> {
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    let here = open.into_iter().filter(|(process, ..)| *process == std::process::id());
    let readers: Vec<(Weak<ReaderStream>, HeldInputs)> =
        here.map(|(_, reader, held)| (reader, held)).collect();
    let calls = end_calls();
    released(py, || {
        readers.iter().filter_map(|(reader, _)| reader.upgrade()).for_each(|reader| reader.close())
    });
    // A stream whose reader still exists is also kept alive by that reader.
    let own = |reader: &Weak<ReaderStream>| usize::from(reader.strong_count() > 0);
    let is_at_work = || {
        let mut readers = readers.iter();
        readers.any(|(reader, held)| held.strong_count() > own(reader))
            || calls.iter().any(|call| call.strong_count() > 0)
    };
    let mut patience = Patience::new(py)?;
    while is_at_work() && !patience.is_out()? {
        released(py, || std::thread::sleep(Duration::from_millis(1)));
        py.check_signals()?;
    }
    let mut patience = Patience::new(py)?;
    threads::end(py, || patience.is_out().map(|is_out| !is_out))
}

/// Limits how long the interpreter's shutdown waits for other threads.
struct Patience<'py> {
    time: Bound<'py, PyModule>,
    begun: Instant,
    /// The last time other threads were seen computing, and the processor time, in seconds, that
    /// they had used by then.
    moved: Instant,
    computed: f64,
}

impl<'py> Patience<'py> {
    /// The maximum time for which all other threads can be inactive.
    const STILL: Duration = Duration::from_secs(2);

    /// The maximum time for which other threads can compute. A maximum is needed because a user's
    /// thread may never end.
    const MOST: Duration = Duration::from_secs(60);

    fn new(py: Python<'py>) -> PyResult<Self> {
        let now = Instant::now();
        let mut patience =
            Patience { time: py.import("time")?, begun: now, moved: now, computed: 0.0 };
        patience.computed = patience.seconds()?;
        Ok(patience)
    }

    /// Returns the processor time of all threads except this one.
    fn seconds(&self) -> PyResult<f64> {
        let clock = |name| self.time.call_method0(name)?.extract::<f64>();
        Ok(clock("process_time")? - clock("thread_time")?)
    }

    fn is_out(&mut self) -> PyResult<bool> {
        // Smaller differences may result from comparing two clocks.
        const LEAST: f64 = 1e-4;
        let seconds = self.seconds()?;
        if seconds > self.computed + LEAST {
            (self.moved, self.computed) = (Instant::now(), seconds);
        }
        Ok(self.moved.elapsed() > Self::STILL || self.begun.elapsed() > Self::MOST)
    }
}

#[doc = manual!(BatchReader)]
#[pyclass(frozen, generic, module = "tidegate")]
pub(crate) struct BatchReader {
    batches: SharedStream,
    schema: SchemaRef,
    /// The name of the function that created the reader.
    made_by: Box<str>,
    /// The process that the reader's threads belong to.
    process: u32,
}

impl BatchReader {
    pub(crate) fn new(
        batches: impl BatchStream + 'static,
        schema: SchemaRef,
        made_by: &str,
    ) -> Self {
        let stream = ReaderStream { batches: Box::new(batches), returned: Mutex::default() };
        let (batches, process) = (Arc::new(stream), std::process::id());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(.., held)| held.strong_count() > 0);
        open.push((process, Arc::downgrade(&batches), batches.held()));
        drop(open);
        BatchReader { batches, schema, made_by: made_by.into(), process }
    }

    /// Returns the stream and its schema, so that another call can continue reading.
    pub(crate) fn shared(&self) -> PyResult<(SharedStream, SchemaRef)> {
        self.check_process()?;
        Ok((self.batches.clone(), self.schema.clone()))
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let made_by = &self.made_by;
        Err(raise(Error::closed(format!(
            "this reader was created before the process forked; call {made_by} in the child process"
        ))))
    }
}

/// Returns an error if the user code that `batches` waits for is itself waiting for the thread
/// `caller`. The thread `caller` waits for a batch, so neither the thread nor the user code could
/// continue.
fn check_wait(py: Python<'_>, batches: &dyn BatchStream, caller: u64) -> PyResult<()> {
    let Some(user) = batches.user_thread() else { return Ok(()) };
    if !waits_for(py, user, caller)? {
        return Ok(());
    }
    Err(raise(Error::argument(
        "one of this reader's streams waits for this read, directly or through a thread or future; \
         call the reader from code outside the stream",
    )))
}

/// Waits for the next batch without a time limit and without the GIL, for the thread `caller` if it
/// is known. Checks `go_on` in the meantime.
pub(crate) fn next(
    batches: &ReaderStream,
    caller: Option<u64>,
    go_on: impl Fn() -> tidegate::Result<()>,
) -> tidegate::Result<Option<RecordBatch>> {
    loop {
        match batches.next_within(PATIENCE)? {
            Next::Batch(batch) => return Ok(Some(batch)),
            Next::End => return Ok(None),
            Next::NotYet => {}
        }
        go_on()?;
        if let Some(caller) = caller
            && batches.user_thread().is_some()
        {
            // `None` means that Python has shut down, so no thread is waiting any more.
            let checked = attached(|py| {
                check_wait(py, &**batches, caller)
                    .map_err(|error| Error::argument(error.value(py).to_string()))
            });
            checked.unwrap_or(Ok(()))?;
        }
    }
}

#[pymethods]
impl BatchReader {
    #[doc = manual!(BatchReader.schema)]
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema(py, &self.schema)
    }

    #[doc = manual!(BatchReader.stats)]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_process()?;
        // Release the GIL, because a thread that is about to release a lock may need it.
        let numbers = released(py, || self.batches.stats());
        numbers(py)
    }

    #[doc = manual!(BatchReader.close)]
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_process()?;
        released(py, || self.batches.close());
        Ok(())
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.check_process()?;
        loop {
            // Report a pending signal before a batch is taken, rather than while the batch is
            // returned.
            py.check_signals()?;
            match detached(py, || self.batches.next_within(PATIENCE))? {
                Next::Batch(batch) => return self.batches.hand_out(py, batch),
                Next::End => return Ok(None),
                Next::NotYet => {}
            }
            check_wait_for(py, self.batches.number(), "reader")?;
            if self.batches.user_thread().is_some() {
                check_wait(py, &**self.batches, this_thread(py)?)?;
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
        let (reader, signals) = (self.batches.clone(), Signals::new(py)?);
        let batches = std::iter::from_fn(move || {
            // The consumer is C code, which a panic must not reach.
            let next = || next_for_c(&reader, &signals);
            let batch = std::panic::catch_unwind(std::panic::AssertUnwindSafe(next));
            let batch =
                batch.unwrap_or_else(|panic| Err(Error::from_panic(&*panic))).transpose()?;
            Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
        });
        export::stream(py, batches, self.schema.clone(), requested_schema.as_ref())
    }
}

/// Returns the next batch for C code that may hold the GIL. The GIL is released if threads may need
/// it to build the batch.
fn next_for_c(batches: &ReaderStream, signals: &Signals) -> tidegate::Result<Option<RecordBatch>> {
    signals.look()?;
    let go_on = || signals.look();
    if !batches.needs_gil() {
        return next(batches, None, go_on);
    }
    let attached = attached(|py| {
        let caller = this_thread(py).map_err(|error| Error::bug(error.to_string()))?;
        released(py, || next(batches, Some(caller), go_on))
    });
    attached.unwrap_or_else(|| Err(Error::closed("the interpreter is shutting down")))
}

/// Checks for signals while C code reads, because the C code itself does not check.
struct Signals {
    /// Python's main thread, if that thread requested the stream; no other thread can check for
    /// signals.
    main: Option<ThreadId>,
    looked: Mutex<Instant>,
}

impl Signals {
    fn new(py: Python<'_>) -> PyResult<Self> {
        let main = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?;
        let is_main = main.extract::<Option<u64>>()? == Some(this_thread(py)?);
        let main = is_main.then(|| std::thread::current().id());
        Ok(Signals { main, looked: Mutex::new(Instant::now()) })
    }

    /// Returns an error if a signal handler raises an exception on the main thread. The C code
    /// converts this error to a different one.
    fn look(&self) -> tidegate::Result<()> {
        if self.main != Some(std::thread::current().id()) {
            return Ok(());
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.elapsed() < PATIENCE {
            return Ok(());
        }
        *looked = Instant::now();
        drop(looked);
        let looked = attached(|py| {
            let Err(raised) = py.check_signals() else { return Ok(()) };
            if !raised.is_instance_of::<PyKeyboardInterrupt>(py) {
                return Err(of_python(py, raised));
            }
            Err(Error::stopped("the read was interrupted"))
        });
        looked.unwrap_or(Ok(()))
    }
}
