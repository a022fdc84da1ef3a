//! Tables whose rows are prepared once and then used as the right side of many joins.
//!
//! The rows are grouped by key and sorted by time once. A join then looks up the keys of its left
//! rows, and searches for their positions, so its work does not depend on the number of right rows.
//! Rows that have a start and an end each are sorted by start, with a tree of their ends.
//!
//! An index consists of parts. Rows that are appended form a new part, which is merged with earlier
//! parts that are not much larger. A row is therefore merged a few times for each tenfold growth of
//! the index, and there are few parts to search. Rows that expire at the start of a part are only
//! hidden until they outnumber the remaining rows.
//!
//! Long because an index can fail to fit a join for many reasons, and each has its own message.

mod saved;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use tidegate_operators::driver::Driver;
use tidegate_operators::order::{IndexPart, IndexedRows, JoinColumns, SEARCHED, SideIndex};
use tidegate_operators::overlap::{EndTree, IndexedIntervals};
use tidegate_operators::rows::NO_KEY;
use tidegate_structures::memory::pages::Pages;

use crate::columns::intervals::Intervals;
use crate::columns::keys::{KeyColumn, KeyLookup};
use crate::columns::table::{Table, column};
use crate::columns::time::{self, Bound, Int64s, Unit};
use crate::columns::type_name::TypeName;
use crate::{Error, Result, shown};
use saved::SectionCheck;
pub use saved::open_index;

/// A part is merged with the rows after it if it has less than this many times their number of
/// rows.
const MERGED: usize = 3;

/// Adjacent batches are merged into batches of up to this many rows.
const BATCH_ROWS: usize = 1 << 16;

/// The time column of an index or a join, or the start and end columns if rows have both.
pub(crate) type TimeColumns = (usize, Option<usize>);

/// The rows of a table, grouped by key and sorted by time.
#[derive(Debug)]
pub(crate) struct TableIndex {
    columns: IndexColumns,
    parts: Vec<Part>,
}

/// The columns by which rows are indexed.
#[derive(Clone, Debug, PartialEq)]
struct IndexColumns {
    on: TimeColumns,
    unit: Unit,
    by: Vec<usize>,
    /// The age, relative to the latest row, at which rows expire. Rows with an end expire when they
    /// end this long before the latest start.
    keep: Option<i64>,
    /// Whether rows without a start or an end are infinitely long.
    open_ends: bool,
}

/// The times of rows.
struct RowTimes {
    /// The time or start of each row.
    starts: Int64s,
    /// The end of each row, if rows have one.
    ends: Option<Int64s>,
    /// The rows that match nothing because their start or end is missing, in ascending order.
    without: Vec<u32>,
    /// The rows whose intervals have no start because `open_ends` is set, in ascending order.
    open_starts: Vec<u32>,
}

impl RowTimes {
    fn read(table: &Table, columns: &IndexColumns, driver: &Driver) -> Result<Self> {
        let unit = columns.unit;
        match columns.on {
            (at, None) => {
                let starts = time::times(table, at, unit)?;
                Ok(RowTimes { starts, ends: None, without: Vec::new(), open_starts: Vec::new() })
            }
            (start, Some(end)) => {
                let times = [
                    time::times_or_nulls(table, start, unit)?,
                    time::times_or_nulls(table, end, unit)?,
                ];
                let open_starts = if columns.open_ends { times[0].1.clone() } else { Vec::new() };
                let name = |at: usize| &**table.schema().field(at).name();
                let names = (table.name(), (name(start), name(end)));
                let found = Intervals::of(names, times, (0, columns.open_ends, unit), driver)?;
                let Intervals { starts, ends, without } = found;
                Ok(RowTimes { starts, ends, without, open_starts })
            }
        }
    }

