//! Functions as panes have them: with the states of tables, or with smaller ones where all rows
//! count.

use std::marker::PhantomData;

use super::super::OutputColumn;
use super::super::functions::{
    Count, Covariance, Extreme, Function, Mean, Of, OutputValue, Pick, Product, RowOfExtreme, Sum,
    Variance, WeightedMean,
};
use super::super::given::Given;
use super::super::kinds;
use super::super::merged::Place;
use super::super::stored::{Stored, Words};
use super::listed::Lists;
use super::panes::{OfRuns, PaneFunction, Runs, column, fold};
use crate::driver::{Driver, Stopped};
use crate::interval::Partners;

/// A function of partners, with its input.
pub(in super::super) trait OfPartners {
    /// The function of any run, after all right rows were folded.
    fn panes(&self, partners: &Partners, driver: &Driver) -> Result<Box<dyn OfRuns>, Stopped>;

    /// The function of each list.
    fn of_lists(&self, lists: &Lists<'_>) -> OutputColumn;
}

impl<F: InPanes, G: Given<F>> OfPartners for kinds::Of<'_, F, G> {
    fn panes(&self, partners: &Partners, driver: &Driver) -> Result<Box<dyn OfRuns>, Stopped> {
        F::panes(&self.given, partners, driver)
    }

    fn of_lists(&self, lists: &Lists<'_>) -> OutputColumn {
        lists.fold::<F, G>(&self.given)
    }
}

/// A function that is folded in panes.
pub(in super::super) trait InPanes: Stored {
    fn panes<G: Given<Self>>(
        given: &G,
        partners: &Partners,
        driver: &Driver,
    ) -> Result<Box<dyn OfRuns>, Stopped>
    where
        Self: Sized,
    {
        let value = |row| {
            let place = Place { source: 0, row };
            given.counts(place).then(|| given.at(place))
        };
        fold::<AsWords<Self>>(partners, value, driver)
    }
}

/// A function whose states are written as words: the first is 0 for the state of no rows, whatever
/// the others, and there are as many others as the state has.
struct AsWords<F, const LEN: usize = 4>(PhantomData<F>);

impl<F: Stored, const LEN: usize> AsWords<F, LEN> {
    #[inline]
    fn write(state: F::State) -> [u64; LEN] {
        const { assert!(LEN == F::WORDS + 1, "all words of a state, and one more") };
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

impl<F: Stored, const LEN: usize> PaneFunction for AsWords<F, LEN> {
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

/// A function of values that all count: how many they are is known from elsewhere.
struct Uncounted<F>(PhantomData<F>);

impl<T: OutputValue + Send + Sync, F: Function<Input = T, State = Of<T>>> PaneFunction
    for Uncounted<F>
{
    type Input = T;
    type State = T;
    type Output = F::Output;

    const EMPTY: T = F::EMPTY.value;

    #[inline]
    fn add(state: &mut T, value: T) {
        let mut own = Of { value: *state, rows: 1 };
        F::add(&mut own, value);
        *state = own.value;
    }

    #[inline]
    fn combine(earlier: T, later: T) -> T {
        F::combine(Of { value: earlier, rows: 1 }, Of { value: later, rows: 1 }).value
    }

    #[inline]
    fn finish(state: T, partners: u64) -> Option<F::Output> {
        F::finish(Of { value: state, rows: partners })
    }
}

/// Folds values, without a count beside them if all rows count.
macro_rules! uncounted {
    ($($function:ty $(, $number:ident)?;)*) => {$(
        impl $(<$number: Words + Sync>)? InPanes for $function {
            fn panes<G: Given<Self>>(
                given: &G,
                partners: &Partners,
                driver: &Driver,
            ) -> Result<Box<dyn OfRuns>, Stopped> {
                match given.mask(0) {
                    None => {
                        let value = |row| Some(given.at(Place { source: 0, row }));
                        fold::<Uncounted<Self>>(partners, value, driver)
                    }
                    Some(mask) => {
                        let value = |row| {
                            mask.contains(row).then(|| given.at(Place { source: 0, row }))
                        };
                        fold::<AsWords<Self>>(partners, value, driver)
                    }
                }
            }
        }
    )*};
}

uncounted! {
    Sum<T>, T;
    Mean<T>, T;
    Extreme<false>;
    Extreme<true>;
    Product;
}

impl<const ROOT: bool> InPanes for Variance<ROOT> {}

impl InPanes for WeightedMean {}

impl<const LARGEST: bool> InPanes for RowOfExtreme<LARGEST> {}

impl<const RATIO: bool> InPanes for Covariance<RATIO> {
    fn panes<G: Given<Self>>(
        given: &G,
        partners: &Partners,
        driver: &Driver,
    ) -> Result<Box<dyn OfRuns>, Stopped> {
        let value = |row| {
            let place = Place { source: 0, row };
            given.counts(place).then(|| given.at(place))
        };
        fold::<AsWords<Self, 7>>(partners, value, driver)
    }
}

impl InPanes for Count {
    fn panes<G: Given<Self>>(
        given: &G,
        partners: &Partners,
        driver: &Driver,
    ) -> Result<Box<dyn OfRuns>, Stopped> {
        match given.mask(0) {
            None => Ok(Box::new(Lengths)),
            Some(mask) => {
                let value = |row| mask.contains(row).then_some(());
                fold::<AsWords<Self>>(partners, value, driver)
            }
        }
    }
}

/// The number of partners.
struct Lengths;

impl OfRuns for Lengths {
    fn of_runs(&self, runs: &Runs<'_>) -> OutputColumn {
        let counts = runs.ends.iter().map(|ends| Some(i64::from(ends.partners)));
        column(runs.ends.len(), counts)
    }
}

impl<const LAST: bool> InPanes for Pick<LAST> {
    fn panes<G: Given<Self>>(
        given: &G,
        partners: &Partners,
        driver: &Driver,
    ) -> Result<Box<dyn OfRuns>, Stopped> {
        match given.mask(0) {
            None => Ok(Box::new(End::<LAST>)),
            Some(mask) => {
                let value = |row| mask.contains(row).then(|| given.at(Place { source: 0, row }));
                fold::<AsWords<Self>>(partners, value, driver)
            }
        }
    }
}

/// The first or the last partner.
struct End<const LAST: bool>;

impl<const LAST: bool> OfRuns for End<LAST> {
    fn of_runs(&self, runs: &Runs<'_>) -> OutputColumn {
        let rows = runs.partners.rows();
        let row = |place: u32| rows.map_or(place, |rows| rows[place as usize]);
        let chosen = |(first, last)| row(if LAST { last } else { first });
        column(runs.ends.len(), runs.edges().map(|edges| edges.map(chosen)))
    }
}
