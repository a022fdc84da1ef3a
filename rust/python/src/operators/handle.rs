//! The Python object for a streaming operator. The object controls concurrent use and allows Ctrl-C
//! to interrupt a call.
//!
//! A call waits until the operator is free. Work that takes only milliseconds is then done on the
//! caller's thread. Longer work is done by one of the operator's threads while the call checks for
//! signals. If a signal handler raises an exception, the call asks the work to pause and returns
//! immediately. The work continues until the end of its step, or until the next point where it can
//! pause. The results are kept, so nothing is lost, and the next call resumes the work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use pyo3::prelude::*;
use tidegate::stream::{DriverWork, News, Operator, Poll, ResultReader};
use tidegate::{Driver, Error, Result, Stop, WorkOf};

use crate::arrow::export;
use crate::interpreter::callbacks;
use crate::interpreter::error::raise;
use crate::interpreter::interrupt::{PATIENCE, check_wait_for, run_on};
use crate::interpreter::threads::{check_call_to, released};

/// If other rows wait this long for a silent source, a warning is logged.
const SILENCE: Duration = Duration::from_secs(10);

/// Once the shared value is free, passes it to `work` on this thread, without the GIL. Intended for
/// work that takes only milliseconds.
pub(crate) fn briefly<T: Send + 'static, R: Send>(
    py: Python<'_>,
    shared: &Arc<Mutex<T>>,
    name: &str,
    work: impl FnOnce(&mut T) -> Result<R> + Send,
) -> PyResult<R> {
    let object = number_of(shared);
    check_call_to(object, name).map_err(raise)?;
    let mut work = Some(work);
    loop {
        let done = released(py, || {
            let mut guard = shared.try_lock_for(PATIENCE)?;
            let work = work.take().expect("it is called once");
            let work = || WorkOf::one(object, || work(&mut guard));
            Some(catch_unwind(AssertUnwindSafe(work)))
        });
        if let Some(outcome) = done {
            return outcome.unwrap_or_else(|panic| Err(Error::from_panic(&*panic))).map_err(raise);
        }
        py.check_signals()?;
        check_wait_for(py, object, name)?;
    }
}

/// Calls `work` with the shared value once its lock is free, or returns an error if `stop` is
/// requested first.
pub(crate) fn in_turn<T, R>(
    shared: &Mutex<T>,
    stop: &Stop,
    work: impl FnOnce(&mut T) -> Result<R>,
) -> Result<R> {
    loop {
        if let Some(mut guard) = shared.try_lock_for(PATIENCE) {
            return work(&mut guard);
        }
        if stop.is_requested() {
            return Err(Error::stopped("the call was stopped before it could start"));
        }
    }
}

/// Returns the number that identifies a shared value in [`WorkOf`].
pub(crate) fn number_of<T>(shared: &Arc<Mutex<T>>) -> usize {
    Arc::as_ptr(shared).addr()
}

/// The shared state of an operator's Python objects.
pub(crate) struct Handle {
    operator: Arc<Mutex<Operator>>,
    driver: Driver,
    news: Arc<News>,
    /// Asks a running poll to pause.
    polling: Mutex<Stop>,
    process: u32,
    /// The name of the operator.
    name: &'static str,
    /// The time of the last check for silent sources.
    looked: Mutex<Instant>,
    /// The reader to which this handle belongs, if any.
    reader: Option<Arc<ResultReader>>,
}

impl Handle {
    pub(crate) fn new(operator: Operator) -> Self {
        Handle {
            driver: operator.driver(),
            news: operator.news(),
            polling: Mutex::default(),
            process: std::process::id(),
            name: operator.name(),
            operator: Arc::new(Mutex::new(operator)),
            looked: Mutex::new(Instant::now()),
            reader: None,
        }
    }

    /// Returns a handle for another reader of the operator.
    pub(crate) fn reader(&self, py: Python<'_>) -> PyResult<Handle> {
        let reader = self.briefly(py, Operator::reader)?;
        Ok(Handle {
            operator: self.operator.clone(),
            driver: self.driver.clone(),
            news: self.news.clone(),
            polling: Mutex::default(),
            process: self.process,
            name: self.name,
            looked: Mutex::new(Instant::now()),
            reader: Some(Arc::new(reader)),
        })
    }

    /// Closes the reader to which this handle belongs.
    pub(crate) fn close_reader(&self) -> PyResult<()> {
        self.check()?;
        self.reader.iter().for_each(|reader| reader.close());
        Ok(())
    }

