//! Scale-OIJ: each row is assigned to one joiner in the team for its key. The joiner stores the row
//! in a list sorted by time, and searches the lists of the whole team.
//!
//! ```text
//!                 ┌─▶ joiner 0: lists of rows 0, 3 ─┐  each searches all lists
//!  row of key 7 ──┤                                 ├─ of the team, as they were ─▶ in order
//!                 └─▶ joiner 1: lists of rows 1, 2 ─┘  when its row arrived
//! ```
//!
//! The join is from Zhang, Zeng, Zhang, Liu, Lu and Zheng, "Scalable Online Interval Join on Modern
//! Multicore Processors in OpenMLDB" (ICDE 2023), and from the code that the authors published in
//! OpenMLDB.
//!
//! 1. *Partition*: a row is assigned to one random joiner from its key's team.
//!
//! 2. *Store*: the joiner inserts the row into its own list for the key. No other thread writes to
//!    this list ([`TimeTravel`](crate::time_travel::TimeTravel)).
//!
//! 3. *Search*: the joiner walks backwards through all of the team's lists for the other side,
//!    while the team's joiners add rows. The joiner sees the rows that precede its own row.
//!
//! 4. *Cut*: once per retention time, a joiner removes old rows from its lists.
//!
//! 5. *Schedule*: if a key's joiners have more work than the others, another joiner is added to the
//!    key's team.
//!
//! # Departures
//!
//! 1. Rows arrive in merged order from the operator's gate, one epoch at a time, instead of one by
//!    one from a partitioner's queues. Each joiner selects its rows from the epoch and stops at the
//!    end of the epoch.
//!
//! 2. A row is matched with the rows that precede it in merged order, regardless of which rows
//!    other threads have already stored. A search therefore waits until all earlier rows have been
//!    stored. In the meantime, the joiner stores further rows. Searches skip rows that are later in
//!    merged order. Comments in the published code mention races that cause pairs to be missed.
//!
//! 3. The matches of each row are sorted, and so are the rows of all joiners.
//!
//! 4. Teams change between epochs, after about the same amount of work as in the published code.
//!
//! 5. For each row on one side (the *base*), the authors' join aggregates the matches. The authors'
//!    join starts from the aggregate of an earlier base row and subtracts the rows that have left
//!    the window. The counterpart in tidegate aggregates a left row's partners
//!    ([`aggregate::partners`](tidegate_operators::aggregate)) in separate passes. The join in this
//!    module returns pairs instead.
//!
//! # Trade-offs
//!
//! A row is stored once and passed to one thread. However, this thread walks through the whole
//! team's lists node by node, and other threads have just written to these lists. With a team of
//! one joiner, the algorithm amounts to key parallelism with a slower list.
//!
//! # Files
//!
//! | file | contents |
//! | --- | --- |
//! | `joiner.rs` | one joiner's lists, and its work on an epoch |
//! | `schedule.rs` | the schedule that decides which joiners share a key |

mod joiner;
mod schedule;

use std::fmt;
use std::ops::Range;

use tidegate_structures::memory;
use tidegate_sync::Prefix;

use crate::threads::take_turns;
pub use joiner::JoinerWork;
use joiner::{EpochInput, Joiner, works};
use schedule::Schedule;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::streaming::{
    Chunks, KeyRows, KeyedEpoch, KeyedJoin, let_go, pieces, split,
};
use tidegate_operators::rows::{
    Extent, Filter, How, Interval, JoinError, NO_KEY, Progress, Reach, Results, RowJoin, RowLog,
    SavedRows, Side, SideWatermarks,
};

/// The approximate number of bytes that a row needs in a list: a node and its share of the higher
/// levels. The number is doubled because old rows that have not been cut off yet can take up the
/// same amount of space again.
pub const NODE_BYTES: usize = 2 * (16 + 16 / 3);

/// The state of a join.
///
/// An unmatched left row is emitted once no match for it can arrive:
///
/// ```
/// use tidegate_operators::driver::Driver;
/// use tidegate_papers::scale_oij::ScaleOij;
/// use tidegate_operators::rows::{Closed, How, Interval, NO_ROW, RowJoin, Side};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(2, Stop::default());
/// let near = Interval { lower: Some(-2), upper: Some(2), closed: Closed::Both };
/// let mut join = ScaleOij::new(&near, How::Left, 2);
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
pub struct ScaleOij {
    reach: Reach,
    how: How,
    logs: [RowLog<Chunks>; 2],
    joiners: Vec<Joiner>,
    schedule: Schedule,
    /// The number of rows that have arrived so far, which is used to assign rows to joiners at
    /// random.
    come: u64,
    epoch: KeyedEpoch,
    /// The low bits of each side's first row number in the epoch.
    first: [u32; 2],
    /// The epoch's rows that are in a list.
    stored: Prefix,
    /// The next row in the epoch whose results need to be collected.
    next: usize,
    key_rows: KeyRows,
}

