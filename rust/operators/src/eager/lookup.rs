//! A join of rows with equal keys, which finds matches by time.

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_structures::memory::gather::prefetch;
use tidegate_sync::Stop;

use super::keyed_rows::KeyedRows;
use super::timeline::{Entry, Timeline};
use crate::driver::Driver;
use crate::interval::streaming::{KeyRows, KeyedJoin};
use crate::rows::{
    Extent, Filter, FilterError, How, Interval, JoinError, NO_KEY, Progress, Reach, Results,
    RowJoin, RowLog, SavedRows, Side, SideWatermarks,
};

/// If an epoch has fewer rows than this, waking other threads is not worthwhile.
const SMALL_EPOCH: usize = if cfg!(test) { 16 } else { 1 << 11 };

/// The number of rows for which a thread finds matches at a time.
const PIECE: usize = if cfg!(test) { 7 } else { 1 << 10 };

/// The approximate number of pairs that a thread finds before returning them.
const MOST_PAIRS: usize = if cfg!(test) { 20 } else { 1 << 16 };

/// The number of rows between prefetching memory and accessing it.
const AHEAD: usize = 8;

/// The number of candidates that are filtered together. The columns of this many candidates fit in
/// a core's cache.
const FILTER_PAIRS: usize = 1 << 12;

/// The rows whose matches remain to be found.
#[derive(Debug, Default)]
struct Stage {
    /// The side of these rows. `None` if all rows have been processed.
    side: Option<Side>,
    /// The offsets of the rows that have not been processed.
    work: VecDeque<Range<usize>>,
}

/// Joins rows that have equal keys and matching times, in arrival order.
///
/// A left row also matches a later right row that arrived before it:
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_operators::eager::TimeJoin;
/// use tidegate_operators::rows::{Closed, How, Interval, RowJoin, Side};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let near = Interval { lower: Some(-2), upper: Some(2), closed: Closed::Both };
/// let mut join = TimeJoin::new(&near, How::Inner);
/// // A right row at 11 arrives before a left row at 10.
/// join.begin(&driver, vec![11], vec![Side::Right], [&[], &[0]]);
/// while !join.is_done() {
///     assert!(join.advance(&driver, None)?.into_results().left.is_empty());
/// }
/// join.begin(&driver, vec![10], vec![Side::Left], [&[0], &[]]);
/// let pairs = join.advance(&driver, None)?.into_results();
/// assert_eq!((pairs.left, pairs.right), (vec![0], vec![0]));
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
#[derive(Debug)]
pub struct TimeJoin {
    reach: Reach,
    how: How,
    logs: [RowLog<KeyedRows>; 2],
    key_rows: KeyRows,
    /// The timelines of each side, indexed by key.
    timelines: [Vec<Timeline>; 2],
    /// The number of kept rows on each side, first without and then with the epoch's rows.
    before: [usize; 2],
    now: [usize; 2],
    stage: Stage,
    /// The earliest time at which a row on each side can still be matched, according to the
    /// watermarks so far.
    bounds: [i64; 2],
    comparisons: u64,
}

/// The outcome of a search.
struct LookOutcome {
    pairs: Results,
    /// The first row that has not been processed.
    next: usize,
    candidates: u64,
}

const SIDES: [Side; 2] = [Side::Left, Side::Right];

impl TimeJoin {
    /// Creates an empty join of kind `how`. Rows match if their time difference is within
    /// `interval`.
    pub fn new(interval: &Interval, how: How) -> Self {
        let reach = Reach::new(interval);
        let log = |side| RowLog::new(side, how, KeyedRows::default()).in_arrival_order(how, reach);
        TimeJoin {
            reach,
            how,
            logs: SIDES.map(log),
            key_rows: KeyRows::default(),
            timelines: Default::default(),
            before: [0; 2],
            now: [0; 2],
            stage: Stage::default(),
            bounds: [i64::MIN; 2],
            comparisons: 0,
        }
    }

