//! The batch interval join: pairs of rows with one key whose times are close.
//!
//! A pair `(l, r)` matches when the keys are equal and `l.ts + lower <= r.ts <= l.ts + upper`:
//!
//! ```text
//!   left    ───────●───────────────●──▶            ts
//!              ┌───┴───┐       ┌───┴───┐           [ts + lower, ts + upper]
//!   right   ──●┼─●───●─┼──●────┼───────┼●─▶
//! ```
//!
//! 1. *Group* ([`group`]): the right rows are partitioned by key, stably, and put in time order
//!    within a key where they are not. The matches of a left row are then one run of neighbours.
//! 2. *Sweep* ([`sweep`]): for every left row the two ends of its run are found. Both only rise
//!    while the left rows of a key come in time order, so the sweep follows them instead of
//!    searching.
//!
//!    Where both sides come in time order, one pass does both ([`merge`]).
//!
//! What becomes of the matches is the same for all joins, see [`matches`](crate::matches).
//!
//! The work is O(n + results) once each key's rows are in time order, however many rows a key has.
//!
//! # Trade-offs
//!
//! The right side is copied as (time, row number), 12 bytes a row, and a left row costs 8 bytes;
//! payload is not touched. Rows are numbered in 32 bits.
//!
//! The definition of the join is that of the online interval join in Mencagli, Rymarchuk and
//! Griebler, "PPOIJ: Shared-Nothing Parallel Patterns for Efficient Online Interval Joins over Data
//! Streams" (DEBS 2025), section 2.2.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `group.rs` | rows by key and time |
//! | `sort.rs` | rows of a group in time order, however they are distributed |
//! | `sweep.rs` | matches of each left row |
//! | `merge.rs`, `directory.rs` | both in one pass where the input is sorted, part by part |
//! | `streaming/` | the same of rows that come epoch by epoch |

mod directory;
mod group;
mod merge;
mod sort;
pub mod streaming;
mod sweep;

use crate::driver::{Driver, Stopped};
use crate::matches::{MAX_ROWS, Matches};
use crate::rows::Interval;
use crate::rows::interval::Reach;
pub(crate) use group::Groups;
pub(crate) use sort::sort_groups;
pub(crate) use sweep::{gallop, sweep};

/// The columns of one side that decide who matches whom.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The time of each row.
    pub ts: &'a [i64],
    /// The dense key of each row, below the join's number of keys, or
    /// [`NO_KEY`](crate::rows::NO_KEY) for a row that matches nothing; `None` when all rows have
    /// one key.
    pub keys: Option<&'a [u32]>,
}

/// Finds the matches of every left row.
///
/// `key_count` bounds the keys of both sides.
///
/// # Panics
///
/// When a side has [`MAX_ROWS`] rows or more, columns differ in length, or a key is out of bounds.
pub fn interval_join(
    left: Side<'_>,
    right: Side<'_>,
    key_count: usize,
    interval: &Interval,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    find(left, right, key_count, interval, driver)
}

/// As [`interval_join`], for right rows within reach in any sense.
pub(crate) fn find(
    left: Side<'_>,
    right: Side<'_>,
    key_count: usize,
    reach: &impl Reach,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    assert!(left.ts.len() < MAX_ROWS && right.ts.len() < MAX_ROWS, "row numbers fit in 32 bits");
    assert_eq!(left.keys.is_some(), right.keys.is_some(), "both sides have keys or none has");
    let sorted = group::are_sorted(&[left.ts, right.ts], driver)?;
    if sorted
        && left.keys.is_some()
        && let Some(distances) = merge::distances(left, right, key_count, reach, driver)
    {
        return merge::merge(left, right, key_count, distances, driver);
    }
    let groups = Groups::new(right, key_count, driver)?;
    let runs = sweep(left, &groups, key_count, reach, driver)?;
    let ascending = groups.ascending();
    Ok(Matches::new(runs, groups.into_numbers(), ascending, right.ts.len()))
}
