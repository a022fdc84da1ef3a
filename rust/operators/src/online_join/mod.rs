//! The online interval join: rows in merged order in, pairs out as soon as they are final (PPOIJ).
//!
//! Rows come in epochs. The replicas of the operator, one a thread, each look at the rows of an epoch whose keys they
//! have: a row finds its matches among the earlier rows of the other side in its key's buffer, where they are
//! neighbours, and then waits in its own side's buffer for later ones. What the replicas have found is put together in
//! the order of the epoch's rows, so that neither their number nor the assignment of keys shows in the result.
//!
//! ```text
//!              ┌─ replica 0: buffers of its keys ─▶ pairs ─┐
//! epoch ───────┤                                           ├─▶ by later row, then earlier row ─▶ results
//!              └─ replica 1: buffers of its keys ─▶ pairs ─┘        + rows whose time is over unmatched
//! ```
//!
//! Rows are numbered by side. A result names rows by their distance from the oldest row of their side that is kept,
//! [`OnlineJoin::first`]; rows are let go of in [`OnlineJoin::purge`] only.

mod assignment;
mod buffer;
mod epoch;
mod log;
mod reach;
mod replica;
mod results;

use std::fmt;
use std::ops::Range;

pub use assignment::Parallelism;
use assignment::{Assignment, Looks};
use epoch::Epoch;
use log::Log;
use reach::Reach;
pub use reach::Side;
pub use replica::Filter;
use replica::{Cursor, Replica, Shared};
pub use results::Results;

use crate::driver::{Driver, Stopped};
use crate::interval_join::{Interval, NO_KEY};
use crate::matches::How;

/// Rows below which an epoch is not worth waking other threads for: a fraction of a millisecond of work for one.
pub const SMALL_EPOCH: usize = if cfg!(test) { 32 } else { 1 << 11 };

/// Rows of an epoch whose results are made together: so few and so many that threads share an epoch's evenly.
const LEAST_PIECE: usize = 2048;
const MOST_PIECE: usize = 8192;

/// Pairs that a replica finds before it waits until they are taken.
const MOST_PAIRS: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// The rows of one side that a join has kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Event times, in merged order.
    pub ts: &'a [i64],
    /// Keys.
    pub keys: &'a [u32],
    /// Which have had a match, where that matters.
    pub matched: &'a [bool],
    /// How many from the first on are settled.
    pub settled: usize,
}

/// What a join has come to.
#[derive(Debug)]
pub enum Progress {
    /// Pieces of the epoch whose results [`OnlineJoin::assemble`] makes, by any thread, in this order.
    Pieces(Vec<Range<usize>>),
    /// Results, in order.
    Results(Results),
}

/// The state of a join.
pub struct OnlineJoin {
    reach: Reach,
    how: How,
    ordered: bool,
    logs: [Log; 2],
    replicas: Vec<Replica>,
    assignment: Assignment,
    epoch: Epoch,
    /// The next row of the epoch whose results are to be put together.
    next: usize,
    /// Rows of each key that are kept, by its number.
    rows_of_key: Vec<u32>,
}

impl fmt::Debug for OnlineJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnlineJoin").field("how", &self.how).field("epoch", &self.epoch.len()).finish_non_exhaustive()
    }
}

/// Why the join could not go on.
#[derive(Debug)]
pub enum Failed<E> {
    /// It was asked to stop.
    Stopped(Stopped),
    /// The filter failed.
    Filter(E),
}

impl OnlineJoin {
    /// A join without rows, of `replicas` replicas. Unless it is `ordered`, the pairs of an epoch come in any order.
    pub fn new(interval: &Interval, how: How, parallelism: Parallelism, replicas: usize, ordered: bool) -> Self {
        let keeps_left = how.keeps_left() || !how.pairs();
        OnlineJoin {
            reach: Reach::new(interval),
            how,
            ordered,
            logs: [Log::new(Side::Left, keeps_left), Log::new(Side::Right, how.keeps_right())],
            replicas: (0..replicas).map(|_| Replica::default()).collect(),
            assignment: Assignment::new(parallelism, replicas),
            epoch: Epoch::default(),
            next: 0,
            rows_of_key: Vec::new(),
        }
    }

    /// The number of the oldest row of a side that is kept; rows of each side are numbered from 0.
    pub fn first(&self, side: Side) -> u64 {
        self.logs[side as usize].first()
    }

    /// Rows of a side that are kept.
    pub fn rows(&self, side: Side) -> usize {
        self.logs[side as usize].len()
    }

    /// The rows of the epoch.
    pub fn epoch_rows(&self) -> usize {
        self.epoch.len()
    }

    /// Whether the epoch's results have all been given.
    pub fn is_done(&self) -> bool {
        self.next == self.epoch.len()
    }

    /// Candidate pairs that each replica has looked at.
    pub fn comparisons(&self) -> Vec<u64> {
        self.replicas.iter().map(Replica::comparisons).collect()
    }

