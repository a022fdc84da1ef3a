//! The parallel index-based window join as published: threads take tasks of a few rows from a
//! shared queue.
//!
//! ```text
//!            completed           active      available
//! queue   │ 1 2 │ 3 4 │ 5 6 │ 7 8 │ 9 10 │ 11 12 │ 13 14 │
//!           └──▶ results, in order          └──▶ the next idle thread
//!
//! window  │ indexed: found by the index │ edge: compared one by one │ later rows
//!         from                         edge                        upto
//! ```
//!
//! The join is from section 4 of Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a
//! Multicore CPU" (SIGMOD 2020). A task's steps:
//!
//! 1. *Acquire*: some rows become active, and the thread receives the current indexes. The edge
//!    cannot move past the oldest active task, and rows from the edge onwards are compared one by
//!    one. If a thread were interrupted for a long time, the other threads would have to compare
//!    every row after its task. A thread therefore waits while the oldest active task is many tasks
//!    behind.
//!
//! 2. *Find*: for each row, the thread reads the other side's edge. Rows before the edge are looked
//!    up in the index, and rows from the edge onwards are compared one by one.
//!
//! 3. *Index*: the rows are inserted into their indexes and marked. Any thread can then move the
//!    edge forward.
//!
//! 4. *Propagate*: any thread can take the results of completed tasks, in order.
//!
//! When many rows have been inserted into an index, a thread merges the index. First, the thread
//! waits until the active tasks have finished; in the meantime, no new tasks start. In the first
//! phase, the thread builds the new tree, and other threads continue without indexing. The thread
//! then waits for the active tasks again and exchanges the trees. In the second phase, the thread
//! inserts the rows that were left out, and other threads continue with indexing. In the blocking
//! merge, all other threads wait instead.
//!
//! The paper compares this design with the same tasks over a general-purpose concurrent tree, a
//! Bw-tree. In this crate, a B+-tree with optimistic lock coupling replaces the Bw-tree (see
//! [`TaskIndex`]). The B+-tree needs no merges, and rows that have left the window are removed one
//! by one:
//!
//! 5. *Remove*: the thread removes some rows on either side that no task searches for any more.
//!
//! *Departures*: a row's window boundaries are recorded when the row is added to the queue. In the
//! paper, they are recorded when the row is assigned to a thread. These boundaries are computed
//! from the row's position in the merged order, so they do not depend on threads. The results of a
//! few tasks are combined, because they are passed on in pieces. A task is divided into steps at
//! the points where a thread may have to wait, so any scheduler can run tasks.
//!
//! Long because it contains every step of a task and of a merge, which depend on each other.

mod leaving;
mod merge;
mod queue;
mod shared_index;

use std::ops::Range;

use crate::trees::PimPlace;
use tidegate_structures::index::{Entry, Probe};
use tidegate_structures::memory::select::select_within;
use tidegate_sync::{Counter, Lock, Prefix, TryLock};

use crate::threads::{Turn, take_turns};
use leaving::LeavingRows;
use merge::Merge;
pub use merge::MergeOptions;
use queue::{Indexes, NextWork, Queue};
use shared_index::SharedIndex;
use tidegate_operators::band::index::{self, Find, RowMatches, Rows as EpochRows};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Filter, FilterError, JoinError};

/// The number of rows per task. The paper uses eight. With more rows, more memory accesses overlap.
/// The time saved outweighs the additional comparisons with rows that are not indexed yet.
const TASK_ROWS: usize = 64;

/// The number of tasks per active thread that may be handed out beyond the oldest active task.
const AHEAD: usize = 4;

/// The maximum number of rows and the maximum number of matches per result piece.
const PIECE: usize = if cfg!(test) { 7 } else { index::PIECE };
const MOST_MATCHES: usize = if cfg!(test) { 20 } else { index::MOST_MATCHES };

/// The number of a task's rows that are looked up in the indexes together.
const LOCATED: usize = if cfg!(any(test, loom)) { 3 } else { 64 };

