//! The rows that an operator keeps for one side, as Arrow data.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;
use tidegate_structures::memory;
use tidegate_structures::memory::records::COLUMNS;

use crate::Result;
use crate::columns::table::batch_bytes;
use crate::results::gather::{Column, Rows, concat_rows, fixed_width, raw_values};
use crate::stream::memory::Charge;

/// The number of adjacent segments that are combined into one. Gathering results is faster from a
/// few segments than from many, and large segments are stored on huge pages. Each time a row is
/// copied, it moves to a segment that is larger by about this factor.
const TOGETHER: usize = 8;

/// If all columns have fixed-width values, a segment with at least this many rows is no longer
/// combined with others.
const LARGE: usize = 1 << 16;

/// The corresponding limit for columns of strings or lists, whose bytes have to fit in one array.
const LARGE_OF_BYTES: usize = 1 << 13;

/// The remaining rows are copied if this releases at least one byte for every `SPARE` bytes that
/// are copied. Therefore, at most this many rows are copied for each dropped row.
const SPARE: usize = 8;

/// Rows in the order in which they are joined, with consecutive numbers.
#[derive(Debug)]
pub(crate) struct Store {
    schema: SchemaRef,
    segments: VecDeque<Segment>,
    /// Columns whose values are also kept row by row. Several columns can be stored together.
    records: Vec<(Vec<usize>, Rows)>,
    /// A segment with at least this many rows is left unchanged.
    large: usize,
    /// The number of the oldest needed row.
    first: u64,
    end: u64,
}

#[derive(Debug)]
struct Segment {
    /// The number of the first row in the segment.
    first: u64,
    rows: RecordBatch,
    /// The memory charged for the rows, in order.
    held: Vec<ChargedRows>,
}

/// The memory charged for adjacent rows.
#[derive(Debug)]
struct ChargedRows {
    /// The numbers of the rows.
    rows: Range<u64>,
    /// The part of the charge that accounts for these rows, in bytes.
    bytes: usize,
    /// The charge for the push, which other rows from the same push can share.
    charge: Arc<Charge>,
}

impl ChargedRows {
    /// Returns the charge for the rows starting at `first`, or `None` if there are no such rows.
    fn from(mut self, first: u64) -> Option<ChargedRows> {
        if self.rows.end <= first {
            return None;
        }
        let rows = self.rows.end - self.rows.start;
        self.rows.start = first.max(self.rows.start);
        let left = self.rows.end - self.rows.start;
        self.bytes = (self.bytes as u128 * u128::from(left)).div_ceil(u128::from(rows)) as usize;
        Some(self)
    }

    /// Returns the number of bytes by which the charge exceeds the size of these rows, or 0 if
    /// other rows share the charge.
    fn surplus(&self) -> usize {
        if Arc::strong_count(&self.charge) > 1 {
            0
        } else {
            self.charge.bytes().saturating_sub(self.bytes)
        }
    }

    fn give_back(&mut self) {
        let surplus = self.surplus();
        if let Some(charge) = Arc::get_mut(&mut self.charge) {
            drop(charge.split(surplus));
        }
    }
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
    /// Creates a store without rows. The columns in `longs`, which have 8-byte values, are also
    /// kept row by row.
    pub(crate) fn new(schema: SchemaRef, longs: &[usize]) -> Self {
        let is_fixed = schema.fields().iter().all(|field| fixed_width(field.data_type()).is_some());
        let large = if is_fixed { LARGE } else { LARGE_OF_BYTES };
        let records =
            groups(longs).map(|columns| (columns.to_vec(), Rows::new(columns.len()))).collect();
        Store { schema, segments: VecDeque::new(), records, large, first: 0, end: 0 }
    }

    /// Returns the maximum number of bytes that are kept row by row for each row. There is space
    /// for twice as many rows.
    pub(crate) fn record_bytes(longs: &[usize]) -> usize {
        groups(longs).map(|columns| 2 * Rows::row_bytes(columns.len())).sum()
    }

    /// Returns the number of bytes that are held for data stored row by row.
    pub(crate) fn record_memory(&self) -> usize {
        self.records.iter().map(|(_, rows)| rows.memory()).sum()
    }

