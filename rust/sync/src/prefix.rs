//! How many things, counted from the first, are done, while several threads do them in any order.

use crate::atomic::{AtomicBool, Ordering};
use crate::{HighWater, TryLock};

/// Marks of so many things, and how many of them from the first on are marked: the edge.
///
/// A thread that marks one moves the edge on if nobody else is at it, and otherwise leaves it: an
/// edge may be stale, and is then too low.
#[derive(Debug)]
pub struct Prefix {
    marks: Vec<AtomicBool>,
    edge: HighWater,
    /// Whoever has it moves the edge; where the edge is.
    moving: TryLock<usize>,
}

impl Prefix {
    /// So many things, none of them marked.
    pub fn new(len: usize) -> Self {
        let marks = (0..len).map(|_| AtomicBool::new(false)).collect();
        Prefix { marks, edge: HighWater::default(), moving: TryLock::new(0) }
    }

    /// Marks a thing: what was done before is seen by whoever sees the edge behind it.
    pub fn mark(&self, nth: usize) {
        self.mark_all([nth]);
    }

    /// Marks things, as [`mark`](Self::mark) does, and looks only once whether the edge can be
    /// moved.
    pub fn mark_all(&self, things: impl IntoIterator<Item = usize>) {
        // Release: pairs with the Acquire of whoever moves the edge past it.
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