    /// Keys on more than one replica.
    pub fn split_keys(&self) -> usize {
        self.assignment.split_keys()
    }

    /// Bytes held beside the rows themselves.
    pub fn memory(&self) -> usize {
        let of_replicas: usize = self.replicas.iter().map(Replica::memory).sum();
        of_replicas + self.logs.iter().map(Log::memory).sum::<usize>() + self.rows_of_key.capacity() * size_of::<u32>()
    }

    /// Begins an epoch with rows in merged order, none before those of former epochs: the time and the side of each, and
    /// the keys of each side's rows.
    ///
    /// # Panics
    ///
    /// When the results of the former epoch have not all been taken, or there is not a key for each row.
    pub fn begin(&mut self, ts: Vec<i64>, sides: Vec<Side>, keys: [&[u32]; 2]) {
        assert!(self.is_done(), "an epoch begins when the one before is done");
        assert_eq!((ts.len(), ts.len()), (sides.len(), keys[0].len() + keys[1].len()), "a side and a key a row");
        self.next = 0;
        // 1. Rows are numbered, and interleaved with their keys.
        let epoch = &mut self.epoch;
        epoch.clear();
        let firsts = [self.logs[0].end() as u32, self.logs[1].end() as u32];
        let mut next = [0; 2];
        for &side in &sides {
            let nth = &mut next[side as usize];
            epoch.keys.push(keys[side as usize][*nth]);
            epoch.numbers.push(firsts[side as usize].wrapping_add(*nth as u32));
            *nth += 1;
        }
        epoch.routes.extend(epoch.keys.iter().map(|&key| self.assignment.route(key)));
        for (me, replica) in self.replicas.iter_mut().enumerate() {
            replica.begin(me as u16, &epoch.routes);
        }
        // 2. They go into the logs of their sides.
        for (log, keys) in self.logs.iter_mut().zip(keys) {
            log.extend(&ts, &sides, keys);
            for &key in keys.iter().filter(|&&key| key != NO_KEY) {
                count(&mut self.rows_of_key, key);
            }
        }
        (epoch.ts, epoch.sides) = (ts, sides);
    }

    /// Finds the results of as many rows of the epoch as the replicas come to.
    pub fn advance<E: Send>(&mut self, driver: &Driver, filter: Option<&Filter<'_, E>>) -> Result<Progress, Failed<E>> {
        // 1. The replicas look at rows.
        let (rows, from) = (self.epoch.len(), self.next);
        let shared = Shared { epoch: &self.epoch, assignment: &self.assignment, reach: &self.reach };
        let behind: Vec<(usize, &mut Replica)> =
            self.replicas.iter_mut().enumerate().filter(|(_, replica)| replica.next() < rows).collect();
        let run = |(me, replica): (usize, &mut Replica)| {
            replica.drop_before(from);
            replica.run(me as u16, &shared, MOST_PAIRS, filter)
        };
        let ran = if rows - from < SMALL_EPOCH && filter.is_none() {
            behind.into_iter().map(run).collect()
        } else {
            driver.map(behind, run).map_err(Failed::Stopped)?
        };
        ran.into_iter().collect::<Result<(), E>>().map_err(Failed::Filter)?;
        // 2. Results of rows that all have looked at are put together.
        let upto = self.replicas.iter().map(Replica::next).min().unwrap_or(rows);
        self.next = upto;
        let is_outer = self.logs.iter().any(Log::is_outer);
        let progress =
            if is_outer { Progress::Results(self.collect(from..upto)) } else { Progress::Pieces(pieces(from..upto)) };
        if self.is_done() {
            let comparisons = self.comparisons();
            let replicas = &self.replicas;
            self.assignment.observe(&self.epoch.keys, &comparisons, |me, key| replicas[usize::from(me)].holds(key));
        }
        Ok(progress)
    }

    /// The pairs of a piece of the epoch, as [`advance`](Self::advance) named it last.
    pub fn assemble(&self, rows: Range<usize>) -> Results {
        let mut results = Results::default();
        let firsts = [self.logs[0].first() as u32, self.logs[1].first() as u32];
        for_each_row(&self.replicas, &self.epoch, self.ordered, firsts, rows, |row, matches| {
            let side = self.epoch.sides[row];
            let (first, others_first) = (firsts[side as usize], firsts[side.other() as usize]);
            let place = self.epoch.numbers[row].wrapping_sub(first);
            results.pair(side, place, matches.iter().map(|number| number.wrapping_sub(others_first)));
        });
        results
    }

    /// The results of rows of the epoch where it matters which rows have had a match.
    fn collect(&mut self, rows: Range<usize>) -> Results {
        let mut results = Results::default();
        let firsts = [self.logs[0].first() as u32, self.logs[1].first() as u32];
        let (epoch, logs, ordered) = (&self.epoch, &mut self.logs, self.ordered);
        let mut places: Vec<u32> = Vec::new();
        for_each_row(&self.replicas, epoch, ordered, firsts, rows, |row, matches| {
            if matches.is_empty() {
                return;
            }
            let side = epoch.sides[row];
            if ordered {
                results.add_unmatched(logs, &self.reach, self.how, Some(epoch.ts[row]));
            }
            places.clear();
            places.extend(matches.iter().map(|number| number.wrapping_sub(firsts[side.other() as usize])));
            let place = epoch.numbers[row].wrapping_sub(firsts[side as usize]);
            results.add(logs, self.how, side, place, &places);
        });
        results
    }

