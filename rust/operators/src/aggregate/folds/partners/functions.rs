//! Functions in the form that is used for panes. The states are the same as for tables, but smaller
//! if no rows are excluded.

use std::marker::PhantomData;

use super::blocks::{OfBlocks, PartnerBlock, PartnerResults, ResultColumn};
use super::listed::Lists;
use super::panes::{PaneFold, PaneFunction};
use super::words::{Addition, OfWords, WordFunction};
use crate::aggregate::inputs::places::Place;
use crate::aggregate::inputs::values::{FunctionInput, WithInput};
use crate::aggregate::output::{OutputColumn, OutputValue};
use crate::aggregate::states::functions::{
    Count, CountedValue, Covariance, Extreme, Function, Mean, Pick, Product, RowOfExtreme, Sum,
    Variance, WeightedMean,
};
use crate::aggregate::states::timed::{DecayedMean, TimeWeightedMean};
use crate::aggregate::states::whole::WholeMean;
use crate::aggregate::states::words::StoredFunction;
use crate::driver::Stopped;

/// A function over partners, with its input.
pub(in crate::aggregate) trait OfPartners {
    /// Folds all right rows, and returns the function for use with any run.
    fn panes(&self, folding: &mut PaneFold<'_>) -> Result<Box<dyn OfBlocks>, Stopped>;

    /// Returns the function in terms of words, if its states are words.
    fn in_words(&self) -> Option<WordFunction<'_>>;

    /// Returns the function's result for each list.
    fn of_lists(&self, lists: &Lists<'_>) -> OutputColumn;
}

impl<F: InPanes, G: FunctionInput<F>> OfPartners for WithInput<'_, F, G> {
    fn panes(&self, folding: &mut PaneFold<'_>) -> Result<Box<dyn OfBlocks>, Stopped> {
        F::panes(&self.input, folding)
    }

    fn in_words(&self) -> Option<WordFunction<'_>> {
        F::in_words(&self.input)
    }

    fn of_lists(&self, lists: &Lists<'_>) -> OutputColumn {
        lists.fold::<F, G>(&self.input)
    }
}

/// A function that can be folded by pane.
pub(in crate::aggregate) trait InPanes: StoredFunction {
    /// Functions in the same family have the same states for the same rows.
    type Family: 'static;

    fn panes<G: FunctionInput<Self>>(
        input: &G,
        folding: &mut PaneFold<'_>,
    ) -> Result<Box<dyn OfBlocks>, Stopped>
    where
        Self: Sized,
    {
        let value = |row| {
            let place = Place { source: 0, row };
            input.counts(place).then(|| input.at(place))
        };
        folding.fold::<AsWords<Self>, Self::Family>(input.memory(), value)
    }

    /// Returns the function in terms of words, if its states are words.
    fn in_words<G: FunctionInput<Self>>(_input: &G) -> Option<WordFunction<'_>>
    where
        Self: Sized,
    {
        None
    }
}

/// A function whose states are stored as words. The first word is 0 if and only if the state is
/// empty. The remaining words represent the state itself.
struct AsWords<F, const LEN: usize = 4>(PhantomData<F>);

impl<F: StoredFunction, const LEN: usize> AsWords<F, LEN> {
    #[inline]
    fn write(state: F::State) -> [u64; LEN] {
        const { assert!(LEN == F::WORDS + 1, "there is one word more than a state has") };
        let words = F::to_words(state);
        std::array::from_fn(|at| if at == 0 { 1 } else { words[at - 1] })
    }

    #[inline]
    fn read(written: [u64; LEN]) -> F::State {
        if written[0] == 0 {
            return F::EMPTY;
        }
        F::of_words(std::array::from_fn(|at| written.get(at + 1).copied().unwrap_or(0)))
    }
}

impl<F: StoredFunction, const LEN: usize> PaneFunction for AsWords<F, LEN> {
    type Input = F::Input;
    type State = [u64; LEN];
    type Output = F::Output;

