//! The aggregate functions as states: how to add a row, how to combine two states, and how to
//! compute the result.

use crate::aggregate::output::OutputValue;

/// A function over time ranges. The states of two adjacent ranges can be combined into a state for
/// both ranges.
pub(in crate::aggregate) trait Function: Send + Sync + 'static {
    /// The value that a row contributes.
    type Input: Copy + Send + Sync;
    type State: Copy + Send + Sync;
    type Output: OutputValue;

    /// The order in which rows must be added.
    const ORDER: RowOrder;

    /// The state before any row is added.
    const EMPTY: Self::State;

    fn add(state: &mut Self::State, value: Self::Input);

    /// Returns the combined state of both groups of rows. The rows of `earlier` precede those of
    /// `later`.
    fn combine(earlier: Self::State, later: Self::State) -> Self::State;

    /// Returns the result, or `None` if there were too few rows.
    fn finish(state: Self::State) -> Option<Self::Output>;
}

/// The order in which rows must be added to a function to obtain bit-identical results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// The function accepts rows in any order. States can be combined in any order, too.
    Any,
    /// The function needs the rows from each source in time order, and has one state per source.
    /// The states of a slice are combined in source order.
    Source,
    /// The function needs the rows from all sources in merged order: by time, source and position.
    Merged,
}

