//! Bands: the values that are close to a given value.

use crate::rows::interval::LeftReach;

/// The maximum amounts by which a right value can be below or above a left value.
///
/// Values are represented by codes: integers that sort in the same order as the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// Distances between integer codes; `None` means unlimited.
    Steps {
        /// The maximum distance below.
        below: Option<u64>,
        /// The maximum distance above.
        above: Option<u64>,
    },
    /// Floating-point numbers ([`float_code`]): `left - right <= below` and `right - left <= above`
    /// as IEEE 754 computes and compares them. `f64::INFINITY` means unlimited.
    Floats {
        /// The maximum distance below.
        below: f64,
        /// The maximum distance above.
        above: f64,
    },
}

/// Returns the code of a number. Codes sort in the same order as numbers, and both zeros have the
/// same code. NaN has no code and is not in any band.
#[inline]
pub fn float_code(value: f64) -> Option<i64> {
    // Adding 0 turns negative zero into positive zero.
    (!value.is_nan()).then(|| mirrored((value + 0.0).to_bits().cast_signed()))
}

/// Returns the number with this code.
#[inline]
fn float_of(code: i64) -> f64 {
    f64::from_bits(mirrored(code).cast_unsigned())
}

/// The bit patterns of negative floats increase with the distance from 0, so all bits except the
/// sign bit are inverted.
#[inline]
fn mirrored(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

impl Band {
    /// Returns the band of left values that match a right value.
    pub fn reversed(&self) -> Band {
        match *self {
            Band::Steps { below, above } => Band::Steps { below: above, above: below },
            Band::Floats { below, above } => Band::Floats { below: above, above: below },
        }
    }

    /// Returns the first and last codes that match a left code, or `None` if there is no match.
    #[inline]
    pub fn at(&self, value: i64) -> Option<(i64, i64)> {
        match *self {
            Band::Steps { below, above } => Steps { below, above }.at(0, value),
            Band::Floats { below, above } => float_band(float_of(value), below, above),
        }
    }

    /// Writes the result of [`at`](Self::at) for each value, or [`NO_RANGE`] if there is no match.
    pub fn ranges(&self, values: &[i64], low: &mut [i64], high: &mut [i64]) {
        match *self {
            Band::Steps { below, above } => {
                write_ranges(&Steps { below, above }, values, low, high)
            }
            Band::Floats { below, above } => {
                write_ranges(&Floats { below, above }, values, low, high)
            }
        }
    }
}

fn write_ranges(reach: &impl LeftReach, values: &[i64], low: &mut [i64], high: &mut [i64]) {
    for ((&value, low), high) in values.iter().zip(low).zip(high) {
        (*low, *high) = reach.at(0, value).unwrap_or(NO_RANGE);
    }
}

/// The range of codes for a row that has no match.
pub const NO_RANGE: (i64, i64) = (i64::MAX, i64::MIN);

/// The parameters of [`Band::Steps`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) below: Option<u64>,
    pub(super) above: Option<u64>,
}

impl LeftReach for Steps {
    #[inline]
    fn at(&self, _row: usize, value: i64) -> Option<(i64, i64)> {
        Some((
            self.below.map_or(i64::MIN, |below| value.saturating_sub_unsigned(below)),
            self.above.map_or(i64::MAX, |above| value.saturating_add_unsigned(above)),
        ))
    }

    fn distances(&self, first: i64, last: i64) -> Option<(i64, i64)> {
        let low = 0_i64.checked_sub_unsigned(self.below?)?.checked_sub(1)?;
        let high = i64::try_from(self.above?).ok()?;
        first.checked_add(low)?;
        last.checked_add(high)?;
        Some((low, high))
    }
}

/// The parameters of [`Band::Floats`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Floats {
    pub(super) below: f64,
    pub(super) above: f64,
}

impl LeftReach for Floats {
    // Without a bound, all values match a finite number, and all except the last match an infinity.
    const RISING: bool = false;

    #[inline]
    fn at(&self, _row: usize, value: i64) -> Option<(i64, i64)> {
        float_band(float_of(value), self.below, self.above)
    }
}

