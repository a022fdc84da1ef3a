//! Functions over all values in a window.

use super::{
    AllValues, Distinct, FEW_LISTED, Quantiles, RowChoice, RowRanks, ValuesByPlace, lists, of_runs,
};
use crate::aggregate::inputs::columns::{Stream, first_rows};
use crate::aggregate::inputs::places::Place;
use crate::aggregate::output::{OutputColumn, Page};
use crate::driver::{Driver, Stopped};
use crate::matches::{MAX_ROWS, Run};
use crate::order::{Groups, JoinColumns};
use tidegate_structures::memory;

/// The rows from several sources, sorted by key and then in merged order.
///
/// This example counts the distinct values of a window:
///
/// ```
/// use tidegate_operators::aggregate::{
///     AllValues, Column, OutputValues, Page, Stream, Window, WindowRows, WindowValues,
/// };
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_structures::memory::pages::Pages;
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let rows = WindowRows::new(&[Stream { ts: &[1, 4, 12], keys: None }], 1, &driver)?;
/// let values = vec![Column { values: &[7, 7, 9], mask: None }];
/// let distinct = WindowValues::new(&rows, AllValues::Distinct(values), &driver)?;
/// let windows = vec![Window { start: 0, end: 10, rows: 1 }];
/// let page = Page { rows: 1, windows, keys: Pages::filled(1, 0), columns: Vec::new() };
/// let OutputValues::Integers(values) = distinct.of(&page, &driver)?.values else { unreachable!() };
/// assert_eq!(values[0], 1);
/// # Ok::<(), Stopped>(())
/// ```
#[derive(Debug)]
pub struct WindowRows {
    ts: Vec<i64>,
    /// The number of the row at each position, counted across all sources.
    rows: Vec<u32>,
    /// The start of each key's rows, followed by the end of all rows.
    starts: Vec<u32>,
    first_rows: Vec<u32>,
}

impl WindowRows {
    /// Sorts the rows from all sources by key. Keys must be less than `key_count`.
    ///
    /// # Panics
    ///
    /// Panics if there are [`MAX_ROWS`] rows or more.
    pub fn new(streams: &[Stream<'_>], key_count: usize, driver: &Driver) -> Result<Self, Stopped> {
        let count = streams.iter().map(|stream| stream.ts.len()).sum();
        assert!(count < MAX_ROWS, "row numbers fit in 32 bits");
        let mut ts = memory::vec(count);
        streams.iter().for_each(|stream| ts.extend_from_slice(stream.ts));
        let keys = streams.iter().all(|stream| stream.keys.is_some()).then(|| {
            let mut keys = memory::vec(count);
            streams
                .iter()
                .filter_map(|stream| stream.keys)
                .for_each(|own| keys.extend_from_slice(own));
            keys
        });
        let groups =
            Groups::new(JoinColumns { ts: &ts, keys: keys.as_deref() }, key_count, driver)?;
        let rows = match groups.numbers() {
            Some(numbers) => numbers.to_vec(),
            None => (0..count as u32).collect(),
        };
        let (ts, starts) = (groups.ts().to_vec(), groups.starts.to_vec());
        Ok(WindowRows { ts, rows, starts, first_rows: first_rows(streams) })
    }

    /// Returns the source and the row at a position.
    fn place(&self, place: usize) -> Place {
        let row = self.rows[place];
        let source = self.first_rows.partition_point(|&first| first <= row) - 1;
        Place { source, row: (row - self.first_rows[source]) as usize }
    }

    /// Returns where to [cut](Page::cut) a page. The windows of each part then have at most `most`
    /// rows in total, unless the part is a single window.
    pub fn borders(&self, page: &Page, most: usize) -> Vec<usize> {
        let mut rows = 0;
        let begins = |(at, run): (usize, Run)| {
            let is_too_much = rows > 0 && rows + run.len() > most;
            rows = if is_too_much { run.len() } else { rows + run.len() };
            is_too_much.then_some(at)
        };
        self.runs(page).into_iter().enumerate().filter_map(begins).collect()
    }

    /// Returns the rows for each result in a page.
    fn runs(&self, page: &Page) -> Vec<Run> {
        let mut keys = page.keys[..page.rows].iter();
        let mut runs = Vec::with_capacity(page.rows);
        for window in &page.windows {
            runs.extend(keys.by_ref().take(window.rows).map(|&key| {
                let first = self.starts[key as usize];
                let ts = &self.ts[first as usize..self.starts[key as usize + 1] as usize];
                let place = |before: i64| first + ts.partition_point(|&ts| ts < before) as u32;
                Run { start: place(window.start), end: place(window.end) }
            }));
        }
        runs
    }
}

/// A function over windows whose rows are in a [`WindowRows`].
#[derive(Debug)]
pub struct WindowValues<'a> {
    rows: &'a WindowRows,
    function: ValuesFunction,
}

/// A function, and its values by position.
#[derive(Debug)]
enum ValuesFunction {
    Quantile(Quantiles, ValuesByPlace),
    Distinct(ValuesByPlace),
    Rows(RowChoice, ValuesByPlace),
    Largest(usize, RowRanks),
}

impl<'a> WindowValues<'a> {
    /// Arranges the values in the same order as the rows.
    pub fn new(
        rows: &'a WindowRows,
        function: AllValues<'_>,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let placed = function.placed(rows.rows.len(), |place| rows.place(place), driver)?;
        let function = match function {
            AllValues::Quantile { quantile, .. } => {
                ValuesFunction::Quantile(Quantiles(vec![quantile]), placed)
            }
            AllValues::Distinct(_) => ValuesFunction::Distinct(placed),
            AllValues::Rows { list, .. } => ValuesFunction::Rows(RowChoice::InOrder(list), placed),
            AllValues::Largest { most, .. } if most <= FEW_LISTED => {
                ValuesFunction::Largest(most, RowRanks::new(placed))
            }
            AllValues::Largest { most, .. } => {
                ValuesFunction::Rows(RowChoice::Largest(most), placed)
            }
        };
        Ok(WindowValues { rows, function })
    }

    /// Returns the values for the windows and keys of a page.
    pub fn of(&self, page: &Page, driver: &Driver) -> Result<OutputColumn, Stopped> {
        let runs = self.rows.runs(page).into_iter();
        let row = |place: u32| self.rows.rows[place as usize];
        match &self.function {
            ValuesFunction::Quantile(quantile, placed) => of_runs(quantile, placed, runs, driver),
            ValuesFunction::Distinct(placed) => of_runs(&Distinct, placed, runs, driver),
            ValuesFunction::Rows(choice, placed) => Ok(lists(*choice, placed, runs, row)),
            ValuesFunction::Largest(most, ranking) => ranking.lists(*most, runs, row, driver),
        }
    }
}
