//! Quantiles, counts of distinct values, and the smallest values.

use tidegate_structures::memory;

use super::ranks::RankSet;
use crate::aggregate::output::OutputValue;
use crate::aggregate::states::functions::one_nan;

/// A function over the values in a window that slides over sorted values.
///
/// Values are represented by integers that sort in the same order. A window contains ranks: the
/// positions of its values in `sorted`.
pub(super) trait WindowFunction: Sync {
    type Output: OutputValue;
    type Window: Default + Send;

    /// Returns the number of results per window.
    fn results(&self) -> usize {
        1
    }

    /// Empties the window. `sorted` contains all possible values in ascending order.
    fn open(&self, window: &mut Self::Window, sorted: &[i64]);

    fn insert(&self, window: &mut Self::Window, rank: usize);

    fn remove(&self, window: &mut Self::Window, rank: usize);

    /// Passes the results to `each` in order, or passes `None` if there are too few values.
    fn result(
        &self,
        window: &mut Self::Window,
        sorted: &[i64],
        each: impl FnMut(Option<Self::Output>),
    );

    /// Computes the same results as [`result`](Self::result), from values in any order.
    fn of(&self, values: &mut [i64], each: impl FnMut(Option<Self::Output>));
}

/// A quantile: the value that is not exceeded by a given share of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The share, from 0 to 1.
    pub share: f64,
    /// The method for computing a quantile that lies between two values.
    pub interpolation: Interpolation,
}

/// The method for computing a quantile that lies between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// Interpolates linearly between the lower and higher values.
    Linear,
    /// The nearer value, or the higher one if both are equally near.
    Nearest,
    /// The lower value.
    Lower,
    /// The higher value.
    Higher,
    /// The midpoint of the two values.
    Midpoint,
}

impl Quantile {
    /// Returns the ranks of the lower and higher values among `len` values, and the quantile's
    /// position between them as a fraction.
    fn ranks(self, len: usize) -> (usize, usize, f64) {
        let place = (len - 1) as f64 * self.share;
        let lower = place as usize;
        let higher = lower + usize::from(place > lower as f64);
        match self.interpolation {
            Interpolation::Linear => (lower, higher, place - lower as f64),
            Interpolation::Midpoint if lower < higher => (lower, higher, 0.5),
            Interpolation::Midpoint | Interpolation::Lower => (lower, lower, 0.0),
            Interpolation::Higher => (higher, higher, 0.0),
            Interpolation::Nearest => {
                let nearest = place.round() as usize;
                (nearest, nearest, 0.0)
            }
        }
    }

    /// Returns the quantile between two values.
    fn between(self, lower: i64, higher: i64, part: f64) -> f64 {
        let (low, high) = (float_of(lower), float_of(higher));
        one_nan(match self.interpolation {
            // Equal values can be infinite.
            _ if lower == higher => low,
            Interpolation::Midpoint => f64::midpoint(low, high),
            _ => part * (high - low) + low,
        })
    }
}

/// Several quantiles of the same values.
#[derive(Clone, Debug)]
pub(super) struct Quantiles(pub(super) Vec<Quantile>);

/// Lists with at most this many values are sorted completely. In longer lists, the quantiles are
/// found by selection.
const FEW: usize = 16;

impl WindowFunction for Quantiles {
    type Output = f64;
    type Window = RankSet;

    fn results(&self) -> usize {
        self.0.len()
    }

    fn open(&self, window: &mut RankSet, sorted: &[i64]) {
        window.clear(sorted.len(), self.0.len());
    }

    #[inline]
    fn insert(&self, window: &mut RankSet, rank: usize) {
        window.insert(rank);
    }

    #[inline]
    fn remove(&self, window: &mut RankSet, rank: usize) {
        window.remove(rank);
    }

    #[inline]
    fn result(&self, window: &mut RankSet, sorted: &[i64], mut each: impl FnMut(Option<f64>)) {
        for (at, quantile) in self.0.iter().enumerate() {
            each((window.len() > 0).then(|| {
                let (lower, higher, part) = quantile.ranks(window.len());
                let low = window.find(at, lower);
                let high = if higher > lower { window.next(low) } else { low };
                quantile.between(sorted[low], sorted[high], part)
            }));
        }
    }

