//! Sorts rows by key, and by time within each key. All joins begin with this step.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `group.rs` | groups rows by key and sorts them by time |
//! | `sort.rs` | sorts rows by time, for any distribution of times |
//! | `follow.rs` | follows the rows of each key in time order |
//! | `directory.rs` | looks up the positions of unsorted rows |
//! | `ordinals.rs` | numbers the rows of each key |
//! | `search.rs` | finds the positions of a few rows |
//! | `parts.rs` | the parts of an index |
//! | `merge.rs` | merges the rows of sorted runs |

mod directory;
mod follow;
mod group;
pub mod merge;
mod ordinals;
mod parts;
mod search;
mod sort;

use std::sync::Arc;

use tidegate_structures::memory::pages::Pages;

use crate::driver::{Driver, Stopped};
pub(crate) use directory::{Directory, look_up};
pub(crate) use follow::{Follow, follow};
pub use group::SideIndex;
pub(crate) use group::{Groups, OrderedTimes, Value, are_sorted};
pub(crate) use ordinals::RangeCounts;
pub use ordinals::ordinals;
pub(crate) use parts::SearchedPart;
pub use parts::{IndexPart, IndexedRows, SEARCHED};
pub(crate) use search::Search;
pub(crate) use sort::sort_groups;

/// The columns of one side that determine which rows match.
#[derive(Clone, Copy, Debug)]
pub struct JoinColumns<'a> {
    /// The time of each row.
    pub ts: &'a [i64],
    /// The dense key of each row. Each key is less than the join's number of keys, or is
    /// [`NO_KEY`](crate::rows::NO_KEY) if the row has no match. `None` if all rows have the same
    /// key.
    pub keys: Option<&'a [u32]>,
}

/// Returns the row numbers in time order, or `None` if the rows are already in time order. Rows
/// with equal times are ordered by row number.
pub fn time_order(ts: &[i64], driver: &Driver) -> Result<Option<Pages<u32>>, Stopped> {
    let numbers = Groups::new(JoinColumns { ts, keys: None }, 1, driver)?.into_numbers();
    Ok(numbers.map(|numbers| Arc::into_inner(numbers).expect("the only owner")))
}

/// Searches like [`gallop`], but is meant for moves of only a few positions. No branch depends on
/// the distance. This function is intended for loops that are compiled to vector instructions.
#[inline(always)]
pub(crate) fn step(ts: &[i64], from: u32, before: impl Fn(i64) -> bool) -> u32 {
    const BLOCK: usize = 8;
    let mut low = from as usize;
    for _ in 0..2 {
        let Some(block) = ts.get(low..low + BLOCK) else { break };
        let passed = block.iter().map(|&ts| usize::from(before(ts))).sum::<usize>();
        low += passed;
        if passed < BLOCK {
            return low as u32;
        }
    }
    gallop(ts, low as u32, before)
}

/// Returns the first position between `floor` and `from` at which `before` returns `false` for the
/// time. Returns `from` if there is no such position.
#[inline]
pub(crate) fn gallop_back(ts: &[i64], floor: u32, from: u32, before: impl Fn(i64) -> bool) -> u32 {
    let (floor, mut high) = (floor as usize, from as usize);
    let mut step = 1;
    while high > floor && !before(ts[high - 1]) {
        let probe = high.saturating_sub(step).max(floor);
        if probe == floor || before(ts[probe - 1]) {
            return (probe + ts[probe..high - 1].partition_point(|&ts| before(ts))) as u32;
        }
        high = probe;
        step *= 2;
    }
    high as u32
}

/// Returns the first position at or after `from` at which `before` returns `false` for the time.
/// Times for which `before` returns `true` must precede all others.
#[inline]
pub(crate) fn gallop(ts: &[i64], from: u32, before: impl Fn(i64) -> bool) -> u32 {
    let mut low = from as usize;
    let mut step = 1;
    // Most calls move by one or two positions.
    while low < ts.len() && before(ts[low]) {
        let probe = low + step;
        if probe >= ts.len() || !before(ts[probe]) {
            let high = probe.min(ts.len());
            return (low + 1 + ts[low + 1..high].partition_point(|&ts| before(ts))) as u32;
        }
        low = probe;
        step *= 2;
    }
    low as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_a_place_is_found_from_any_other() {
        let ts = [1, 3, 3, 3, 5, 8, 8, 9, 9, 9, 12];
        for floor in 0..=ts.len() {
            for from in floor..=ts.len() {
                for limit in 0..14 {
                    let before = |ts: i64| ts < limit;
                    let expected = |range: std::ops::Range<usize>| {
                        range.start + ts[range].iter().filter(|&&ts| before(ts)).count()
                    };
                    let back = gallop_back(&ts, floor as u32, from as u32, before);
                    assert_eq!(back as usize, expected(floor..from), "{floor} {from} {limit}");
                    let on = gallop(&ts, from as u32, before);
                    assert_eq!(on as usize, expected(from..ts.len()), "{from} {limit}");
                }
            }
        }
    }
}
