//! Kept rows in merged order, some of which have already been processed. If needed, the number of
//! earlier rows with the same key is stored for each processed row.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::intake::RestoredIntake;
use super::state::snapshot::{Reader, Writer, damaged};
use super::state::timed_rows::TimedRows;
use super::tactic::{Admit, Common};
use crate::Result;
use crate::columns::table::{Table, batch_bytes};
use crate::columns::time::{self, Unit};

/// Unneeded rows are dropped once `done > 2 * needed + SPARE_ROWS`.
const SPARE_ROWS: usize = 1 << 10;

/// When memory is short, unneeded rows are dropped once `done > needed + needed / SPARE`.
const SPARE: usize = 8;

/// Rows in merged order, with the numbers of processed rows.
#[derive(Debug)]
pub(super) struct NumberedRows {
    pub(super) rows: TimedRows,
    /// The number of processed rows, which are the first ones.
    pub(super) done: usize,
    /// For each processed row, the number of earlier rows with the same key. Empty if these numbers
    /// are not needed.
    pub(super) ordinals: Vec<i64>,
    /// The total number of rows that have been processed so far.
    pub(super) processed: u64,
    /// The number of processed rows that the last search found to be needed.
    needed: usize,
}

impl NumberedRows {
    pub(super) fn new(schema: SchemaRef) -> Self {
        let rows = TimedRows::new(schema);
        NumberedRows { rows, done: 0, ordinals: Vec::new(), processed: 0, needed: 0 }
    }

    /// Returns the number of bytes kept in addition to the rows.
    pub(super) fn bytes(&self) -> usize {
        self.rows.memory() + self.ordinals.capacity() * size_of::<i64>()
    }

    /// Marks the first `done` rows as processed.
    pub(super) fn process(&mut self, done: usize, ordinals: Option<Vec<i64>>) {
        self.processed += (done - self.done) as u64;
        self.done = done;
        if let Some(ordinals) = ordinals {
            self.ordinals = ordinals;
        }
    }

    /// Drops processed rows before a time.
    pub(super) fn drop_before(&mut self, ts: i64) {
        let dropped = self.rows.before(ts).min(self.done);
        self.rows.drop_first(dropped);
        self.done -= dropped;
    }

    /// Returns whether it is time to look for rows that are no longer needed.
    pub(super) fn has_many(&self, is_short: bool) -> bool {
        self.done
            > match is_short {
                true => self.needed + self.needed / SPARE,
                false => 2 * self.needed + SPARE_ROWS,
            }
    }

    /// Keeps all unprocessed rows, and the processed rows at the given positions, which are in
    /// ascending order.
    pub(super) fn keep(&mut self, needed: &[u32], common: &Common) -> Result<()> {
        self.needed = needed.len();
        if needed.len() == self.done {
            return Ok(());
        }
        let waiting = self.done as u32..self.rows.len() as u32;
        let kept: Vec<u32> = needed.iter().copied().chain(waiting).collect();
        // This happens before the rows are dropped so that no source takes up the free memory in
        // the meantime.
        let charge = |bytes| common.intake.shared.memory.charge_state(bytes);
        self.rows.keep(&kept, common.intake.shared.row_bytes, charge)?;
        if !self.ordinals.is_empty() {
            self.ordinals = needed.iter().map(|&row| self.ordinals[row as usize]).collect();
        }
        self.done = needed.len();
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.ordinals.clear();
        self.done = 0;
    }

    pub(super) fn write(&self, writer: &mut Writer) -> Result<()> {
        writer.number(self.processed);
        writer.number(self.done as u64);
        writer.table(&self.rows.batch()?)?;
        writer.table(&numbers(self.ordinals.clone())?)
    }

    /// Reads the output of [`write`](Self::write). `on` is the time column, and `are_numbered` is
    /// true if processed rows have numbers.
    pub(super) fn restore(
        &mut self,
        (on, unit): (usize, Unit),
        are_numbered: bool,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        // 1. Everything is read and checked before anything is changed.
        let processed = reader.rows()?;
        let done = reader.rows()?;
        let rows = reader.table(self.rows.schema())?;
        let ordinals = reader.table(&numbers(Vec::new())?.schema())?;
        let table = Table::trusted("the snapshot", rows.clone());
        let ts = time::times(&table, on, unit);
        let ts = ts.map_err(|error| damaged(error.message()))?.to_vec();
        if !ts.is_sorted() {
            return Err(damaged("processed rows are out of order"));
        }
        let waiting = (rows.num_rows() as u64).checked_sub(done);
        let waiting = waiting.ok_or_else(|| damaged("more rows are processed than are kept"))?;
        if done > processed || processed.saturating_add(waiting) > intake.rows() {
            return Err(damaged("it keeps more rows than have arrived"));
        }
        if ts.last().is_some_and(|&last| intake.next().is_some_and(|next| next < last)) {
            return Err(damaged("processed rows follow unprocessed rows"));
        }
        let ordinals = time::as_int64(ordinals.column(0)).expect("the type was checked").to_vec();
        let known = if are_numbered { done } else { 0 };
        let is_number = |&ordinal: &i64| (0..=processed as i64).contains(&ordinal);
        if ordinals.len() as u64 != known || !ordinals.iter().all(is_number) {
            return Err(damaged("the rows of a key are not numbered"));
        }
        // 2. The state is restored.
        let bytes = batch_bytes(&rows) + rows.num_rows() * row_bytes;
        let mut charge = admit(reader, bytes)?;
        self.rows.push(ts, rows, vec![(bytes, Arc::new(charge.split(bytes)))])?;
        (self.processed, self.done, self.needed) = (processed, done as usize, done as usize);
        self.ordinals = ordinals;
        Ok(())
    }
}

/// Returns integers as a batch with one column.
fn numbers(values: Vec<i64>) -> Result<RecordBatch> {
    let schema = Schema::new(vec![Field::new("number", DataType::Int64, false)]);
    let column = Arc::new(Int64Array::from(values));
    Ok(RecordBatch::try_new(Arc::new(schema), vec![column])?)
}
