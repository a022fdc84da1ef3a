//! Writes a source's state to a snapshot, reads the state from a snapshot, and restores it.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_buffer::ScalarBuffer;
use tidegate_operators::rows::Reorder;
use tidegate_structures::memory;

use super::Source;
use super::change::{Change, Push};
use crate::Result;
use crate::columns::dictionary::concat_batches;
use crate::columns::table::{Table, batch_bytes};
use crate::columns::time;
use crate::results::interleave::Place;
use crate::stream::intake::rows::{SourceRun, gather_batch};
use crate::stream::intake::stream::Stream;
use crate::stream::memory::Charge;
use crate::stream::state::snapshot::{Reader, Writer, damaged};

/// The part of a snapshot that contains a source.
#[derive(Debug)]
pub(crate) struct RestoredSource {
    watermark: i64,
    closed: bool,
    /// The watermark that an idle source itself has promised.
    idle: Option<i64>,
    rows_in: u64,
    rows_late: u64,
    /// The times of the rows that no reader had taken.
    ts: ScalarBuffer<i64>,
    batch: RecordBatch,
    /// The number of bytes that are charged for these rows.
    pub(crate) bytes: usize,
}

impl RestoredSource {
    /// Returns the time before which there can be no unread rows, or `None` if all rows have been
    /// read and the source is closed.
    pub(crate) fn next(&self) -> Option<i64> {
        let promised = (!self.closed).then_some(self.watermark);
        self.ts.first().copied().into_iter().chain(promised).min()
    }

    /// Returns the number of rows that have arrived and the number of late rows among them.
    pub(crate) fn rows(&self) -> (u64, u64) {
        (self.rows_in, self.rows_late)
    }

    /// Returns the number of rows whose processing had begun.
    pub(crate) fn begun(&self) -> u64 {
        self.rows_in - self.rows_late - self.ts.len() as u64
    }
}

impl Source {
    /// Writes the state of the source, including rows in the gate that no reader has taken yet.
    pub(crate) fn write(&self, unread: Vec<RecordBatch>, writer: &mut Writer) -> Result<()> {
        let mut held = Change::of(&self.reorder);
        let released = self.reorder.release_all(&mut held.draft);
        self.put_in_order(&mut held, released)?;
        let mut rows = unread;
        rows.extend(held.runs.into_iter().map(|run| run.batch));
        writer.time(self.reorder.watermark());
        writer.flag(self.gate.is_none());
        if writer.is_extended() {
            let own = self.shared.watermarks.own_of_idle(self.number);
            writer.flag(own.is_some());
            own.into_iter().for_each(|own| writer.time(own));
        }
        writer.number(self.rows_in);
        writer.number(self.rows_late);
        memory::demand(rows.iter().map(batch_bytes).sum());
        writer.table(&concat_batches(&self.stream.schema, &rows)?)
    }

    /// Returns the rows from several pushes as one batch, in time order.
    pub(crate) fn sorted(&self, runs: &[SourceRun]) -> Result<RecordBatch> {
        let mut rows: Vec<(i64, Place)> = memory::vec(runs.iter().map(|run| run.ts.len()).sum());
        for (push, run) in runs.iter().enumerate() {
            let places = (0..run.ts.len() as u32).map(|row| (push as u32, row));
            rows.extend(run.ts.iter().copied().zip(places));
        }
        // Sorting by time and then by position preserves the order of arrival.
        rows.sort_unstable();
        let places: Vec<Place> = memory::collect(rows.iter().map(|&(_, place)| place));
        let batches: Vec<&RecordBatch> = runs.iter().map(|run| &run.batch).collect();
        match batches.is_empty() {
            true => Ok(RecordBatch::new_empty(self.stream.schema.clone())),
            false => gather_batch(&self.stream.schema, &batches, &places),
        }
    }

    /// Reads the output of [`write`](Self::write).
    pub(crate) fn read(&self, reader: &mut Reader<'_>) -> Result<RestoredSource> {
        self.stream.read(&self.name, self.shared.row_bytes, reader)
    }

    /// Restores the state of the source, which must be unused. `charge` covers the restored rows.
    pub(crate) fn restore(&mut self, restored: RestoredSource, charge: Charge) -> Result<()> {
        let RestoredSource { watermark, closed, idle, rows_in, rows_late, ts, batch, .. } =
            restored;
        (self.rows_in, self.rows_late) = (rows_in, rows_late);
        self.hold(charge);
        let push = (batch.num_rows() > 0).then_some(Push { ts, batch, pushed: Instant::now() });
        let (arrived, held) = match &self.shared.arrivals {
            Some(_) => (push, None),
            None => (None, push),
        };
        self.reorder = Reorder::restore(self.stream.lateness, watermark, held);
        if let (Some(arrivals), Some(push)) = (self.shared.arrivals.clone(), arrived) {
            arrivals.push(self.number, self.charged(push));
        }
        if let Some(own) = idle {
            self.shared.watermarks.rise(self.number, own);
            self.shared.watermarks.idle(self.number);
            self.is_idle = true;
        }
        let change = self.promise_of(watermark)?;
        self.make(change);
        if closed {
            self.close();
        }
        self.shared.news.tell();
        Ok(())
    }
}

impl Stream {
    /// Reads a source of this stream from the bytes that [`Source::write`] wrote.
    pub(crate) fn read(
        &self,
        name: &Arc<str>,
        row_bytes: usize,
        reader: &mut Reader<'_>,
    ) -> Result<RestoredSource> {
        let (watermark, closed) = (reader.time()?, reader.flag()?);
        let is_idle = reader.is_extended() && reader.flag()?;
        let idle = is_idle.then(|| reader.time()).transpose()?;
        let (rows_in, rows_late) = (reader.rows()?, reader.rows()?);
        let batch = reader.table(&self.schema)?;
        let rows = batch.num_rows();
        let table = Table::trusted(name.clone(), batch.clone());
        let ts = time::times(&table, self.on, self.unit)
            .map_err(|error| damaged(error.message()))?
            .into_buffer();
        if !ts.is_sorted() || rows_late > rows_in || rows as u64 > rows_in - rows_late {
            return Err(damaged(
                "a source's rows are out of order, or there are more than have arrived",
            ));
        }
        if ts.last().is_some_and(|last| Reorder::<Push>::promise(self.lateness, *last) > watermark)
        {
            return Err(damaged("a source has promised less than its rows imply"));
        }
        let bytes = batch_bytes(&batch) + rows * row_bytes;
        Ok(RestoredSource { watermark, closed, idle, rows_in, rows_late, ts, batch, bytes })
    }
}
