//! The reading side of the row gate: `getNextReadyTuple`.

use std::fmt;
use std::marker::PhantomData;

use tidegate_sync::atomic::Arc;

use super::list::Row;
use super::node::{Hold, Node, NodePtr, PassedNodes};
use super::reclaim::GateState;
use tidegate_structures::gate::Next;
use tidegate_structures::gate::promise::{Fork, Frontier, Promise, PromiseCell, Sources};
use tidegate_structures::gate::{Key, NotSync, Rank};

/// The number of rows that a reader takes before it checks again for memory that can be freed.
/// So memory is freed even if all sources are idle.
const ROWS_BETWEEN: u32 = if cfg!(any(loom, tidegate_stress)) { 1 } else { 4096 };

/// A consumer of the gate that receives every row from its starting position onwards.
pub struct Reader<T: Send + Sync> {
    shared: Arc<GateState<T>>,
    /// The row returned last: the paper's `head`. The hold is at this row.
    pub(super) at: NodePtr<T>,
    hold: Arc<Hold<T>>,
    pub(super) frontier: Frontier,
    pub(super) lanes: Lanes,
    /// The number of rows left before the next check for memory that can be freed.
    until_reclaim: u32,
    not_sync: NotSync,
}

// SAFETY: a reader is a position in a list of payloads that other threads read and drop.
unsafe impl<T: Send + Sync> Send for Reader<T> {}

impl<T: Send + Sync> Reader<T> {
    pub(super) fn seed(shared: &Arc<GateState<T>>, cells: &[Arc<PromiseCell>]) -> Self {
        let lanes =
            cells.iter().map(|cell| Some(Lane { cell: cell.clone(), last_fork: None })).collect();
        Reader {
            shared: shared.clone(),
            at: shared.head(),
            hold: shared.hold(shared.head(), PassedNodes::none()),
            frontier: Frontier::new((0..=u16::MAX).take(cells.len()).map(Rank::from)),
            lanes: Lanes(lanes),
            until_reclaim: ROWS_BETWEEN,
            not_sync: PhantomData,
        }
    }

    /// Returns the next row in merged order, if it is ready: `getNextReadyTuple`.
    ///
    /// The row is borrowed until the next call. Until then, the memory of this row and all later
    /// rows is not freed.
    #[inline]
    pub fn next_ready(&mut self) -> Next<Row<'_, T>> {
        match self.step() {
            // SAFETY: a step was made.
            Next::Ready(()) => Next::Ready(unsafe { self.row() }),
            Next::NotYet => Next::NotYet,
            Next::End => Next::End,
        }
    }

    /// Moves to the next row, if it is ready.
    #[inline]
    pub(super) fn step(&mut self) -> Next<()> {
        loop {
            // The end is checked before the list is read, because rows are linked before a source
            // closes.
            let ended = self.frontier.is_end();
            // SAFETY: the hold is at `at`.
            let Some(next) = unsafe { self.at.get() }.next(0) else {
                if ended {
                    return Next::End;
                }
                // If this shows the end, rows may have been linked since the list was read.
                if self.frontier.raise(Key::LAST, &mut self.lanes) {
                    continue;
                }
                return Next::NotYet;
            }; // L39
            if next.key() <= self.frontier.bound() {
                self.won(next); // L42
                return Next::Ready(()); // L43
            }
            if !self.frontier.raise(next.key(), &mut self.lanes) {
                return Next::NotYet; // L44
            }
            // The row is ready. However, rows that sort earlier may have been linked before the
            // promises that made it ready, so the list is read again (R1).
        }
    }

    /// Moves forward to `at`.
    #[inline]
    pub(super) fn stand(&mut self, at: NodePtr<T>) {
        self.at = at;
        self.hold.move_to(at);
    }

    /// Records `next` as the row returned last.
    #[inline]
    pub(super) fn won(&mut self, next: &Node<T>) {
        self.stand(NodePtr::of(next));
        self.until_reclaim -= 1;
        if self.until_reclaim == 0 {
            self.until_reclaim = ROWS_BETWEEN;
            self.shared.reclaim();
        }
    }

    /// Returns the row that the last step reached.
    ///
    /// # Safety
    ///
    /// A step was made.
    #[inline]
    pub(super) unsafe fn row(&self) -> Row<'_, T> {
        // SAFETY: the hold is at `at` while the reader is borrowed. After a step, `at` is a row and
        // not the head.
        unsafe { Row::of(self.at.get()) }
    }

    /// Creates a reader that starts after the last row that this reader returned.
    pub fn fork(&self) -> Reader<T> {
        Reader {
            shared: self.shared.clone(),
            at: self.at,
            hold: self.shared.hold(self.at, PassedNodes::none()),
            frontier: self.frontier.clone(),
            lanes: self.lanes.clone(),
            until_reclaim: ROWS_BETWEEN,
            not_sync: PhantomData,
        }
    }

    /// Returns the number of bytes that the gate uses for rows.
    pub fn memory(&self) -> usize {
        self.shared.budget.used()
    }
}

impl<T: Send + Sync> Drop for Reader<T> {
    fn drop(&mut self) {
        self.hold.give_up();
        self.shared.reclaim();
    }
}

impl<T: Send + Sync> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("frontier", &self.frontier).finish_non_exhaustive()
    }
}

/// The sources known to a reader, indexed by number. `None` means that a source has closed, or that
/// the reader has not reached the source's beginning.
#[derive(Clone, Debug)]
pub(super) struct Lanes(Vec<Option<Lane>>);

#[derive(Clone, Debug)]
struct Lane {
    cell: Arc<PromiseCell>,
    last_fork: Option<Arc<Fork>>,
}

impl Lanes {
    fn join(&mut self, fork: &Fork) {
        let number = usize::from(fork.rank.number());
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number] = Some(Lane { cell: fork.cell.clone(), last_fork: None });
    }
}

impl Sources for Lanes {
    fn look(&mut self, source: Rank, mut joined: impl FnMut(i64, Rank)) -> Promise {
        let number = usize::from(source.number());
        let lane = self.0[number].as_mut().expect("only open sources are read");
        // The promise is read before the forks: see P2.
        let promise = lane.cell.get();
        let mut found = Vec::new();
        loop {
            let link = lane.last_fork.as_ref().map_or(&lane.cell.first_fork, |last| &last.next);
            let Some(fork) = link.get() else { break };
            found.push(fork.clone());
            lane.last_fork = Some(fork);
        }
        if promise == Promise::Closed {
            self.0[number] = None;
        }
        for fork in found {
            joined(fork.from, fork.rank);
            self.join(&fork);
        }
        promise
    }
}
