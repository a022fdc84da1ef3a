//! Blocks: the rows of neighbouring keys, in no order.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::index::{Probe, is_live};

/// Rows of a block.
pub(super) const ROWS: usize = 10;

/// Two cache lines of rows.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Block {
    keys: [i64; ROWS],
    rows: [u32; ROWS],
    /// How many of the rows are written.
    len: u32,
    /// Whether rows that belong here were put elsewhere.
    has_spilled: u32,
}

// SAFETY: 80 + 40 + 8 bytes of plain numbers without padding; the alignment divides the size.
unsafe impl bytemuck::Zeroable for Block {}
// SAFETY: as above, and every bit pattern is a value.
unsafe impl bytemuck::Pod for Block {}

impl Block {
    /// Without rows. What lies in the rows' places does not matter.
    pub(super) fn reset(&mut self) {
        (self.len, self.has_spilled) = (0, 0);
    }

    /// Adds a row; whether there was room. Rows before `first` have left and make room.
    #[inline]
    pub(super) fn insert(&mut self, key: i64, row: u32, first: u32) -> bool {
        if self.len as usize == ROWS {
            self.drop_before(first);
            if self.len as usize == ROWS {
                self.has_spilled = 1;
                return false;
            }
        }
        let at = self.len as usize;
        (self.keys[at], self.rows[at]) = (key, row);
        self.len += 1;
        true
    }

    fn drop_before(&mut self, first: u32) {
        let mut kept = 0;
        for at in 0..ROWS {
            // Without a branch on whether the row stays, which nothing could predict.
            (self.keys[kept], self.rows[kept]) = (self.keys[at], self.rows[at]);
            kept += usize::from(is_live(self.rows[at], first));
        }
        self.len = kept as u32;
    }

    /// The rows, some of which may have left.
    pub(super) fn rows(&self) -> impl Iterator<Item = (i64, u32)> {
        self.keys.iter().copied().zip(self.rows).take(self.len as usize)
    }

    #[inline]
    pub(super) fn has_spilled(&self) -> bool {
        self.has_spilled != 0
    }

    /// Adds the rows that the probe takes.
    #[inline]
    pub(super) fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        for at in 0..ROWS.min(self.len as usize) {
            if (probe.low..=probe.high).contains(&self.keys[at]) && probe.takes(self.rows[at]) {
                found.push(self.rows[at]);
            }
        }
    }

    /// As [`find`](Self::find).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,popcnt")]
    #[inline]
    pub(super) fn find_avx512(&self, probe: &Probe, found: &mut Vec<u32>) {
        const LANES: usize = 16;
        let (low, high) = (_mm512_set1_epi64(probe.low), _mm512_set1_epi64(probe.high));
        let inside = |keys| u32::from(_mm512_mask_cmple_epi64_mask(_mm512_cmpge_epi64_mask(keys, low), keys, high));
        debug_assert!(self.len as usize <= ROWS);
        // SAFETY: the first 8 keys are 64 bytes; of the second 8 the mask has those two that are left read.
        let (some, rest) = unsafe {
            let keys = self.keys.as_ptr();
            (_mm512_loadu_si512(keys.cast()), _mm512_maskz_loadu_epi64(0b11, keys.add(8)))
        };
        let keys = (inside(some) | (inside(rest) & 0b11) << 8) & ((1 << self.len) - 1);
        // SAFETY: of the 16 rows the mask has those 10 read that there are.
        let rows = unsafe { _mm512_maskz_loadu_epi32((1 << ROWS) - 1, self.rows.as_ptr().cast()) };
        let from = _mm512_set1_epi32(probe.from.cast_signed());
        let width = _mm512_set1_epi32(probe.to.wrapping_sub(probe.from).cast_signed());
        let taken = _mm512_mask_cmplt_epu32_mask(keys as __mmask16, _mm512_sub_epi32(rows, from), width);
        found.reserve(LANES);
        let taken_rows = _mm512_maskz_compress_epi32(taken, rows);
        debug_assert!(found.capacity() - found.len() >= LANES);
        // SAFETY: `reserve` has made room for 16 numbers, all of which are written, and no more become part of it.
        unsafe {
            _mm512_storeu_si512(found.as_mut_ptr().add(found.len()).cast(), taken_rows);
            found.set_len(found.len() + taken.count_ones() as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_both_kernels_find_alike() {
        let mut block: Block = bytemuck::Zeroable::zeroed();
        for (at, key) in [5, i64::MIN, 7, 7, i64::MAX, -3, 0, 7, 6, 5].into_iter().enumerate() {
            for (low, high) in [(5, 7), (i64::MIN, i64::MAX), (7, 6), (i64::MAX, i64::MAX), (i64::MIN, -3)] {
                for (from, to) in [(0, 10), (3, 8), (u32::MAX - 1, 6), (u32::MAX - 5, u32::MAX)] {
                    let probe = Probe { low, high, from: from.wrapping_sub(2), to: to.wrapping_sub(2) };
                    let mut expected: Vec<u32> =
                        block.rows().filter(|row| (low..=high).contains(&row.0)).map(|row| row.1).collect();
                    expected.retain(|&row| probe.takes(row));
                    let mut found = Vec::new();
                    block.find(&probe, &mut found);
                    assert_eq!(found, expected);
                    #[cfg(target_arch = "x86_64")]
                    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt") {
                        found.clear();
                        // SAFETY: the processor has the instructions.
                        unsafe { block.find_avx512(&probe, &mut found) };
                        assert_eq!(found, expected);
                    }
                }
            }
            assert!(block.insert(key, (at as u32).wrapping_sub(2), 0));
        }
    }

    #[test]
    fn rows_that_have_left_make_room() {
        let mut block: Block = bytemuck::Zeroable::zeroed();
        assert!((0..10).all(|row| block.insert(1, row, 0)));
        assert!(!block.insert(1, 10, 0) && block.has_spilled());
        assert!(block.insert(1, 10, 4));
        assert_eq!(block.rows().map(|row| row.1).collect::<Vec<_>>(), [4, 5, 6, 7, 8, 9, 10]);
    }
}
