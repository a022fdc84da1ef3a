//! Rows of equal keys, found by time.

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_structures::memory::gather::prefetch;

use super::log::{Log, Next};
use super::timeline::{Entry, Timeline};
use crate::driver::Driver;
use crate::rows::{Failed, Filter, FilterError, NO_KEY, Results, Side};

/// Rows below which an epoch is not worth waking other threads for.
const SMALL_EPOCH: usize = if cfg!(test) { 16 } else { 1 << 11 };

/// Rows that a thread looks for at a time.
const PIECE: usize = if cfg!(test) { 7 } else { 1 << 10 };

/// Pairs that a thread finds before they are taken, about.
const MOST_PAIRS: usize = if cfg!(test) { 20 } else { 1 << 16 };

/// Rows between asking for memory and using it.
const AHEAD: usize = 8;

/// Candidates that are filtered together: their columns stay in a core's cache.
const FILTER_PAIRS: usize = 1 << 12;

/// The rows that are to look for others.
#[derive(Debug, Default)]
struct Stage {
    /// The side of these rows; none if all have looked.
    side: Option<Side>,
    /// The offsets of the rows that have not looked.
    work: VecDeque<Range<usize>>,
}

/// Finds the pairs of rows of equal keys whose times match.
///
/// A row that comes behind a later one meets it:
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_operators::eager::{Log, TimeJoin};
/// use tidegate_operators::rows::{Closed, How, Interval, Side};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let near = Interval { lower: Some(-2), upper: Some(2), closed: Closed::Both };
/// let (mut log, mut join) = (Log::new(&near, How::Inner), TimeJoin::default());
/// // A right row at 11 has come before a left row at 10.
/// for (side, ts) in [(Side::Right, 11), (Side::Left, 10)] {
///     let before = [log.rows(Side::Left), log.rows(Side::Right)];
///     log.push(side, &[ts], &[0]);
///     join.begin(before, &log);
///     while !join.is_done() {
///         for pairs in join.advance(&log, &driver, None)? {
///             assert_eq!((pairs.left, pairs.right), (vec![0], vec![0]));
///         }
///     }
/// }
/// # Ok::<(), tidegate_operators::rows::Failed>(())
/// ```
#[derive(Debug)]
pub struct TimeJoin {
    /// The timelines of each side, by key.
    timelines: [Vec<Timeline>; 2],
    /// The kept rows of each key.
    rows_of_key: Vec<u32>,
    /// The rows of each side that were kept before the epoch, and with it.
    before: [usize; 2],
    now: [usize; 2],
    stage: Stage,
    /// The first time of rows of each side that are of use, as far as promises have told.
    bounds: [i64; 2],
    comparisons: u64,
}

/// The outcome of a look.
struct Looked {
    pairs: Results,
    /// The first row that has not looked.
    next: usize,
    candidates: u64,
}

impl Default for TimeJoin {
    fn default() -> Self {
        TimeJoin {
            timelines: Default::default(),
            rows_of_key: Vec::new(),
            before: [0; 2],
            now: [0; 2],
            stage: Stage::default(),
            bounds: [i64::MIN; 2],
            comparisons: 0,
        }
    }
}

impl TimeJoin {
    /// Begins an epoch with the newest rows of the log. `before` says how many rows of each side the log
    /// had without them. The former epoch is done.
    pub fn begin(&mut self, before: [usize; 2], log: &Log) {
        assert!(self.is_done(), "an epoch begins when the one before is done");
        (self.before, self.now) = (before, [log.rows(Side::Left), log.rows(Side::Right)]);
        self.look_of(Side::Left);
    }

    /// Lets the epoch's rows of a side look for others.
    fn look_of(&mut self, side: Side) {
        let rows = self.before[side as usize]..self.now[side as usize];
        let pieces = rows.clone().step_by(PIECE).map(|from| from..rows.end.min(from + PIECE));
        self.stage = Stage { side: Some(side), work: pieces.collect() };
    }

    /// Whether all rows of the epoch have met the others.
    pub fn is_done(&self) -> bool {
        self.stage.side.is_none()
    }