/// The number of rows that a thread without a task removes at a time.
const REMOVED: usize = if cfg!(any(test, loom)) { 2 } else { 64 };

/// Options for running a join's tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskOptions {
    /// The number of rows per task.
    pub rows: usize,
    /// The index that looks up rows by key.
    pub index: TaskIndex,
}

/// An index that the threads of a join share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskIndex {
    /// A PIM-Tree.
    PimTree(MergeOptions),
    /// A B+-tree with optimistic lock coupling.
    BPlusTree,
}

impl Default for TaskOptions {
    fn default() -> Self {
        TaskOptions { rows: TASK_ROWS, index: TaskIndex::PimTree(MergeOptions::default()) }
    }
}

/// A row that searches the other side and is indexed.
#[derive(Clone, Copy, Debug)]
pub struct TaskRow {
    /// The row's side. Other rows search this side to find the row.
    pub side: usize,
    /// The side that the row searches. In a join of a stream with itself, this is the row's own
    /// side.
    pub other: usize,
    /// The row's number within its side, modulo 2^32.
    pub number: u32,
    /// The row's key, or `None` if the row cannot match anything.
    pub key: Option<i64>,
    /// The rows that this row searches for.
    pub probe: Probe,
}

/// The rows on one side in the queue.
#[derive(Debug)]
struct Side {
    /// The number of the first row.
    first: u32,
    /// The keys of the rows. The key of a row that cannot match anything is meaningless.
    keys: Vec<i64>,
    /// Marks the rows that can have matches. Empty if all rows can.
    joins: Vec<bool>,
    /// The rows that are in the index. The edge is the first row that may not be in the index.
    indexed: Prefix,
}

/// The state of a join in which threads process rows as tasks.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_papers::index_tasks::{TaskJoin, TaskOptions, TaskRow};
/// use tidegate_papers::threads::take_turns;
/// use tidegate_structures::index::Probe;
/// use tidegate_sync::Stop;
///
/// // A row of side 0 has the key 7. A row of side 1 then searches for keys from 6 to 10.
/// let probe = Probe { low: 5, high: 9, from: 0, to: 0 };
/// let first = TaskRow { side: 0, other: 1, number: 0, key: Some(7), probe };
/// let probe = Probe { low: 6, high: 10, from: 0, to: 1 };
/// let second = TaskRow { side: 1, other: 0, number: 0, key: Some(8), probe };
///
/// let mut join = TaskJoin::new(2, TaskOptions::default());
/// join.queue_up(vec![first, second]);
/// let workers = (0..2).map(|nth| join.worker(nth));
/// let turns = workers.map(|mut worker| move || worker.step()).collect();
/// take_turns(&Driver::new(2, Stop::default()), turns)?;
/// // No row precedes the first row, and the second row finds the first.
/// assert_eq!(join.take_matches(), [vec![], vec![0]]);
/// # Ok::<(), Stopped>(())
/// ```
#[derive(Debug)]
pub struct TaskJoin {
    options: TaskOptions,
    queue: Lock<Queue>,
    rows: Vec<TaskRow>,
    sides: Vec<Side>,
    /// The rows in each side's index, if rows are removed one by one.
    leaving: Vec<LeavingRows>,
    /// The results of each completed task.
    results: Vec<Lock<Option<Results>>>,
    /// The approximate number of matches found so far, and the number at which no more tasks are
    /// handed out.
    matches: Counter,
    enough: usize,
    output: TryLock<Output>,
}

/// The matches for a task's rows.
#[derive(Debug, Default)]
struct Results {
    numbers: Vec<u32>,
    ends: Vec<u32>,
    comparisons: u64,
    /// The number of the worker that ran the task.
    worker: usize,
}

/// Results in order.
#[derive(Debug, Default)]
struct Output {
    /// The next task whose results are needed, and the next row.
    task: usize,
    row: usize,
    pieces: Vec<RowMatches>,
}

