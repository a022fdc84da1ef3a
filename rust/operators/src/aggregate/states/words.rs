//! Functions over rows that arrive epoch by epoch. The states of these functions can be stored, and
//! the numbers that represent values and rows can be changed.

use super::functions::{
    ByValue, Count, CountedValue, Covariance, Extreme, Function, JointMoments, Mean, Moments,
    NO_ROW, Pick, Product, RowOfExtreme, Sum, Summand, Variance, WeightedMean, WeightedSum,
};
use super::whole::{WholeMean, WholeSummand};

/// The number of words in a user-defined function's state.
pub const STATE_WORDS: usize = 3;

/// The maximum number of words in a state.
pub const MAX_WORDS: usize = 6;

/// A state as words; unused words are 0.
pub type StateWords = [u64; MAX_WORDS];

/// Returns the words of a three-word state.
pub(in crate::aggregate) fn three([a, b, c]: [u64; 3]) -> StateWords {
    [a, b, c, 0, 0, 0]
}

/// Bounds on the rows from which a state was computed.
#[derive(Clone, Copy, Debug)]
pub struct StateBounds {
    /// The maximum number of rows so far.
    pub rows: u64,
    /// A number greater than the numbers of all chosen rows.
    pub chosen: u32,
    /// The earliest time at which more rows can arrive. `None` if this time is unknown, or if no
    /// more rows can arrive.
    pub next: Option<i64>,
}

/// A function whose states are kept from one epoch to the next.
pub(in crate::aggregate) trait StoredFunction: Function {
    /// The number of words per state in a snapshot.
    const WORDS: usize = 3;

    /// Returns the state as words, for a snapshot.
    fn to_words(state: Self::State) -> StateWords;
    fn of_words(words: StateWords) -> Self::State;

    /// Returns whether rows within `bounds` can produce this state. The state must not be empty.
    fn is_sound(_state: Self::State, _bounds: &StateBounds) -> bool {
        true
    }

    /// Returns the row that the state has chosen, if the function chooses one.
    fn row(_state: &mut Self::State) -> Option<&mut u32> {
        None
    }

    /// Returns the value that the state has chosen, if the function chooses one.
    fn value(_state: &mut Self::State) -> Option<&mut i64> {
        None
    }
}

/// Returns whether the number of rows is nonzero and consistent with `bounds`.
fn came(rows: u64, bounds: &StateBounds) -> bool {
    (1..=bounds.rows).contains(&rows)
}

impl StoredFunction for Count {
    fn is_sound(state: u64, bounds: &StateBounds) -> bool {
        came(state, bounds)
    }

    fn to_words(state: u64) -> StateWords {
        three([state, 0, 0])
    }

    fn of_words(words: StateWords) -> u64 {
        words[0]
    }
}

/// A number that is stored as two words.
pub(in crate::aggregate) trait Words: Summand {
    fn to_words(self) -> [u64; 2];
    fn of_words(words: [u64; 2]) -> Self;

    /// Returns whether the number can be a sum of values, and is small enough for more values to be
    /// added.
    fn is_sum(self) -> bool {
        true
    }
}

impl Words for i64 {
    fn to_words(self) -> [u64; 2] {
        [self.cast_unsigned(), 0]
    }

    fn of_words([low, _]: [u64; 2]) -> i64 {
        low.cast_signed()
    }
}

impl Words for i128 {
    /// Sums of fewer than 2^48 64-bit values are well within this range. Sums of decimals can be
    /// outside this range.
    fn is_sum(self) -> bool {
        self.unsigned_abs() <= 1 << 120
    }

    fn to_words(self) -> [u64; 2] {
        [self as u64, (self >> 64) as u64]
    }

    fn of_words([low, high]: [u64; 2]) -> i128 {
        i128::from(high.cast_signed()) << 64 | i128::from(low)
    }
}

impl Words for f64 {
    fn to_words(self) -> [u64; 2] {
        [self.to_bits(), 0]
    }

    fn of_words([bits, _]: [u64; 2]) -> f64 {
        f64::from_bits(bits)
    }
}

fn words_of<T: Words>(state: CountedValue<T>) -> StateWords {
    let [low, high] = state.value.to_words();
    three([low, high, state.rows])
}

fn of_words<T: Words>([low, high, rows, ..]: StateWords) -> CountedValue<T> {
    CountedValue { value: T::of_words([low, high]), rows }
}

impl<T: Words> StoredFunction for Sum<T> {
    fn is_sound(state: CountedValue<T>, bounds: &StateBounds) -> bool {
        came(state.rows, bounds) && state.value.is_sum()
    }

    fn to_words(state: CountedValue<T>) -> StateWords {
        words_of(state)
    }

    fn of_words(words: StateWords) -> CountedValue<T> {
        of_words(words)
    }
}

impl<T: Words> StoredFunction for Mean<T> {
    fn is_sound(state: CountedValue<T>, bounds: &StateBounds) -> bool {
        Sum::<T>::is_sound(state, bounds)
    }

