//! From matches to pairs, where nothing else comes of them.

use tidegate_structures::memory;

use super::buffer::LANES;
use super::replica::Matches;
use crate::rows::{Results, Side};

/// Makes results of pairs alone, of which the number is known.
#[derive(Debug)]
pub(super) struct Pairs {
    /// Offsets of left and of right rows, and some more that may be written over.
    offsets: [Vec<u32>; 2],
    len: usize,
}

impl Pairs {
    pub(super) fn new(pairs: usize) -> Self {
        Pairs {
            offsets: [memory::filled(pairs + LANES, 0), memory::filled(pairs + LANES, 0)],
            len: 0,
        }
    }

    /// Adds the pairs of the row at `offset` with the rows that match it. The row of number `first`
    /// has offset 0 among the rows of its side.
    #[inline]
    pub(super) fn add(&mut self, side: Side, offset: u32, matches: Matches<'_>, first: u32) {
        let (from, to) = (self.len, self.len + matches.len());
        // A fixed number at once, even if there are fewer: the next row writes over the surplus.
        self.offsets[side as usize][from..from + LANES].fill(offset);
        let lanes = matches.first_lanes().map(|number| number.wrapping_sub(first));
        self.offsets[side.other() as usize][from..from + LANES].copy_from_slice(&lanes);
        if matches.len() > LANES {
            self.offsets[side as usize][from..to].fill(offset);
            let others = self.offsets[side.other() as usize][from..to].iter_mut();
            others
                .zip(matches.numbers())
                .for_each(|(other, number)| *other = number.wrapping_sub(first));
        }
        self.len = to;
    }

    pub(super) fn finish(self) -> Results {
        let [left, right] = self.offsets.map(|mut offsets| {
            offsets.truncate(self.len);
            offsets
        });
        Results { left, right }
    }
}
