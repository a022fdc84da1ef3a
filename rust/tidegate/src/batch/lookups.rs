//! The result rows of as-of joins that look up more than one right row per left row.
//!
//! A *lane* is a set of right columns in the result. A wide result has one lane per offset, and a
//! long result has one lane, whose rows alternate between the offsets.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use tidegate_operators::driver::Driver;
use tidegate_operators::matches::Matches;
use tidegate_operators::rows::{How, NO_ROW};
use tidegate_structures::memory;
use tidegate_sync::Stop;

use crate::Result;
use crate::columns::cast::cast;
use crate::columns::table::Table;
use crate::columns::time::Int64s;
use crate::query::asof::AsofPlan;
use crate::query::lookups::{AtColumn, LookupColumn, LookupPlan};
use crate::results::gather::{Column, ColumnSource, Gather};

/// The partners of left rows at one offset.
#[derive(Debug)]
pub(super) enum OffsetPartners {
    /// At most one partner of each left row.
    One(Matches),
    /// Several partners of each left row, in time order.
    Several(Matches),
    /// The rows before and after each left row. A left row without an interpolated value has
    /// neither.
    Between { before: Matches, after: Matches },
}

impl OffsetPartners {
    fn is_matched(&self, left: usize) -> bool {
        match self {
            OffsetPartners::One(matches) => matches.partner(left).is_some(),
            OffsetPartners::Several(matches) => matches.count(left) > 0,
            OffsetPartners::Between { before, .. } => before.partner(left).is_some(),
        }
    }
}

/// The times of both sides, which interpolation needs.
#[derive(Debug)]
pub(super) struct LookupTimes {
    pub(super) left: Int64s,
    pub(super) right: Int64s,
}

/// The partners of all left rows, and the columns of the result.
#[derive(Debug)]
pub(super) struct LookupResults {
    schema: SchemaRef,
    how: How,
    is_long: bool,
    /// The maximum number of right rows per left row and lane.
    most: usize,
    at: AtColumn,
    /// The offsets, in time units.
    steps: Vec<i64>,
    partners: Vec<OffsetPartners>,
    times: Option<LookupTimes>,
    left_rows: usize,
    left: Gather,
    lanes: Vec<Lane>,
    /// For each result column, its place among the gathered columns.
    places: Vec<ResultPlace>,
}

/// The right columns of the result that are gathered together.
#[derive(Debug)]
struct Lane {
    gather: Gather,
    /// The columns among them that are interpolated, to be gathered from the rows after.
    after: Gather,
    /// For each column of `gather`, its place in `after`.
    interpolated: Vec<Option<usize>>,
}

/// The place of a result column among the gathered columns.
#[derive(Clone, Copy, Debug)]
enum ResultPlace {
    Left(usize),
    At,
    Right { lane: usize, column: usize },
}

/// A result row: the left row, and the number of the offset.
type Entry = (u32, u32);

impl LookupResults {
    pub(super) fn new(
        (plan, lookups): (&AsofPlan, &LookupPlan),
        how: How,
        (left, right): (&Table, &Table),
        partners: Vec<OffsetPartners>,
        times: Option<LookupTimes>,
    ) -> Self {
        let mut of_left = Vec::new();
        let lanes = if lookups.is_long { 1 } else { lookups.offsets.len() };
        let mut of_lanes: Vec<Vec<usize>> = vec![Vec::new(); lanes];
        let place = |column: &LookupColumn| match *column {
            LookupColumn::At => ResultPlace::At,
            LookupColumn::Left(at) => {
                of_left.push(at);
                ResultPlace::Left(of_left.len() - 1)
            }
            LookupColumn::Right { column, offset } => {
                of_lanes[offset].push(column);
                ResultPlace::Right { lane: offset, column: of_lanes[offset].len() - 1 }
            }
        };
        let places = lookups.columns.iter().map(place).collect();
        let lane = |columns: Vec<usize>| {
            let is_interpolated = |&&column: &&usize| lookups.interpolated[column];
            let after: Vec<usize> = columns.iter().filter(is_interpolated).copied().collect();
            let place = |column: &usize| after.iter().position(|other| other == column);
            Lane {
                interpolated: columns.iter().map(place).collect(),
                after: gather(right, &after),
                gather: gather(right, &columns),
            }
        };
        LookupResults {
            schema: plan.join.schema.clone(),
            how,
            is_long: lookups.is_long,
            most: lookups.partners.map_or(1, |most| most as usize),
            at: lookups.at.clone(),
            steps: lookups.offsets.iter().map(|offset| offset.steps).collect(),
            partners,
            times,
            left_rows: left.rows(),
            left: gather(left, &of_left),
            lanes: of_lanes.into_iter().map(lane).collect(),
            places,
        }
    }

    /// The number of left rows.
    pub(super) fn left_rows(&self) -> usize {
        self.left_rows
    }

    /// Returns whether every left row is in the result.
    pub(super) fn keeps_all(&self) -> bool {
        self.how == How::Left
    }