    const EMPTY: [u64; LEN] = [0; LEN];

    #[inline]
    fn add(state: &mut [u64; LEN], value: F::Input) {
        let mut own = Self::read(*state);
        F::add(&mut own, value);
        *state = Self::write(own);
    }

    #[inline]
    fn combine(earlier: [u64; LEN], later: [u64; LEN]) -> [u64; LEN] {
        match (earlier[0], later[0]) {
            (_, 0) => earlier,
            (0, _) => later,
            _ => Self::write(F::combine(Self::read(earlier), Self::read(later))),
        }
    }

    #[inline]
    fn finish(state: [u64; LEN], _partners: u64) -> Option<F::Output> {
        F::finish(Self::read(state))
    }
}

/// A function over values, none of which are excluded. The number of values is therefore known
/// without counting them.
struct NonNullFunction<F>(PhantomData<F>);

impl<T: OutputValue + Send + Sync, F: Function<Input = T, State = CountedValue<T>>> PaneFunction
    for NonNullFunction<F>
{
    type Input = T;
    type State = T;
    type Output = F::Output;

    const EMPTY: T = F::EMPTY.value;

    #[inline]
    fn add(state: &mut T, value: T) {
        let mut own = CountedValue { value: *state, rows: 1 };
        F::add(&mut own, value);
        *state = own.value;
    }

    #[inline]
    fn combine(earlier: T, later: T) -> T {
        F::combine(CountedValue { value: earlier, rows: 1 }, CountedValue { value: later, rows: 1 })
            .value
    }

    #[inline]
    fn finish(state: T, partners: u64) -> Option<F::Output> {
        F::finish(CountedValue { value: state, rows: partners })
    }
}

/// Folds values, without storing their number if no rows are excluded.
fn fold_values<T: OutputValue + Send + Sync, F, G: FunctionInput<F>>(
    input: &G,
    folding: &mut PaneFold<'_>,
) -> Result<Box<dyn OfBlocks>, Stopped>
where
    F: InPanes + Function<Input = T, State = CountedValue<T>>,
{
    match input.mask(0) {
        None => {
            let value = |row| Some(input.at(Place { source: 0, row }));
            folding.fold::<NonNullFunction<F>, F::Family>(input.memory(), value)
        }
        Some(mask) => {
            let value = |row| mask.contains(row).then(|| input.at(Place { source: 0, row }));
            folding.fold::<AsWords<F>, F::Family>(input.memory(), value)
        }
    }
}

/// Implements functions whose state is a single value that is also a word.
macro_rules! of_values {
    ($($function:ty, $family:ty $(, $number:ident)?;)*) => {$(
        impl $(<$number: Addition>)? InPanes for $function {
            type Family = $family;

            fn panes<G: FunctionInput<Self>>(
                input: &G,
                folding: &mut PaneFold<'_>,
            ) -> Result<Box<dyn OfBlocks>, Stopped> {
                fold_values(input, folding)
            }

            fn in_words<G: FunctionInput<Self>>(input: &G) -> Option<WordFunction<'_>> {
                (!Self::OPERATIONS.is_empty()).then(|| WordFunction::new::<Self, Self::Family, G>(input))
            }
        }
    )*};
}

of_values! {
    Sum<T>, Sum<T>, T;
    Mean<T>, Sum<T>, T;
    WholeMean<i64>, Sum<i64>;
    WholeMean<i128>, Sum<i128>;
    Extreme<false>, Self;
    Extreme<true>, Self;
}

impl InPanes for Product {
    type Family = Self;

    fn panes<G: FunctionInput<Self>>(
        input: &G,
        folding: &mut PaneFold<'_>,
    ) -> Result<Box<dyn OfBlocks>, Stopped> {
        fold_values(input, folding)
    }
}

impl<const ROOT: bool> InPanes for Variance<ROOT> {
    type Family = Variance<false>;
}

impl InPanes for WeightedMean {
    type Family = Self;

