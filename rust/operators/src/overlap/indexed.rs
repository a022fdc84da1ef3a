//! Finds the right rows of an index that overlap left rows.
//!
//! The index is an interval tree: its rows are sorted by key and start, with a [tree](super::tree)
//! of their latest ends. For each left row, a binary search finds the last right row of its key
//! that starts early enough. Of the rows up to there, the tree then finds those that end late
//! enough:
//!
//! ```text
//!   left                    ├────┤
//!   right     ├─┤                           1 ends too early: skipped
//!               ├─────────────────────┤     2
//!                  ├──┤                     3 ends too early: skipped
//!                    ├────────┤             4
//!                             ├─────┤       5
//!                                  ├────┤   6 starts too late: never visited
//! ```
//!
//! A left row with `p` partners takes O((p + 1) log m) time for `m` right rows, regardless of their
//! lengths. If the overlap must have a certain length, right rows that are too short are visited as
//! well.
//!
//! # Sources
//!
//! Interval trees whose nodes have the latest end below them are in Cormen, Leiserson, Rivest and
//! Stein, "Introduction to Algorithms" (section 14.3 of the third edition). Li and Rong, "Bedtk:
//! finding interval overlap with implicit interval tree" (Bioinformatics 37, 2021), store such a
//! tree without pointers.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::partition::ranges;
use tidegate_sync::Counter;

use super::IntervalColumns;
use super::tree::{EndSearch, EndTree, FoundEnds};
use crate::driver::{Driver, Stopped};
use crate::matches::{Matches, RowLists};
use crate::order::{IndexedRows, Search, SearchedPart};

/// The number of left rows whose partners are searched for together.
const BLOCK: usize = 16;

/// The number of left rows in a task.
const TASK_ROWS: usize = 1 << 9;

/// If there is more than one pair per this many right rows, it takes less time to join all right
/// rows than to select the rows of the pairs and join only these.
const SELECTED: usize = 8;

/// How left rows are compared with the rows of an index.
#[derive(Clone, Copy, Debug)]
pub struct OverlapRule {
    /// The minimum number of steps from the later start to the earlier end.
    pub least: i64,
    /// The number of steps per unit of the index. Left times are in steps.
    pub factor: i64,
}

/// The rows of an index, each of which has a start and an end.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::order::{IndexPart, IndexedRows, JoinColumns, SideIndex};
/// use tidegate_operators::overlap::{
///     EndTree, IndexedIntervals, IntervalColumns, OverlapRule, overlapping_rows_in, overlaps_in,
/// };
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let starts: Vec<i64> = (0..1000).collect();
/// let ends: Vec<i64> = starts.iter().map(|start| start + 2).collect();
/// let rows = &SideIndex::new(JoinColumns { ts: &starts, keys: None }, 1, &driver)?;
/// let tree = EndTree::new(rows, &ends, &driver)?;
/// let part = IndexPart { rows, expired: 0, earliest: i64::MIN, left_keys: None };
/// let right = IndexedIntervals::new(IndexedRows::new([part]), [(&tree, i64::MIN)]);
///
/// let left = IntervalColumns { starts: &[10, 11], ends: &[11, 11], keys: None };
/// let rule = OverlapRule { least: 0, factor: 1 };
/// let matches = overlaps_in(left, &right, rule, &driver)?.expect("there are few pairs");
/// assert_eq!(matches.rows_of_each().next(), Some(&[8, 9, 10, 11][..]));
/// let rows = overlapping_rows_in(left, &right, rule, &driver)?;
/// assert_eq!(rows, Some(vec![8, 9, 10, 11]));
/// # Ok::<(), Stopped>(())
/// ```
#[derive(Debug)]
pub struct IndexedIntervals<'a> {
    rows: IndexedRows<'a>,
    /// The ends of each part, and a time: rows that ended before it have expired.
    ends: Vec<(&'a EndTree, i64)>,
}

