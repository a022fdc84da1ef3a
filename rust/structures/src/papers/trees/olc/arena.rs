//! Nodes that keep their memory for as long as the tree lives.

use std::sync::OnceLock;

use tidegate_sync::Lock;

use crate::memory;

/// Nodes of the first piece of memory; each further one has twice as many.
const FIRST: usize = if cfg!(any(test, loom)) { 4 } else { 16 };

/// Pieces of memory. No window has more nodes than they hold.
const PIECES: usize = 27;

/// Nodes by number. Threads look at them without a lock, and take some and give them back.
///
/// A node that is given back becomes another node, but never anything else: so a thread that still
/// looks at it reads numbers, and learns from its version that they are not what it looked for.
#[derive(Debug)]
pub(super) struct Arena<N> {
    pieces: [OnceLock<Box<[N]>>; PIECES],
    spare: Lock<Spare>,
}

/// The nodes that nobody has.
#[derive(Debug, Default)]
struct Spare {
    given_back: Vec<u32>,
    /// Nodes from this number on were never taken.
    next: u32,
    /// Nodes for which there is memory.
    made: usize,
}

impl<N> Default for Arena<N> {
    fn default() -> Self {
        Arena { pieces: [const { OnceLock::new() }; PIECES], spare: Lock::default() }
    }
}

/// The piece in which a node is, and its place there.
#[inline]
fn place(number: u32) -> (usize, usize) {
    let number = number as usize + FIRST;
    let piece = (number / FIRST).ilog2();
    (piece as usize, number - (FIRST << piece))
}

impl<N: Default> Arena<N> {
    /// The node of a number; none if no node had it yet.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&N> {
        let (piece, at) = place(number);
        self.pieces.get(piece)?.get()?.get(at)
    }

    /// The number of a node that nobody has, as it was when it was given back.
    pub(super) fn take(&self) -> u32 {
        self.spare.with(|spare| {
            if let Some(number) = spare.given_back.pop() {
                return number;
            }
            let number = spare.next;
            let (piece, _) = place(number);
            assert!(piece < PIECES, "a window has less than 2^31 rows");
            self.pieces[piece].get_or_init(|| {
                let nodes = memory::collect((0..FIRST << piece).map(|_| N::default()));
                spare.made += nodes.len();
                nodes.into_boxed_slice()
            });
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
        self.spare.with(|spare| {
            spare.made * size_of::<N>() + spare.given_back.capacity() * size_of::<u32>()
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other_from_piece_to_piece() {
        let mut expected = (0, 0);
        for number in 0..10_000 {
            assert_eq!(place(number), expected, "{number}");
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn numbers_are_taken_once_until_they_are_given_back() {
        let arena = Arena::<u64>::default();
        assert!(arena.get(0).is_none());
        let taken: Vec<u32> = (0..100).map(|_| arena.take()).collect();
        assert_eq!(taken, (0..100).collect::<Vec<u32>>());
        assert!(taken.iter().all(|&number| arena.get(number).is_some()));
        assert!(arena.get(1_000_000).is_none() && arena.get(u32::MAX).is_none());
        arena.give_back(7);
        assert_eq!((arena.taken(), arena.take(), arena.take()), (99, 7, 100));
    }
}
