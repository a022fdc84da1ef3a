//! Tracks how many leading items are done while several threads process the items in any order.

use crate::atomic::{AtomicBool, Ordering};
use crate::{HighWater, TryLock};

/// Items that can be marked, and the *edge*: the number of leading items that are all marked.
///
/// A thread that marks an item moves the edge, unless another thread is already doing so. The edge
/// can therefore be stale. A stale edge is too low.
#[derive(Debug)]
pub struct Prefix {
    marks: Vec<AtomicBool>,
    edge: HighWater,
    /// The position of the edge. The thread that holds the lock moves the edge.
    moving: TryLock<usize>,
}

impl Prefix {
    /// Creates a prefix of `len` unmarked items.
    pub fn new(len: usize) -> Self {
        let marks = (0..len).map(|_| AtomicBool::new(false)).collect();
        Prefix { marks, edge: HighWater::default(), moving: TryLock::new(0) }
    }

    /// Marks an item. When a thread sees that the edge is past this item, it also sees all work
    /// that was done before the item was marked.
    pub fn mark(&self, nth: usize) {
        self.mark_all([nth]);
    }

    /// Like [`mark`](Self::mark), but for several items. Checks only once whether the edge can be
    /// moved.
    pub fn mark_all(&self, things: impl IntoIterator<Item = usize>) {
        // Release: pairs with the Acquire of the thread that moves the edge past it.
        things.into_iter().for_each(|nth| self.marks[nth].store(true, Ordering::Release));
        self.moving.try_with(|edge| {
            // Acquire: all work done before the mark is passed on with the edge.
            while self.marks.get(*edge).is_some_and(|mark| mark.load(Ordering::Acquire)) {
                *edge += 1;
            }
            self.edge.raise(*edge as u64);
        });
    }

    /// Returns the number of leading items that are known to be marked. There may be more.
    pub fn edge(&self) -> usize {
        self.edge.get() as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_edge_is_at_the_first_that_is_not_marked() {
        let prefix = Prefix::new(4);
        prefix.mark(1);
        assert_eq!(prefix.edge(), 0);
        prefix.mark(0);
        assert_eq!(prefix.edge(), 2);
        prefix.mark(3);
        prefix.mark(2);
        assert_eq!(prefix.edge(), 4);
    }
}