    /// Describes what would be lost if the operator were dropped now. Returns `None` if nothing
    /// would be lost, or if another thread is using the operator.
    pub(crate) fn lost(&self) -> Option<String> {
        if self.process != std::process::id() {
            return None;
        }
        let operator = self.operator.try_lock()?;
        let (mut open, mut rows) = (0, 0);
        for source in operator.sources() {
            let stats = source.try_lock()?.stats();
            open += usize::from(!stats.closed && stats.abandoned.is_none());
            rows += stats.rows_in;
        }
        let (name, all) = (self.name, operator.sources().len());
        (open > 0 && rows > 0).then(|| {
            format!(
                "a {name} was dropped while {open} of its {all} sources were open, so results of \
                 the {rows} pushed rows may be missing; close the sources and poll to the end, or \
                 call close() of the {name}"
            )
        })
    }

    /// Logs an occasional warning about a source that holds up the others.
    fn look_for_silence(&self, py: Python<'_>) {
        let mut looked = self.looked.lock();
        if looked.elapsed() < SILENCE {
            return;
        }
        *looked = Instant::now();
        drop(looked);
        let waiting =
            released(py, || self.operator.try_lock().and_then(|held| held.stats().waiting));
        if let Some(waiting) = waiting.filter(|waiting| waiting.seconds >= SILENCE.as_secs_f64()) {
            let text = format!(
                "{} rows of a {} wait for {}, which has been silent for {:.0} s; call its advance() \
                 or idle()",
                waiting.rows, self.name, waiting.source, waiting.seconds
            );
            callbacks::tell(py, &self.operator, "silent", &text);
        }
    }

    /// Logs that the operator was restored from a snapshot.
    pub(crate) fn tell_restored(&self, py: Python<'_>) -> PyResult<()> {
        let stats = self.briefly(py, |operator| Ok(operator.stats()))?;
        let rows: u64 = stats.sources.iter().map(|source| source.rows_in).sum();
        let text = format!("a {} was restored; {rows} rows of its sources have arrived", self.name);
        callbacks::tell(py, &self.operator, "restored", &text);
        Ok(())
    }

    /// Returns an error if the process has forked since the operator was created, because a child
    /// process has neither the operator's threads nor its locks.
    pub(crate) fn check(&self) -> PyResult<()> {
        check_process(self.process, self.name)
    }

