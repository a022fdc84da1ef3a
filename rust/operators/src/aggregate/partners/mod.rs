//! Aggregates of the partners of each left row of a join.
//!
//! The partners of a left row of an interval join are a run of right rows: a suffix of one pane and
//! a prefix of the next ([`Partners`]). The state of every suffix and every prefix is computed
//! once, row by row. A left row then costs one combination, however many partners it has, also for
//! functions whose states cannot be subtracted.
//!
//! ```text
//!   right rows of a key    a  b  c │ d  e  f │ g  h        panes
//!   suffixes             abc bc  c │def ef  f│gh  h
//!   prefixes               a ab abc│ d de def│ g gh
//!   partners c d e:        c       + de
//! ```
//!
//! Where the right rows are in time order, they are folded in it, each into the state of its key, and
//! a prefix or suffix has the number of its row. A pane is then a range of rows, for all keys. Values
//! are read and states written as they lie; folded key by key, each value would be fetched from a
//! place of its own. Rows in another order are folded key by key, as the picture shows.
//!
//! Where the partners are no runs, as under a condition on both sides, they are added one by one
//! ([`aggregate_matches`]); no pair is written anywhere.
//!
//! A function sees partners by time, then by right row number; where pairs do not depend on time,
//! by number alone. Floats are added in an order that the partners and the interval alone decide: a
//! row that prevails before an interval comes first, then the suffix from its end, then the prefix
//! from its beginning. Partners in one pane are a prefix if the interval covers the beginning of
//! the pane, and else a suffix. So a part of the rows gives the same sums if it has all partners.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `panes.rs` | suffixes and prefixes of a function |
//! | `states.rs` | functions with small states where all rows count |
//! | `listed.rs` | partners one by one |

mod listed;
mod panes;
mod states;
#[cfg(test)]
mod tests;

use std::ops::Range;

use tidegate_structures::memory;

use super::kinds::kind;
use super::{Aggregate, OutputColumn, Stream};
use crate::driver::{Driver, Stopped};
use crate::interval::{PartnerColumns, Partners};
use crate::matches::Matches;
pub(super) use listed::Lists;
pub(super) use panes::Folding;
use panes::{OfRuns, Runs};
pub(super) use states::{InPanes, OfPartners};

/// Left rows that all functions are computed of before the next ones: where their partners are
/// stays in a cache.
const BLOCK: usize = if cfg!(test) { 7 } else { 1 << 12 };

/// The suffixes and prefixes of several functions. They give the results of any left rows.
///
/// The sum of the right values of up to 2 before:
///
/// ```
/// use tidegate_operators::aggregate::{
///     Aggregate, Column, NumberColumns, OutputValues, PartnerAggregates,
/// };
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::{PartnerColumns, interval_partners};
/// use tidegate_operators::order::JoinColumns;
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let left = JoinColumns { ts: &[10, 30], keys: None };
/// let right = JoinColumns { ts: &[7, 8, 9], keys: None };
/// let before = Interval { lower: Some(-2), upper: Some(0), closed: Closed::Both };
/// let columns = PartnerColumns { left, right, key_count: 1, interval: &before };
/// let partners = interval_partners(columns, false, &driver)?;
///
/// let values = Column { values: &[1, 20, 300], mask: None };
/// let sum = Aggregate::Sum(NumberColumns::Integers(vec![values]));
/// let sums = PartnerAggregates::new(&partners, columns, &[sum], &driver)?;
/// let found = &sums.of(0..2)[0];
/// let OutputValues::Integers(sums) = &found.values else { unreachable!() };
/// assert_eq!((sums[0], &found.missing), (320, &vec![1])); // 30 has no partner
/// # Ok::<(), Stopped>(())
/// ```
pub struct PartnerAggregates<'a> {
    partners: &'a Partners,
    columns: PartnerColumns<'a>,
    functions: Vec<Box<dyn OfRuns>>,
}

impl std::fmt::Debug for PartnerAggregates<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartnerAggregates").finish_non_exhaustive()
    }
}

impl<'a> PartnerAggregates<'a> {
    /// Folds the values of the right rows. `columns` are those by which the partners were found.
    pub fn new(
        partners: &'a Partners,
        columns: PartnerColumns<'a>,
        aggregates: &[Aggregate<'_>],
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let one_time = OneTime::new(partners.right_rows(), aggregates);
        let streams = [one_time.rows()];
        let mut folding = Folding::new(partners, columns, driver);
        let fold = |aggregate| kind(aggregate, &streams, &[0]).panes(&mut folding);
        let functions = aggregates.iter().map(fold).collect::<Result<_, _>>()?;
        Ok(PartnerAggregates { partners, columns, functions })
    }

    /// The values of each aggregate for some neighbouring left rows.
    pub fn of(&self, left: Range<usize>) -> Vec<OutputColumn> {
        let mut results: Vec<_> =
            self.functions.iter().map(|function| function.results(left.len())).collect();
        for start in left.clone().step_by(BLOCK) {
            let block = start..left.end.min(start + BLOCK);
            let runs = Runs::new(self.partners, self.columns, block);
            results.iter_mut().for_each(|results| results.add(&runs));
        }
        results.into_iter().map(|results| results.finish()).collect()
    }
}

/// The values of each aggregate for left rows whose partners are these matches. The left rows are
/// places of `matches`; functions see partners by their times, if there are any, and their numbers.
///
/// The first right value of each left row's pairs:
///
/// ```
/// use tidegate_operators::aggregate::{Aggregate, OutputValues, aggregate_matches};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::matches::Matches;
/// use tidegate_sync::Stop;
///
/// let pairs = [(vec![0, 0, 2], vec![3, 1, 0])];
/// let matches = Matches::of_pairs(&pairs, 3, 4, &Driver::new(1, Stop::default()))?;
/// let first = Aggregate::First(vec![None]);
/// let found = &aggregate_matches(&matches, 0..3, None, &[first])[0];
/// let OutputValues::Rows(rows) = &found.values else { unreachable!() };
/// assert_eq!((rows[0], rows[2], &found.missing), (1, 0, &vec![1]));
/// # Ok::<(), Stopped>(())
/// ```
pub fn aggregate_matches(
    matches: &Matches,
    left: Range<usize>,
    ts: Option<&[i64]>,
    aggregates: &[Aggregate<'_>],
) -> Vec<OutputColumn> {
    let one_time = OneTime::new(matches.right_rows(), aggregates);
    let streams = [one_time.rows()];
    let lists = Lists::new(matches, left, ts);
    aggregates.iter().map(|aggregate| kind(aggregate, &streams, &[0]).of_lists(&lists)).collect()
}

/// Rows of one time: partners come in their order, so that the last of equal times is the last.
struct OneTime(Vec<i64>);

impl OneTime {
    /// The times are read for functions that choose a row only.
    fn new(rows: usize, aggregates: &[Aggregate<'_>]) -> Self {
        let is_chosen = |one: &Aggregate<'_>| {
            use Aggregate::{First, Last, RowOfMax, RowOfMin};
            matches!(one, First(_) | Last(_) | RowOfMin(_) | RowOfMax(_))
        };
        let rows = if aggregates.iter().any(is_chosen) { rows } else { 0 };
        memory::demand_values::<i64>(rows);
        OneTime(vec![0; rows])
    }

    fn rows(&self) -> Stream<'_> {
        Stream { ts: &self.0, keys: None }
    }
}
