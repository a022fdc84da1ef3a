//! Merges streams and reads only as much from them as needed.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{ArrowError, SchemaRef};

use tidegate_structures::gate::MAX_SOURCES;
use tidegate_sync::Stop;

use super::{MergeOptions, merge_of};
use crate::background::in_background;
use crate::columns::metadata::of_all;
use crate::columns::time::Bound;
use crate::results::Next;
use crate::stream::intake::stream::{check_schema, columns};
use crate::stream::{Operator, Poll, Stats, lock};
use crate::{Error, Result};

/// A stream of record batches.
pub struct MergeInput {
    /// The batches. An error that contains an [`Error`] is passed on unchanged.
    pub batches: Box<dyn RecordBatchReader + Send>,
    /// True if a batch may take a long time to arrive, or may need a resource that the requesting
    /// thread holds. A separate thread reads streams that can block.
    pub waits: bool,
}

impl std::fmt::Debug for MergeInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a stream of ({})", columns(&self.batches.schema()))
    }
}

/// Merges sorted streams, one batch at a time. The merge holds only the rows that are needed to
/// determine the next row.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use arrow_array::{Int64Array, RecordBatch, RecordBatchIterator};
/// use tidegate::Next;
/// use tidegate::stream::{MergeStreams, MergeInput};
///
/// let stream = |ts: Vec<i64>| {
///     let column = Arc::new(Int64Array::from(ts)) as _;
///     let rows = RecordBatch::try_from_iter([("ts", column)])?;
///     let batches = RecordBatchIterator::new([Ok(rows.clone())], rows.schema());
///     Ok::<_, tidegate::Error>(MergeInput { batches: Box::new(batches), waits: false })
/// };
/// let streams = vec![stream(vec![1, 3])?, stream(vec![2])?];
/// let merge = MergeStreams::new(streams, "ts", None, 1, None)?;
/// let mut rows = 0;
/// while let Next::Batch(batch) = merge.next_within(Duration::from_secs(60))? {
///     rows += batch.num_rows();
/// }
/// assert_eq!(rows, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Several threads can use the merge. No lock is held while a batch is being requested from a
/// stream that can block. Such a stream can therefore call [`stats`](Self::stats) or
/// [`close`](Self::close) on this merge.
#[derive(Debug)]
pub struct MergeStreams {
    schema: SchemaRef,
    shared: Arc<SharedMerge>,
}

/// A merge whose results several threads can read.
#[derive(Debug)]
struct SharedMerge {
    state: Mutex<MergeState>,
    /// Signaled when streams need to be read, when they have been read, and at the end.
    changed: Condvar,
}

#[derive(Debug)]
struct MergeState {
    merge: Operator,
    /// The position of the time column.
    on: usize,
    /// The unread part of each stream; `None` while the stream is being read.
    streams: Vec<Option<MergeInput>>,
    /// The watermark and the number of each open stream, with the streams that hold up the others
    /// first.
    behind: BinaryHeap<Reverse<(i64, usize)>>,
    reading: ReadState,
    /// True if any of the streams can block.
    waits: bool,
    /// True if the thread that reads streams that can block is running.
    has_thread: bool,
    /// The reason why there are no more batches; cleared once a call has reported it.
    failed: Option<Error>,
    closed: bool,
}

/// Specifies which thread reads the streams that hold up the others, if any.
#[derive(Debug)]
enum ReadState {
    Nobody,
    /// The reading thread should read these streams.
    Asked(Vec<(usize, MergeInput)>),
    /// This thread reads the streams.
    By(ThreadId),
}

/// A stream's number, its unread part, and the batch that it returned.
type StreamBatch = (usize, MergeInput, Option<Result<Option<RecordBatch>>>);

impl MergeStreams {
    /// Creates a merge of `streams`, in the order of their `on` columns. The rows in each stream
    /// can be out of order by up to `lateness`. The merge holds at most `memory_limit` bytes of
    /// rows.
    pub fn new(
        streams: Vec<MergeInput>,
        on: &str,
        lateness: Option<Bound>,
        threads: usize,
        memory_limit: Option<usize>,
    ) -> Result<Self> {
        if streams.is_empty() {
            return Err(at_least_one());
        }
        if streams.len() > MAX_SOURCES {
            let given = streams.len();
            return Err(Error::argument(format!(
                "streams: expected at most {MAX_SOURCES} streams, got {given}"
            )));
        }
        let schemas: Vec<_> = streams.iter().map(|stream| stream.batches.schema()).collect();
        for (number, schema) in schemas.iter().enumerate() {
            check_schema(&schemas[0], &format!("streams[{number}]"), schema)?;
        }
        let schema = of_all(schemas.iter());
        let options = MergeOptions {
            on: on.to_owned(),
            sources: streams.len(),
            lateness: lateness.into(),
            memory_limit,
            threads,
        };
        let merge = merge_of(schema, &options, |number| format!("streams[{number}]"))?;
        let schema = merge.schema().clone();
        let state = MergeState {
            on: schema.index_of(on)?,
            merge,
            behind: (0..streams.len()).map(|number| Reverse((i64::MIN, number))).collect(),
            waits: streams.iter().any(|stream| stream.waits),
            streams: streams.into_iter().map(Some).collect(),
            reading: ReadState::Nobody,
            has_thread: false,
            failed: None,
            closed: false,
        };
        Ok(MergeStreams {
            schema,
            shared: Arc::new(SharedMerge { state: Mutex::new(state), changed: Condvar::new() }),
        })
    }

