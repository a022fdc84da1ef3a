//! The batches of a result, which are built ahead of the reader.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_sync::Stop;

use super::join::{Join, JoinStats, Piece};
use crate::background::in_background;
use crate::results::Next;
use crate::{Error, Result};

/// The number of finished pieces that can wait for the reader, per thread that builds pieces.
const AHEAD_A_THREAD: usize = 2;

/// Reads the batches of a result in order, while threads build the next ones.
///
/// The threads start when the first batch is read, and stay a bounded number of batches ahead. The
/// threads finish when the result is complete, or soon after the reader is closed or dropped.
#[derive(Debug)]
pub struct Batches {
    schema: SchemaRef,
    shared: Arc<ReaderState>,
    /// The join, until the first read removes it.
    join: Mutex<Option<Join>>,
    stop: Stop,
}

#[derive(Debug)]
struct ReaderState {
    state: Mutex<BatchState>,
    /// Signaled when there is something for the reader to check.
    filled: Condvar,
    /// Signaled when there is room for a piece, or when reading has stopped.
    taken: Condvar,
    ahead: u64,
}

#[derive(Debug)]
struct BatchState {
    /// The number of the first piece in `pieces`.
    first: u64,
    /// The finished pieces in order, with gaps for pieces that are still being built.
    pieces: VecDeque<Option<Vec<RecordBatch>>>,
    /// The batches of the last piece that was taken.
    current: VecDeque<RecordBatch>,
    /// The outcome of the work, once the work has ended.
    outcome: Option<Result<()>>,
    closed: bool,
    stats: JoinStats,
}

impl ReaderState {
    /// Locks the state. The state is consistent between any two statements, so a panic elsewhere
    /// does not corrupt it.
    fn state(&self) -> MutexGuard<'_, BatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a finished piece. Waits while the piece is too far ahead of the reader.
    fn put(&self, number: u64, left_rows_done: usize, batches: Vec<RecordBatch>) {
        let mut state = self.state();
        // The piece that the reader is waiting for is never held up here, so the other threads do
        // not wait forever.
        while number >= state.first + self.ahead && !state.closed && state.outcome.is_none() {
            state = self.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            // Drop this without holding the lock, because memory may be returned to an owner that
            // accesses this state.
            drop(state);
            return drop(batches);
        }
        let place = (number - state.first) as usize;
        if state.pieces.len() <= place {
            state.pieces.resize(place + 1, None);
        }
        state.pieces[place] = Some(batches);
        state.stats.left_rows_done = state.stats.left_rows_done.max(left_rows_done);
        if place == 0 {
            self.filled.notify_one();
        }
    }
}

impl ReaderState {
    /// Records that all pieces have been built.
    fn finish(&self) {
        let mut state = self.state();
        state.stats.left_rows_done = state.stats.left_rows;
        state.outcome = Some(Ok(()));
        drop(state);
        self.filled.notify_all();
    }

    /// Stops reading with an error, unless reading has already stopped. Threads that wait for room
    /// also see the error, because no further read would make room for them.
    fn fail(&self, error: &Error) {
        self.state().outcome.get_or_insert_with(|| Err(error.clone()));
        self.taken.notify_all();
        self.filled.notify_all();
    }
}

impl Batches {
    /// Creates a reader that returns all batches of `join`.
    pub(crate) fn new(join: Join) -> Self {
        let state = BatchState {
            first: 0,
            pieces: VecDeque::new(),
            current: VecDeque::new(),
            outcome: None,
            closed: false,
            stats: join.stats().clone(),
        };
        let shared = ReaderState {
            state: Mutex::new(state),
            filled: Condvar::new(),
            taken: Condvar::new(),
            ahead: (join.stats().threads * AHEAD_A_THREAD) as u64,
        };
        Batches {
            schema: join.schema().clone(),
            shared: Arc::new(shared),
            stop: join.stop(),
            join: Mutex::new(Some(join)),
        }
    }

    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns statistics about the join so far.
    pub fn stats(&self) -> JoinStats {
        self.shared.state().stats.clone()
    }

