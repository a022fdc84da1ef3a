//! Adds the rows in an epoch to the states of partials, for any type of function.

use tidegate_structures::memory;

use super::lane::{Lane, States, Task};
use super::open::SourcePartials;
use crate::aggregate::inputs::places::Place;
use crate::aggregate::inputs::values::{FunctionInput, WithInput};
use crate::aggregate::slices::partials::each;
use crate::aggregate::states::functions::RowOrder;
use crate::aggregate::states::words::{StateWords, StoredFunction};

/// The steps of the pass over epochs, for a function and its input.
pub(in crate::aggregate) trait AddRows: Send + Sync {
    /// Creates empty states for `sources` sources.
    fn lane(&self, sources: usize) -> Box<dyn Lane>;

    /// Returns whether the rows from all sources must be in merged order.
    fn needs_order(&self) -> bool;

    /// Appends tasks that add rows, source by source, to the partials found by `open`.
    fn add<'a>(
        &'a self,
        lane: &'a mut dyn Lane,
        open: &'a [SourcePartials],
        tasks: &mut Vec<Task<'a>>,
    );

    /// Returns a task that adds rows from any source to the states of source `at`, in the given
    /// order. Afterwards, that source has `states` states. `partial_of` contains the index of each
    /// row's state.
    fn add_in_order<'a>(
        &'a self,
        lane: &'a mut dyn Lane,
        at: usize,
        states: usize,
        partial_of: &'a [u32],
        places: &'a [Place],
    ) -> Task<'a>;

    /// Returns the state after adding a row from a source.
    fn added(&self, place: Place, state: StateWords) -> StateWords;
}

/// Returns the states of a function.
fn states<F: StoredFunction>(lane: &mut dyn Lane) -> &mut States<F> {
    lane.as_any().downcast_mut().expect("an aggregate must use the same function in every epoch")
}

impl<F: StoredFunction, G: FunctionInput<F>> AddRows for WithInput<'_, F, G> {
    fn lane(&self, sources: usize) -> Box<dyn Lane> {
        Box::new(States::<F>::new(sources))
    }

    fn needs_order(&self) -> bool {
        F::ORDER == RowOrder::Merged
    }

    fn add<'a>(
        &'a self,
        lane: &'a mut dyn Lane,
        open: &'a [SourcePartials],
        tasks: &mut Vec<Task<'a>>,
    ) {
        let sources = states::<F>(lane).open.iter_mut().zip(open).enumerate();
        let with_rows = sources.filter(|(_, (_, open))| !open.partial_of.is_empty());
        tasks.extend(with_rows.map(|(source, (states, open))| -> Task<'a> {
            Box::new(move || {
                let (mask, rows) = (self.input.mask(source), 0..open.partial_of.len());
                let values = self.input.values(source, rows);
                states.resize(open.keys.len(), F::EMPTY);
                each(mask, 0, &open.partial_of, values, |partial, value| {
                    F::add(&mut states[partial], value);
                });
            })
        }));
    }

    fn add_in_order<'a>(
        &'a self,
        lane: &'a mut dyn Lane,
        at: usize,
        count: usize,
        partial_of: &'a [u32],
        places: &'a [Place],
    ) -> Task<'a> {
        let states = &mut states::<F>(lane).open[at];
        Box::new(move || {
            memory::reserve(states, count.saturating_sub(states.len()));
            states.resize(count, F::EMPTY);
            for (&partial, &place) in partial_of.iter().zip(places) {
                if self.input.counts(place) {
                    F::add(&mut states[partial as usize], self.input.at(place));
                }
            }
        })
    }

    fn added(&self, place: Place, state: StateWords) -> StateWords {
        if !self.input.counts(place) {
            return state;
        }
        let mut state = F::of_words(state);
        F::add(&mut state, self.input.at(place));
        F::to_words(state)
    }
}
