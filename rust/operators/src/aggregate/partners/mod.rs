//! Aggregates over the partners of each left row in a join.
//!
//! Time is divided into *panes*, which are as long as the join's interval. In an interval join, the
//! partners of a left row form a run of right rows: a suffix of one pane, followed by a prefix of
//! the next ([`Partners`]). The state of every suffix and every prefix is computed once, row by row.
//! A left row then costs one combination regardless of how many partners it has, even for functions
//! whose states cannot be subtracted.
//!
//! ```text
//!   right rows of a key    a  b  c │ d  e  f │ g  h        panes
//!   suffixes             abc bc  c │def ef  f│gh  h
//!   prefixes               a ab abc│ d de def│ g gh
//!   partners c d e:        c       + de
//! ```
//!
//! If both sides are in time order, functions whose states are words are computed in passes
//! (`passes.rs`). Each pass visits the rows on both sides, merged by time. A left row then copies
//! its key's state at the end of its interval, so there is no need to search for its partners. For
//! other functions, the states of all right rows are stored. A left row looks up the states at the
//! two ends of its run (`panes.rs`). If right rows are in time order, they are also folded in that
//! order, each into its key's state. Values are then read sequentially, and states are written
//! sequentially. Rows in any other order are folded key by key, as the diagram shows. Results are
//! bit-identical in all cases.
//!
//! Functions with different intervals share passes ([`fold_intervals`], `lanes/`). The states of a
//! key are then adjacent for all intervals. A right row is read once and updates all of these states
//! with vector instructions. The states of each interval are still those of the interval's own
//! panes, so results are the same as in separate calls. This also applies to a single interval if
//! there are many right rows for each left row.
//!
//! In row-based windows, both sides contain the same rows, and each row's time is its index within
//! its key. The rows of all keys are then visited in their original order (`row_passes.rs`).
//!
//! If the partners do not form runs, for example because a condition reads both sides, partners are
//! added one by one ([`aggregate_matches`]). Pairs are never stored.
//!
//! A function receives partners ordered by time and then by right row number. If pairs do not
//! depend on time, partners are ordered by number alone. The order in which floats are added
//! depends only on the partners and the interval. A prevailing row from before the interval, if
//! there is one, is added first. Next, the suffix is added from its end, and then the prefix from
//! its start. If all partners are in the same pane, they form a prefix if the interval covers the
//! start of the pane. Otherwise, they form a suffix. Any part of the input that contains all of a
//! left row's partners therefore yields the same sums.
//!
//! The files named here and the folds of individual functions are in `folds/partners/`.

#[cfg(test)]
mod tests;

use std::ops::Range;

use tidegate_structures::memory;

use super::catalog::aggregate::{Aggregate, kind};
use super::folds::partners::blocks::{BLOCK, FoldedWord, OfBlocks, PartnerBlock};
use super::folds::partners::lanes::{IntervalWords, fold_words};
use super::folds::partners::listed::Lists;
use super::folds::partners::panes::PaneFold;
use super::folds::partners::passes::Passes;
use super::folds::partners::row_passes::RowPasses;
use super::folds::partners::runs::Runs;
use super::folds::partners::words::{Word, WordPlaces};
use super::inputs::columns::Stream;
use super::output::OutputColumn;
use crate::driver::{Driver, Stopped};
use crate::interval::{PartnerColumns, Partners};
use crate::matches::Matches;

/// The suffixes and prefixes of several functions. Results for any range of left rows are computed
/// from these states.
///
/// In this example, the right values of the last 2 time units are summed for each left row:
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
    /// `Some` if any function is folded by pane.
    partners: Option<&'a Partners>,
    /// The words that the passes have folded.
    words: Vec<FoldedWord>,
    functions: Vec<Box<dyn OfBlocks>>,
}

impl std::fmt::Debug for PartnerAggregates<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartnerAggregates").finish_non_exhaustive()
    }
}

/// The functions over the partners in one interval, some of which have been folded.
pub struct FoldedInterval<'a> {
    columns: PartnerColumns<'a>,
    /// The words that the passes have folded.
    words: Vec<FoldedWord>,
    /// The functions. Contains `None` for functions that are folded by pane.
    functions: Vec<Option<Box<dyn OfBlocks>>>,
}

impl std::fmt::Debug for FoldedInterval<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FoldedInterval").finish_non_exhaustive()
    }
}

