//! The shared queue of tasks, and the indexes that tasks get.

use std::sync::Arc;

use tidegate_structures::papers::trees::SharedPimTree;

use super::{Rows, TaskJoin};

/// Rows that were inserted into an index below which it is not merged.
const LEAST_MERGED: usize = if cfg!(any(test, loom)) { 4 } else { 64 };

/// Which rows are assigned, and what may be done now.
#[derive(Debug)]
pub(super) struct Queue {
    /// Rows before it are active or completed, those from it on available.
    pub(super) next: usize,
    rows: usize,
    /// Tasks that threads are at.
    pub(super) active: usize,
    /// No task is handed out until those that are active have ended, and a thread that merges has
    /// looked.
    pub(super) is_blocked: bool,
    /// A thread is at a merge.
    pub(super) is_merging: bool,
    /// Merges that are through.
    pub(super) merges: u64,
    /// How often an index, or whether tasks insert into it, has changed.
    pub(super) changes: u64,
    pub(super) sides: Vec<Indexed>,
}

/// The index of one side.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) index: Arc<SharedPimTree>,
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
    pub(super) trees: Vec<Arc<SharedPimTree>>,
    /// Whether tasks insert their rows.
    pub(super) is_indexing: Vec<bool>,
}

/// The next work of a thread.
#[derive(Debug)]
pub(super) enum Acquired {
    /// Rows that the thread has to do.
    Task(Rows),
    /// The index of this side is to be merged, by this thread.
    Merge(usize),
    /// Somebody else is to end something first.
    Wait,
    /// Everything before this row was handed out, and no more is to be now.
    Nothing(usize),
}

impl Queue {
    pub(super) fn new(sides: usize) -> Self {
        let sides = (0..sides)
            .map(|_| Indexed { index: Arc::default(), is_indexing: true, first: 0 })
            .collect();
        Queue {
            next: 0,
            rows: 0,
            active: 0,
            is_blocked: false,
            is_merging: false,
            merges: 0,
            changes: 0,
            sides,
        }
    }

    pub(super) fn begin(&mut self, rows: usize) {
        debug_assert!(self.active == 0 && !self.is_merging, "the former rows are through");
        (self.next, self.rows) = (0, rows);
    }
}

impl TaskJoin {
    /// Takes what is next to do out of the queue, with the indexes for it.
    pub(super) fn acquire(&self, indexes: &mut Indexes) -> Acquired {
        self.queue.with(|queue| {
            if queue.is_blocked {
                return Acquired::Wait;
            }
            // Before anything else: once it is said that there is nothing, nothing begins any more.
            if queue.next == queue.rows || self.matches.get() >= self.enough {
                return if queue.is_merging {
                    Acquired::Wait
                } else {
                    Acquired::Nothing(queue.next)
                };
            }
            let is_full = |side: &Indexed| {
                let (mutable, immutable) = (side.index.mutable_rows(), side.index.immutable_rows());
                mutable >= LEAST_MERGED
                    && mutable as f64 >= self.options.merge_ratio * immutable as f64
            };
            if !queue.is_merging
                && let Some(full) = queue.sides.iter().position(is_full)
            {
                (queue.is_merging, queue.is_blocked) = (true, true);
                return Acquired::Merge(full);
            }
            let rows = queue.next..queue.rows.min(queue.next + self.options.rows);
            for row in &self.rows[rows.clone()] {
                queue.sides[row.other].first = row.probe.from;
            }
            queue.next = rows.end;
            queue.active += 1;
            if indexes.changes != Some(queue.changes) {
                *indexes = Indexes {
                    changes: Some(queue.changes),
                    trees: queue.sides.iter().map(|side| side.index.clone()).collect(),
                    is_indexing: queue.sides.iter().map(|side| side.is_indexing).collect(),
                };
            }
            Acquired::Task(rows)
        })
    }
}
