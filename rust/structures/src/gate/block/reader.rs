//! The block gate's readers, which follow logs, plan blocks, and share the work of filling blocks.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use tidegate_sync::Budget;
use tidegate_sync::atomic::Arc;

use super::block::{Block, Filler, Plan, PlannedBlock};
use super::lane::Lanes;
use super::log::{LogRecord, PushedRun, Run};
use super::scatter::MOST_ROWS;
use crate::gate::Next;
use crate::gate::key::{Key, NotSync, Rank};
use crate::gate::promise::Frontier;

/// The number of rows after which a block ends. A block of this length takes up 128 KiB, so it
/// stays in a core's private cache while it is being read. The work that is done once per block is
/// negligible at this length.
pub(super) const BLOCK_ROWS: usize = if cfg!(any(loom, tidegate_stress)) { 2 } else { 8192 };

/// The number of rows that are merged together. This many rows, together with the counts, fit into
/// the first-level cache. With 512, 1 024 and 2 048 rows, one thread merged 199, 230 and 236 M
/// rows/s at k = 20, and 295, 313 and 182 at k = 2.
const SLAB_ROWS: usize = if cfg!(any(loom, tidegate_stress)) { 1 } else { 1024 };

/// The number of rows per source that a slab should have. Determining how many rows a source
/// contributes costs as much as processing a few rows.
const SLAB_ROWS_PER_SOURCE: usize = 4;

/// While another thread is filling the block that a reader needs, the reader fills up to this many
/// blocks in advance. Eight blocks are enough for the number of threads that may share a gate, and
/// they take up little memory.
const BLOCKS_AHEAD: usize = if cfg!(any(loom, tidegate_stress)) { 2 } else { 8 };

/// A consumer of the block gate that receives every row from its starting position onwards.
pub struct BlockReader<R: Run> {
    /// The most recently returned block. Initially, this is an empty block that is never returned.
    at: Arc<Block<R>>,
    /// The blocks after `at` that this reader has reached.
    ahead: VecDeque<Arc<Block<R>>>,
    frontier: Frontier,
    /// The rows that follow the last block in `ahead`.
    lanes: Lanes<R>,
    planner: Planner,
    filler: Filler,
    budget: Budget,
    not_sync: NotSync,
}

impl<R: Run> BlockReader<R> {
    pub(super) fn new(logs: &[(Rank, Arc<LogRecord<R>>)], budget: Budget) -> Self {
        BlockReader {
            at: Arc::new(Block::new(Plan::default())),
            ahead: VecDeque::new(),
            frontier: Frontier::new(logs.iter().map(|&(rank, _)| rank)),
            lanes: Lanes::new(logs),
            planner: Planner::default(),
            filler: Filler::default(),
            budget,
            not_sync: PhantomData,
        }
    }

    /// Returns the next rows in merged order. The result contains all ready rows, but at most one
    /// block of them.
    ///
    /// The block is borrowed until the next call, which always releases it.
    pub fn next_block(&mut self) -> Next<&Block<R>> {
        loop {
            if self.ahead.is_empty() {
                match self.reach() {
                    Next::Ready(()) => {}
                    Next::NotYet => return Next::NotYet,
                    Next::End => return Next::End,
                }
            }
            let next = self.ahead.front().expect("a block was reached").clone();
            self.have_filled(&next);
            self.ahead.pop_front();
            self.stand_at(next);
            if self.at.len() > 0 {
                return Next::Ready(&self.at);
            }
        }
    }

    /// Like [`next_block`](Self::next_block), but lets the caller fill the block on any thread. A
    /// single reader can therefore keep many threads busy.
    pub fn next_planned(&mut self) -> Next<PlannedBlock<R>> {
        loop {
            if self.ahead.is_empty() {
                match self.reach() {
                    Next::Ready(()) => {}
                    Next::NotYet => return Next::NotYet,
                    Next::End => return Next::End,
                }
            }
            let next = self.ahead.pop_front().expect("a block was reached");
            self.stand_at(next.clone());
            if next.len() > 0 {
                return Next::Ready(PlannedBlock(next));
            }
        }
    }

