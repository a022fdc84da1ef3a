//! The streaming interval join (PPOIJ). The join receives rows in merged order and emits pairs as
//! soon as they are final.
//!
//! Rows arrive in epochs. The operator has one replica per thread. In each epoch, each replica
//! processes the rows whose keys it owns. The matches of a row are adjacent in the other side's
//! buffer for the same key. The row is then stored in the buffer for its own side, so that later
//! rows can match it. The pairs from all replicas are put in the order of the epoch's rows. The
//! result therefore does not depend on the number of replicas or on the assignment of keys.
//!
//! ```text
//!              ┌─ replica 0: buffers of its keys ─▶ pairs ─┐
//! epoch ───────┤                                           ├─▶ by later row, then earlier row ─▶ results
//!              └─ replica 1: buffers of its keys ─▶ pairs ─┘        + unmatched rows whose time is over
//! ```
//!
//! Rows are numbered separately for each side. A result identifies a row by its distance from the
//! oldest kept row on the same side. [`first`](RowJoin::first) returns the number of that oldest
//! row. Rows are dropped only by [`purge`](RowJoin::purge).
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `replica.rs` | one thread's keys and matches |
//! | `buffer.rs` | the rows of a key, which are adjacent in memory |
//! | `assignment.rs` | the assignment of keys to replicas |
//! | `chunks.rs` | the kept columns of a side's rows |
//! | `key_rows.rs` | the number of kept rows per key |
//! | `epoch.rs`, `pairs.rs` | the rows in an epoch, and their pairs |

mod assignment;
mod buffer;
mod chunks;
mod epoch;
mod key_rows;
mod pairs;
mod replica;

use std::fmt;
use std::ops::Range;

use assignment::{Assignment, LookAssignment};
pub use assignment::{LOAD_FACTOR, Parallelism};
use buffer::LANES;
pub use buffer::NUMBER_BYTES;
pub use chunks::Chunks;
pub use epoch::KeyedEpoch;
pub use key_rows::KeyRows;
use pairs::PairResults;
pub use pairs::keep_filtered;
use replica::{EpochInputs, Replica, ReplicaCursor, ReplicaMatches};

use crate::driver::Driver;
use crate::rows::{
    Extent, Filter, How, Interval, JoinError, Progress, Reach, Results, RowJoin, RowLog, SavedRows,
    Side, SideWatermarks,
};

/// For an epoch with fewer rows than this, waking other threads is not worthwhile. A single thread
/// processes such an epoch in a fraction of a millisecond.
const SMALL_EPOCH: usize = if cfg!(test) { 32 } else { 1 << 11 };

/// The number of rows whose results are computed together. A piece is large enough to keep the
/// overhead per piece low, but small enough that even a small epoch can be shared by two threads.
const PIECE: usize = 8192;
const LEAST_PIECE: usize = 1024;

/// A replica that has found this many pairs waits until the pairs have been retrieved.
const MOST_PAIRS: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// After more than this many new rows on a side, all dropped rows are removed from the buffers.
/// While fewer than 2^30 rows are kept, any two row numbers in the buffers differ by less than
/// 2^31. Comparing only the low bits of the numbers is therefore sufficient.
const PACKED_ROWS: u64 = if cfg!(test) { 100 } else { 1 << 29 };

/// A join of rows with equal keys. The keys are numbers.
pub trait KeyedJoin: for<'a> RowJoin<[&'a [u32]; 2]> {
    /// Returns the keys that the last purge left without rows. The numbers of these keys can be
    /// reused for other keys.
    fn take_silent(&mut self) -> Vec<u32>;

    /// Returns how many keys have their rows spread over several threads. Returns `None` if keys
    /// are not assigned to threads.
    fn split_keys(&self) -> Option<usize>;
}

/// The state of a join.
///
/// An unmatched left row is emitted once no match for it can arrive:
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_operators::interval::streaming::{Parallelism, StreamingJoin};
/// use tidegate_operators::rows::{Closed, How, Interval, NO_ROW, RowJoin, Side};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let near = Interval { lower: Some(-2), upper: Some(2), closed: Closed::Both };
/// let mut join = StreamingJoin::new(&near, How::Left, Parallelism::Key, 1, true);
/// // Two left rows at 10, with the keys 0 and 1.
/// join.begin(&driver, vec![10, 10], vec![Side::Left; 2], [&[0, 1], &[]]);
/// assert!(join.advance(&driver, None)?.into_results().left.is_empty());
/// // A right row at 11, with the key 1.
/// join.begin(&driver, vec![11], vec![Side::Right], [&[], &[1]]);
/// let pairs = join.advance(&driver, None)?.into_results();
/// assert_eq!((pairs.left, pairs.right), (vec![1], vec![0]));
/// // Rows at 13 or later cannot match the other left row.
/// let alone = join.unmatched([Some(13); 2]);
/// assert_eq!((alone.left, alone.right), (vec![0], vec![NO_ROW]));
/// # Ok::<(), tidegate_operators::rows::JoinError>(())
/// ```
pub struct StreamingJoin {
    reach: Reach,
    how: How,
    ordered: bool,
    logs: [RowLog<Chunks>; 2],
    replicas: Vec<Replica>,
    assignment: Assignment,
    epoch: KeyedEpoch,
    /// The first row in the epoch whose results have not been returned yet.
    next: usize,
    key_rows: KeyRows,
    /// The number of rows that had arrived on each side when old rows were last removed from the
    /// buffers.
    packed: [u64; 2],
    /// A reusable buffer for the times of each side's rows in an epoch.
    times: [Vec<i64>; 2],
}