impl<'a> IndexedIntervals<'a> {
    /// Adds the ends of each part to the starts. Rows of a part that end before the part's time
    /// have expired. If none have expired, this is the earliest possible time.
    ///
    /// # Panics
    ///
    /// Panics if the number of trees differs from the number of parts, or if a tree and its part
    /// differ in length.
    pub fn new(
        starts: IndexedRows<'a>,
        ends: impl IntoIterator<Item = (&'a EndTree, i64)>,
    ) -> Self {
        let ends: Vec<_> = ends.into_iter().collect();
        let of_starts = starts.parts().iter().map(|part| part.groups.ts().len());
        assert!(
            of_starts.eq(ends.iter().map(|(tree, _)| tree.ends().len())),
            "each start has an end"
        );
        IndexedIntervals { rows: starts, ends }
    }
}

/// Finds the right rows in an index that overlap each left row, like
/// [`Overlaps`](super::Overlaps), with an example in [`IndexedIntervals`]. The keys of the left
/// rows are in the parts of the index. The end of a left row is the latest time at which a partner
/// can start, so `rule.least` must already have been subtracted.
///
/// Returns `None` if there are so many left rows or pairs that it takes less time to join all right
/// rows.
///
/// # Panics
///
/// Panics if the left side has [`MAX_ROWS`](crate::matches::MAX_ROWS) rows or more or has keys, if
/// columns differ in length, if a key is out of bounds, or if `rule.factor` is not positive.
pub fn overlaps_in(
    left: IntervalColumns<'_>,
    right: &IndexedIntervals<'_>,
    rule: OverlapRule,
    driver: &Driver,
) -> Result<Option<Matches>, Stopped> {
    if !right.rows.are_searched(left.starts.len()) {
        return Ok(None);
    }
    // Listing more pairs than there are right rows would take more time than joining these rows.
    matches_up_to(right.rows.rows(), left, right, rule, driver)
}

/// Returns the numbers of all right rows in an index that overlap a left row, in ascending order.
/// Returns `None` in the same cases as [`overlaps_in`].
///
/// # Panics
///
/// Panics under the same conditions as [`overlaps_in`].
pub fn overlapping_rows_in(
    left: IntervalColumns<'_>,
    right: &IndexedIntervals<'_>,
    rule: OverlapRule,
    driver: &Driver,
) -> Result<Option<Vec<u32>>, Stopped> {
    if !right.rows.are_searched(left.starts.len()) {
        return Ok(None);
    }
    let most = right.rows.rows() / SELECTED;
    let Some(found) = lists_up_to(most, left, right, rule, driver)? else { return Ok(None) };
    let mut rows = memory::concat(&found.into_iter().map(|lists| lists.rows).collect::<Vec<_>>());
    rows.sort_unstable();
    rows.dedup();
    Ok(Some(rows))
}

/// Finds the right rows that overlap each left row, unless more than `most` pairs must be compared.
fn matches_up_to(
    most: usize,
    left: IntervalColumns<'_>,
    right: &IndexedIntervals<'_>,
    rule: OverlapRule,
    driver: &Driver,
) -> Result<Option<Matches>, Stopped> {
    let Some(found) = lists_up_to(most, left, right, rule, driver)? else { return Ok(None) };
    Matches::of_pieces(found, 0, left.starts.len(), right.rows.rows(), driver).map(Some)
}

/// Lists the right rows that overlap each left row, unless more than `most` pairs must be compared.
/// The left rows are divided among the lists in order.
fn lists_up_to(
    most: usize,
    left: IntervalColumns<'_>,
    right: &IndexedIntervals<'_>,
    rule: OverlapRule,
    driver: &Driver,
) -> Result<Option<Vec<RowLists>>, Stopped> {
    left.check();
    assert!(left.keys.is_none(), "each part has its own keys");
    assert!(rule.factor > 0, "a factor");
    let rows = left.starts.len();
    right.rows.check(rows);
    let join = IndexedOverlap { left, right, rule };
    let compared = Counter::new(0);
    let tasks = ranges(rows, rows.div_ceil(TASK_ROWS));
    let scratch = || -> Vec<_> { right.ends.iter().map(|_| FoundEnds::default()).collect() };
    let lists = driver.fit(rows).map_with(tasks, scratch, |found, task| {
        let mut lists = RowLists::default();
        for first in task.clone().step_by(BLOCK) {
            let block = first..task.end.min(first + BLOCK);
            let rest = most.checked_sub(compared.get())?;
            compared.add(join.find(block.clone(), rest, found)?);
            (0..block.len()).for_each(|at| join.list(at, found, &mut lists));
        }
        Some(lists)
    })?;
    let lists: Option<Vec<_>> = lists.into_iter().collect();
    Ok(lists.filter(|_| compared.get() <= most))
}

/// A join between left rows and an index.
struct IndexedOverlap<'a> {
    left: IntervalColumns<'a>,
    right: &'a IndexedIntervals<'a>,
    rule: OverlapRule,
}