    /// The rows of the epoch.
    pub fn epoch_rows(&self) -> usize {
        self.now[0] + self.now[1] - self.before[0] - self.before[1]
    }

    /// Finds pairs of more rows of the epoch, as offsets, or rests when the driver is to pause.
    /// After an error the join is of no more use.
    pub fn advance(
        &mut self,
        log: &Log,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Vec<Results>, Failed> {
        let Some(side) = self.stage.side else { return Ok(Vec::new()) };
        // 1. Threads look, each for the rows of some pieces.
        let pieces: Vec<Range<usize>> = {
            let count = self.stage.work.len().min(4 * driver.threads());
            self.stage.work.drain(..count).collect()
        };
        let looks = Looks { others: &self.timelines[side.other() as usize], log, side, filter };
        let look = |rows: Range<usize>| (rows.end, looks.run(rows, driver));
        let is_small = self.epoch_rows() < SMALL_EPOCH && filter.is_none();
        let looked = if is_small {
            pieces.into_iter().map(look).collect()
        } else {
            driver.map(pieces, look).map_err(Failed::Stopped)?
        };
        // 2. Rows that have not looked do so next.
        let mut found = Vec::with_capacity(looked.len());
        for (end, looked) in looked.into_iter().rev() {
            let Looked { pairs, next, candidates } = looked.map_err(Failed::Filter)?;
            self.comparisons += candidates;
            if next < end {
                self.stage.work.push_front(next..end);
            }
            if !pairs.left.is_empty() {
                found.push(pairs);
            }
        }
        found.reverse();
        // 3. When all left rows have, the rows of both sides enter.
        if self.stage.work.is_empty() {
            match side {
                Side::Left => {
                    self.enter(log, driver);
                    self.look_of(Side::Right);
                    if self.stage.work.is_empty() {
                        self.stage.side = None;
                    }
                }
                Side::Right => self.stage.side = None,
            }
        }
        Ok(found)
    }

    /// Rows of the epoch enter the timelines of their keys.
    fn enter(&mut self, log: &Log, driver: &Driver) {
        let TimeJoin { timelines, rows_of_key, before, bounds, .. } = self;
        let [left, right] = timelines;
        let enter = |timelines: &mut Vec<Timeline>, side: Side| {
            let from = before[side as usize];
            store(timelines, log, side, from, bounds[side as usize]);
        };
        let driver = driver.fit(self.now[0] + self.now[1] - before[0] - before[1]);
        driver.both(|| enter(left, Side::Left), || enter(right, Side::Right));
        for side in [Side::Left, Side::Right] {
            count(rows_of_key, &log.keys(side)[before[side as usize]..]);
        }
    }

    /// Lets go of the oldest rows of each side that can match nothing any more, when no row before
    /// `next` comes; how many they are of each side, and the keys that are left without rows.
    pub fn purge(&mut self, log: &mut Log, next: Next) -> ([usize; 2], Vec<u32>) {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let (rows_of_key, mut silent) = (&mut self.rows_of_key, Vec::new());
        let gone = [Side::Left, Side::Right].map(|side| {
            log.drop_front(side, next, |key| {
                let rows = &mut rows_of_key[key as usize];
                *rows -= 1;
                if *rows == 0 {
                    silent.push(key);
                }
            })
        });
        self.forget(&silent);
        self.bounds = [Side::Left, Side::Right].map(|side| log.bound(side, next));
        (gone, silent)
    }

    fn forget(&mut self, keys: &[u32]) {
        for timelines in &mut self.timelines {
            for &key in keys {
                if let Some(timeline) = timelines.get_mut(key as usize) {
                    *timeline = Timeline::default();
                }
            }
        }
    }

    /// Keeps the rows of the log at these offsets of each side, before the log does; the keys that
    /// are left without rows.
    pub fn retain(&mut self, log: &Log, kept: [&[u32]; 2]) -> Vec<u32> {
        let had = std::mem::take(&mut self.rows_of_key);
        self.rows_of_key.resize(had.len(), 0);
        for side in [Side::Left, Side::Right] {
            let (first, kept) = (log.first(side) as u32, kept[side as usize]);
            let mut numbers = vec![None; log.rows(side)];
            for (place, &offset) in kept.iter().enumerate() {
                numbers[offset as usize] = Some(first.wrapping_add(place as u32));
                let key = log.keys(side)[offset as usize];
                self.rows_of_key[key as usize] += 1;
            }
            // Rows that have left the log may be in a timeline still.
            let number =
                |number: u32| numbers.get(number.wrapping_sub(first) as usize).copied().flatten();
            self.timelines[side as usize].iter_mut().for_each(|line| line.renumber(number));
        }
        let silent: Vec<u32> = (0..had.len() as u32)
            .filter(|&key| had[key as usize] > 0 && self.rows_of_key[key as usize] == 0)
            .collect();
        self.forget(&silent);
        silent
    }

    /// Takes in all rows of a log, where there were none.
    pub fn restore(&mut self, log: &Log) {
        for side in [Side::Left, Side::Right] {
            store(&mut self.timelines[side as usize], log, side, 0, i64::MIN);
            count(&mut self.rows_of_key, log.keys(side));
        }
    }

    /// Candidate pairs that have been looked at.
    pub fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let of_side = |timelines: &Vec<Timeline>| {
            timelines.capacity() * size_of::<Timeline>()
                + timelines.iter().map(Timeline::memory).sum::<usize>()
        };
        self.timelines.iter().map(of_side).sum::<usize>()
            + self.rows_of_key.capacity() * size_of::<u32>()
    }
}

