//! A joiner, which has its own lists and works on the rows in an epoch.

use std::fmt;

use crate::time_travel::{ListReader, ListWriter, TimeTravel};
use tidegate_sync::atomic::Arc;
use tidegate_sync::{Counter, Prefix};

use super::schedule::Schedule;
use crate::threads::Turn;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::streaming::{KeyedEpoch, keep_filtered};
use tidegate_operators::rows::{Filter, FilterError, NO_KEY, Reach, Side};

/// The number of rows that a joiner processes per turn, whether it stores rows or searches for
/// matches. The number is large enough that turns cost little, and small enough that other joiners
/// soon find the rows.
const BATCH: usize = if cfg!(any(test, loom)) { 2 } else { 64 };

/// Once a joiner has found this many pairs, it waits until they are taken.
const MOST_PAIRS: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// The rows assigned to one joiner, and the joiner's work.
///
/// Some fields change with each row. The alignment prevents two joiners from sharing a cache line,
/// or a pair of lines that processors fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Joiner {
    /// The lists of each side.
    lists: [TimeTravel; 2],
    keys: [Keys; 2],
    work: Work,
}

/// The keys that have rows in a side's lists.
#[derive(Debug, Default)]
struct Keys {
    all: Vec<u32>,
    /// Marks the keys that have rows.
    is_there: Vec<bool>,
    /// All rows that have arrived since old rows were last cut off are at or after this time.
    since: Option<i64>,
}

/// The joiner's rows in the epoch, and the matches it has found.
#[derive(Debug, Default)]
struct Work {
    /// True if the rows have been selected.
    has_begun: bool,
    mine: Vec<u32>,
    /// The number of rows stored so far, and the number of rows whose matches have been searched
    /// for.
    stored: usize,
    looked: usize,
    /// The numbers of the matching earlier rows, row by row.
    numbers: Vec<u32>,
    /// For each row that has a key and has been processed: its position in the epoch, and the end
    /// of its matches in `numbers`.
    rows: Vec<(u32, u32)>,
    comparisons: u64,
    failed: Option<FilterError>,
}

/// The state of an epoch that all joiners read.
#[derive(Debug)]
struct EpochState<'a> {
    epoch: &'a KeyedEpoch,
    reach: &'a Reach,
    schedule: &'a Schedule,
    /// Each joiner's lists for both sides.
    readers: Vec<[ListReader<'a>; 2]>,
    /// The epoch's rows stored so far.
    stored: &'a Prefix,
    /// For each side, the low bits of two row numbers: those of the first kept row and of the first
    /// row in the epoch.
    kept: [u32; 2],
    first: [u32; 2],
    /// The number of joiners that still have work to do.
    running: Counter,
    driver: Driver,
}

/// The operator's input for an epoch.
pub(super) struct EpochInput<'a> {
    pub(super) epoch: &'a KeyedEpoch,
    pub(super) reach: &'a Reach,
    pub(super) schedule: &'a Schedule,
    pub(super) stored: &'a Prefix,
    pub(super) kept: [u32; 2],
    pub(super) first: [u32; 2],
}

/// One joiner's work on an epoch, which is done in turns (see [`step`](Self::step)).
pub struct JoinerWork<'a> {
    me: u16,
    writers: [ListWriter<'a>; 2],
    keys: &'a mut [Keys; 2],
    work: &'a mut Work,
    shared: Arc<EpochState<'a>>,
    filter: Option<&'a Filter<'a>>,
    /// True if the joiner has nothing to do until its pairs are taken.
    is_at_rest: bool,
}

/// Creates a work object for each joiner. The joiners wait for each other.
pub(super) fn works<'a>(
    joiners: &'a mut [Joiner],
    given: EpochInput<'a>,
    driver: &Driver,
    filter: Option<&'a Filter<'a>>,
) -> Vec<JoinerWork<'a>> {
    let mut readers = Vec::with_capacity(joiners.len());
    let mut parts = Vec::with_capacity(joiners.len());
    for Joiner { lists, keys, work } in joiners {
        let [(left, of_left), (right, of_right)] = lists.each_mut().map(TimeTravel::split);
        readers.push([of_left, of_right]);
        parts.push(([left, right], keys, work));
    }
    let EpochInput { epoch, reach, schedule, stored, kept, first } = given;
    let running = Counter::new(parts.len());
    let driver = driver.clone();
    let shared =
        EpochState { epoch, reach, schedule, readers, stored, kept, first, running, driver };
    let shared = Arc::new(shared);
    let part = |(me, (writers, keys, work))| {
        let shared = shared.clone();
        JoinerWork { me, writers, keys, work, shared, filter, is_at_rest: false }
    };
    (0..).zip(parts).map(part).collect()
}

impl fmt::Debug for JoinerWork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { mine, stored, looked, .. } = &*self.work;
        f.debug_struct("JoinerWork")
            .field("rows", &mine.len())
            .field("stored", stored)
            .field("looked", looked)
            .finish_non_exhaustive()
    }
}

