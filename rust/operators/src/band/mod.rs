//! The batch band join: pairs of rows whose values are close in one or more columns.
//!
//! A pair matches if, in each band column, `left - below <= right <= left + above`. If the sides
//! have keys, both rows must have the same key.
//!
//! 1. *Choose*: a sample determines which column is indexed: the one whose band contains the fewest
//!    pairs.
//! 2. *Match*: right rows are sorted by that column. Each left row's run is then found as in the
//!    interval join ([`interval_join`](crate::interval)).
//! 3. *Check*: the values of the other columns are copied in run order. Many adjacent values are
//!    then compared at the same time ([`Matches::narrow`]).
//!
//! # Trade-offs
//!
//! Both sides are sorted, so the work is O(n log n + candidates) for any distribution. With several
//! columns, the candidates are all pairs in the band of one column. If no single column is
//! selective, there are far more candidates than results.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `band.rs` | which values are close, without rounding errors |
//! | `index/` | the band join in sliding windows, with one index per side |

#[allow(clippy::module_inception, reason = "band.rs defines which values are close")]
mod band;
pub mod index;

use tidegate_structures::memory::gather::{Store, gather};
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

pub use band::{Band, NO_RANGE, float_code};
use band::{Floats, Steps};

use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::interval::find;
use crate::matches::{Check, Matches};
use crate::order::JoinColumns;
use crate::rows::NO_KEY;
use crate::selectivity;
use crate::window::counts::Ends;

/// A band column, with the codes of both sides.
#[derive(Clone, Copy, Debug)]
pub struct BandColumn<'a> {
    /// One code per left row.
    pub left: &'a [i64],
    /// One code per right row.
    pub right: &'a [i64],
    /// The right codes that match a left row.
    pub bounds: Bounds<'a>,
}

/// The right codes that match a left row.
#[derive(Clone, Copy, Debug)]
pub enum Bounds<'a> {
    /// The codes in a band around the left row's own code.
    Band(Band),
    /// The positions of the matching right rows. The positions increase as the left codes increase.
    Ends(&'a Ends),
}

impl Bounds<'_> {
    /// Returns the first and last matching codes, or `None` if no code matches.
    #[inline]
    fn at(&self, row: usize, code: i64) -> Option<(i64, i64)> {
        match self {
            Bounds::Band(band) => band.at(code),
            Bounds::Ends(ends) => ends.of(row),
        }
    }
}

/// The candidates of a band join: pairs within the band of one column, and the remaining checks.
#[derive(Debug)]
pub struct Candidates {
    /// The pairs.
    pub matches: Matches,
    /// The other columns.
    pub checks: Vec<Check>,
    /// The position of the indexed column.
    pub indexed: usize,
}

/// Dense keys of both sides, below `count`. [`NO_KEY`] marks a row that has no match.
#[derive(Clone, Copy, Debug)]
pub struct BandKeys<'a> {
    /// One key per left row.
    pub left: &'a [u32],
    /// One key per right row.
    pub right: &'a [u32],
    /// One more than the largest key.
    pub count: usize,
}

