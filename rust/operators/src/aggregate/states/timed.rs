//! Means whose weights depend on the times of rows.

use super::functions::{Function, RowOrder, one_nan};
use super::words::{StateBounds, StateWords, StoredFunction};
use crate::aggregate::held::{HeldValues, held, span};

/// The mean of the values, weighted by the time for which each value holds.
pub(in crate::aggregate) struct TimeWeightedMean;

impl Function for TimeWeightedMean {
    /// The time of the row, and its value.
    type Input = (i64, f64, ());
    type State = HeldValues;
    type Output = HeldValues;

    const ORDER: RowOrder = RowOrder::Merged;
    const EMPTY: HeldValues = HeldValues::EMPTY;

    #[inline]
    fn add(state: &mut HeldValues, (ts, value, ()): (i64, f64, ())) {
        *state = Self::combine(*state, HeldValues::one(ts, value));
    }

    #[inline]
    fn combine(earlier: HeldValues, later: HeldValues) -> HeldValues {
        HeldValues::combined(earlier, later)
    }

    #[inline]
    fn finish(state: HeldValues) -> Option<HeldValues> {
        (!state.is_empty()).then_some(state)
    }
}

impl StoredFunction for TimeWeightedMean {
    const WORDS: usize = 6;

    fn is_sound(state: HeldValues, bounds: &StateBounds) -> bool {
        let HeldValues { first, second, last, .. } = state;
        first <= second
            && second <= last
            && (second > first) == (last > first)
            && bounds.next.is_none_or(|next| last <= next)
    }

    fn to_words(state: HeldValues) -> StateWords {
        let HeldValues { first, value, second, area, last, last_value } = state;
        let [first, second, last] = [first, second, last].map(i64::cast_unsigned);
        let [value, area, last_value] = [value, area, last_value].map(f64::to_bits);
        [first, value, second, area, last, last_value]
    }

    fn of_words([first, value, second, area, last, last_value]: StateWords) -> HeldValues {
        let [first, second, last] = [first, second, last].map(u64::cast_signed);
        let [value, area, last_value] = [value, area, last_value].map(f64::from_bits);
        HeldValues { first, value, second, area, last, last_value }
    }
}

/// The time in which the weight of a row halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::aggregate) struct HalfLife(pub(in crate::aggregate) i64);

/// The weighted sum of the values and the sum of the weights, at the time of the last row. That
/// row's own weight is 1, so the sum of the weights is 0 only if there are no rows.
#[derive(Clone, Copy, Debug)]
pub(in crate::aggregate) struct DecayedSum {
    last: i64,
    half_life: i64,
    sum: f64,
    weight: f64,
}

/// The mean of the values. A row's weight halves with each half-life before the last row.
pub(in crate::aggregate) struct DecayedMean;

impl Function for DecayedMean {
    /// The time of the row, its value, and the half-life, which is the same for all rows.
    type Input = (i64, f64, HalfLife);
    type State = DecayedSum;
    type Output = f64;

    const ORDER: RowOrder = RowOrder::Merged;
    const EMPTY: DecayedSum = DecayedSum { last: i64::MIN, half_life: 1, sum: 0.0, weight: 0.0 };

    #[inline]
    fn add(state: &mut DecayedSum, (ts, value, HalfLife(half_life)): (i64, f64, HalfLife)) {
        let own = DecayedSum { last: ts, half_life, sum: value, weight: 1.0 };
        *state = Self::combine(*state, own);
    }

    fn combine(earlier: DecayedSum, later: DecayedSum) -> DecayedSum {
        if earlier.weight == 0.0 {
            return later;
        }
        if later.weight == 0.0 {
            return earlier;
        }
        let share = half_to_the(span(earlier.last, later.last) / later.half_life as f64);
        let weight = earlier.weight * share + later.weight;
        // If the share is 0, even infinite values have no effect.
        DecayedSum { sum: held(earlier.sum, share) + later.sum, weight, ..later }
    }

    #[inline]
    fn finish(state: DecayedSum) -> Option<f64> {
        (state.weight > 0.0).then(|| one_nan(state.sum / state.weight))
    }
}

impl StoredFunction for DecayedMean {
    const WORDS: usize = 4;