    /// Moves one block further ahead. This reader plans the block unless another reader has already
    /// done so.
    fn reach(&mut self) -> Next<()> {
        let last = self.ahead.back().unwrap_or(&self.at).clone();
        if let Some(next) = last.next.get() {
            self.follow(next);
            return Next::Ready(());
        }
        // Every log has been followed until the promise of one source is exact, so the ready rows
        // are known.
        self.frontier.raise(Key::LAST, &mut self.lanes);
        if let Some(plan) = self.planner.plan(self.frontier.bound(), &mut self.lanes) {
            self.offer(&last, Block::new(plan));
            return Next::Ready(());
        }
        // Nothing is ready. The reader moves to an empty block, so that the memory of the last
        // block can be freed. Another reader may have done this already, or there may be new rows.
        if last.len() > 0 && !self.offer(&last, Block::new(Plan::default())) {
            return Next::Ready(());
        }
        if last.len() > 0 && self.ahead.len() == 1 {
            let empty = self.ahead.pop_front().expect("the empty block was offered");
            self.stand_at(empty);
        }
        if self.frontier.is_end() { Next::End } else { Next::NotYet }
    }

    /// Tries to make `block` the successor of `last`, and returns whether this succeeded. If
    /// another reader was faster, moves to that reader's block. That block begins with the same
    /// rows but may end at a different row.
    fn offer(&mut self, last: &Arc<Block<R>>, block: Block<R>) -> bool {
        let block = Arc::new(block);
        match last.next.set(block.clone()) {
            Ok(()) => {
                self.lanes.commit();
                self.ahead.push_back(block);
                true
            }
            Err(_) => {
                self.lanes.reset();
                let next = last.next.get().expect("once set, a link is never cleared");
                self.follow(next);
                false
            }
        }
    }

    /// Moves past a block that another reader has planned.
    fn follow(&mut self, block: Arc<Block<R>>) {
        if let Some(last) = block.last() {
            // The planner had followed the logs far enough to see every row in the block. This
            // reader read the link after the planner wrote it, so it finds at least as many rows.
            self.frontier.look_at_all(&mut self.lanes);
            self.planner.skip(last, &mut self.lanes);
        }
        self.ahead.push_back(block);
    }

    /// Ensures that `block` is filled. If another thread is filling this block, fills subsequent
    /// blocks in the meantime. Never waits.
    fn have_filled(&mut self, block: &Block<R>) {
        if block.is_filled() {
            return;
        }
        let mut at = 1;
        if !block.claim() {
            while at < BLOCKS_AHEAD && !block.is_filled() {
                if at == self.ahead.len() && !matches!(self.reach(), Next::Ready(())) {
                    break;
                }
                let later = self.ahead[at].clone();
                if !later.is_filled() && later.claim() {
                    later.fill(&mut self.filler);
                }
                at += 1;
            }
            if block.is_filled() {
                return;
            }
        }
        block.fill(&mut self.filler);
    }

    fn stand_at(&mut self, block: Arc<Block<R>>) {
        let passed = std::mem::replace(&mut self.at, block);
        self.filler.recycle(passed);
    }

    /// Creates a reader that starts after the last block that this reader returned.
    pub fn fork(&self) -> BlockReader<R> {
        BlockReader {
            at: self.at.clone(),
            ahead: self.ahead.clone(),
            frontier: self.frontier.clone(),
            lanes: self.lanes.clone(),
            planner: Planner::default(),
            filler: Filler::default(),
            budget: self.budget.clone(),
            not_sync: PhantomData,
        }
    }

    /// Returns the combined promise of all sources, based on what this reader has seen. Every row
    /// that is not ready yet has this `ts` or a later one. Returns `None` after all sources have
    /// closed.
    ///
    /// Once [`next_block`](Self::next_block) returns [`Next::NotYet`], all ready rows have been
    /// returned.
    pub fn watermark(&self) -> Option<i64> {
        (!self.frontier.is_end()).then(|| self.frontier.bound().ts)
    }

    /// Returns the rows that have been pushed but not yet returned to this reader, including rows
    /// that are not ready. The rows are given as ranges of runs, ordered by rank and position.
    pub fn unread(&mut self) -> impl Iterator<Item = (&PushedRun<R>, Range<usize>)> {
        // The lanes have dropped the rows of blocks ahead. These rows precede the others and may be
        // in the same runs.
        assert!(self.ahead.is_empty(), "all blocks that the reader has reached have been returned");
        self.frontier.look_at_all(&mut self.lanes);
        self.lanes.unread()
    }

    /// Returns the number of bytes that the gate uses for runs and blocks.
    pub fn memory(&self) -> usize {
        self.budget.used()
    }
}

impl<R: Run> fmt::Debug for BlockReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockReader")
            .field("at", &self.at)
            .field("frontier", &self.frontier)
            .finish_non_exhaustive()
    }
}

/// Determines the rows of the next block.
#[derive(Debug, Default)]
struct Planner {
    /// The number of rows from each open source in the next slab.
    counts: Vec<usize>,
    /// The difference between the first and last event times in the previous slab.
    span: u64,
}

