//! Type-erased aggregate functions for the streaming operator, which keeps their states between
//! calls.

use std::marker::PhantomData;

use super::functions::{Count, Extreme, Mean, Order, Pick, Sum, Variance};
use super::sessions::Place;
use super::stored::{STATE_WORDS, Stored};
use super::streaming::{Lane, Open, States, Task};
use super::{Aggregate, Column, Mask, Numbers, Stream};

/// A function and what it is of.
pub(super) trait Kind: Send + Sync {
    /// The states of so many sources.
    fn lane(&self, sources: usize) -> Box<dyn Lane>;

    /// Whether the rows of all sources have to come in merged order.
    fn needs_order(&self) -> bool;

    /// Appends the work of adding rows to the partials that `open` has found, source by source.
    fn add<'a>(&'a self, lane: &'a mut dyn Lane, open: &'a [Open], tasks: &mut Vec<Task<'a>>);

    /// The work of adding rows of any sources, in the order in which they are given, to partials of
    /// the source `at`.
    fn add_in_order<'a>(
        &'a self,
        lane: &'a mut dyn Lane,
        at: usize,
        open: &'a Open,
        places: &'a [Place],
    ) -> Task<'a>;

    /// The state after a row of a source.
    fn added(&self, place: Place, state: [u64; STATE_WORDS]) -> [u64; STATE_WORDS];
}

/// The values that a function is of.
pub(super) trait Given: Send + Sync {
    type Value;

    /// Those of a source's rows.
    fn of_source(&self, source: usize) -> impl Iterator<Item = Self::Value> + Send;

    fn at(&self, place: Place) -> Self::Value;

    /// The rows of a source that count.
    fn mask(&self, source: usize) -> Mask<'_>;

    fn counts(&self, place: Place) -> bool {
        self.mask(place.source).is_none_or(|mask| mask.contains(place.row))
    }
}

impl<T: Copy + Send + Sync> Given for &[Column<'_, T>] {
    type Value = T;

    fn of_source(&self, source: usize) -> impl Iterator<Item = T> + Send {
        self[source].values.iter().copied()
    }

    fn at(&self, Place { source, row }: Place) -> T {
        self[source].values[row]
    }

    fn mask(&self, source: usize) -> Mask<'_> {
        self[source].mask
    }
}

/// Rows that are only counted.
struct Rows<'a>(&'a [Mask<'a>]);

impl Given for Rows<'_> {
    type Value = ();

    fn of_source(&self, _source: usize) -> impl Iterator<Item = ()> + Send {
        std::iter::repeat(())
    }

    fn at(&self, _place: Place) {}

    fn mask(&self, source: usize) -> Mask<'_> {
        self.0[source]
    }
}

/// Rows by time and number, of which one is chosen.
struct Chosen<'a> {
    rows: &'a [Stream<'a>],
    /// The number of each source's first row.
    first_rows: &'a [u32],
    masks: &'a [Mask<'a>],
}

impl Given for Chosen<'_> {
    type Value = (i64, u32);

    fn of_source(&self, source: usize) -> impl Iterator<Item = (i64, u32)> + Send {
        self.rows[source].ts.iter().copied().zip(self.first_rows[source]..)
    }

    fn at(&self, Place { source, row }: Place) -> (i64, u32) {
        (self.rows[source].ts[row], self.first_rows[source] + row as u32)
    }

    fn mask(&self, source: usize) -> Mask<'_> {
        self.masks[source]
    }
}

struct Of<F, G> {
    given: G,
    function: PhantomData<F>,
}

pub(super) fn kind_of<'a, F: Stored, G: Given<Value = F::Input> + 'a>(
    given: G,
) -> Box<dyn Kind + 'a> {
    Box::new(Of::<F, G> { given, function: PhantomData })
}

/// The states of a function.
fn states<F: Stored>(lane: &mut dyn Lane) -> &mut States<F> {
    lane.as_any().downcast_mut().expect("an aggregate computes the same in every epoch")
}

impl<F: Stored, G: Given<Value = F::Input>> Kind for Of<F, G> {
    fn lane(&self, sources: usize) -> Box<dyn Lane> {
        Box::new(States::<F>::new(sources))
    }

    fn needs_order(&self) -> bool {
        F::ORDER == Order::Merged
    }

    fn add<'a>(&'a self, lane: &'a mut dyn Lane, open: &'a [Open], tasks: &mut Vec<Task<'a>>) {
        let values =
            (0..open.len()).map(|source| (self.given.of_source(source), self.given.mask(source)));
        tasks.extend(states::<F>(lane).add(open, values));
    }

    fn add_in_order<'a>(
        &'a self,
        lane: &'a mut dyn Lane,
        at: usize,
        open: &'a Open,
        places: &'a [Place],
    ) -> Task<'a> {
        states::<F>(lane).add_in_order(at, open, places, &self.given)
    }

    fn added(&self, place: Place, state: [u64; STATE_WORDS]) -> [u64; STATE_WORDS] {
        if !self.given.counts(place) {
            return state;
        }
        let mut state = F::of_words(state);
        F::add(&mut state, self.given.at(place));
        F::to_words(state)
    }
}

/// What an aggregate computes, of rows of each source; row `n` of source `s` is called
/// `first_rows[s] + n`.
pub(super) fn kind<'a>(
    aggregate: &'a Aggregate<'a>,
    rows: &'a [Stream<'a>],
    first_rows: &'a [u32],
) -> Box<dyn Kind + 'a> {
    let chosen = |masks: &'a [Mask<'a>]| Chosen { rows, first_rows, masks };
    match aggregate {
        Aggregate::Count(masks) => kind_of::<Count, _>(Rows(masks)),
        Aggregate::Sum(Numbers::Integers(columns)) => kind_of::<Sum<i64>, _>(&columns[..]),
        Aggregate::Sum(Numbers::Wide(columns)) => kind_of::<Sum<i128>, _>(&columns[..]),
        Aggregate::Sum(Numbers::Floats(columns)) => kind_of::<Sum<f64>, _>(&columns[..]),
        Aggregate::Mean(Numbers::Integers(columns)) => kind_of::<Mean<i64>, _>(&columns[..]),
        Aggregate::Mean(Numbers::Wide(columns)) => kind_of::<Mean<i128>, _>(&columns[..]),
        Aggregate::Mean(Numbers::Floats(columns)) => kind_of::<Mean<f64>, _>(&columns[..]),
        Aggregate::Min(columns) => kind_of::<Extreme<false>, _>(&columns[..]),
        Aggregate::Max(columns) => kind_of::<Extreme<true>, _>(&columns[..]),
        Aggregate::Variance(columns) => kind_of::<Variance<false>, _>(&columns[..]),
        Aggregate::Deviation(columns) => kind_of::<Variance<true>, _>(&columns[..]),
        Aggregate::First(masks) => kind_of::<Pick<false>, _>(chosen(masks)),
        Aggregate::Last(masks) => kind_of::<Pick<true>, _>(chosen(masks)),
        Aggregate::User(user) => user.kind(),
    }
}
