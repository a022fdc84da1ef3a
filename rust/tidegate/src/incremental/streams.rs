//! The merge of streams that are read as far as it needs them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;

use tidegate_structures::gate::MAX_SOURCES;

use super::merge::{Merge, MergeOptions, MergeStats};
use super::source::columns;
use super::{Polled, lock};
use crate::time::Bound;
use crate::{Error, Result};

/// A stream of record batches.
pub type Reader = Box<dyn RecordBatchReader + Send>;

/// Merges sorted streams batch by batch, and holds no more of them than it needs to say what comes next.
#[derive(Debug)]
pub struct MergeStreams {
    merge: Merge,
    /// What is left of each stream.
    streams: Vec<Option<Unread>>,
    /// The open streams, those that hold the others back first: each one's watermark and number.
    behind: BinaryHeap<Reverse<(i64, usize)>>,
}

struct Unread(Reader);

impl std::fmt::Debug for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a stream of ({})", columns(&self.0.schema()))
    }
}

impl MergeStreams {
    /// A merge of `streams` by the column `on`. The rows of each may be out of order by `lateness`.
    pub fn new(streams: Vec<Reader>, on: &str, lateness: Option<Bound>, threads: usize) -> Result<Self> {
        let Some(first) = streams.first() else {
            return Err(Error::argument("streams: expected at least one stream, which gives the result its columns"));
        };
        if streams.len() > MAX_SOURCES {
            let given = streams.len();
            return Err(Error::argument(format!("streams: expected at most {MAX_SOURCES} streams, got {given}")));
        }
        let schema = first.schema();
        let options = MergeOptions { on: on.to_owned(), sources: streams.len(), lateness, memory_limit: None, threads };
        let merge = Merge::of(schema, &options, |number| format!("streams[{number}]"))?;
        for (source, stream) in merge.sources().iter().zip(&streams) {
            lock(source).check_schema(&stream.schema())?;
        }
        let behind = (0..streams.len()).map(|number| Reverse((i64::MIN, number))).collect();
        Ok(MergeStreams { merge, streams: streams.into_iter().map(Unread).map(Some).collect(), behind })
    }

    /// The schema of the merged rows.
    pub fn schema(&self) -> &SchemaRef {
        self.merge.schema()
    }

    /// Drops what is held and what is left of the streams; reading fails from now on.
    pub fn close(&mut self) {
        self.merge.close();
        self.streams.iter_mut().for_each(|stream| *stream = None);
    }

    /// Numbers that describe the merge so far.
    pub fn stats(&self) -> MergeStats {
        self.merge.stats()
    }

    /// The next batch; none at the end. After a failure the merge is closed.
    #[allow(clippy::should_implement_trait, reason = "it fails")]
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match self.merge.poll()? {
                Polled::Batch(batch) => return Ok(Some(batch)),
                Polled::End => return Ok(None),
                Polled::NotYet => self.read().inspect_err(|_| self.close())?,
            }
        }
    }

    /// Reads a batch of each stream that holds the others back.
    fn read(&mut self) -> Result<()> {
        let Reverse((lowest, _)) = *self.behind.peek().expect("a stream that is open holds the others back");
        let mut read = Vec::new();
        while let Some(&Reverse((watermark, number))) = self.behind.peek()
            && watermark == lowest
        {
            self.behind.pop();
            read.extend(self.read_one(number)?.map(|watermark| Reverse((watermark, number))));
        }
        // Not before, so that no stream is read twice before the rows that it has are handed out.
        self.behind.extend(read);
        Ok(())
    }

    /// Reads a batch; the stream's watermark then, or none if it has ended.
    fn read_one(&mut self, number: usize) -> Result<Option<i64>> {
        let stream = &mut self.streams[number].as_mut().expect("it is open").0;
        let schema = stream.schema();
        let failed = |error| Error::data(format!("streams[{number}]: reading the Arrow stream failed: {error}"));
        // arrow-rs panics over a batch that is laid out otherwise than its stream's schema says.
        let read = catch_unwind(AssertUnwindSafe(|| stream.next().transpose()));
        let malformed = |_| Error::data(format!("streams[{number}]: a batch is not laid out as the schema says"));
        let batch = read.map_err(malformed)?.map_err(failed)?;
        let mut source = lock(&self.merge.sources()[number]);
        let Some(batch) = batch else {
            source.close();
            self.streams[number] = None;
            return Ok(None);
        };
        source.push(&schema, vec![batch])?;
        let stats = source.stats();
        drop(source);
        if stats.rows_late > 0 {
            return Err(self.out_of_order(number));
        }
        Ok(Some(stats.watermark.unwrap_or(i64::MIN)))
    }

    fn out_of_order(&self, number: usize) -> Error {
        match self.merge.first_late() {
            Some((row, ts, watermark)) => Error::order(format!(
                "streams[{number}]: row {row} of `{}` is {ts}, after a row that promised nothing below {watermark}; sort \
                 the stream, raise lateness, or use tidegate.Merge, which sets such rows aside",
                self.merge.time_name()
            )),
            None => Error::bug("a late row was counted and not kept"),
        }
    }
}
