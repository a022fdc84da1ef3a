//! Blocks: the rows of neighbouring keys, in no order.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::directory::Reach;
use crate::index::{Probe, is_live};

/// Rows of a block.
pub(super) const ROWS: usize = 7;

/// A cache line of rows. A row is its number and a code for its key, whose order is that of the keys of the block.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Block {
    codes: [u32; ROWS],
    rows: [u32; ROWS],
    /// How many places have been written.
    len: u8,
    /// Whether rows that belong here have spilled.
    pub(super) has_spilled: u8,
    unused: u16,
    /// The block that has what finds no room here; 0 if there is none.
    pub(super) next: u32,
}

// SAFETY: 28 + 28 + 4 + 4 bytes of plain numbers without padding; the alignment divides the size.
unsafe impl bytemuck::Zeroable for Block {}
// SAFETY: as above, and every bit pattern is a value.
unsafe impl bytemuck::Pod for Block {}

/// How rows are compared: with wide instructions or without.
pub(super) trait Kernel {
    /// A bit for each written place whose row is not before `first`.
    fn live(block: &Block, first: u32) -> u8;

    /// A bit for each row that has a code within the reach and that the probe takes; and one for each of these whose code is
    /// at an end of the reach.
    fn matching(block: &Block, reach: Reach, probe: &Probe) -> (u8, u8);

    /// Appends the rows with a bit.
    fn append(block: &Block, bits: u8, found: &mut Vec<u32>);
}

impl Block {
    /// Without rows. What lies in their places does not matter.
    pub(super) fn reset(&mut self) {
        (self.len, self.has_spilled, self.next) = (0, 0, 0);
    }

    /// The numbers of the rows, some of which may have left.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows[..usize::from(self.len).min(ROWS)]
    }

    /// A bit for each place that has been written.
    #[inline(always)]
    fn written(&self) -> u8 {
        (1 << self.len) - 1
    }

    /// Puts a row into the first place that has no live one; whether there is such a place. Always looking at all places
    /// costs less than to remember when they are full, which nothing could predict.
    #[inline(always)]
    pub(super) fn put(&mut self, live: u8, code: u32, row: u32) -> bool {
        let at = live.trailing_ones() as usize;
        if at >= ROWS {
            return false;
        }
        (self.codes[at], self.rows[at]) = (code, row);
        self.len = self.len.max(at as u8 + 1);
        true
    }

    /// The row of the lowest bit.
    #[inline]
    pub(super) fn row_of(&self, bits: u8) -> u32 {
        self.rows[bits.trailing_zeros() as usize]
    }
}

/// Compares one row after the other.
pub(super) struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    fn live(block: &Block, first: u32) -> u8 {
        (0..ROWS).fold(0, |live, at| live | u8::from(is_live(block.rows[at], first)) << at) & block.written()
    }

    #[inline(always)]
    fn matching(block: &Block, reach: Reach, probe: &Probe) -> (u8, u8) {
        let (mut taken, mut ends) = (0, 0);
        for at in 0..usize::from(block.len) {
            let code = block.codes[at];
            let is_taken = (reach.low..=reach.high).contains(&code) & probe.takes(block.rows[at]);
            taken |= u8::from(is_taken) << at;
            ends |= u8::from(is_taken & ((code == reach.low) | (code == reach.high))) << at;
        }
        (taken, ends)
    }

    #[inline(always)]
    fn append(block: &Block, mut bits: u8, found: &mut Vec<u32>) {
        while bits != 0 {
            found.push(block.row_of(bits));
            bits &= bits - 1;
        }
    }
}

