//! Copies values given by their places, with the processor's gather instructions where it has them.

/// Values that [`gather`] copies.
pub trait Value: Copy {
    /// Copies as many values as possible and returns how many, with whether all their places were in range; a place out
    /// of range gives an arbitrary value.
    fn gather_wide(_from: &[Self], _places: &[u32], _out: &mut [Self]) -> (usize, bool) {
        (0, true)
    }
}

impl Value for u8 {}
impl Value for u16 {}
impl Value for [u64; 2] {}

/// Writes `from[places[i]]` to `out[i]`.
///
/// # Panics
///
/// When a place is not below the number of values, or `out` has another length than `places`.
pub fn gather<T: Value>(from: &[T], places: &[u32], out: &mut [T]) {
    assert_eq!(places.len(), out.len(), "a value a place");
    let (done, in_range) = T::gather_wide(from, places, out);
    assert!(in_range, "a place is not below {}", from.len());
    out[done..].iter_mut().zip(&places[done..]).for_each(|(out, &place)| *out = from[place as usize]);
}

/// Implements [`Value`] by gathers of 512 bits; the instructions take signed 32-bit places.
macro_rules! wide {
    ($value:ty, $lanes:literal, $kernel:ident) => {
        impl Value for $value {
            fn gather_wide(from: &[Self], places: &[u32], out: &mut [Self]) -> (usize, bool) {
                #[cfg(target_arch = "x86_64")]
                if std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                    && (1..=i32::MAX as usize).contains(&from.len())
                {
                    let done = places.len() / $lanes * $lanes;
                    // SAFETY: the processor has the features; the slices are not empty beyond need and equally long.
                    let in_range = unsafe { avx512::$kernel(from, &places[..done], &mut out[..done]) };
                    return (done, in_range);
                }
                let _ = (from, places, out);
                (0, true)
            }
        }
    };
}

wide!(u64, 8, gather_u64);
wide!(u32, 16, gather_u32);

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        _mm256_loadu_si256, _mm256_max_epu32, _mm256_min_epu32, _mm256_set1_epi32, _mm256_setzero_si256,
        _mm256_storeu_si256, _mm512_i32gather_epi32, _mm512_i32gather_epi64, _mm512_loadu_si512, _mm512_max_epu32,
        _mm512_min_epu32, _mm512_reduce_max_epu32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
    };

    /// Gathers 8 values at a time and returns whether all places were in range; one that is not reads the last value.
    ///
    /// # Safety
    ///
    /// `from` has 1 to `i32::MAX` values; `places` and `out` have one length, a multiple of 8.
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) unsafe fn gather_u64(from: &[u64], places: &[u32], out: &mut [u64]) -> bool {
        debug_assert!(!from.is_empty() && places.len() == out.len() && places.len().is_multiple_of(8));
        let last = _mm256_set1_epi32((from.len() - 1) as i32);
        let mut largest = _mm256_setzero_si256();
        for (places, out) in places.chunks_exact(8).zip(out.chunks_exact_mut(8)) {
            // SAFETY: 8 places are read and 8 values written; what is read of `from` is at most at `last`.
            unsafe {
                let at = _mm256_loadu_si256(places.as_ptr().cast());
                largest = _mm256_max_epu32(largest, at);
                let values = _mm512_i32gather_epi64::<8>(_mm256_min_epu32(at, last), from.as_ptr().cast());
                _mm512_storeu_si512(out.as_mut_ptr().cast(), values);
            }
        }
        let mut lanes = [0_u32; 8];
        // SAFETY: 8 lanes of 32 bits fit the array.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), largest) };
        lanes.iter().all(|&place| (place as usize) < from.len())
    }

    /// As [`gather_u64`], 16 values at a time.
    ///
    /// # Safety
    ///
    /// `from` has 1 to `i32::MAX` values; `places` and `out` have one length, a multiple of 16.
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) unsafe fn gather_u32(from: &[u32], places: &[u32], out: &mut [u32]) -> bool {
        debug_assert!(!from.is_empty() && places.len() == out.len() && places.len().is_multiple_of(16));
        let last = _mm512_set1_epi32((from.len() - 1) as i32);
        let mut largest = _mm512_setzero_si512();
        for (places, out) in places.chunks_exact(16).zip(out.chunks_exact_mut(16)) {
            // SAFETY: 16 places are read and 16 values written; what is read of `from` is at most at `last`.
            unsafe {
                let at = _mm512_loadu_si512(places.as_ptr().cast());
                largest = _mm512_max_epu32(largest, at);
                let values = _mm512_i32gather_epi32::<4>(_mm512_min_epu32(at, last), from.as_ptr().cast());
                _mm512_storeu_si512(out.as_mut_ptr().cast(), values);
            }
        }
        (_mm512_reduce_max_epu32(largest) as usize) < from.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn oracle_indexing(len in 1_usize..200, places in prop::collection::vec(any::<u32>(), 0..200)) {
            let places: Vec<u32> = places.into_iter().map(|place| place % len as u32).collect();
            let longs: Vec<u64> = (0..len as u64).map(|value| value << 40 | value).collect();
            let mut out = vec![0; places.len()];
            gather(&longs, &places, &mut out);
            prop_assert!(out.iter().zip(&places).all(|(value, place)| *value == longs[*place as usize]));
            let words: Vec<u32> = (0..len as u32).map(|value| value << 8).collect();
            let mut out = vec![0; places.len()];
            gather(&words, &places, &mut out);
            prop_assert!(out.iter().zip(&places).all(|(value, place)| *value == words[*place as usize]));
        }
    }

    #[test]
    fn a_place_out_of_range_panics_wherever_it_stands() {
        for bad in 0..40 {
            for place in [5, 1 << 31, u32::MAX] {
                let mut places = [0_u32; 40];
                places[bad] = place;
                assert!(std::panic::catch_unwind(|| gather(&[1_u64; 5], &places, &mut [0; 40])).is_err());
                assert!(std::panic::catch_unwind(|| gather(&[1_u32; 5], &places, &mut [0; 40])).is_err());
            }
        }
        assert!(std::panic::catch_unwind(|| gather(&[] as &[u64], &[0], &mut [0])).is_err());
    }
}