    /// Returns the columns that are also kept row by row, with the needed rows.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&[usize], &Rows)> {
        self.records.iter().map(|(columns, rows)| (&columns[..], rows))
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds rows after the existing ones, and takes their bytes from the given charges.
    pub(crate) fn push(
        &mut self,
        rows: RecordBatch,
        charges: Vec<(usize, Arc<Charge>)>,
    ) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let first = self.end;
        self.end += rows.num_rows() as u64;
        let held = charges
            .into_iter()
            .map(|(bytes, charge)| ChargedRows { rows: first..self.end, bytes, charge })
            .collect();
        for (columns, records) in &mut self.records {
            add(records, columns, &rows);
        }
        self.segments.push_back(Segment { first, rows, held });
        while self.is_cut_up() && self.put_together()? {}
        Ok(())
    }

    /// Returns whether the last segments should be combined. Segments are not combined if the first
    /// one contains most of the rows, because these rows would be copied repeatedly.
    fn is_cut_up(&self) -> bool {
        let Some(from) = self.segments.len().checked_sub(TOGETHER) else { return false };
        let rows = |segment: &Segment| segment.len() - self.gone(segment);
        let all: usize = self.segments.range(from..).map(rows).sum();
        let are_small = self.segments.range(from..).all(|segment| segment.len() < self.large);
        are_small && 2 * rows(&self.segments[from]) <= all
    }

    /// Combines the last segments into one, unless a dictionary would then have more values than
    /// its indices can represent.
    fn put_together(&mut self) -> Result<bool> {
        let from = self.segments.len() - TOGETHER;
        let first = self.segments[from].first + self.gone(&self.segments[from]) as u64;
        let rows = match concat_rows(&self.schema, &self.kept().skip(from).collect::<Vec<_>>()) {
            Err(error) if error.is_schema() => return Ok(false),
            rows => rows?,
        };
        let held = self.segments.drain(from..).flat_map(|segment| segment.held);
        let held = held.filter_map(|held| held.from(self.first)).collect();
        self.segments.push_back(Segment { first, rows, held });
        Ok(true)
    }

    /// Returns the number of rows in a segment that are no longer needed.
    fn gone(&self, segment: &Segment) -> usize {
        self.first.saturating_sub(segment.first) as usize
    }

    /// Releases the memory of dropped rows that the first segment still holds. The dropped rows
    /// belong to that segment or to the same push. The remaining rows are copied, unless copying is
    /// not worthwhile.
    pub(crate) fn shrink(&mut self) -> Result<()> {
        let first = self.first;
        let Some(segment) = self.segments.front_mut() else { return Ok(()) };
        segment.held = std::mem::take(&mut segment.held)
            .into_iter()
            .filter_map(|held| held.from(first))
            .collect();
        let gone = first.saturating_sub(segment.first);
        let surplus: usize = segment.held.iter().map(ChargedRows::surplus).sum();
        let needed: usize = segment.held.iter().map(|held| held.bytes).sum();
        if surplus == 0 || surplus < needed / SPARE {
            return Ok(());
        }
        let rows = UInt32Array::from(memory::collect(gone as u32..segment.len() as u32));
        memory::demand(batch_bytes(&segment.rows));
        segment.rows = take_record_batch(&segment.rows, &rows)?;
        segment.first += gone;
        segment.held.iter_mut().for_each(ChargedRows::give_back);
        Ok(())
    }

    /// Drops rows with smaller numbers. A segment is removed only if all of its rows are dropped.
    pub(crate) fn drop_before(&mut self, number: u64) {
        let gone = number.min(self.end) - self.first.min(self.end);
        self.records.iter_mut().for_each(|(_, rows)| rows.drop_front(gone as usize));
        self.first = number;
        while self.segments.front().is_some_and(|segment| segment.end() <= number) {
            self.segments.pop_front();
        }
    }

    /// Keeps only the needed rows at these offsets. The remaining rows get new numbers, starting
    /// with the number of the oldest row. The memory of all other rows is released.
    pub(crate) fn retain(&mut self, kept: &[u32]) -> Result<()> {
        let (first, mut left) = (self.first, kept);
        let (mut segments, mut end) = (VecDeque::new(), first);
        for segment in std::mem::take(&mut self.segments) {
            let Segment { first: number, rows, held } = segment;
            let of_segment = left.partition_point(|&offset| {
                first + u64::from(offset) < number + rows.num_rows() as u64
            });
            let (here, others) = left.split_at(of_segment);
            left = others;
            if here.is_empty() {
                continue;
            }
            let at = |&offset: &u32| (first + u64::from(offset) - number) as u32;
            let places = UInt32Array::from(memory::collect(here.iter().map(at)));
            memory::demand(batch_bytes(&rows));
            let rows = take_record_batch(&rows, &places)?;
            let before = |number: u64| {
                here.partition_point(|&offset| first + u64::from(offset) < number) as u64
            };
            // Adjacent rows can have several charges.
            let share = |held: ChargedRows| {
                let ChargedRows { rows: all, bytes, charge } = held;
                let rows = end + before(all.start)..end + before(all.end);
                let bytes = bytes as u128 * u128::from(rows.end - rows.start);
                let bytes = bytes.div_ceil(u128::from(all.end - all.start)) as usize;
                let mut held = ChargedRows { rows, bytes, charge };
                held.give_back();
                (!held.rows.is_empty()).then_some(held)
            };
            let held = held.into_iter().filter_map(share).collect();
            segments.push_back(Segment { first: end, rows, held });
            end += here.len() as u64;
        }
        (self.segments, self.end) = (segments, end);
        for (columns, records) in &mut self.records {
            *records = Rows::new(columns.len());
            for segment in &self.segments {
                add(records, columns, &segment.rows);
            }
        }
        Ok(())
    }

    /// Returns the needed rows.
    pub(crate) fn rows(&self) -> Result<RecordBatch> {
        concat_rows(&self.schema, &self.kept().collect::<Vec<_>>())
    }

    /// Returns the rows at these offsets, which are counted from the oldest needed row.
    pub(crate) fn rows_at(&self, offsets: &[u32]) -> Result<RecordBatch> {
        let rows = self.rows()?;
        if offsets.len() == rows.num_rows() {
            return Ok(rows);
        }
        let places = UInt32Array::from(memory::collect(offsets.iter().copied()));
        memory::demand(batch_bytes(&rows));
        Ok(take_record_batch(&rows, &places)?)
    }

    /// Returns the maximum number of rows in a piece that is not combined with other pieces.
    pub(crate) fn piece_rows(&self) -> usize {
        self.large
    }

    /// Returns the needed rows, in several pieces.
    pub(crate) fn kept(&self) -> impl Iterator<Item = RecordBatch> + '_ {
        self.segments.iter().map(|segment| {
            let gone = self.gone(segment);
            segment.rows.slice(gone, segment.len() - gone)
        })
    }

    /// Returns the values of the needed rows in one column.
    pub(crate) fn column(&self, column: usize) -> Column {
        let chunks = self.kept().map(|rows| rows.column(column).clone()).collect();
        Column::of_chunks(self.schema.field(column).data_type().clone(), chunks)
    }
}

