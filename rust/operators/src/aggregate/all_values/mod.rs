//! Functions that need all values in a window at the same time: quantiles, the number of distinct
//! values, and lists of rows.
//!
//! Rows are sorted by key and then in merged order. The rows in a window, or a row's partners, are
//! then adjacent, and form a run of positions. Runs overlap, and each result is computed from the
//! previous one ([`sliding`]). A result therefore costs as much as a search, regardless of the
//! number of values.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `partners.rs`, `windows.rs` | functions over the partners of a join, and over windows |
//! | `sliding.rs` | a window that slides from run to run |
//! | `functions.rs` | quantiles, distinct values and the smallest values, for such a window |
//! | `ranks.rs` | a set of ranks that finds members by their position |

mod functions;
mod partners;
mod ranks;
mod sliding;
#[cfg(test)]
mod tests;
mod windows;

use std::cmp::Reverse;

use tidegate_structures::memory;
use tidegate_structures::memory::bits::BitSet;
use tidegate_structures::memory::pages::Pages;

use super::inputs::columns::{Column, Mask};
use super::inputs::places::Place;
use super::output::{OutputColumn, OutputValue, OutputValues};
use crate::driver::{Driver, Stopped};
use crate::matches::Run;
use functions::{Distinct, NO_VALUE, Quantiles, Smallest, WindowFunction};
pub use functions::{Interpolation, Quantile, float_of, order_of};
pub use partners::{PartnerValues, all_values_of_matches};
use sliding::{Item, Scratch, ValuesByPlace, slide};
pub use windows::{WindowRows, WindowValues};

/// A function over all values in a set of rows, with the input columns from each source.
#[derive(Clone, Debug)]
pub enum AllValues<'a> {
    /// A quantile of the values.
    Quantile {
        /// The values.
        values: Vec<Column<'a, f64>>,
        /// The quantile to compute.
        quantile: Quantile,
    },
    /// The number of distinct values.
    Distinct(Vec<Column<'a, i64>>),
    /// The rows, in merged order.
    Rows {
        /// The rows that are included.
        masks: Vec<Mask<'a>>,
        /// The rows to list.
        list: RowList,
    },
    /// The rows with the largest values, in descending order of their values. Among rows with equal
    /// values, the earliest is first.
    Largest {
        /// The values.
        values: Vec<Column<'a, i64>>,
        /// The maximum number of rows.
        most: usize,
    },
}

/// The rows to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowList {
    /// All rows.
    All,
    /// The first rows, up to this number.
    First(usize),
    /// The last rows, up to this number.
    Last(usize),
}

/// The rows that a function lists.
#[derive(Clone, Copy, Debug)]
enum RowChoice {
    InOrder(RowList),
    Largest(usize),
}

impl RowChoice {
    /// Appends the listed rows to `rows`. `places` contains the positions or numbers of all rows,
    /// in order. `code` returns a row's value, and `row` returns its number.
    fn extend(
        self,
        rows: &mut Vec<u32>,
        places: impl DoubleEndedIterator<Item = u32>,
        code: impl Fn(u32) -> i64,
        row: impl Fn(u32) -> u32,
    ) {
        let start = rows.len();
        let count = places.size_hint().1.unwrap_or_default();
        match self {
            RowChoice::InOrder(RowList::All) => {
                memory::reserve(rows, count);
                rows.extend(places.map(row));
            }
            RowChoice::InOrder(RowList::First(most)) => {
                memory::reserve(rows, count.min(most));
                rows.extend(places.take(most).map(row));
            }
            RowChoice::InOrder(RowList::Last(most)) => {
                memory::reserve(rows, count.min(most));
                rows.extend(places.rev().take(most).map(row));
                rows[start..].reverse();
            }
            RowChoice::Largest(most) => {
                let mut all = memory::vec(count);
                all.extend((0_u32..).zip(places).map(|(nth, at)| (Reverse(code(at)), nth, at)));
                if let Some(last) = most.checked_sub(1).filter(|_| all.len() > most) {
                    all.select_nth_unstable(last);
                }
                all.truncate(most);
                all.sort_unstable();
                memory::reserve(rows, all.len());
                rows.extend(all.into_iter().map(|(_, _, at)| row(at)));
            }
        }
    }
}