    /// Returns the maximum number of result rows per left row.
    pub(super) fn rows_of_each(&self) -> usize {
        if self.is_long { self.steps.len() } else { 1 }
    }

    /// Returns the number of left rows whose results fit in a batch of `rows` rows.
    pub(super) fn left_rows_per_batch(&self, rows: usize) -> usize {
        (rows / self.rows_of_each() / self.most.clamp(1, rows.max(1))).max(1)
    }

    /// Sets whether left columns can share memory with the left table.
    pub(super) fn set_slicing(&mut self, may_slice: bool) {
        self.left.slices_left = may_slice && self.keeps_all() && !self.is_long;
    }

    /// Builds the result rows for a range of left rows, in batches of at most `rows` rows.
    pub(super) fn batches(
        &self,
        left: Range<usize>,
        rows: usize,
        read_soon: bool,
    ) -> Result<Vec<RecordBatch>> {
        let batch = match self.batch(&self.entries(left.clone()), read_soon) {
            Ok(batch) => batch,
            Err(error) if left.len() > 1 && is_overflow(&error) => {
                let half = left.start + left.len() / 2;
                let mut batches = self.batches(left.start..half, rows, read_soon)?;
                batches.extend(self.batches(half..left.end, rows, read_soon)?);
                return Ok(batches);
            }
            Err(error) => return Err(error.into()),
        };
        let starts = (0..batch.num_rows().max(1)).step_by(rows);
        Ok(starts.map(|at| batch.slice(at, rows.min(batch.num_rows() - at))).collect())
    }

    /// Returns the result rows of a range of left rows.
    fn entries(&self, left: Range<usize>) -> Vec<Entry> {
        let offsets = 0..self.partners.len();
        let keeps = |is_matched: bool| match self.how {
            How::Inner | How::Semi => is_matched,
            How::Anti => !is_matched,
            _ => true,
        };
        let mut entries = memory::vec(left.len() * self.rows_of_each());
        for row in left {
            let is_matched = |offset: usize| self.partners[offset].is_matched(row);
            if self.is_long {
                let kept = offsets.clone().filter(|&offset| keeps(is_matched(offset)));
                entries.extend(kept.map(|offset| (row as u32, offset as u32)));
            } else if self.keeps_all() || keeps(offsets.clone().any(is_matched)) {
                entries.push((row as u32, 0));
            }
        }
        entries
    }

