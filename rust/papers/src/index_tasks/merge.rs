//! Merges an index while tasks continue (section 4.2).

use std::sync::Arc;

use crate::trees::SharedPimTree;

use super::shared_index::SharedIndex;
use super::{Rows, TaskJoin};
use crate::threads::Turn;

/// Describes how an index is merged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MergeOptions {
    /// An index is merged when the ratio of inserted rows to rows in the immutable part reaches
    /// this value.
    pub merge_ratio: f64,
    /// The depth of an index's subindexes. If the depth is `None`, the index chooses one.
    pub insertion_depth: Option<usize>,
    /// True if all threads wait until a merge is finished.
    pub is_blocking: bool,
}

impl Default for MergeOptions {
    /// The defaults cause few merges: with several threads, merges cost more than they save.
    fn default() -> Self {
        MergeOptions { merge_ratio: 1.0, insertion_depth: None, is_blocking: false }
    }
}

/// The state of a merge. While a thread performs the merge, it does not run tasks.
#[derive(Debug)]
pub(super) struct Merge {
    side: usize,
    options: MergeOptions,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Active tasks finish. Once all active tasks have finished, no thread inserts rows.
    Drain { old: Arc<SharedPimTree> },
    /// First phase: the new tree is built. Rows from `since` onwards are not in the old tree.
    Make { old: Arc<SharedPimTree>, first: u32, since: usize },
    /// The active tasks finish again. New tasks then use the new tree.
    Exchange { new: Arc<SharedPimTree>, since: usize },
    /// Second phase: the rows that were left out are inserted.
    CatchUp { index: SharedIndex, rows: Rows },
}

impl Merge {
    pub(super) fn begin(side: usize, old: Arc<SharedPimTree>, options: MergeOptions) -> Self {
        Merge { side, options, stage: Stage::Drain { old } }
    }

    /// Continues the merge until it needs to wait.
    pub(super) fn step(self, join: &TaskJoin) -> (Option<Merge>, Turn) {
        let Merge { side, options, stage } = self;
        let waits = |stage: Stage| (Some(Merge { side, options, stage }), Turn::Waiting);
        let next = match stage {
            Stage::Drain { old } => {
                let drained = join.queue.with(|queue| {
                    queue.active.is_empty().then(|| {
                        let own = &mut queue.sides[side];
                        let drained = (own.first, queue.next);
                        if !options.is_blocking {
                            own.is_indexing = false;
                            queue.changes += 1;
                            queue.is_blocked = false;
                        }
                        drained
                    })
                });
                match drained {
                    None => return waits(Stage::Drain { old }),
                    Some((first, since)) => Stage::Make { old, first, since },
                }
            }
            Stage::Make { old, first, since } => {
                let new = Arc::new(old.merged(first, options.merge_ratio, options.insertion_depth));
                join.queue.with(|queue| queue.is_blocked = true);
                Stage::Exchange { new, since }
            }
            Stage::Exchange { new, since } => {
                let missed = join.queue.with(|queue| {
                    queue.active.is_empty().then(|| {
                        let own = &mut queue.sides[side];
                        own.index = SharedIndex::PimTree(new.clone(), options);
                        own.is_indexing = true;
                        queue.changes += 1;
                        queue.is_blocked = false;
                        (own.index.clone(), since..queue.next)
                    })
                });
                match missed {
                    None => return waits(Stage::Exchange { new, since }),
                    Some((index, rows)) => Stage::CatchUp { index, rows },
                }
            }
            Stage::CatchUp { index, rows } => {
                join.index(side, rows, &index);
                join.queue.with(|queue| {
                    queue.is_merging = false;
                    queue.merges += 1;
                });
                return (None, Turn::Worked);
            }
        };
        (Some(Merge { side, options, stage: next }), Turn::Worked)
    }
}
