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
//! 1. *Group* ([`order`](crate::order)): the right rows are partitioned by key, stably, and put in time order
//!    within a key unless they are so already. The matches of a left row are then a run of neighbours.
//! 2. *Sweep* ([`sweep`]): for every left row the two ends of its run are found. Both only rise
//!    while the left rows of a key come in time order, so the sweep follows them instead of
//!    searching. Left rows in another order are not sorted: each looks its ends up.
//!
//!    Where both sides come in time order, one pass does both ([`merge`]).
//!
//! [`matches`](crate::matches) does the rest of the work for all joins.
//!
//! The work is O(n + results) once each key's rows are in time order, however many rows a key has.
//!
//! # Trade-offs
//!
//! The right side is copied as (time, row number), 12 bytes a row, and a left row costs 8 bytes;
//! payload is not touched. For left rows in no order, up to 4 bytes a right row are added. Rows are
//! numbered in 32 bits.
//!
//! The definition of the join is that of the online interval join in Mencagli, Rymarchuk and
//! Griebler, "PPOIJ: Shared-Nothing Parallel Patterns for Efficient Online Interval Joins over Data
//! Streams" (DEBS 2025), section 2.2.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `sweep.rs` | matches of each left row |
//! | `merge.rs` | both in one pass where the input is sorted, part by part |
//! | `partners.rs` | the matches as runs that aggregates are made of |
//! | `streaming/` | the same of rows that come epoch by epoch |

mod merge;
mod partners;
pub mod streaming;
mod sweep;

use crate::driver::{Driver, Stopped};
use crate::matches::{MAX_ROWS, Matches};
use crate::order::{Groups, JoinColumns, are_sorted};
use crate::rows::interval::LeftReach;
use crate::rows::{Interval, RowEnds};
pub(crate) use partners::{Panes, pane_begin, pane_borders, pane_end};
pub use partners::{PartnerColumns, Partners, interval_partners};
pub(crate) use sweep::sweep;

/// Finds the matches of every left row.
///
/// `key_count` bounds the keys of both sides.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::interval_join;
/// use tidegate_operators::order::JoinColumns;
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let left = JoinColumns { ts: &[10, 20], keys: None };
/// let right = JoinColumns { ts: &[8, 9, 30], keys: None };
/// let before = Interval { lower: Some(-2), upper: Some(0), closed: Closed::Both };
/// let matches = interval_join(left, right, 1, &before, &Driver::new(1, Stop::default()))?;
/// assert_eq!(matches.pairs(), 2); // 10 with 8 and with 9
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// When a side has [`MAX_ROWS`] rows or more, columns differ in length, or a key is out of bounds.
pub fn interval_join(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    interval: &Interval,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    find(left, right, key_count, interval, driver)
}

/// As [`interval_join`], where each left row has ends of its own, however far from its time.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::row_interval_join;
/// use tidegate_operators::order::JoinColumns;
/// use tidegate_operators::rows::RowEnds;
/// use tidegate_sync::Stop;
///
/// let left = JoinColumns { ts: &[10, 20], keys: None };
/// let right = JoinColumns { ts: &[8, 9, 30], keys: None };
/// let ends = RowEnds { first: &[9, 0], last: &[10, 99] };
/// let matches = row_interval_join(left, right, 1, ends, &Driver::new(1, Stop::default()))?;
/// assert_eq!((matches.count(0), matches.count(1)), (1, 3));
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// As [`interval_join`]; when a left row has no ends.
pub fn row_interval_join(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    ends: RowEnds<'_>,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    assert_eq!((ends.first.len(), ends.last.len()), (left.ts.len(), left.ts.len()), "ends a row");
    find(left, right, key_count, &ends, driver)
}

/// As [`interval_join`], for right rows within reach in any sense.
pub(crate) fn find(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    reach: &impl LeftReach,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    Ok(find_in_groups(left, right, key_count, reach, driver)?.matches)
}

/// Matches, and what was noticed on the way.
struct GroupMatches {
    matches: Matches,
    /// The place where each key's right rows start, and the place where all end.
    starts: Vec<u32>,
    /// Whether the right rows are in time order.
    is_sorted: bool,
}

/// As [`find`], with what was noticed on the way.
fn find_in_groups(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    reach: &impl LeftReach,
    driver: &Driver,
) -> Result<GroupMatches, Stopped> {
    assert!(left.ts.len() < MAX_ROWS && right.ts.len() < MAX_ROWS, "row numbers fit in 32 bits");
    assert_eq!(left.keys.is_some(), right.keys.is_some(), "both sides have keys or none has");
    let sorted = are_sorted(&[left.ts, right.ts], driver)?;
    if sorted
        && left.keys.is_some()
        && let Some(distances) = merge::distances(left, right, key_count, reach, driver)
    {
        let (matches, starts) = merge::merge(left, right, key_count, distances, driver)?;
        return Ok(GroupMatches { matches, starts, is_sorted: true });
    }
    let mut groups = Groups::new(right, key_count, driver)?;
    let runs = sweep(left, &groups, key_count, reach, driver)?;
    let (ascending, is_sorted) = (groups.ascending(), groups.is_sorted());
    let starts = std::mem::take(&mut groups.starts);
    let matches = Matches::new(runs, groups.into_numbers(), ascending, right.ts.len());
    Ok(GroupMatches { matches, starts, is_sorted })
}
