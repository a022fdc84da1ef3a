//! Finds the places of columns whose values lie in given ranges, for several sets of ranges at a time.
//!
//! This is the inner loop of joins that compare every pair. A tile of each column is loaded once and compared with the
//! ranges of all rows; whether any place of the tile is in range is one bit a row, found without a branch. Only where
//! there is one, the tile is looked at again. The same code is compiled for AVX-512, for AVX2 and for what every
//! processor of the target has (NEON on ARM), and chosen when it runs.

/// A range of unsigned values: `low`, and how far the largest is above it.
///
/// One subtraction and one comparison test it, since what is below wraps around to what is far above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span<T> {
    /// The smallest value.
    pub low: T,
    /// The largest value, less the smallest.
    pub width: T,
}

/// Values that are scanned: unsigned integers, of which narrow ones are compared faster.
pub trait Lane: Copy + Default + Send + Sync + 'static {
    /// Whether the value is in a range.
    fn within(self, span: Span<Self>) -> bool;
}

macro_rules! lanes {
    ($($lane:ty)*) => {$(
        impl Lane for $lane {
            #[inline(always)]
            fn within(self, span: Span<Self>) -> bool {
                self.wrapping_sub(span.low) <= span.width
            }
        }
    )*};
}

lanes!(u8 u16 u32 u64);

/// Places compared between two branches.
const TILE: usize = 64;

/// For each of `N` rows, adds to `found` the places where the value is in the row's range, ascending, each plus `base`.
pub fn scan<A: Lane, const N: usize>(values: &[A], spans: &[Span<A>; N], base: u32, found: &mut [Vec<u32>; N]) {
    // A column without values stands for none.
    dispatch::<A, u8, false, N>(values, &[], spans, &[Span::default(); N], base, found);
}

/// As [`scan`], where the values of two columns must be in range.
///
/// # Panics
///
/// When the columns differ in length.
pub fn scan_two<A: Lane, B: Lane, const N: usize>(
    first: &[A],
    second: &[B],
    first_spans: &[Span<A>; N],
    second_spans: &[Span<B>; N],
    base: u32,
    found: &mut [Vec<u32>; N],
) {
    assert_eq!(first.len(), second.len(), "columns of one length");
    dispatch::<A, B, true, N>(first, second, first_spans, second_spans, base, found);
}

/// What the processor's widest instructions are called, for people.
pub fn instructions() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    return match () {
        () if x86::has_avx512() => "AVX-512",
        () if x86::has_avx2() => "AVX2",
        () => "SSE2",
    };
    #[cfg(not(target_arch = "x86_64"))]
    if cfg!(target_feature = "neon") { "NEON" } else { "portable" }
}

fn dispatch<A: Lane, B: Lane, const TWO: bool, const N: usize>(
    first: &[A],
    second: &[B],
    first_spans: &[Span<A>; N],
    second_spans: &[Span<B>; N],
    base: u32,
    found: &mut [Vec<u32>; N],
) {
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_avx512() {
            // SAFETY: the processor has the features.
            return unsafe { x86::avx512::<A, B, TWO, N>(first, second, first_spans, second_spans, base, found) };
        }
        if x86::has_avx2() {
            // SAFETY: the processor has the feature.
            return unsafe { x86::avx2::<A, B, TWO, N>(first, second, first_spans, second_spans, base, found) };
        }
    }
    tiles::<A, B, TWO, N>(first, second, first_spans, second_spans, base, found);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Lane, Span, tiles};

    #[inline]
    pub(super) fn has_avx512() -> bool {
        std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vl")
    }

    #[inline]
    pub(super) fn has_avx2() -> bool {
        std::arch::is_x86_feature_detected!("avx2")
    }

    macro_rules! compiled_for {
        ($name:ident, $features:literal) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name<A: Lane, B: Lane, const TWO: bool, const N: usize>(
                first: &[A],
                second: &[B],
                first_spans: &[Span<A>; N],
                second_spans: &[Span<B>; N],
                base: u32,
                found: &mut [Vec<u32>; N],
            ) {
                tiles::<A, B, TWO, N>(first, second, first_spans, second_spans, base, found);
            }
        };
    }

    compiled_for!(avx512, "avx512f,avx512bw,avx512vl");
    compiled_for!(avx2, "avx2");
}