impl<'a> IndexedOverlap<'a> {
    /// Returns the parts with their ends.
    fn parts(&self) -> impl Iterator<Item = (&'a SearchedPart<'a>, (&'a EndTree, i64))> {
        self.right.rows.parts().iter().zip(self.right.ends.iter().copied())
    }

    /// Finds the positions, in each part, of the right rows that start early enough and end late
    /// enough for each left row in a block. Returns the number of positions, or `None` if there are
    /// more than `most`.
    fn find(&self, block: Range<usize>, most: usize, found: &mut [FoundEnds]) -> Option<usize> {
        let mut count = 0;
        for ((part, (tree, earliest)), found) in self.parts().zip(found) {
            let mut starts = [Search::default(); BLOCK];
            let mut ends = [const { EndSearch { range: 0..0, limit: 0 } }; BLOCK];
            let (starts, ends) = (&mut starts[..block.len()], &mut ends[..block.len()]);
            for ((row, start), end) in block.clone().zip(&mut *starts).zip(&mut *ends) {
                let Some(limit) = self.first_end(row) else { continue };
                *start = part.search(row, self.last_start(row).checked_add(1));
                *end = EndSearch { range: part.positions(row), limit: limit.max(earliest) };
            }
            part.find(starts);
            for (start, end) in starts.iter().zip(&mut *ends) {
                end.range.end = start.low;
            }
            if !tree.find(ends, most - count, found) {
                return None;
            }
            count += found.len();
        }
        Some(count)
    }

    /// Returns the latest time at which a left row's partner can start, in the unit of the index.
    fn last_start(&self, row: usize) -> i64 {
        self.left.ends[row].div_euclid(self.rule.factor)
    }

    /// Returns the earliest time at which a left row's partner can end, in the unit of the index.
    /// Returns `None` if this time is after the latest possible time.
    fn first_end(&self, row: usize) -> Option<i64> {
        let OverlapRule { least, factor } = self.rule;
        let first = i128::from(self.left.starts[row]) + i128::from(least);
        i64::try_from(ceil(first, factor)).ok()
    }

    /// Appends the list of a left row, given its number in the block and the positions found for
    /// this block.
    fn list(&self, at: usize, found: &[FoundEnds], lists: &mut RowLists) {
        let before = lists.rows.len();
        let least = ceil(i128::from(self.rule.least), self.rule.factor) as i64;
        for ((part, (tree, _)), found) in self.parts().zip(found) {
            let (starts, ends) = (part.groups.ts(), tree.ends());
            let is_long = |place: u32| {
                let last = ends[place as usize].checked_sub(least);
                last.is_some_and(|last| last >= starts[place as usize])
            };
            let places = found.of(at);
            let first = lists.rows.len();
            memory::reserve(&mut lists.rows, places.len());
            match least {
                0 => lists.rows.extend(places.iter().map(|&place| part.row(place))),
                _ => {
                    let places = places.iter().filter(|&&place| is_long(place));
                    lists.rows.extend(places.map(|&place| part.row(place)));
                }
            }
            if !part.groups.ascending() {
                lists.rows[first..].sort_unstable();
            }
        }
        lists.lengths.push((lists.rows.len() - before) as u32);
    }
}

/// Returns the first time of a coarser unit that is not before `ts`.
fn ceil(ts: i128, factor: i64) -> i128 {
    let factor = i128::from(factor);
    ts.div_euclid(factor) + i128::from(ts.rem_euclid(factor) != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_sync::Stop;

    use super::*;
    use crate::order::{IndexPart, JoinColumns, SideIndex};
    use crate::rows::NO_KEY;

    /// A row's start, end and key.
    type Row = (i64, i64, u32);

    const KEYS: usize = 3;

    /// A part of an index, from which rows that ended before a time have expired.
    struct OwnPart {
        starts: SideIndex,
        ends: EndTree,
        expired: usize,
        earliest: i64,
        left_keys: Vec<u32>,
    }

    impl OwnPart {
        /// If rows that end before `earliest` precede all others, they expire. Otherwise, no rows
        /// expire.
        fn new(rows: &[Row], left: &[Row], earliest: i64, driver: &Driver) -> Self {
            let expired = rows.iter().take_while(|row| row.1 < earliest).count();
            let is_prefix = rows[expired..].iter().all(|row| row.1 >= earliest);
            let (expired, earliest) = if is_prefix { (expired, earliest) } else { (0, i64::MIN) };
            let ts: Vec<_> = rows.iter().map(|row| row.0).collect();
            let ends: Vec<_> = rows.iter().map(|row| row.1).collect();
            let keys: Vec<_> = rows.iter().map(|row| row.2).collect();
            let side = JoinColumns { ts: &ts, keys: Some(&keys) };
            let starts = SideIndex::new(side, KEYS, driver).unwrap();
            let ends = EndTree::new(&starts, &ends, driver).unwrap();
            let left_keys = left.iter().map(|row| row.2).collect();
            OwnPart { starts, ends, expired, earliest, left_keys }
        }

        fn starts(&self) -> IndexPart<'_> {
            IndexPart {
                rows: &self.starts,
                expired: self.expired,
                earliest: i64::MIN,
                left_keys: Some(&self.left_keys),
            }
        }
    }

    fn rows(most: usize) -> impl Strategy<Value = Vec<Row>> {
        let edges =
            prop_oneof![Just(i64::MIN), Just(i64::MIN + 1), Just(i64::MAX - 1), Just(i64::MAX)];
        let start = prop_oneof![20 => -30_i64..30, 1 => edges];
        let length = prop_oneof![8 => 0_i64..6, 2 => 0_i64..60, 1 => Just(i64::MAX)];
        let key = prop_oneof![8 => 0..KEYS as u32, 1 => Just(NO_KEY)];
        let row = (start, length, key)
            .prop_map(|(start, length, key)| (start, start.saturating_add(length), key));
        (prop::collection::vec(row, 0..most), 0..4).prop_map(|(mut rows, order)| {
            match order {
                0 => rows.sort_by_key(|row| row.0),
                1 => rows.sort_by_key(|row| row.1),
                _ => {}
            }
            rows
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn oracle_an_index_finds_the_rows_that_overlap(
            left in rows(40),
            parts in prop::collection::vec((rows(150), -20_i64..20), 0..4),
            least in prop_oneof![3 => Just(0), 3 => 1_i64..9, 1 => Just(i64::MAX)],
            factor in 1_i64..4,
            threads in 1_usize..4,
        ) {
            // A left row that is too short has no key, as callers ensure.
            let left: Vec<Row> = left
                .into_iter()
                .map(|(start, end, key)| match end.checked_sub(least) {
                    Some(last) if last >= start => (start, last, key),
                    _ => (start, start, NO_KEY),
                })
                .collect();
            let driver = Driver::new(threads, Stop::default());
            let own: Vec<OwnPart> =
                parts.iter().map(|(rows, earliest)| OwnPart::new(rows, &left, *earliest, &driver)).collect();
            let right: Vec<Row> =
                own.iter().zip(&parts).flat_map(|(part, (rows, _))| rows[part.expired..].to_vec()).collect();
            let overlap = |l: &Row, r: &Row| {
                let fine = |time: i64| i128::from(time) * i128::from(factor);
                let last = fine(r.1) - i128::from(least);
                l.2 == r.2
                    && l.2 != NO_KEY
                    && fine(r.0) <= i128::from(l.1)
                    && last >= i128::from(l.0)
                    && last >= fine(r.0)
            };
            let of_row = |l: &Row| (0..).zip(&right).filter(|(_, r)| overlap(l, r)).map(|(row, _)| row).collect();
            let wanted: Vec<Vec<u32>> = left.iter().map(of_row).collect();

            let rows = IndexedRows::new(own.iter().map(OwnPart::starts));
            let index = IndexedIntervals::new(rows, own.iter().map(|part| (&part.ends, part.earliest)));
            let starts: Vec<_> = left.iter().map(|row| row.0).collect();
            let ends: Vec<_> = left.iter().map(|row| row.1).collect();
            let left = IntervalColumns { starts: &starts, ends: &ends, keys: None };
            let rule = OverlapRule { least, factor };
            let found = matches_up_to(usize::MAX, left, &index, rule, &driver).unwrap().unwrap();
            prop_assert_eq!(found.rows_of_each().map(<[u32]>::to_vec).collect::<Vec<_>>(), &wanted[..]);

            let mut rows = wanted.concat();
            let pairs = rows.len();
            let are_few = |most| lists_up_to(most, left, &index, rule, &driver).unwrap().is_some();
            if least == 0 {
                prop_assert!(are_few(pairs) && (pairs == 0 || !are_few(pairs - 1)));
            }
            rows.sort_unstable();
            rows.dedup();
            if let Some(found) = overlapping_rows_in(left, &index, rule, &driver).unwrap() {
                prop_assert_eq!(found, rows);
            }
        }
    }
}
