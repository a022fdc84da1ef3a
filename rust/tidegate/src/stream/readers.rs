//! Several readers that receive the results of one operator. Each reader receives all batches in
//! order, on its own thread.
//!
//! ```text
//! operator ──▶ batch 7 ─ batch 8 ─ batch 9            made once, by the reader that comes first
//!                 ▲                   ▲
//!              reader 0            reader 1           kept until the slowest reader has read them
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow_array::RecordBatch;
use parking_lot::Mutex;

use super::memory::Charge;
use crate::{Error, Result};

/// A batch of results, with the memory that is charged for it.
#[derive(Debug)]
pub(super) struct ResultBatch {
    pub(super) batch: RecordBatch,
    /// The charges for the pushes that contain the batch's rows, if results are charged until they
    /// are read.
    pub(super) charges: Vec<Arc<Charge>>,
}

impl From<RecordBatch> for ResultBatch {
    fn from(batch: RecordBatch) -> Self {
        ResultBatch { batch, charges: Vec::new() }
    }
}

/// The readers of an operator.
#[derive(Clone, Debug, Default)]
pub(super) struct Readers(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    /// The batches that at least one reader has not read yet.
    batches: VecDeque<ResultBatch>,
    /// The number of the first batch in `batches`.
    first: u64,
    /// For each reader, the number of the next batch.
    next: BTreeMap<u64, u64>,
    /// The number of readers created so far.
    made: u64,
}

impl Log {
    /// Drops the batches that every reader has read.
    fn trim(&mut self) {
        let least = self.next.values().min().copied().unwrap_or(u64::MAX);
        while self.first < least && self.batches.pop_front().is_some() {
            self.first += 1;
        }
    }

    fn end(&self) -> u64 {
        self.first + self.batches.len() as u64
    }
}

/// A reader of an operator's results. The reader receives all later batches and all earlier batches
/// that no other reader had received when this reader was created. Dropping the reader closes it.
#[derive(Debug)]
pub struct ResultReader {
    log: Arc<Mutex<Log>>,
    number: u64,
}

impl Readers {
    /// Adds a reader.
    pub(super) fn add(&self) -> ResultReader {
        let mut log = self.0.lock();
        let (number, end) = (log.made, log.end());
        log.made += 1;
        log.next.insert(number, end);
        ResultReader { log: self.0.clone(), number }
    }

    /// Returns whether there are no readers.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().next.is_empty()
    }

    /// Returns whether there is a batch that only some of the readers have read.
    pub(super) fn are_apart(&self) -> bool {
        !self.0.lock().batches.is_empty()
    }

    /// Adds a batch for all readers.
    pub(super) fn give(&self, made: ResultBatch) {
        self.0.lock().batches.push_back(made);
    }

    /// Drops all batches that have not been read.
    pub(super) fn clear(&self) {
        let mut log = self.0.lock();
        let end = log.end();
        log.batches.clear();
        log.first = end;
        log.next.values_mut().for_each(|next| *next = end);
    }
}

impl ResultReader {
    /// Returns the next batch if it is available.
    pub(super) fn take(&self) -> Result<Option<RecordBatch>> {
        let mut log = self.log.lock();
        // This is only possible now, because the batch that was last returned may have been taken
        // back.
        log.trim();
        let next = log.next.get(&self.number).copied().ok_or_else(|| {
            Error::closed("the reader is closed; create a new one with merge.reader()")
        })?;
        let Some(made) = log.batches.get((next - log.first) as usize) else { return Ok(None) };
        let batch = made.batch.clone();
        log.next.insert(self.number, next + 1);
        Ok(Some(batch))
    }

    /// Drops the batches that every reader has read. Records that the last returned batch has been
    /// delivered.
    pub(super) fn let_go(&self) {
        self.log.lock().trim();
    }

    /// Returns whether the next batch can be read.
    pub(super) fn has_next(&self) -> bool {
        let log = self.log.lock();
        log.next.get(&self.number).is_some_and(|&next| next < log.end())
    }

    /// Takes back the batch that was returned last because it was not delivered.
    pub(super) fn take_back(&self, batch: RecordBatch) {
        let mut log = self.log.lock();
        let Some(next) = log.next.get(&self.number).copied().filter(|&next| next > 0) else {
            return;
        };
        if next == log.first {
            log.batches.push_front(batch.into());
            log.first -= 1;
        }
        log.next.insert(self.number, next - 1);
    }

    /// Drops the batches that this reader has not read. A second call does nothing.
    pub fn close(&self) {
        let mut log = self.log.lock();
        log.next.remove(&self.number);
        log.trim();
    }
}

impl Drop for ResultReader {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;

    use super::*;

    fn batch(value: i64) -> RecordBatch {
        let column = Arc::new(Int64Array::from(vec![value])) as _;
        RecordBatch::try_from_iter([("ts", column)]).unwrap()
    }

    #[test]
    fn each_reader_gets_each_batch_and_the_slowest_decides_what_is_kept() {
        let readers = Readers::default();
        let (fast, slow) = (readers.add(), readers.add());
        (0..3).for_each(|value| readers.give(batch(value).into()));
        for value in 0..3 {
            assert_eq!(fast.take().unwrap(), Some(batch(value)));
        }
        assert_eq!(fast.take().unwrap(), None);
        assert_eq!(slow.take().unwrap(), Some(batch(0)));
        // A later reader receives the batches that no reader has received.
        let late = readers.add();
        assert!(!late.has_next() && slow.has_next() && readers.are_apart());
        slow.take_back(batch(0));
        assert_eq!(slow.take().unwrap(), Some(batch(0)));
        assert_eq!(slow.take().unwrap(), Some(batch(1)));
        assert_eq!(readers.0.lock().batches.len(), 2);
        drop(slow);
        assert!(!readers.are_apart());
        fast.take_back(batch(2));
        assert_eq!(fast.take().unwrap(), Some(batch(2)));
        fast.close();
        assert!(fast.take().unwrap_err().is_closed());
        drop(late);
        assert!(readers.is_empty());
        let one = readers.add();
        readers.give(batch(7).into());
        assert_eq!(one.take().unwrap(), Some(batch(7)));
        assert!(readers.are_apart(), "it may be taken back");
        one.let_go();
        assert!(!readers.are_apart());
    }
}
