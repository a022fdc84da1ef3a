//! Readers of the block gate, and the blocks that they make and share.

use std::fmt;
use std::marker::PhantomData;

use tidegate_sync::atomic::{Arc, into_inner};
use tidegate_sync::{Budget, OnceLink};

use super::lane::{Lanes, Piece};
use super::log::{Pushed, Record, Run};
use super::scatter::{MOST_ROWS, Scatter};
use crate::gate::Next;
use crate::gate::key::{Key, RowId};
use crate::gate::list::NotSync;
use crate::gate::promise::Frontier;

/// Rows after which a block is long enough: its 128 KiB stay in a core's own cache while they are
/// read, and what is done once a block weighs little.
const BLOCK_ROWS: usize = if cfg!(any(loom, tidegate_stress)) { 2 } else { 8192 };

/// Rows that are merged at once: few enough that they and their counts stay in the first cache.
const SLAB_ROWS: usize = if cfg!(any(loom, tidegate_stress)) { 1 } else { 1024 };

/// Rows a source that a slab should have: asking a source for its share costs as much as a few rows.
const SLAB_ROWS_PER_SOURCE: usize = 4;

/// Ready rows in merged order.
pub struct Block<R: Run> {
    rows: Columns,
    /// Rows in use, of those there is room for.
    len: usize,
    /// The runs that the rows are of, in order of source and position.
    runs: Vec<Arc<Record<R>>>,
    /// Written by the reader whose block is the next one.
    next: OnceLink<Block<R>>,
}

/// Memory for rows.
#[derive(Debug, Default)]
struct Columns {
    ts: Box<[i64]>,
    ids: Box<[RowId]>,
}

impl Columns {
    fn new(rows: usize) -> Self {
        Columns { ts: vec![0; rows].into(), ids: vec![RowId::new(0, 0); rows].into() }
    }

    fn len(&self) -> usize {
        self.ts.len()
    }

    fn first(&self, rows: usize) -> Self {
        Columns { ts: self.ts[..rows].into(), ids: self.ids[..rows].into() }
    }
}

impl<R: Run> Block<R> {
    fn new(rows: Columns, len: usize, runs: Vec<Arc<Record<R>>>) -> Self {
        Block { rows, len, runs, next: OnceLink::default() }
    }

    fn without_rows() -> Self {
        Block::new(Columns::default(), 0, Vec::new())
    }

    /// Number of rows.
    #[allow(clippy::len_without_is_empty, reason = "a block that is given out has rows")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Event times of the rows.
    pub fn ts(&self) -> &[i64] {
        &self.rows.ts[..self.len]
    }

    /// Ids of the rows.
    pub fn ids(&self) -> &[RowId] {
        &self.rows.ids[..self.len]
    }

    /// The runs that the rows are of, in order of source and position.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &Pushed<R>> {
        self.runs.iter().map(|record| record.rows())
    }

    /// The last row's place.
    fn last(&self) -> Option<Key> {
        Some(Key { ts: *self.ts().last()?, id: *self.ids().last()? })
    }
}

impl<R: Run> Drop for Block<R> {
    fn drop(&mut self) {
        self.next.unchain(|block| &mut block.next);
    }
}

impl<R: Run> fmt::Debug for Block<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("ts", &self.ts()).field("ids", &self.ids()).finish_non_exhaustive()
    }
}

/// A consumer of the block gate that gets every row from where it began.
pub struct BlockReader<R: Run> {
    /// The block given last, or one without rows, which is given to nobody.
    at: Arc<Block<R>>,
    frontier: Frontier,
    /// What follows the block given last.
    lanes: Lanes<R>,
    maker: Maker,
    budget: Budget,
    not_sync: NotSync,
}

impl<R: Run> BlockReader<R> {
    pub(super) fn new(logs: &[Arc<Record<R>>], budget: Budget) -> Self {
        BlockReader {
            at: Arc::new(Block::without_rows()),
            frontier: Frontier::new(logs.len()),
            lanes: Lanes::new(logs),
            maker: Maker::default(),
            budget,
            not_sync: PhantomData,
        }
    }

    /// The next rows in merged order, as many as are ready, or as make a block.
    ///
    /// The block is borrowed until the next call, which gives it up whatever it answers.
    pub fn next_block(&mut self) -> Next<&Block<R>> {
        loop {
            let found = match self.at.next.get() {
                Some(next) => {
                    self.follow(next);
                    Next::Ready(())
                }
                None => self.make(),
            };
            match found {
                Next::NotYet => return Next::NotYet,
                Next::End => return Next::End,
                Next::Ready(()) if self.at.len > 0 => return Next::Ready(&self.at),
                Next::Ready(()) => {}
            }
        }
    }

    /// Makes the next block and stands at it, or at the one that another reader was faster to make.
    fn make(&mut self) -> Next<()> {
        // With every log followed until one source's promise is exact, what is ready is known.
        self.frontier.raise(Key::LAST, &mut self.lanes);
        match self.maker.make(self.frontier.bound(), &mut self.lanes) {
            Some(block) => {
                self.offer(block);
                Next::Ready(())
            }
            // Nothing is ready. The block that was read is given up, for the memory that it holds,
            // by standing at one without rows.
            None if self.at.len > 0 && !self.offer(Block::without_rows()) => Next::Ready(()),
            None if self.frontier.is_end() => Next::End,
            None => Next::NotYet,
        }
    }

    /// Makes `block` the next one and stands at it; whether it is the next one. If another reader was
    /// faster this one stands at the other's.
    fn offer(&mut self, block: Block<R>) -> bool {
        let block = Arc::new(block);
        match self.at.next.set(block.clone()) {
            Ok(()) => {
                self.lanes.commit();
                self.stand_at(block);
                true
            }
            Err(lost) => {
                // The same rows, perhaps cut elsewhere.
                drop(block);
                self.maker.recycle(lost);
                self.lanes.reset();
                let next = self.at.next.get().expect("a link that was not empty stays so");
                self.follow(next);
                false
            }
        }
    }

