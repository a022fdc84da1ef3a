//! Finds the positions at which column values are in given ranges. Several sets of ranges are
//! processed at a time.
//!
//! `scan` is the inner loop of joins that compare every pair. Each tile of a column is loaded once
//! and compared with the ranges of all rows. For each row, a bit shows whether any position in the
//! tile is in range. The bit is computed without a branch. The tile is examined again only if a
//! position is in range. The same code is compiled for AVX-512, for AVX2 and for the features that
//! every processor of the target supports. The version to run is selected at run time. NEON has its
//! own loop (see `scan/neon.rs`).
//!
//! Vector instructions older than AVX-512 have no unsigned comparison. On processors without
//! AVX-512, a range is therefore shifted to signed numbers. The loop then tests whether values are
//! outside the range. This takes two instructions instead of three.

#[cfg(target_arch = "aarch64")]
mod neon;

use crate::instructions::{Instructions, available, instructions};

/// A range of unsigned values, defined by its smallest value and its width.
///
/// Testing whether a value is in the range takes one subtraction and one comparison, because values
/// below the range wrap around to large numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span<T> {
    /// The smallest value.
    pub low: T,
    /// The largest value minus the smallest.
    pub width: T,
}

/// Unsigned integers that can be scanned. Narrow integers are compared faster.
pub trait Lane: Copy + Default + Send + Sync + 'static {
    /// Returns whether the value is in a range.
    fn within(self, span: Span<Self>) -> bool;

    /// Shifts a range to signed numbers, for use with [`beyond`](Self::beyond).
    fn moved(span: Span<Self>) -> Span<Self>;

    /// Returns whether the value is outside a range that was [shifted](Self::moved).
    fn beyond(self, moved: Span<Self>) -> bool;

    /// Returns one byte per value: all ones if the value is in the range, and zeros otherwise.
    ///
    /// # Safety
    ///
    /// The processor must support NEON.
    #[cfg(target_arch = "aarch64")]
    unsafe fn within_neon(values: &[Self; neon::WIDTH], span: &neon::WideSpan<Self>)
    -> neon::Bytes;
}

macro_rules! lanes {
    ($($lane:ident)*) => {$(
        impl Lane for $lane {
            #[inline(always)]
            fn within(self, span: Span<Self>) -> bool {
                self.wrapping_sub(span.low) <= span.width
            }

            #[inline(always)]
            fn moved(span: Span<Self>) -> Span<Self> {
                let sign = 1 << (<$lane>::BITS - 1);
                Span { low: span.low.wrapping_add(sign), width: span.width ^ sign }
            }

            #[inline(always)]
            fn beyond(self, moved: Span<Self>) -> bool {
                self.wrapping_sub(moved.low).cast_signed() > moved.width.cast_signed()
            }

            #[cfg(target_arch = "aarch64")]
            #[inline(always)]
            unsafe fn within_neon(
                values: &[Self; neon::WIDTH],
                span: &neon::WideSpan<Self>,
            ) -> neon::Bytes {
                // SAFETY: the caller guarantees that the processor has NEON.
                unsafe { neon::$lane(values, span) }
            }
        }
    )*};
}

lanes!(u8 u16 u32 u64);

/// The number of positions that are compared between two branches.
const TILE: usize = 64;

/// For each of `N` rows, finds the positions whose values are in the row's range. Adds `base` to
/// each position, and appends the results to `found` in ascending order.
pub fn scan<A: Lane, const N: usize>(
    values: &[A],
    spans: &[Span<A>; N],
    base: u32,
    found: &mut [Vec<u32>; N],
) {
    // An empty second column means that there is no second column.
    let ranges =
        Ranges { values, second: &[] as &[u8], spans, second_spans: &[Span::default(); N], base };
    ranges.find::<false>(instructions(), found);
}

/// Like [`scan`], but the values of both columns must be in range.
///
/// # Panics
///
/// Panics if the columns differ in length.
pub fn scan_two<A: Lane, B: Lane, const N: usize>(
    first: &[A],
    second: &[B],
    first_spans: &[Span<A>; N],
    second_spans: &[Span<B>; N],
    base: u32,
    found: &mut [Vec<u32>; N],
) {
    scan_two_by(instructions(), first, second, first_spans, second_spans, base, found);
}