/// Returns the first and last codes in a band around `left`.
///
/// Subtraction rounds, but it preserves the order of the exact results. Each of a band's two
/// conditions therefore holds for all numbers on one side of a limit. The search for the limit
/// starts where the limit would be without rounding.
#[inline]
fn float_band(left: f64, below: f64, above: f64) -> Option<(i64, i64)> {
    // The difference of two equal infinities is NaN, which is not in any band.
    let lowest =
        mirrored(f64::NEG_INFINITY.to_bits().cast_signed()) + i64::from(left == f64::NEG_INFINITY);
    let highest =
        mirrored(f64::INFINITY.to_bits().cast_signed()) - i64::from(left == f64::INFINITY);
    let near = |value: f64| float_code(value).map_or(0, |code| code.clamp(lowest, highest));
    let first =
        first_code(near(left - below), lowest, highest, |code| left - float_of(code) <= below)?;
    // In descending order, the last code is the first.
    let last =
        first_code(!near(left + above), !highest, !lowest, |code| float_of(!code) - left <= above)?;
    (first <= !last).then_some((first, !last))
}

/// Returns the first code from `lowest` to `highest` that satisfies a condition. All greater codes
/// must also satisfy the condition. The search begins at `near`. The number of steps is logarithmic
/// in the distance from `near` to the result.
#[inline]
fn first_code(near: i64, lowest: i64, highest: i64, holds: impl Fn(i64) -> bool) -> Option<i64> {
    let mut step = 1_i64;
    let (mut low, mut high) = if holds(near) {
        let mut high = near;
        loop {
            if high == lowest {
                return Some(lowest);
            }
            let probe = high.saturating_sub(step).max(lowest);
            if !holds(probe) {
                break (probe + 1, high);
            }
            (high, step) = (probe, step.saturating_mul(2));
        }
    } else {
        let mut low = near;
        loop {
            if low == highest {
                return None;
            }
            let probe = low.saturating_add(step).min(highest);
            if holds(probe) {
                break (low + 1, probe);
            }
            (low, step) = (probe, step.saturating_mul(2));
        }
    };
    while low < high {
        let middle = low.wrapping_add_unsigned(low.abs_diff(high) / 2);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn floats() -> impl Strategy<Value = f64> {
        let edges = [
            0.0,
            -0.0,
            0.1,
            0.2,
            0.3,
            1.0,
            -1.0,
            1e16,
            -1e16,
            1e300,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            5e-324,
            f64::EPSILON,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        prop_oneof![
            prop::sample::select(edges.to_vec()),
            any::<f64>().prop_filter("a number", |value| !value.is_nan()),
            -10.0..10.0,
            (-100..100).prop_map(|tenth| f64::from(tenth) / 10.0),
        ]
    }

    proptest! {
        #[test]
        fn codes_are_in_the_order_of_the_numbers(a in floats(), b in floats()) {
            let code = |value| float_code(value).unwrap();
            prop_assert_eq!(a.partial_cmp(&b).unwrap(), code(a).cmp(&code(b)));
            prop_assert_eq!(float_of(code(a)), a);
        }

        #[test]
        fn oracle_a_band_of_floats_is_what_subtraction_says(left in floats(), right in floats(), below in floats(),
                                                            above in floats(), ulps in -3_i64..4) {
            let (below, above) = (below.abs(), above.abs());
            let band = Band::Floats { below, above };
            // In addition to arbitrary numbers, tests those near the ends of the band.
            let ends = [left - below, left + above].into_iter().filter_map(float_code).map(|code| float_of(code + ulps));
            for right in ends.chain([right]).filter(|right| !right.is_nan()) {
                let code = float_code(right).unwrap();
                let found = band.at(float_code(left).unwrap()).is_some_and(|(first, last)| (first..=last).contains(&code));
                prop_assert_eq!(found, left - right <= below && right - left <= above, "{} {}", left, right);
                let back = band.reversed().at(code);
                let around = |(first, last): (i64, i64)| (first..=last).contains(&float_code(left).unwrap());
                prop_assert_eq!(found, back.is_some_and(around), "{} {}", left, right);
            }
        }

        #[test]
        fn oracle_a_band_of_steps_is_exact(left: i64, right: i64, near in -9_i64..9, below: Option<u64>, above: Option<u64>) {
            for right in [right, left.saturating_add(near), i64::MIN, i64::MAX] {
                let (first, last) = Band::Steps { below, above }.at(left).unwrap();
                let distance = i128::from(right) - i128::from(left);
                let inside = below.is_none_or(|below| -distance <= i128::from(below))
                    && above.is_none_or(|above| distance <= i128::from(above));
                prop_assert_eq!((first..=last).contains(&right), inside);
            }
        }
    }
}
