//! The batch interval join: pairs of rows with equal keys whose times are close.
//!
//! A pair `(l, r)` matches if the keys are equal and `l.ts + lower <= r.ts <= l.ts + upper`:
//!
//! ```text
//!   left    ───────●───────────────●──▶            ts
//!              ┌───┴───┐       ┌───┴───┐           [ts + lower, ts + upper]
//!   right   ──●┼─●───●─┼──●────┼───────┼●─▶
//! ```
//!
//! 1. *Group* ([`order`](crate::order)): the right rows are partitioned by key. Within each key,
//!    they are sorted by time unless they are already sorted. Both steps are stable. Each left row
//!    then matches a run of adjacent rows.
//! 2. *Sweep* (`sweep.rs`): the start and end of the run are found for every left row. While a
//!    key's left rows are in time order, the start and end only move forward, so the sweep follows
//!    them instead of searching. Left rows that are not in time order are not sorted. Instead, the
//!    start and end of each row's run are looked up.
//!
//!    If both sides are in time order, grouping and sweeping are done in one pass ([`merge`]).
//!
//! [`matches`](crate::matches) does the remaining work for all joins.
//!
//! Once each key's rows are in time order, the join takes O(n + results) time, regardless of the
//! number of rows per key.
//!
//! # Trade-offs
//!
//! The right side is copied as (time, row number), which takes 12 bytes per row. A left row takes 8
//! bytes, and payload columns are not touched. If left rows are unsorted, each right row takes up
//! to 4 additional bytes. Row numbers have 32 bits.
//!
//! The definition of the join follows the online interval join in Mencagli, Rymarchuk and Griebler,
//! "PPOIJ: Shared-Nothing Parallel Patterns for Efficient Online Interval Joins over Data Streams"
//! (DEBS 2025), section 2.2.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `sweep.rs` | finds the matches of each left row |
//! | `indexed.rs` | finds matches among the rows of an index |
//! | `merge.rs` | groups and sweeps sorted inputs in one pass, part by part |
//! | `partners.rs` | the matches as runs over which aggregates are computed |
//! | `streaming/` | the interval join of rows that arrive epoch by epoch |

mod indexed;
mod merge;
mod partners;
pub mod streaming;
mod sweep;

use crate::driver::{Driver, Stopped};
use crate::matches::{MAX_ROWS, Matches};
use crate::order::{Groups, JoinColumns, are_sorted};
use crate::rows::interval::LeftReach;
use crate::rows::{Interval, RowEnds};
pub use indexed::{IndexedPartners, interval_join_in, interval_partners_in};
pub(crate) use partners::{Panes, pane_begin, pane_borders, pane_end};
pub use partners::{PartnerColumns, Partners, interval_partners};
pub(crate) use sweep::sweep;

/// Finds the matches of every left row.
///
/// `key_count` must be greater than every key on both sides.
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
/// Panics if a side has [`MAX_ROWS`] rows or more, columns differ in length, or a key is out of
/// bounds.
pub fn interval_join(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    interval: &Interval,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    find(left, right, key_count, interval, driver)
}

/// Finds matches like [`interval_join`], but with a separate interval for each left row. The
/// interval can be at any distance from the row's time.
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
/// Panics under the same conditions as [`interval_join`], and also if `ends` does not have one
/// entry per left row.
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

/// Finds matches like [`interval_join`], but for any implementation of [`LeftReach`].
pub(crate) fn find(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    reach: &impl LeftReach,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    Ok(find_in_groups(left, right, key_count, reach, driver)?.matches)
}

/// Matches, and properties of the right rows that were determined along the way.
struct GroupMatches {
    matches: Matches,
    /// The start of each key's right rows, followed by the end of the last key's rows.
    starts: Vec<u32>,
    /// `true` if the right rows are in time order.
    is_sorted: bool,
}

/// Finds matches like [`find`], and also returns properties of the right rows.
fn find_in_groups(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    reach: &impl LeftReach,
    driver: &Driver,
) -> Result<GroupMatches, Stopped> {
    assert!(left.ts.len() < MAX_ROWS && right.ts.len() < MAX_ROWS, "row numbers fit in 32 bits");
    assert_eq!(
        left.keys.is_some(),
        right.keys.is_some(),
        "either both sides have keys or neither has"
    );
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
    let starts = std::mem::take(&mut groups.starts).into_owned();
    let matches = Matches::new(runs, groups.into_numbers(), ascending, right.ts.len());
    Ok(GroupMatches { matches, starts, is_sorted })
}
