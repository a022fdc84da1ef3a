//! Blocks. One reader plans a block, any reader can fill it, and all readers read it.

use std::fmt;
use std::ops::Range;

use tidegate_sync::atomic::{Arc, into_inner};
use tidegate_sync::{Counter, OnceLink};

use super::lane::Piece;
use super::log::{LogRecord, PushedRun, Run};
use super::reader::BLOCK_ROWS;
use super::scatter::Scatter;
use crate::gate::key::{Key, RowId};

/// Ready rows in merged order.
pub struct Block<R: Run> {
    plan: Plan<R>,
    /// The number of threads that have started to fill the block. This number is only a hint. If
    /// two threads fill the block, only the rows written by one of them are used.
    fillers: Counter,
    /// The rows. The first thread that finishes filling the block writes this field.
    rows: OnceLink<Columns>,
    /// The reader that plans the next block writes this field.
    pub(super) next: OnceLink<Block<R>>,
}

/// The plan of a block. The plan determines which rows are in the block.
pub(super) struct Plan<R> {
    /// The runs that contain the rows, ordered by rank and position.
    pub(super) runs: Vec<Arc<LogRecord<R>>>,
    /// The pieces, slab by slab. Within a slab, the pieces are ordered by rank and position.
    pub(super) pieces: Vec<Piece>,
    /// For each slab, the index in `pieces` and the number of rows at which the slab ends.
    pub(super) slabs: Vec<(usize, usize)>,
    /// The key of the last row, or `None` if there are no rows.
    pub(super) last: Option<Key>,
}

impl<R> Default for Plan<R> {
    fn default() -> Self {
        Plan { runs: Vec::new(), pieces: Vec::new(), slabs: Vec::new(), last: None }
    }
}

impl<R> Plan<R> {
    pub(super) fn len(&self) -> usize {
        self.slabs.last().map_or(0, |&(_, rows)| rows)
    }
}

/// The memory of a block's rows.
#[derive(Debug, Default)]
struct Columns {
    ts: Box<[i64]>,
    ids: Box<[RowId]>,
}

impl Columns {
    fn new(rows: usize) -> Self {
        Columns { ts: vec![0; rows].into(), ids: vec![RowId::new(0, 0); rows].into() }
    }
}

impl<R: Run> Block<R> {
    pub(super) fn new(plan: Plan<R>) -> Self {
        let block = Block {
            plan,
            fillers: Counter::new(0),
            rows: OnceLink::default(),
            next: OnceLink::default(),
        };
        if block.len() == 0 {
            block.rows.set(Arc::new(Columns::default())).expect("the block is new");
        }
        block
    }

    /// Returns the number of rows.
    #[allow(clippy::len_without_is_empty, reason = "a block that is given out has rows")]
    pub fn len(&self) -> usize {
        self.plan.len()
    }

    fn rows(&self) -> &Columns {
        self.rows.peek().expect("blocks are filled before they are handed out")
    }

    /// Returns the event times of the rows.
    pub fn ts(&self) -> &[i64] {
        &self.rows().ts[..self.len()]
    }

    /// Returns the ids of the rows.
    pub fn ids(&self) -> &[RowId] {
        &self.rows().ids[..self.len()]
    }

    /// Returns the runs that contain the rows, ordered by rank and position.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &PushedRun<R>> {
        self.plan.runs.iter().map(|record| record.rows())
    }

    /// For each of the [runs](Self::runs), returns the range of rows that are in this block.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges = vec![0..0; self.plan.runs.len()];
        for piece in &self.plan.pieces {
            let range: &mut Range<usize> = &mut ranges[piece.run];
            debug_assert!(range.end == 0 || range.end == piece.row, "a run's pieces are adjacent");
            let start = if range.end == 0 { piece.row } else { range.start };
            *range = start..piece.row + piece.rows;
        }
        ranges
    }

    /// Returns the key of the last row, or `None` if there are no rows.
    pub(super) fn last(&self) -> Option<Key> {
        self.plan.last
    }

    pub(super) fn is_filled(&self) -> bool {
        self.rows.peek().is_some()
    }

    /// Returns whether the caller is the first thread to start filling the block.
    pub(super) fn claim(&self) -> bool {
        self.fillers.add(1) == 0
    }

    /// Returns each slab's range of rows and its pieces. The pieces are ordered by rank and
    /// position.
    fn slabs(&self) -> impl Iterator<Item = (Range<usize>, Vec<(RowId, &[i64])>)> {
        let (mut piece, mut row) = (0, 0);
        self.plan.slabs.iter().map(move |&(piece_end, row_end)| {
            let pieces = self.plan.pieces[piece..piece_end].iter().map(|piece| {
                let pushed = self.plan.runs[piece.run].rows();
                (pushed.first.plus(piece.row), &pushed.run.ts()[piece.row..piece.row + piece.rows])
            });
            let slab = (row..row_end, pieces.collect());
            (piece, row) = (piece_end, row_end);
            slab
        })
    }

    /// Merges the rows, unless another thread has already done so.
    pub(super) fn fill(&self, filler: &mut Filler) {
        let mut columns = filler.memory(self.len());
        for (rows, pieces) in self.slabs() {
            filler.of_ids.merge(&pieces, &mut columns.ts[rows.clone()], &mut columns.ids[rows]);
        }
        if let Err(lost) = self.rows.set(Arc::new(columns)) {
            filler.keep(into_inner(lost));
        }
    }
}