    fn in_words<G: FunctionInput<Self>>(input: &G) -> Option<WordFunction<'_>> {
        Some(WordFunction::new::<Self, Self::Family, G>(input))
    }
}

impl<const LARGEST: bool> InPanes for RowOfExtreme<LARGEST> {
    type Family = Self;
}

/// Implements functions whose states have a given number of words.
macro_rules! of_long_states {
    ($($function:ty, $family:ty, $words:literal;)*) => {$(
        impl InPanes for $function {
            type Family = $family;

            fn panes<G: FunctionInput<Self>>(
                input: &G,
                folding: &mut PaneFold<'_>,
            ) -> Result<Box<dyn OfBlocks>, Stopped> {
                let value = |row| {
                    let place = Place { source: 0, row };
                    input.counts(place).then(|| input.at(place))
                };
                folding.fold::<AsWords<Self, { $words + 1 }>, Self::Family>(input.memory(), value)
            }
        }
    )*};
}

of_long_states! {
    Covariance<false>, Covariance<false>, 6;
    Covariance<true>, Covariance<false>, 6;
    TimeWeightedMean, Self, 6;
    DecayedMean, Self, 4;
}

impl InPanes for Count {
    type Family = Self;

    fn panes<G: FunctionInput<Self>>(
        input: &G,
        folding: &mut PaneFold<'_>,
    ) -> Result<Box<dyn OfBlocks>, Stopped> {
        match input.mask(0) {
            None => Ok(Box::new(Lengths)),
            Some(mask) => {
                let value = |row| mask.contains(row).then_some(());
                folding.fold::<AsWords<Self>, Self::Family>(input.memory(), value)
            }
        }
    }

    fn in_words<G: FunctionInput<Self>>(input: &G) -> Option<WordFunction<'_>> {
        Some(WordFunction::new::<Self, Self::Family, G>(input))
    }
}

/// The number of partners.
struct Lengths;

impl OfBlocks for Lengths {
    fn results(&self, rows: usize) -> Box<dyn PartnerResults + '_> {
        Box::new(ResultColumn::<Self, i64>::new(self, rows))
    }
}

impl PartnerResults for ResultColumn<'_, Lengths, i64> {
    fn add(&mut self, block: &PartnerBlock<'_>) {
        self.extend(block.runs().ends.iter().map(|ends| Some(i64::from(ends.partners))));
    }

    fn finish(self: Box<Self>) -> OutputColumn {
        ResultColumn::finish(*self)
    }
}

impl<const LAST: bool> InPanes for Pick<LAST> {
    type Family = Self;

    fn panes<G: FunctionInput<Self>>(
        input: &G,
        folding: &mut PaneFold<'_>,
    ) -> Result<Box<dyn OfBlocks>, Stopped> {
        match input.mask(0) {
            None => Ok(Box::new(End::<LAST>)),
            Some(mask) => {
                let value = |row| mask.contains(row).then(|| input.at(Place { source: 0, row }));
                folding.fold::<AsWords<Self>, Self::Family>(input.memory(), value)
            }
        }
    }

    fn in_words<G: FunctionInput<Self>>(input: &G) -> Option<WordFunction<'_>> {
        Some(WordFunction::new::<Self, Self::Family, G>(input))
    }
}

/// The first or last partner.
struct End<const LAST: bool>;

impl<const LAST: bool> OfBlocks for End<LAST> {
    fn results(&self, rows: usize) -> Box<dyn PartnerResults + '_> {
        Box::new(ResultColumn::<Self, u32>::new(self, rows))
    }
}

impl<const LAST: bool> PartnerResults for ResultColumn<'_, End<LAST>, u32> {
    fn add(&mut self, block: &PartnerBlock<'_>) {
        let chosen = |(first, last)| if LAST { last } else { first };
        self.extend(block.runs().edges().map(|edges| edges.map(chosen)));
    }

    fn finish(self: Box<Self>) -> OutputColumn {
        ResultColumn::finish(*self)
    }
}
