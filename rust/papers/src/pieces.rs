//! Numbered values in memory that grows while other threads read it.

use std::sync::OnceLock;

use tidegate_structures::memory;

/// The number of values that the first piece of memory holds. Each subsequent piece holds twice as
/// many values.
const FIRST: usize = if cfg!(any(test, loom)) { 4 } else { 16 };

/// The number of pieces. Together, the pieces have room for all values numbered below 2^31.
const PIECES: usize = 27;

/// Values by number. Values never move.
#[derive(Debug)]
pub(super) struct Pieces<T>([OnceLock<Box<[T]>>; PIECES]);

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Pieces([const { OnceLock::new() }; PIECES])
    }
}

/// Returns the piece of a value, and the value's position in it.
#[inline]
fn place(number: u32) -> (usize, usize) {
    let number = number as usize + FIRST;
    let piece = (number / FIRST).ilog2();
    (piece as usize, number - (FIRST << piece))
}

impl<T: Default> Pieces<T> {
    /// Returns the value with this number, provided that memory has been allocated for it.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let (piece, at) = place(number);
        self.0.get(piece)?.get()?.get(at)
    }

    /// Returns the value with this number. If necessary, allocates memory for the value and its
    /// neighbours.
    pub(super) fn get_or_make(&self, number: u32) -> &T {
        let (piece, at) = place(number);
        assert!(piece < PIECES, "a window has fewer than 2^31 rows");
        let make = || memory::collect((0..FIRST << piece).map(|_| T::default()));
        &self.0[piece].get_or_init(|| make().into_boxed_slice())[at]
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        let made = self.0.iter().filter_map(OnceLock::get).map(|piece| piece.len());
        made.sum::<usize>() * size_of::<T>()
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
    fn a_value_is_there_once_memory_was_made_for_it() {
        let pieces = Pieces::<u64>::default();
        assert!(pieces.get(0).is_none() && pieces.memory() == 0);
        assert_eq!(pieces.get_or_make(7), &0);
        assert!(pieces.get(7).is_some() && pieces.get(0).is_none());
        assert!(pieces.get(1_000_000).is_none() && pieces.get(u32::MAX).is_none());
        assert_eq!(pieces.memory(), 8 * 8);
    }
}