impl fmt::Debug for StreamingJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamingJoin")
            .field("how", &self.how)
            .field("epoch", &self.epoch.len())
            .finish_non_exhaustive()
    }
}

impl StreamingJoin {
    /// Creates a join that has `replicas` replicas and no rows. If the join is not `ordered`, an
    /// epoch's pairs can be returned in any order.
    pub fn new(
        interval: &Interval,
        how: How,
        parallelism: Parallelism,
        replicas: usize,
        ordered: bool,
    ) -> Self {
        let log = |side| RowLog::new(side, how, Chunks::default());
        StreamingJoin {
            reach: Reach::new(interval),
            how,
            ordered,
            logs: [log(Side::Left), log(Side::Right)],
            replicas: (0..replicas).map(|_| Replica::default()).collect(),
            assignment: Assignment::new(parallelism, replicas),
            epoch: KeyedEpoch::default(),
            next: 0,
            key_rows: KeyRows::default(),
            packed: [0; 2],
            times: [Vec::new(), Vec::new()],
        }
    }

    /// Sets the load factor, which must be at least 1. Keys are split if one replica performs more
    /// than this multiple of the mean number of comparisons.
    pub fn with_load_factor(self, load_factor: f64) -> Self {
        StreamingJoin { assignment: self.assignment.with_load_factor(load_factor), ..self }
    }

    /// Returns, for each side, the low bits of the oldest row's number.
    fn oldest(&self) -> [u32; 2] {
        [self.logs[0].first() as u32, self.logs[1].first() as u32]
    }

    /// Returns the results for these rows in the epoch, for joins that track matches.
    fn collect(&mut self, rows: Range<usize>) -> Results {
        let mut results = Results::default();
        let firsts = self.oldest();
        let (epoch, logs, ordered) = (&self.epoch, &mut self.logs, self.ordered);
        let extent = Extent::Time(self.reach);
        let mut offsets: Vec<u32> = Vec::new();
        for_each_row(&self.replicas, epoch, ordered, firsts, rows, |row, matches| {
            let matches = matches.numbers();
            if matches.is_empty() {
                return;
            }
            let side = epoch.sides[row];
            if ordered {
                results.add_unmatched(logs, &extent, self.how, [Some(epoch.ts[row]); 2]);
            }
            offsets.clear();
            offsets.extend(
                matches.iter().map(|number| number.wrapping_sub(firsts[side.other() as usize])),
            );
            let offset = epoch.numbers[row].wrapping_sub(firsts[side as usize]);
            results.add(logs, self.how, side, offset, &offsets);
        });
        results
    }

    /// Removes dropped rows from the buffers if doing so is worthwhile.
    fn tidy(&mut self) {
        let oldest = self.oldest();
        let come = [self.logs[0].end(), self.logs[1].end()];
        let is_due = come.iter().zip(self.packed).any(|(come, packed)| come - packed > PACKED_ROWS);
        for replica in &mut self.replicas {
            if is_due { replica.pack(oldest) } else { replica.tidy(oldest) }
        }
        if is_due {
            self.packed = come;
        }
    }
}

impl KeyedJoin for StreamingJoin {
    fn take_silent(&mut self) -> Vec<u32> {
        self.key_rows.take_silent()
    }

    fn split_keys(&self) -> Option<usize> {
        Some(self.assignment.split_keys())
    }
}

impl RowJoin<[&[u32]; 2]> for StreamingJoin {
    fn begin(&mut self, driver: &Driver, ts: Vec<i64>, sides: Vec<Side>, keys: [&[u32]; 2]) {
        assert!(self.is_done(), "the previous epoch must have ended");
        assert_eq!(
            (ts.len(), ts.len()),
            (sides.len(), keys[0].len() + keys[1].len()),
            "one side and one key per row"
        );
        self.next = 0;
        let firsts = [self.logs[0].end() as u32, self.logs[1].end() as u32];
        let StreamingJoin { logs, key_rows, times, epoch, assignment, .. } = self;
        // 1. Rows are added to the logs of their sides.
        let enter = || {
            split(&ts, &sides, keys.map(<[u32]>::len), times);
            for ((log, times), keys) in logs.iter_mut().zip(times).zip(keys) {
                log.extend(|columns| columns.extend(times, keys));
                key_rows.add(keys);
            }
        };
        // 2. Meanwhile, keys and numbers are interleaved.
        let turn = assignment.turn(sides.len());
        let route = |row: usize, key: u32| assignment.route(row >> turn, key);
        let interleave = || epoch.interleave(&sides, keys, firsts, route);
        driver.both(enter, interleave);
        self.replicas.iter_mut().for_each(Replica::begin);
        (self.epoch.ts, self.epoch.sides) = (ts, sides);
    }

