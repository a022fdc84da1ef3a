//! The loop over tiles, implemented with NEON.
//!
//! Whatever the width of the values, the result of a comparison is narrowed to one byte per
//! position. Values of different widths can therefore be tested together. Narrowing two registers
//! to one takes a single instruction, just like combining them with a logical "or". NEON has
//! unsigned vector comparisons, so ranges are not shifted.

use std::arch::aarch64::*;
use std::convert::identity;

use super::{Lane, Ranges, Span, TILE, rest};

/// The number of positions whose comparison results fill a register.
pub(crate) const WIDTH: usize = 16;

/// One byte for each of the [`WIDTH`] positions.
pub(crate) type Bytes = uint8x16_t;

/// A range whose bounds are repeated to fill a register.
pub(crate) type WideSpan<A> = Span<[A; WIDTH]>;

fn filled<A: Lane>(span: Span<A>) -> WideSpan<A> {
    Span { low: [span.low; WIDTH], width: [span.width; WIDTH] }
}

/// Does the same as `tiles` in the parent module.
#[target_feature(enable = "neon")]
pub(super) fn tiles<A: Lane, B: Lane, const TWO: bool, const N: usize>(
    ranges: Ranges<'_, A, B, N>,
    found: &mut [Vec<u32>; N],
) {
    let Ranges { values, second, spans, second_spans, base } = ranges;
    let none = [B::default(); TILE];
    // The ranges are stored as registers hold them. The registers are filled once instead of for
    // each tile.
    let (of_first, of_second) = (spans.map(filled), second_spans.map(filled));
    let (first_tiles, second_tiles) = (values.as_chunks::<TILE>().0, second.as_chunks::<TILE>().0);
    for (tile, a) in first_tiles.iter().enumerate() {
        let b = if TWO { &second_tiles[tile] } else { &none };
        let mut hits = [vdupq_n_u8(0); N];
        for (a, b) in a.as_chunks::<WIDTH>().0.iter().zip(b.as_chunks::<WIDTH>().0) {
            for row in 0..N {
                let inside = within::<A, B, TWO>(a, b, &of_first[row], &of_second[row]);
                hits[row] = vorrq_u8(hits[row], inside);
            }
        }
        let mut all = vdupq_n_u8(0);
        for hit in hits {
            all = vorrq_u8(all, hit);
        }
        // There is one branch for all rows, because most tiles contain no hit.
        if vmaxvq_u8(all) != 0 {
            let base = base + (tile * TILE) as u32;
            for row in 0..N {
                if vmaxvq_u8(hits[row]) != 0 {
                    list::<A, B, TWO>(a, b, &of_first[row], &of_second[row], base, &mut found[row]);
                }
            }
        }
    }
    rest::<A, B, TWO, N>(ranges, found);
}

/// Appends the positions of a tile that are in range.
#[target_feature(enable = "neon")]
#[inline]
fn list<A: Lane, B: Lane, const TWO: bool>(
    first: &[A; TILE],
    second: &[B; TILE],
    of_first: &WideSpan<A>,
    of_second: &WideSpan<B>,
    base: u32,
    found: &mut Vec<u32>,
) {
    /// A mask of the lowest bit in each group of four.
    const LOWEST: u64 = 0x1111_1111_1111_1111;
    let pairs = first.as_chunks::<WIDTH>().0.iter().zip(second.as_chunks::<WIDTH>().0);
    for (nth, (a, b)) in pairs.enumerate() {
        let inside = within::<A, B, TWO>(a, b, of_first, of_second);
        // Four bits per position are used, because no instruction returns one bit of each byte.
        let halves = vshrn_n_u16::<4>(vreinterpretq_u16_u8(inside));
        let mut places = vget_lane_u64::<0>(vreinterpret_u64_u8(halves)) & LOWEST;
        while places != 0 {
            found.push(base + (nth * WIDTH) as u32 + places.trailing_zeros() / 4);
            places &= places - 1;
        }
    }
}

/// Returns one byte per position: all ones if the values at this position are in range, and zeros
/// otherwise.
#[target_feature(enable = "neon")]
#[inline]
fn within<A: Lane, B: Lane, const TWO: bool>(
    first: &[A; WIDTH],
    second: &[B; WIDTH],
    of_first: &WideSpan<A>,
    of_second: &WideSpan<B>,
) -> Bytes {
    // SAFETY: the processor has NEON, because this function requires it.
    let (a, b) = unsafe { (A::within_neon(first, of_first), B::within_neon(second, of_second)) };
    if TWO { vandq_u8(a, b) } else { a }
}

/// Narrows each comparison result to a byte. The results fill `N` registers. Each step takes every
/// second byte of two registers, until only one register is left.
#[target_feature(enable = "neon")]
#[inline]
fn narrowed<const N: usize>(mut masks: [Bytes; N]) -> Bytes {
    let mut len = N;
    while len > 1 {
        len /= 2;
        for at in 0..len {
            masks[at] = vuzp1q_u8(masks[2 * at], masks[2 * at + 1]);
        }
    }
    masks[0]
}

/// Defines a function that compares values of one width. The function is named after the type of
/// the values.
macro_rules! compared {
    ($lane:ident, $load:ident, $less:ident, $upto:ident, $bytes:ident) => {
        #[target_feature(enable = "neon")]
        #[inline]
        pub(super) fn $lane(values: &[$lane; WIDTH], span: &WideSpan<$lane>) -> Bytes {
            // SAFETY: sixteen values have at least 16 bytes.
            let (low, width) = unsafe { ($load(span.low.as_ptr()), $load(span.width.as_ptr())) };
            let mut masks = [vdupq_n_u8(0); size_of::<$lane>()];
            for (mask, some) in
                masks.iter_mut().zip(values.as_chunks::<{ WIDTH / size_of::<$lane>() }>().0)
            {
                // SAFETY: this many values have 16 bytes.
                let some = unsafe { $load(some.as_ptr()) };
                *mask = $bytes($upto($less(some, low), width));
            }
            narrowed(masks)
        }
    };
}

compared!(u8, vld1q_u8, vsubq_u8, vcleq_u8, identity);
compared!(u16, vld1q_u16, vsubq_u16, vcleq_u16, vreinterpretq_u8_u16);
compared!(u32, vld1q_u32, vsubq_u32, vcleq_u32, vreinterpretq_u8_u32);
compared!(u64, vld1q_u64, vsubq_u64, vcleq_u64, vreinterpretq_u8_u64);