    /// Schedules searches for the matches of one side's rows in the epoch.
    fn look_of(&mut self, side: Side) {
        let rows = self.before[side as usize]..self.now[side as usize];
        let pieces = rows.clone().step_by(PIECE).map(|from| from..rows.end.min(from + PIECE));
        self.stage = Stage { side: Some(side), work: pieces.collect() };
    }

    /// Inserts the epoch's rows into their keys' timelines.
    fn enter(&mut self, driver: &Driver) {
        let driver = driver.fit(self.epoch_rows());
        self.store(&driver, self.before);
    }

    /// Inserts each side's rows, starting at the offset in `from`, into the timelines of their
    /// keys.
    fn store(&mut self, driver: &Driver, from: [usize; 2]) {
        let TimeJoin { timelines: [left, right], logs, bounds, .. } = self;
        let enter = |timelines: &mut Vec<Timeline>, side: Side| {
            store(timelines, &logs[side as usize], from[side as usize], bounds[side as usize]);
        };
        driver.both(|| enter(left, Side::Left), || enter(right, Side::Right));
    }

    /// Clears the timelines of keys that no longer have rows.
    fn forget_silent(&mut self) {
        for timelines in &mut self.timelines {
            for &key in self.key_rows.silent() {
                if let Some(timeline) = timelines.get_mut(key as usize) {
                    *timeline = Timeline::default();
                }
            }
        }
    }
}

impl KeyedJoin for TimeJoin {
    fn take_silent(&mut self) -> Vec<u32> {
        self.key_rows.take_silent()
    }

    fn split_keys(&self) -> Option<usize> {
        None
    }
}

impl RowJoin<[&[u32]; 2]> for TimeJoin {
    fn begin(&mut self, _: &Driver, ts: Vec<i64>, sides: Vec<Side>, keys: [&[u32]; 2]) {
        assert!(self.is_done(), "the previous epoch must have ended");
        debug_assert!(sides.is_sorted_by_key(|&side| side as usize), "left rows are first");
        self.before = self.logs.each_ref().map(RowLog::len);
        let (left, right) = ts.split_at(keys[0].len());
        for ((log, ts), keys) in self.logs.iter_mut().zip([left, right]).zip(keys) {
            log.extend(|columns| columns.extend(ts, keys));
            self.key_rows.add(keys);
        }
        self.now = self.logs.each_ref().map(RowLog::len);
        self.look_of(Side::Left);
    }

    fn epoch_rows(&self) -> usize {
        self.now[0] + self.now[1] - self.before[0] - self.before[1]
    }

    fn is_done(&self) -> bool {
        self.stage.side.is_none()
    }