/// Folds the values of the right rows for several intervals, each of which has its own functions.
/// The rows on both sides must be the same for all intervals. The intervals share passes over these
/// rows. Functions that require the partners of left rows are not folded;
/// [`PartnerAggregates::of_interval`] folds these.
///
/// In this example, the right rows of the last 2 and of the last 20 time units are counted:
///
/// ```
/// use tidegate_operators::aggregate::{
///     Aggregate, OutputValues, PartnerAggregates, fold_intervals,
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
/// let last = |length: i64| Interval { lower: Some(-length), upper: Some(0), closed: Closed::Both };
/// let intervals = [last(2), last(20)];
/// let columns = intervals.each_ref().map(|interval| PartnerColumns {
///     left, right, key_count: 1, interval, with_prevailing: false,
/// });
///
/// let count = [Aggregate::Count(vec![None])];
/// let folded = fold_intervals(&columns.map(|columns| (columns, &count[..])), &driver)?;
/// let mut counts = Vec::new();
/// for (columns, folded) in columns.into_iter().zip(folded) {
///     let partners = interval_partners(columns, &driver)?;
///     let found = PartnerAggregates::of_interval(folded, || Ok(&partners), &count, &driver)?;
///     let OutputValues::Integers(found) = &found.of(0..2)[0].values else { unreachable!() };
///     counts.push(found.to_vec());
/// }
/// assert_eq!(counts, [[2, 0], [3, 0]]);
/// # Ok::<(), Stopped>(())
/// ```
pub fn fold_intervals<'a>(
    intervals: &[(PartnerColumns<'a>, &[Aggregate<'_>])],
    driver: &Driver,
) -> Result<Vec<FoldedInterval<'a>>, Stopped> {
    let rows = intervals.first().map_or(0, |(columns, _)| columns.right.ts.len());
    let one_time = OneTime::new(rows, intervals.iter().flat_map(|(_, aggregates)| *aggregates));
    // No function that depends on times is folded here.
    let streams = [one_time.rows()];
    let kinds = intervals.iter().map(|(_, aggregates)| {
        aggregates.iter().map(|one| kind(one, &streams, &[0])).collect::<Vec<_>>()
    });
    let kinds: Vec<_> = kinds.collect();
    let (mut words, mut folded, mut passes) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_sorted = None;
    for ((columns, _), kinds) in intervals.iter().zip(&kinds) {
        let has_words = kinds.iter().any(|kind| kind.in_words().is_some());
        let of_interval = match has_words {
            true => AnyPasses::new(*columns, &mut is_sorted, driver)?,
            false => None,
        };
        let (mut used, mut functions) = (Vec::new(), Vec::new());
        for kind in kinds {
            let in_words = kind.in_words().filter(|_| of_interval.is_some());
            let function = in_words.map(|function| function.places(&mut words));
            used.extend(function.iter().flat_map(|function| &function.places).copied());
            functions.push(function.map(WordPlaces::function));
        }
        folded.push(FoldedInterval { columns: *columns, words: Vec::new(), functions });
        passes.push((of_interval, used));
    }
    let found = AnyPasses::fold(&passes, &words, driver)?;
    folded.iter_mut().zip(found).for_each(|(folded, found)| folded.words = found);
    Ok(folded)
}