/// The rows of the log from an offset on enter the timelines of their keys.
fn store(timelines: &mut Vec<Timeline>, log: &Log, side: Side, from: usize, bound: i64) {
    let (ts, keys) = (&log.ts(side)[from..], &log.keys(side)[from..]);
    let first = (log.first(side) as u32).wrapping_add(from as u32);
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

/// Asks for the memory that rows some way behind this one need: first where their timelines are, then
/// the rows at their ends.
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

/// Counts the rows of each key.
fn count(rows_of_key: &mut Vec<u32>, keys: &[u32]) {
    for &key in keys.iter().filter(|&&key| key != NO_KEY) {
        let place = key as usize;
        if rows_of_key.len() <= place {
            rows_of_key.resize(place + 1, 0);
        }
        rows_of_key[place] += 1;
    }
}

/// Rows of a side that look for others.
struct Looks<'a> {
    /// The timelines of the other side.
    others: &'a [Timeline],
    log: &'a Log,
    side: Side,
    filter: Option<&'a Filter<'a>>,
}

impl Looks<'_> {
    /// Finds the matches of the rows at these offsets, of as many as have a number of pairs.
    fn run(&self, rows: Range<usize>, driver: &Driver) -> Result<Looked, FilterError> {
        let (ts, keys) = (self.log.ts(self.side), self.log.keys(self.side));
        let mut found = Found::default();
        let (mut next, mut candidates) = (rows.start, 0);
        while next < rows.end && found.others.len() < MOST_PAIRS {
            let row = next;
            next += 1;
            ask_ahead(self.others, keys, row);
            let Some(timeline) = self.others.get(keys[row] as usize) else { continue };
            let Some((first, last)) = self.log.reached(self.side, ts[row]) else { continue };
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
        let first = self.log.first(self.side.other()) as u32;
        found.others.iter_mut().for_each(|number| *number = number.wrapping_sub(first));
        let pairs = match self.side {
            Side::Left => Results { left: found.own, right: found.others },
            Side::Right => Results { left: found.others, right: found.own },
        };
        Ok(Looked { pairs, next, candidates })
    }

    /// Gives the filter the pairs that it has not seen, and drops those it does not keep.
    fn filter(&self, filter: &Filter<'_>, found: &mut Found) -> Result<(), FilterError> {
        let first = self.log.first(self.side) as u32;
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

/// Pairs: offsets of rows that look, and numbers of rows that they find.
#[derive(Default)]
struct Found {
    own: Vec<u32>,
    others: Vec<u32>,
    /// How many the filter has seen.
    filtered: usize,
}
