//! Functions whose states consist of a few words and are all folded in one pass.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::Range;

use super::blocks::{OfBlocks, PartnerBlock, PartnerResults, ResultColumn};
use crate::aggregate::inputs::columns::Mask;
use crate::aggregate::inputs::values::{FunctionInput, Memory, address_of};
use crate::aggregate::output::OutputColumn;
use crate::aggregate::states::functions::{
    Count, CountedValue, Extreme, Function, Mean, Pick, Sum, WeightedMean, WeightedSum,
};
use crate::aggregate::states::whole::{WholeMean, WholeSummand};
use crate::aggregate::states::words::Words;

/// The operation that combines one word of a state with the corresponding word of a new row or a
/// later state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::aggregate) enum Operation {
    /// Adds integers modulo 2^64.
    Add,
    /// Adds floats.
    AddFloats,
    /// Keeps the larger integer.
    Greatest,
}

impl Operation {
    /// Returns the word of the empty state. Combining it with another word leaves the other word
    /// unchanged: sums of floats begin with 0.0, so they are never -0.0.
    #[inline]
    pub(super) const fn empty(self) -> u64 {
        match self {
            Operation::Add => 0,
            Operation::AddFloats => 0.0_f64.to_bits(),
            Operation::Greatest => i64::MIN.cast_unsigned(),
        }
    }

    /// Returns the word for both groups of rows combined. The result does not depend on argument
    /// order, because all NaN values are mapped to one NaN value.
    #[inline(always)]
    pub(super) fn apply(self, one: u64, other: u64) -> u64 {
        match self {
            Operation::Add => one.wrapping_add(other),
            Operation::AddFloats => (f64::from_bits(one) + f64::from_bits(other)).to_bits(),
            Operation::Greatest => one.cast_signed().max(other.cast_signed()).cast_unsigned(),
        }
    }
}

/// The maximum number of words in a function's state. The number of rows is not counted as a word.
const WORDS: usize = 2;

/// A function whose state consists of several words and, in most cases, a row count. Each word has
/// its own operation.
pub(in crate::aggregate) trait OfWords: Function {
    /// The operation of each word.
    const OPERATIONS: &[Operation];

    /// `false` if the words of the empty state differ from all other words, so that rows do not
    /// have to be counted.
    const COUNTS_ROWS: bool = true;

    /// Returns the words that a row adds.
    fn words(value: Self::Input) -> [u64; WORDS];

    /// Returns the state with these words and this row count. If rows are not counted, the count
    /// is 0.
    fn state(words: [u64; WORDS], rows: u64) -> Self::State;
}

/// One word of each right row's state.
pub(in crate::aggregate) struct Word<'a> {
    pub(super) operation: Operation,
    /// Functions in the same family have the same words if they read the same memory.
    source: Option<(TypeId, Memory, usize)>,
    pub(super) write: Box<Write<'a>>,
}

/// Writes the words that adjacent rows add. The last argument is the distance between the words of
/// adjacent rows.
type Write<'a> = dyn Fn(Range<usize>, &mut [u64], usize) + Sync + 'a;

/// A function, described by the words that it needs.
pub(in crate::aggregate) struct WordFunction<'a> {
    words: Vec<Word<'a>>,
    /// The number of rows, if it is counted.
    rows: Option<Word<'a>>,
    make: Make,
}

/// A function, described by the indices of its words among all words.
pub(in crate::aggregate) struct WordPlaces {
    pub(in crate::aggregate) places: Vec<usize>,
    make: Make,
}

impl WordPlaces {
    /// Returns the function in the form that reads folded words.
    pub(in crate::aggregate) fn function(self) -> Box<dyn OfBlocks> {
        (self.make)(self.places)
    }
}

/// Creates a function from the indices of its words among all words. If rows are counted, the last
/// word is their number.
type Make = fn(Vec<usize>) -> Box<dyn OfBlocks>;