    /// Calls `work` with the operator on this thread. Intended for work that takes only
    /// milliseconds.
    pub(crate) fn briefly<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Operator) -> Result<R> + Send,
    ) -> PyResult<R> {
        self.check()?;
        briefly(py, &self.operator, self.name, work)
    }

    /// Calls `work` with the operator on one of the operator's threads. Once the given stop is
    /// requested, the work should end early and leave the operator unchanged or able to continue.
    pub(crate) fn at_length<R: Send + 'static>(
        &self,
        py: Python<'_>,
        stop: &Stop,
        work: impl FnOnce(&mut Operator, &Stop) -> Result<R> + Send + 'static,
    ) -> PyResult<R> {
        self.check()?;
        let object = number_of(&self.operator);
        check_call_to(object, self.name).map_err(raise)?;
        let (operator, asked) = (self.operator.clone(), stop.clone());
        // All such work for the operator runs on one thread, so the work has to wait only for short
        // calls.
        let work = move || in_turn(&operator, &asked, |operator| work(operator, &asked));
        run_on(py, stop, Some((&self.driver, object, self.name)), work)
    }

    fn find(&self, py: Python<'_>) -> PyResult<Poll> {
        loop {
            // Report a pending signal before a batch is taken, rather than while the batch is
            // returned.
            py.check_signals()?;
            let by = self.reader.as_deref();
            if let Some(polled) = self.briefly(py, |operator| operator.poll_shortly(by))? {
                return Ok(polled);
            }
            let pause = Stop::default();
            *self.polling.lock() = pause.clone();
            let by = self.reader.clone();
            let work =
                move |operator: &mut Operator, stop: &Stop| operator.work(stop, by.as_deref());
            if let Some(polled) = self.at_length(py, &pause, work)? {
                return Ok(polled);
            }
        }
    }

    /// Returns a batch. If returning it fails, takes the batch back. Returning a batch can run
    /// Python code, in which a signal handler can raise an exception. A signal that has arrived in
    /// the meantime is reported here, before the batch can be lost.
    fn hand_out<'py>(
        &self,
        py: Python<'py>,
        batch: RecordBatch,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let handed_out = export::batch(py, batch.clone());
        let handed_out = handed_out.and_then(|handed_out| py.check_signals().map(|()| handed_out));
        if handed_out.is_err() {
            let take_back = || self.operator.lock().take_back(batch, self.reader.as_deref());
            released(py, take_back);
        }
        handed_out.map(Some)
    }

    /// Sets whether a thread drives the operator. Returns whether a thread drove it before.
    pub(crate) fn set_driven(&self, driven: Option<DriverWork>) -> bool {
        self.news.set_driven(driven).is_some()
    }

    /// Records that the operator is about to be polled, so that pushes can wait for the poll.
    pub(crate) fn go_on(&self) {
        self.news.go_on();
    }

    /// Records that the driving thread ended with an error.
    pub(crate) fn leave(&self) {
        self.news.leave();
    }

    /// Takes back the last returned batch.
    pub(crate) fn take_back(&self, py: Python<'_>, batch: RecordBatch) -> PyResult<()> {
        self.briefly(py, move |operator| {
            operator.take_back(batch, self.reader.as_deref());
            Ok(())
        })
    }

    /// Returns the next batch if it is available.
    pub(crate) fn poll<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.find(py)? {
            Poll::Batch(batch) => self.hand_out(py, batch),
            Poll::NotYet | Poll::End => Ok(None),
        }
    }

    /// Returns the next batch, waiting until there is one or the operator reaches its end.
    pub(crate) fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            let seen = self.news.count();
            match self.find(py)? {
                Poll::Batch(batch) => return self.hand_out(py, batch),
                Poll::End => return Ok(None),
                Poll::NotYet => released(py, || self.news.wait(seen, PATIENCE)),
            }
            self.look_for_silence(py);
            py.check_signals()?;
        }
    }

    /// Does the work required before the next batch, but does not return the batch. Returns true
    /// once the batch is available, `None` if it does not become available soon, or false at the
    /// end.
    pub(crate) fn is_ready_within(
        &self,
        py: Python<'_>,
        patience: Duration,
    ) -> PyResult<Option<bool>> {
        let until = Instant::now() + patience;
        self.news.drive_here();
        loop {
            let seen = self.news.count();
            let by = self.reader.as_deref();
            let work =
                |operator: &mut Operator| Ok((operator.work_shortly(by)?, operator.has_ready(by)));
            let mut found = self.briefly(py, work)?;
            if let (None, false) = found {
                let by = self.reader.clone();
                let work = move |operator: &mut Operator, stop: &Stop| {
                    let by = by.as_deref();
                    Ok((operator.work(stop, by)?, operator.has_ready(by)))
                };
                let pause = Stop::default();
                *self.polling.lock() = pause.clone();
                found = self.at_length(py, &pause, work)?;
            }
            match found {
                (_, true) => return Ok(Some(true)),
                (Some(Poll::End), _) => return Ok(Some(false)),
                _ => {}
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(None);
            }
            released(py, || self.news.wait(seen, rest.min(PATIENCE)));
            self.look_for_silence(py);
            py.check_signals()?;
        }
    }

    /// Returns the late rows. After the rows have been exported, `arrived` is called with the
    /// number of batches.
    pub(crate) fn late<'py>(
        &self,
        py: Python<'py>,
        arrived: fn(&mut Operator, usize),
    ) -> PyResult<Bound<'py, PyAny>> {
        loop {
            let work =
                |operator: &mut Operator, _: &Stop| Ok((operator.late_version(), operator.late()?));
            let (version, (batches, schema)) = self.at_length(py, &Stop::default(), work)?;
            let count = batches.len();
            let late = export::table(py, batches, schema)?;
            // If another call was faster, that call has already returned the rows.
            let settle = move |operator: &mut Operator| {
                let are_ours = operator.late_version() == version;
                if are_ours {
                    arrived(operator, count);
                }
                Ok(are_ours)
            };
            if self.briefly(py, settle)? {
                return Ok(late);
            }
        }
    }

    /// Drops everything that the operator holds. If another thread is polling, that poll pauses
    /// first.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        check_call_to(number_of(&self.operator), self.name).map_err(raise)?;
        self.polling.lock().request();
        self.briefly(py, |operator| {
            operator.close();
            Ok(())
        })
    }
}

/// Returns an error if the process has forked since a handle was created, because a child process
/// has neither the handle's threads nor its locks.
pub(crate) fn check_process(made_in: u32, what: &str) -> PyResult<()> {
    if made_in == std::process::id() {
        return Ok(());
    }
    Err(raise(Error::closed(format!(
        "this {what} was created before the process forked; create one in the child process"
    ))))
}
