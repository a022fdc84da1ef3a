//! A reader's view of the sources: its position in each log, and the rows that it has not handed
//! out yet.

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_sync::atomic::Arc;

use super::log::{LogEntry, LogRecord, PushedRun, Run};
use crate::gate::key::{Key, Rank, RowId};
use crate::gate::promise::{Promise, Sources};

/// One source.
#[derive(Debug)]
pub(super) struct SourceLane<R> {
    /// The last log entry that the reader has followed.
    seen: Arc<LogRecord<R>>,
    /// The source's promise as of that entry.
    promise: Promise,
    /// Runs with rows that are not in a block yet, oldest first.
    runs: VecDeque<Arc<LogRecord<R>>>,
    /// The first row in the oldest run that is not in a block yet.
    start: usize,
    /// The position up to which rows belong to the block being planned. If no block is being
    /// planned, this is the start.
    cursor: Cursor,
}

/// The position of a row in the runs that have not been handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    run: usize,
    row: usize,
}

/// Rows from one run that belong to a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// In a planned block, this is the run's number within the block. Until the block is planned,
    /// this is the run's number within its lane.
    pub(super) run: usize,
    lane: usize,
    pub(super) row: usize,
    pub(super) rows: usize,
}

impl<R> Clone for SourceLane<R> {
    fn clone(&self) -> Self {
        SourceLane { seen: self.seen.clone(), runs: self.runs.clone(), ..*self }
    }
}

impl<R: Run> SourceLane<R> {
    fn new(log: Arc<LogRecord<R>>, promise: Promise) -> Self {
        SourceLane {
            seen: log,
            promise,
            runs: VecDeque::new(),
            start: 0,
            cursor: Cursor { run: 0, row: 0 },
        }
    }

    /// Returns the event time of the row at the cursor.
    #[inline]
    fn head(&self) -> Option<i64> {
        self.runs.get(self.cursor.run).map(|record| record.rows().run.ts()[self.cursor.row])
    }

    /// Returns the number of rows from the cursor onwards that do not sort after `last`. `likely`
    /// is an estimate.
    #[inline]
    fn count(&self, last: Key, likely: usize) -> usize {
        let Cursor { run, mut row } = self.cursor;
        let mut count = 0;
        for record in self.runs.range(run..) {
            let pushed = record.rows();
            let ts = &pushed.run.ts()[row..];
            let found = rows_upto(ts, pushed.first.plus(row), last, likely);
            count += found;
            if found < ts.len() {
                break;
            }
            row = 0;
        }
        count
    }

    /// Advances the cursor by `rows` rows. Each piece that the cursor passes is appended to
    /// `pieces`.
    #[inline]
    fn advance(&mut self, lane: usize, mut rows: usize, pieces: &mut Vec<Piece>) {
        while rows > 0 {
            let Cursor { run, row } = self.cursor;
            let rest = self.runs[run].rows().run.ts().len() - row;
            let taken = rows.min(rest);
            pieces.push(Piece { run, lane, row, rows: taken });
            rows -= taken;
            self.cursor = if taken == rest {
                Cursor { run: run + 1, row: 0 }
            } else {
                Cursor { run, row: row + taken }
            };
        }
    }

    /// Returns the runs with rows between the start and the cursor.
    fn passed(&self) -> impl Iterator<Item = &Arc<LogRecord<R>>> {
        let Cursor { run, row } = self.cursor;
        let begun = usize::from(row > if run == 0 { self.start } else { 0 });
        self.runs.range(..run + begun)
    }

    /// Returns the key of the row before the cursor, if the cursor is after the start.
    fn last_passed(&self) -> Option<Key> {
        let Cursor { run, row } = self.cursor;
        let (run, row) = match (run, row) {
            (0, row) if row == self.start => return None,
            (run, 0) => (run - 1, self.runs[run - 1].rows().run.ts().len() - 1),
            (run, row) => (run, row - 1),
        };
        let pushed = self.runs[run].rows();
        Some(Key { ts: pushed.run.ts()[row], id: pushed.first.plus(row) })
    }