impl TaskJoin {
    /// Creates an empty join with `sides` sides.
    pub fn new(sides: usize, options: TaskOptions) -> Self {
        let leave_one_by_one = match options.index {
            TaskIndex::PimTree(_) => 0,
            TaskIndex::BPlusTree => sides,
        };
        TaskJoin {
            options,
            queue: Lock::new(Queue::new(sides, options.index)),
            rows: Vec::new(),
            sides: Vec::new(),
            leaving: (0..leave_one_by_one).map(|_| LeavingRows::default()).collect(),
            results: Vec::new(),
            matches: Counter::new(0),
            enough: usize::MAX,
            output: TryLock::new(Output::default()),
        }
    }

    /// Adds rows to the queue. Numbers increase within each side. All rows added previously must
    /// have been processed.
    pub fn queue_up(&mut self, rows: Vec<TaskRow>) {
        let count = self.queue.with(|queue| queue.sides.len());
        let mut sides: Vec<Side> = (0..count).map(|_| Side::new()).collect();
        rows.iter().for_each(|row| sides[row.side].push(row));
        for side in &mut sides {
            side.indexed = Prefix::new(side.keys.len());
        }
        self.sides = sides;
        self.results =
            (0..rows.len().div_ceil(self.options.rows)).map(|_| Lock::new(None)).collect();
        let firsts: Vec<u32> = self.queue.with(|queue| {
            queue.begin(rows.len());
            queue.sides.iter().map(|side| side.first).collect()
        });
        for (side, leaving) in self.leaving.iter_mut().enumerate() {
            leaving.begin(entries(&rows, side));
            leaving.let_go(firsts[side]);
        }
        *self.output.get_mut() = Output::default();
        self.rows = rows;
    }

    /// Stops handing out tasks after about `most` matches have been found. The limit applies until
    /// the next call.
    pub fn limit(&mut self, most: usize) {
        self.matches.set(0);
        self.enough = most;
    }

