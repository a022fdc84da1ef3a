//! Adds windows without rows to a result whose rows are ordered by window, then by key.
//!
//! ```text
//!   window      1       2       3       4       5
//!   key a       1.5     ·       ·       2.0     ·      · is a window without rows
//!   key b               7.0     ·       ·       ·
//!   last        1.5     1.5 7.0 1.5 7.0 2.0 ·   ·      windows end with the last row of each key
//! ```
//!
//! The work is proportional to the number of rows, including those that are added. The state
//! contains one row per key whose windows may continue.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, Scalar, UInt32Array};
use arrow_cast::cast;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, SchemaRef, SortOptions};
use arrow_select::take::take;
use arrow_select::zip::zip;
use tidegate_operators::aggregate::Windows;
use tidegate_operators::driver::Driver;

use super::groups::canonical_values;
use super::values::times_as;
use crate::Result;
use crate::columns::dictionary::concat_batches;
use crate::query::aggregate::fill::{Fill, FillPlan};
use crate::query::aggregate::plan::{AggregatePlan, WindowSpan};
use crate::query::aggregate::value_types::leaf;

/// The approximate number of rows in a batch.
const BATCH_ROWS: usize = 1 << 16;

/// A key's values as bytes, which have the same order as the keys.
type KeyBytes = Box<[u8]>;

/// Adds windows without rows.
#[derive(Clone, Debug)]
pub(crate) struct WindowFiller {
    plan: FillPlan,
    windows: Windows,
    schema: SchemaRef,
    /// The number of key columns, which follow the two columns of the window.
    keys: usize,
    converter: Option<Arc<RowConverter>>,
    /// The keys whose windows may continue, in key order.
    open: Vec<(KeyBytes, OpenKey)>,
    /// The last row with input rows of each open key.
    rows: RecordBatch,
    /// The number of the first window that has not been filled yet, if there are open keys.
    next: i64,
    /// The numbers of the first and the last window to return.
    limits: (i64, i64),
}

/// The keys of rows as bytes. `None` means that there are no key columns.
#[derive(Debug)]
struct RowKeys(Option<Rows>);

impl RowKeys {
    fn of_row(&self, row: usize) -> &[u8] {
        self.0.as_ref().map_or(&[], |rows| rows.row(row).data())
    }
}

/// A key whose windows may continue.
#[derive(Clone, Copy, Debug)]
struct OpenKey {
    /// The key's last row with input rows, in `rows` or after them in the current batch.
    row: u32,
    /// The window of this row.
    window: i64,
    /// The last window of the key, as far as is known.
    until: i64,
    /// The first window of the key. Windows before the row have no previous value.
    from: i64,
}

/// The rows of a result before their columns are built.
#[derive(Debug, Default)]
struct FilledRows {
    starts: Vec<i64>,
    ends: Vec<i64>,
    /// The row from which the key is taken.
    rows: Vec<u32>,
    /// Whether the window has no input rows.
    is_empty: Vec<bool>,
    /// Whether the row that provides the key comes after the window.
    is_ahead: Vec<bool>,
}

/// What is known about the rows that follow in a table.
#[derive(Debug)]
struct RowsAhead {
    /// The next row of the same key. The last row of a key refers to itself.
    next: Vec<u32>,
    /// The window of each row.
    windows: Vec<i64>,
}

impl WindowFiller {
    /// Returns `None` if the result contains only windows with rows.
    pub(crate) fn of_plan(of: &AggregatePlan) -> Result<Option<Self>> {
        let (Some(plan), WindowSpan::Windows(windows)) = (&of.fill, &of.span) else {
            return Ok(None);
        };
        Self::new(plan.clone(), windows.clone(), of.by.len(), of.schema.clone()).map(Some)
    }