impl<'a> PartnerAggregates<'a> {
    /// Folds the values of the right rows. `find` returns the partners that
    /// [`interval_partners`](crate::interval::interval_partners) finds for these columns. The
    /// function is called only if an aggregate needs the partners.
    pub fn new(
        columns: PartnerColumns<'a>,
        find: impl Fn() -> Result<&'a Partners, Stopped>,
        aggregates: &[Aggregate<'_>],
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let folded = fold_intervals(&[(columns, aggregates)], driver)?;
        let folded = folded.into_iter().next().expect("there is one interval");
        Self::of_interval(folded, find, aggregates, driver)
    }

    /// Folds the functions of an interval that [`fold_intervals`] has not folded. The other
    /// arguments are those of [`new`](Self::new).
    pub fn of_interval(
        folded: FoldedInterval<'a>,
        find: impl Fn() -> Result<&'a Partners, Stopped>,
        aggregates: &[Aggregate<'_>],
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let FoldedInterval { columns, words, functions: known } = folded;
        let missing = || aggregates.iter().zip(&known).filter(|(_, known)| known.is_none());
        let one_time = OneTime::new(columns.right.ts.len(), missing().map(|(one, _)| one));
        let streams = [one_time.rows()];
        let timed = [Stream { ts: columns.right.ts, keys: None }];
        let (mut partners, mut folding) = (None, None);
        let mut functions = Vec::with_capacity(aggregates.len());
        for (aggregate, known) in aggregates.iter().zip(known) {
            functions.push(match known {
                Some(function) => function,
                None => {
                    let found = *partners.insert(find()?);
                    let folding =
                        folding.get_or_insert_with(|| PaneFold::new(found, columns, driver));
                    let rows = if is_timed(aggregate) { &timed } else { &streams };
                    kind(aggregate, rows, &[0]).panes(folding)?
                }
            });
        }
        Ok(PartnerAggregates { columns, partners, words, functions })
    }

    /// Returns each aggregate's values for a range of left rows.
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

/// Passes over rows in time order, or over rows that are numbered within their keys.
enum AnyPasses<'a> {
    ByTime(Passes<'a>),
    ByNumber(RowPasses<'a>),
}

impl<'a> AnyPasses<'a> {
    fn new(
        columns: PartnerColumns<'a>,
        is_sorted: &mut Option<bool>,
        driver: &Driver,
    ) -> Result<Option<Self>, Stopped> {
        match RowPasses::new(columns, driver)? {
            Some(passes) => Ok(Some(AnyPasses::ByNumber(passes))),
            None => Ok(Passes::new(columns, is_sorted, driver)?.map(AnyPasses::ByTime)),
        }
    }

    /// Folds the words that each interval uses. Returns all words for each interval; words that an
    /// interval does not use are empty.
    fn fold(
        intervals: &[(Option<Self>, Vec<usize>)],
        words: &[Word<'_>],
        driver: &Driver,
    ) -> Result<Vec<Vec<FoldedWord>>, Stopped> {
        let mut found: Vec<Vec<FoldedWord>> = intervals.iter().map(|_| Vec::new()).collect();
        let (mut by_time, mut places) = (Vec::new(), Vec::new());
        for (at, (passes, used)) in intervals.iter().enumerate() {
            match passes {
                Some(AnyPasses::ByTime(passes)) => {
                    let needs = (0..words.len()).map(|word| used.contains(&word)).collect();
                    by_time.push(IntervalWords { passes, needs });
                    places.push(at);
                }
                // Rolling windows have a single interval.
                Some(AnyPasses::ByNumber(passes)) => found[at] = passes.fold(words, driver)?,
                None => {}
            }
        }
        let folded = fold_words(&by_time, words, driver)?;
        places.into_iter().zip(folded).for_each(|(at, folded)| found[at] = folded);
        Ok(found)
    }
}

/// Returns each aggregate's values. The left rows' partners are given by these matches. Left rows
/// are specified as positions in `matches`. Functions receive partners ordered by time (if times
/// are given) and then by number. Functions whose results depend on times require `ts`.
///
/// In this example, the first right row is chosen from the pairs of each left row:
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
    let timed = [Stream { ts: ts.unwrap_or_default(), keys: None }];
    let of_rows = |one: &Aggregate<'_>| if is_timed(one) { &timed } else { &streams };
    let lists = Lists::new(matches, left, ts);
    let of_lists = |aggregate: &Aggregate<'_>| match aggregate {
        Aggregate::Count(masks) if masks.iter().all(Option::is_none) => lists.lengths(),
        aggregate => kind(aggregate, of_rows(aggregate), &[0]).of_lists(&lists),
    };
    aggregates.iter().map(of_lists).collect()
}

/// Returns whether a function's result depends on the times of rows.
fn is_timed(aggregate: &Aggregate<'_>) -> bool {
    matches!(aggregate, Aggregate::TimeWeightedMean(_) | Aggregate::DecayedMean { .. })
}

/// Rows that all have the same time. Partners are added in row order, so the last row is the last
/// partner.
struct OneTime(Vec<i64>);

impl OneTime {
    /// Times are read only for functions that choose a row.
    fn new<'a>(rows: usize, aggregates: impl IntoIterator<Item = &'a Aggregate<'a>>) -> Self {
        let is_chosen = |one: &Aggregate<'_>| {
            use Aggregate::{First, Last, RowOfMax, RowOfMin};
            matches!(one, First(_) | Last(_) | RowOfMin(_) | RowOfMax(_))
        };
        let rows = if aggregates.into_iter().any(is_chosen) { rows } else { 0 };
        memory::demand_values::<i64>(rows);
        OneTime(vec![0; rows])
    }

    fn rows(&self) -> Stream<'_> {
        Stream { ts: &self.0, keys: None }
    }
}
