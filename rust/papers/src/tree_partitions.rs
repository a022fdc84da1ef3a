//! The index-based join with round-robin partitions: one B+-tree per side and thread.
//!
//! ```text
//!                ┌─▶ thread 0: trees of rows 0, 2, 4 .. ─▶ matches of every row ─┐
//! rows of epoch ─┤                                                               ├─▶ in order
//!                └─▶ thread 1: trees of rows 1, 3, 5 .. ─▶ matches of every row ─┘
//! ```
//!
//! The low-latency handshake join, SplitJoin and BiStream send every row to every core, and the
//! cores take turns storing rows. In section 2.2.3 of "Parallel Index-based Stream Join on a
//! Multicore CPU", Shahvarani and Jacobsen give each core a tree of its rows. The paper compares
//! its own join with this one (Figure 8a). No tree is shared, so there are no locks. However, each
//! search is repeated by every thread, in trees that are only slightly shallower.
//!
//! # Departures
//!
//! 1. Threads search for matches one group of rows at a time, and synchronize after each group. A
//!    group contains few rows at first, and more as long as the rows have few matches.
//!
//! 2. The caller sorts the matches of all threads.

use tidegate_structures::index::{BPlusTree, Entry, Probe, WindowIndex};

use super::stages::{Did, Stage, run};
use tidegate_operators::band::index::{self, Find, RowMatches, Rows};
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::rows::{Filter, FilterError, JoinError};

/// The initial and maximum number of rows per group.
const FIRST_ROWS: usize = if cfg!(test) { 3 } else { 64 };
const MOST_ROWS: usize = if cfg!(test) { 8 } else { 1 << 12 };

/// The number of matches after which the remaining rows are left for the next call.
const MOST_MATCHES: usize = if cfg!(test) { 20 } else { index::MOST_MATCHES };

/// The approximate number of matches to find per group of rows.
const MATCHES: usize = if cfg!(test) { 20 } else { 1 << 16 };

/// Trees of rows, each used by one thread.
#[derive(Debug)]
pub struct TreePartitions {
    partitions: Vec<Partition>,
    /// For each side, the oldest row that is in a tree.
    indexed: Vec<u64>,
    /// The number of rows in the next group.
    together: usize,
}

/// The trees of one thread, one per side, and the matches it has found.
#[derive(Debug)]
struct Partition {
    trees: Vec<BPlusTree>,
    numbers: Vec<u32>,
    ends: Vec<u32>,
}

/// A search for one row's matches: the row's side and entry (if it has a value), the side to
/// search, and the values to search for.
struct RowSearch {
    side: usize,
    entry: Option<Entry>,
    other: usize,
    probe: Probe,
}

impl TreePartitions {
    /// Creates an empty join with `sides` sides and the given number of threads.
    pub fn new(sides: usize, threads: usize) -> Self {
        let partition = |_| Partition {
            trees: vec![BPlusTree::new(); sides],
            numbers: Vec::new(),
            ends: Vec::new(),
        };
        TreePartitions {
            partitions: (0..threads.max(1)).map(partition).collect(),
            indexed: vec![0; sides],
            together: FIRST_ROWS,
        }
    }

    /// Inserts each of the given rows into one partition, and searches every partition for matches
    /// of all given rows.
    fn look(&mut self, sought: &[RowSearch], driver: &Driver) -> Result<(), Stopped> {
        let count = self.partitions.len();
        let mut stages: Vec<Stage<'_>> = Vec::with_capacity(count);
        for (nth, partition) in self.partitions.iter_mut().enumerate() {
            stages.push(Box::new(move || {
                partition.look(sought, |entry| is_of(entry, nth, count));
                Did::Last
            }));
        }
        let driver = driver.fit(sought.len() * count);
        run(&driver, Vec::new(), stages)
    }

    /// Returns the matches of the rows from `next` onwards for which all partitions have finished
    /// searching.
    fn take(&mut self, next: usize, rows: usize) -> RowMatches {
        let mut found = RowMatches { rows: next..next + rows, ..RowMatches::default() };
        let mut begins = vec![0; self.partitions.len()];
        for row in 0..rows {
            for (nth, (partition, begin)) in self.partitions.iter().zip(&mut begins).enumerate() {
                let end = partition.ends[row] as usize;
                found.compare(nth, (end - *begin) as u64);
                found.numbers.extend_from_slice(&partition.numbers[*begin..end]);
                *begin = end;
            }
            found.ends.push(found.numbers.len() as u32);
        }
        found
    }