/// Like [`scan_two`], but uses the given instructions, which need not be the widest. Tests and
/// benchmarks use this function to compare instructions.
///
/// # Panics
///
/// Panics if the columns differ in length, or if the processor lacks these instructions.
pub fn scan_two_by<A: Lane, B: Lane, const N: usize>(
    by: Instructions,
    first: &[A],
    second: &[B],
    first_spans: &[Span<A>; N],
    second_spans: &[Span<B>; N],
    base: u32,
    found: &mut [Vec<u32>; N],
) {
    assert_eq!(first.len(), second.len(), "both columns have the same length");
    assert!(available().contains(&by), "this processor has the instructions");
    let ranges = Ranges { values: first, second, spans: first_spans, second_spans, base };
    ranges.find::<true>(by, found);
}

/// Two columns and the ranges of `N` rows. The second column may be unused.
#[derive(Clone, Copy)]
struct Ranges<'a, A, B, const N: usize> {
    values: &'a [A],
    second: &'a [B],
    spans: &'a [Span<A>; N],
    second_spans: &'a [Span<B>; N],
    base: u32,
}

impl<A: Lane, B: Lane, const N: usize> Ranges<'_, A, B, N> {
    fn find<const TWO: bool>(self, by: Instructions, found: &mut [Vec<u32>; N]) {
        // The ranges are shifted here, before a call that is not inlined, because the compiler
        // would otherwise undo the shift.
        let moved = || (self.spans.map(Lane::moved), self.second_spans.map(Lane::moved));
        match by {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => {
                // SAFETY: the processor has the features, which were checked when the instructions
                // were chosen.
                unsafe { x86::avx512::<A, B, TWO, N>(self, found) }
            }
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => {
                // SAFETY: as above.
                unsafe { x86::avx2::<A, B, TWO, N>(self, &moved(), found) }
            }
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon => {
                // SAFETY: the processor has NEON, which was checked when the instructions were
                // chosen.
                unsafe { neon::tiles::<A, B, TWO, N>(self, found) }
            }
            _ => portable::<A, B, TWO, N>(self, &moved(), found),
        }
    }
}

/// The shifted ranges of both columns.
type MovedRanges<A, B, const N: usize> = ([Span<A>; N], [Span<B>; N]);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Lane, MovedRanges, Ranges, tiles};

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn avx512<A: Lane, B: Lane, const TWO: bool, const N: usize>(
        ranges: Ranges<'_, A, B, N>,
        found: &mut [Vec<u32>; N],
    ) {
        tiles::<A, B, TWO, N>(ranges, None, found);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2<A: Lane, B: Lane, const TWO: bool, const N: usize>(
        ranges: Ranges<'_, A, B, N>,
        moved: &MovedRanges<A, B, N>,
        found: &mut [Vec<u32>; N],
    ) {
        tiles::<A, B, TWO, N>(ranges, Some(moved), found);
    }
}

#[inline(never)]
fn portable<A: Lane, B: Lane, const TWO: bool, const N: usize>(
    ranges: Ranges<'_, A, B, N>,
    moved: &MovedRanges<A, B, N>,
    found: &mut [Vec<u32>; N],
) {
    tiles::<A, B, TWO, N>(ranges, Some(moved), found);
}