    fn epoch_rows(&self) -> usize {
        self.epoch.len()
    }

    fn is_done(&self) -> bool {
        self.next == self.epoch.len()
    }

    fn advance(
        &mut self,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Progress, JoinError> {
        // 1. The replicas process rows.
        let (rows, from) = (self.epoch.len(), self.next);
        let shared = EpochInputs {
            epoch: &self.epoch,
            assignment: &self.assignment,
            reach: &self.reach,
            logs: &self.logs,
        };
        let behind: Vec<(usize, &mut Replica)> = self
            .replicas
            .iter_mut()
            .enumerate()
            .filter(|(_, replica)| replica.next() < rows)
            .collect();
        let run = |(me, replica): (usize, &mut Replica)| {
            replica.drop_before(from);
            replica.run(me as u16, &shared, MOST_PAIRS, filter, driver)
        };
        let ran = if rows - from < SMALL_EPOCH && filter.is_none() {
            behind.into_iter().map(run).collect()
        } else {
            driver.map(behind, run).map_err(JoinError::Stopped)?
        };
        ran.into_iter().collect::<Result<(), _>>().map_err(JoinError::Filter)?;
        // 2. The results of rows that all replicas have processed are combined.
        let upto = self.replicas.iter().map(Replica::next).min().unwrap_or(rows);
        self.next = upto;
        let is_outer = self.logs.iter().any(RowLog::is_outer);
        let progress = if is_outer {
            Progress::Results(self.collect(from..upto))
        } else {
            Progress::Pieces(pieces(from..upto))
        };
        if self.is_done() {
            let (comparisons, oldest) = (self.comparisons(), self.oldest());
            let replicas = &self.replicas;
            let holds = |me: u16, split| replicas[usize::from(me)].holds(split, oldest);
            let KeyedEpoch { keys, sides, .. } = &self.epoch;
            self.assignment.observe(keys, sides, &comparisons, filter.is_some(), holds);
        }
        Ok(progress)
    }

    fn assemble(&self, rows: Range<usize>) -> Results {
        let pair = |row: usize| {
            self.replicas.iter().map(|replica| replica.cursor(row).pair()).sum::<usize>()
        };
        let mut pairs = PairResults::new(pair(rows.end) - pair(rows.start));
        let firsts = self.oldest();
        for_each_row(&self.replicas, &self.epoch, self.ordered, firsts, rows, |row, matches| {
            let side = self.epoch.sides[row];
            let offset = self.epoch.numbers[row].wrapping_sub(firsts[side as usize]);
            pairs.add(side, offset, matches, firsts[side.other() as usize]);
        });
        pairs.finish()
    }

    fn unmatched(&mut self, now: SideWatermarks) -> Results {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let mut results = Results::default();
        results.add_unmatched(&mut self.logs, &Extent::Time(self.reach), self.how, now);
        results
    }

    fn purge(&mut self, now: SideWatermarks) {
        debug_assert!(self.is_done(), "rows of the epoch may still match");
        let_go(&mut self.logs, &mut self.key_rows, &self.reach, now);
        for (me, replica) in self.replicas.iter_mut().enumerate() {
            match now[0] {
                Some(_) => replica.forget(me as u16, &self.assignment, self.key_rows.silent()),
                None => replica.clear(),
            }
        }
        self.assignment.forget(self.key_rows.silent());
        self.tidy();
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
        self.replicas.iter().map(Replica::comparisons).collect()
    }

    fn memory(&self) -> usize {
        let of_replicas: usize = self.replicas.iter().map(Replica::memory).sum();
        let of_keys = self.key_rows.memory() + self.assignment.memory();
        of_replicas + self.logs.iter().map(RowLog::memory).sum::<usize>() + of_keys
    }

    fn restore(&mut self, kept: &[SavedRows; 2], keys: [&[u32]; 2]) {
        for ((log, kept), keys) in self.logs.iter_mut().zip(kept).zip(keys) {
            log.restore(kept, |columns| columns.extend(&kept.ts, keys));
            self.key_rows.add(keys);
        }
        for (me, replica) in self.replicas.iter_mut().enumerate() {
            replica.restore(me as u16, &self.logs, &self.assignment, &self.reach);
        }
    }
}

/// Splits the times of the rows by side and writes them to `times`. `rows` is the number of rows on
/// each side. The code does not branch on the side, because the side is unpredictable. Instead,
/// each row's time is written to the arrays of both sides, and the wrong entry is overwritten
/// later.
pub fn split(ts: &[i64], sides: &[Side], rows: [usize; 2], times: &mut [Vec<i64>; 2]) {
    times.iter_mut().zip(rows).for_each(|(times, rows)| times.resize(rows + 1, 0));
    let mut at = 0;
    for (nth, (&ts, &side)) in ts.iter().zip(sides).enumerate() {
        times[0][at] = ts;
        times[1][nth - at] = ts;
        at += usize::from(side == Side::Left);
    }
    times.iter_mut().zip(rows).for_each(|(times, rows)| times.truncate(rows));
}

/// Drops the keys without rows, and the rows that no row at `now` or later can match.
pub fn let_go(
    logs: &mut [RowLog<Chunks>; 2],
    key_rows: &mut KeyRows,
    reach: &Reach,
    now: SideWatermarks,
) {
    key_rows.begin_purge();
    for log in logs {
        let is_needed = log.is_outer() || reach.is_stored(log.side());
        let over = if is_needed { log.over(&Extent::Time(*reach), now) } else { log.len() };
        let rows = log.droppable(over);
        log.columns().first_keys(rows).for_each(|keys| key_rows.remove(keys));
        log.drop_first(rows);
    }
}

/// Divides the rows in an epoch into pieces. The division does not depend on the number of threads.
pub fn pieces(rows: Range<usize>) -> Vec<Range<usize>> {
    let pieces = (rows.len() / PIECE).max((rows.len() / LEAST_PIECE).clamp(1, 2));
    let size = rows.len().div_ceil(pieces).max(1);
    rows.clone().step_by(size).map(|from| from..rows.end.min(from + size)).collect()
}

/// Calls `each` for every row that the replicas have processed in this epoch. `each` receives the
/// row and the numbers of its matches, earliest first. If the join is not `ordered`, rows can be
/// passed in any order, and each row is passed once per replica.
fn for_each_row(
    replicas: &[Replica],
    epoch: &KeyedEpoch,
    ordered: bool,
    firsts: [u32; 2],
    rows: Range<usize>,
    mut each: impl FnMut(usize, ReplicaMatches<'_>),
) {
    let mut cursors: Vec<ReplicaCursor<'_>> =
        replicas.iter().map(|replica| replica.cursor(rows.start)).collect();
    if !ordered {
        for cursor in &mut cursors {
            while let Some((row, matches)) = cursor.next(rows.end) {
                each(row, matches);
            }
        }
        return;
    }
    let mut merged: Vec<u32> = Vec::new();
    for row in rows {
        match Assignment::looks(epoch.routes[row]) {
            LookAssignment::None => {}
            LookAssignment::One(replica) => each(row, cursors[replica].take(row)),
            LookAssignment::Several => {
                let looked = cursors.iter_mut().filter(|cursor| cursor.peek() == Some(row));
                let mut found =
                    looked.map(|cursor| cursor.take(row)).filter(|matches| matches.len() > 0);
                let Some(matches) = found.next() else { continue };
                let Some(others) = found.next() else {
                    each(row, matches);
                    continue;
                };
                // The matches of each replica are sorted; here they are merged.
                merged.clear();
                merged.extend_from_slice(matches.numbers());
                let first = firsts[epoch.sides[row].other() as usize];
                std::iter::once(others)
                    .chain(found)
                    .for_each(|others| merge(&mut merged, others.numbers(), first));
                let len = merged.len();
                merged.resize(len + LANES, 0);
                each(row, ReplicaMatches::new(&merged, len));
            }
        }
    }
}

/// Merges numbers into others. Both lists must be sorted by distance from `first` and must not be
/// empty.
fn merge(merged: &mut Vec<u32>, numbers: &[u32], first: u32) {
    if merged[merged.len() - 1].wrapping_sub(first) < numbers[0].wrapping_sub(first) {
        merged.extend_from_slice(numbers);
        return;
    }
    let (mut own, mut more) = (merged.len(), numbers.len());
    merged.resize(own + more, 0);
    // The merge runs backwards, without a branch on which number is later, because that is
    // unpredictable.
    while own > 0 && more > 0 {
        let (a, b) = (merged[own - 1], numbers[more - 1]);
        let is_own = a.wrapping_sub(first) > b.wrapping_sub(first);
        merged[own + more - 1] = if is_own { a } else { b };
        own -= usize::from(is_own);
        more -= usize::from(!is_own);
    }
    merged[..more].copy_from_slice(&numbers[..more]);
}

#[cfg(test)]
mod tests;