    fn new(plan: FillPlan, windows: Windows, keys: usize, schema: SchemaRef) -> Result<Self> {
        const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };
        let field = |at: usize| {
            let kind = leaf(schema.field(2 + at).data_type()).clone();
            SortField::new_with_options(kind, ASCENDING)
        };
        let converter =
            (keys > 0).then(|| RowConverter::new((0..keys).map(field).collect())).transpose()?;
        let converter = converter.map(Arc::new);
        let rows = RecordBatch::new_empty(schema.clone());
        Ok(WindowFiller {
            plan,
            windows,
            schema,
            keys,
            converter,
            open: Vec::new(),
            rows,
            next: i64::MIN,
            limits: (i64::MIN, i64::MAX),
        })
    }

    /// Returns only windows that start within this inclusive range of times.
    pub(crate) fn within(mut self, first: i64, last: i64) -> Self {
        self.limits = (self.first_from(first), self.windows.last_started(last));
        self
    }

    /// Returns the number of the first window that starts at or after a time.
    fn first_from(&self, time: i64) -> i64 {
        let before = time.checked_sub(1);
        before.map_or(i64::MIN, |before| self.windows.last_started(before).saturating_add(1))
    }

    /// Returns the rows of a whole table, including rows for windows without input rows.
    ///
    /// `announce` receives the number of rows of each batch before the batch is built.
    pub(crate) fn table(
        mut self,
        batches: &[RecordBatch],
        driver: &Driver,
        announce: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Vec<RecordBatch>> {
        let whole = self.in_order(concat_batches(&self.schema, batches)?)?;
        let keys = self.keys_of(&whole)?;
        let windows = self.windows_of(&whole);
        let mut next: Vec<u32> = (0..whole.num_rows() as u32).collect();
        let mut last: HashMap<&[u8], u32> = HashMap::new();
        for row in (0..whole.num_rows()).rev() {
            if let Some(later) = last.insert(keys.of_row(row), row as u32) {
                next[row] = later;
            }
        }
        drop(last);
        let ahead = RowsAhead { next, windows };
        let mut found = Vec::new();
        let mut take = |filler: &Self, rows: &FilledRows| {
            driver.check()?;
            announce(rows.rows.len())?;
            found.push(filler.batch(&whole, rows, Some(&ahead))?);
            Ok(())
        };
        self.open_from_start(&keys, &ahead);
        self.fill(&keys, &ahead.windows, Some(&ahead), &mut take)?;
        self.continue_to(i64::MAX, &mut take)?;
        Ok(found)
    }

    /// Opens every key that has its first row after the start of the grid, if there is one.
    fn open_from_start(&mut self, keys: &RowKeys, ahead: &RowsAhead) {
        let Some(start) = self.plan.start else { return };
        let from = self.first_from(start);
        let mut first: HashMap<&[u8], u32> = HashMap::new();
        for row in (0..ahead.windows.len()).rev() {
            first.insert(keys.of_row(row), row as u32);
        }
        let open = first.into_iter().filter_map(|(key, row)| {
            let window = ahead.windows[row as usize];
            (window > from).then(|| (key.into(), OpenKey { row, window, until: window, from }))
        });
        self.open = open.collect();
        self.open.sort_by(|(a, _): &(KeyBytes, _), (b, _)| a.cmp(b));
        self.next = from;
    }

    /// Returns the next rows of a stream, including rows for earlier windows without input rows. A
    /// window's rows must be passed together.
    pub(crate) fn push(&mut self, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        let given = concat_batches(&self.schema, batches)?;
        let (keys, windows) = (self.keys_of(&given)?, self.windows_of(&given));
        let every = concat_batches(&self.schema, [&self.rows, &given])?;
        let mut found = Vec::new();
        let mut take = |filler: &Self, rows: &FilledRows| {
            found.push(filler.batch(&every, rows, None)?);
            Ok(())
        };
        self.fill(&keys, &windows, None, &mut take)?;
        self.keep_rows(&every)?;
        Ok(found)
    }

    /// Returns the rows for windows without input rows that end no later than a time. `None` means
    /// all windows of the open keys.
    pub(crate) fn advance(&mut self, upto: Option<i64>) -> Result<Vec<RecordBatch>> {
        let last = match upto {
            None => i64::MAX,
            Some(upto) => self.windows.last_ended(upto.saturating_sub(self.windows.behind())),
        };
        let (every, mut found) = (self.rows.clone(), Vec::new());
        let mut take = |filler: &Self, rows: &FilledRows| {
            found.push(filler.batch(&every, rows, None)?);
            Ok(())
        };
        self.continue_to(last, &mut take)?;
        self.keep_rows(&every)?;
        Ok(found)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Drops all keys.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.rows = RecordBatch::new_empty(self.schema.clone());
    }

    /// Returns whether any key has windows that may continue.
    pub(crate) fn has_rows(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the state: the last row of each open key, and the next window.
    pub(crate) fn state(&self) -> (&RecordBatch, i64) {
        (&self.rows, self.next)
    }

    /// Replaces the state. Returns `false`, and changes nothing, if it is not a valid state.
    pub(crate) fn restore(&mut self, rows: RecordBatch, next: i64) -> Result<bool> {
        let (keys, windows) = (self.keys_of(&rows)?, self.windows_of(&rows));
        let open: Vec<(KeyBytes, OpenKey)> = (0..)
            .zip(windows)
            .map(|(row, window)| {
                let until = self.kept_until(window);
                let key = OpenKey { row, window, until, from: window };
                (keys.of_row(row as usize).into(), key)
            })
            .collect();
        let is_sorted = open.is_sorted_by(|(a, _), (b, _)| a < b);
        if !is_sorted || open.iter().any(|(_, key)| key.window >= next) {
            return Ok(false);
        }
        (self.open, self.rows, self.next) = (open, rows, next);
        Ok(true)
    }

    /// Returns each row's key.
    fn keys_of(&self, rows: &RecordBatch) -> Result<RowKeys> {
        let Some(converter) = &self.converter else { return Ok(RowKeys(None)) };
        let columns = rows.columns()[2..2 + self.keys].iter().map(canonical_values);
        Ok(RowKeys(Some(converter.convert_columns(&columns.collect::<Result<Vec<_>>>()?)?)))
    }

    /// Returns the rows, ordered by window and then by key.
    fn in_order(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let (keys, windows) = (self.keys_of(&rows)?, self.windows_of(&rows));
        let place = |row: &u32| (windows[*row as usize], keys.of_row(*row as usize));
        let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
        if order.is_sorted_by_key(place) {
            return Ok(rows);
        }
        order.sort_by(|a, b| place(a).cmp(&place(b)));
        Ok(arrow_select::take::take_record_batch(&rows, &UInt32Array::from(order))?)
    }

    /// Returns the number of each row's window.
    fn windows_of(&self, rows: &RecordBatch) -> Vec<i64> {
        let [starts, ends] = [0, 1].map(|at| whole_numbers(rows.column(at)));
        let mut last = (None, 0);
        let mut number = |(start, end): (i64, i64)| {
            if last.0 != Some((start, end)) {
                last = (Some((start, end)), self.windows.number_of_window(start, end));
            }
            last.1
        };
        starts
            .values()
            .iter()
            .copied()
            .zip(ends.values().iter().copied())
            .map(&mut number)
            .collect()
    }

    /// Returns the last window that is added for a key after a window with rows.
    fn kept_until(&self, window: i64) -> i64 {
        let until = match self.plan.keep {
            None => window,
            Some(keep) => {
                let (start, _) = self.windows.nth_window(window);
                self.windows.last_started(start.saturating_add(keep)).max(window)
            }
        };
        until.max(self.last_of_grid())
    }

    /// Returns the last window that starts before the end of the grid, if there is one.
    fn last_of_grid(&self) -> i64 {
        let before = self.plan.end.and_then(|end| end.checked_sub(1));
        before.map_or(i64::MIN, |before| self.windows.last_started(before))
    }

    /// Passes rows to `take`, each preceded by the rows for earlier windows without input rows.
    fn fill(
        &mut self,
        keys: &RowKeys,
        windows: &[i64],
        ahead: Option<&RowsAhead>,
        take: &mut impl FnMut(&Self, &FilledRows) -> Result<()>,
    ) -> Result<()> {
        let first_row = if ahead.is_some() { 0 } else { self.rows.num_rows() as u32 };
        let mut filled = FilledRows::default();
        let mut row = 0;
        while let Some(&window) = windows.get(row) {
            self.fill_upto(window - 1, &mut filled, take)?;
            let (mut at, known) = (0, self.open.len());
            while windows.get(row) == Some(&window) {
                let until = match ahead {
                    // Without `keep`, the windows of a key end with its last row.
                    Some(ahead) if self.plan.keep.is_none() => {
                        ahead.windows[ahead.next[row] as usize].max(self.last_of_grid())
                    }
                    _ => self.kept_until(window),
                };
                let row_number = first_row + row as u32;
                let key = OpenKey { row: row_number, window, until, from: window };
                // The rows of a window are in key order, so the next key is usually close.
                let bytes = keys.of_row(row);
                at += self.open[at..known].iter().take_while(|(open, _)| **open < *bytes).count();
                match self.open[..known].get_mut(at) {
                    Some((open, last)) if **open == *bytes => *last = key,
                    _ => self.open.push((bytes.into(), key)),
                }
                row += 1;
            }
            if self.open.len() > known {
                // This merges two sorted sequences.
                self.open.sort_by(|(a, _), (b, _)| a.cmp(b));
            }
            self.add_window(window, &mut filled);
            self.next = window + 1;
            self.pass_on(&mut filled, BATCH_ROWS, take)?;
        }
        self.pass_on(&mut filled, 1, take)
    }

    /// Passes the rows for windows without input rows to `take`, up to a window.
    fn continue_to(
        &mut self,
        last: i64,
        take: &mut impl FnMut(&Self, &FilledRows) -> Result<()>,
    ) -> Result<()> {
        let mut filled = FilledRows::default();
        self.fill_upto(last, &mut filled, take)?;
        self.pass_on(&mut filled, 1, take)
    }

    fn fill_upto(
        &mut self,
        last: i64,
        filled: &mut FilledRows,
        take: &mut impl FnMut(&Self, &FilledRows) -> Result<()>,
    ) -> Result<()> {
        let (first, limit) = self.limits;
        let last = last.min(limit);
        // Keys whose windows end before this one are dropped when a window is added.
        self.next = self.next.max(first.min(last.saturating_add(1)));
        while self.next <= last && !self.open.is_empty() {
            self.add_window(self.next, filled);
            self.next += 1;
            self.pass_on(filled, BATCH_ROWS, take)?;
        }
        Ok(())
    }

    /// Adds the rows of a window, and drops the keys that have no further windows.
    fn add_window(&mut self, window: i64, filled: &mut FilledRows) {
        let (start, end) = self.windows.nth_window(window);
        let has_times = self.windows.has_window(window);
        let is_asked = (self.limits.0..=self.limits.1).contains(&window);
        self.open.retain(|(_, key)| {
            // A day that a time zone has skipped contains no times. A window that grows until the
            // end of its block has no longer windows after it.
            let is_there = is_asked
                && (key.from..=key.until).contains(&window)
                && (has_times || window == key.window);
            if is_there {
                filled.starts.push(start);
                filled.ends.push(end);
                filled.rows.push(key.row);
                filled.is_empty.push(window != key.window);
                filled.is_ahead.push(window < key.window);
            }
            window < key.until
        });
    }

    /// Passes the rows to `take` if there are at least `least`.
    fn pass_on(
        &self,
        filled: &mut FilledRows,
        least: usize,
        take: &mut impl FnMut(&Self, &FilledRows) -> Result<()>,
    ) -> Result<()> {
        if filled.rows.len() < least {
            return Ok(());
        }
        take(self, &std::mem::take(filled))
    }

    /// Keeps only the rows of open keys.
    fn keep_rows(&mut self, every: &RecordBatch) -> Result<()> {
        let rows: Vec<u32> = self.open.iter().map(|(_, key)| key.row).collect();
        self.rows = arrow_select::take::take_record_batch(every, &UInt32Array::from(rows))?;
        self.open.iter_mut().zip(0..).for_each(|((_, key), row)| key.row = row);
        Ok(())
    }

    /// Builds the columns of the rows.
    fn batch(
        &self,
        every: &RecordBatch,
        filled: &FilledRows,
        ahead: Option<&RowsAhead>,
    ) -> Result<RecordBatch> {
        let time = |times: &[i64]| {
            let times: ArrayRef = Arc::new(Int64Array::from(times.to_vec()));
            times_as(times, self.schema.field(0).data_type())
        };
        let mut columns = vec![time(&filled.starts)?, time(&filled.ends)?];
        let rows = UInt32Array::from(filled.rows.clone());
        for at in 2..2 + self.keys {
            columns.push(take(every.column(at), &rows, None)?);
        }
        let only = |without: &[bool]| -> UInt32Array {
            without
                .iter()
                .zip(&filled.rows)
                .map(|(is_out, row)| (!is_out).then_some(*row))
                .collect()
        };
        let (of_rows, known) = (only(&filled.is_empty), only(&filled.is_ahead));
        for (at, fill) in (2 + self.keys..).zip(&self.plan.fills) {
            let values = every.column(at);
            columns.push(match fill {
                Fill::Null => take(values, &of_rows, None)?,
                Fill::Last => take(values, &known, None)?,
                Fill::Zero => {
                    let zero: ArrayRef = Arc::new(Int64Array::from(vec![0]));
                    let zero = Scalar::new(cast(&zero, values.data_type())?);
                    let is_empty = BooleanArray::from(filled.is_empty.clone());
                    zip(&is_empty, &zero, &take(values, &of_rows, None)?)?
                }
                Fill::Linear => self.on_lines(values, filled, ahead)?,
            });
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// Returns the values of a column. Values of empty windows are interpolated between two rows.
    fn on_lines(
        &self,
        values: &ArrayRef,
        filled: &FilledRows,
        ahead: Option<&RowsAhead>,
    ) -> Result<ArrayRef> {
        let floats = cast(values, &DataType::Float64)?;
        let floats = floats.as_primitive::<Float64Type>();
        let value = |row: u32| floats.is_valid(row as usize).then(|| floats.value(row as usize));
        // Windows that grow have equal starts, so values are interpolated between their ends.
        let grow = self.windows.grow();
        let times = if grow { &filled.ends } else { &filled.starts };
        let time = |window: i64| {
            let (start, end) = self.windows.nth_window(window);
            if grow { end } else { start }
        };
        let on_line = |at: usize| {
            let row = filled.rows[at];
            let before = value(row).filter(|_| !filled.is_ahead[at])?;
            if !filled.is_empty[at] {
                return Some(before);
            }
            let ahead = ahead?;
            let next = ahead.next[row as usize];
            let after = value(next).filter(|_| next != row)?;
            let [from, to] = [row, next].map(|row| time(ahead.windows[row as usize]));
            let share = (times[at] - from) as f64 / (to - from) as f64;
            Some(before + (after - before) * share)
        };
        let found = (0..filled.rows.len()).map(on_line);
        Ok(match values.data_type() {
            DataType::Float32 => {
                let found = found.map(|value| value.map(|value| value as f32));
                Arc::new(found.collect::<arrow_array::PrimitiveArray<Float32Type>>())
            }
            _ => Arc::new(found.collect::<arrow_array::PrimitiveArray<Float64Type>>()),
        })
    }
}

/// Returns the starts or ends of windows as integers.
fn whole_numbers(times: &ArrayRef) -> Int64Array {
    let plain = match times.data_type() {
        DataType::Date32 => cast(times, &DataType::Int32),
        _ => Ok(times.clone()),
    };
    let whole = plain.and_then(|plain| cast(&plain, &DataType::Int64));
    let whole = whole.expect("the bounds of windows are integers, dates or timestamps");
    whole.as_primitive::<arrow_array::types::Int64Type>().clone()
}