    /// Removes a side's rows before the row with the given number.
    fn remove_before(&mut self, rows: &Rows, side: usize, number: u64) {
        let from = self.indexed[side];
        let entries = rows.entries(side, from..number.max(from));
        let count = self.partitions.len();
        for (nth, partition) in self.partitions.iter_mut().enumerate() {
            let own = entries.iter().filter(|entry| is_of(entry, nth, count));
            own.for_each(|entry| partition.trees[side].remove(entry.key, entry.row));
        }
        self.indexed[side] = number.max(from);
    }
}

/// Returns whether a row belongs to a partition.
fn is_of(entry: &Entry, partition: usize, partitions: usize) -> bool {
    entry.row as usize % partitions == partition
}

impl Partition {
    fn look(&mut self, sought: &[RowSearch], is_own: impl Fn(&Entry) -> bool) {
        self.numbers.clear();
        self.ends.clear();
        for RowSearch { side, entry, other, probe } in sought {
            self.trees[*other].find(probe, &mut self.numbers);
            self.ends.push(self.numbers.len() as u32);
            if let Some(entry) = entry.filter(|entry| is_own(entry)) {
                self.trees[*side].insert(entry.key, entry.row);
            }
        }
    }
}

impl Find for TreePartitions {
    fn begin(&mut self, _: &Rows) {}

    fn find(
        &mut self,
        rows: &Rows,
        mut next: usize,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Vec<RowMatches>, JoinError> {
        let (mut all, mut matches) = (Vec::new(), 0);
        // A row may match a whole window.
        self.together = FIRST_ROWS;
        while matches < MOST_MATCHES && next < rows.len() && !driver.is_paused() {
            let some = next..rows.len().min(next + self.together);
            let sought = |row| {
                let (side, number, key, probe) = rows.row(row);
                let entry = key.map(|key| Entry { key, row: number });
                RowSearch { side: side as usize, entry, other: rows.other(side), probe }
            };
            let sought: Vec<RowSearch> = some.clone().map(sought).collect();
            self.look(&sought, driver).map_err(JoinError::Stopped)?;
            let found = self.take(next, sought.len());
            matches += found.numbers.len();
            let each = (found.numbers.len() / sought.len()).max(1);
            self.together = (2 * self.together).min(MATCHES / each).clamp(1, MOST_ROWS);
            all.push(found);
            // Later rows do not search for rows that precede the windows of the last rows.
            for other in 0..self.indexed.len() {
                let last = sought.iter().rfind(|row| row.other == other);
                let first = last.map(|row| row.probe.from);
                let gone = first.map_or(0, |first| {
                    first.wrapping_sub(self.indexed[other] as u32).cast_signed().max(0)
                });
                let first = self.indexed[other] + u64::from(gone.cast_unsigned());
                self.remove_before(rows, other, first);
            }
            next = some.end;
        }
        driver.check().map_err(JoinError::Stopped)?;
        let refined =
            driver.map(all, |found| rows.refine(found, filter)).map_err(JoinError::Stopped)?;
        refined.into_iter().collect::<Result<_, FilterError>>().map_err(JoinError::Filter)
    }

    fn refill(&mut self, rows: &Rows, side: usize) {
        let entries = rows.entries(side, self.indexed[side]..rows.numbers(side).end);
        let count = self.partitions.len();
        for (nth, partition) in self.partitions.iter_mut().enumerate() {
            partition.trees[side].clear();
            let own = entries.iter().filter(|entry| is_of(entry, nth, count));
            own.for_each(|entry| partition.trees[side].insert(entry.key, entry.row));
        }
    }

    fn expire(&mut self, rows: &Rows, side: usize, first: u64, _is_all: bool) {
        self.remove_before(rows, side, first);
    }

    fn merges(&self) -> u64 {
        0
    }

    fn memory(&self) -> usize {
        let trees = self.partitions.iter().flat_map(|partition| &partition.trees);
        let found = self.partitions.iter().map(|one| one.numbers.capacity() + one.ends.capacity());
        trees.map(WindowIndex::memory).sum::<usize>() + found.sum::<usize>() * size_of::<u32>()
    }
}