    /// The rows that have had no match and can have none from `now` on, in order; `None` stands for the end of time.
    /// Nothing before `now` may be left to put together.
    pub fn unmatched(&mut self, now: Option<i64>) -> Results {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let mut results = Results::default();
        results.add_unmatched(&mut self.logs, &self.reach, self.how, now);
        results
    }

    /// Which kept rows of a side have had a match, by place, where that matters; and of how many from the first on it is
    /// settled whether they come out without one.
    pub fn matched(&self, side: Side) -> (&[bool], usize) {
        self.logs[side as usize].matched()
    }

    /// Takes in the rows that a join of the same kind has kept: for each side their times, their keys, and what
    /// [`matched`](Self::matched) said of them.
    ///
    /// # Panics
    ///
    /// When this join has rows already, or there is not a key for each row.
    pub fn restore(&mut self, sides: [Kept<'_>; 2]) {
        for (log, Kept { ts, keys, matched, settled }) in self.logs.iter_mut().zip(sides) {
            log.restore(ts, keys, matched, settled);
            for &key in keys.iter().filter(|&&key| key != NO_KEY) {
                count(&mut self.rows_of_key, key);
            }
        }
        for (me, replica) in self.replicas.iter_mut().enumerate() {
            replica.restore(me as u16, &self.logs, &self.assignment, &self.reach);
        }
    }

    /// Lets go of rows that no row at `now` or later can match, and names the keys that have no rows left: their numbers
    /// may be given to other keys. `None` stands for the end of time. Places are counted anew from here on.
    pub fn purge(&mut self, now: Option<i64>) -> Vec<u32> {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let shared = Shared { epoch: &self.epoch, assignment: &self.assignment, reach: &self.reach };
        for (me, replica) in self.replicas.iter_mut().enumerate() {
            match now {
                Some(now) => replica.pass(me as u16, now, &shared),
                None => replica.clear(),
            }
        }
        let mut silent = Vec::new();
        let rows_of_key = &mut self.rows_of_key;
        for log in &mut self.logs {
            log.purge(&self.reach, now, |key| {
                let rows = &mut rows_of_key[key as usize];
                *rows -= 1;
                if *rows == 0 {
                    silent.push(key);
                }
            });
        }
        for (me, replica) in self.replicas.iter_mut().enumerate() {
            replica.forget(me as u16, &self.assignment, &silent);
        }
        self.assignment.forget(&silent);
        silent
    }
}

/// Counts a row of a key.
#[inline]
fn count(rows_of_key: &mut Vec<u32>, key: u32) {
    if rows_of_key.len() <= key as usize {
        rows_of_key.resize((key as usize + 1).next_power_of_two(), 0);
    }
    rows_of_key[key as usize] += 1;
}

/// Cuts rows of an epoch into pieces for threads, in a way that no number of threads shows in.
fn pieces(rows: Range<usize>) -> Vec<Range<usize>> {
    let most = rows.len().div_ceil(4).clamp(LEAST_PIECE, MOST_PIECE);
    rows.clone().step_by(most).map(|from| from..rows.end.min(from + most)).collect()
}

/// Gives each row of the epoch that replicas have looked at, with the numbers of its matches, earliest first. Unless it
/// is `ordered`, a row comes once for each replica, and rows in any order.
fn for_each_row(
    replicas: &[Replica],
    epoch: &Epoch,
    ordered: bool,
    firsts: [u32; 2],
    rows: Range<usize>,
    mut each: impl FnMut(usize, &[u32]),
) {
    let mut cursors: Vec<Cursor<'_>> = replicas.iter().map(|replica| replica.cursor(rows.start)).collect();
    if !ordered {
        for cursor in &mut cursors {
            while let Some((row, pairs)) = cursor.next(rows.end) {
                each(row, pairs);
            }
        }
        return;
    }
    let mut merged: Vec<u32> = Vec::new();
    for row in rows {
        match Assignment::looks(epoch.routes[row]) {
            Looks::None => {}
            Looks::One(replica) => each(row, cursors[replica].take(row)),
            Looks::Several => {
                // Each replica's matches are in order; together they are brought into one.
                merged.clear();
                cursors.iter_mut().filter(|cursor| cursor.peek() == Some(row)).for_each(|cursor| {
                    merged.extend_from_slice(cursor.take(row));
                });
                let first = firsts[epoch.sides[row].other() as usize];
                merged.sort_by_key(|number| number.wrapping_sub(first));
                each(row, &merged);
            }
        }
    }
}

#[cfg(test)]
mod tests;