impl<'a> WordFunction<'a> {
    /// The words of a function. Functions in the same family have the same words if they read the
    /// same memory.
    pub(super) fn new<F: OfWords, Family: 'static, G: FunctionInput<F>>(input: &'a G) -> Self {
        let mask = input.mask(0);
        let word = |(at, &operation): (usize, &Operation)| Word {
            operation,
            source: input.memory().map(|memory| (TypeId::of::<Family>(), memory, at)),
            // The loops are compiled for each word, because an index that varies is slow.
            write: match at {
                0 => write_word::<F, G, 0>(input, mask, operation.empty()),
                _ => write_word::<F, G, 1>(input, mask, operation.empty()),
            },
        };
        WordFunction {
            words: F::OPERATIONS.iter().enumerate().map(word).collect(),
            rows: F::COUNTS_ROWS.then(|| Word {
                operation: Operation::Add,
                source: Some((TypeId::of::<Count>(), [0, 0, address_of(mask)], 0)),
                write: Box::new(move |rows, words, step| {
                    let ones = std::iter::repeat_n(1, rows.len());
                    write(rows, ones, words, step, mask, 0);
                }),
            }),
            make: |places| Box::new(PassFunction::<F> { places, function: PhantomData }),
        }
    }

    /// Returns the indices of the function's words among all words. Adds the words that are
    /// missing.
    pub(in crate::aggregate) fn places(self, all: &mut Vec<Word<'a>>) -> WordPlaces {
        let place = |word: Word<'a>| {
            let is_same = |known: &Word<'_>| known.source.is_some() && known.source == word.source;
            all.iter().position(is_same).unwrap_or_else(|| {
                all.push(word);
                all.len() - 1
            })
        };
        let places = self.words.into_iter().chain(self.rows).map(place).collect();
        WordPlaces { places, make: self.make }
    }
}

/// Returns a function that writes the word with the index `AT`.
fn write_word<'a, F: OfWords, G: FunctionInput<F>, const AT: usize>(
    input: &'a G,
    mask: Mask<'a>,
    empty: u64,
) -> Box<Write<'a>> {
    Box::new(move |rows, words, step| {
        let values = input.values(0, rows.clone()).map(|value| F::words(value)[AT]);
        write(rows, values, words, step, mask, empty);
    })
}

/// Writes the values of adjacent rows. For excluded rows, writes the word of the empty state.
fn write(
    rows: Range<usize>,
    values: impl Iterator<Item = u64>,
    words: &mut [u64],
    step: usize,
    mask: Mask<'_>,
    empty: u64,
) {
    match mask {
        None => write_all(values, words, step),
        Some(mask) => {
            let values = rows.zip(values);
            let counted = |(row, value)| if mask.contains(row) { value } else { empty };
            write_all(values.map(counted), words, step);
        }
    }
}

fn write_all(values: impl Iterator<Item = u64>, words: &mut [u64], step: usize) {
    // The loops are compiled for fixed distances between words.
    match step {
        1 => values.zip(words).for_each(|(value, word)| *word = value),
        2 => values.zip(words.chunks_mut(2)).for_each(|(value, words)| words[0] = value),
        3 => values.zip(words.chunks_mut(3)).for_each(|(value, words)| words[0] = value),
        _ => values.zip(words.chunks_mut(step)).for_each(|(value, words)| words[0] = value),
    }
}

/// A function that is computed from words.
struct PassFunction<F> {
    places: Vec<usize>,
    function: PhantomData<F>,
}

impl<F: OfWords> OfBlocks for PassFunction<F> {
    fn results(&self, rows: usize) -> Box<dyn PartnerResults + '_> {
        Box::new(ResultColumn::<Self, F::Output>::new(self, rows))
    }
}

