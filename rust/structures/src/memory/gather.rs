//! Copies values given by their places, with the processor's gather instructions where it has them.

use super::pages::Slot;

/// Whether what is written will be read soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// It is put in the caches.
    Cached,
    /// It goes past the caches, which then need not read what is overwritten first: less than half
    /// the time for memory that is in no cache.
    Streaming,
}

/// Values that [`gather`] copies.
pub trait Value: Copy {
    /// Copies as many values as possible and returns how many, with whether all their places were
    /// in range; a place out of range gives an arbitrary value.
    fn gather_wide(
        _from: &[Self],
        _places: &[u32],
        _out: &mut [Self],
        _store: Store,
    ) -> (usize, bool) {
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
pub fn gather<T: Value>(from: &[T], places: &[u32], out: &mut [Slot<T>], store: Store) {
    let out = Slot::values(out);
    assert_eq!(places.len(), out.len(), "a value a place");
    let (done, in_range) = T::gather_wide(from, places, out, store);
    assert!(in_range, "a place is not below {}", from.len());
    out[done..]
        .iter_mut()
        .zip(&places[done..])
        .for_each(|(out, &place)| *out = from[place as usize]);
}

/// Asks for `values[place]` to be in a cache when it is read in a while; nothing where there is no
/// such place.
#[inline]
pub fn prefetch<T>(values: &[T], place: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and an address that is not mapped does
    // nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, place);
}

/// Implements [`Value`] by gathers of 512 bits; the instructions take signed 32-bit places.
macro_rules! wide {
    ($value:ty, $lanes:literal, $kernel:ident) => {
        impl Value for $value {
            fn gather_wide(
                from: &[Self],
                places: &[u32],
                out: &mut [Self],
                store: Store,
            ) -> (usize, bool) {
                #[cfg(target_arch = "x86_64")]
                if std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                    && (1..=i32::MAX as usize).contains(&from.len())
                {
                    let done = places.len() / $lanes * $lanes;
                    let (places, out) = (&places[..done], &mut out[..done]);
                    // Streaming stores are of whole cache lines.
                    let streaming = store == Store::Streaming && out.as_ptr().align_offset(64) == 0;
                    // SAFETY: the processor has the features, and the slices the lengths; `out` is
                    // aligned if it has to.
                    let in_range = unsafe {
                        match streaming {
                            true => avx512::$kernel::<true>(from, places, out),
                            false => avx512::$kernel::<false>(from, places, out),
                        }
                    };
                    return (done, in_range);
                }
                let _ = (from, places, out, store);
                (0, true)
            }
        }
    };
}

wide!(u64, 8, gather_u64);
wide!(u32, 16, gather_u32);

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm_sfence, _mm256_cmplt_epu32_mask, _mm256_loadu_si256, _mm256_max_epu32,
        _mm256_min_epu32, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_storeu_si256,
        _mm256_sub_epi32, _mm512_cmplt_epu32_mask, _mm512_cvtepu32_epi64, _mm512_i32gather_epi32,
        _mm512_i32gather_epi64, _mm512_loadu_si512, _mm512_max_epu32, _mm512_min_epu32,
        _mm512_permutexvar_epi32, _mm512_permutexvar_epi64, _mm512_reduce_max_epu32,
        _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_stream_si512,
        _mm512_sub_epi32,
    };