    /// Returns a worker, which does the work of one thread. Any number of workers may take turns.
    /// Comparisons are counted per worker number.
    pub fn worker(&self, nth: usize) -> Worker<'_> {
        Worker { join: self, nth, merge: None, indexes: Indexes::default() }
    }

    /// Returns the results that have not been taken yet, in order, as pieces of adjacent rows.
    /// There must be no workers.
    fn take(&mut self) -> Vec<RowMatches> {
        self.propagate();
        std::mem::take(&mut self.output.get_mut().pieces)
    }

    /// Returns the matches that have not been taken yet, grouped by row and sorted by number within
    /// each row.
    pub fn take_matches(&mut self) -> Vec<Vec<u32>> {
        let sorted = |numbers: &[u32], row: &TaskRow| {
            let mut numbers = numbers.to_vec();
            numbers.sort_unstable_by_key(|number| number.wrapping_sub(row.probe.from));
            numbers
        };
        let pieces = self.take();
        let matches = pieces.iter().flat_map(|found| found.matches(found.rows.clone()));
        matches.map(|(row, numbers)| sorted(numbers, &self.rows[row])).collect()
    }

    /// Finds the matches for a task's rows and counts the comparisons for this worker.
    fn find(&self, rows: Rows, indexes: &Indexes, worker: usize) -> Results {
        // The edges are read once, before the search, so that the rows before them are in the
        // indexes.
        let edge = |side: &Side| side.first.wrapping_add(side.indexed.edge() as u32);
        let edges: Vec<u32> = self.sides.iter().map(edge).collect();
        let mut results = Results {
            numbers: Vec::with_capacity(2 * rows.len()),
            ends: Vec::with_capacity(rows.len()),
            comparisons: 0,
            worker,
        };
        for rows in self.rows[rows].chunks(LOCATED) {
            let places = locate(rows, indexes);
            for (row, place) in rows.iter().zip(places) {
                if row.key.is_some() {
                    let found = |probe: &Probe, numbers: &mut Vec<u32>| {
                        indexes.trees[row.other].find_at(place, probe, numbers);
                    };
                    self.find_row(row, edges[row.other], found, &mut results);
                }
                results.ends.push(results.numbers.len() as u32);
            }
        }
        results
    }

    /// Finds the matches of a row, given the other side's edge and the position in that side's
    /// index.
    fn find_row(
        &self,
        row: &TaskRow,
        edge: u32,
        find: impl Fn(&Probe, &mut Vec<u32>),
        results: &mut Results,
    ) {
        let (probe, other) = (&row.probe, &self.sides[row.other]);
        let upto = other.first.wrapping_add(other.keys.len() as u32);
        // Distances from the beginning of the row's window, in which numbers do not wrap.
        let from_window = |number: u32| number.wrapping_sub(probe.from);
        let window = from_window(probe.to);
        let is_before = |number: u32| from_window(number).cast_signed() < 0;
        let indexed = if other.keys.is_empty() {
            window
        } else if is_before(edge) {
            0
        } else {
            from_window(edge).min(window)
        };
        // 1. Rows before the edge are in the index.
        let before = results.numbers.len();
        find(&Probe { to: probe.from.wrapping_add(indexed), ..*probe }, &mut results.numbers);
        // 2. The other rows are compared one by one.
        results.comparisons +=
            (results.numbers.len() - before) as u64 + u64::from(window - indexed);
        debug_assert!(
            indexed == window || from_window(upto) >= window,
            "rows that are not indexed are in the queue"
        );
        if indexed < window {
            let from = probe.from.wrapping_add(indexed).wrapping_sub(other.first);
            other.scan(from..from + (window - indexed), probe, &mut results.numbers);
        }
    }

    /// Inserts the given rows that belong to a side into that side's index, and marks them.
    fn index(&self, side: usize, rows: Rows, index: &SharedIndex) {
        let rows = &self.rows[rows];
        for rows in rows.chunks(LOCATED) {
            let (mut own, mut count) = ([Entry::default(); LOCATED], 0);
            for entry in entries(rows, side) {
                own[count] = entry;
                count += 1;
            }
            index.insert_all(&own[..count]);
        }
        let own = rows.iter().filter(|row| row.side == side);
        let side = &self.sides[side];
        side.indexed.mark_all(own.map(|row| row.number.wrapping_sub(side.first) as usize));
    }

    /// Removes rows that have left the window from indexes that are not merged, at most `most` rows
    /// per side. Returns whether any rows were removed.
    fn remove(&self, indexes: &Indexes, most: usize) -> bool {
        let mut removed = false;
        for (leaving, index) in self.leaving.iter().zip(&indexes.trees) {
            if let SharedIndex::BPlusTree(tree) = index
                && let Some(places) = leaving.take(most)
            {
                removed = true;
                for Entry { key, row } in places.map(|at| leaving.row(at)) {
                    let was_there = tree.remove(key, row);
                    debug_assert!(was_there, "row {row} of {key} was inserted by its task");
                }
            }
        }
        removed
    }

    /// Replaces a side's index with one that contains these rows.
    fn set_index(&mut self, side: usize, index: SharedIndex, entries: Vec<Entry>) {
        self.queue.with(|queue| {
            queue.sides[side].index = index;
            queue.changes += 1;
        });
        if let Some(leaving) = self.leaving.get_mut(side) {
            *leaving = LeavingRows::of(entries);
        }
    }

    /// Takes the results of completed tasks in order, unless another thread is already doing so.
    fn propagate(&self) {
        self.output.try_with(|output| {
            let before = output.row;
            while let Some(results) =
                self.results.get(output.task).and_then(|slot| slot.with(Option::take))
            {
                output.push(results);
            }
            // Tasks are handed out in order, so windows only move forward. No other task searches
            // for rows before the windows of completed tasks.
            for (side, leaving) in self.leaving.iter().enumerate() {
                let through = &self.rows[before..output.row];
                if let Some(last) = through.iter().rfind(|row| row.other == side) {
                    leaving.let_go(last.probe.from);
                }
            }
        });
    }

    /// Returns whether all assigned tasks have completed and all rows that have left the window
    /// have been removed.
    fn is_through(&self, rows: usize) -> bool {
        self.output.try_with(|output| output.row == rows).unwrap_or(false)
            && self.leaving.iter().all(LeavingRows::is_through)
    }
}