    fn of(&self, values: &mut [i64], mut each: impl FnMut(Option<f64>)) {
        let is_sorted = values.len() <= FEW;
        if is_sorted {
            values.sort_unstable();
        }
        for quantile in &self.0 {
            each((!values.is_empty()).then(|| {
                let (lower, higher, part) = quantile.ranks(values.len());
                if is_sorted {
                    return quantile.between(values[lower], values[higher], part);
                }
                let (_, &mut low, above) = values.select_nth_unstable(lower);
                let high = match higher > lower {
                    true => above.iter().copied().min().expect("there is a higher value"),
                    false => low,
                };
                quantile.between(low, high, part)
            }));
        }
    }
}

/// The smallest values, in ascending order. All values must be different, and at least 0.
pub(super) struct Smallest(pub(super) usize);

/// The result for each missing value if a window has too few values.
pub(super) const NO_VALUE: i64 = -1;

impl Smallest {
    /// Returns the result for a position after the last value. Only an empty window has no result.
    fn missing(at: usize) -> Option<i64> {
        (at > 0).then_some(NO_VALUE)
    }
}

impl WindowFunction for Smallest {
    type Output = i64;
    type Window = RankSet;

    fn results(&self) -> usize {
        self.0
    }

    fn open(&self, window: &mut RankSet, sorted: &[i64]) {
        window.clear(sorted.len(), 1);
    }

    #[inline]
    fn insert(&self, window: &mut RankSet, rank: usize) {
        window.insert(rank);
    }

    #[inline]
    fn remove(&self, window: &mut RankSet, rank: usize) {
        window.remove(rank);
    }

    fn result(&self, window: &mut RankSet, sorted: &[i64], mut each: impl FnMut(Option<i64>)) {
        let mut rank = None;
        for at in 0..self.0 {
            if at >= window.len() {
                each(Self::missing(at));
                continue;
            }
            let next = match rank {
                None => window.find(0, 0),
                Some(rank) => window.next(rank),
            };
            rank = Some(next);
            each(Some(sorted[next]));
        }
    }

    fn of(&self, values: &mut [i64], mut each: impl FnMut(Option<i64>)) {
        if values.len() > self.0 {
            values.select_nth_unstable(self.0 - 1);
        }
        let most = values.len().min(self.0);
        values[..most].sort_unstable();
        (0..self.0).for_each(|at| each(values[..most].get(at).copied().or(Self::missing(at))));
    }
}

/// The number of distinct values.
pub(super) struct Distinct;

/// Counts how often each value occurs in a window.
#[derive(Debug, Default)]
pub(super) struct ValueCounts {
    /// The number assigned to the value at each rank.
    values: Vec<u32>,
    /// The count for each value.
    rows: Vec<u32>,
    /// The number of distinct values in the window.
    present: i64,
}

impl WindowFunction for Distinct {
    type Output = i64;
    type Window = ValueCounts;

    fn open(&self, window: &mut ValueCounts, sorted: &[i64]) {
        window.values.clear();
        memory::reserve(&mut window.values, sorted.len());
        let mut value = 0;
        window.values.extend((0..sorted.len()).map(|rank| {
            value += u32::from(rank > 0 && sorted[rank - 1] < sorted[rank]);
            value
        }));
        window.rows.clear();
        memory::reserve(&mut window.rows, value as usize + 1);
        window.rows.resize(value as usize + 1, 0);
        window.present = 0;
    }

    #[inline]
    fn insert(&self, window: &mut ValueCounts, rank: usize) {
        let rows = &mut window.rows[window.values[rank] as usize];
        *rows += 1;
        window.present += i64::from(*rows == 1);
    }

    #[inline]
    fn remove(&self, window: &mut ValueCounts, rank: usize) {
        let rows = &mut window.rows[window.values[rank] as usize];
        *rows -= 1;
        window.present -= i64::from(*rows == 0);
    }

    #[inline]
    fn result(&self, window: &mut ValueCounts, _: &[i64], mut each: impl FnMut(Option<i64>)) {
        each(Some(window.present));
    }

    fn of(&self, values: &mut [i64], mut each: impl FnMut(Option<i64>)) {
        values.sort_unstable();
        each(Some(values.chunk_by(|a, b| a == b).count() as i64));
    }
}

/// Returns an integer that sorts like the float, with NaN above all other values.
#[inline]
pub fn order_of(value: f64) -> i64 {
    flip(if value.is_nan() { f64::NAN } else { value }.to_bits().cast_signed())
}

/// Returns the float from which [`order_of`] computed the integer.
#[inline]
pub fn float_of(order: i64) -> f64 {
    f64::from_bits(flip(order).cast_unsigned())
}

/// Flips the bits of negative floats, because the greater of two negative floats has the smaller
/// bit pattern.
#[inline]
fn flip(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}