    /// Stores a cache line.
    ///
    /// # Safety
    ///
    /// 64 bytes may be written at `to`, which is a multiple of 64 if the store is streaming.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) unsafe fn store<const STREAMING: bool>(to: *mut __m512i, values: __m512i) {
        debug_assert!(!STREAMING || to.cast::<u8>().align_offset(64) == 0);
        // SAFETY: as the caller says.
        unsafe {
            match STREAMING {
                true => _mm512_stream_si512(to, values),
                false => _mm512_storeu_si512(to, values),
            }
        }
    }

    /// Makes streaming stores visible to other threads before the next store.
    #[inline]
    pub(crate) fn finish<const STREAMING: bool>() {
        if STREAMING {
            // SAFETY: every x86-64 processor has the instruction.
            unsafe { _mm_sfence() };
        }
    }

    /// Gathers 8 values at a time and returns whether all places were in range; one that is not
    /// reads the last value.
    ///
    /// # Safety
    ///
    /// `from` has 1 to `i32::MAX` values; `places` and `out` have one length, a multiple of 8;
    /// `out` begins at a cache line if stores are streaming.
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) unsafe fn gather_u64<const STREAMING: bool>(
        from: &[u64],
        places: &[u32],
        out: &mut [u64],
    ) -> bool {
        debug_assert!(
            !from.is_empty() && places.len() == out.len() && places.len().is_multiple_of(8)
        );
        let last = _mm256_set1_epi32((from.len() - 1) as i32);
        let mut largest = _mm256_setzero_si256();
        for (places, out) in places.chunks_exact(8).zip(out.chunks_exact_mut(8)) {
            // SAFETY: 8 places are read and 8 values written; what is read of `from` is at most at
            // `last`.
            unsafe {
                let at = _mm256_loadu_si256(places.as_ptr().cast());
                largest = _mm256_max_epu32(largest, at);
                let first = places[0] as usize;
                let ahead = _mm256_sub_epi32(at, _mm256_set1_epi32(places[0] as i32));
                let near = _mm256_cmplt_epu32_mask(ahead, _mm256_set1_epi32(8));
                let values = match from.get(first..first + 8) {
                    Some(line) if near == 0xff => {
                        let line = _mm512_loadu_si512(line.as_ptr().cast());
                        _mm512_permutexvar_epi64(_mm512_cvtepu32_epi64(ahead), line)
                    }
                    _ => _mm512_i32gather_epi64::<8>(
                        _mm256_min_epu32(at, last),
                        from.as_ptr().cast(),
                    ),
                };
                store::<STREAMING>(out.as_mut_ptr().cast(), values);
            }
        }
        finish::<STREAMING>();
        let mut lanes = [0_u32; 8];
        // SAFETY: 8 lanes of 32 bits fit the array.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), largest) };
        lanes.iter().all(|&place| (place as usize) < from.len())
    }

    /// As [`gather_u64`], 16 values at a time.
    ///
    /// # Safety
    ///
    /// `from` has 1 to `i32::MAX` values; `places` and `out` have one length, a multiple of 16;
    /// `out` begins at a cache line if stores are streaming.
    #[target_feature(enable = "avx512f,avx512vl")]
    pub(super) unsafe fn gather_u32<const STREAMING: bool>(
        from: &[u32],
        places: &[u32],
        out: &mut [u32],
    ) -> bool {
        debug_assert!(
            !from.is_empty() && places.len() == out.len() && places.len().is_multiple_of(16)
        );
        let last = _mm512_set1_epi32((from.len() - 1) as i32);
        let mut largest = _mm512_setzero_si512();
        for (places, out) in places.chunks_exact(16).zip(out.chunks_exact_mut(16)) {
            // SAFETY: 16 places are read and 16 values written; what is read of `from` is at most
            // at `last`.
            unsafe {
                let at = _mm512_loadu_si512(places.as_ptr().cast());
                largest = _mm512_max_epu32(largest, at);
                let first = places[0] as usize;
                let ahead = _mm512_sub_epi32(at, _mm512_set1_epi32(places[0] as i32));
                let near = _mm512_cmplt_epu32_mask(ahead, _mm512_set1_epi32(16));
                let values = match from.get(first..first + 16) {
                    Some(line) if near == 0xffff => {
                        _mm512_permutexvar_epi32(ahead, _mm512_loadu_si512(line.as_ptr().cast()))
                    }
                    _ => _mm512_i32gather_epi32::<4>(
                        _mm512_min_epu32(at, last),
                        from.as_ptr().cast(),
                    ),
                };
                store::<STREAMING>(out.as_mut_ptr().cast(), values);
            }
        }
        finish::<STREAMING>();
        (_mm512_reduce_max_epu32(largest) as usize) < from.len()
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::{AnyBitPattern, NoUninit};
    use proptest::prelude::*;

    use super::*;
    use crate::memory::pages::Pages;

    fn agrees_with_indexing<T: Value + AnyBitPattern + NoUninit + PartialEq>(
        places: &[u32],
        values: Vec<T>,
    ) {
        for store in [Store::Cached, Store::Streaming] {
            let mut out = Pages::unwritten(places.len());
            gather(&values, places, &mut out, store);
            let expected = places.iter().map(|&place| values[place as usize]);
            assert!(out.written().iter().copied().eq(expected));
        }
    }

    proptest! {
        #[test]
        fn oracle_indexing(
            len in 1_usize..200,
            places in prop::collection::vec(any::<u32>(), 0..200),
            neighbours in any::<bool>(),
        ) {
            let place = |(place, at): (u32, u32)| {
                (if neighbours { at / 3 + place % 4 } else { place }) % len as u32
            };
            let places: Vec<u32> = places.into_iter().zip(0..).map(place).collect();
            let values = || 0..len as u64;
            agrees_with_indexing(&places, values().map(|value| value << 40 | value).collect());
            agrees_with_indexing(&places, values().map(|value| (value as u32) << 8).collect());
            agrees_with_indexing(&places, values().map(|value| [value, value << 40]).collect());
            agrees_with_indexing(&places, values().map(|value| (value as u16) << 7).collect());
            agrees_with_indexing(&places, values().map(|value| value as u8).collect());
        }

        #[test]
        fn a_kernel_reads_nothing_behind_the_last_value(
            len in 1_usize..40,
            places in prop::collection::vec(prop_oneof![0_u32..60, any::<u32>()], 32),
            neighbours in any::<bool>(),
        ) {
            let place = |at: u32| match neighbours {
                true => places[0].wrapping_add(at),
                false => places[at as usize],
            };
            let places: Vec<u32> = (0..32).map(place).collect();
            let of_len = |value: u32| (value as usize) < len;
            let all = places.iter().all(|&place| of_len(place));
            // There are values behind the last one, so that reading them would show.
            let (longs, words): (Vec<u64>, Vec<u32>) = ((0..100).collect(), (0..100).collect());
            let (mut out_longs, mut out_words) = ([0; 32], [0; 32]);
            let long = u64::gather_wide(&longs[..len], &places, &mut out_longs, Store::Cached);
            let word = u32::gather_wide(&words[..len], &places, &mut out_words, Store::Cached);
            prop_assert!(out_longs.iter().all(|&value| of_len(value as u32)));
            prop_assert!(out_words.iter().all(|&value| of_len(value)));
            for found in [long, word] {
                prop_assert!(found == (0, true) || found == (32, all));
            }
        }
    }

    #[test]
    fn a_place_out_of_range_panics_wherever_it_stands() {
        for bad in 0..40 {
            for place in [5, 1 << 31, u32::MAX] {
                let mut places = [0_u32; 40];
                places[bad] = place;
                assert!(
                    std::panic::catch_unwind(|| gather(
                        &[1_u64; 5],
                        &places,
                        Slot::of(&mut [0; 40]),
                        Store::Cached
                    ))
                    .is_err()
                );
                assert!(
                    std::panic::catch_unwind(|| gather(
                        &[1_u32; 5],
                        &places,
                        Slot::of(&mut [0; 40]),
                        Store::Cached
                    ))
                    .is_err()
                );
            }
        }
        assert!(
            std::panic::catch_unwind(|| gather(
                &[] as &[u64],
                &[0],
                Slot::of(&mut [0]),
                Store::Cached
            ))
            .is_err()
        );
    }
}