impl Planner {
    /// Plans a block of the rows up to `bound`. If there are too many rows for one block, the block
    /// contains only the first of them. Returns `None` if there are no rows up to `bound`.
    ///
    /// When this method returns, the lanes' cursors are after the block's last row.
    fn plan<R: Run>(&mut self, bound: Key, lanes: &mut Lanes<R>) -> Option<Plan<R>> {
        let slab = (SLAB_ROWS_PER_SOURCE * lanes.open()).clamp(SLAB_ROWS, MOST_ROWS / 2);
        let mut plan = Plan::default();
        let mut rows = 0;
        while rows < BLOCK_ROWS {
            let count = self.slab(bound, slab, lanes);
            if count == 0 {
                break;
            }
            lanes.advance(&self.counts, &mut plan.pieces);
            rows += count;
            plan.slabs.push((plan.pieces.len(), rows));
        }
        plan.runs = lanes.passed(&mut plan.pieces);
        plan.last = lanes.last_passed();
        (rows > 0).then_some(plan)
    }

    /// Determines the rows in a slab, up to `bound`. The slab has at most `2 * slab` rows. Writes
    /// the number of rows from each source to `counts`.
    fn slab<R: Run>(&mut self, bound: Key, slab: usize, lanes: &Lanes<R>) -> usize {
        let Some(first) = lanes.first_ts() else { return 0 };
        if first > bound.ts {
            return 0;
        }
        let likely = 2 * slab / lanes.open();
        // The slab is widened only a few times, so that sparse rows lead to a small slab instead of
        // a long search.
        let mut widenings = 3;
        loop {
            let ts = first.saturating_add_unsigned(self.span);
            let last = if ts < bound.ts { Key { ts, ..Key::LAST } } else { bound };
            let count = lanes.count(last, likely, &mut self.counts);
            if count > 2 * slab {
                if self.span == 0 {
                    // All rows have the same time. They are ordered by source, and the slab can end
                    // anywhere.
                    return cut(&mut self.counts, slab);
                }
                self.span = self.span.min(last.ts.wrapping_sub(first) as u64);
                self.span = (u128::from(self.span) * slab as u128 / count as u128) as u64;
            } else if count < slab / 2 && last < bound && widenings > 0 {
                widenings -= 1;
                self.span =
                    self.span.saturating_mul((slab / count.max(1)).clamp(2, 64) as u64).max(1);
            } else {
                return count;
            }
        }
    }

    /// Drops the rows up to `last`, because they are in another reader's block.
    fn skip<R: Run>(&mut self, last: Key, lanes: &mut Lanes<R>) {
        let likely = BLOCK_ROWS / lanes.open().max(1);
        lanes.count(last, likely, &mut self.counts);
        lanes.advance(&self.counts, &mut Vec::new());
        lanes.commit();
    }
}

/// Reduces `counts` so that the total is at most `most` rows. Rows from the first sources are kept.
fn cut(counts: &mut [usize], most: usize) -> usize {
    let mut left = most;
    for count in counts {
        *count = left.min(*count);
        left -= *count;
    }
    most
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::gate::{BlockGate, RowId};

    proptest! {
        #[test]
        fn a_cut_keeps_the_first_rows(counts in vec(0_usize..9, 1..9), part in 0_usize..100) {
            let most = part % (counts.iter().sum::<usize>() + 1);
            let rows = |counts: &[usize]| {
                let rows = counts.iter().enumerate().flat_map(|(source, &rows)| vec![source; rows]);
                rows.collect::<Vec<_>>()
            };
            let mut kept = counts.clone();
            prop_assert_eq!(cut(&mut kept, most), most);
            prop_assert_eq!(&rows(&kept)[..], &rows(&counts)[..most]);
        }

        #[test]
        fn rows_of_one_time_are_cut_into_blocks(lens in vec(0_usize..3000, 1..6)) {
            let (mut sources, mut readers) = BlockGate::new(lens.len(), 1).unwrap();
            for (source, &len) in sources.iter_mut().zip(&lens) {
                source.push(vec![7; len]).unwrap();
            }
            drop(sources);
            let mut found = Vec::new();
            while let Next::Ready(block) = readers[0].next_block() {
                prop_assert!(block.len() < BLOCK_ROWS + 2 * SLAB_ROWS);
                found.extend_from_slice(block.ids());
            }
            let all = (0..).zip(&lens).flat_map(|(source, &len)| {
                (0..len as u64).map(move |position| RowId::new(source, position))
            });
            prop_assert!(found.into_iter().eq(all));
        }
    }
}
