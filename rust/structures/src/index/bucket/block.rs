//! Blocks, which contain the rows of adjacent keys in no particular order.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::index::{Probe, is_live};

/// The number of rows in a block.
pub(super) const ROWS: usize = 10;

/// The number of elements that [`Kernel::append`] may overwrite. The appended row numbers are at
/// the beginning.
pub(super) const LANES: usize = 16;

/// The distance from the oldest row back to the number that marks an empty position. A probe may
/// search for rows that were never inserted, such as rows without a value. `LONG_AGO` is greater
/// than the distance to such rows. This distance is also small enough for a position to remain
/// empty while [`MOST_LEFT`] rows are removed.
pub(super) const LONG_AGO: u32 = (1 << 31) - 2 * MOST_LEFT;

/// The number of rows that may be removed before blocks are rebuilt. If more rows were removed,
/// numbers would wrap around and removed rows would appear to be live again.
pub(super) const MOST_LEFT: u32 = 1 << 27;

/// The number of the unused block. This block is never searched, and no rows are inserted into it.
pub(super) const NOBODYS: u32 = 0;

/// One bit for each row in a block.
pub(super) type Bits = u16;

/// A cache line of rows. Each row consists of a number and a code for the key. Within a block,
/// codes have the same order as keys.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct BucketBlock {
    rows: [u32; ROWS],
    codes: [u16; ROWS],
    /// The overflow block, for rows that do not fit here, or [`NOBODYS`].
    pub(super) more: u32,
}

// SAFETY: 40 + 20 + 4 bytes of plain numbers without padding; the alignment divides the size.
unsafe impl bytemuck::Zeroable for BucketBlock {}
// SAFETY: as above, and every bit pattern is a valid value.
unsafe impl bytemuck::Pod for BucketBlock {}

/// An inclusive range of codes to search for in a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Codes {
    pub(super) low: u16,
    pub(super) high: u16,
}

/// Compares rows, with or without wide instructions.
pub(super) trait Kernel {
    /// Returns a bitmask of the positions whose rows are at or after `first`.
    fn live(block: &BucketBlock, first: u32) -> Bits;

    /// Returns two bitmasks. The first bitmask marks the rows that match the probe and have codes
    /// in the range. Among these rows, the second bitmask marks those whose codes equal either end
    /// of the range.
    fn matching(block: &BucketBlock, codes: Codes, probe: &Probe) -> (Bits, Bits);

    /// Selects the rows whose bits are set and writes them to the beginning of `out`. Returns the
    /// number of these rows. Elements of `out` after these rows may change.
    fn append(block: &BucketBlock, bits: Bits, out: &mut [u32; LANES]) -> usize;
}

impl BucketBlock {
    /// Creates a block without rows. Each position holds a number that is too far below `first`,
    /// the number of the oldest row, to belong to any row.
    pub(super) fn empty(first: u32) -> Self {
        BucketBlock { rows: [first.wrapping_sub(LONG_AGO); ROWS], codes: [0; ROWS], more: NOBODYS }
    }

    /// Writes the codes and numbers of all rows that have not been removed to the beginning of
    /// `out`. Returns how many rows were written. The loop has no branch, because a branch would be
    /// unpredictable.
    #[inline]
    pub(super) fn live_rows(&self, first: u32, out: &mut [(u16, u32); ROWS]) -> usize {
        let mut len = 0;
        for (&code, &row) in self.codes.iter().zip(&self.rows) {
            out[len] = (code, row);
            len += usize::from(is_live(row, first));
        }
        len
    }

    /// Writes a row to the first position without a live row. Returns `false` if every position has
    /// a live row.
    #[inline(always)]
    pub(super) fn put(&mut self, live: Bits, code: u16, row: u32) -> bool {
        let at = live.trailing_ones() as usize;
        if at >= ROWS {
            return false;
        }
        (self.codes[at], self.rows[at]) = (code, row);
        true
    }

    /// Returns the number of the row marked by the lowest set bit.
    #[inline]
    pub(super) fn row_of(&self, bits: Bits) -> u32 {
        self.rows[bits.trailing_zeros() as usize]
    }
}

/// Compares rows one by one.
pub(super) struct Portable;