impl JoinerWork<'_> {
    /// Stores some rows. Also searches for matches of some rows, provided that all earlier rows in
    /// the epoch have been stored.
    pub fn step(&mut self) -> Turn {
        if self.is_at_rest {
            return if self.shared.running.get() == 0 { Turn::Finished } else { Turn::Waiting };
        }
        let has_worked = self.store() | self.look();
        let Work { mine, stored, looked, .. } = &*self.work;
        // It stops only after all of its rows have been stored, because other joiners wait for
        // them.
        if *stored == mine.len() && (*looked == mine.len() || self.is_enough()) {
            self.is_at_rest = true;
            self.shared.running.subtract(1);
            return Turn::Worked;
        }
        if has_worked { Turn::Worked } else { Turn::Waiting }
    }

    /// Returns the positions of the epoch's matched rows, each with the low bits of its matches'
    /// numbers.
    pub fn matches(&self) -> Vec<(usize, Vec<u32>)> {
        let matches = self.work.matches(0).filter(|(_, numbers)| !numbers.is_empty());
        matches.map(|(row, numbers)| (row, numbers.to_vec())).collect()
    }

    /// Returns whether the joiner's pairs should be taken before the joiner continues.
    fn is_enough(&self) -> bool {
        self.work.numbers.len() >= MOST_PAIRS
            || self.work.failed.is_some()
            || self.shared.driver.is_paused()
    }

    /// Stores some rows and returns whether there were any.
    fn store(&mut self) -> bool {
        if !self.work.has_begun {
            self.begin();
        }
        let EpochState { epoch, reach, stored, .. } = &*self.shared;
        let from = self.work.stored;
        let rows = &self.work.mine[from..self.work.mine.len().min(from + BATCH)];
        for &row in rows {
            let row = row as usize;
            let (ts, side, key) = (epoch.ts[row], epoch.sides[row], epoch.keys[row]);
            if key != NO_KEY && reach.is_stored(side) {
                self.writers[side as usize].insert(key, ts, epoch.numbers[row]);
                self.keys[side as usize].add(key);
            }
        }
        // Marked only now: a thread that sees the edge behind a row finds the row in its list.
        stored.mark_all(rows.iter().map(|&row| row as usize));
        self.work.stored += rows.len();
        self.work.stored > from
    }

    /// Selects this joiner's rows in the epoch. Also cuts off rows in the joiner's lists that are
    /// too old to match any row in the epoch.
    fn begin(&mut self) {
        let EpochState { epoch, reach, .. } = &*self.shared;
        let of_all = epoch.routes.iter().enumerate().filter(|&(_, &route)| route == self.me);
        self.work.mine.extend(of_all.map(|(row, _)| row as u32));
        self.work.has_begun = true;
        let Some(&now) = epoch.ts.first() else { return };
        for side in [Side::Left, Side::Right] {
            let oldest = reach.first(side.other(), now);
            let keys = &mut self.keys[side as usize];
            // Once per retention time, so that each time, all rows of the previous time are cut
            // off.
            if keys.since.is_none_or(|since| oldest > since) {
                let writer = &mut self.writers[side as usize];
                keys.retain(|key| writer.cut(key, oldest));
                keys.since = Some(now);
            }
        }
    }

    /// Searches for matches of some rows. Returns whether any rows were processed.
    fn look(&mut self) -> bool {
        let before = self.work.looked;
        let mine = self.work.mine.len();
        if before == mine || self.is_enough() {
            return false;
        }
        if self.work.stored == mine {
            // If threads mark rows at the same time, the edge may lag behind.
            self.shared.stored.mark_all([]);
        }
        let edge = self.shared.stored.edge();
        let (rows, numbers) = (self.work.rows.len(), self.work.numbers.len());
        let end = mine.min(before + BATCH);
        while self.work.looked < end && self.work.numbers.len() < MOST_PAIRS {
            let row = self.work.mine[self.work.looked] as usize;
            if row > edge {
                break;
            }
            self.look_for(row);
            self.work.looked += 1;
        }
        if let Some(filter) = self.filter {
            self.work.filter(self.shared.epoch, filter, rows, numbers);
        }
        self.work.looked > before
    }

    /// Searches for the matches of a row among earlier rows.
    fn look_for(&mut self, row: usize) {
        let EpochState { epoch, reach, schedule, readers, kept, first, .. } = &*self.shared;
        let (ts, side, key) = (epoch.ts[row], epoch.sides[row], epoch.keys[row]);
        if key == NO_KEY {
            return;
        }
        let other = side.other() as usize;
        let Work { numbers, rows, comparisons, .. } = &mut *self.work;
        if let Some(last) = reach.last(side, ts) {
            let (newest, oldest) = (last.min(ts), reach.first(side, ts));
            // Rows of the other side that precede it in the epoch. The lists also contain later
            // rows with the same time, which find this row themselves.
            let own = epoch.numbers[row].wrapping_sub(first[side as usize]);
            let upto = first[other].wrapping_add(row as u32 - own).wrapping_sub(kept[other]);
            let begin = numbers.len();
            let team = schedule.team(key);
            for &joiner in team {
                let from = numbers.len();
                readers[usize::from(joiner)][other].look_back(key, newest, oldest, |_, number| {
                    if number.wrapping_sub(kept[other]) < upto {
                        numbers.push(number);
                    }
                });
                numbers[from..].reverse();
            }
            *comparisons += (numbers.len() - begin) as u64;
            if team.len() > 1 {
                // The sort is stable and uses the existing order of each joiner's rows.
                numbers[begin..].sort_by_key(|number| number.wrapping_sub(kept[other]));
            }
        }
        rows.push((row as u32, numbers.len() as u32));
    }
}

