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
mod epoch;
mod log;
mod reach;
mod replica;

use std::fmt;

use assignment::Assignment;
pub use assignment::Parallelism;
use epoch::Epoch;
use log::Log;
use reach::Reach;
pub use reach::Side;
use replica::{Filter, Replica};

use crate::driver::{Driver, Stopped};
use crate::interval_join::{How, Interval, NO_KEY, NO_ROW};

/// Rows below which an epoch is not worth waking other threads for.
const SMALL_EPOCH: usize = 2048;

/// Pairs that a replica finds before it waits until they are taken.
const MOST_PAIRS: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// Result rows, as places of their left and right rows; [`NO_ROW`] where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Places of left rows.
    pub left: Vec<u32>,
    /// Places of right rows; empty for semi and anti joins.
    pub right: Vec<u32>,
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

    /// Begins an epoch with rows in merged order, none before those of former epochs: time, side and key of each.
    ///
    /// # Panics
    ///
    /// When the results of the former epoch have not all been taken.
    pub fn begin(&mut self, rows: impl IntoIterator<Item = (i64, Side, u32)>) {
        assert!(self.is_done(), "an epoch begins when the one before is done");
        self.epoch.clear();
        self.next = 0;
        self.replicas.iter_mut().for_each(Replica::begin);
        for (ts, side, key) in rows {
            let log = &mut self.logs[side as usize];
            self.epoch.ts.push(ts);
            self.epoch.sides.push(side);
            self.epoch.keys.push(key);
            self.epoch.numbers.push(log.end() as u32);
            log.push(ts, key);
            if key != NO_KEY {
                if self.rows_of_key.len() <= key as usize {
                    self.rows_of_key.resize((key as usize + 1).next_power_of_two(), 0);
                }
                self.rows_of_key[key as usize] += 1;
            }
        }
        if let Some(&last) = self.epoch.ts.last() {
            self.logs.iter_mut().for_each(|log| log.mark(last));
        }
        let Epoch { keys, routes, .. } = &mut self.epoch;
        self.assignment.route(keys, routes);
    }

    /// The next results of the epoch, in order: those of as many rows as the replicas come to.
    pub fn advance<E: Send>(&mut self, driver: &Driver, filter: Option<&Filter<'_, E>>) -> Result<Results, Failed<E>> {
        // 1. The replicas look at rows.
        let rows = self.epoch.len();
        let behind: Vec<(usize, &mut Replica)> =
            self.replicas.iter_mut().enumerate().filter(|(_, replica)| replica.next() < rows).collect();
        let (epoch, assignment, reach) = (&self.epoch, &self.assignment, &self.reach);
        let run =
            |(me, replica): (usize, &mut Replica)| replica.run(me as u16, epoch, assignment, reach, MOST_PAIRS, filter);
        let ran = if rows - self.next < SMALL_EPOCH && filter.is_none() {
            behind.into_iter().map(run).collect()
        } else {
            driver.map(behind, run).map_err(Failed::Stopped)?
        };
        ran.into_iter().collect::<Result<(), E>>().map_err(Failed::Filter)?;
        // 2. Results of rows that all have looked at are put together.
        let upto = self.replicas.iter().map(Replica::next).min().unwrap_or(rows);
        let mut results = Results::default();
        if self.ordered {
            self.collect(upto, &mut results)
        } else {
            self.collect_unordered(&mut results)
        }
        self.next = upto;
        if self.is_done() {
            let comparisons = self.comparisons();
            let replicas = &self.replicas;
            self.assignment.observe(&self.epoch.keys, &comparisons, |me, key| replicas[usize::from(me)].holds(key));
        }
        Ok(results)
    }

    /// Puts together the results of the epoch's rows before `upto`.
    fn collect(&mut self, upto: usize, results: &mut Results) {
        let mut matches: Vec<u32> = Vec::new();
        while let Some((row, parts)) = self.next_row(upto) {
            let side = self.epoch.sides[row];
            self.release_unmatched(Some(self.epoch.ts[row]), results);
            let (own, other) = (&self.logs[side as usize], &self.logs[side.other() as usize]);
            let place = own.place(self.epoch.numbers[row]);
            // Several replicas' parts are in order each, and are brought into one.
            matches.clear();
            for replica in self.replicas.iter_mut().filter(|replica| replica.peek(upto) == Some(row)) {
                matches.extend(replica.take().iter().map(|&number| other.place(number)));
            }
            if parts > 1 {
                matches.sort();
            }
            self.emit(side, place, &matches, results);
        }
    }

    /// Takes all that the replicas have found, one replica after the other.
    fn collect_unordered(&mut self, results: &mut Results) {
        let mut matches: Vec<u32> = Vec::new();
        for me in 0..self.replicas.len() {
            while let Some(row) = self.replicas[me].peek(self.epoch.len()) {
                let side = self.epoch.sides[row];
                let place = self.logs[side as usize].place(self.epoch.numbers[row]);
                let other = &self.logs[side.other() as usize];
                matches.clear();
                matches.extend(self.replicas[me].take().iter().map(|&number| other.place(number)));
                self.emit(side, place, &matches, results);
            }
        }
    }

    /// The next row that has matches, and on how many replicas.
    #[inline]
    fn next_row(&self, upto: usize) -> Option<(usize, usize)> {
        if let [replica] = &self.replicas[..] {
            return replica.peek(upto).map(|row| (row, 1));
        }
        let mut found: Option<(usize, usize)> = None;
        for row in self.replicas.iter().filter_map(|replica| replica.peek(upto)) {
            found = match found {
                Some((first, parts)) if first == row => Some((first, parts + 1)),
                Some((first, parts)) if first < row => Some((first, parts)),
                _ => Some((row, 1)),
            };
        }
        found
    }

    /// Adds the pairs of a row, or what becomes of them.
    #[inline]
    fn emit(&mut self, side: Side, place: u32, matches: &[u32], results: &mut Results) {
        let [left_log, right_log] = &mut self.logs;
        let (later, earlier) = match side {
            Side::Left => (left_log, right_log),
            Side::Right => (right_log, left_log),
        };
        match self.how {
            How::Semi => match side {
                // Several replicas may have matches of the row.
                Side::Left => results.left.extend(later.set_matched(place).then_some(place)),
                Side::Right => results.left.extend(matches.iter().filter(|&&left| earlier.set_matched(left))),
            },
            How::Anti => match side {
                Side::Left => {
                    later.set_matched(place);
                }
                Side::Right => matches.iter().for_each(|&left| {
                    earlier.set_matched(left);
                }),
            },
            _ => {
                if later.is_outer() {
                    later.set_matched(place);
                }
                if earlier.is_outer() {
                    matches.iter().for_each(|&place| {
                        earlier.set_matched(place);
                    });
                }
                let (own, others) = match side {
                    Side::Left => (&mut results.left, &mut results.right),
                    Side::Right => (&mut results.right, &mut results.left),
                };
                own.resize(own.len() + matches.len(), place);
                others.extend_from_slice(matches);
            }
        }
    }

    /// The rows that have had no match and can have none from `now` on, in order; `None` stands for the end of time.
    /// Nothing before `now` may be left to put together.
    pub fn unmatched(&mut self, now: Option<i64>) -> Results {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let mut results = Results::default();
        self.release_unmatched(now, &mut results);
        results
    }

    fn release_unmatched(&mut self, now: Option<i64>, results: &mut Results) {
        let [left_log, right_log] = &mut self.logs;
        if !left_log.is_outer() && !right_log.is_outer() {
            return;
        }
        let reach = &self.reach;
        loop {
            let (left, right) = (left_log.unmatched(reach, now), right_log.unmatched(reach, now));
            // By the time after which they come out, then in merged order, where left sources are first.
            let left_first = match (left, right) {
                (None, None) => return,
                (Some((last, ts, _)), Some((right_last, right_ts, _))) => (last, ts) <= (right_last, right_ts),
                (left, _) => left.is_some(),
            };
            if left_first {
                left_log.settle();
                // A semi join has no use for them; its rows are settled all the same.
                if self.how != How::Semi {
                    results.left.extend(left.map(|(_, _, place)| place));
                    if self.how.pairs() {
                        results.right.push(NO_ROW);
                    }
                }
            } else {
                right_log.settle();
                results.left.push(NO_ROW);
                results.right.extend(right.map(|(_, _, place)| place));
            }
        }
    }

    /// Lets go of rows that no row at `now` or later can match, and names the keys that have no rows left: their numbers
    /// may be given to other keys. `None` stands for the end of time. Places are counted anew from here on.
    pub fn purge(&mut self, now: Option<i64>) -> Vec<u32> {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
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
        let replicas = self.replicas.len();
        for (me, replica) in self.replicas.iter_mut().enumerate() {
            replica.forget(me as u16, replicas, &silent);
        }
        self.assignment.forget(&silent);
        silent
    }
}

#[cfg(test)]
mod tests;
