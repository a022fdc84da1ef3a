//! Windows that the caller lists in a table, each with a start and an end.

use arrow_schema::{Field, Schema};

use super::group_key::GroupKey;
use super::windows::DescribedWindows;
use crate::columns::keys::KeyColumn;
use crate::columns::table::{Names, Table};
use crate::columns::time::{self, Unit};
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// The columns with the start and the end of each window, which have the same names in results.
const BOUNDS: [&str; 2] = ["window_start", "window_end"];

/// The name of the table of windows in messages.
const TABLE: &str = "windows";

/// A table of windows `[window_start, window_end)`. If the table has columns with the names of key
/// columns, a window contains only rows whose keys are equal in these columns.
#[derive(Clone, Debug)]
pub struct WindowTable {
    table: Table,
    /// The digest of the rows, regardless of their order.
    digest: u128,
}

/// The windows of a table, in steps of the time unit, sorted by start and then by end.
#[derive(Clone, Debug)]
pub(crate) struct WindowList {
    pub(crate) starts: Vec<i64>,
    pub(crate) ends: Vec<i64>,
    /// The keys of the windows, if any, as one row number in `table` per window.
    pub(crate) rows: Vec<u32>,
    pub(crate) table: Table,
    /// The key columns of the windows. For each one, `left` is the column in `table`, and `right`
    /// is the position among the key columns of the aggregation.
    pub(crate) keys: Vec<KeyColumn>,
    /// The ends in ascending order, each with the earliest start of the windows that end then or
    /// later.
    open: Vec<(i64, i64)>,
}

impl WindowTable {
    /// Creates a table of windows for an aggregation with these key columns. `digest` is called with
    /// the columns that are used, and returns the digest of the rows in any order.
    pub fn new(
        table: &Table,
        by: &[GroupKey],
        digest: impl FnOnce(&Table) -> Result<u128>,
    ) -> Result<Self> {
        let names = Names::new(table.schema());
        let known = by.iter().map(GroupKey::label).filter(|name| names.has(name));
        let used = BOUNDS.into_iter().chain(known);
        let used = used.map(|name| names.column(TABLE, name, "windows"));
        let table = table.projected(&used.collect::<Result<Vec<_>>>()?)?;
        let digest = digest(&table)?;
        Ok(WindowTable { table, digest })
    }

    /// Returns the columns with the start and the end of each window.
    pub(super) fn bounds(&self) -> Result<[usize; 2]> {
        let names = Names::new(self.table.schema());
        let [start, end] = BOUNDS.map(|name| names.column(TABLE, name, "windows"));
        Ok([start?, end?])
    }

    pub(super) fn schema(&self) -> &Schema {
        self.table.schema()
    }

    /// Returns the windows in steps of a unit, for an aggregation whose key columns are these
    /// fields.
    pub(super) fn list(&self, by: &[Field], unit: Unit) -> Result<(WindowList, DescribedWindows)> {
        let bounds = self.bounds()?;
        let table = self.table.clone().named(TABLE);
        let [starts, ends] = bounds.map(|at| time::times(&table, at, unit));
        let (starts, ends) = (starts?, ends?);
        if let Some(row) = (0..starts.len()).find(|&row| starts[row] > ends[row]) {
            return Err(Error::data(format!(
                "{TABLE}, row {row}: the window ends at {} ({}), before its start at {}; swap the \
                 two, or filter such rows out first",
                ends[row],
                unit.name(),
                starts[row]
            )));
        }
        let names = Names::new(table.schema());
        let mut keys = Vec::new();
        for (at, field) in by.iter().enumerate().filter(|(_, field)| names.has(field.name())) {
            let own = names.column(TABLE, field.name(), "by")?;
            let own_field = table.schema().field(own);
            keys.push(KeyColumn::new(own, own_field, at, field).map_err(|_| {
                Error::schema(format!(
                    "{TABLE}: column `{}` is {}, but {} in the streams; cast one of them",
                    field.name(),
                    TypeName(own_field.data_type()),
                    TypeName(field.data_type())
                ))
            })?);
        }
        let mut rows: Vec<u32> = (0..starts.len() as u32).collect();
        rows.sort_by_key(|&row| (starts[row as usize], ends[row as usize]));
        let of_rows = |times: &[i64]| rows.iter().map(|&row| times[row as usize]).collect();
        let (starts, ends): (Vec<i64>, Vec<i64>) = (of_rows(&starts), of_rows(&ends));
        let mut open: Vec<(i64, i64)> = ends.iter().copied().zip(starts.iter().copied()).collect();
        open.sort_unstable();
        let mut earliest = i64::MAX;
        for (_, start) in open.iter_mut().rev() {
            earliest = earliest.min(*start);
            *start = earliest;
        }
        let described = DescribedWindows::of_list(table.rows(), self.digest);
        Ok((WindowList { starts, ends, rows, table, keys, open }, described))
    }
}

impl WindowList {
    /// Returns whether a window ends after `after` and no later than `upto`.
    pub(crate) fn end_between(&self, after: i64, upto: i64) -> bool {
        let next = self.open.partition_point(|&(end, _)| end <= after);
        self.open.get(next).is_some_and(|&(end, _)| end <= upto)
    }

    /// Returns the earliest start of the windows that end after a time. Returns the latest possible
    /// time if there are none.
    pub(crate) fn first_time_of_open(&self, after: i64) -> i64 {
        let next = self.open.partition_point(|&(end, _)| end <= after);
        self.open.get(next).map_or(i64::MAX, |&(_, start)| start)
    }
}