    /// Returns the schema of the merged rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Drops all rows and the unread parts of the streams. Later reads fail.
    pub fn close(&self) {
        let left = self.shared.state().close();
        self.shared.changed.notify_all();
        // Drop these without the lock, because streams may access this merge when they are dropped.
        drop(left);
    }

    /// Returns statistics about the merge so far.
    pub fn stats(&self) -> Stats {
        self.shared.state().merge.stats()
    }

    /// Returns whether any stream is being read.
    pub fn is_reading(&self) -> bool {
        !matches!(self.shared.state().reading, ReadState::Nobody)
    }

    /// Returns a reference that stays valid as long as this merge exists, and even longer if one of
    /// its threads still holds streams.
    pub fn held(&self) -> Weak<dyn Any + Send + Sync> {
        let shared: Arc<dyn Any + Send + Sync> = self.shared.clone();
        Arc::downgrade(&shared)
    }

    /// Returns the next batch if it is available within `patience`. After a failure, the merge is
    /// closed.
    pub fn next_within(&self, patience: Duration) -> Result<Next> {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.state();
        loop {
            if let Some(error) = state.failed.take() {
                drop(state);
                self.close();
                return Err(error);
            }
            match state.merge.poll()? {
                Poll::Batch(batch) => return Ok(Next::Batch(batch)),
                Poll::End => return Ok(Next::End),
                Poll::NotYet => {}
            }
            match state.reading {
                ReadState::By(thread) if thread == std::thread::current().id() => {
                    return Err(within_itself());
                }
                ReadState::By(_) | ReadState::Asked(_) => {}
                ReadState::Nobody => {
                    // Start the thread first so that no stream is taken when there is no thread to
                    // read it.
                    self.begin(&mut state)?;
                    let asked = state.lowest();
                    if asked.iter().all(|(_, stream)| !stream.waits) {
                        let given = read(asked);
                        state.take_in(given);
                        continue;
                    }
                    state.reading = ReadState::Asked(asked);
                    self.shared.changed.notify_all();
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Next::NotYet);
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Starts the thread that reads streams that can block, if there are any such streams.
    fn begin(&self, state: &mut MergeState) -> Result<()> {
        if state.waits && !state.has_thread {
            let shared = self.shared.clone();
            in_background(move || read_on(&shared))?;
            state.has_thread = true;
        }
        Ok(())
    }
}

impl Drop for MergeStreams {
    fn drop(&mut self) {
        self.close();
    }
}

#[cold]
pub(super) fn at_least_one() -> Error {
    Error::argument("streams: expected at least one stream, which determines the result's columns")
}

#[cold]
fn within_itself() -> Error {
    Error::argument(
        "a stream of this merge requests the merge's next batch, which depends on the stream's own \
         next batch; read the merge from code outside the stream",
    )
}

impl SharedMerge {
    /// Locks the state. The state is consistent after every statement, so a panic elsewhere does
    /// not corrupt it.
    fn state(&self) -> MutexGuard<'_, MergeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the requested streams until the merge is closed or no streams are left.
fn read_on(shared: &SharedMerge) {
    loop {
        let mut state = shared.state();
        let asked = loop {
            if state.closed || state.is_read() {
                state.has_thread = false;
                return;
            }
            if let ReadState::Asked(asked) = &mut state.reading {
                break std::mem::take(asked);
            }
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.reading = ReadState::By(std::thread::current().id());
        drop(state);
        let given = read(asked);
        let mut state = shared.state();
        let left = state.take_in(given);
        state.reading = ReadState::Nobody;
        drop(state);
        shared.changed.notify_all();
        drop(left);
    }
}

/// Reads one batch from each stream, and stops at the first stream that fails.
fn read(asked: Vec<(usize, MergeInput)>) -> Vec<StreamBatch> {
    let mut failed = false;
    let one = |(number, mut stream): (usize, MergeInput)| {
        let batch = (!failed).then(|| {
            catch_unwind(AssertUnwindSafe(|| stream.batches.next().transpose()))
                .unwrap_or_else(|panic| {
                    Err(ArrowError::ExternalError(Box::new(Error::from_panic(&*panic))))
                })
                .map_err(|error| failure(number, error))
        });
        failed |= matches!(batch, Some(Err(_)));
        (number, stream, batch)
    };
    asked.into_iter().map(one).collect()
}

fn failure(number: usize, error: ArrowError) -> Error {
    let other = |error: String| {
        Error::data(format!("streams[{number}]: reading the Arrow stream failed: {error}"))
    };
    match error {
        ArrowError::ExternalError(error) => match error.downcast::<Error>() {
            Ok(error) => *error,
            Err(error) => other(error.to_string()),
        },
        error => other(error.to_string()),
    }
}

impl MergeState {
    /// Takes the streams that hold up the others out of the merge.
    fn lowest(&mut self) -> Vec<(usize, MergeInput)> {
        let Reverse((lowest, _)) =
            *self.behind.peek().expect("at least one open stream holds up the others");
        let mut asked = Vec::new();
        while let Some(&Reverse((watermark, number))) = self.behind.peek()
            && watermark == lowest
        {
            self.behind.pop();
            asked.push((number, self.streams[number].take().expect("it is open")));
        }
        asked
    }

    /// Returns whether all streams have ended.
    fn is_read(&self) -> bool {
        self.behind.is_empty() && matches!(self.reading, ReadState::Nobody)
    }

    /// Adds the batches that the streams returned. Returns the streams that are no longer needed.
    fn take_in(&mut self, given: Vec<StreamBatch>) -> Vec<MergeInput> {
        let mut left = Vec::new();
        for (number, stream, batch) in given {
            if self.closed {
                left.push(stream);
                continue;
            }
            let watermark = match batch {
                _ if self.failed.is_some() => Ok(None),
                None => Ok(None),
                Some(Err(error)) => Err(error),
                // Memory may run out. In that case, the streams and the thread must survive.
                Some(Ok(batch)) => {
                    let schema = stream.batches.schema();
                    Error::catch(|| self.push(number, &schema, batch))
                }
            };
            match watermark {
                Ok(Some(watermark)) => {
                    self.behind.push(Reverse((watermark, number)));
                    self.streams[number] = Some(stream);
                }
                Ok(None) => left.push(stream),
                Err(error) => {
                    self.failed = Some(error);
                    left.push(stream);
                }
            }
        }
        left
    }

    /// Pushes a batch from a stream into the corresponding source. Returns the new watermark of the
    /// stream, or `None` if the stream has ended.
    fn push(
        &mut self,
        number: usize,
        schema: &SchemaRef,
        batch: Option<RecordBatch>,
    ) -> Result<Option<i64>> {
        let mut source = lock(&self.merge.sources()[number]);
        let Some(batch) = batch else {
            source.close();
            return Ok(None);
        };
        source.push(schema, vec![batch], &Stop::default())?;
        let stats = source.stats();
        drop(source);
        if stats.rows_late > 0 {
            return Err(self.out_of_order(number));
        }
        Ok(Some(stats.watermark.unwrap_or(i64::MIN)))
    }

    fn out_of_order(&self, number: usize) -> Error {
        match self.first_late() {
            Some((row, ts, watermark)) => Error::order(format!(
                "streams[{number}]: row {row} of `{}` is {ts}, after a row that promised nothing \
                 below {watermark}; sort the stream, raise lateness, or use tidegate.Merge, which \
                 sets such rows aside",
                self.merge.schema().field(self.on).name()
            )),
            None => Error::bug("a late row was counted and not kept"),
        }
    }

    /// Returns the position and time of the first late row, and the watermark that it missed.
    /// Times are formatted as strings.
    fn first_late(&self) -> Option<(u64, String, String)> {
        let (late, _) = self.merge.late().ok()?;
        let first = late.first()?;
        let written = |column: usize| array_value_to_string(first.column(column), 0).ok();
        let position = first.column(1).as_primitive::<UInt64Type>().value(0);
        Some((position, written(3 + self.on)?, written(2)?))
    }

    /// Closes the merge, and returns the unread parts of the streams.
    fn close(&mut self) -> Vec<MergeInput> {
        self.closed = true;
        self.merge.close();
        self.behind.clear();
        let mut left: Vec<MergeInput> = self.streams.iter_mut().filter_map(Option::take).collect();
        if let ReadState::Asked(asked) = &mut self.reading {
            left.extend(std::mem::take(asked).into_iter().map(|(_, stream)| stream));
            self.reading = ReadState::Nobody;
        }
        left
    }
}