/// Compares all rows at once. Where the processor has not the instructions nothing may be called.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// Eight lanes, of which the last is another field of the block.
    #[target_feature(enable = "avx512f,avx512vl")]
    #[inline]
    fn lanes(block: &Block, of_rows: bool) -> __m256i {
        let start = std::ptr::from_ref(block).cast::<u32>();
        // SAFETY: 32 bytes from byte 0 or 28 on are within the block's 64, all of them plain numbers.
        unsafe { _mm256_loadu_si256(start.add(if of_rows { ROWS } else { 0 }).cast()) }
    }

    #[target_feature(enable = "avx512f,avx512vl")]
    #[inline]
    fn live(block: &Block, first: u32) -> u8 {
        let ages = _mm256_sub_epi32(Self::lanes(block, true), _mm256_set1_epi32(first.cast_signed()));
        _mm256_mask_cmpge_epi32_mask(block.written(), ages, _mm256_setzero_si256())
    }

    #[target_feature(enable = "avx512f,avx512vl")]
    #[inline]
    fn matching(block: &Block, reach: Reach, probe: &Probe) -> (u8, u8) {
        let codes = Self::lanes(block, false);
        let (low, high) = (_mm256_set1_epi32(reach.low.cast_signed()), _mm256_set1_epi32(reach.high.cast_signed()));
        let inside = _mm256_mask_cmpge_epu32_mask(block.written(), codes, low);
        let inside = _mm256_mask_cmple_epu32_mask(inside, codes, high);
        let distances = _mm256_sub_epi32(Self::lanes(block, true), _mm256_set1_epi32(probe.from.cast_signed()));
        let width = _mm256_set1_epi32(probe.to.wrapping_sub(probe.from).cast_signed());
        let taken = _mm256_mask_cmplt_epu32_mask(inside, distances, width);
        let ends = _mm256_mask_cmpeq_epi32_mask(taken, codes, low) | _mm256_mask_cmpeq_epi32_mask(taken, codes, high);
        (taken, ends)
    }

    #[target_feature(enable = "avx512f,avx512vl,popcnt")]
    #[inline]
    fn append(block: &Block, bits: u8, found: &mut Vec<u32>) {
        const LANES: usize = 8;
        found.reserve(LANES);
        debug_assert!(found.capacity() - found.len() >= LANES && usize::from(bits) < 1 << ROWS);
        // SAFETY: `reserve` has made room for eight numbers, all of which are written, and no more become part of it.
        unsafe {
            let end = found.as_mut_ptr().add(found.len());
            _mm256_storeu_si256(end.cast(), _mm256_maskz_compress_epi32(bits, Self::lanes(block, true)));
            found.set_len(found.len() + bits.count_ones() as usize);
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Kernel for Avx512 {
    #[inline(always)]
    fn live(block: &Block, first: u32) -> u8 {
        debug_assert!(super::has_avx512());
        // SAFETY: nothing is called where the processor has not the instructions.
        unsafe { Self::live(block, first) }
    }

    #[inline(always)]
    fn matching(block: &Block, reach: Reach, probe: &Probe) -> (u8, u8) {
        debug_assert!(super::has_avx512());
        // SAFETY: as above.
        unsafe { Self::matching(block, reach, probe) }
    }

    #[inline(always)]
    fn append(block: &Block, bits: u8, found: &mut Vec<u32>) {
        debug_assert!(super::has_avx512());
        // SAFETY: as above.
        unsafe { Self::append(block, bits, found) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(codes: &[u32]) -> Block {
        let mut block: Block = bytemuck::Zeroable::zeroed();
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
        let codes = [5, 0, 7, u32::MAX, 1 << 31, 7, 6];
        for block in (0..=ROWS).map(|len| block(&codes[..len])) {
            for (low, high) in [(5, 7), (0, u32::MAX), (7, 6), (u32::MAX, u32::MAX), (7, 1 << 31)] {
                for (from, to) in [(0, 7), (3, 5), (u32::MAX - 1, 6), (u32::MAX - 5, u32::MAX)] {
                    let probe = Probe { low: 0, high: 0, from: from.wrapping_sub(2), to: to.wrapping_sub(2) };
                    let reach = Reach { low, high };
                    let bits = <Portable as Kernel>::matching(&block, reach, &probe);
                    assert_eq!(<Avx512 as Kernel>::matching(&block, reach, &probe), bits);
                    assert_eq!(<Avx512 as Kernel>::live(&block, from), Portable::live(&block, from));
                    let (mut one, mut other) = (vec![1], vec![1]);
                    Portable::append(&block, bits.0, &mut one);
                    <Avx512 as Kernel>::append(&block, bits.0, &mut other);
                    assert_eq!(one, other);
                }
            }
        }
    }

    #[test]
    fn rows_that_have_left_make_room() {
        let mut block = block(&[1; ROWS]);
        let first = |age: u32| age.wrapping_sub(2);
        assert!(!block.put(Portable::live(&block, first(0)), 1, first(7)));
        assert!(block.put(Portable::live(&block, first(2)), 1, first(7)));
        assert_eq!(block.rows()[0], first(7), "the oldest has made room");
    }
}