    fn is_sound(state: DecayedSum, bounds: &StateBounds) -> bool {
        state.half_life > 0
            && (1.0..=bounds.rows as f64).contains(&state.weight)
            && bounds.next.is_none_or(|next| state.last <= next)
    }

    fn to_words(state: DecayedSum) -> StateWords {
        let DecayedSum { last, half_life, sum, weight } = state;
        let [last, half_life] = [last, half_life].map(i64::cast_unsigned);
        [last, half_life, sum.to_bits(), weight.to_bits(), 0, 0]
    }

    fn of_words([last, half_life, sum, weight, ..]: StateWords) -> DecayedSum {
        let [last, half_life] = [last, half_life].map(u64::cast_signed);
        let [sum, weight] = [sum, weight].map(f64::from_bits);
        DecayedSum { last, half_life, sum, weight }
    }
}

/// Returns one half to the power of a number that is not negative. Unlike `exp2` in a platform's
/// math library, this function returns the same bits on every platform.
fn half_to_the(power: f64) -> f64 {
    /// Beyond this power, the result is negligible next to a weight of 1.
    const LARGEST: f64 = 1000.0;
    /// The error of a Taylor polynomial of this degree is less than the rounding error.
    const DEGREE: i32 = 14;
    if power > LARGEST {
        return 0.0;
    }
    let halvings = power.round();
    let exponent = (halvings - power) * std::f64::consts::LN_2;
    let term = |sum: f64, at: i32| 1.0 + exponent / f64::from(at) * sum;
    let fraction = (1..=DEGREE).rev().fold(1.0, term);
    fraction * f64::from_bits((1023 - halvings as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(rows: &[(i64, f64)]) -> HeldValues {
        let mut state = HeldValues::EMPTY;
        rows.iter().for_each(|&(ts, value)| TimeWeightedMean::add(&mut state, (ts, value, ())));
        state
    }

    /// Computes the mean of the values at all time steps.
    fn mean_by_steps(rows: &[(i64, f64)], start: i64, end: i64) -> f64 {
        let from = start.max(rows[0].0);
        let value = |ts: i64| rows.iter().rfind(|row| row.0 <= ts).expect("a row").1;
        let sum: f64 = (from..end).map(value).sum();
        if end > from { sum / (end - from) as f64 } else { rows[rows.len() - 1].1 }
    }

    #[test]
    fn oracle_time_weighted_mean() {
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..2000 {
            let mut ts = 0;
            let rows: Vec<(i64, f64)> = (0..=next(6))
                .map(|_| {
                    ts += next(4) as i64;
                    (ts, next(8) as f64)
                })
                .collect();
            // Only the first row can be before the start.
            let start = rows.get(1).map_or(rows[0].0, |second| second.0) - next(3) as i64;
            let end = ts + next(4) as i64;
            let expected = mean_by_steps(&rows, start, end);
            let cut = next(rows.len() as u64 + 1) as usize;
            let both = TimeWeightedMean::combine(folded(&rows[..cut]), folded(&rows[cut..]));
            for state in [folded(&rows), both] {
                assert!(TimeWeightedMean::is_sound(
                    state,
                    &StateBounds { rows: 9, chosen: 0, next: Some(ts) }
                ));
                let found = state.mean(Some(start), end);
                assert!((found - expected).abs() < 1e-12, "{rows:?} {start} {end}: {found}");
            }
        }
    }

    #[test]
    fn halving_is_as_exact_as_the_math_library() {
        for step in 0..20_000 {
            let power = f64::from(step) / 19.0;
            let (found, expected) = (half_to_the(power), (-power).exp2());
            if power <= 1000.0 {
                assert!((found / expected - 1.0).abs() < 1e-15, "{power}: {found} {expected}");
            } else {
                assert!(found == 0.0);
            }
        }
        assert!((0..=1000).all(|power| half_to_the(f64::from(power)) == 0.5_f64.powi(power)));
    }

    #[test]
    fn a_half_life_halves_the_weight() {
        let mut state = DecayedMean::EMPTY;
        for (ts, value) in [(0, 8.0), (10, 1.0), (20, 2.0)] {
            DecayedMean::add(&mut state, (ts, value, HalfLife(10)));
        }
        let expected = (8.0 * 0.25 + 1.0 * 0.5 + 2.0) / 1.75;
        assert!(DecayedMean::finish(state).is_some_and(|mean| mean == expected));
    }
}
