//! The passes of the merge, implemented with 512-bit instructions.

use std::arch::x86_64::{
    __m512i, _mm512_add_epi16, _mm512_loadu_si512, _mm512_mask_max_epu32,
    _mm512_maskz_permutexvar_epi16, _mm512_max_epu16, _mm512_min_epu32, _mm512_permutexvar_epi16,
    _mm512_set1_epi16, _mm512_setzero_si512, _mm512_shuffle_epi32, _mm512_storeu_si512,
    _mm512_sub_epi16,
};

use super::scatter::{LANES, Passes};
use crate::instructions::Instructions;

/// Returns whether the processor has the features that this module and its callers need, and
/// whether their use is allowed.
pub(super) fn is_supported() -> bool {
    Instructions::Avx512.are_used()
}

/// The passes for processors on which [`is_supported`] returns `true`.
pub(super) struct Avx512;

impl Passes for Avx512 {
    const SLOTS_PER_ROW: usize = 1;

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

/// Returns the indices for a permutation that moves each lane up by `by` positions.
const fn lanes_before(by: usize) -> [u16; LANES] {
    let mut places = [0; LANES];
    let mut lane = by;
    while lane < LANES {
        places[lane] = (lane - by) as u16;
        lane += 1;
    }
    places
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(lanes: &[u16; LANES]) -> __m512i {
    // SAFETY: the array is 64 bytes long.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(lanes: &mut [u16; LANES], values: __m512i) {
    // SAFETY: as in `load`.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), values) }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn sum_before(slots: &mut [u16]) -> u16 {
    let mut before = _mm512_setzero_si512();
    let mut most = _mm512_setzero_si512();
    let last = _mm512_set1_epi16(LANES as i16 - 1);
    let [by1, by2, by4, by8, by16] = [1, 2, 4, 8, 16].map(|by| load(&lanes_before(by)));
    let (chunks, rest) = slots.as_chunks_mut::<LANES>();
    assert!(rest.is_empty(), "the number of slots is a multiple of {LANES}");
    for slots in chunks {
        let counts = load(slots);
        most = _mm512_max_epu16(most, counts);
        // Each step doubles the number of lanes that a lane's sum covers.
        let sums = _mm512_add_epi16(counts, _mm512_maskz_permutexvar_epi16(!0x1, by1, counts));
        let sums = _mm512_add_epi16(sums, _mm512_maskz_permutexvar_epi16(!0x3, by2, sums));
        let sums = _mm512_add_epi16(sums, _mm512_maskz_permutexvar_epi16(!0xf, by4, sums));
        let sums = _mm512_add_epi16(sums, _mm512_maskz_permutexvar_epi16(!0xff, by8, sums));
        let sums = _mm512_add_epi16(sums, _mm512_maskz_permutexvar_epi16(!0xffff, by16, sums));
        store(slots, _mm512_add_epi16(before, _mm512_sub_epi16(sums, counts)));
        before = _mm512_add_epi16(before, _mm512_permutexvar_epi16(last, sums));
    }
    let mut lanes = [0; LANES];
    store(&mut lanes, most);
    lanes.into_iter().fold(0, u16::max)
}

/// Odd-even transposition sort: compares and exchanges neighbours in pairs that begin alternately
/// at even and odd positions. The sort needs as many rounds as there are words in the fullest slot.
///
/// # Safety
///
/// `words` must have [`LANES`] more elements than `len`.
#[target_feature(enable = "avx512f")]
unsafe fn settle(words: &mut [u32], len: usize, rounds: u16) {
    const AT_ONCE: usize = 16;
    const SWAPPED: i32 = 0b10_11_00_01;
    const UPPER: u16 = 0xaaaa;
    for round in 0..rounds {
        let mut at = usize::from(round % 2);
        while at < len {
            debug_assert!(at + AT_ONCE <= words.len());
            // SAFETY: `at` is below `len`, and the words extend beyond what is read and written.
            unsafe {
                let place = words.as_mut_ptr().add(at).cast();
                let these = _mm512_loadu_si512(place);
                let others = _mm512_shuffle_epi32::<SWAPPED>(these);
                let lower = _mm512_min_epu32(these, others);
                _mm512_storeu_si512(place, _mm512_mask_max_epu32(lower, UPPER, these, others));
            }
            at += AT_ONCE;
        }
    }
}