    /// Returns the earliest and the latest time or start of the rows from `first` on, or `None` if
    /// there is none.
    fn span(&self, first: usize, are_sorted: bool) -> Option<(i64, i64)> {
        let starts = &self.starts[first..];
        if !self.without.is_empty() || !self.open_starts.is_empty() {
            let lacks = |rows: &[u32], row: usize| rows.binary_search(&(row as u32)).is_ok();
            let is_missing =
                |row: usize| lacks(&self.without, row) || lacks(&self.open_starts, row);
            let rows = (first..).zip(starts).filter(|(row, _)| !is_missing(*row));
            return span(rows.map(|(_, &start)| start));
        }
        match starts {
            [] => None,
            [start, .., end] if are_sorted => Some((*start, *end)),
            starts => span(starts.iter().copied()),
        }
    }

    /// Returns whether a row's time or end is before `time`.
    fn is_before(&self, row: usize, time: i64) -> bool {
        let last = self.ends.as_ref().unwrap_or(&self.starts)[row];
        last < time && self.without.binary_search(&(row as u32)).is_err()
    }
}

/// Returns the smallest and the largest value.
fn span(values: impl Iterator<Item = i64>) -> Option<(i64, i64)> {
    let (low, high) =
        values.fold((i64::MAX, i64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    (low <= high).then_some((low, high))
}

/// Adjacent rows of a table.
#[derive(Clone, Debug)]
struct Part {
    /// The rows that have not expired.
    batches: Vec<RecordBatch>,
    /// The rows by time or start. A row whose start or end is missing has no key.
    rows: Arc<SideIndex>,
    /// The ends of the rows, if they have ends.
    ends: Option<Arc<EndTree>>,
    keys: Option<Arc<KeyLookup>>,
    /// The number of rows that have expired. They precede the others in the index.
    expired: usize,
    /// The time before which rows have expired. If rows have ends, their ends are compared with it.
    earliest: i64,
    /// The earliest and the latest time or start, or `None` if there is none.
    span: Option<(i64, i64)>,
    /// The parts of a file that are checked before they are used.
    unverified: Option<Arc<SectionCheck>>,
}

impl Part {
    fn new(table: &Table, columns: &IndexColumns, driver: &Driver) -> Result<Self> {
        let times = RowTimes::read(table, columns, driver)?;
        let without = &times.without;
        let (keys, mut numbers) = match &columns.by[..] {
            [] if without.is_empty() => (None, None),
            [] => (None, Some(Pages::filled(table.rows(), 0))),
            by => {
                let (keys, numbers) = KeyLookup::new(table, by, driver)?;
                (Some(Arc::new(keys)), Some(numbers))
            }
        };
        if let Some(numbers) = &mut numbers {
            without.iter().for_each(|&row| numbers[row as usize] = NO_KEY);
        }
        let side = JoinColumns { ts: &times.starts, keys: numbers.as_deref() };
        let rows = SideIndex::new(side, keys.as_ref().map_or(1, |keys| keys.count()), driver)?;
        let ends = times.ends.as_ref().map(|ends| EndTree::new(&rows, ends, driver)).transpose()?;
        Ok(Part {
            batches: table.batches().to_vec(),
            span: times.span(0, rows.is_sorted()),
            rows: Arc::new(rows),
            ends: ends.map(Arc::new),
            keys,
            expired: 0,
            earliest: i64::MIN,
            unverified: None,
        })
    }

    /// If the rows come from a file and have not been checked yet, checks their order and row numbers.
    fn verify(&self, driver: &Driver) -> Result<()> {
        self.unverified.as_ref().map_or(Ok(()), |unverified| unverified.verify(driver))
    }

    /// The number of rows that have not expired.
    fn len(&self) -> usize {
        self.rows.rows() - self.expired
    }

    /// Returns the part without the rows before a time, or `None` if no rows remain.
    fn without(
        &self,
        before: i64,
        (columns, schema): (&IndexColumns, &SchemaRef),
        driver: &Driver,
    ) -> Result<Option<Part>> {
        let table = Table::of_valid("rows", schema.clone(), self.batches.clone())?;
        let times = RowTimes::read(&table, columns, driver)?;
        let is_kept = |row: usize| !times.is_before(row, before);
        let (expired, are_first) = if times.ends.is_none() && self.rows.is_sorted() {
            (times.starts.partition_point(|&ts| ts < before), true)
        } else {
            let kept = (0..table.rows()).filter(|&row| is_kept(row)).count();
            let first = (0..table.rows()).position(is_kept).unwrap_or(table.rows());
            (table.rows() - kept, first == table.rows() - kept)
        };
        if expired == 0 {
            return Ok(Some(self.clone()));
        }
        let (all, rest) = (self.expired + expired, table.rows() - expired);
        if are_first && rest >= all {
            let batches = without_first(&self.batches, expired);
            let span = times.span(expired, times.ends.is_none());
            return Ok(Some(Part {
                batches,
                expired: all,
                earliest: before,
                span,
                ..self.clone()
            }));
        }
        if rest == 0 {
            return Ok(None);
        }
        // The rows are copied, because slices would keep the memory of expired rows in use.
        let rest: Vec<u32> =
            (0..table.rows()).filter(|&row| is_kept(row)).map(|row| row as u32).collect();
        Part::new(&table.taken(&rest)?, columns, driver).map(Some)
    }

    /// The number of bytes.
    fn bytes(&self) -> usize {
        self.rows.bytes() + self.ends.as_ref().map_or(0, |ends| ends.bytes())
    }
}

/// Returns the rows of these batches after the first `rows` rows.
fn without_first(batches: &[RecordBatch], rows: usize) -> Vec<RecordBatch> {
    let mut rest = rows;
    let remaining = batches.iter().filter_map(|batch| {
        let skipped = rest.min(batch.num_rows());
        rest -= skipped;
        let left = batch.num_rows() - skipped;
        (left > 0).then(|| batch.slice(skipped, left))
    });
    remaining.collect()
}

/// Concatenates small adjacent batches.
fn compacted(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    let mut compact = Vec::new();
    let mut some: Vec<RecordBatch> = Vec::new();
    let mut rows = 0;
    let mut flush = |some: &mut Vec<RecordBatch>| {
        // Dictionaries that do not fit into a single one cannot be concatenated.
        match some.len() > 1 && concat_batches(schema, &*some).map(|one| compact.push(one)).is_ok()
        {
            true => some.clear(),
            false => compact.append(some),
        }
    };
    for batch in batches {
        if rows + batch.num_rows() > BATCH_ROWS {
            flush(&mut some);
            rows = 0;
        }
        rows += batch.num_rows();
        some.push(batch);
    }
    flush(&mut some);
    compact
}

impl Table {
    /// Returns the table with an index of its rows, by time and by keys. `on` is the time column,
    /// or the start column with the end column. With `keep`, rows expire when they are older than
    /// the latest row by this much. Rows with an end expire when they end this long before the
    /// latest start.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use arrow_array::{Int64Array, RecordBatch};
    /// use tidegate::{Driver, Stop, Table};
    ///
    /// let column = Arc::new(Int64Array::from(vec![20, 10])) as _;
    /// let rows = RecordBatch::try_from_iter([("ts", column)])?;
    /// let driver = Driver::new(1, Stop::default());
    /// let table = Table::new("rows".to_owned(), rows.schema(), vec![rows], &driver)?;
    /// assert_eq!(table.with_index(("ts", None), &[], None, false, &driver)?.index_bytes(), Some(32));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_index(
        self,
        on: (&str, Option<&str>),
        by: &[String],
        keep: Option<Bound>,
        open_ends: bool,
        driver: &Driver,
    ) -> Result<Table> {
        let (name, schema) = (self.name(), self.schema());
        let start = column(name, schema, on.0, "on")?;
        let end = on.1.map(|end| column(name, schema, end, "on")).transpose()?;
        let fields = [Some(start), end].into_iter().flatten().map(|at| (name, schema.field(at)));
        let unit = time::finest_unit(&fields.collect::<Vec<_>>())?;
        let by = by.iter().map(|by| column(name, schema, by, "by"));
        let keep = keep.map(|keep| time::steps("keep", keep, unit)).transpose()?;
        if keep.is_some_and(|keep| keep < 0) {
            return Err(Error::argument("keep: expected a duration that is not negative"));
        }
        if open_ends && end.is_none() {
            return Err(Error::argument(
                "open_ends: rows with a single time have no ends; give on=(start, end), or leave \
                 open_ends out",
            ));
        }
        let by = by.collect::<Result<_>>()?;
        let columns = IndexColumns { on: (start, end), unit, by, keep, open_ends };
        let part = Part::new(&self, &columns, driver)?;
        let index = TableIndex { columns, parts: vec![part] };
        self.with_prepared(Some(Arc::new(index))).kept(driver)
    }

    /// Returns an indexed table with more rows, whose schema must be the same.
    ///
    /// # Panics
    ///
    /// Panics if the table has no index.
    pub fn appended(&self, rows: &Table, driver: &Driver) -> Result<Table> {
        let index = self.index().expect("the table has an index");
        let rows = index.fitting(self.schema(), rows)?;
        if rows.rows() == 0 {
            return Ok(self.clone());
        }
        let mut parts = index.parts.clone();
        let mut count = rows.rows();
        let mut merged = Vec::new();
        while let Some(part) = parts.pop_if(|part| part.len() < MERGED * count) {
            count += part.len();
            merged.push(part.batches);
        }
        if merged.is_empty() {
            parts.push(Part::new(&rows, &index.columns, driver)?);
        } else {
            // Times are checked in the new rows alone first, so that error messages state their row
            // numbers.
            RowTimes::read(&rows, &index.columns, driver)?;
            let batches = merged.into_iter().rev().flatten().chain(rows.batches().iter().cloned());
            let batches = compacted(self.schema(), batches.collect());
            let table = Table::of_valid(rows.name(), self.schema().clone(), batches)?;
            parts.push(Part::new(&table, &index.columns, driver)?);
        }
        self.with_parts(index.columns.clone(), parts)?.kept(driver)
    }

    /// Returns the table without the rows that expire because of the latest row.
    fn kept(self, driver: &Driver) -> Result<Table> {
        let index = self.index().expect("the table has an index");
        match (index.columns.keep, self.index_span()) {
            (Some(keep), Some((_, latest))) => self.expired(latest.saturating_sub(keep), driver),
            _ => Ok(self),
        }
    }

    /// Returns an indexed table without the rows before a time. Rows that have a start and an end
    /// are before a time if they end before it. The time has the unit of the time column, or of the
    /// end column.
    ///
    /// # Panics
    ///
    /// Panics if the table has no index.
    pub fn without_rows_before(&self, before: i64, driver: &Driver) -> Result<Table> {
        let index = self.index().expect("the table has an index");
        let IndexColumns { on: (start, end), unit, .. } = index.columns;
        let field = self.schema().field(end.unwrap_or(start));
        self.expired(before.saturating_mul(time::scale(field, unit)), driver)
    }

    /// Like [`without_rows_before`](Self::without_rows_before), but the time has the unit of the
    /// index.
    fn expired(&self, before: i64, driver: &Driver) -> Result<Table> {
        let index = self.index().expect("the table has an index");
        let mut parts = Vec::new();
        for part in &index.parts {
            parts.extend(part.without(before, (&index.columns, self.schema()), driver)?);
        }
        self.with_parts(index.columns.clone(), parts)
    }

    fn with_parts(&self, columns: IndexColumns, parts: Vec<Part>) -> Result<Table> {
        let batches = parts.iter().flat_map(|part| part.batches.iter().cloned());
        let table = Table::of_valid(self.name(), self.schema().clone(), batches.collect())?;
        Ok(table.with_prepared(Some(Arc::new(TableIndex { columns, parts }))))
    }

    /// Returns the index of the rows, if there is one.
    pub(crate) fn index(&self) -> Option<&TableIndex> {
        self.prepared()?.downcast_ref()
    }

    /// Returns the earliest and the latest time or start in the table's index, in the unit of the
    /// column, or `None` if there is none.
    pub fn index_span(&self) -> Option<(i64, i64)> {
        let spans = self.index()?.parts.iter().filter_map(|part| part.span);
        span(spans.flat_map(|(first, last)| [first, last]))
    }

    /// Returns the names of the time column, or of the start and end columns, and of the key columns
    /// of the table's index.
    ///
    /// # Panics
    ///
    /// Panics if the table has no index.
    pub fn index_columns(&self) -> ((String, Option<String>), Vec<String>) {
        let columns = &self.index().expect("the table has an index").columns;
        let name = |at: usize| self.schema().field(at).name().clone();
        let (start, end) = columns.on;
        ((name(start), end.map(name)), columns.by.iter().map(|&at| name(at)).collect())
    }

    /// Returns whether rows of the table's index that have no start or end are infinitely long.
    pub fn has_open_ends(&self) -> bool {
        self.index().is_some_and(|index| index.columns.open_ends)
    }

    /// Returns the largest number of left rows for which a join searches the index row by row, or
    /// `None` if the table has no index.
    pub fn most_searched(&self) -> Option<usize> {
        self.index().map(|_| self.rows() / SEARCHED)
    }

    /// Returns the number of bytes in the table's index, if it has one.
    pub fn index_bytes(&self) -> Option<usize> {
        Some(self.index()?.parts.iter().map(Part::bytes).sum())
    }
}

/// An index that is suitable for a join, together with the keys of the left rows.
pub(crate) struct IndexFit<'a> {
    parts: Vec<(&'a Part, Option<Pages<u32>>)>,
    /// The number of units of the join's times per unit of the index.
    pub(crate) factor: i64,
}

impl IndexFit<'_> {
    /// The rows of the index.
    pub(crate) fn rows(&self) -> IndexedRows<'_> {
        self.starts(|part| part.earliest)
    }

    /// The rows of an index whose rows have a start and an end.
    pub(crate) fn intervals(&self) -> IndexedIntervals<'_> {
        let ends = self.parts.iter().map(|(part, _)| {
            let tree = part.ends.as_ref().expect("the rows have an end");
            (&**tree, part.earliest)
        });
        // Rows expire by their end, regardless of their start.
        IndexedIntervals::new(self.starts(|_| i64::MIN), ends)
    }

    fn starts(&self, earliest: impl Fn(&Part) -> i64) -> IndexedRows<'_> {
        IndexedRows::new(self.parts.iter().map(|(part, left_keys)| IndexPart {
            rows: &part.rows,
            expired: part.expired,
            earliest: earliest(part),
            left_keys: left_keys.as_deref(),
        }))
    }

    /// Removes the keys of some left rows, so that these rows match nothing.
    pub(crate) fn leave_out(&mut self, rows: &[u32], left_rows: usize) {
        if rows.is_empty() {
            return;
        }
        for (_, left_keys) in &mut self.parts {
            let keys = left_keys.get_or_insert_with(|| Pages::filled(left_rows, 0));
            rows.iter().for_each(|&row| keys[row as usize] = NO_KEY);
        }
    }
}