/// Adds the values of these columns to the records.
fn add(records: &mut Rows, columns: &[usize], rows: &RecordBatch) {
    let values: Vec<Buffer> =
        columns.iter().map(|&at| raw_values(rows.column(at), size_of::<u64>())).collect();
    records.push(&values.iter().map(|values| bytemuck::cast_slice(values)).collect::<Vec<_>>());
}

/// Returns the groups of columns that are stored together row by row. A single column gains nothing
/// from being stored row by row.
fn groups(longs: &[usize]) -> impl Iterator<Item = &[usize]> {
    longs.chunks(COLUMNS).filter(|columns| columns.len() > 1)
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use arrow_schema::{DataType, Field, Schema};
    use arrow_select::concat::concat_batches;
    use proptest::prelude::*;

    use super::*;
    use crate::stream::memory::Memory;

    /// Returns rows `from..to`, some of which contain nulls. A string column is optional.
    fn rows(from: u64, to: u64, has_text: bool) -> RecordBatch {
        let numbers =
            Int64Array::from_iter((from..to).map(|row| (row % 7 != 3).then_some(row as i64)));
        let mut fields = vec![Field::new("n", DataType::Int64, true)];
        let mut columns: Vec<ArrayRef> = vec![Arc::new(numbers)];
        if has_text {
            fields.push(Field::new("text", DataType::Utf8, true));
            let texts = (from..to).map(|row| (row % 5 != 0).then(|| "x".repeat(row as usize % 4)));
            columns.push(Arc::new(StringArray::from_iter(texts)));
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .expect("the columns match the schema")
    }

    #[test]
    fn memory_of_rows_that_have_left_is_given_back() {
        let memory = Memory::new(Some(1_000), 1, false);
        let mut store = Store::new(rows(0, 1, true).schema(), &[]);
        let charge = Arc::new(memory.charge(0, 400).unwrap());
        store.push(rows(0, 20, true), vec![(200, charge.clone())]).unwrap();
        store.push(rows(20, 40, true), vec![(200, charge)]).unwrap();
        store.drop_before(19);
        store.shrink().unwrap();
        assert_eq!(memory.held(), 400, "the other segment's rows belong to the same push");
        store.drop_before(38);
        store.shrink().unwrap();
        assert_eq!(memory.held(), 20);
        assert_eq!(
            store.rows().unwrap(),
            concat_batches(store.schema(), [&rows(38, 40, true)]).unwrap()
        );
        store.drop_before(40);
        assert_eq!(memory.held(), 0);
    }

    proptest! {
        #[test]
        fn oracle_rows_come_back_however_they_are_put_together(
            pushes in prop::collection::vec((0_u64..40, 0_u64..40), 1..120),
            has_text in any::<bool>(),
        ) {
            let schema = rows(0, 1, has_text).schema();
            let mut store = Store::new(schema.clone(), &[]);
            let (mut first, mut end) = (0_u64, 0_u64);
            for (added, dropped) in pushes {
                // Use a slice so that values do not start at the beginning of their memory.
                let batch = rows(end.saturating_sub(1), end + added, has_text);
                let skipped = (end > 0) as usize;
                store.push(batch.slice(skipped, added as usize), Vec::new()).unwrap();
                end += added;
                first = end.min(first + dropped);
                store.drop_before(first);
                if added % 2 == 0 {
                    store.shrink().unwrap();
                }
                let expected = concat_batches(&schema, [&rows(first, end, has_text)]).unwrap();
                prop_assert_eq!(store.rows().unwrap(), expected);
                prop_assert!(store.segments.len() < TOGETHER * 8, "{} segments", store.segments.len());
            }
        }
    }
}
