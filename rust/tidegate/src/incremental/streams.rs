//! The merge of streams that are read as far as it needs them.

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;

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
        let schema = first.schema();
        let options = MergeOptions { on: on.to_owned(), sources: streams.len(), lateness, memory_limit: None, threads };
        let merge = Merge::new(schema, &options)?;
        for (source, stream) in merge.sources().iter().zip(&streams) {
            lock(source).check_schema(&stream.schema())?;
        }
        Ok(MergeStreams { merge, streams: streams.into_iter().map(Unread).map(Some).collect() })
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

    /// The next batch; none at the end.
    #[allow(clippy::should_implement_trait, reason = "it fails, and goes on after some failures")]
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match self.merge.poll()? {
                Polled::Batch(batch) => return Ok(Some(batch)),
                Polled::End => return Ok(None),
                Polled::NotYet => self.read()?,
            }
        }
    }

    /// Reads a batch of the stream that holds the others back.
    fn read(&mut self) -> Result<()> {
        let open = self.streams.iter().enumerate().filter(|(_, stream)| stream.is_some());
        let watermark = |(number, _): &(usize, _)| lock(&self.merge.sources()[*number]).stats().watermark;
        let (number, _) = open.min_by_key(watermark).expect("a stream that is open holds the others back");
        let stream = &mut self.streams[number].as_mut().expect("it is open").0;
        let schema = stream.schema();
        let failed = |error| Error::data(format!("streams[{number}]: reading the Arrow stream failed: {error}"));
        let batch = stream.next().transpose().map_err(failed)?;
        let mut source = lock(&self.merge.sources()[number]);
        let Some(batch) = batch else {
            source.close();
            self.streams[number] = None;
            return Ok(());
        };
        source.push(&schema, vec![batch])?;
        if source.stats().rows_late == 0 {
            return Ok(());
        }
        drop(source);
        Err(self.out_of_order(number))
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