impl TableIndex {
    /// Returns an error if the index is not suitable for a join on the right columns `on`.
    fn check(&self, right: &Table, on: TimeColumns, keys: &[KeyColumn]) -> Result<()> {
        let is_keyed = keys.iter().map(|key| key.right).eq(self.columns.by.iter().copied());
        let fits = |part: &Part| part.keys.as_ref().is_none_or(|own| own.fits(keys));
        if on != self.columns.on || !is_keyed || !self.parts.iter().all(fits) {
            return Err(self.misfit(right, on, keys));
        }
        Ok(())
    }

    /// Returns an error if the join's rule for nulls differs from that of the index.
    pub(crate) fn check_open_ends(&self, are_open: bool) -> Result<()> {
        let (built, given) = match (self.columns.open_ends, are_open) {
            (true, false) => ("with", "without"),
            (false, true) => ("without", "with"),
            _ => return Ok(()),
        };
        Err(Error::schema(format!(
            "right: the index was built {built} open_ends, but the join is {given} it; give \
             open_ends={} in both calls",
            if are_open { "True" } else { "False" }
        )))
    }

    /// Returns whether a join with left rows at these times takes less time if it passes over both
    /// sides. Returns an error if the index is not suitable for the join.
    pub(crate) fn is_passed_over(
        &self,
        left: &[i64],
        (right, on): (&Table, TimeColumns),
        keys: &[KeyColumn],
        driver: &Driver,
    ) -> Result<bool> {
        self.check(right, on, keys)?;
        match &self.parts[..] {
            [part] if part.expired == 0 => Ok(part.rows.is_passed_over(left, driver)?),
            _ => Ok(false),
        }
    }

