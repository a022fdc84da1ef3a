//! The as-of join. The join pairs each left row with the nearest right row that has the same key.
//! The join searches before the left row, after it, or in both directions.
//!
//! The partner is the first right row found when moving through time from the left row. Rows with
//! equal times are in row order. A backward search finds the last of these rows, and a forward
//! search finds the first.
//!
//! - If both sides are in time order, the join makes one pass over both sides. A table contains
//!   each key's last right row. Threads process parts of the pass.
//! - Otherwise, the rows on both sides are grouped by key and sorted by time. The left and right
//!   groups for a key are then traversed at the same time.
//! - With a predicate, the partner is the first candidate that satisfies it. Blocks of candidates
//!   are tested in rounds, nearest first; each block is four times as long as the previous one.
//!
//! # Trade-offs
//!
//! Per part, the pass in time order takes 8 bytes of memory for each left row and 4 bytes for each
//! key. Rows that are not in time order are copied as (time, row number), which takes 12 bytes per
//! row. Putting the partners back in row order takes another 12 bytes per left row. The definition
//! is the same as for `ASOF` joins in kdb+ (`aj`) and DuckDB, and for `merge_asof` in pandas.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `strategy.rs` | which right rows can be partners |
//! | `ordered.rs` | partners if both sides are in time order |
//! | `grouped.rs` | partners if a side is not in time order |
//! | `indexed.rs` | partners among the rows of an index |
//! | `rounds.rs` | partners that satisfy a predicate |
//! | `several.rs` | the nearest few partners of each left row |

mod grouped;
mod indexed;
mod ordered;
mod rounds;
mod several;
mod strategy;

use tidegate_structures::memory::pages::Pages;
use tidegate_structures::memory::partition::ranges;

use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::interval::interval_join;
use crate::matches::{MAX_ROWS, Matches, Run};
use crate::order::{Groups, JoinColumns, are_sorted};
pub use indexed::{asof_join_in, candidates_in, interval_candidates_in};
pub use rounds::Rounds;
pub use several::{Nearness, Preference, nearest_few, nearest_few_chosen, rounds_of};
pub(crate) use strategy::Toward;
pub use strategy::{AsOf, Strategy};

/// Finds the partner of every left row. A left row has at most one partner.
///
/// `key_count` must be greater than every key on both sides.
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
/// Panics if a side has [`MAX_ROWS`] rows or more, columns differ in length, or a key is out of
/// bounds.
pub fn asof_join(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    asof: &AsOf,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    PartnerSearch::new(right, key_count, driver)?.partners(left, asof, driver)
}

/// The right rows of several as-of joins, which differ only in their left times and matching rules.
/// The right rows are grouped at most once.
#[derive(Debug)]
pub struct PartnerSearch<'a> {
    right: JoinColumns<'a>,
    key_count: usize,
    is_sorted: bool,
    groups: Option<Groups<'a>>,
}

impl<'a> PartnerSearch<'a> {
    /// Prepares right rows, whose keys must be below `key_count`.
    ///
    /// # Panics
    ///
    /// Panics if there are [`MAX_ROWS`] rows or more.
    pub fn new(right: JoinColumns<'a>, key_count: usize, driver: &Driver) -> Result<Self, Stopped> {
        assert!(right.ts.len() < MAX_ROWS, "row numbers fit in 32 bits");
        assert!(right.keys.is_none_or(|keys| keys.len() == right.ts.len()), "a key a time");
        let is_sorted = are_sorted(&[right.ts], driver)?;
        Ok(PartnerSearch { right, key_count, is_sorted, groups: None })
    }

    /// Finds the partner of every left row, like [`asof_join`].
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`asof_join`].
    pub fn partners(
        &mut self,
        left: JoinColumns<'_>,
        asof: &AsOf,
        driver: &Driver,
    ) -> Result<Matches, Stopped> {
        let PartnerSearch { right, key_count, .. } = *self;
        assert!(left.ts.len() < MAX_ROWS, "row numbers fit in 32 bits");
        assert_eq!(
            left.keys.is_some(),
            right.keys.is_some(),
            "either both sides have keys or neither has"
        );
        assert!(left.keys.is_none_or(|keys| keys.len() == left.ts.len()), "a key a time");
        let runs = if self.is_sorted && are_sorted(&[left.ts], driver)? {
            let mut of_sides = Vec::new();
            for &toward in asof.sides() {
                of_sides.push(ordered::partners(left, right, key_count, toward, asof, driver)?);
            }
            nearest(of_sides, left.ts, right.ts, driver)?
        } else {
            let groups = match self.groups.take() {
                Some(groups) => groups,
                None => Groups::new(right, key_count, driver)?,
            };
            grouped::partners(left, self.groups.insert(groups), key_count, asof, driver)?
        };
        Ok(Matches::of_partners(runs, right.ts.len()))
    }
}

/// Returns the candidates of every left row in each direction that is searched. A predicate then
/// chooses among the candidates.
///
/// # Panics
///
/// Panics under the same conditions as [`asof_join`].
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

/// Returns the matches found in all rounds.
pub fn chosen(
    rounds: Vec<Rounds>,
    left_ts: &[i64],
    right_ts: &[i64],
    driver: &Driver,
) -> Result<Matches, Stopped> {
    let of_sides = rounds.into_iter().map(Rounds::into_partners).collect();
    Ok(Matches::of_partners(nearest(of_sides, left_ts, right_ts, driver)?, right_ts.len()))
}

/// Returns the nearer of the partners before and after a left row. In a tie, the partner before the
/// left row is returned. Partners in a single direction are returned unchanged.
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
