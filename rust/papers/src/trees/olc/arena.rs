//! An arena of nodes whose memory is kept as long as the tree exists.

use tidegate_sync::Lock;

use crate::pieces::Pieces;

/// Nodes by number. Threads read nodes without a lock, and allocate and return them.
///
/// A returned node becomes another node, but never anything else. A thread that still reads a
/// returned node therefore reads numbers. The node's version shows the thread that these are not
/// the numbers it searched for.
#[derive(Debug)]
pub(super) struct Arena<N> {
    nodes: Pieces<N>,
    spare: Lock<Spare>,
}

/// The unused nodes.
#[derive(Debug, Default)]
struct Spare {
    given_back: Vec<u32>,
    /// Nodes from this number onwards have never been used.
    next: u32,
}

impl<N> Default for Arena<N> {
    fn default() -> Self {
        Arena { nodes: Pieces::default(), spare: Lock::default() }
    }
}

impl<N: Default> Arena<N> {
    /// Returns the node with a number, or `None` if no node has had it yet.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&N> {
        self.nodes.get(number)
    }

    /// Allocates an unused node, which is unchanged since it was returned, and returns its number.
    pub(super) fn take(&self) -> u32 {
        self.spare.with(|spare| {
            if let Some(number) = spare.given_back.pop() {
                return number;
            }
            let number = spare.next;
            self.nodes.get_or_make(number);
            spare.next += 1;
            number
        })
    }

    /// Returns a node, to which nothing leads any more, to the arena.
    pub(super) fn give_back(&self, number: u32) {
        self.spare.with(|spare| spare.given_back.push(number));
    }

    /// Returns the number of nodes in use.
    #[cfg(all(test, not(loom)))]
    pub(super) fn taken(&self) -> usize {
        self.spare.with(|spare| spare.next as usize - spare.given_back.len())
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        let of_spare = self.spare.with(|spare| spare.given_back.capacity() * size_of::<u32>());
        self.nodes.memory() + of_spare
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_once_until_they_are_given_back() {
        let arena = Arena::<u64>::default();
        assert!(arena.get(0).is_none());
        let taken: Vec<u32> = (0..100).map(|_| arena.take()).collect();
        assert_eq!(taken, (0..100).collect::<Vec<u32>>());
        assert!(taken.iter().all(|&number| arena.get(number).is_some()));
        arena.give_back(7);
        assert_eq!((arena.taken(), arena.take(), arena.take()), (99, 7, 100));
    }
}
