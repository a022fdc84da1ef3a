//! The passes of the merge, implemented with 256-bit instructions.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi16, _mm256_blend_epi32, _mm256_loadu_si256, _mm256_max_epu16,
    _mm256_max_epu32, _mm256_min_epu32, _mm256_permute2x128_si256, _mm256_set1_epi16,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_shuffle_epi32, _mm256_slli_si256,
    _mm256_storeu_si256, _mm256_sub_epi16,
};

use super::scatter::{LANES, Passes};
use crate::instructions::Instructions;

/// The number of 16-bit lanes in a register.
const HALF: usize = LANES / 2;

/// Returns whether AVX2 instructions, which this module and its callers need, are supported and
/// allowed.
pub(super) fn is_supported() -> bool {
    Instructions::Avx2.are_used()
}

/// The passes for processors on which [`is_supported`] returns `true`.
pub(super) struct Avx2;

impl Passes for Avx2 {
    const SLOTS_PER_ROW: usize = 2;

    #[inline(always)]
    fn sum_before(slots: &mut [u16]) -> u16 {
        debug_assert!(is_supported());
        // SAFETY: the processor has the features.
        unsafe { sum_before(slots) }
    }

    #[inline(always)]
    fn settle(words: &mut [u32], len: usize, crowd: u16) {
        debug_assert!(is_supported());
        assert!(
            len.checked_add(LANES).is_some_and(|end| end <= words.len()),
            "{LANES} more words follow"
        );
        // SAFETY: the processor has the features, and enough words follow.
        unsafe { settle(words, len, crowd) };
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(lanes: &[u16; HALF]) -> __m256i {
    // SAFETY: the array is 32 bytes long.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(lanes: &mut [u16; HALF], values: __m256i) {
    // SAFETY: as in `load`.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), values) }
}

#[target_feature(enable = "avx2")]
fn sum_before(slots: &mut [u16]) -> u16 {
    let mut before = _mm256_setzero_si256();
    let mut most = _mm256_setzero_si256();
    // The last lane of each half is copied to the whole half.
    let last = _mm256_set1_epi16(0x0f0e);
    let (chunks, rest) = slots.as_chunks_mut::<HALF>();
    assert!(rest.is_empty(), "the number of slots is a multiple of {HALF}");
    for slots in chunks {
        let counts = load(slots);
        most = _mm256_max_epu16(most, counts);
        // Each step doubles the number of lanes that a lane's sum covers, within its half.
        let sums = _mm256_add_epi16(counts, _mm256_slli_si256::<2>(counts));
        let sums = _mm256_add_epi16(sums, _mm256_slli_si256::<4>(sums));
        let sums = _mm256_add_epi16(sums, _mm256_slli_si256::<8>(sums));
        // The sum of the lower half is added to all lanes of the upper one.
        let totals = _mm256_shuffle_epi8(sums, last);
        let sums = _mm256_add_epi16(sums, _mm256_permute2x128_si256::<0x08>(totals, totals));
        store(slots, _mm256_add_epi16(before, _mm256_sub_epi16(sums, counts)));
        let all = _mm256_shuffle_epi8(sums, last);
        before = _mm256_add_epi16(before, _mm256_permute2x128_si256::<0x11>(all, all));
    }
    let mut lanes = [0; HALF];
    store(&mut lanes, most);
    lanes.into_iter().fold(0, u16::max)
}

/// Odd-even transposition sort: compares and exchanges neighbours in pairs that begin alternately
/// at even and odd positions. The sort needs as many rounds as there are words in the fullest slot.
///
/// # Safety
///
/// `words` must have [`LANES`] more elements than `len`.
#[target_feature(enable = "avx2")]
unsafe fn settle(words: &mut [u32], len: usize, rounds: u16) {
    const AT_ONCE: usize = 8;
    const SWAPPED: i32 = 0b10_11_00_01;
    const UPPER: i32 = 0xaa;
    for round in 0..rounds {
        let mut at = usize::from(round % 2);
        while at < len {
            debug_assert!(at + AT_ONCE <= words.len());
            // SAFETY: `at` is below `len`, and the words extend beyond what is read and written.
            unsafe {
                let place: *mut __m256i = words.as_mut_ptr().add(at).cast();
                let these = _mm256_loadu_si256(place);
                let others = _mm256_shuffle_epi32::<SWAPPED>(these);
                let lower = _mm256_min_epu32(these, others);
                let upper = _mm256_max_epu32(these, others);
                _mm256_storeu_si256(place, _mm256_blend_epi32::<UPPER>(lower, upper));
            }
            at += AT_ONCE;
        }
    }
}