impl<R: Run> Drop for Block<R> {
    fn drop(&mut self) {
        self.next.unchain(|block| &mut block.next);
    }
}

impl<R: Run> fmt::Debug for Block<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("len", &self.len())
            .field("last", &self.last())
            .finish_non_exhaustive()
    }
}

/// A block that has not necessarily been filled yet.
#[derive(Debug)]
pub struct PlannedBlock<R: Run>(pub(super) Arc<Block<R>>);

impl<R: Run> Clone for PlannedBlock<R> {
    fn clone(&self) -> Self {
        PlannedBlock(self.0.clone())
    }
}

impl<R: Run> PlannedBlock<R> {
    /// Returns the number of rows.
    #[allow(clippy::len_without_is_empty, reason = "a block that is given out has rows")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the rows as ranges of runs, ordered by rank and position. This method does not fill
    /// the block, because some consumers only need to know which rows are ready.
    pub fn pieces(&self) -> impl Iterator<Item = (&PushedRun<R>, Range<usize>)> {
        let plan = &self.0.plan;
        let mut rows = vec![0..0; plan.runs.len()];
        for piece in &plan.pieces {
            // A run's rows are adjacent from slab to slab.
            let rows: &mut Range<usize> = &mut rows[piece.run];
            let start = if rows.end == 0 { piece.row } else { rows.start };
            *rows = start..piece.row + piece.rows;
        }
        plan.runs.iter().map(|record| record.rows()).zip(rows)
    }

    /// Writes the times and sources of the rows to the caller's arrays without filling the block.
    /// This method is meant for a gate with a single reader.
    ///
    /// # Panics
    ///
    /// Panics unless `ts` and `sources` have one element per row.
    pub fn write(&self, filler: &mut Filler, ts: &mut [i64], sources: &mut [u16]) {
        assert_eq!((ts.len(), sources.len()), (self.len(), self.len()), "one place for each row");
        for (rows, pieces) in self.0.slabs() {
            filler.of_sources.merge(&pieces, &mut ts[rows.clone()], &mut sources[rows]);
        }
    }
}

/// The memory that a thread needs to fill blocks.
#[derive(Debug, Default)]
pub struct Filler {
    of_ids: Scatter<RowId>,
    of_sources: Scatter<u16>,
    /// The memory of a block that the reader has passed, for reuse by the next block.
    spare: Columns,
}

impl Filler {
    fn memory(&mut self, rows: usize) -> Columns {
        // A block with few rows does not reuse the memory of a large block.
        if rows < BLOCK_ROWS / 4 {
            return Columns::new(rows);
        }
        let spare = std::mem::take(&mut self.spare);
        if spare.ts.len() >= rows { spare } else { Columns::new(rows.max(BLOCK_ROWS * 5 / 4)) }
    }

    fn keep(&mut self, columns: Option<Columns>) {
        if let Some(columns) = columns.filter(|columns| columns.ts.len() > self.spare.ts.len()) {
            self.spare = columns;
        }
    }

    /// Keeps the memory of a block for reuse, unless the block is still used elsewhere.
    pub(super) fn recycle<R: Run>(&mut self, block: Arc<Block<R>>) {
        if let Some(mut block) = into_inner(block) {
            self.keep(block.rows.take().and_then(into_inner));
        }
    }
}