    fn advance(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Progress, JoinError> {
        let Some(side) = self.stage.side else {
            return Ok(Progress::Results(Results::default()));
        };
        // 1. Threads search for the matches of their pieces.
        let pieces: Vec<Range<usize>> = {
            let count = self.stage.work.len().min(4 * driver.threads());
            self.stage.work.drain(..count).collect()
        };
        let others = &self.timelines[side.other() as usize];
        let looks = Looks { others, reach: &self.reach, logs: &self.logs, side, filter };
        let look = |rows: Range<usize>| (rows.end, looks.run(rows, driver));
        let is_small = self.epoch_rows() < SMALL_EPOCH && filter.is_none();
        let looked = if is_small {
            pieces.into_iter().map(look).collect()
        } else {
            driver.map(pieces, look).map_err(JoinError::Stopped)?
        };
        // 2. The rows that have not been processed are searched for next.
        let mut found = Vec::with_capacity(looked.len());
        for (end, looked) in looked.into_iter().rev() {
            let LookOutcome { pairs, next, candidates } = looked.map_err(JoinError::Filter)?;
            self.comparisons += candidates;
            if next < end {
                self.stage.work.push_front(next..end);
            }
            if !pairs.left.is_empty() {
                found.push(pairs);
            }
        }
        // 3. Once all left rows have been processed, the rows on both sides are inserted.
        if self.stage.work.is_empty() {
            match side {
                Side::Left => {
                    self.enter(driver);
                    self.look_of(Side::Right);
                    if self.stage.work.is_empty() {
                        self.stage.side = None;
                    }
                }
                Side::Right => self.stage.side = None,
            }
        }
        let pairs = found.into_iter().rev().reduce(|mut pairs, more| {
            pairs.append(more);
            pairs
        });
        let results = Results::of_pairs(pairs.unwrap_or_default(), &mut self.logs, self.how);
        Ok(Progress::Results(results))
    }

    fn unmatched(&mut self, now: SideWatermarks) -> Results {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let mut results = Results::default();
        results.add_unmatched(&mut self.logs, &Extent::Time(self.reach), self.how, now);
        results
    }

    fn purge(&mut self, now: SideWatermarks) {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        self.key_rows.begin_purge();
        for log in &mut self.logs {
            let over = log.over(&Extent::Time(self.reach), now);
            self.key_rows.remove(&log.columns().keys()[..over]);
            log.drop_first(over);
        }
        self.forget_silent();
        let bound = |side: Side| {
            let now = now[side.other() as usize];
            now.map_or(i64::MAX, |now| self.reach.first(side.other(), now))
        };
        self.bounds = SIDES.map(bound);
    }

    fn needed(&self, side: Side, now: SideWatermarks) -> Option<Vec<u32>> {
        self.logs[side as usize].needed(now)
    }

    fn pack(&mut self, now: SideWatermarks) -> Option<[Vec<u32>; 2]> {
        let kept = RowLog::needed_if_sparse(&mut self.logs, now)?;
        self.key_rows.begin_purge();
        for ((log, timelines), kept) in self.logs.iter_mut().zip(&mut self.timelines).zip(&kept) {
            // The new number of each kept row, indexed by its old offset.
            let (first, mut numbers) = (log.first() as u32, vec![None; log.len()]);
            for (place, &offset) in (0..).zip(kept) {
                numbers[offset as usize] = Some(first.wrapping_add(place));
            }
            for (key, number) in log.columns().keys().iter().zip(&numbers) {
                if number.is_none() {
                    self.key_rows.remove(&[*key]);
                }
            }
            // A timeline can still contain rows that have been dropped from the log.
            let number =
                |number: u32| numbers.get(number.wrapping_sub(first) as usize).copied().flatten();
            timelines.iter_mut().for_each(|timeline| timeline.renumber(number));
            log.retain(kept, |columns| columns.retain(kept));
        }
        self.forget_silent();
        Some(kept)
    }

    fn first(&self, side: Side) -> u64 {
        self.logs[side as usize].first()
    }

    fn rows(&self, side: Side) -> usize {
        self.logs[side as usize].len()
    }

    fn matched(&self, side: Side) -> (Vec<bool>, usize) {
        self.logs[side as usize].matched()
    }

    fn comparisons(&self) -> Vec<u64> {
        vec![self.comparisons]
    }

    fn memory(&self) -> usize {
        let of_side = |timelines: &Vec<Timeline>| {
            timelines.capacity() * size_of::<Timeline>()
                + timelines.iter().map(Timeline::memory).sum::<usize>()
        };
        self.timelines.iter().map(of_side).sum::<usize>()
            + self.key_rows.memory()
            + self.logs.iter().map(RowLog::memory).sum::<usize>()
    }

    fn restore(&mut self, kept: &[SavedRows; 2], keys: [&[u32]; 2]) {
        for ((log, kept), keys) in self.logs.iter_mut().zip(kept).zip(keys) {
            log.restore(kept, |columns| columns.extend(&kept.ts, keys));
            self.key_rows.add(keys);
        }
        self.store(&Driver::new(1, Stop::default()), [0; 2]);
    }
}

/// Inserts the rows in a log, starting at offset `from`, into the timelines of their keys.
fn store(timelines: &mut Vec<Timeline>, log: &RowLog<KeyedRows>, from: usize, bound: i64) {
    let (ts, keys) = (&log.columns().times()[from..], &log.columns().keys()[from..]);
    let first = (log.first() as u32).wrapping_add(from as u32);
    for (nth, (&ts, &key)) in ts.iter().zip(keys).enumerate() {
        ask_ahead(timelines, keys, nth);
        if key == NO_KEY {
            continue;
        }
        let place = key as usize;
        if timelines.len() <= place {
            timelines.resize_with(place + 1, Timeline::default);
        }
        timelines[place].insert(Entry { ts, number: first.wrapping_add(nth as u32) }, bound);
    }
}

/// Prefetches the memory that upcoming rows need: first the timelines, then the last rows in each
/// timeline.
#[inline(always)]
fn ask_ahead(timelines: &[Timeline], keys: &[u32], row: usize) {
    if let Some(&key) = keys.get(row + 2 * AHEAD) {
        prefetch(timelines, key as usize);
    }
    if let Some(&key) = keys.get(row + AHEAD)
        && let Some(timeline) = timelines.get(key as usize)
    {
        timeline.ask();
    }
}

/// Rows on one side for which a search is in progress.
struct Looks<'a> {
    /// The timelines of the other side.
    others: &'a [Timeline],
    reach: &'a Reach,
    logs: &'a [RowLog<KeyedRows>; 2],
    side: Side,
    filter: Option<&'a Filter<'a>>,
}

