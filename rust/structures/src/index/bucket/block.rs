//! Blocks: the rows of neighbouring keys, in no order.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::directory::Codes;
use super::store::NOBODYS;
use crate::index::{Probe, is_live};

/// Rows of a block.
pub(super) const ROWS: usize = 10;

/// Numbers that [`Kernel::append`] writes, those it adds first.
pub(super) const LANES: usize = 16;

/// How many rows before the oldest one the number of an empty place is: more than a probe goes back
/// for rows that were never inserted, such as those without a value, and so few that the place
/// stays empty while [`MOST_LEFT`] rows leave.
pub(super) const LONG_AGO: u32 = (1 << 31) - 2 * MOST_LEFT;

/// How many rows may leave until blocks are made anew: before numbers wrap around, which would
/// revive the rows.
pub(super) const MOST_LEFT: u32 = 1 << 27;

/// A bit for each row of a block.
pub(super) type Bits = u16;

/// A cache line of rows. A row is its number and a code for its key, whose order is that of the
/// keys of the block.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Block {
    rows: [u32; ROWS],
    codes: [u16; ROWS],
    /// The block that has what finds no room here, or nobody's.
    pub(super) more: u32,
}

// SAFETY: 40 + 20 + 4 bytes of plain numbers without padding; the alignment divides the size.
unsafe impl bytemuck::Zeroable for Block {}
// SAFETY: as above, and every bit pattern is a value.
unsafe impl bytemuck::Pod for Block {}

/// How rows are compared: with wide instructions or without.
pub(super) trait Kernel {
    /// A bit for each place whose row is not before `first`.
    fn live(block: &Block, first: u32) -> Bits;

    /// A bit for each row whose code is among the codes and that the probe takes; and one for each
    /// of these whose code is the least or the greatest.
    fn matching(block: &Block, codes: Codes, probe: &Probe) -> (Bits, Bits);

    /// Writes the rows with a bit to the beginning of `out`; how many they are. What is behind them
    /// may change.
    fn append(block: &Block, bits: Bits, out: &mut [u32; LANES]) -> usize;
}

impl Block {
    /// Without rows: each place has a number that is that of no row, since it is so long before the
    /// oldest one, `first`.
    pub(super) fn empty(first: u32) -> Self {
        Block { rows: [first.wrapping_sub(LONG_AGO); ROWS], codes: [0; ROWS], more: NOBODYS }
    }

    /// Writes the codes and numbers of the rows that have not left to the beginning of `out`; how
    /// many they are. Nothing can predict which these are.
    #[inline]
    pub(super) fn live_rows(&self, first: u32, out: &mut [(u16, u32); ROWS]) -> usize {
        let mut len = 0;
        for (&code, &row) in self.codes.iter().zip(&self.rows) {
            out[len] = (code, row);
            len += usize::from(is_live(row, first));
        }
        len
    }

    /// Puts a row into the first place that has no live one; whether there is such a place.
    #[inline(always)]
    pub(super) fn put(&mut self, live: Bits, code: u16, row: u32) -> bool {
        let at = live.trailing_ones() as usize;
        if at >= ROWS {
            return false;
        }
        (self.codes[at], self.rows[at]) = (code, row);
        true
    }

    /// The row of the lowest bit.
    #[inline]
    pub(super) fn row_of(&self, bits: Bits) -> u32 {
        self.rows[bits.trailing_zeros() as usize]
    }
}

/// Compares one row after the other.
pub(super) struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    fn live(block: &Block, first: u32) -> Bits {
        (0..ROWS).fold(0, |live, at| live | Bits::from(is_live(block.rows[at], first)) << at)
    }

    #[inline(always)]
    fn matching(block: &Block, codes: Codes, probe: &Probe) -> (Bits, Bits) {
        let (mut taken, mut ends) = (0, 0);
        for at in 0..ROWS {
            let code = block.codes[at];
            let is_taken = (codes.low <= code) & (code <= codes.high) & probe.takes(block.rows[at]);
            taken |= Bits::from(is_taken) << at;
            ends |= Bits::from(is_taken & ((code == codes.low) | (code == codes.high))) << at;
        }
        (taken, ends)
    }

    #[inline(always)]
    fn append(block: &Block, mut bits: Bits, out: &mut [u32; LANES]) -> usize {
        let mut len = 0;
        while bits != 0 {
            out[len] = block.row_of(bits);
            len += 1;
            bits &= bits - 1;
        }
        len
    }
}