    /// Looks up the keys of the left table for a join on the right columns `on`, whose times are
    /// compared in `unit`.
    pub(crate) fn fit(
        &self,
        (left, right): (&Table, &Table),
        (on, unit): (TimeColumns, Unit),
        keys: &[KeyColumn],
        driver: &Driver,
    ) -> Result<IndexFit<'_>> {
        self.check(right, on, keys)?;
        let parts = self.parts.iter().map(|part| {
            part.verify(driver)?;
            let of_left = |own: &Arc<KeyLookup>| own.left_numbers(left, keys, driver);
            Ok((part, part.keys.as_ref().map(of_left).transpose()?))
        });
        let factor = match (self.columns.unit, unit) {
            (Unit::Nanoseconds(coarse), Unit::Nanoseconds(fine)) => coarse / fine,
            _ => 1,
        };
        Ok(IndexFit { parts: parts.collect::<Result<_>>()?, factor })
    }

    /// Returns the rows with their columns in the order of the index.
    fn fitting(&self, schema: &SchemaRef, rows: &Table) -> Result<Table> {
        let mut places = Vec::new();
        for field in schema.fields() {
            if rows.schema().column_with_name(field.name()).is_none() {
                return Err(Error::schema(format!(
                    "{}: there is no column `{}`, but the index has one; add it, with nulls if \
                     there are no values",
                    rows.name(),
                    shown(field.name())
                )));
            }
            let at = column(rows.name(), rows.schema(), field.name(), "the index")?;
            let found = rows.schema().field(at).data_type();
            if found != field.data_type() {
                return Err(Error::schema(format!(
                    "{}: column `{}` is {}, but {} in the index; cast it to the type of the index",
                    rows.name(),
                    shown(field.name()),
                    TypeName(found),
                    TypeName(field.data_type())
                )));
            }
            places.push(at);
        }
        if let Some(extra) = (0..rows.schema().fields().len()).find(|at| !places.contains(at)) {
            return Err(Error::schema(format!(
                "{}: the index has no column `{}`; omit it",
                rows.name(),
                shown(rows.schema().field(extra).name())
            )));
        }
        let batches = rows.batches().iter().map(|batch| {
            let columns = places.iter().map(|&at| batch.column(at).clone()).collect();
            RecordBatch::try_new(schema.clone(), columns)
                .map_err(|error| Error::data(format!("{}: {error}", rows.name())))
        });
        Table::of_valid(rows.name(), schema.clone(), batches.collect::<Result<_>>()?)
    }

    /// Returns the error for a join that does not match the index.
    fn misfit(&self, right: &Table, on: TimeColumns, keys: &[KeyColumn]) -> Error {
        let name = |at: usize| format!("`{}`", shown(right.schema().field(at).name()));
        let list = |columns: &[usize]| match columns {
            [] => "no keys".to_owned(),
            columns => columns.iter().map(|&at| name(at)).collect::<Vec<_>>().join(", "),
        };
        let times = |(start, end): TimeColumns| match end {
            None => name(start),
            Some(end) => list(&[start, end]),
        };
        let own = &self.columns.by;
        let asked: Vec<usize> = keys.iter().map(|key| key.right).collect();
        if on == self.columns.on && *own == asked {
            return Error::schema(format!(
                "right: the index compares {} in their own types, but the left keys have different \
                 types; cast the left keys to the types of the index",
                list(own)
            ));
        }
        Error::schema(format!(
            "right: the index is on {} by {}, but the join is on {} by {}; join on the columns of \
             the index, or build an index on the columns of the join",
            times(self.columns.on),
            list(own),
            times(on),
            list(&asked)
        ))
    }
}