    /// Drops the rows before the cursor, because they are now in a block.
    fn commit(&mut self) {
        self.runs.drain(..self.cursor.run);
        self.start = self.cursor.row;
        self.cursor.run = 0;
    }

    /// Returns whether no rows are left and no more rows can arrive.
    fn is_done(&self) -> bool {
        self.promise == Promise::Closed && self.runs.is_empty()
    }
}

/// Returns how many rows with the times `ts` do not sort after `last`. The id of the first row is
/// `first`.
#[inline]
fn rows_upto(ts: &[i64], first: RowId, last: Key, likely: usize) -> usize {
    // Rows at `last.ts` are included if their source ranks below that of `last`, and excluded if it
    // ranks above. Rows of the same source are included up to the position of `last`.
    let at_last = match first.rank().cmp(&last.id.rank()) {
        std::cmp::Ordering::Less => usize::MAX,
        std::cmp::Ordering::Greater => 0,
        std::cmp::Ordering::Equal => {
            (last.id.position() + 1).saturating_sub(first.position()) as usize
        }
    };
    if at_last == 0 {
        return lower_bound(ts, likely, |ts| ts < last.ts);
    }
    let upto = lower_bound(ts, likely, |ts| ts <= last.ts);
    if upto <= at_last { upto } else { at_last.max(lower_bound(ts, likely, |ts| ts < last.ts)) }
}

/// Returns how many elements at the start of the sorted `ts` satisfy `below`. The search begins
/// around `likely`.
#[inline]
fn lower_bound(ts: &[i64], likely: usize, below: impl Fn(i64) -> bool) -> usize {
    let (mut from, mut window) = (0, likely.max(8));
    while from + window < ts.len() && below(ts[from + window - 1]) {
        from += window;
        window *= 2;
    }
    let to = ts.len().min(from + window);
    from + ts[from..to].partition_point(|&ts| below(ts))
}

/// The sources that a reader knows, sorted by rank. A reader knows a source once the reader has
/// reached the source's start. The reader forgets the source once the source is closed and all of
/// its rows are in blocks.
#[derive(Debug)]
pub(super) struct Lanes<R> {
    by_rank: Vec<(Rank, SourceLane<R>)>,
}

impl<R> Clone for Lanes<R> {
    fn clone(&self) -> Self {
        Lanes { by_rank: self.by_rank.clone() }
    }
}

impl<R: Run> Lanes<R> {
    pub(super) fn new(logs: &[(Rank, Arc<LogRecord<R>>)]) -> Self {
        let lane = |(rank, log): &(Rank, Arc<LogRecord<R>>)| {
            (*rank, SourceLane::new(log.clone(), Promise::From(i64::MIN)))
        };
        let mut by_rank: Vec<_> = logs.iter().map(lane).collect();
        by_rank.sort_by_key(|&(rank, _)| rank);
        Lanes { by_rank }
    }