impl Looks<'_> {
    /// Finds the matches of the rows at these offsets, and stops after about [`MOST_PAIRS`] pairs.
    fn run(&self, rows: Range<usize>, driver: &Driver) -> Result<LookOutcome, FilterError> {
        let own = self.logs[self.side as usize].columns();
        let (ts, keys) = (own.times(), own.keys());
        let mut found = FoundPairs::default();
        let (mut next, mut candidates) = (rows.start, 0);
        while next < rows.end && found.others.len() < MOST_PAIRS {
            let row = next;
            next += 1;
            ask_ahead(self.others, keys, row);
            let Some(timeline) = self.others.get(keys[row] as usize) else { continue };
            let Some((first, last)) = self.reach.times(self.side, ts[row]) else { continue };
            let had = found.others.len();
            timeline.find(first, last, &mut found.others);
            candidates += (found.others.len() - had) as u64;
            found.own.resize(found.others.len(), row as u32);
            if let Some(filter) = self.filter
                && found.others.len() - found.filtered >= FILTER_PAIRS
            {
                self.filter(filter, &mut found)?;
                if driver.is_paused() {
                    break;
                }
            }
        }
        if let Some(filter) = self.filter {
            self.filter(filter, &mut found)?;
        }
        let first = self.logs[self.side.other() as usize].first() as u32;
        found.others.iter_mut().for_each(|number| *number = number.wrapping_sub(first));
        let pairs = match self.side {
            Side::Left => Results { left: found.own, right: found.others },
            Side::Right => Results { left: found.others, right: found.own },
        };
        Ok(LookOutcome { pairs, next, candidates })
    }

    /// Passes the unfiltered pairs to the filter, and removes the pairs that the filter rejects.
    fn filter(&self, filter: &Filter<'_>, found: &mut FoundPairs) -> Result<(), FilterError> {
        let first = self.logs[self.side as usize].first() as u32;
        let own: Vec<u32> =
            found.own[found.filtered..].iter().map(|&offset| first.wrapping_add(offset)).collect();
        let others = found.others[found.filtered..].to_vec();
        let mut kept = found.filtered;
        let mut at = found.filtered;
        for (own, others) in own.chunks(FILTER_PAIRS).zip(others.chunks(FILTER_PAIRS)) {
            let keep = match self.side {
                Side::Left => filter(own, others)?,
                Side::Right => filter(others, own)?,
            };
            for keep in keep {
                (found.own[kept], found.others[kept]) = (found.own[at], found.others[at]);
                kept += usize::from(keep);
                at += 1;
            }
        }
        found.own.truncate(kept);
        found.others.truncate(kept);
        found.filtered = kept;
        Ok(())
    }
}

/// Pairs: offsets of searching rows, with the numbers of the rows they match.
#[derive(Default)]
struct FoundPairs {
    own: Vec<u32>,
    others: Vec<u32>,
    /// The number of pairs that have been filtered.
    filtered: usize,
}