impl fmt::Debug for ScaleOij {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScaleOij")
            .field("how", &self.how)
            .field("epoch", &self.epoch.len())
            .finish_non_exhaustive()
    }
}

impl ScaleOij {
    /// Creates an empty join with the given number of joiners.
    pub fn new(interval: &Interval, how: How, joiners: usize) -> Self {
        let log = |side| RowLog::new(side, how, Chunks::default());
        ScaleOij {
            reach: Reach::new(interval),
            how,
            logs: [log(Side::Left), log(Side::Right)],
            joiners: (0..joiners.max(1)).map(|_| Joiner::default()).collect(),
            schedule: Schedule::new(joiners.max(1)),
            come: 0,
            epoch: KeyedEpoch::default(),
            first: [0; 2],
            stored: Prefix::new(0),
            next: 0,
            key_rows: KeyRows::default(),
        }
    }

    /// Returns each joiner's work on the epoch. The work is run by one thread per joiner, or in
    /// turns by fewer threads.
    pub fn works<'a>(
        &'a mut self,
        driver: &Driver,
        filter: Option<&'a Filter<'a>>,
    ) -> Vec<JoinerWork<'a>> {
        let kept = self.oldest();
        let ScaleOij { joiners, epoch, reach, schedule, stored, first, .. } = self;
        let given = EpochInput { epoch, reach, schedule, stored, kept, first: *first };
        works(joiners, given, driver, filter)
    }

    /// Returns the low bits of each side's oldest row number.
    fn oldest(&self) -> [u32; 2] {
        [self.logs[0].first() as u32, self.logs[1].first() as u32]
    }

    /// Returns results for rows in the epoch, for a join that tracks which rows have been matched.
    fn collect(&mut self, rows: Range<usize>) -> Results {
        let kept = self.oldest();
        let (mut results, extent) = (Results::default(), Extent::Time(self.reach));
        let ScaleOij { joiners, epoch, logs, how, .. } = self;
        let mut offsets: Vec<u32> = Vec::new();
        for_each_row(joiners, epoch, rows, |row, matches| {
            let side = epoch.sides[row];
            results.add_unmatched(logs, &extent, *how, [Some(epoch.ts[row]); 2]);
            let first = kept[side.other() as usize];
            offsets.clear();
            offsets.extend(matches.iter().map(|number| number.wrapping_sub(first)));
            let offset = epoch.numbers[row].wrapping_sub(kept[side as usize]);
            results.add(logs, *how, side, offset, &offsets);
        });
        results
    }
}

impl KeyedJoin for ScaleOij {
    fn take_silent(&mut self) -> Vec<u32> {
        self.key_rows.take_silent()
    }

    fn split_keys(&self) -> Option<usize> {
        Some(self.key_rows.keys().filter(|&key| self.schedule.team(key).len() > 1).count())
    }
}

