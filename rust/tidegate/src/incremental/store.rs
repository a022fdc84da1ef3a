//! The rows of one side that an operator keeps, as Arrow data.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat::concat_batches;
use tidegate_operators::matches::NO_ROW;
use tidegate_sync::Charge;

use crate::Result;
use crate::interleave::{NO_PLACE, Place, interleave};

/// Neighbouring segments are put together while they have no more rows than this, so that many small pushes do not
/// make a state of many small pieces.
const SEGMENT_ROWS: usize = 1 << 14;

/// Rows in merged order, numbered from the first ever.
#[derive(Debug)]
pub(super) struct Store {
    schema: SchemaRef,
    segments: VecDeque<Segment>,
    end: u64,
}

#[derive(Debug)]
struct Segment {
    /// The number of its first row.
    first: u64,
    rows: RecordBatch,
    /// What the rows have been charged; shared with other rows pushed with them.
    charges: Vec<Arc<Charge>>,
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
        Store { schema, segments: VecDeque::new(), end: 0 }
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
        self.segments.push_back(Segment { first, rows, charges });
        // A segment takes in the one before it when that is not much larger: a row is copied a few times at most.
        while let [.., before, last] = &*self.segments.make_contiguous()
            && before.len() <= 2 * last.len()
            && before.len() + last.len() <= SEGMENT_ROWS
        {
            let rows = concat_batches(&self.schema, [&before.rows, &last.rows])?;
            let last = self.segments.pop_back().expect("the last");
            let before = self.segments.back_mut().expect("the one before");
            before.rows = rows;
            before.charges.extend(last.charges);
            before.charges.sort_by_key(Arc::as_ptr);
            before.charges.dedup_by(|a, b| Arc::ptr_eq(a, b));
        }
        Ok(())
    }

    /// Drops segments whose rows all have smaller numbers.
    pub(super) fn drop_before(&mut self, number: u64) {
        while self.segments.front().is_some_and(|segment| segment.end() <= number) {
            self.segments.pop_front();
        }
    }

    /// The rows from `number` on.
    pub(super) fn rows_from(&self, number: u64) -> Result<RecordBatch> {
        let rows = self.segments.iter().filter(|segment| segment.end() > number).map(|segment| {
            let skip = number.saturating_sub(segment.first) as usize;
            segment.rows.slice(skip, segment.len() - skip)
        });
        Ok(concat_batches(&self.schema, &rows.collect::<Vec<_>>())?)
    }

    /// Where the rows are whose numbers are `first` plus an offset; [`NO_ROW`] is no row.
    pub(super) fn places(&self, first: u64, offsets: &[u32]) -> Vec<Place> {
        let mut last: (u64, u64, u32) = (1, 0, 0);
        let place = |&offset: &u32| {
            if offset == NO_ROW {
                return NO_PLACE;
            }
            let number = first + u64::from(offset);
            // Neighbouring results often lie in one segment.
            if number < last.0 || number >= last.1 {
                let at = self.segments.partition_point(|segment| segment.end() <= number);
                last = (self.segments[at].first, self.segments[at].end(), at as u32);
            }
            (last.2, (number - last.0) as u32)
        };
        offsets.iter().map(place).collect()
    }

    /// The values of a column at places.
    pub(super) fn column(&self, column: usize, places: &[Place]) -> Result<ArrayRef, ArrowError> {
        let chunks: Vec<ArrayRef> = self.segments.iter().map(|segment| segment.rows.column(column).clone()).collect();
        interleave(self.data_type(column), &chunks, places)
    }

    pub(super) fn data_type(&self, column: usize) -> &DataType {
        self.schema.field(column).data_type()
    }
}