impl Find for TaskJoin {
    fn begin(&mut self, rows: &EpochRows) {
        let task = |row: usize| {
            let (side, number, key, probe) = rows.row(row);
            TaskRow { side: side as usize, other: rows.other(side), number, key, probe }
        };
        self.queue_up((0..rows.len()).map(task).collect());
    }

    fn find(
        &mut self,
        rows: &EpochRows,
        _next: usize,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Vec<RowMatches>, JoinError> {
        self.limit(MOST_MATCHES);
        let workers = (0..driver.threads()).map(|nth| self.worker(nth));
        let turns = workers.map(|mut worker| move || worker.step()).collect();
        take_turns(driver, turns).map_err(JoinError::Stopped)?;
        let found = self.take();
        let refined =
            driver.map(found, |found| rows.refine(found, filter)).map_err(JoinError::Stopped)?;
        refined.into_iter().collect::<Result<_, FilterError>>().map_err(JoinError::Filter)
    }

    fn refill(&mut self, rows: &EpochRows, side: usize) {
        let entries = rows.entries(side, rows.numbers(side));
        let index = SharedIndex::new(self.options.index);
        index.insert_all(&entries);
        self.set_index(side, index, entries);
    }

    fn expire(&mut self, _: &EpochRows, side: usize, first: u64, is_all: bool) {
        self.queue.with(|queue| {
            queue.sides[side].first = first as u32;
        });
        if is_all {
            self.set_index(side, SharedIndex::new(self.options.index), Vec::new());
        }
    }

    fn merges(&self) -> u64 {
        self.queue.with(|queue| queue.merges)
    }

    fn memory(&self) -> usize {
        let indexes: Vec<SharedIndex> =
            self.queue.with(|queue| queue.sides.iter().map(|side| side.index.clone()).collect());
        indexes.iter().map(SharedIndex::memory).sum::<usize>()
            + self.leaving.iter().map(LeavingRows::memory).sum::<usize>()
    }
}

/// Returns the positions in the indexes for the probes of at most [`LOCATED`] rows.
fn locate(rows: &[TaskRow], indexes: &Indexes) -> [PimPlace; LOCATED] {
    let mut places = [PimPlace::default(); LOCATED];
    for (side, index) in indexes.trees.iter().enumerate() {
        let (mut lows, mut whose, mut count) = ([0; LOCATED], [0; LOCATED], 0);
        let own = rows.iter().enumerate().filter(|(_, row)| row.other == side);
        for (at, row) in own.filter(|(_, row)| row.key.is_some()) {
            (lows[count], whose[count]) = (row.probe.low, at);
            count += 1;
        }
        let mut found = [PimPlace::default(); LOCATED];
        index.locate(&lows[..count], &mut found[..count]);
        whose[..count].iter().zip(found).for_each(|(&at, place)| places[at] = place);
    }
    places
}

/// Returns a side's rows that can have matches.
fn entries(rows: &[TaskRow], side: usize) -> impl Iterator<Item = Entry> {
    let own = rows.iter().filter(move |row| row.side == side);
    own.filter_map(|row| Some(Entry { key: row.key?, row: row.number }))
}

impl Side {
    fn new() -> Self {
        Side { first: 0, keys: Vec::new(), joins: Vec::new(), indexed: Prefix::new(0) }
    }