impl RowJoin<[&[u32]; 2]> for ScaleOij {
    fn begin(&mut self, driver: &Driver, ts: Vec<i64>, sides: Vec<Side>, keys: [&[u32]; 2]) {
        assert!(self.is_done(), "an epoch begins only after the previous one has ended");
        assert_eq!(
            (ts.len(), ts.len()),
            (sides.len(), keys[0].len() + keys[1].len()),
            "one side and one key per row"
        );
        self.next = 0;
        self.first = [self.logs[0].end() as u32, self.logs[1].end() as u32];
        let ScaleOij { logs, key_rows, epoch, schedule, first, come, joiners, .. } = self;
        // 1. The rows are added to the logs of their sides.
        let enter = || {
            let mut times = [Vec::new(), Vec::new()];
            split(&ts, &sides, keys.map(<[u32]>::len), &mut times);
            for ((log, times), keys) in logs.iter_mut().zip(&times).zip(keys) {
                log.extend(|columns| columns.extend(times, keys));
                key_rows.add(keys);
            }
        };
        // 2. Meanwhile, each row is assigned a joiner. A row without a key, which no row searches
        //    for, can go to any joiner.
        let route = |row: usize, key: u32| match key {
            NO_KEY => (row % joiners.len()) as u16,
            key => schedule.joiner(key, *come + row as u64),
        };
        driver.both(enter, || epoch.interleave(&sides, keys, *first, route));
        self.come += ts.len() as u64;
        self.stored = Prefix::new(ts.len());
        self.joiners.iter_mut().for_each(Joiner::begin);
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
        let (rows, from) = (self.epoch.len(), self.next);
        self.joiners.iter_mut().for_each(|joiner| joiner.drop_before(from));
        // 1. The joiners store rows and search for matches.
        let fitting = if filter.is_some() { driver.clone() } else { driver.fit(rows - from) };
        let works = self.works(&fitting, filter);
        let turns = works.into_iter().map(|mut work| move || work.step()).collect();
        take_turns(&fitting, turns).map_err(JoinError::Stopped)?;
        if let Some(error) = self.joiners.iter_mut().find_map(Joiner::take_failure) {
            return Err(JoinError::Filter(error));
        }
        // 2. The results of rows for which all searches have finished are combined.
        let upto = self.joiners.iter().map(|joiner| joiner.next(rows)).min().unwrap_or(rows);
        self.next = upto;
        let is_outer = self.logs.iter().any(RowLog::is_outer);
        let progress = if is_outer {
            Progress::Results(self.collect(from..upto))
        } else {
            Progress::Pieces(pieces(from..upto))
        };
        if self.is_done() {
            let keys = self.epoch.keys.iter().copied();
            self.schedule.observe(keys.filter(|&key| key != NO_KEY));
        }
        Ok(progress)
    }

    fn assemble(&self, rows: Range<usize>) -> Results {
        let before =
            |row| self.joiners.iter().map(|joiner| joiner.matches_before(row)).sum::<usize>();
        let pairs = before(rows.end) - before(rows.start);
        let mut results = Results { left: memory::vec(pairs), right: memory::vec(pairs) };
        let kept = self.oldest();
        for_each_row(&self.joiners, &self.epoch, rows, |row, matches| {
            let side = self.epoch.sides[row];
            let offset = self.epoch.numbers[row].wrapping_sub(kept[side as usize]);
            let first = kept[side.other() as usize];
            results.pair(side, offset, matches.iter().map(|number| number.wrapping_sub(first)));
        });
        results
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
        for joiner in &mut self.joiners {
            match now[0] {
                // If a key has no new rows, its old rows are cut off with all others of the same
                // age.
                Some(_) => joiner.recycle(),
                None => joiner.clear(),
            }
        }
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
        self.joiners.iter().map(Joiner::comparisons).collect()
    }

    fn memory(&self) -> usize {
        self.joiners.iter().map(Joiner::memory).sum::<usize>()
            + self.logs.iter().map(RowLog::memory).sum::<usize>()
            + self.key_rows.memory()
    }

    fn restore(&mut self, kept: &[SavedRows; 2], keys: [&[u32]; 2]) {
        for ((log, kept), keys) in self.logs.iter_mut().zip(kept).zip(keys) {
            log.restore(kept, |columns| columns.extend(&kept.ts, keys));
            self.key_rows.add(keys);
            let side = log.side();
            if !self.reach.is_stored(side) {
                continue;
            }
            for (number, (&key, &ts)) in (log.first() as u32..).zip(keys.iter().zip(&kept.ts)) {
                if key != NO_KEY {
                    let joiner = self.schedule.joiner(key, number.into());
                    self.joiners[usize::from(joiner)].enter(side, key, ts, number);
                }
            }
        }
    }
}

/// Calls a function for each row in the epoch that has matches. The function receives the numbers
/// of the matches.
fn for_each_row(
    joiners: &[Joiner],
    epoch: &KeyedEpoch,
    rows: Range<usize>,
    mut each: impl FnMut(usize, &[u32]),
) {
    let found = joiners.iter().map(|joiner| joiner.matches(rows.start).peekable());
    let mut found: Vec<_> = found.collect();
    for row in rows {
        let of_joiner = &mut found[usize::from(epoch.routes[row])];
        if let Some((_, matches)) = of_joiner.next_if(|&(next, _)| next == row)
            && !matches.is_empty()
        {
            each(row, matches);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
