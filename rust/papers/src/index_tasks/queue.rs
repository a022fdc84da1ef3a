//! The shared queue of tasks, and the indexes that tasks receive.

use std::sync::Arc;

use crate::trees::SharedPimTree;

use super::merge::MergeOptions;
use super::shared_index::SharedIndex;
use super::{AHEAD, Rows, TaskIndex, TaskJoin};

/// The assigned rows, and the steps that are currently allowed.
#[derive(Debug)]
pub(super) struct Queue {
    /// Rows before this position are active or completed. Rows from this position onwards are
    /// available.
    pub(super) next: usize,
    rows: usize,
    /// The first row in each active task, oldest first.
    pub(super) active: Vec<usize>,
    /// True if no tasks are handed out until the active ones have finished and the merging thread
    /// has confirmed this.
    pub(super) is_blocked: bool,
    /// True if a thread is performing a merge.
    pub(super) is_merging: bool,
    /// The number of completed merges.
    pub(super) merges: u64,
    /// The number of times that an index was replaced, or that inserts into an index were enabled
    /// or disabled.
    pub(super) changes: u64,
    pub(super) sides: Vec<SideIndex>,
}

/// The index of one side.
#[derive(Debug)]
pub(super) struct SideIndex {
    pub(super) index: SharedIndex,
    /// True if tasks insert their rows.
    pub(super) is_indexing: bool,
    /// Later rows do not search for rows numbered below this number.
    pub(super) first: u32,
}

/// The indexes that a thread received with its last task. The thread keeps these indexes, because
/// threads that repeatedly acquire and release references to the same tree slow each other down.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    /// The number of index changes that the queue had counted when these indexes were last updated.
    /// `None` if they have never been updated.
    changes: Option<u64>,
    pub(super) trees: Vec<SharedIndex>,
    /// For each side, true if tasks insert their rows into the index.
    pub(super) is_indexing: Vec<bool>,
}

/// The next piece of work for a thread.
#[derive(Debug)]
pub(super) enum NextWork {
    /// Rows that the thread processes.
    Task(Rows),
    /// The thread needs to merge this side's index.
    Merge(usize, Arc<SharedPimTree>, MergeOptions),
    /// The thread needs to wait until another thread has made progress.
    Wait,
    /// All rows before this one have been handed out, and no more rows are handed out for now.
    Nothing(usize),
}

impl Queue {
    pub(super) fn new(sides: usize, index: TaskIndex) -> Self {
        let sides = (0..sides)
            .map(|_| SideIndex { index: SharedIndex::new(index), is_indexing: true, first: 0 })
            .collect();
        Queue {
            next: 0,
            rows: 0,
            active: Vec::new(),
            is_blocked: false,
            is_merging: false,
            merges: 0,
            changes: 0,
            sides,
        }
    }

    pub(super) fn begin(&mut self, rows: usize) {
        debug_assert!(
            self.active.is_empty() && !self.is_merging,
            "all previous rows are processed"
        );
        (self.next, self.rows) = (0, rows);
    }

    /// Returns whether the oldest active task is so far behind that new tasks should not start.
    fn is_far_ahead(&self, task_rows: usize) -> bool {
        let most = AHEAD * (self.active.len() + 1) * task_rows;
        self.active.first().is_some_and(|&oldest| self.next - oldest >= most)
    }

    /// Updates a thread's indexes to the current ones.
    fn show(&self, indexes: &mut Indexes) {
        if indexes.changes != Some(self.changes) {
            *indexes = Indexes {
                changes: Some(self.changes),
                trees: self.sides.iter().map(|side| side.index.clone()).collect(),
                is_indexing: self.sides.iter().map(|side| side.is_indexing).collect(),
            };
        }
    }
}

impl TaskJoin {
    /// Takes the next piece of work from the queue, together with the indexes that the work needs.
    pub(super) fn acquire(&self, indexes: &mut Indexes) -> NextWork {
        self.queue.with(|queue| {
            if queue.is_blocked {
                return NextWork::Wait;
            }
            // Checked first: after the queue has reported that there is no work, no task starts.
            if queue.next == queue.rows || self.matches.get() >= self.enough {
                if queue.is_merging {
                    return NextWork::Wait;
                }
                queue.show(indexes);
                return NextWork::Nothing(queue.next);
            }
            if !queue.is_merging {
                let mut sides = queue.sides.iter().enumerate();
                let full = sides.find_map(|(side, own)| Some((side, own.index.full()?)));
                if let Some((side, (tree, options))) = full {
                    let merge = NextWork::Merge(side, tree.clone(), options);
                    (queue.is_merging, queue.is_blocked) = (true, true);
                    return merge;
                }
            }
            if queue.is_far_ahead(self.options.rows) {
                return NextWork::Wait;
            }
            let rows = queue.next..queue.rows.min(queue.next + self.options.rows);
            for row in &self.rows[rows.clone()] {
                queue.sides[row.other].first = row.probe.from;
            }
            queue.next = rows.end;
            queue.active.push(rows.start);
            queue.show(indexes);
            NextWork::Task(rows)
        })
    }
}
