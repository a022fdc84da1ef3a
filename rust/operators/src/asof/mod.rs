//! The as-of join: each left row and the one right row of its key that is nearest in time, before
//! it, after it, or on either side.
//!
//! The partner is the first right row that is met when time is walked through from the left row.
//! Rows of one time are in row order: backward, the last of them is met first, and forward, the
//! first of them.
//!
//! - Both sides in time order: one pass over both sides together, with a table that has the last
//!   right row of each key. Threads take parts of the pass.
//! - Otherwise: the rows of both sides are grouped by key, in time order. Both groups of a key are
//!   followed at once.
//! - With a predicate, a partner is the first candidate that meets it. Blocks of candidates are
//!   tested in rounds, nearest first; a block is four times as long as the block before.
//!
//! # Trade-offs
//!
//! The pass in time order costs 8 bytes a left row and 4 a key for each part. Rows in another order
//! are copied as (time, row number), 12 bytes a row, and their partners are put back in row order
//! through 12 bytes a left row more. The definition is that of `ASOF` joins in
//! kdb+ (`aj`) and DuckDB, and of `merge_asof` in pandas.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `strategy.rs` | which right rows can be partners |
//! | `ordered.rs` | partners where both sides are in time order |
//! | `grouped.rs` | partners where a side is not |
//! | `rounds.rs` | partners that meet a predicate |

mod grouped;
mod ordered;
mod rounds;
mod strategy;

use tidegate_structures::memory::pages::Pages;
use tidegate_structures::memory::partition::ranges;

use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::interval::interval_join;
use crate::matches::{MAX_ROWS, Matches, Run};
use crate::order::{JoinColumns, are_sorted};
pub use rounds::Rounds;
pub(crate) use strategy::Toward;
pub use strategy::{AsOf, Strategy};

/// Finds the partner of every left row: at most one match each.
///
/// `key_count` bounds the keys of both sides.
///
/// ```
/// use std::sync::Arc;
///
/// use tidegate_operators::asof::{AsOf, Strategy, asof_join};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::matches::Output;
/// use tidegate_operators::order::JoinColumns;
/// use tidegate_operators::rows::How;
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let left = JoinColumns { ts: &[10, 20], keys: None };
/// let right = JoinColumns { ts: &[8, 9, 30], keys: None };
/// let last = AsOf { strategy: Strategy::Backward, exact: true, tolerance: Some(5) };
/// let matches = Arc::new(asof_join(left, right, 1, &last, &driver)?);
/// let pairs = Output::new(matches, How::Inner, &driver)?;
/// assert_eq!(pairs.rows(), 1);
/// pairs.list(0..1, |pairs| assert_eq!((pairs.left()[0], pairs.right()[0]), (0, 1)));
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// When a side has [`MAX_ROWS`] rows or more, columns differ in length, or a key is out of bounds.
pub fn asof_join(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    asof: &AsOf,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    assert!(left.ts.len() < MAX_ROWS && right.ts.len() < MAX_ROWS, "row numbers fit in 32 bits");
    assert_eq!(left.keys.is_some(), right.keys.is_some(), "both sides have keys or none has");
    for side in [left, right] {
        assert!(side.keys.is_none_or(|keys| keys.len() == side.ts.len()), "a key a time");
    }
    let runs = if are_sorted(&[left.ts, right.ts], driver)? {
        let mut of_sides = Vec::new();
        for &toward in asof.sides() {
            of_sides.push(ordered::partners(left, right, key_count, toward, asof, driver)?);
        }
        nearest(of_sides, left.ts, right.ts, driver)?
    } else {
        grouped::partners(left, right, key_count, asof, driver)?
    };
    Ok(Matches::of_partners(runs, right.ts.len()))
}

/// The candidates of every left row on each side on which partners are looked for, for a predicate
/// to choose from.
///
/// # Panics
///
/// As [`asof_join`].
pub fn candidates(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    asof: &AsOf,
    driver: &Driver,
) -> Result<Vec<Rounds>, Stopped> {
    let rounds = |&toward: &Toward| {
        let interval = asof.interval(toward);
        let runs = interval_join(left, right, key_count, &interval, driver)?;
        Ok(Rounds::new(runs, toward))
    };
    asof.sides().iter().map(rounds).collect()
}

/// The matches of candidates that went through all their rounds.
pub fn chosen(
    rounds: Vec<Rounds>,
    left_ts: &[i64],
    right_ts: &[i64],
    driver: &Driver,
) -> Result<Matches, Stopped> {
    let of_sides = rounds.into_iter().map(Rounds::into_partners).collect();
    Ok(Matches::of_partners(nearest(of_sides, left_ts, right_ts, driver)?, right_ts.len()))
}

/// Of the partners before and after a left row, the nearer; the one before at a tie. Partners on
/// one side are as they are.
fn nearest(
    of_sides: Vec<Pages<Run>>,
    left_ts: &[i64],
    right_ts: &[i64],
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    let mut of_sides = of_sides.into_iter();
    let mut past = of_sides.next().expect("a side");
    let Some(future) = of_sides.next() else { return Ok(past) };
    let mut rest = &mut past[..];
    let mut work = Vec::new();
    for part in ranges(left_ts.len(), driver.parts(left_ts.len(), PART_ROWS)) {
        let (runs, others) = std::mem::take(&mut rest).split_at_mut(part.len());
        rest = others;
        work.push((runs, &future[part.clone()], &left_ts[part]));
    }
    driver.map(work, |(past, future, ts): (&mut [Run], &[Run], &[i64])| {
        for ((before, after), &ts) in past.iter_mut().zip(future).zip(ts) {
            let distance = |run: &Run| run.partner().map(|row| right_ts[row as usize].abs_diff(ts));
            let is_nearer = match (distance(before), distance(after)) {
                (Some(before), Some(after)) => after < before,
                (before, _) => before.is_none(),
            };
            if is_nearer {
                *before = *after;
            }
        }
    })?;
    Ok(past)
}