/// Compares all rows at once. Where the processor has not the instructions nothing may be called.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// Of sixteen lanes those that are rows.
    const PLACES: Bits = (1 << ROWS) - 1;

    /// Sixteen lanes, of which the first ten are the rows' numbers.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn rows(block: &Block) -> __m512i {
        // SAFETY: the block's 64 bytes, all of them plain numbers.
        unsafe { _mm512_loadu_si512(std::ptr::from_ref(block).cast()) }
    }

    /// A bit for each row whose code is among the codes, and one for each of these whose code is
    /// one of the two.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    #[inline]
    fn inside(block: &Block, codes: Codes) -> (Bits, Bits) {
        /// Lanes before the codes in the second half of a block.
        const BEFORE: usize = 4;
        const { assert!(std::mem::offset_of!(Block, codes) == 32 + BEFORE * size_of::<u16>()) };
        // SAFETY: the second half of the block's 64 bytes, all of them plain numbers.
        let there =
            unsafe { _mm256_loadu_si256(std::ptr::from_ref(block).cast::<__m256i>().add(1)) };
        let (low, high) = (
            _mm256_set1_epi16(codes.low.cast_signed()),
            _mm256_set1_epi16(codes.high.cast_signed()),
        );
        let inside = _mm256_mask_cmple_epu16_mask(_mm256_cmpge_epu16_mask(there, low), there, high);
        let ends = _mm256_cmpeq_epi16_mask(there, low) | _mm256_cmpeq_epi16_mask(there, high);
        (inside >> BEFORE & Self::PLACES, ends >> BEFORE & Self::PLACES)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn live(block: &Block, first: u32) -> Bits {
        let ages = _mm512_sub_epi32(Self::rows(block), _mm512_set1_epi32(first.cast_signed()));
        _mm512_mask_cmpge_epi32_mask(Self::PLACES, ages, _mm512_setzero_si512())
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    #[inline]
    fn matching(block: &Block, codes: Codes, probe: &Probe) -> (Bits, Bits) {
        let (inside, ends) = Self::inside(block, codes);
        let distances =
            _mm512_sub_epi32(Self::rows(block), _mm512_set1_epi32(probe.from.cast_signed()));
        let width = _mm512_set1_epi32(probe.to.wrapping_sub(probe.from).cast_signed());
        let taken = _mm512_mask_cmplt_epu32_mask(inside, distances, width);
        (taken, taken & ends)
    }

    #[target_feature(enable = "avx512f,popcnt")]
    #[inline]
    fn append(block: &Block, bits: Bits, out: &mut [u32; LANES]) -> usize {
        // SAFETY: `out` has sixteen numbers.
        unsafe {
            _mm512_storeu_si512(
                out.as_mut_ptr().cast(),
                _mm512_maskz_compress_epi32(bits, Self::rows(block)),
            )
        };
        bits.count_ones() as usize
    }
}

#[cfg(target_arch = "x86_64")]
impl Kernel for Avx512 {
    #[inline(always)]
    fn live(block: &Block, first: u32) -> Bits {
        debug_assert!(super::has_avx512());
        // SAFETY: nothing is called where the processor has not the instructions.
        unsafe { Self::live(block, first) }
    }

    #[inline(always)]
    fn matching(block: &Block, codes: Codes, probe: &Probe) -> (Bits, Bits) {
        debug_assert!(super::has_avx512());
        // SAFETY: as above.
        unsafe { Self::matching(block, codes, probe) }
    }

    #[inline(always)]
    fn append(block: &Block, bits: Bits, out: &mut [u32; LANES]) -> usize {
        debug_assert!(super::has_avx512());
        // SAFETY: as above.
        unsafe { Self::append(block, bits, out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(codes: &[u16]) -> Block {
        let mut block = Block::empty(u32::MAX - 50);
        for (at, &code) in codes.iter().enumerate() {
            let live = Portable::live(&block, u32::MAX - 50);
            assert!(block.put(live, code, (at as u32).wrapping_sub(2)));
        }
        block
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn oracle_both_kernels_find_alike() {
        if !super::super::has_avx512() {
            return;
        }
        let codes = [5, 0, 7, u16::MAX, 1 << 15, 7, 6, 3, 9, 5];
        for block in (0..=ROWS).map(|len| block(&codes[..len])) {
            for (low, high) in [(5, 7), (0, u16::MAX), (7, 6), (u16::MAX, u16::MAX), (7, 1 << 15)] {
                for (from, to) in [(0, 10), (3, 5), (u32::MAX - 1, 9), (u32::MAX - 5, u32::MAX)] {
                    let probe = Probe {
                        low: 0,
                        high: 0,
                        from: from.wrapping_sub(2),
                        to: to.wrapping_sub(2),
                    };
                    let bits = <Portable as Kernel>::matching(&block, Codes { low, high }, &probe);
                    assert_eq!(
                        <Avx512 as Kernel>::matching(&block, Codes { low, high }, &probe),
                        bits
                    );
                    assert_eq!(
                        <Avx512 as Kernel>::live(&block, from),
                        Portable::live(&block, from)
                    );
                    let (mut one, mut other) = ([1; LANES], [1; LANES]);
                    let len = Portable::append(&block, bits.0, &mut one);
                    assert_eq!(<Avx512 as Kernel>::append(&block, bits.0, &mut other), len);
                    assert_eq!(one[..len], other[..len]);
                }
            }
        }
    }

    #[test]
    fn rows_that_have_left_make_room() {
        let mut block = block(&[1; ROWS]);
        let first = |age: u32| age.wrapping_sub(2);
        assert!(!block.put(Portable::live(&block, first(0)), 1, first(10)));
        assert!(block.put(Portable::live(&block, first(2)), 1, first(10)));
        assert_eq!(block.rows[0], first(10), "the oldest has made room");
    }
}
