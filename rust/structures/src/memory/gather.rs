//! Copies values, given their positions.
//!
//! The loads are ordinary ones. Even where the processor's gather instructions are fast, they save
//! little time. On processors with a mitigation for "gather data sampling", gather instructions
//! wait for all earlier stores. While streaming stores are in progress, a gather takes 22 ns per
//! value, but ordinary loads take 1 to 5 ns.

use std::ops::Range;

use super::pages::Slot;

/// The number of bytes in a cache line.
const LINE_BYTES: usize = 64;

/// The destination of written values. The choice depends on whether the values will be read soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// The values are stored in the caches.
    Cached,
    /// The values bypass the caches, so that the overwritten memory does not need to be read first.
    /// For memory that is not in any cache, streaming reduces the time by more than half.
    Streaming,
}

/// Values that [`gather`] can copy.
pub trait Value: Copy {
    /// Writes as many values as possible with stores that bypass the caches. Returns the number of
    /// values written.
    ///
    /// # Panics
    ///
    /// Panics if a position is out of range.
    fn stream(_from: &[Self], _places: &[u32], _out: &mut [Self]) -> usize {
        0
    }
}

impl Value for u8 {}
impl Value for u16 {}

/// Writes `from[places[i]]` to `out[i]`.
///
/// # Panics
///
/// Panics if a position is out of range, or if `out` and `places` differ in length.
pub fn gather<T: Value>(from: &[T], places: &[u32], out: &mut [Slot<T>], store: Store) {
    let out = Slot::values(out);
    assert_eq!(places.len(), out.len(), "one value per place");
    let done = match store {
        Store::Streaming => T::stream(from, places, out),
        Store::Cached => 0,
    };
    out[done..]
        .iter_mut()
        .zip(&places[done..])
        .for_each(|(out, &place)| *out = from[place as usize]);
}

/// Prefetches `values[place]` into the cache. Does nothing if the position does not exist.
#[inline]
pub fn prefetch<T>(values: &[T], place: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and an unmapped address has no effect.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(place).cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every processor of the target has the instruction, which only changes caches, and an
    // unmapped address has no effect.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{}]",
            in(reg) values.as_ptr().wrapping_add(place),
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (values, place);
}

/// Prefetches a range of values into the cache.
pub fn prefetch_range<T>(values: &[T], range: &Range<usize>) {
    if let Some(step) = LINE_BYTES.checked_div(size_of::<T>()) {
        range.clone().step_by(step.max(1)).for_each(|at| prefetch(values, at));
    }
}

/// Implements [`Value`] for a type. A 128-bit register holds `$count` values of this type.
macro_rules! streamed {
    ($value:ty, $count:literal, $register:expr) => {
        impl Value for $value {
            #[cfg(target_arch = "x86_64")]
            fn stream(from: &[Self], places: &[u32], out: &mut [Self]) -> usize {
                sse2::stream::<Self, $count>(from, places, out, $register)
            }
        }
    };
}

streamed!(u32, 4, sse2::words);
streamed!(u64, 2, sse2::longs);
streamed!([u64; 2], 1, |[pair]| sse2::longs(pair));

/// 128-bit streaming stores, which every x86-64 processor supports. On ARM, streaming stores are
/// only hints, and Rust has no function for them.
#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{__m128i, _mm_set_epi32, _mm_set_epi64x, _mm_sfence, _mm_stream_si128};
    use std::array::from_fn;

    /// The number of bytes in a cache line. A line is written to memory as soon as it is full.
    const LINE: usize = 64;

    /// The number of registers that fill a line.
    const REGISTERS: usize = LINE / size_of::<__m128i>();

    #[inline(always)]
    pub(super) fn words(words: [u32; 4]) -> __m128i {
        let [a, b, c, d] = words.map(u32::cast_signed);
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { _mm_set_epi32(d, c, b, a) }
    }

    #[inline(always)]
    pub(super) fn longs(longs: [u64; 2]) -> __m128i {
        let [a, b] = longs.map(u64::cast_signed);
        // SAFETY: as in `words`.
        unsafe { _mm_set_epi64x(b, a) }
    }

    /// Writes whole cache lines with stores that bypass the caches. Returns the number of values
    /// written, which is 0 if `out` does not begin at a cache line boundary.
    #[inline(always)]
    pub(super) fn stream<T: Copy, const N: usize>(
        from: &[T],
        places: &[u32],
        out: &mut [T],
        register: impl Fn([T; N]) -> __m128i,
    ) -> usize {
        const { assert!(N * size_of::<T>() == size_of::<__m128i>()) };
        if out.as_ptr().align_offset(LINE) != 0 {
            return 0;
        }
        // The fence also takes effect if a position is out of range.
        let _visible = Fence;
        let values = N * REGISTERS;
        for (places, out) in places.chunks_exact(values).zip(out.chunks_exact_mut(values)) {
            let value = |at: usize| from[places[at] as usize];
            let line: [_; REGISTERS] = from_fn(|nth| register(from_fn(|at| value(nth * N + at))));
            let to = out.as_mut_ptr().cast::<__m128i>();
            for (nth, values) in line.into_iter().enumerate() {
                // SAFETY: `out` has the length of a line and begins at one.
                unsafe { _mm_stream_si128(to.add(nth), values) };
            }
        }
        places.len() / values * values
    }

    /// Makes streaming stores visible to other threads before any later store.
    struct Fence;

    impl Drop for Fence {
        fn drop(&mut self) {
            // SAFETY: as in `words`.
            unsafe { _mm_sfence() };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind};

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
    }

    #[test]
    fn a_place_out_of_range_panics_wherever_it_stands() {
        fn panics<T: Value + AnyBitPattern + NoUninit + RefUnwindSafe>(from: &[T], places: &[u32]) {
            for store in [Store::Cached, Store::Streaming] {
                let mut out = Pages::unwritten(places.len());
                let gathered = AssertUnwindSafe(|| gather(from, places, &mut out, store));
                assert!(catch_unwind(gathered).is_err());
            }
        }
        for bad in 0..40 {
            for place in [5, 1 << 31, u32::MAX] {
                let mut places = [0_u32; 40];
                places[bad] = place;
                panics(&[[1_u64; 2]; 5], &places);
                panics(&[1_u64; 5], &places);
                panics(&[1_u32; 5], &places);
                panics(&[1_u16; 5], &places);
            }
        }
        panics::<u64>(&[], &[0]);
    }
}