impl AllValues<'_> {
    /// Returns the quantile if this function is a quantile of exactly these values.
    fn quantile_of(&self, others: &[Column<'_, f64>]) -> Option<Quantile> {
        let AllValues::Quantile { values, quantile } = self else { return None };
        let is_same = |(one, other): (&Column<'_, f64>, &Column<'_, f64>)| {
            std::ptr::eq(one.values, other.values) && one.mask == other.mask
        };
        let are_same = values.len() == others.len() && values.iter().zip(others).all(is_same);
        are_same.then_some(*quantile)
    }

    /// Returns the values of the rows at these positions.
    fn placed(
        &self,
        places: usize,
        row: impl Fn(usize) -> Place + Sync,
        driver: &Driver,
    ) -> Result<ValuesByPlace, Stopped> {
        let mask = |source: usize| -> Mask<'_> {
            match self {
                AllValues::Quantile { values, .. } => values[source].mask,
                AllValues::Distinct(values) => values[source].mask,
                AllValues::Largest { values, .. } => values[source].mask,
                AllValues::Rows { masks, .. } => masks[source],
            }
        };
        let sources = match self {
            AllValues::Quantile { values, .. } => values.len(),
            AllValues::Distinct(values) => values.len(),
            AllValues::Largest { values, .. } => values.len(),
            AllValues::Rows { masks, .. } => masks.len(),
        };
        let counted = (0..sources).any(|source| mask(source).is_some()).then(|| {
            let mut counted = BitSet::new(places);
            for place in 0..places {
                let Place { source, row } = row(place);
                if mask(source).is_none_or(|mask| mask.contains(row)) {
                    counted.insert(place);
                }
            }
            counted
        });
        let codes = match self {
            AllValues::Quantile { values, .. } => {
                let code = |Place { source, row }: Place| order_of(values[source].values[row]);
                codes(places, |place| code(row(place)), driver)?
            }
            AllValues::Distinct(values) | AllValues::Largest { values, .. } => {
                let code = |Place { source, row }: Place| values[source].values[row];
                codes(places, |place| code(row(place)), driver)?
            }
            AllValues::Rows { .. } => Pages::default(),
        };
        Ok(ValuesByPlace { codes, counted })
    }
}

/// Lists of at most this many rows are computed with a window that slides over the values. For
/// longer lists, rows are selected separately for each list.
const FEW_LISTED: usize = if cfg!(test) { 3 } else { 64 };

/// The rows by value, from the largest to the smallest, and then by position.
#[derive(Debug)]
struct RowRanks {
    /// The rank of the row at each position.
    placed: ValuesByPlace,
    /// The position of the row with each rank.
    order: Vec<u32>,
}

impl RowRanks {
    fn new(placed: ValuesByPlace) -> Self {
        let ValuesByPlace { mut codes, counted } = placed;
        let mut order: Vec<u32> = memory::collect(0..codes.len() as u32);
        order.sort_unstable_by_key(|&place| (Reverse(codes[place as usize]), place));
        for (rank, &place) in (0..).zip(&order) {
            codes[place as usize] = rank;
        }
        RowRanks { placed: ValuesByPlace { codes, counted }, order }
    }

    /// Appends the rows with these ranks. `row` returns the number of the row at a position.
    fn extend(&self, rows: &mut Vec<u32>, ranks: &[i64], row: impl Fn(u32) -> u32) {
        let known = ranks.iter().take_while(|&&rank| rank != NO_VALUE);
        rows.extend(known.map(|&rank| row(self.order[rank as usize])));
    }