    fn batch(&self, entries: &[Entry], read_soon: bool) -> Result<RecordBatch, ArrowError> {
        // Each thread builds one batch.
        let alone = &Driver::new(1, Stop::default());
        let left: Vec<u32> = memory::collect(entries.iter().map(|entry| entry.0));
        let of_left = self.left.gathered(&left, read_soon, alone)?;
        let mut of_lanes = Vec::with_capacity(self.lanes.len());
        for (number, lane) in self.lanes.iter().enumerate() {
            let offset = |entry: &Entry| if self.is_long { entry.1 } else { number as u32 };
            let entries: Vec<Entry> =
                memory::collect(entries.iter().map(|entry| (entry.0, offset(entry))));
            of_lanes.push(self.lane(lane, &entries, read_soon, alone)?);
        }
        let mut columns = Vec::with_capacity(self.places.len());
        for (place, field) in self.places.iter().zip(self.schema.fields()) {
            columns.push(match *place {
                ResultPlace::Left(column) => of_left[column].clone(),
                ResultPlace::At => self.offsets(entries)?,
                ResultPlace::Right { lane, column } => {
                    of_lanes[lane].column(column, field.data_type())?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(entries.len()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
    }

    /// Returns the column with the offset of each result row.
    fn offsets(&self, entries: &[Entry]) -> Result<ArrayRef, ArrowError> {
        let steps = |entry: &Entry| self.steps[entry.1 as usize] * self.at.factor;
        let values = Int64Array::from(memory::collect(entries.iter().map(steps)));
        cast(&values, &self.at.data_type)
    }

    /// Gathers the right columns of a lane.
    fn lane(
        &self,
        lane: &Lane,
        entries: &[Entry],
        read_soon: bool,
        alone: &Driver,
    ) -> Result<LaneColumns, ArrowError> {
        let (mut rows, mut after) = (memory::vec(entries.len()), Vec::new());
        let mut ends = Vec::new();
        for &(left, offset) in entries {
            match &self.partners[offset as usize] {
                OffsetPartners::One(found) => {
                    rows.push(found.partner(left as usize).unwrap_or(NO_ROW));
                }
                OffsetPartners::Several(found) => {
                    let found = found.rows_of(left as usize);
                    memory::reserve(&mut rows, found.len());
                    rows.extend(found);
                    memory::reserve(&mut ends, 1);
                    ends.push(rows.len());
                }
                OffsetPartners::Between { before, after: later } => {
                    memory::reserve(&mut after, 1);
                    rows.push(before.partner(left as usize).unwrap_or(NO_ROW));
                    after.push(later.partner(left as usize).unwrap_or(NO_ROW));
                }
            }
        }
        let mut columns = lane.gather.gathered(&rows, read_soon, alone)?;
        if let Some(times) = &self.times
            && !lane.after.sources.is_empty()
        {
            let of_after = lane.after.gathered(&after, read_soon, alone)?;
            let shares = times.shares(entries, &self.steps, &rows, &after);
            for (column, place) in columns.iter_mut().zip(&lane.interpolated) {
                let Some(place) = *place else { continue };
                *column = between(column, &of_after[place], &shares)?;
            }
        }
        let are_lists = matches!(self.partners.first(), Some(OffsetPartners::Several(_)));
        let lists = are_lists.then(|| lists(&ends)).transpose()?;
        Ok(LaneColumns { columns, lists })
    }
}

/// The gathered columns of a lane.
struct LaneColumns {
    columns: Vec<ArrayRef>,
    /// The offsets of lists, and the lists that are null because a left row has no partner.
    lists: Option<(OffsetBuffer<i32>, Option<NullBuffer>)>,
}

impl LaneColumns {
    fn column(&self, column: usize, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let values = self.columns[column].clone();
        match (&self.lists, data_type) {
            (Some((offsets, nulls)), DataType::List(item)) => {
                let nulls = nulls.clone();
                Ok(Arc::new(ListArray::try_new(item.clone(), offsets.clone(), values, nulls)?))
            }
            _ => Ok(values),
        }
    }
}

/// Returns the offsets of lists with these ends. Empty lists are null.
fn lists(ends: &[usize]) -> Result<(OffsetBuffer<i32>, Option<NullBuffer>), ArrowError> {
    let end = |end: &usize| i32::try_from(*end).map_err(|_| ArrowError::OffsetOverflowError(*end));
    let offsets = std::iter::once(Ok(0)).chain(ends.iter().map(end));
    let offsets = OffsetBuffer::new(offsets.collect::<Result<Vec<i32>, _>>()?.into());
    let is_there = |list: usize| offsets[list] < offsets[list + 1];
    let valid = BooleanBuffer::collect_bool(ends.len(), is_there);
    let nulls = (valid.count_set_bits() < ends.len()).then(|| NullBuffer::new(valid));
    Ok((offsets, nulls))
}

impl LookupTimes {
    /// Returns, for each result row, the share of the time between the rows before and after that
    /// has passed. The share is 0 if the row before has the time looked up.
    fn shares(&self, entries: &[Entry], steps: &[i64], before: &[u32], after: &[u32]) -> Vec<f64> {
        let rows = entries.iter().zip(before).zip(after);
        let share = |((&(left, offset), &before), &after): ((&Entry, &u32), &u32)| {
            if before == NO_ROW {
                return 0.0;
            }
            let first = i128::from(self.right[before as usize]);
            let ts = i128::from(self.left[left as usize]) + i128::from(steps[offset as usize]);
            if ts == first {
                return 0.0;
            }
            let last = i128::from(self.right[after as usize]);
            (ts - first) as f64 / (last - first) as f64
        };
        memory::collect(rows.map(share))
    }
}

/// Interpolates between two columns. A share of 0 returns the first value, even if the second is
/// null or infinite.
fn between(before: &ArrayRef, after: &ArrayRef, shares: &[f64]) -> Result<ArrayRef, ArrowError> {
    let before = cast(before, &DataType::Float64)?;
    let after = cast(after, &DataType::Float64)?;
    let (before, after) =
        (before.as_primitive::<Float64Type>(), after.as_primitive::<Float64Type>());
    let mut valid = BooleanBufferBuilder::new(shares.len());
    let value = |(row, &share): (usize, &f64)| {
        let is_exact = share == 0.0;
        valid.append(before.is_valid(row) && (is_exact || after.is_valid(row)));
        let first = before.value(row);
        if is_exact { first } else { first + (after.value(row) - first) * share }
    };
    let values = memory::collect(shares.iter().enumerate().map(value));
    let nulls = NullBuffer::new(valid.finish());
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    Ok(Arc::new(Float64Array::new(values.into(), nulls)))
}

/// Returns the gather of a table's columns.
fn gather(table: &Table, columns: &[usize]) -> Gather {
    let source = |&at: &usize| ColumnSource::Left(Arc::new(Column::new(table, at)));
    let data_type = |&at: &usize| table.schema().field(at).data_type().clone();
    Gather {
        sources: columns.iter().map(source).collect(),
        types: columns.iter().map(data_type).collect(),
        optional: [true, false],
        records: [Vec::new(), Vec::new()],
        slices_left: false,
    }
}

impl Gather {
    /// Returns the columns of the given rows, if all columns are on the left side. The driver must
    /// have a flag that is never set.
    fn gathered(
        &self,
        rows: &[u32],
        read_soon: bool,
        driver: &Driver,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let values = self.values(rows, &[], read_soon, driver);
        self.columns(rows, &[], values.expect("nothing stops this driver"))
    }
}

/// Returns whether a batch has too many values for one array.
fn is_overflow(error: &ArrowError) -> bool {
    matches!(error, ArrowError::OffsetOverflowError(_) | ArrowError::DictionaryKeyOverflowError)
}