    /// Appends the side's next row.
    fn push(&mut self, row: &TaskRow) {
        if self.keys.is_empty() {
            self.first = row.number;
        }
        if row.key.is_none() && self.joins.is_empty() {
            self.joins = vec![true; self.keys.len()];
        }
        if row.key.is_none() || !self.joins.is_empty() {
            self.joins.push(row.key.is_some());
        }
        self.keys.push(row.key.unwrap_or_default());
    }

    /// Checks which rows at these positions have keys that match the probe, and appends their
    /// numbers.
    fn scan(&self, places: Range<u32>, probe: &Probe, found: &mut Vec<u32>) {
        let (from, before) = (places.start, found.len());
        let keys = &self.keys[from as usize..places.end as usize];
        select_within(keys, probe.low, probe.high, from, found);
        if !self.joins.is_empty() {
            let mut kept = before;
            for at in before..found.len() {
                found[kept] = found[at];
                kept += usize::from(self.joins[found[at] as usize]);
            }
            found.truncate(kept);
        }
        found[before..].iter_mut().for_each(|place| *place = self.first.wrapping_add(*place));
    }
}

impl Output {
    fn push(&mut self, results: Results) {
        let is_full =
            |piece: &RowMatches| piece.rows.len() >= PIECE || piece.numbers.len() >= MOST_MATCHES;
        if self.pieces.last().is_none_or(is_full) {
            self.pieces.push(RowMatches { rows: self.row..self.row, ..RowMatches::default() });
        }
        let piece = self.pieces.last_mut().expect("a piece was pushed");
        let before = piece.numbers.len() as u32;
        piece.numbers.extend_from_slice(&results.numbers);
        piece.ends.extend(results.ends.iter().map(|end| before + end));
        piece.compare(results.worker, results.comparisons);
        piece.rows.end += results.ends.len();
        self.row = piece.rows.end;
        self.task += 1;
    }
}

/// The work that one thread does for a join, step by step (see [`step`](Self::step)).
#[derive(Debug)]
pub struct Worker<'a> {
    join: &'a TaskJoin,
    nth: usize,
    /// The merge that this thread is performing.
    merge: Option<Merge>,
    /// The indexes that the worker's task uses.
    indexes: Indexes,
}

impl Worker<'_> {
    /// Runs a task or part of a merge, if there is any work.
    pub fn step(&mut self) -> Turn {
        let join = self.join;
        if let Some(merge) = self.merge.take() {
            let (merge, turn) = merge.step(join);
            self.merge = merge;
            return turn;
        }
        match join.acquire(&mut self.indexes) {
            NextWork::Task(rows) => {
                self.work(rows);
                Turn::Worked
            }
            NextWork::Merge(side, tree, options) => {
                self.merge = Some(Merge::begin(side, tree, options));
                Turn::Worked
            }
            NextWork::Wait => {
                join.propagate();
                Turn::Waiting
            }
            NextWork::Nothing(rows) => {
                join.propagate();
                if join.remove(&self.indexes, REMOVED) {
                    return Turn::Worked;
                }
                if join.is_through(rows) { Turn::Finished } else { Turn::Waiting }
            }
        }
    }

    fn work(&self, rows: Rows) {
        let (join, indexes) = (self.join, &self.indexes);
        let results = join.find(rows.clone(), indexes, self.nth);
        join.matches.add(results.numbers.len());
        for side in (0..join.sides.len()).filter(|&side| indexes.is_indexing[side]) {
            join.index(side, rows.clone(), &indexes.trees[side]);
        }
        // The results are stored only now: rows of a completed task may be removed from an index,
        // so they must be in it.
        join.results[rows.start / join.options.rows].with(|slot| *slot = Some(results));
        join.queue.with(|queue| queue.active.retain(|&first| first != rows.start));
        join.propagate();
        // Twice as many as a task inserts, so that rows which have left do not accumulate.
        join.remove(indexes, 2 * join.options.rows);
    }
}

/// Rows of the queue.
type Rows = Range<usize>;

#[cfg(all(test, not(loom)))]
mod tests;