    /// Takes a block that another reader made.
    fn follow(&mut self, block: Arc<Block<R>>) {
        if let Some(last) = block.last() {
            // The maker had followed the logs far enough to see every row of the block, and this
            // reader read the link after the maker wrote it: so it finds at least as much.
            self.frontier.look_at_all(&mut self.lanes);
            self.maker.skip(last, &mut self.lanes);
        }
        self.stand_at(block);
    }

    fn stand_at(&mut self, block: Arc<Block<R>>) {
        let passed = std::mem::replace(&mut self.at, block);
        self.maker.recycle(passed);
    }

    /// One more reader, which gets the rows after the block that this reader was given last.
    pub fn fork(&self) -> BlockReader<R> {
        BlockReader {
            at: self.at.clone(),
            frontier: self.frontier.clone(),
            lanes: self.lanes.clone(),
            maker: Maker::default(),
            budget: self.budget.clone(),
            not_sync: PhantomData,
        }
    }

    /// Bytes that the gate holds for runs and blocks.
    pub fn memory(&self) -> usize {
        self.budget.used()
    }
}

impl<R: Run> fmt::Debug for BlockReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockReader").field("at", &self.at).field("frontier", &self.frontier).finish_non_exhaustive()
    }
}

/// Makes blocks out of lanes.
#[derive(Debug, Default)]
struct Maker {
    scatter: Scatter,
    /// Memory of a block that was passed, for the next one.
    spare: Columns,
    /// Of each open source, the rows for the next slab.
    counts: Vec<usize>,
    pieces: Vec<Piece>,
    /// Event time that a slab took last, less its first.
    span: u64,
}

impl Maker {
    /// A block of the rows up to `bound`, or of the first of them; `None` if there are none.
    ///
    /// Leaves the lanes' cursors behind its last row.
    fn make<R: Run>(&mut self, bound: Key, lanes: &mut Lanes<R>) -> Option<Block<R>> {
        let slab = (SLAB_ROWS_PER_SOURCE * lanes.open()).clamp(SLAB_ROWS, MOST_ROWS / 2);
        let mut rows = std::mem::take(&mut self.spare);
        let mut len = 0;
        while len < BLOCK_ROWS {
            let count = self.plan(bound, slab, lanes);
            if count == 0 {
                break;
            }
            if rows.len() < len + count {
                let mut more = Columns::new(BLOCK_ROWS + 2 * slab);
                more.ts[..len].copy_from_slice(&rows.ts[..len]);
                more.ids[..len].copy_from_slice(&rows.ids[..len]);
                rows = more;
            }
            lanes.advance(&self.counts, &mut self.pieces);
            let columns: Vec<_> = self.pieces.iter().map(|piece| lanes.column(piece)).collect();
            self.scatter.merge(&columns, &mut rows.ts[len..len + count], &mut rows.ids[len..len + count]);
            len += count;
        }
        if len == 0 {
            self.spare = rows;
            return None;
        }
        // A block of few rows does not keep the memory of many.
        if len < rows.len() / 4 {
            let few = rows.first(len);
            self.spare = std::mem::replace(&mut rows, few);
        }
        Some(Block::new(rows, len, lanes.passed()))
    }

    /// Finds the rows of a slab, up to `bound` and at most twice `slab`; how many of each source is
    /// in `counts`.
    fn plan<R: Run>(&mut self, bound: Key, slab: usize, lanes: &Lanes<R>) -> usize {
        let Some(first) = lanes.first_ts() else { return 0 };
        if first > bound.ts {
            return 0;
        }
        let likely = 2 * slab / lanes.open();
        // Widened at most a few times, so that sparse rows make a small slab and not a long search.
        let mut widenings = 3;
        loop {
            let ts = first.saturating_add_unsigned(self.span);
            let last = if ts < bound.ts { Key { ts, ..Key::LAST } } else { bound };
            let count = lanes.count(last, likely, &mut self.counts);
            if count > 2 * slab {
                if self.span == 0 {
                    // All at one time: their order is that of the sources, and may be cut anywhere.
                    return cut(&mut self.counts, slab);
                }
                self.span = self.span.min(last.ts.wrapping_sub(first) as u64);
                self.span = (u128::from(self.span) * slab as u128 / count as u128) as u64;
            } else if count < slab / 2 && last < bound && widenings > 0 {
                widenings -= 1;
                self.span = self.span.saturating_mul((slab / count.max(1)).clamp(2, 64) as u64).max(1);
            } else {
                return count;
            }
        }
    }

    /// Gives up the rows up to `last`, which are in another's block.
    fn skip<R: Run>(&mut self, last: Key, lanes: &mut Lanes<R>) {
        let likely = BLOCK_ROWS / lanes.open().max(1);
        lanes.count(last, likely, &mut self.counts);
        lanes.advance(&self.counts, &mut self.pieces);
        lanes.commit();
    }

    /// Keeps the memory of a block that nobody else has.
    fn recycle<R: Run>(&mut self, block: Arc<Block<R>>) {
        let Some(mut block) = into_inner(block) else { return };
        if block.rows.len() > self.spare.len() {
            self.spare = std::mem::take(&mut block.rows);
        }
    }
}

/// Keeps of `counts`, in order, `most` rows.
fn cut(counts: &mut [usize], most: usize) -> usize {
    let mut left = most;
    for count in counts {
        *count = left.min(*count);
        left -= *count;
    }
    most
}