    fn iter(&self) -> impl Iterator<Item = &SourceLane<R>> {
        self.by_rank.iter().map(|(_, lane)| lane)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut SourceLane<R>> {
        self.by_rank.iter_mut().map(|(_, lane)| lane)
    }

    /// Returns the index of the source with this rank. If there is none, returns the index where it
    /// would be inserted.
    fn find(&self, rank: Rank) -> Result<usize, usize> {
        self.by_rank.binary_search_by_key(&rank, |&(rank, _)| rank)
    }

    /// Returns the rows that are not yet in a block, as ranges of runs ordered by rank and
    /// position.
    pub(super) fn unread(&self) -> impl Iterator<Item = (&PushedRun<R>, Range<usize>)> {
        self.iter().flat_map(|lane| {
            lane.runs.iter().enumerate().map(|(nth, record)| {
                let pushed = record.rows();
                (pushed, if nth == 0 { lane.start } else { 0 }..pushed.run.ts().len())
            })
        })
    }

    /// Returns the number of sources that have rows to hand out or may still receive some.
    pub(super) fn open(&self) -> usize {
        self.by_rank.len()
    }

    /// Returns the smallest event time among the rows at the cursors.
    pub(super) fn first_ts(&self) -> Option<i64> {
        self.iter().filter_map(SourceLane::head).min()
    }

    /// Returns the number of rows from the cursors onwards that do not sort after `last`. For each
    /// open source, writes the number of rows that do not sort after `last` to `counts`.
    pub(super) fn count(&self, last: Key, likely: usize, counts: &mut Vec<usize>) -> usize {
        counts.clear();
        counts.extend(self.iter().map(|lane| lane.count(last, likely)));
        counts.iter().sum()
    }

    /// Advances the cursors by `counts`. Each piece that a cursor passes is appended to `pieces`,
    /// ordered by rank and position.
    pub(super) fn advance(&mut self, counts: &[usize], pieces: &mut Vec<Piece>) {
        for (lane, (open, &rows)) in self.iter_mut().zip(counts).enumerate() {
            open.advance(lane, rows, pieces);
        }
    }

    /// Returns the runs with rows between the starts and the cursors, ordered by rank and position.
    /// Updates `pieces` to refer to the runs by their indices in the returned list.
    pub(super) fn passed(&self, pieces: &mut [Piece]) -> Vec<Arc<LogRecord<R>>> {
        let (mut runs, mut first_of_lane) = (Vec::new(), Vec::with_capacity(self.by_rank.len()));
        for lane in self.iter() {
            first_of_lane.push(runs.len());
            runs.extend(lane.passed().cloned());
        }
        for piece in pieces {
            piece.run += first_of_lane[piece.lane];
        }
        runs
    }

    /// Returns the key of the last row before the cursors.
    pub(super) fn last_passed(&self) -> Option<Key> {
        self.iter().filter_map(SourceLane::last_passed).max()
    }

    /// Drops the rows before the cursors, because they are now in a block.
    pub(super) fn commit(&mut self) {
        self.iter_mut().for_each(SourceLane::commit);
        self.by_rank.retain(|(_, lane)| !lane.is_done());
    }

    /// Moves the cursors back to the first rows that are not in a block.
    pub(super) fn reset(&mut self) {
        for lane in self.iter_mut() {
            lane.cursor = Cursor { run: 0, row: lane.start };
        }
    }
}

impl<R: Run> Sources for Lanes<R> {
    fn look(&mut self, source: Rank, mut joined: impl FnMut(i64, Rank)) -> Promise {
        let Ok(at) = self.find(source) else { return Promise::Closed };
        let lane = &mut self.by_rank[at].1;
        let mut forks = Vec::new();
        while let Some(record) = lane.seen.next.get() {
            match &record.entry {
                LogEntry::Begin => unreachable!("only the first entry of a log is `Begin`"),
                LogEntry::Rows(pushed) => {
                    lane.promise =
                        Promise::From(*pushed.run.ts().last().expect("empty runs are not pushed"));
                    lane.runs.push_back(record.clone());
                }
                LogEntry::Advance(ts) => lane.promise = Promise::From(*ts),
                LogEntry::Fork { rank, from, log } => forks.push((*rank, *from, log.clone())),
                LogEntry::Close => lane.promise = Promise::Closed,
            }
            lane.seen = record;
        }
        let promise = lane.promise;
        for (rank, from, log) in forks {
            joined(from, rank);
            let at = self.find(rank).expect_err("a source joins only once");
            self.by_rank.insert(at, (rank, SourceLane::new(log, Promise::From(from))));
        }
        promise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_up_to_a_key() {
        let ts = [1, 3, 3, 3, 5];
        let first = RowId::new(4, 10);
        for likely in [0, 1, 2, 100] {
            let count = |ts_last, source, position| {
                rows_upto(&ts, first, Key { ts: ts_last, id: RowId::new(source, position) }, likely)
            };
            assert_eq!(count(0, 9, 0), 0);
            assert_eq!(count(3, 3, 99), 1, "lower source: rows at 3 sort later");
            assert_eq!(count(3, 5, 0), 4, "higher source: rows at 3 sort earlier");
            assert_eq!(
                (10..16).map(|position| count(3, 4, position)).collect::<Vec<_>>(),
                [1, 2, 3, 4, 4, 4]
            );
            assert_eq!(count(4, 0, 0), 4);
            assert_eq!(count(i64::MAX, 4, 0), 5);
        }
    }
}
