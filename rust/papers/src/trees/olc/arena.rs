//! An arena that keeps the memory of its nodes for as long as the tree exists.

use tidegate_sync::Lock;

use crate::pieces::Pieces;

/// Nodes by number. Threads allocate and return nodes, and read them without a lock.
///
/// The memory of a returned node is only reused for other nodes. So a thread that is still reading
/// a returned node reads valid numbers. The node's version shows whether these numbers belong to
/// the right node.
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
    /// Returns the node with the given number, or `None` if the number has never been used.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&N> {
        self.nodes.get(number)
    }

    /// Allocates an unused node and returns its number. A reused node still has its old contents.
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

    /// Returns a node to the arena. The tree must no longer refer to this node.
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
