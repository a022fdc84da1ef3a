//! The rows of one side that an operator keeps, as Arrow data.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use tidegate_sync::Charge;

use crate::Result;
use crate::gather::Column;

/// Neighbouring segments are put together while they have no more rows than this: results are gathered from one segment
/// far faster than from several, but each row is copied as often as its segment is put together with another.
const SEGMENT_ROWS: usize = 1 << 16;

/// Rows in merged order, numbered from the first ever.
#[derive(Debug)]
pub(super) struct Store {
    schema: SchemaRef,
    segments: VecDeque<Segment>,
    /// The number of the oldest row that is needed.
    first: u64,
    end: u64,
}

#[derive(Debug)]
struct Segment {
    /// The number of its first row.
    first: u64,
    rows: RecordBatch,
    /// What the rows have been charged, shared with other rows pushed with them, each with the number behind its rows.
    charges: Vec<(u64, Arc<Charge>)>,
}

impl Segment {
    fn len(&self) -> usize {
        self.rows.num_rows()
    }

    fn end(&self) -> u64 {
        self.first + self.len() as u64
    }
}

impl Store {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Store { schema, segments: VecDeque::new(), first: 0, end: 0 }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds rows behind the others.
    pub(super) fn push(&mut self, rows: RecordBatch, charges: Vec<Arc<Charge>>) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let first = self.end;
        self.end += rows.num_rows() as u64;
        let charges = charges.into_iter().map(|charge| (self.end, charge)).collect();
        self.segments.push_back(Segment { first, rows, charges });
        // A segment takes in the one before it when that is not much larger: a row is copied a few times at most.
        while let [.., before, last] = &*self.segments.make_contiguous()
            && let gone = self.first.saturating_sub(before.first) as usize
            && before.len() - gone <= 2 * last.len()
            && before.len() - gone + last.len() <= SEGMENT_ROWS
        {
            let rows = concat_batches(&self.schema, [&before.rows.slice(gone, before.len() - gone), &last.rows])?;
            let last = self.segments.pop_back().expect("the last");
            let before = self.segments.back_mut().expect("the one before");
            before.first += gone as u64;
            before.rows = rows;
            before.charges.extend(last.charges);
            before.charges.retain(|(end, _)| *end > self.first);
        }
        Ok(())
    }

    /// Drops rows with smaller numbers, as far as they are in segments of their own.
    pub(super) fn drop_before(&mut self, number: u64) {
        self.first = number;
        while self.segments.front().is_some_and(|segment| segment.end() <= number) {
            self.segments.pop_front();
        }
    }

    /// The rows that are needed.
    pub(super) fn rows(&self) -> Result<RecordBatch> {
        Ok(concat_batches(&self.schema, &self.kept().collect::<Vec<_>>())?)
    }

    /// The rows that are needed, in pieces.
    fn kept(&self) -> impl Iterator<Item = RecordBatch> + '_ {
        self.segments.iter().map(|segment| {
            let gone = self.first.saturating_sub(segment.first) as usize;
            segment.rows.slice(gone, segment.len() - gone)
        })
    }

    /// A column of the rows that are needed.
    pub(super) fn column(&self, column: usize) -> Column {
        let chunks = self.kept().map(|rows| rows.column(column).clone()).collect();
        Column::of_chunks(self.schema.field(column).data_type().clone(), chunks)
    }
}
