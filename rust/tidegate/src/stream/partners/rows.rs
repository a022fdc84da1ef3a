//! The rows of a side that are kept, with their times.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;

use crate::Result;
use crate::columns::table::Table;
use crate::results::gather::Column;
use crate::stream::intake::source::batch_bytes;
use crate::stream::memory::Charge;
use crate::stream::state::store::Store;

/// Rows in merged order.
#[derive(Debug)]
pub(super) struct SideRows {
    store: Store,
    /// The time of each row.
    ts: VecDeque<i64>,
    /// The number in the store of the first row.
    first: u64,
}

impl SideRows {
    pub(super) fn new(schema: SchemaRef) -> Self {
        SideRows { store: Store::new(schema, &[]), ts: VecDeque::new(), first: 0 }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.store.schema()
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn len(&self) -> usize {
        self.ts.len()
    }

    /// Bytes that are kept beside the rows.
    pub(super) fn memory(&self) -> usize {
        self.ts.capacity() * size_of::<i64>()
    }

    /// The time of a row.
    pub(super) fn ts(&self, row: usize) -> i64 {
        self.ts[row]
    }

    /// The time of the first row.
    pub(super) fn first_ts(&self) -> Option<i64> {
        self.ts.front().copied()
    }

    /// How many rows are below a time.
    pub(super) fn before(&self, time: i64) -> usize {
        self.while_ts(|ts| ts < time)
    }

    /// How many rows come before the first whose time is not `wanted`.
    pub(super) fn while_ts(&self, wanted: impl Fn(i64) -> bool) -> usize {
        self.ts.partition_point(|&ts| wanted(ts))
    }

    /// Adds rows behind the others, and takes their bytes from these charges.
    pub(super) fn push(
        &mut self,
        ts: impl IntoIterator<Item = i64>,
        rows: RecordBatch,
        charges: Vec<(usize, Arc<Charge>)>,
    ) -> Result<()> {
        self.ts.extend(ts);
        self.store.push(rows, charges)
    }

    /// Drops the first rows.
    pub(super) fn drop_first(&mut self, rows: usize) {
        self.ts.drain(..rows);
        self.first += rows as u64;
        self.store.drop_before(self.first);
    }

    pub(super) fn clear(&mut self) {
        self.drop_first(self.len());
    }

    /// Gives back memory of rows that were dropped.
    pub(super) fn shrink(&mut self) -> Result<()> {
        self.ts.shrink_to(2 * self.ts.len());
        self.store.shrink()
    }

    /// Keeps these rows alone, which ascend. Each takes `row_bytes` bytes beside its own.
    pub(super) fn keep(
        &mut self,
        rows: &[u32],
        row_bytes: usize,
        charge: impl Fn(usize) -> Charge,
    ) -> Result<()> {
        let schema = self.schema().clone();
        let columns: Vec<Column> =
            (0..schema.fields().len()).map(|column| self.store.column(column)).collect();
        let mut kept = SideRows::new(schema.clone());
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

    /// The first rows, as a table of this name in messages.
    pub(super) fn table(&self, name: &str, rows: usize) -> Result<Table> {
        let mut left = rows;
        let pieces = self.store.kept().map(|piece| {
            let taken = piece.num_rows().min(left);
            left -= taken;
            piece.slice(0, taken)
        });
        Table::of_valid(name, self.schema().clone(), pieces.collect())
    }

    /// All rows as one batch.
    pub(super) fn batch(&self) -> Result<RecordBatch> {
        self.store.rows()
    }
}