    /// Returns the first rows of each run by rank, up to `most` of them.
    fn lists(
        &self,
        most: usize,
        runs: impl ExactSizeIterator<Item = Run>,
        row: impl Fn(u32) -> u32,
        driver: &Driver,
    ) -> Result<OutputColumn, Stopped> {
        let count = runs.len();
        let mut found = memory::filled(count * most, NO_VALUE);
        let mut items = memory::vec(count);
        items.extend((0..).zip(runs).map(|(out, run)| Item { run, out }));
        items.sort_unstable_by_key(|item: &Item| (item.run.start, item.run.end));
        let mut nth = 0;
        slide(
            &Smallest(most),
            &self.placed,
            &items,
            &mut Scratch::default(),
            driver,
            |out, rank| {
                found[out as usize * most + nth] = rank.unwrap_or(NO_VALUE);
                nth = (nth + 1) % most;
            },
        )?;
        let (mut ends, mut rows, mut missing) = (memory::vec(count), Vec::new(), Vec::new());
        for (at, ranks) in found.chunks(most).enumerate() {
            let before = rows.len();
            memory::reserve(&mut rows, most);
            self.extend(&mut rows, ranks, &row);
            missing.extend((rows.len() == before).then_some(at));
            ends.push(rows.len());
        }
        Ok(OutputColumn { values: OutputValues::Lists { ends, rows }, missing })
    }
}

/// Returns one number per position.
fn codes(
    places: usize,
    code: impl Fn(usize) -> i64 + Sync,
    driver: &Driver,
) -> Result<Pages<i64>, Stopped> {
    const PART: usize = 1 << 15;
    let mut codes = Pages::unwritten(places);
    let parts = codes.chunks_mut(PART).enumerate().collect();
    driver.map(parts, |(part, slots): (usize, &mut [_])| {
        for (place, slot) in (part * PART..).zip(slots) {
            slot.set(code(place));
        }
    })?;
    Ok(codes.written())
}

/// For a function with one result per run, returns the results in run order.
fn of_runs<F: WindowFunction>(
    function: &F,
    placed: &ValuesByPlace,
    runs: impl ExactSizeIterator<Item = Run>,
    driver: &Driver,
) -> Result<OutputColumn, Stopped> {
    let mut results = memory::filled(runs.len(), None);
    let mut items = memory::vec(runs.len());
    items.extend((0..).zip(runs).map(|(out, run)| Item { run, out }));
    items.sort_unstable_by_key(|item: &Item| (item.run.start, item.run.end));
    let set = |out: u32, result| results[out as usize] = result;
    slide(function, placed, &items, &mut Scratch::default(), driver, set)?;
    Ok(column(results.into_iter()))
}

/// Returns a column of results.
fn column<T: OutputValue>(results: impl ExactSizeIterator<Item = Option<T>>) -> OutputColumn {
    let mut values = Pages::unwritten(results.len());
    let mut missing = Vec::new();
    for ((at, out), value) in values.iter_mut().enumerate().zip(results) {
        missing.extend(value.is_none().then_some(at));
        out.set(value.unwrap_or_default());
    }
    OutputColumn { values: T::column(values.written()), missing }
}

/// Returns the listed rows of each run. `row` returns the number of the row at a position.
fn lists(
    listed: RowChoice,
    placed: &ValuesByPlace,
    runs: impl ExactSizeIterator<Item = Run>,
    row: impl Fn(u32) -> u32,
) -> OutputColumn {
    let mut ends = memory::vec(runs.len());
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for (at, run) in runs.enumerate() {
        let before = rows.len();
        let places = (run.start..run.end).filter(|&place| placed.counts(place));
        listed.extend(&mut rows, places, |place| placed.codes[place as usize], &row);
        missing.extend((rows.len() == before).then_some(at));
        ends.push(rows.len());
    }
    OutputColumn { values: OutputValues::Lists { ends, rows }, missing }
}