impl Joiner {
    /// Begins an epoch.
    pub(super) fn begin(&mut self) {
        let Work { has_begun, mine, stored, looked, numbers, rows, .. } = &mut self.work;
        mine.clear();
        numbers.clear();
        rows.clear();
        (*has_begun, *stored, *looked) = (false, 0, 0);
    }

    /// Stores a row between two epochs.
    pub(super) fn enter(&mut self, side: Side, key: u32, ts: i64, number: u32) {
        self.lists[side as usize].split().0.insert(key, ts, number);
        self.keys[side as usize].add(key);
    }

    /// In an epoch of `rows` rows, returns the first row whose matches this joiner has not searched
    /// for.
    pub(super) fn next(&self, rows: usize) -> usize {
        self.work.mine.get(self.work.looked).map_or(rows, |&row| row as usize)
    }

    /// Returns the matches of the epoch's rows from `from` onwards. Each item contains a row's
    /// position and the numbers of its matches.
    pub(super) fn matches(&self, from: usize) -> impl Iterator<Item = (usize, &[u32])> {
        self.work.matches(from)
    }

    /// Returns the number of matches found for the epoch's rows before `row`.
    pub(super) fn matches_before(&self, row: usize) -> usize {
        self.work.begin(row).1
    }

    /// Drops the matches of rows before `row`.
    pub(super) fn drop_before(&mut self, row: usize) {
        let (rows, numbers) = self.work.begin(row);
        self.work.rows.drain(..rows);
        self.work.numbers.drain(..numbers);
        self.work.rows.iter_mut().for_each(|(_, end)| *end -= numbers as u32);
    }

    pub(super) fn take_failure(&mut self) -> Option<FilterError> {
        self.work.failed.take()
    }

    pub(super) fn comparisons(&self) -> u64 {
        self.work.comparisons
    }

    /// Makes the memory used by rows that were cut off available for new rows.
    pub(super) fn recycle(&mut self) {
        self.lists.iter_mut().for_each(TimeTravel::recycle);
    }

    /// Drops all rows.
    pub(super) fn clear(&mut self) {
        self.lists = Default::default();
        self.keys = Default::default();
    }

    /// Returns the number of bytes used by the lists.
    pub(super) fn memory(&self) -> usize {
        let of_keys =
            |keys: &Keys| keys.all.capacity() * size_of::<u32>() + keys.is_there.capacity();
        self.lists.iter().map(TimeTravel::memory).sum::<usize>()
            + self.keys.iter().map(of_keys).sum::<usize>()
    }
}

impl Keys {
    #[inline]
    fn add(&mut self, key: u32) {
        let place = key as usize;
        if self.is_there.len() <= place {
            self.is_there.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.is_there[place], true) {
            self.all.push(key);
        }
    }

    /// Removes the keys for which `has_rows` returns `false`.
    fn retain(&mut self, mut has_rows: impl FnMut(u32) -> bool) {
        let is_there = &mut self.is_there;
        self.all.retain(|&key| {
            let stays = has_rows(key);
            is_there[key as usize] = stays;
            stays
        });
    }
}

impl Work {
    /// Returns where the rows from `row` onwards begin in `rows`, and where their matches begin in
    /// `numbers`.
    fn begin(&self, row: usize) -> (usize, usize) {
        let at = self.rows.partition_point(|&(other, _)| (other as usize) < row);
        (at, at.checked_sub(1).map_or(0, |before| self.rows[before].1 as usize))
    }

    fn matches(&self, from: usize) -> impl Iterator<Item = (usize, &[u32])> {
        let (at, mut begin) = self.begin(from);
        self.rows[at..].iter().map(move |&(row, end)| {
            let matches = &self.numbers[begin..end as usize];
            begin = end as usize;
            (row as usize, matches)
        })
    }

    /// For the rows from `row` onwards, drops the matches that do not pass the filter.
    fn filter(&mut self, epoch: &KeyedEpoch, filter: &Filter<'_>, row: usize, first: usize) {
        let rows = &mut self.rows[row..];
        match keep_filtered(epoch, filter, rows, &mut self.numbers, first) {
            Ok(kept) => self.numbers.truncate(kept),
            Err(error) => self.failed = Some(error),
        }
    }
}
