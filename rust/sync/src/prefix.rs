//! How many things, counted from the first, are done, while several threads do them in any order.

use crate::atomic::{AtomicBool, Ordering};
use crate::{HighWater, TryLock};

/// Marks of things, and the *edge*: how many of them, counted from the first, are marked.
///
/// A thread that marks a thing moves the edge on, unless another thread is at it. So an edge may be
/// stale, and is then too low.
#[derive(Debug)]
pub struct Prefix {
    marks: Vec<AtomicBool>,
    edge: HighWater,
    /// The place of the edge. The thread that has it moves the edge.
    moving: TryLock<usize>,
}

impl Prefix {
    /// `len` things, none of them marked.
    pub fn new(len: usize) -> Self {
        let marks = (0..len).map(|_| AtomicBool::new(false)).collect();
        Prefix { marks, edge: HighWater::default(), moving: TryLock::new(0) }
    }

    /// Marks a thing. A thread that sees the edge behind the thing sees all work done before.
    pub fn mark(&self, nth: usize) {
        self.mark_all([nth]);
    }

    /// Marks things, as [`mark`](Self::mark) does, and looks only once whether the edge can be
    /// moved.
    pub fn mark_all(&self, things: impl IntoIterator<Item = usize>) {
        // Release: pairs with the Acquire of the thread that moves the edge past it.
        things.into_iter().for_each(|nth| self.marks[nth].store(true, Ordering::Release));
        self.moving.try_with(|edge| {
            // Acquire: what was done before the mark is passed on with the edge.
            while self.marks.get(*edge).is_some_and(|mark| mark.load(Ordering::Acquire)) {
                *edge += 1;
            }
            self.edge.raise(*edge as u64);
        });
    }

    /// So many from the first on are marked, if not more.
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
