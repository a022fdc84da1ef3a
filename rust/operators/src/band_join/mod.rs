//! The batch band join: pairs of rows whose values are close in one or more columns.
//!
//! A pair matches when, in each band column, the right value is no more than `below` under the left one and no more than
//! `above` over it, and the keys are equal where there are keys.
//!
//! 1. *Choose*: the column in whose band the fewest pairs lie is the one that is indexed, by a sample.
//! 2. *Match*: right rows are put in the order of that column, and the run of each left row is found, as the interval join
//!    does with times ([`interval_join`](crate::interval_join)).
//! 3. *Check*: the values of the other columns are laid out in the order of the runs, so that they are compared where they
//!    lie, many at a time ([`Matches::narrow`]).
//!
//! # Trade-offs
//!
//! Both sides are sorted, so that the work is O(n log n + candidates) for any distribution. With several columns, the
//! candidates are all pairs in the band of one column: many more than the results, if no column is selective by itself.

mod band;

use tidegate_structures::gather::{Store, gather};
use tidegate_structures::pages::Pages;
use tidegate_structures::partition::ranges;

pub use band::{Band, float_code};
use band::{Floats, Steps};

use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::interval_join::{NO_KEY, Side, find};
use crate::matches::{Check, Matches};

/// One band column: the codes of both sides.
#[derive(Clone, Copy, Debug)]
pub struct BandColumn<'a> {
    /// A code a left row.
    pub left: &'a [i64],
    /// A code a right row.
    pub right: &'a [i64],
    /// Which right codes match a left one.
    pub band: Band,
}

/// The candidates of a band join: pairs in the band of one column, and what is left to be checked.
#[derive(Debug)]
pub struct Candidates {
    /// The pairs.
    pub matches: Matches,
    /// The other columns.
    pub checks: Vec<Check>,
    /// Which column was indexed.
    pub indexed: usize,
}

/// Dense keys of both sides, below `count`; [`NO_KEY`] for a row that matches nothing.
#[derive(Clone, Copy, Debug)]
pub struct BandKeys<'a> {
    /// A key a left row.
    pub left: &'a [u32],
    /// A key a right row.
    pub right: &'a [u32],
    /// One more than the largest key.
    pub count: usize,
}

/// Finds the candidates of every left row.
///
/// # Panics
///
/// When there is no column, or columns differ in length.
pub fn band_join(
    columns: &[BandColumn<'_>],
    keys: Option<BandKeys<'_>>,
    driver: &Driver,
) -> Result<Candidates, Stopped> {
    let indexed = most_selective(columns, keys);
    let column = columns[indexed];
    let left = Side { ts: column.left, keys: keys.map(|keys| keys.left) };
    let right = Side { ts: column.right, keys: keys.map(|keys| keys.right) };
    let key_count = keys.map_or(1, |keys| keys.count);
    let matches = match column.band {
        Band::Steps { below, above } => find(left, right, key_count, &Steps { below, above }, driver)?,
        Band::Floats { below, above } => find(left, right, key_count, &Floats { below, above }, driver)?,
    };
    let others = columns.iter().enumerate().filter(|(at, _)| *at != indexed);
    let checks = others.map(|(_, column)| check(column, &matches, driver)).collect::<Result<_, _>>()?;
    Ok(Candidates { matches, checks, indexed })
}

/// The bounds of each left row in a column, and the column's right values in the order of the runs.
fn check(column: &BandColumn<'_>, matches: &Matches, driver: &Driver) -> Result<Check, Stopped> {
    let mut bounds = Pages::<[i64; 2]>::new(column.left.len());
    let parts = ranges(column.left.len(), driver.parts(column.left.len(), PART_ROWS));
    let work = cut(&mut bounds, &parts).into_iter().zip(&parts).collect();
    driver.map(work, |(bounds, part): (&mut [[i64; 2]], _)| {
        bounds.iter_mut().zip(&column.left[part.clone()]).for_each(|(bounds, &value)| {
            // A first value above the last is a band without values.
            *bounds = column.band.at(value).map_or([i64::MAX, i64::MIN], |(first, last)| [first, last]);
        });
    })?;
    let mut right = Pages::<i64>::new(matches.places());
    match matches.rows() {
        None => right.copy_from_slice(column.right),
        Some(rows) => {
            let parts = ranges(rows.len(), driver.parts(rows.len(), PART_ROWS));
            let work = cut(&mut right, &parts).into_iter().zip(&parts).collect();
            driver.map(work, |(out, part): (&mut [i64], _)| {
                let (from, out) = (bytemuck::cast_slice(column.right), bytemuck::cast_slice_mut(out));
                gather::<u64>(from, &rows[part.clone()], out, Store::Cached);
            })?;
        }
    }
    Ok(Check::new(bounds, right))
}

fn cut<'a, T>(mut values: &'a mut [T], parts: &[std::ops::Range<usize>]) -> Vec<&'a mut [T]> {
    let cut = |part: &std::ops::Range<usize>| {
        let (head, rest) = std::mem::take(&mut values).split_at_mut(part.len());
        values = rest;
        head
    };
    parts.iter().map(cut).collect()
}

/// The column in whose band the fewest pairs of a sample lie.
fn most_selective(columns: &[BandColumn<'_>], keys: Option<BandKeys<'_>>) -> usize {
    /// Rows of a side in the sample: a column that is better by a few percent may be missed.
    const SAMPLE: usize = 1 << 11;
    if columns.len() == 1 {
        return 0;
    }
    let sample = |values: &[i64], keys: Option<&[u32]>| -> Vec<i64> {
        let step = values.len().div_ceil(SAMPLE).max(1);
        let with_key = |row: &usize| keys.is_none_or(|keys| keys[*row] != NO_KEY);
        (0..values.len()).step_by(step).filter(with_key).map(|row| values[row]).collect()
    };
    let pairs = |column: &BandColumn<'_>| -> usize {
        let mut right = sample(column.right, keys.map(|keys| keys.right));
        right.sort_unstable();
        let before = |value: i64, or_at: bool| right.partition_point(|&other| other < value || or_at && other == value);
        let run =
            |value: i64| column.band.at(value).map_or(0, |(first, last)| before(last, true) - before(first, false));
        sample(column.left, keys.map(|keys| keys.left)).into_iter().map(run).sum()
    };
    (0..columns.len()).min_by_key(|&at| pairs(&columns[at])).expect("a band column")
}