/// Maps all NaN values to one bit pattern, so that results do not depend on the order of operands.
pub(in crate::aggregate) fn one_nan(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

/// The number of rows.
pub(in crate::aggregate) struct Count;

impl Function for Count {
    type Input = ();
    type State = u64;
    type Output = i64;

    const ORDER: RowOrder = RowOrder::Any;
    const EMPTY: u64 = 0;

    #[inline]
    fn add(state: &mut u64, (): ()) {
        *state += 1;
    }

    #[inline]
    fn combine(earlier: u64, later: u64) -> u64 {
        earlier + later
    }

    #[inline]
    fn finish(state: u64) -> Option<i64> {
        Some(state.cast_signed())
    }
}

/// A value and the number of rows from which it was computed.
#[derive(Clone, Copy)]
pub(in crate::aggregate) struct CountedValue<T> {
    pub(in crate::aggregate) value: T,
    pub(in crate::aggregate) rows: u64,
}

/// Numbers that can be summed.
pub(in crate::aggregate) trait Summand:
    Copy + Send + Sync + 'static + OutputValue
{
    const ORDER: RowOrder = RowOrder::Any;
    const ZERO: Self;
    fn plus(self, other: Self) -> Self;
    fn float(self) -> f64;
    fn result(self) -> Self {
        self
    }
}

impl Summand for i64 {
    const ZERO: i64 = 0;

    /// Returns the sum modulo 2^64. The sum must be known to fit in 64 bits, as a signed or an
    /// unsigned number.
    #[inline]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }

    #[inline]
    fn float(self) -> f64 {
        self as f64
    }
}

impl Summand for i128 {
    const ZERO: i128 = 0;

    #[inline]
    fn plus(self, other: i128) -> i128 {
        self + other
    }

    #[inline]
    fn float(self) -> f64 {
        self as f64
    }
}

impl Summand for f64 {
    const ORDER: RowOrder = RowOrder::Source;
    const ZERO: f64 = 0.0;

    #[inline]
    fn plus(self, other: f64) -> f64 {
        self + other
    }

    #[inline]
    fn float(self) -> f64 {
        self
    }

    #[inline]
    fn result(self) -> f64 {
        one_nan(self)
    }
}

/// The sum of the values.
pub(in crate::aggregate) struct Sum<T>(std::marker::PhantomData<T>);

impl<T: Summand> Function for Sum<T> {
    type Input = T;
    type State = CountedValue<T>;
    type Output = T;

    const ORDER: RowOrder = T::ORDER;
    const EMPTY: CountedValue<T> = CountedValue { value: T::ZERO, rows: 0 };

    #[inline]
    fn add(state: &mut CountedValue<T>, value: T) {
        *state = CountedValue { value: state.value.plus(value), rows: state.rows + 1 };
    }

    #[inline]
    fn combine(earlier: CountedValue<T>, later: CountedValue<T>) -> CountedValue<T> {
        CountedValue { value: earlier.value.plus(later.value), rows: earlier.rows + later.rows }
    }

    #[inline]
    fn finish(state: CountedValue<T>) -> Option<T> {
        (state.rows > 0).then(|| state.value.result())
    }
}

/// The mean: the sum of the values divided by their number.
pub(in crate::aggregate) struct Mean<T>(std::marker::PhantomData<T>);

impl<T: Summand> Function for Mean<T> {
    type Input = T;
    type State = CountedValue<T>;
    type Output = f64;

    const ORDER: RowOrder = T::ORDER;
    const EMPTY: CountedValue<T> = Sum::<T>::EMPTY;

    #[inline]
    fn add(state: &mut CountedValue<T>, value: T) {
        Sum::<T>::add(state, value);
    }

    #[inline]
    fn combine(earlier: CountedValue<T>, later: CountedValue<T>) -> CountedValue<T> {
        Sum::<T>::combine(earlier, later)
    }

    #[inline]
    fn finish(state: CountedValue<T>) -> Option<f64> {
        (state.rows > 0).then(|| one_nan(state.value.float() / state.rows as f64))
    }
}

/// The product of the values.
pub(in crate::aggregate) struct Product;

impl Function for Product {
    type Input = f64;
    type State = CountedValue<f64>;
    type Output = f64;

    const ORDER: RowOrder = RowOrder::Source;
    const EMPTY: CountedValue<f64> = CountedValue { value: 1.0, rows: 0 };

    #[inline]
    fn add(state: &mut CountedValue<f64>, value: f64) {
        *state = CountedValue { value: state.value * value, rows: state.rows + 1 };
    }

    #[inline]
    fn combine(earlier: CountedValue<f64>, later: CountedValue<f64>) -> CountedValue<f64> {
        CountedValue { value: earlier.value * later.value, rows: earlier.rows + later.rows }
    }

    #[inline]
    fn finish(state: CountedValue<f64>) -> Option<f64> {
        (state.rows > 0).then(|| one_nan(state.value))
    }
}

/// The sum of the weighted values and the sum of the weights.
#[derive(Clone, Copy)]
pub(in crate::aggregate) struct WeightedSum {
    pub(in crate::aggregate) value: f64,
    pub(in crate::aggregate) weight: f64,
    pub(in crate::aggregate) rows: u64,
}

/// The weighted mean of the values: `sum(value * weight) / sum(weight)`.
pub(in crate::aggregate) struct WeightedMean;

impl Function for WeightedMean {
    /// A value and its weight.
    type Input = (f64, f64);
    type State = WeightedSum;
    type Output = f64;

    const ORDER: RowOrder = RowOrder::Source;
    const EMPTY: WeightedSum = WeightedSum { value: 0.0, weight: 0.0, rows: 0 };

    #[inline]
    fn add(state: &mut WeightedSum, (value, weight): (f64, f64)) {
        let own = WeightedSum { value: value * weight, weight, rows: 1 };
        *state = Self::combine(*state, own);
    }

    #[inline]
    fn combine(earlier: WeightedSum, later: WeightedSum) -> WeightedSum {
        WeightedSum {
            value: earlier.value + later.value,
            weight: earlier.weight + later.weight,
            rows: earlier.rows + later.rows,
        }
    }

    #[inline]
    fn finish(state: WeightedSum) -> Option<f64> {
        (state.rows > 0).then(|| one_nan(state.value / state.weight))
    }
}

/// The smallest or largest value.
pub(in crate::aggregate) struct Extreme<const LARGEST: bool>;

impl<const LARGEST: bool> Function for Extreme<LARGEST> {
    type Input = i64;
    type State = CountedValue<i64>;
    type Output = i64;

    const ORDER: RowOrder = RowOrder::Any;
    const EMPTY: CountedValue<i64> =
        CountedValue { value: if LARGEST { i64::MIN } else { i64::MAX }, rows: 0 };

    #[inline]
    fn add(state: &mut CountedValue<i64>, value: i64) {
        *state = Self::combine(*state, CountedValue { value, rows: 1 });
    }

    #[inline]
    fn combine(earlier: CountedValue<i64>, later: CountedValue<i64>) -> CountedValue<i64> {
        let value =
            if LARGEST { earlier.value.max(later.value) } else { earlier.value.min(later.value) };
        CountedValue { value, rows: earlier.rows + later.rows }
    }

    #[inline]
    fn finish(state: CountedValue<i64>) -> Option<i64> {
        (state.rows > 0).then_some(state.value)
    }
}

/// The mean and the squared deviations from it, updated row by row.
#[derive(Clone, Copy)]
pub(in crate::aggregate) struct Moments {
    pub(in crate::aggregate) rows: f64,
    pub(in crate::aggregate) mean: f64,
    /// The sum of the squared deviations from the mean.
    pub(in crate::aggregate) squares: f64,
}

/// The sample variance or its square root.
///
/// Rows are added as in Welford, "Note on a method for calculating corrected sums of squares and
/// products" (1962). States are combined as in Chan, Golub and LeVeque, "Updating formulae and a
/// pairwise algorithm for computing sample variances" (1979). Neither method subtracts large sums
/// from each other.
pub(in crate::aggregate) struct Variance<const ROOT: bool>;

impl<const ROOT: bool> Function for Variance<ROOT> {
    type Input = f64;
    type State = Moments;
    type Output = f64;

    const ORDER: RowOrder = RowOrder::Source;
    const EMPTY: Moments = Moments { rows: 0.0, mean: 0.0, squares: 0.0 };

    #[inline]
    fn add(state: &mut Moments, value: f64) {
        let rows = state.rows + 1.0;
        let distance = value - state.mean;
        *state = if distance.is_infinite() {
            let (mean, [before, after]) = moved_far(state.mean, value, rows);
            Moments { rows, mean, squares: state.squares + before * after * 4.0 }
        } else {
            let mean = state.mean + distance / rows;
            Moments { rows, mean, squares: state.squares + distance * (value - mean) }
        };
    }

    #[inline]
    fn combine(earlier: Moments, later: Moments) -> Moments {
        if earlier.rows == 0.0 {
            return later;
        }
        if later.rows == 0.0 {
            return earlier;
        }
        let rows = earlier.rows + later.rows;
        let share = later.rows / rows;
        let distance = later.mean - earlier.mean;
        let mean = mean_between(earlier.mean, later.mean, share);
        let between = distance * distance * (earlier.rows * later.rows / rows);
        Moments { rows, mean, squares: earlier.squares + later.squares + between }
    }

    #[inline]
    fn finish(state: Moments) -> Option<f64> {
        let variance = state.squares / (state.rows - 1.0);
        (state.rows > 1.0).then(|| one_nan(if ROOT { variance.sqrt() } else { variance }))
    }
}

/// Updates `mean` with `value`, the last of `rows` values. Returns the new mean, half the distance
/// from the old mean to `value`, and half the distance from the new mean to `value`. The distances
/// are halved because the difference of two finite numbers can overflow.
#[cold]
fn moved_far(mean: f64, value: f64, rows: f64) -> (f64, [f64; 2]) {
    let half = |mean: f64| value / 2.0 - mean / 2.0;
    let after = mean + half(mean) / rows * 2.0;
    (after, [half(mean), half(after)])
}

/// Returns the mean of two groups of rows, given each group's mean and the later group's share of
/// the rows.
fn mean_between(earlier: f64, later: f64, share: f64) -> f64 {
    let distance = later - earlier;
    if distance.is_infinite() {
        earlier + (later / 2.0 - earlier / 2.0) * share * 2.0
    } else {
        earlier + distance * share
    }
}

/// The number that represents a missing row.
pub(in crate::aggregate) const NO_ROW: u32 = u32::MAX;

/// The first or last row in merged order.
pub(in crate::aggregate) struct Edge<const LAST: bool>;

impl<const LAST: bool> Function for Edge<LAST> {
    type Input = u32;
    type State = u32;
    type Output = u32;

    const ORDER: RowOrder = RowOrder::Source;
    const EMPTY: u32 = NO_ROW;

    /// Rows are added in ascending order, and [`NO_ROW`] is greater than all row numbers.
    #[inline]
    fn add(state: &mut u32, row: u32) {
        *state = if LAST { row } else { row.min(*state) };
    }

    #[inline]
    fn combine(earlier: u32, later: u32) -> u32 {
        let (chosen, other) = if LAST { (later, earlier) } else { (earlier, later) };
        if chosen == NO_ROW { other } else { chosen }
    }

    #[inline]
    fn finish(state: u32) -> Option<u32> {
        (state != NO_ROW).then_some(state)
    }
}

/// The first or last row in merged order, with its time. The time is used to compare rows from
/// several sources.
pub(in crate::aggregate) struct Pick<const LAST: bool>;

impl<const LAST: bool> Function for Pick<LAST> {
    type Input = (i64, u32);
    type State = (i64, u32);
    type Output = u32;

    const ORDER: RowOrder = RowOrder::Any;
    /// No row can have these times, because its windows would begin or end outside the 64-bit
    /// range.
    const EMPTY: (i64, u32) = (if LAST { i64::MIN } else { i64::MAX }, NO_ROW);

    /// Rows are added one source after another and, within a source, in time order. The first row
    /// with a given time is therefore added first. No branch depends on the outcome of the
    /// comparison.
    #[inline]
    fn add(state: &mut (i64, u32), (ts, row): (i64, u32)) {
        let better = if LAST { ts >= state.0 } else { ts < state.0 };
        *state = (if better { ts } else { state.0 }, if better { row } else { state.1 });
    }

    #[inline]
    fn combine(mut earlier: (i64, u32), later: (i64, u32)) -> (i64, u32) {
        Self::add(&mut earlier, later);
        earlier
    }

    #[inline]
    fn finish((_, row): (i64, u32)) -> Option<u32> {
        Edge::<LAST>::finish(row)
    }
}

/// A row, chosen by one of its values.
#[derive(Clone, Copy)]
pub(in crate::aggregate) struct ByValue {
    pub(in crate::aggregate) value: i64,
    pub(in crate::aggregate) ts: i64,
    pub(in crate::aggregate) row: u32,
}

/// The row with the smallest or largest value. If several rows have this value, the first one
/// in merged order is chosen.
pub(in crate::aggregate) struct RowOfExtreme<const LARGEST: bool>;

impl<const LARGEST: bool> Function for RowOfExtreme<LARGEST> {
    type Input = ByValue;
    type State = ByValue;
    type Output = u32;

    const ORDER: RowOrder = RowOrder::Any;
    /// No row can have this time, because its windows would end outside the 64-bit range. All
    /// partners have the time 0.
    const EMPTY: ByValue =
        ByValue { value: if LARGEST { i64::MIN } else { i64::MAX }, ts: i64::MAX, row: NO_ROW };

    /// Rows are added one source after another and, within a source, in time order. The first row
    /// with a given time is therefore added first.
    #[inline]
    fn add(state: &mut ByValue, row: ByValue) {
        let is_beyond = if LARGEST { row.value > state.value } else { row.value < state.value };
        if is_beyond || (row.value == state.value && row.ts < state.ts) {
            *state = row;
        }
    }

    #[inline]
    fn combine(mut earlier: ByValue, later: ByValue) -> ByValue {
        Self::add(&mut earlier, later);
        earlier
    }

    #[inline]
    fn finish(state: ByValue) -> Option<u32> {
        (state.row != NO_ROW).then_some(state.row)
    }
}

/// The means of two columns, and the products of the deviations from these means. The means
/// and products are updated row by row.
#[derive(Clone, Copy)]
pub(in crate::aggregate) struct JointMoments {
    pub(in crate::aggregate) rows: f64,
    pub(in crate::aggregate) means: [f64; 2],
    /// The sum of the squared deviations from each mean.
    pub(in crate::aggregate) squares: [f64; 2],
    /// The sum of `(a - mean(a)) * (b - mean(b))` for the two columns `a` and `b`.
    pub(in crate::aggregate) products: f64,
}

/// The sample covariance or the correlation. The correlation is the covariance divided by the
/// product of the standard deviations.
///
/// The states are those of [`Variance`] plus a sum of products, as in Chan, Golub and LeVeque.
pub(in crate::aggregate) struct Covariance<const RATIO: bool>;

impl<const RATIO: bool> Function for Covariance<RATIO> {
    type Input = (f64, f64);
    type State = JointMoments;
    type Output = f64;

    const ORDER: RowOrder = RowOrder::Source;
    const EMPTY: JointMoments =
        JointMoments { rows: 0.0, means: [0.0; 2], squares: [0.0; 2], products: 0.0 };

    #[inline]
    fn add(state: &mut JointMoments, (x, y): (f64, f64)) {
        let rows = state.rows + 1.0;
        let distances = [x - state.means[0], y - state.means[1]];
        if distances.iter().any(|distance| distance.is_infinite()) {
            let (x_mean, of_x) = moved_far(state.means[0], x, rows);
            let (y_mean, of_y) = moved_far(state.means[1], y, rows);
            *state = JointMoments {
                rows,
                means: [x_mean, y_mean],
                squares: [
                    state.squares[0] + of_x[0] * of_x[1] * 4.0,
                    state.squares[1] + of_y[0] * of_y[1] * 4.0,
                ],
                products: state.products + of_x[0] * of_y[1] * 4.0,
            };
            return;
        }
        let means = [state.means[0] + distances[0] / rows, state.means[1] + distances[1] / rows];
        let after = [x - means[0], y - means[1]];
        *state = JointMoments {
            rows,
            means,
            squares: [
                state.squares[0] + distances[0] * after[0],
                state.squares[1] + distances[1] * after[1],
            ],
            products: state.products + distances[0] * after[1],
        };
    }

    #[inline]
    fn combine(earlier: JointMoments, later: JointMoments) -> JointMoments {
        if earlier.rows == 0.0 {
            return later;
        }
        if later.rows == 0.0 {
            return earlier;
        }
        let rows = earlier.rows + later.rows;
        let distances = [later.means[0] - earlier.means[0], later.means[1] - earlier.means[1]];
        let share = later.rows / rows;
        let between = earlier.rows * later.rows / rows;
        let squares = |at: usize| {
            earlier.squares[at] + later.squares[at] + distances[at] * distances[at] * between
        };
        // The distance between two finite means can overflow, and infinity times zero would be NaN.
        let product = if distances.contains(&0.0) { 0.0 } else { distances[0] * distances[1] };
        JointMoments {
            rows,
            means: [0, 1].map(|at| mean_between(earlier.means[at], later.means[at], share)),
            squares: [squares(0), squares(1)],
            products: earlier.products + later.products + product * between,
        }
    }

    #[inline]
    fn finish(state: JointMoments) -> Option<f64> {
        let JointMoments { rows, squares: [xx, yy], products, .. } = state;
        let ratio = || {
            if xx.is_infinite() || yy.is_infinite() {
                return f64::NAN;
            }
            let both = xx * yy;
            let root = if both.is_normal() { both.sqrt() } else { xx.sqrt() * yy.sqrt() };
            (products / root).clamp(-1.0, 1.0)
        };
        (rows > 1.0).then(|| one_nan(if RATIO { ratio() } else { products / (rows - 1.0) }))
    }
}
