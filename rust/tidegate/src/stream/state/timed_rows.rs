//! The kept rows, with their times.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;

use crate::Result;
use crate::columns::table::Table;
use crate::columns::table::batch_bytes;
use crate::results::gather::Column;
use crate::stream::memory::Charge;
use crate::stream::state::store::Store;

/// Rows in merged order.
#[derive(Debug)]
pub(crate) struct TimedRows {
    store: Store,
    /// The time of each row.
    ts: VecDeque<i64>,
    /// The number of the store's first row.
    first: u64,
}

impl TimedRows {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        TimedRows { store: Store::new(schema, &[]), ts: VecDeque::new(), first: 0 }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.store.schema()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn len(&self) -> usize {
        self.ts.len()
    }

    /// Returns the number of bytes kept in addition to the rows.
    pub(crate) fn memory(&self) -> usize {
        self.ts.capacity() * size_of::<i64>()
    }

    /// Returns the time of a row.
    pub(crate) fn ts(&self, row: usize) -> i64 {
        self.ts[row]
    }

    /// Returns the time of the first row.
    pub(crate) fn first_ts(&self) -> Option<i64> {
        self.ts.front().copied()
    }

    /// Returns the number of rows before a time.
    pub(crate) fn before(&self, time: i64) -> usize {
        self.while_ts(|ts| ts < time)
    }

    /// Returns the number of leading rows whose times satisfy `wanted`.
    pub(crate) fn while_ts(&self, wanted: impl Fn(i64) -> bool) -> usize {
        self.ts.partition_point(|&ts| wanted(ts))
    }

    /// Appends rows and takes their bytes from these charges.
    pub(crate) fn push(
        &mut self,
        ts: impl IntoIterator<Item = i64>,
        rows: RecordBatch,
        charges: Vec<(usize, Arc<Charge>)>,
    ) -> Result<()> {
        self.ts.extend(ts);
        self.store.push(rows, charges)
    }

    /// Drops the first rows.
    pub(crate) fn drop_first(&mut self, rows: usize) {
        self.ts.drain(..rows);
        self.first += rows as u64;
        self.store.drop_before(self.first);
    }

    pub(crate) fn clear(&mut self) {
        self.drop_first(self.len());
    }

    /// Releases the memory of dropped rows.
    pub(crate) fn shrink(&mut self) -> Result<()> {
        self.ts.shrink_to(2 * self.ts.len());
        self.store.shrink()
    }

    /// Keeps only the given rows, which are in ascending order. Each row is charged `row_bytes`
    /// bytes in addition to its own size.
    pub(crate) fn keep(
        &mut self,
        rows: &[u32],
        row_bytes: usize,
        charge: impl Fn(usize) -> Charge,
    ) -> Result<()> {
        let schema = self.schema().clone();
        let columns: Vec<Column> =
            (0..schema.fields().len()).map(|column| self.store.column(column)).collect();
        let mut kept = TimedRows::new(schema.clone());
        for part in rows.chunks(self.store.piece_rows()) {
            let arrays = columns.iter().map(|column| column.gather(part)).collect::<Result<_, _>>();
            let options = RecordBatchOptions::new().with_row_count(Some(part.len()));
            let batch = RecordBatch::try_new_with_options(schema.clone(), arrays?, &options)?;
            let bytes = batch_bytes(&batch) + part.len() * row_bytes;
            let ts = part.iter().map(|&row| self.ts[row as usize]);
            kept.push(ts, batch, vec![(bytes, Arc::new(charge(bytes)))])?;
        }
        *self = kept;
        Ok(())
    }

    /// Returns the first `rows` rows as a table; `name` identifies the table in messages.
    pub(crate) fn table(&self, name: &str, rows: usize) -> Result<Table> {
        let mut left = rows;
        let pieces = self.store.kept().map(|piece| {
            let taken = piece.num_rows().min(left);
            left -= taken;
            piece.slice(0, taken)
        });
        Table::of_valid(name, self.schema().clone(), pieces.collect())
    }

    /// Returns all rows as one batch.
    pub(crate) fn batch(&self) -> Result<RecordBatch> {
        self.store.rows()
    }
}