impl<F: OfWords> PartnerResults for ResultColumn<'_, PassFunction<F>, F::Output> {
    fn add(&mut self, block: &PartnerBlock<'_>) {
        let word = |at: usize| block.words[self.function.places[at]].of(&block.left);
        let apply = |at: usize, (one, other)| F::OPERATIONS[at].apply(one, other);
        let finish = |words, rows| F::finish(F::state(words, rows));
        if !F::COUNTS_ROWS {
            const { assert!(F::COUNTS_ROWS || F::OPERATIONS.len() == 1) };
            return self.extend(word(0).map(|a| finish([apply(0, a), 0], 0)));
        }
        let rows = word(F::OPERATIONS.len()).map(|(one, other)| one + other);
        match F::OPERATIONS.len() {
            0 => self.extend(rows.map(|rows| finish([0; WORDS], rows))),
            1 => self.extend(word(0).zip(rows).map(|(a, rows)| finish([apply(0, a), 0], rows))),
            _ => {
                let words = word(0).zip(word(1)).zip(rows);
                self.extend(words.map(|((a, b), rows)| finish([apply(0, a), apply(1, b)], rows)));
            }
        }
    }

    fn finish(self: Box<Self>) -> OutputColumn {
        ResultColumn::finish(*self)
    }
}

impl OfWords for Count {
    const OPERATIONS: &[Operation] = &[];

    fn words((): ()) -> [u64; WORDS] {
        [0; WORDS]
    }

    #[inline]
    fn state(_words: [u64; WORDS], rows: u64) -> u64 {
        rows
    }
}

/// Adds numbers that are represented as words.
pub(in crate::aggregate) trait Addition: Words {
    /// The operation. The list is empty for two-word numbers, because the second word takes the
    /// carry of the first.
    const OPERATIONS: &[Operation];
}

impl Addition for i64 {
    const OPERATIONS: &[Operation] = &[Operation::Add];
}

impl Addition for f64 {
    const OPERATIONS: &[Operation] = &[Operation::AddFloats];
}

impl Addition for i128 {
    const OPERATIONS: &[Operation] = &[];
}

/// Implements sums of numbers.
macro_rules! sums {
    ($($function:ident: $number:path),*) => {$(
        impl<T: Addition + $number> OfWords for $function<T> {
            const OPERATIONS: &[Operation] = T::OPERATIONS;

            #[inline]
            fn words(value: T) -> [u64; WORDS] {
                value.to_words()
            }

            #[inline]
            fn state(words: [u64; WORDS], rows: u64) -> CountedValue<T> {
                CountedValue { value: T::of_words(words), rows }
            }
        }
    )*};
}

sums!(Sum: Words, Mean: Words, WholeMean: WholeSummand);

/// Returns an integer that is greatest for the value to be chosen.
fn ranked(value: i64, is_largest_chosen: bool) -> i64 {
    if is_largest_chosen { value } else { !value }
}

impl<const LARGEST: bool> OfWords for Extreme<LARGEST> {
    const OPERATIONS: &[Operation] = &[Operation::Greatest];

    #[inline]
    fn words(value: i64) -> [u64; WORDS] {
        ranked(value, LARGEST).to_words()
    }

    #[inline]
    fn state(words: [u64; WORDS], rows: u64) -> CountedValue<i64> {
        CountedValue { value: ranked(i64::of_words(words), LARGEST), rows }
    }
}

impl OfWords for WeightedMean {
    const OPERATIONS: &[Operation] = &[Operation::AddFloats; 2];

    #[inline]
    fn words((value, weight): (f64, f64)) -> [u64; WORDS] {
        [(value * weight).to_bits(), weight.to_bits()]
    }

    #[inline]
    fn state(words: [u64; WORDS], rows: u64) -> WeightedSum {
        let [value, weight] = words.map(f64::from_bits);
        WeightedSum { value, weight, rows }
    }
}

/// Rows arrive in time order, so the first row has the smallest number and the last row the
/// largest.
impl<const LAST: bool> OfWords for Pick<LAST> {
    const OPERATIONS: &[Operation] = &[Operation::Greatest];
    const COUNTS_ROWS: bool = false;

    #[inline]
    fn words((_, row): (i64, u32)) -> [u64; WORDS] {
        ranked(row.into(), LAST).to_words()
    }

    #[inline]
    fn state(words: [u64; WORDS], _rows: u64) -> (i64, u32) {
        match i64::of_words(words) {
            // No row has this number.
            i64::MIN => Self::EMPTY,
            word => (0, ranked(word, LAST) as u32),
        }
    }
}
