//! Nodes that keep their memory for as long as the tree lives.

use tidegate_sync::Lock;

use crate::pieces::Pieces;

/// Nodes by number. Threads look at them without a lock, and take some and give them back.
///
/// A node that is given back becomes another node, but never anything else: so a thread that still
/// looks at it reads numbers, and learns from its version that they are not what it looked for.
#[derive(Debug)]
pub(super) struct Arena<N> {
    nodes: Pieces<N>,
    spare: Lock<Spare>,
}

/// The nodes that nobody has.
#[derive(Debug, Default)]
struct Spare {
    given_back: Vec<u32>,
    /// Nodes from this number on were never taken.
    next: u32,
}

impl<N> Default for Arena<N> {
    fn default() -> Self {
        Arena { nodes: Pieces::default(), spare: Lock::default() }
    }
}

impl<N: Default> Arena<N> {
    /// The node of a number; none if no node had it yet.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&N> {
        self.nodes.get(number)
    }

    /// The number of a node that nobody has, as it was when it was given back.
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

    /// Takes back a node to which nothing leads any more.
    pub(super) fn give_back(&self, number: u32) {
        self.spare.with(|spare| spare.given_back.push(number));
    }

    /// Nodes that are in use.
    #[cfg(all(test, not(loom)))]
    pub(super) fn taken(&self) -> usize {
        self.spare.with(|spare| spare.next as usize - spare.given_back.len())
    }

    /// Bytes held.
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