/// The loop, in the instructions of the function it becomes part of.
#[inline(always)]
fn tiles<A: Lane, B: Lane, const TWO: bool, const N: usize>(
    first: &[A],
    second: &[B],
    first_spans: &[Span<A>; N],
    second_spans: &[Span<B>; N],
    base: u32,
    found: &mut [Vec<u32>; N],
) {
    let none = [B::default(); TILE];
    let (first_tiles, first_rest) = first.as_chunks::<TILE>();
    let (second_tiles, second_rest) = second.as_chunks::<TILE>();
    for (tile, a) in first_tiles.iter().enumerate() {
        let b = if TWO { &second_tiles[tile] } else { &none };
        let mut any = [false; N];
        for row in 0..N {
            let (of_a, of_b) = (first_spans[row], second_spans[row]);
            let mut hit = false;
            for at in 0..TILE {
                hit |= a[at].within(of_a) & (!TWO | b[at].within(of_b));
            }
            any[row] = hit;
        }
        // One branch for all rows, since most tiles have no hit.
        if any.iter().fold(false, |all, &one| all | one) {
            let base = base + (tile * TILE) as u32;
            for row in (0..N).filter(|&row| any[row]) {
                list::<A, B, TWO>(a, b, first_spans[row], second_spans[row], base, &mut found[row]);
            }
        }
    }
    let base = base + (first_tiles.len() * TILE) as u32;
    for row in 0..N {
        let rest = &none[..if TWO { 0 } else { first_rest.len() }];
        let second_rest = if TWO { second_rest } else { rest };
        list::<A, B, TWO>(first_rest, second_rest, first_spans[row], second_spans[row], base, &mut found[row]);
    }
}

/// Adds the places in range, found 32 at a time as bits of a word.
#[inline(always)]
fn list<A: Lane, B: Lane, const TWO: bool>(
    first: &[A],
    second: &[B],
    of_first: Span<A>,
    of_second: Span<B>,
    base: u32,
    found: &mut Vec<u32>,
) {
    let within = |a: A, b: B| a.within(of_first) & (!TWO | b.within(of_second));
    let (first_words, first_rest) = first.as_chunks::<32>();
    let (second_words, second_rest) = second.as_chunks::<32>();
    for (nth, (a, b)) in first_words.iter().zip(second_words).enumerate() {
        let mut word = 0_u32;
        for at in 0..32 {
            word |= u32::from(within(a[at], b[at])) << at;
        }
        while word != 0 {
            found.push(base + (nth * 32) as u32 + word.trailing_zeros());
            word &= word - 1;
        }
    }
    let base = base + (first_words.len() * 32) as u32;
    for (at, (&a, &b)) in first_rest.iter().zip(second_rest).enumerate() {
        if within(a, b) {
            found.push(base + at as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Small values, so that many are in range.
    fn column<T: From<u8>>(bytes: &[u8]) -> Vec<T> {
        bytes.iter().map(|&byte| T::from(byte)).collect()
    }

    fn check<A: Lane + From<u8>, B: Lane + From<u8>>(bytes: &[(u8, u8)], spans: [(u8, u8, u8, u8); 4]) {
        let first: Vec<A> = column(&bytes.iter().map(|pair| pair.0).collect::<Vec<_>>());
        let second: Vec<B> = column(&bytes.iter().map(|pair| pair.1).collect::<Vec<_>>());
        let of_first = spans.map(|(low, width, ..)| Span { low: A::from(low), width: A::from(width) });
        let of_second = spans.map(|(.., low, width)| Span { low: B::from(low), width: B::from(width) });
        let expected = |row: usize, two: bool| -> Vec<u32> {
            let (low, width, second_low, second_width) = spans[row];
            let inside =
                |value: u8, low: u8, width: u8| value >= low && u16::from(value) <= u16::from(low) + u16::from(width);
            let holds = |&(a, b): &(u8, u8)| inside(a, low, width) && (!two || inside(b, second_low, second_width));
            (7..).zip(bytes).filter(|(_, pair)| holds(pair)).map(|(place, _)| place).collect()
        };
        let mut found: [Vec<u32>; 4] = Default::default();
        scan_two(&first, &second, &of_first, &of_second, 7, &mut found);
        let mut of_one: [Vec<u32>; 1] = Default::default();
        scan(&first, &[of_first[0]], 7, &mut of_one);
        assert_eq!(of_one[0], expected(0, false));
        for (row, found) in found.iter().enumerate() {
            assert_eq!(*found, expected(row, true), "row {row}");
        }
        let mut plain: [Vec<u32>; 4] = Default::default();
        tiles::<A, B, true, 4>(&first, &second, &of_first, &of_second, 7, &mut plain);
        assert_eq!(plain, found, "as what every processor has");
    }

    proptest! {
        #[test]
        fn oracle_every_place(
            bytes in prop::collection::vec((0_u8..40, 0_u8..40), 0..300),
            spans in prop::array::uniform4((0_u8..50, 0_u8..9, 0_u8..50, 0_u8..30)),
        ) {
            check::<u8, u8>(&bytes, spans);
            check::<u16, u16>(&bytes, spans);
            check::<u32, u32>(&bytes, spans);
            check::<u32, u64>(&bytes, spans);
            check::<u64, u64>(&bytes, spans);
        }
    }

    #[test]
    fn the_ends_of_the_values_are_in_range() {
        let values = [0_u64, 1, u64::MAX - 1, u64::MAX];
        let spans = [
            Span { low: 0, width: u64::MAX },
            Span { low: u64::MAX, width: 0 },
            Span { low: 0, width: 0 },
            Span { low: 1, width: u64::MAX - 2 },
        ];
        let mut found: [Vec<u32>; 4] = Default::default();
        scan(&values, &spans, 0, &mut found);
        assert_eq!(found, [vec![0, 1, 2, 3], vec![3], vec![0], vec![1, 2]]);
    }
}