    fn to_words(state: CountedValue<T>) -> StateWords {
        words_of(state)
    }

    fn of_words(words: StateWords) -> CountedValue<T> {
        of_words(words)
    }
}

impl<T: Words + WholeSummand> StoredFunction for WholeMean<T> {
    fn is_sound(state: CountedValue<T>, bounds: &StateBounds) -> bool {
        Sum::<T>::is_sound(state, bounds)
    }

    fn to_words(state: CountedValue<T>) -> StateWords {
        words_of(state)
    }

    fn of_words(words: StateWords) -> CountedValue<T> {
        of_words(words)
    }
}

impl StoredFunction for Product {
    fn is_sound(state: CountedValue<f64>, bounds: &StateBounds) -> bool {
        came(state.rows, bounds)
    }

    fn to_words(state: CountedValue<f64>) -> StateWords {
        words_of(state)
    }

    fn of_words(words: StateWords) -> CountedValue<f64> {
        of_words(words)
    }
}

impl StoredFunction for WeightedMean {
    fn is_sound(state: WeightedSum, bounds: &StateBounds) -> bool {
        came(state.rows, bounds)
    }

    fn to_words(state: WeightedSum) -> StateWords {
        three([state.value.to_bits(), state.weight.to_bits(), state.rows])
    }

    fn of_words([value, weight, rows, ..]: StateWords) -> WeightedSum {
        WeightedSum { value: f64::from_bits(value), weight: f64::from_bits(weight), rows }
    }
}

impl<const LARGEST: bool> StoredFunction for Extreme<LARGEST> {
    fn is_sound(state: CountedValue<i64>, bounds: &StateBounds) -> bool {
        came(state.rows, bounds)
    }

    fn to_words(state: CountedValue<i64>) -> StateWords {
        words_of(state)
    }

    fn of_words(words: StateWords) -> CountedValue<i64> {
        of_words(words)
    }

    fn value(state: &mut CountedValue<i64>) -> Option<&mut i64> {
        (state.rows > 0).then_some(&mut state.value)
    }
}

impl<const ROOT: bool> StoredFunction for Variance<ROOT> {
    fn is_sound(state: Moments, bounds: &StateBounds) -> bool {
        state.rows >= 1.0 && state.rows.fract() == 0.0 && state.rows <= bounds.rows as f64
    }

    fn to_words(state: Moments) -> StateWords {
        three([state.rows, state.mean, state.squares].map(f64::to_bits))
    }

    fn of_words(words: StateWords) -> Moments {
        let [rows, mean, squares, ..] = words.map(f64::from_bits);
        Moments { rows, mean, squares }
    }
}

impl<const LAST: bool> StoredFunction for Pick<LAST> {
    fn is_sound((_, row): (i64, u32), bounds: &StateBounds) -> bool {
        row < bounds.chosen
    }

    fn to_words((ts, row): (i64, u32)) -> StateWords {
        three([ts.cast_unsigned(), row.into(), 0])
    }

    fn of_words([ts, row, ..]: StateWords) -> (i64, u32) {
        (ts.cast_signed(), row as u32)
    }

    fn row(state: &mut (i64, u32)) -> Option<&mut u32> {
        (state.1 != NO_ROW).then_some(&mut state.1)
    }
}

impl<const LARGEST: bool> StoredFunction for RowOfExtreme<LARGEST> {
    fn is_sound(state: ByValue, bounds: &StateBounds) -> bool {
        state.row < bounds.chosen
    }

    fn to_words(ByValue { value, ts, row }: ByValue) -> StateWords {
        three([value.cast_unsigned(), ts.cast_unsigned(), row.into()])
    }

    fn of_words([value, ts, row, ..]: StateWords) -> ByValue {
        ByValue { value: value.cast_signed(), ts: ts.cast_signed(), row: row as u32 }
    }

    fn row(state: &mut ByValue) -> Option<&mut u32> {
        (state.row != NO_ROW).then_some(&mut state.row)
    }

    fn value(state: &mut ByValue) -> Option<&mut i64> {
        (state.row != NO_ROW).then_some(&mut state.value)
    }
}

impl<const RATIO: bool> StoredFunction for Covariance<RATIO> {
    const WORDS: usize = 6;

    fn is_sound(state: JointMoments, bounds: &StateBounds) -> bool {
        state.rows >= 1.0 && state.rows.fract() == 0.0 && state.rows <= bounds.rows as f64
    }

    fn to_words(state: JointMoments) -> StateWords {
        let JointMoments { rows, means: [x, y], squares: [xx, yy], products } = state;
        [rows, x, y, xx, yy, products].map(f64::to_bits)
    }

    fn of_words(words: StateWords) -> JointMoments {
        let [rows, x, y, xx, yy, products] = words.map(f64::from_bits);
        JointMoments { rows, means: [x, y], squares: [xx, yy], products }
    }
}
