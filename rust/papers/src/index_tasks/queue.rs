//! The shared queue of tasks, and the indexes that tasks get.

use std::sync::Arc;

use crate::trees::SharedPimTree;

use super::merge::MergeOptions;
use super::shared_index::SharedIndex;
use super::{AHEAD, Rows, TaskIndex, TaskJoin};

/// Which rows are assigned, and what may be done now.
#[derive(Debug)]
pub(super) struct Queue {
    /// Rows before it are active or completed, those from it on available.
    pub(super) next: usize,
    rows: usize,
    /// The first row of each task that is being worked on, oldest first.
    pub(super) active: Vec<usize>,
    /// No task is handed out until those that are active have ended, and a thread that merges has
    /// looked.
    pub(super) is_blocked: bool,
    /// A thread is at a merge.
    pub(super) is_merging: bool,
    /// Merges that are through.
    pub(super) merges: u64,
    /// How often an index, or whether tasks insert into it, has changed.
    pub(super) changes: u64,
    pub(super) sides: Vec<SideIndex>,
}

/// The index of one side.
#[derive(Debug)]
pub(super) struct SideIndex {
    pub(super) index: SharedIndex,
    /// Whether tasks insert their rows.
    pub(super) is_indexing: bool,
    /// No later row looks for one before this number.
    pub(super) first: u32,
}

/// The indexes as a thread has got them with its last task. It keeps them, since threads that take
/// and let go of the same tree again and again hold each other up.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    /// The number of changes of the queue's indexes when they were last equal to these; none if
    /// they never were.
    changes: Option<u64>,
    pub(super) trees: Vec<SharedIndex>,
    /// Whether tasks insert their rows.
    pub(super) is_indexing: Vec<bool>,
}

/// The next work of a thread.
#[derive(Debug)]
pub(super) enum NextWork {
    /// Rows that the thread has to do.
    Task(Rows),
    /// The index of this side is to be merged, by this thread.
    Merge(usize, Arc<SharedPimTree>, MergeOptions),
    /// Somebody else is to end something first.
    Wait,
    /// Everything before this row was handed out, and no more is to be now.
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
        debug_assert!(self.active.is_empty() && !self.is_merging, "the former rows are through");
        (self.next, self.rows) = (0, rows);
    }

    /// Returns whether the oldest active task is so far behind that new tasks should not start.
    fn is_far_ahead(&self, task_rows: usize) -> bool {
        let most = AHEAD * (self.active.len() + 1) * task_rows;
        self.active.first().is_some_and(|&oldest| self.next - oldest >= most)
    }

    /// Gives a thread the indexes as they are.
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
    /// Takes what is next to do out of the queue, with the indexes for it.
    pub(super) fn acquire(&self, indexes: &mut Indexes) -> NextWork {
        self.queue.with(|queue| {
            if queue.is_blocked {
                return NextWork::Wait;
            }
            // Before anything else: once it is said that there is nothing, nothing begins any more.
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