/// The loop, which is compiled for the instructions that are enabled in the function into which it
/// is inlined. If shifted ranges are given, values are compared with the shifted ranges.
#[inline(always)]
fn tiles<A: Lane, B: Lane, const TWO: bool, const N: usize>(
    ranges: Ranges<'_, A, B, N>,
    moved: Option<&MovedRanges<A, B, N>>,
    found: &mut [Vec<u32>; N],
) {
    let Ranges { values, second, spans, second_spans, base } = ranges;
    let none = [B::default(); TILE];
    let (first_tiles, _) = values.as_chunks::<TILE>();
    let (second_tiles, _) = second.as_chunks::<TILE>();
    for (tile, a) in first_tiles.iter().enumerate() {
        let b = if TWO { &second_tiles[tile] } else { &none };
        let mut any = [false; N];
        for row in 0..N {
            any[row] = match moved {
                Some((spans, second_spans)) => {
                    let (of_a, of_b) = (spans[row], second_spans[row]);
                    let mut all_beyond = true;
                    for at in 0..TILE {
                        all_beyond &= a[at].beyond(of_a) | (TWO & b[at].beyond(of_b));
                    }
                    !all_beyond
                }
                None => {
                    let (of_a, of_b) = (spans[row], second_spans[row]);
                    let mut hit = false;
                    for at in 0..TILE {
                        hit |= a[at].within(of_a) & (!TWO | b[at].within(of_b));
                    }
                    hit
                }
            };
        }
        // There is one branch for all rows, because most tiles contain no hit.
        if any.iter().fold(false, |all, &one| all | one) {
            let base = base + (tile * TILE) as u32;
            for row in (0..N).filter(|&row| any[row]) {
                list::<A, B, TWO>(a, b, spans[row], second_spans[row], base, &mut found[row]);
            }
        }
    }
    rest::<A, B, TWO, N>(ranges, found);
}

/// Appends the positions in range that follow the last tile.
#[inline(always)]
fn rest<A: Lane, B: Lane, const TWO: bool, const N: usize>(
    ranges: Ranges<'_, A, B, N>,
    found: &mut [Vec<u32>; N],
) {
    let Ranges { values, second, spans, second_spans, base } = ranges;
    let none = [B::default(); TILE];
    let (first_tiles, first_rest) = values.as_chunks::<TILE>();
    let (_, second_rest) = second.as_chunks::<TILE>();
    let base = base + (first_tiles.len() * TILE) as u32;
    for row in 0..N {
        let rest = &none[..if TWO { 0 } else { first_rest.len() }];
        let second_rest = if TWO { second_rest } else { rest };
        list::<A, B, TWO>(
            first_rest,
            second_rest,
            spans[row],
            second_spans[row],
            base,
            &mut found[row],
        );
    }
}

/// Appends the positions in range. The results for 32 positions form the bits of a word.
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

    /// Returns small values, many of which are in range.
    fn column<T: From<u8>>(bytes: &[u8]) -> Vec<T> {
        bytes.iter().map(|&byte| T::from(byte)).collect()
    }

    fn check<A: Lane + From<u8>, B: Lane + From<u8>>(
        bytes: &[(u8, u8)],
        spans: [(u8, u8, u8, u8); 4],
    ) {
        let first: Vec<A> = column(&bytes.iter().map(|pair| pair.0).collect::<Vec<_>>());
        let second: Vec<B> = column(&bytes.iter().map(|pair| pair.1).collect::<Vec<_>>());
        let of_first =
            spans.map(|(low, width, ..)| Span { low: A::from(low), width: A::from(width) });
        let of_second =
            spans.map(|(.., low, width)| Span { low: B::from(low), width: B::from(width) });
        let expected = |row: usize, two: bool| -> Vec<u32> {
            let (low, width, second_low, second_width) = spans[row];
            let inside = |value: u8, low: u8, width: u8| {
                value >= low && u16::from(value) <= u16::from(low) + u16::from(width)
            };
            let holds = |&(a, b): &(u8, u8)| {
                inside(a, low, width) && (!two || inside(b, second_low, second_width))
            };
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
        for &by in available() {
            let mut again: [Vec<u32>; 4] = Default::default();
            scan_two_by(by, &first, &second, &of_first, &of_second, 7, &mut again);
            assert_eq!(again, found, "with {by}");
        }
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
        // The result must be the same in a tile, for all instructions.
        let tile: Vec<u64> = values.into_iter().cycle().take(TILE).collect();
        for &by in available() {
            let mut of_tile: [Vec<u32>; 4] = Default::default();
            scan_two_by(by, &tile, &tile, &spans, &spans, 0, &mut of_tile);
            assert_eq!(
                of_tile.each_ref().map(Vec::len),
                [TILE, TILE / 4, TILE / 4, TILE / 2],
                "with {by}"
            );
        }
    }
}