    /// Returns the next batch if it is available within `patience`.
    pub fn next_within(&self, patience: Duration) -> Result<Next> {
        self.start()?;
        let deadline = Instant::now() + patience;
        let mut state = self.shared.state();
        loop {
            if state.closed {
                return Err(Error::closed("the reader is closed"));
            }
            if let Some(batch) = state.current.pop_front() {
                state.stats.rows += batch.num_rows() as u64;
                return Ok(Next::Batch(batch));
            }
            if let Some(piece) = state.pieces.front_mut().and_then(Option::take) {
                state.pieces.pop_front();
                state.first += 1;
                state.current = piece.into();
                self.shared.taken.notify_all();
                // Other readers may also be waiting, and there may be batches for some of them.
                self.shared.filled.notify_all();
                continue;
            }
            match &state.outcome {
                Some(Ok(())) => return Ok(Next::End),
                Some(Err(error)) => return Err(error.clone()),
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Next::NotYet);
            }
            state = self
                .shared
                .filled
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn start(&self) -> Result<()> {
        let Some(mut join) = self.not_begun().take() else { return Ok(()) };
        let (shared, stop) = (self.shared.clone(), self.stop.clone());
        let work = move || {
            let take = |number, left_rows_done, piece: Piece| match piece {
                Ok(batches) => {
                    shared.put(number, left_rows_done, batches);
                    Ok(())
                }
                Err(error) => {
                    shared.fail(&error);
                    stop.request();
                    Err(error)
                }
            };
            match Error::catch(|| join.run(take)) {
                Ok(_) => shared.finish(),
                Err(error) => shared.fail(&error),
            }
            // Drop the join only after reporting the end. The reader may hold a lock, such as
            // Python's, that the owner of the inputs needs to take them back.
            drop(join);
        };
        in_background(work)?;
        Ok(())
    }

    fn not_begun(&self) -> MutexGuard<'_, Option<Join>> {
        self.join.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the work and drops the finished batches. All subsequent reads fail.
    pub fn close(&self) {
        // Close the reader first. A thread that reads in the meantime then finds the reader closed
        // rather than stopped work, which would look like Ctrl-C.
        let mut state = self.shared.state();
        state.closed = true;
        let made = (std::mem::take(&mut state.pieces), std::mem::take(&mut state.current));
        drop(state);
        self.stop.request();
        let join = self.not_begun().take();
        self.shared.taken.notify_all();
        self.shared.filled.notify_all();
        // Drop these without holding the locks, because memory may be returned to an owner that
        // accesses this reader.
        drop((join, made));
    }

    /// Returns a reference that remains valid as long as this reader exists, or longer if threads
    /// still use the inputs.
    pub fn held(&self) -> Weak<dyn Any + Send + Sync> {
        // The thread that builds the pieces shares this value until it has dropped the join.
        let shared: Arc<dyn Any + Send + Sync> = self.shared.clone();
        Arc::downgrade(&shared)
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::Schema;

    use super::*;

    /// Returns a reader for which no thread builds batches.
    fn waiting() -> Batches {
        let stats = JoinStats {
            left_rows: 0,
            right_rows: 0,
            key_method: "",
            condition_method: "",
            threads: 1,
            rows: 0,
            left_rows_done: 0,
        };
        let state = BatchState {
            first: 0,
            pieces: VecDeque::new(),
            current: VecDeque::new(),
            outcome: None,
            closed: false,
            stats,
        };
        let (filled, taken) = (Condvar::new(), Condvar::new());
        let shared = ReaderState { state: Mutex::new(state), filled, taken, ahead: 2 };
        Batches {
            schema: Arc::new(Schema::empty()),
            shared: Arc::new(shared),
            join: Mutex::default(),
            stop: Stop::default(),
        }
    }

    #[test]
    fn work_is_stopped_once_the_reader_is_closed() {
        let batches = waiting();
        std::thread::scope(|scope| {
            let state = batches.shared.state();
            let closing = scope.spawn(|| batches.close());
            // `close` waits for the lock. If `close` did its last step first, this would be enough
            // time for that step.
            std::thread::sleep(Duration::from_millis(100));
            assert!(!closing.is_finished() && !state.closed);
            assert!(!batches.stop.is_requested(), "a thread's work can be stopped, but not closed");
            drop(state);
        });
        assert!(batches.stop.is_requested());
        // A thread that has been stopped then reports this error.
        batches.shared.fail(&Error::stopped("the work was asked to stop"));
        assert!(batches.next_within(Duration::ZERO).unwrap_err().is_closed());
    }

    #[test]
    fn pieces_that_come_after_the_end_are_dropped() {
        let batches = waiting();
        batches.close();
        batches.shared.put(0, 0, vec![RecordBatch::new_empty(batches.schema().clone())]);
        assert!(batches.shared.state().pieces.is_empty());
    }
}
