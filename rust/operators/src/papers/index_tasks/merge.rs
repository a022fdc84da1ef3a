//! The merge of an index while tasks go on (section 4.2).

use std::sync::Arc;

use tidegate_structures::papers::trees::SharedPimTree;

use super::{Rows, TaskJoin};
use crate::driver::Turn;

/// Where a merge stands. Whoever is at it has no task.
#[derive(Debug)]
pub(super) struct Merge {
    side: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Active tasks are to end, and then nobody inserts.
    Drain,
    /// First phase: the new tree is made. Rows from `since` on are not in the old one.
    Make { old: Arc<SharedPimTree>, first: u32, since: usize },
    /// Tasks are to end once more, and then get the new tree.
    Exchange { new: Arc<SharedPimTree>, since: usize },
    /// Second phase: the rows that were left out are inserted.
    CatchUp { index: Arc<SharedPimTree>, rows: Rows },
}

impl Merge {
    pub(super) fn begin(side: usize) -> Self {
        Merge { side, stage: Stage::Drain }
    }

    /// Goes on with the merge as far as it need not wait.
    pub(super) fn step(self, join: &TaskJoin) -> (Option<Merge>, Turn) {
        let side = self.side;
        let waits = |stage: Stage| (Some(Merge { side, stage }), Turn::Waiting);
        let next = match self.stage {
            Stage::Drain => {
                let drained = join.queue.with(|queue| {
                    (queue.active == 0).then(|| {
                        let own = &mut queue.sides[side];
                        let drained = (own.index.clone(), own.first, queue.next);
                        if !join.options.is_blocking {
                            own.is_indexing = false;
                            queue.changes += 1;
                            queue.is_blocked = false;
                        }
                        drained
                    })
                });
                match drained {
                    None => return waits(Stage::Drain),
                    Some((old, first, since)) => Stage::Make { old, first, since },
                }
            }
            Stage::Make { old, first, since } => {
                let new = Arc::new(old.merged(
                    first,
                    join.options.merge_ratio,
                    join.options.insertion_depth,
                ));
                join.queue.with(|queue| queue.is_blocked = true);
                Stage::Exchange { new, since }
            }
            Stage::Exchange { new, since } => {
                let missed = join.queue.with(|queue| {
                    (queue.active == 0).then(|| {
                        let own = &mut queue.sides[side];
                        own.index = new.clone();
                        own.is_indexing = true;
                        queue.changes += 1;
                        queue.is_blocked = false;
                        since..queue.next
                    })
                });
                match missed {
                    None => return waits(Stage::Exchange { new, since }),
                    Some(rows) => Stage::CatchUp { index: new, rows },
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
        (Some(Merge { side, stage: next }), Turn::Worked)
    }
}
