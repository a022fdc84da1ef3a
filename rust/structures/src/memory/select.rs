//! Finds the values of an array that lie in a range.

/// Appends the positions of all values between `low` and `high` to `found`, in order. Both bounds
/// are inclusive. The position of the first value is `first`.
pub fn select_within(values: &[i64], low: i64, high: i64, first: u32, found: &mut Vec<u32>) {
    // A whole width of positions is written at a time, including some that do not match.
    let before = found.len();
    found.resize(before + values.len() + WIDTH, 0);
    let out = &mut found[before..];
    #[cfg(target_arch = "x86_64")]
    let count = if crate::instructions::Instructions::Avx512.are_used() {
        // SAFETY: the processor has the features.
        unsafe { avx512(values, low, high, first, out) }
    } else {
        portable(values, low, high, first, out)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let count = portable(values, low, high, first, out);
    found.truncate(before + count);
}

/// The number of values that are compared at a time.
const WIDTH: usize = 8;

/// Does the same as [`select_within`], but writes to `out`. There must be room in `out` for
/// [`WIDTH`] more positions than there are values. No branch depends on a value. This function is
/// also used on processors with NEON, because NEON cannot move selected lanes to the front.
fn portable(values: &[i64], low: i64, high: i64, first: u32, out: &mut [u32]) -> usize {
    let mut count = 0;
    for (&value, place) in values.iter().zip(first..) {
        out[count] = place;
        count += usize::from(low <= value && value <= high);
    }
    count
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl")]
fn avx512(values: &[i64], low: i64, high: i64, first: u32, out: &mut [u32]) -> usize {
    use std::arch::x86_64::{
        _mm256_add_epi32, _mm256_maskz_compress_epi32, _mm256_set1_epi32, _mm256_setr_epi32,
        _mm256_storeu_si256, _mm512_cmpge_epi64_mask, _mm512_loadu_epi64,
        _mm512_mask_cmple_epi64_mask, _mm512_set1_epi64,
    };
    assert!(
        out.len() >= values.len() + WIDTH,
        "the output has room for WIDTH more elements than there are values"
    );
    let (lows, highs) = (_mm512_set1_epi64(low), _mm512_set1_epi64(high));
    let step = _mm256_set1_epi32(WIDTH as i32);
    let mut places = _mm256_add_epi32(
        _mm256_set1_epi32(first.cast_signed()),
        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
    );
    let mut count = 0;
    let (blocks, rest) = values.as_chunks::<WIDTH>();
    for block in blocks {
        // SAFETY: `block` has 8 values.
        let block = unsafe { _mm512_loadu_epi64(block.as_ptr()) };
        let inside =
            _mm512_mask_cmple_epi64_mask(_mm512_cmpge_epi64_mask(block, lows), block, highs);
        debug_assert!(count + WIDTH <= out.len());
        // SAFETY: `count` is at most the number of values before this block, and `out` has room for
        // at least 8 more.
        unsafe {
            _mm256_storeu_si256(
                out.as_mut_ptr().add(count).cast(),
                _mm256_maskz_compress_epi32(inside, places),
            )
        };
        places = _mm256_add_epi32(places, step);
        count += inside.count_ones() as usize;
    }
    let done = blocks.len() * WIDTH;
    count + portable(rest, low, high, first.wrapping_add(done as u32), &mut out[count..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn oracle_one_by_one(values in prop::collection::vec(prop_oneof![-9_i64..9, any::<i64>()], 0..70),
                             low in -9_i64..9, high in -9_i64..9, first in 0_u32..9) {
            let expected: Vec<u32> =
                (first..).zip(&values).filter(|(_, value)| (low..=high).contains(value)).map(|(place, _)| place).collect();
            let mut found = vec![7];
            select_within(&values, low, high, first, &mut found);
            prop_assert_eq!(found[0], 7, "existing elements stay");
            prop_assert_eq!(&found[1..], &expected[..]);
            let mut out = vec![0; values.len() + WIDTH];
            let count = portable(&values, low, high, first, &mut out);
            prop_assert_eq!(&out[..count], &expected[..]);
        }
    }
}
