//! The needs of functions when rows come epoch by epoch: states that can be written, and values and
//! rows whose numbers change.

use super::StateBounds;
use super::functions::{
    Count, Extreme, Function, Mean, Moments, NO_ROW, Number, Of, Pick, Product, Sum, Variance,
    Weighted, WeightedMean,
};

/// Words of a state.
pub const STATE_WORDS: usize = 3;

/// A function whose states outlive an epoch.
pub(super) trait Stored: Function {
    /// The state as words, for a snapshot.
    fn to_words(state: Self::State) -> [u64; STATE_WORDS];
    fn of_words(words: [u64; STATE_WORDS]) -> Self::State;

    /// Whether rows within bounds can have brought about the state, which is not that of no rows.
    fn is_sound(_state: Self::State, _bounds: &StateBounds) -> bool {
        true
    }

    /// The row that the state has chosen, if it chooses one.
    fn row(_state: &mut Self::State) -> Option<&mut u32> {
        None
    }

    /// The value that the state has chosen, if it chooses one.
    fn value(_state: &mut Self::State) -> Option<&mut i64> {
        None
    }
}

/// Whether this number of rows can have come, and is not 0.
fn came(rows: u64, bounds: &StateBounds) -> bool {
    (1..=bounds.rows).contains(&rows)
}

impl Stored for Count {
    fn is_sound(state: u64, bounds: &StateBounds) -> bool {
        came(state, bounds)
    }

    fn to_words(state: u64) -> [u64; STATE_WORDS] {
        [state, 0, 0]
    }

    fn of_words(words: [u64; STATE_WORDS]) -> u64 {
        words[0]
    }
}

/// A number as two words.
pub(super) trait Words: Number {
    fn to_words(self) -> [u64; 2];
    fn of_words(words: [u64; 2]) -> Self;

    /// Whether it may be a sum of values to which others can be added.
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
    /// Sums of fewer than 2^48 values of 64 bits stay far within it; sums of decimals need not.
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

fn words_of<T: Words>(state: Of<T>) -> [u64; STATE_WORDS] {
    let [low, high] = state.value.to_words();
    [low, high, state.rows]
}

fn of_words<T: Words>([low, high, rows]: [u64; STATE_WORDS]) -> Of<T> {
    Of { value: T::of_words([low, high]), rows }
}

impl<T: Words> Stored for Sum<T> {
    fn is_sound(state: Of<T>, bounds: &StateBounds) -> bool {
        came(state.rows, bounds) && state.value.is_sum()
    }

    fn to_words(state: Of<T>) -> [u64; STATE_WORDS] {
        words_of(state)
    }

    fn of_words(words: [u64; STATE_WORDS]) -> Of<T> {
        of_words(words)
    }
}

impl<T: Words> Stored for Mean<T> {
    fn is_sound(state: Of<T>, bounds: &StateBounds) -> bool {
        Sum::<T>::is_sound(state, bounds)
    }

    fn to_words(state: Of<T>) -> [u64; STATE_WORDS] {
        words_of(state)
    }

    fn of_words(words: [u64; STATE_WORDS]) -> Of<T> {
        of_words(words)
    }
}

impl Stored for Product {
    fn is_sound(state: Of<f64>, bounds: &StateBounds) -> bool {
        came(state.rows, bounds)
    }

    fn to_words(state: Of<f64>) -> [u64; STATE_WORDS] {
        words_of(state)
    }

    fn of_words(words: [u64; STATE_WORDS]) -> Of<f64> {
        of_words(words)
    }
}

impl Stored for WeightedMean {
    fn is_sound(state: Weighted, bounds: &StateBounds) -> bool {
        came(state.rows, bounds)
    }

    fn to_words(state: Weighted) -> [u64; STATE_WORDS] {
        [state.value.to_bits(), state.weight.to_bits(), state.rows]
    }

    fn of_words([value, weight, rows]: [u64; STATE_WORDS]) -> Weighted {
        Weighted { value: f64::from_bits(value), weight: f64::from_bits(weight), rows }
    }
}

impl<const LARGEST: bool> Stored for Extreme<LARGEST> {
    fn is_sound(state: Of<i64>, bounds: &StateBounds) -> bool {
        came(state.rows, bounds)
    }

    fn to_words(state: Of<i64>) -> [u64; STATE_WORDS] {
        words_of(state)
    }

    fn of_words(words: [u64; STATE_WORDS]) -> Of<i64> {
        of_words(words)
    }

    fn value(state: &mut Of<i64>) -> Option<&mut i64> {
        (state.rows > 0).then_some(&mut state.value)
    }
}

impl<const ROOT: bool> Stored for Variance<ROOT> {
    fn is_sound(state: Moments, bounds: &StateBounds) -> bool {
        state.rows >= 1.0 && state.rows.fract() == 0.0 && state.rows <= bounds.rows as f64
    }

    fn to_words(state: Moments) -> [u64; STATE_WORDS] {
        [state.rows, state.mean, state.squares].map(f64::to_bits)
    }

    fn of_words(words: [u64; STATE_WORDS]) -> Moments {
        let [rows, mean, squares] = words.map(f64::from_bits);
        Moments { rows, mean, squares }
    }
}

impl<const LAST: bool> Stored for Pick<LAST> {
    fn is_sound((_, row): (i64, u32), bounds: &StateBounds) -> bool {
        row < bounds.chosen
    }

    fn to_words((ts, row): (i64, u32)) -> [u64; STATE_WORDS] {
        [ts.cast_unsigned(), row.into(), 0]
    }

    fn of_words([ts, row, _]: [u64; STATE_WORDS]) -> (i64, u32) {
        (ts.cast_signed(), row as u32)
    }

    fn row(state: &mut (i64, u32)) -> Option<&mut u32> {
        (state.1 != NO_ROW).then_some(&mut state.1)
    }
}