/// Finds the candidates of every left row. If there is only one column, the candidates are the
/// matches.
///
/// ```
/// use tidegate_operators::band::{Band, BandColumn, Bounds, band_join};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_sync::Stop;
///
/// let bounds = Bounds::Band(Band::Steps { below: Some(1), above: Some(2) });
/// let prices = BandColumn { left: &[100, 200], right: &[99, 102, 103], bounds };
/// let found = band_join(&[prices], None, &Driver::new(1, Stop::default()))?;
/// assert_eq!(found.matches.pairs(), 2); // 100 with 99 and with 102
/// assert!(found.checks.is_empty());
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if there is no column, or if columns differ in length.
pub fn band_join(
    columns: &[BandColumn<'_>],
    keys: Option<BandKeys<'_>>,
    driver: &Driver,
) -> Result<Candidates, Stopped> {
    let indexed = if columns.len() == 1 { 0 } else { most_selective(columns, keys).0 };
    let column = columns[indexed];
    let left = JoinColumns { ts: column.left, keys: keys.map(|keys| keys.left) };
    let right = JoinColumns { ts: column.right, keys: keys.map(|keys| keys.right) };
    let key_count = keys.map_or(1, |keys| keys.count);
    let matches = match column.bounds {
        Bounds::Band(Band::Steps { below, above }) => {
            find(left, right, key_count, &Steps { below, above }, driver)?
        }
        Bounds::Band(Band::Floats { below, above }) => {
            find(left, right, key_count, &Floats { below, above }, driver)?
        }
        Bounds::Ends(ends) => find(left, right, key_count, ends, driver)?,
    };
    let others = columns.iter().enumerate().filter(|(at, _)| *at != indexed);
    let checks =
        others.map(|(_, column)| check(column, &matches, driver)).collect::<Result<_, _>>()?;
    Ok(Candidates { matches, checks, indexed })
}

/// Estimates the number of candidates per left row from a sample. The candidates are the pairs in
/// the band of the most selective column. The estimate assumes evenly distributed keys.
pub fn candidates_a_row(columns: &[BandColumn<'_>], keys: Option<BandKeys<'_>>) -> f64 {
    let (_, pairs, sampled) = most_selective(columns, keys);
    let groups = keys.map_or(1, |keys| keys.count.max(1));
    let (left, right) = sampled;
    let each = columns[0].right.len() as f64 / right.max(1) as f64;
    pairs as f64 / left.max(1) as f64 * each / groups as f64
}

/// Returns each left row's bounds in a column, and the column's right values in run order.
fn check(column: &BandColumn<'_>, matches: &Matches, driver: &Driver) -> Result<Check, Stopped> {
    let mut bounds = Pages::<[i64; 2]>::unwritten(column.left.len());
    let parts = ranges(column.left.len(), driver.parts(column.left.len(), PART_ROWS));
    let work = cut(&mut bounds, &parts).into_iter().zip(&parts).collect();
    driver.map(work, |(bounds, part): (&mut [Slot<[i64; 2]>], _)| {
        bounds.iter_mut().zip(part.clone()).for_each(|(bounds, row)| {
            // If the first value is greater than the last, the band is empty.
            let ends = column.bounds.at(row, column.left[row]);
            bounds.set(ends.map_or([i64::MAX, i64::MIN], |(first, last)| [first, last]));
        });
    })?;
    let right = match matches.rows() {
        None => Pages::copied(column.right),
        Some(rows) => {
            let mut right = Pages::<i64>::unwritten(rows.len());
            let parts = ranges(rows.len(), driver.parts(rows.len(), PART_ROWS));
            let work = cut(&mut right, &parts).into_iter().zip(&parts).collect();
            driver.map(work, |(out, part): (&mut [Slot<i64>], _)| {
                let (from, out) = (bytemuck::cast_slice(column.right), Slot::cast(out));
                gather::<u64>(from, &rows[part.clone()], out, Store::Cached);
            })?;
            right.written()
        }
    };
    Ok(Check::new(bounds.written(), right))
}

fn cut<'a, T>(mut values: &'a mut [T], parts: &[std::ops::Range<usize>]) -> Vec<&'a mut [T]> {
    let cut = |part: &std::ops::Range<usize>| {
        let (head, rest) = std::mem::take(&mut values).split_at_mut(part.len());
        values = rest;
        head
    };
    parts.iter().map(cut).collect()
}

/// Returns the column whose band contains the fewest pairs in a sample. Also returns the number of
/// these pairs and the number of sampled rows per side.
fn most_selective(
    columns: &[BandColumn<'_>],
    keys: Option<BandKeys<'_>>,
) -> (usize, usize, (usize, usize)) {
    let rows = |values: &[i64], keys: Option<&[u32]>| -> Vec<usize> {
        let with_key = |row: &usize| keys.is_none_or(|keys| keys[*row] != NO_KEY);
        selectivity::sample(values.len()).filter(with_key).collect()
    };
    let left = rows(columns[0].left, keys.map(|keys| keys.left));
    let right = rows(columns[0].right, keys.map(|keys| keys.right));
    let pairs = |column: &BandColumn<'_>| {
        let left = left.iter().filter_map(|&row| column.bounds.at(row, column.left[row]));
        selectivity::pairs(left, right.iter().map(|&row| column.right[row]).collect())
    };
    let found = columns
        .iter()
        .map(pairs)
        .enumerate()
        .min_by_key(|&(_, pairs)| pairs)
        .expect("a band column");
    (found.0, found.1, (left.len(), right.len()))
}