impl Kernel for Portable {
    #[inline(always)]
    fn live(block: &BucketBlock, first: u32) -> Bits {
        (0..ROWS).fold(0, |live, at| live | Bits::from(is_live(block.rows[at], first)) << at)
    }

    #[inline(always)]
    fn matching(block: &BucketBlock, codes: Codes, probe: &Probe) -> (Bits, Bits) {
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
    fn append(block: &BucketBlock, mut bits: Bits, out: &mut [u32; LANES]) -> usize {
        let mut len = 0;
        while bits != 0 {
            out[len] = block.row_of(bits);
            len += 1;
            bits &= bits - 1;
        }
        len
    }
}

/// Compares all rows at the same time. This kernel must only be used on processors with AVX-512.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// A bitmask that marks which of sixteen lanes contain rows.
    const PLACES: Bits = (1 << ROWS) - 1;

    /// Loads sixteen lanes, the first ten of which contain the rows' numbers.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn rows(block: &BucketBlock) -> __m512i {
        // SAFETY: these are the block's 64 bytes, all of which are plain numbers.
        unsafe { _mm512_loadu_si512(std::ptr::from_ref(block).cast()) }
    }

    /// Returns two bitmasks. The first bitmask marks the rows whose codes are in the range. Among
    /// these rows, the second bitmask marks those whose codes equal either end of the range.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    #[inline]
    fn inside(block: &BucketBlock, codes: Codes) -> (Bits, Bits) {
        /// The number of lanes that precede the codes in the second half of a block.
        const BEFORE: usize = 4;
        const { assert!(std::mem::offset_of!(BucketBlock, codes) == 32 + BEFORE * size_of::<u16>()) };
        // SAFETY: these are the second half of the block's 64 bytes, all of which are plain
        // numbers.
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
    fn live(block: &BucketBlock, first: u32) -> Bits {
        let ages = _mm512_sub_epi32(Self::rows(block), _mm512_set1_epi32(first.cast_signed()));
        _mm512_mask_cmpge_epi32_mask(Self::PLACES, ages, _mm512_setzero_si512())
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    #[inline]
    fn matching(block: &BucketBlock, codes: Codes, probe: &Probe) -> (Bits, Bits) {
        let (inside, ends) = Self::inside(block, codes);
        let distances =
            _mm512_sub_epi32(Self::rows(block), _mm512_set1_epi32(probe.from.cast_signed()));
        let width = _mm512_set1_epi32(probe.to.wrapping_sub(probe.from).cast_signed());
        let taken = _mm512_mask_cmplt_epu32_mask(inside, distances, width);
        (taken, taken & ends)
    }

    #[target_feature(enable = "avx512f,popcnt")]
    #[inline]
    fn append(block: &BucketBlock, bits: Bits, out: &mut [u32; LANES]) -> usize {
        // SAFETY: `out` has room for sixteen numbers.
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
    fn live(block: &BucketBlock, first: u32) -> Bits {
        debug_assert!(super::instructions::has_avx512());
        // SAFETY: this type is used only on processors with the instructions.
        unsafe { Self::live(block, first) }
    }

    #[inline(always)]
    fn matching(block: &BucketBlock, codes: Codes, probe: &Probe) -> (Bits, Bits) {
        debug_assert!(super::instructions::has_avx512());
        // SAFETY: as above.
        unsafe { Self::matching(block, codes, probe) }
    }

    #[inline(always)]
    fn append(block: &BucketBlock, bits: Bits, out: &mut [u32; LANES]) -> usize {
        debug_assert!(super::instructions::has_avx512());
        // SAFETY: as above.
        unsafe { Self::append(block, bits, out) }
    }
}

/// Compares eight rows at a time, and then the last two. This kernel must only be used on
/// processors with AVX2.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

/// For each bitmask of eight lanes, the numbers of the lanes whose bits are set, followed by zeros.
#[cfg(target_arch = "x86_64")]
static TO_FRONT: [[u8; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut lane, mut at) = (0, 0);
        while lane < 8 {
            if set >> lane & 1 == 1 {
                all[set][at] = lane as u8;
                at += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    all
};

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// Loads the first eight row numbers and the last two.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn rows(block: &BucketBlock) -> (__m256i, __m128i) {
        let from = std::ptr::from_ref(block).cast::<u32>();
        // SAFETY: these are 40 of the block's 64 bytes, all of which are plain numbers.
        unsafe { (_mm256_loadu_si256(from.cast()), _mm_loadl_epi64(from.add(8).cast())) }
    }

    /// Returns one bit per row: the highest bit of the row's lane.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn bits(eight: __m256i, two: __m128i) -> Bits {
        let (eight, two) = (_mm256_castsi256_ps(eight), _mm_castsi128_ps(two));
        (_mm256_movemask_ps(eight) | (_mm_movemask_ps(two) & 3) << 8) as Bits
    }

    /// Like [`Avx512::inside`].
    #[target_feature(enable = "avx2")]
    #[inline]
    fn inside(block: &BucketBlock, codes: Codes) -> (Bits, Bits) {
        /// The number of lanes that precede the codes in the second half of a block.
        const BEFORE: usize = 4;
        const { assert!(std::mem::offset_of!(BucketBlock, codes) == 32 + BEFORE * size_of::<u16>()) };
        // SAFETY: these are the second half of the block's 64 bytes, all of which are plain
        // numbers.
        let there =
            unsafe { _mm256_loadu_si256(std::ptr::from_ref(block).cast::<__m256i>().add(1)) };
        let (low, high) = (
            _mm256_set1_epi16(codes.low.cast_signed()),
            _mm256_set1_epi16(codes.high.cast_signed()),
        );
        let inside = _mm256_and_si256(
            _mm256_cmpeq_epi16(_mm256_max_epu16(there, low), there),
            _mm256_cmpeq_epi16(_mm256_min_epu16(there, high), there),
        );
        let ends = _mm256_or_si256(_mm256_cmpeq_epi16(there, low), _mm256_cmpeq_epi16(there, high));
        // The result contains the two inputs alternately, eight lanes at a time.
        let bits = _mm256_movemask_epi8(_mm256_packs_epi16(inside, ends)).cast_unsigned();
        let inside = bits & 0xff | bits >> 8 & 0xff00;
        let ends = bits >> 8 & 0xff | bits >> 16 & 0xff00;
        let places = (1 << ROWS) - 1;
        ((inside >> BEFORE) as Bits & places, (ends >> BEFORE) as Bits & places)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn live(block: &BucketBlock, first: u32) -> Bits {
        let (eight, two) = Self::rows(block);
        let eight = _mm256_sub_epi32(eight, _mm256_set1_epi32(first.cast_signed()));
        let two = _mm_sub_epi32(two, _mm_set1_epi32(first.cast_signed()));
        // The highest bit is set if the number is negative.
        !Self::bits(eight, two) & ((1 << ROWS) - 1)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn matching(block: &BucketBlock, codes: Codes, probe: &Probe) -> (Bits, Bits) {
        let (inside, ends) = Self::inside(block, codes);
        let (eight, two) = Self::rows(block);
        // After half of the range is subtracted, unsigned numbers compare like signed ones.
        let from = probe.from.wrapping_add(1 << 31).cast_signed();
        let width = (probe.to.wrapping_sub(probe.from) ^ 1 << 31).cast_signed();
        let eight = _mm256_sub_epi32(eight, _mm256_set1_epi32(from));
        let two = _mm_sub_epi32(two, _mm_set1_epi32(from));
        let taken = inside
            & Self::bits(
                _mm256_cmpgt_epi32(_mm256_set1_epi32(width), eight),
                _mm_cmpgt_epi32(_mm_set1_epi32(width), two),
            );
        (taken, taken & ends)
    }

    #[target_feature(enable = "avx2,popcnt")]
    #[inline]
    fn append(block: &BucketBlock, bits: Bits, out: &mut [u32; LANES]) -> usize {
        let (eight, _) = Self::rows(block);
        let set = bits & 0xff;
        // SAFETY: the lanes of a set have eight bytes, and `out` has room for sixteen numbers.
        unsafe {
            let lanes = _mm_loadl_epi64(TO_FRONT[usize::from(set)].as_ptr().cast());
            let front = _mm256_permutevar8x32_epi32(eight, _mm256_cvtepu8_epi32(lanes));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), front);
        }
        let mut len = set.count_ones() as usize;
        for at in 8..ROWS {
            out[len] = block.rows[at];
            len += usize::from(bits >> at & 1);
        }
        len
    }
}

#[cfg(target_arch = "x86_64")]
impl Kernel for Avx2 {
    #[inline(always)]
    fn live(block: &BucketBlock, first: u32) -> Bits {
        debug_assert!(super::instructions::has_avx2());
        // SAFETY: this type is used only on processors with the instructions.
        unsafe { Self::live(block, first) }
    }

    #[inline(always)]
    fn matching(block: &BucketBlock, codes: Codes, probe: &Probe) -> (Bits, Bits) {
        debug_assert!(super::instructions::has_avx2());
        // SAFETY: as above.
        unsafe { Self::matching(block, codes, probe) }
    }

    #[inline(always)]
    fn append(block: &BucketBlock, bits: Bits, out: &mut [u32; LANES]) -> usize {
        debug_assert!(super::instructions::has_avx2());
        // SAFETY: as above.
        unsafe { Self::append(block, bits, out) }
    }
}

/// Compares eight rows at a time, and then the last two. This kernel must only be used on
/// processors with NEON.
#[cfg(target_arch = "aarch64")]
pub(super) struct Neon;

/// The results of comparing the first eight rows and the last two. Each comparison result is either
/// all ones or all zeros. The contents of the remaining lanes are unspecified.
#[cfg(target_arch = "aarch64")]
type Lanes = (uint16x8_t, uint16x4_t);

#[cfg(target_arch = "aarch64")]
impl Neon {
    /// Subtracts a number from the row numbers. The three registers that are returned hold four
    /// rows, the next four rows, and the last two rows. The contents of the remaining lanes are
    /// unspecified.
    #[target_feature(enable = "neon")]
    #[inline]
    fn since(block: &BucketBlock, number: u32) -> [uint32x4_t; 3] {
        let number = vdupq_n_u32(number);
        let from = std::ptr::from_ref(block).cast::<u32>();
        // SAFETY: these are 48 of the block's 64 bytes, all of which are plain numbers.
        let rows = unsafe { [vld1q_u32(from), vld1q_u32(from.add(4)), vld1q_u32(from.add(8))] };
        let [a, b, c] = rows;
        [vsubq_u32(a, number), vsubq_u32(b, number), vsubq_u32(c, number)]
    }

    /// Narrows the results of number comparisons to the width of code comparisons.
    #[target_feature(enable = "neon")]
    #[inline]
    fn narrowed([a, b, c]: [uint32x4_t; 3]) -> Lanes {
        (vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)), vmovn_u32(c))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    fn both(one: Lanes, other: Lanes) -> Lanes {
        (vandq_u16(one.0, other.0), vand_u16(one.1, other.1))
    }

    /// Returns one bit for each row.
    #[target_feature(enable = "neon")]
    #[inline]
    fn bits(of: Lanes) -> Bits {
        const FRONT: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
        const BACK: [u16; 4] = [256, 512, 0, 0];
        // SAFETY: the arrays have 16 and 8 bytes.
        let (front, back) = unsafe { (vld1q_u16(FRONT.as_ptr()), vld1_u16(BACK.as_ptr())) };
        vaddvq_u16(vandq_u16(of.0, front)) | vaddv_u16(vand_u16(of.1, back))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    fn live(block: &BucketBlock, first: u32) -> Bits {
        let [a, b, c] = Self::since(block, first).map(|ages| vreinterpretq_s32_u32(ages));
        Self::bits(Self::narrowed([vcgezq_s32(a), vcgezq_s32(b), vcgezq_s32(c)]))
    }

    #[target_feature(enable = "neon")]
    #[inline]
    fn matching(block: &BucketBlock, codes: Codes, probe: &Probe) -> (Bits, Bits) {
        const { assert!(std::mem::offset_of!(BucketBlock, codes) + 16 + 8 == size_of::<BucketBlock>()) };
        let from = std::ptr::from_ref(block).cast::<u16>();
        // SAFETY: these are the last 24 of the block's 64 bytes, all of which are plain numbers.
        let (a, b) = unsafe { (vld1q_u16(from.add(20)), vld1_u16(from.add(28))) };
        let (low, high) = (vdupq_n_u16(codes.low), vdupq_n_u16(codes.high));
        let (low_two, high_two) = (vget_low_u16(low), vget_low_u16(high));
        let inside = (
            vandq_u16(vcgeq_u16(a, low), vcleq_u16(a, high)),
            vand_u16(vcge_u16(b, low_two), vcle_u16(b, high_two)),
        );
        let ends = (
            vorrq_u16(vceqq_u16(a, low), vceqq_u16(a, high)),
            vorr_u16(vceq_u16(b, low_two), vceq_u16(b, high_two)),
        );
        let width = vdupq_n_u32(probe.to.wrapping_sub(probe.from));
        let [a, b, c] = Self::since(block, probe.from);
        let in_time = [vcltq_u32(a, width), vcltq_u32(b, width), vcltq_u32(c, width)];
        let taken = Self::both(inside, Self::narrowed(in_time));
        (Self::bits(taken), Self::bits(Self::both(taken, ends)))
    }
}

#[cfg(target_arch = "aarch64")]
impl Kernel for Neon {
    #[inline(always)]
    fn live(block: &BucketBlock, first: u32) -> Bits {
        debug_assert!(super::instructions::has_neon());
        // SAFETY: this type is used only on processors with the instructions.
        unsafe { Self::live(block, first) }
    }

    #[inline(always)]
    fn matching(block: &BucketBlock, codes: Codes, probe: &Probe) -> (Bits, Bits) {
        debug_assert!(super::instructions::has_neon());
        // SAFETY: as above.
        unsafe { Self::matching(block, codes, probe) }
    }

    /// Appends rows one by one, because NEON has no instruction that moves selected lanes to the
    /// front.
    #[inline(always)]
    fn append(block: &BucketBlock, bits: Bits, out: &mut [u32; LANES]) -> usize {
        Portable::append(block, bits, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(codes: &[u16]) -> BucketBlock {
        let mut block = BucketBlock::empty(u32::MAX - 50);
        for (at, &code) in codes.iter().enumerate() {
            let live = Portable::live(&block, u32::MAX - 50);
            assert!(block.put(live, code, (at as u32).wrapping_sub(2)));
        }
        block
    }

    #[test]
    fn oracle_all_kernels_find_alike() {
        #[cfg(target_arch = "x86_64")]
        if super::super::instructions::has_avx2() {
            finds_as_the_portable_one::<Avx2>();
        }
        #[cfg(target_arch = "x86_64")]
        if super::super::instructions::has_avx512() {
            finds_as_the_portable_one::<Avx512>();
        }
        #[cfg(target_arch = "aarch64")]
        if super::super::instructions::has_neon() {
            finds_as_the_portable_one::<Neon>();
        }
        finds_as_the_portable_one::<Portable>();
    }

    fn finds_as_the_portable_one<K: Kernel>() {
        let codes = [5, 0, 7, u16::MAX, 1 << 15, 7, 6, 3, 9, 5];
        for bits in 0..1 << ROWS {
            let (block, mut one, mut other) = (block(&codes), [1; LANES], [1; LANES]);
            let len = Portable::append(&block, bits, &mut one);
            assert_eq!(K::append(&block, bits, &mut other), len);
            assert_eq!(one[..len], other[..len]);
        }
        for block in (0..=ROWS).map(|len| block(&codes[..len])) {
            for (low, high) in [(5, 7), (0, u16::MAX), (7, 6), (u16::MAX, u16::MAX), (7, 1 << 15)] {
                let ends = (0..12).flat_map(|from| (0..12).map(move |to| (from, to)));
                for (from, to) in ends.chain([(u32::MAX - 1, 9), (u32::MAX - 5, u32::MAX)]) {
                    let probe = Probe {
                        low: 0,
                        high: 0,
                        from: from.wrapping_sub(2),
                        to: to.wrapping_sub(2),
                    };
                    let bits = Portable::matching(&block, Codes { low, high }, &probe);
                    assert_eq!(K::matching(&block, Codes { low, high }, &probe), bits);
                    assert_eq!(K::live(&block, probe.from), Portable::live(&block, probe.from));
                    let (mut one, mut other) = ([1; LANES], [1; LANES]);
                    let len = Portable::append(&block, bits.0, &mut one);
                    assert_eq!(K::append(&block, bits.0, &mut other), len);
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
        assert_eq!(block.rows[0], first(10), "the oldest row's place is reused");
    }
}
