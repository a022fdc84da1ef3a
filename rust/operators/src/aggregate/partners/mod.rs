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
//! Where both sides are in time order, functions whose states are words take passes over the rows of
//! both sides, merged by time (`passes.rs`). A left row then takes down the state of its key where
//! its interval ends, and nobody has to find the run of its partners. Other functions write down
//! the states of all right rows, and a left row looks up the two at the ends of its run
//! (`panes.rs`). If the right rows are in time order, these are folded in it, too, each into the
//! state of its key: values are read and states written as they lie. Rows in another order are
//! folded key by key, as the picture shows. The bits of a result are the same in all cases.
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
//! The files that are named here, and how one function is folded, are in `folds/partners/`.

#[cfg(test)]
mod tests;

use std::ops::Range;

use tidegate_structures::memory;

use super::catalog::aggregate::{Aggregate, kind};
use super::folds::partners::blocks::{FoldedWord, OfBlocks, PartnerBlock};
use super::folds::partners::listed::Lists;
use super::folds::partners::panes::PaneFold;
use super::folds::partners::passes::Passes;
use super::folds::partners::runs::Runs;
use super::inputs::columns::Stream;
use super::output::OutputColumn;
use crate::driver::{Driver, Stopped};
use crate::interval::{PartnerColumns, Partners};
use crate::matches::Matches;

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
/// let columns =
///     PartnerColumns { left, right, key_count: 1, interval: &before, with_prevailing: false };
/// let partners = interval_partners(columns, &driver)?;
///
/// let values = Column { values: &[1, 20, 300], mask: None };
/// let sum = Aggregate::Sum(NumberColumns::Integers(vec![values]));
/// let sums = PartnerAggregates::new(columns, || Ok(&partners), &[sum], &driver)?;
/// let found = &sums.of(0..2)[0];
/// let OutputValues::Integers(sums) = &found.values else { unreachable!() };
/// assert_eq!((sums[0], &found.missing), (320, &vec![1])); // 30 has no partner
/// # Ok::<(), Stopped>(())
/// ```
pub struct PartnerAggregates<'a> {
    columns: PartnerColumns<'a>,
    /// Present if some function is folded in panes.
    partners: Option<&'a Partners>,
    /// What passes have folded.
    words: Vec<FoldedWord>,
    functions: Vec<Box<dyn OfBlocks>>,
}

impl std::fmt::Debug for PartnerAggregates<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartnerAggregates").finish_non_exhaustive()
    }
}

impl<'a> PartnerAggregates<'a> {
    /// Folds the values of the right rows. `find` gives the partners that
    /// [`interval_partners`](crate::interval::interval_partners) finds by these columns; it is
    /// called if some function needs them.
    pub fn new(
        columns: PartnerColumns<'a>,
        find: impl Fn() -> Result<&'a Partners, Stopped>,
        aggregates: &[Aggregate<'_>],
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let one_time = OneTime::new(columns.right.ts.len(), aggregates);
        let streams = [one_time.rows()];
        let kinds: Vec<_> = aggregates.iter().map(|one| kind(one, &streams, &[0])).collect();
        let passes = match kinds.iter().any(|kind| kind.in_words().is_some()) {
            true => Passes::new(columns, driver)?,
            false => None,
        };
        let (mut words, mut partners, mut folding) = (Vec::new(), None, None);
        let mut functions = Vec::with_capacity(kinds.len());
        for kind in &kinds {
            functions.push(match kind.in_words().filter(|_| passes.is_some()) {
                Some(function) => function.place(&mut words),
                None => {
                    let found = *partners.insert(find()?);
                    let folding =
                        folding.get_or_insert_with(|| PaneFold::new(found, columns, driver));
                    kind.panes(folding)?
                }
            });
        }
        let words = passes.map(|passes| passes.fold(&words, driver)).transpose()?;
        Ok(PartnerAggregates { columns, partners, words: words.unwrap_or_default(), functions })
    }

    /// The values of each aggregate for some neighbouring left rows.
    pub fn of(&self, left: Range<usize>) -> Vec<OutputColumn> {
        let mut results: Vec<_> =
            self.functions.iter().map(|function| function.results(left.len())).collect();
        for start in left.clone().step_by(BLOCK) {
            let left = start..left.end.min(start + BLOCK);
            let runs = |partners| Runs::new(partners, self.columns, left.clone());
            let runs = self.partners.map(runs);
            let block = PartnerBlock { left, runs, words: &self.words };
            results.iter_mut().for_each(|results| results.add(&block));
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
    let of_lists = |aggregate: &Aggregate<'_>| match aggregate {
        Aggregate::Count(masks) if masks.iter().all(Option::is_none) => lists.lengths(),
        aggregate => kind(aggregate, &streams, &[0]).of_lists(&lists),
    };
    aggregates.iter().map(of_lists).collect()
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
