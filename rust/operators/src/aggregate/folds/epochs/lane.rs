//! One function's states for partials, for cells, and for the suffixes and prefixes of windows.

use std::any::Any;
use std::collections::VecDeque;

use tidegate_structures::memory::pages::Pages;

use super::open::{ClosedSlice, ClosingSlice, SlicePartials, SourcePartials};
use crate::aggregate::output::{OutputColumn, OutputValue};
use crate::aggregate::slices::partials::SourceRun;
use crate::aggregate::slices::steps::WindowSteps;
use crate::aggregate::slices::suffix_prefix::{SliceStates, SuffixPrefix};
use crate::aggregate::states::functions::Function;
use crate::aggregate::states::words::{MAX_WORDS, StateBounds, StateWords, StoredFunction};

/// The minimum number of closed slices in a task. Fewer slices are not worth passing to another
/// thread.
const TASK_SLICES: usize = 8;

/// A task that does not depend on other tasks.
pub(in crate::aggregate) type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// The states of one function. The function can have any type.
pub(in crate::aggregate) trait Lane: Send + Sync {
    /// Combines the partials of closed slices into cells, in source order.
    fn close<'a>(&'a mut self, closing: &'a [ClosingSlice]) -> Vec<Task<'a>>;

    /// Drops the first partials of each source, except for the placeholder.
    fn forget(&mut self, partials: &[usize]);

    /// Drops the cells of the first slices.
    fn drop_slices(&mut self, slices: usize);

    /// Computes the results of the next windows, page by page.
    fn write(
        &mut self,
        pages: &[WindowSteps],
        kept: &VecDeque<ClosedSlice>,
        keys: usize,
    ) -> Vec<OutputColumn>;

    /// Reorders each source's partials and each kept slice's cells. The arguments contain the
    /// former positions.
    fn arrange(&mut self, partials: &[Vec<usize>], cells: &[Vec<usize>]);

    /// Calls `visit` with the row that each partial or cell has chosen, if any.
    fn rows(&mut self, visit: &mut dyn FnMut(&mut u32));

    /// Calls `visit` in the same way as [`rows`](Self::rows), for some partials of a source, in
    /// order.
    fn rows_of(&mut self, source: usize, partials: &[u32], visit: &mut dyn FnMut(&mut u32));

    /// Calls `visit` in the same way as [`rows`](Self::rows), for the suffixes and prefixes of
    /// windows. The suffixes and prefixes can contain rows that are no longer in any cell.
    fn rows_of_windows(&mut self, visit: &mut dyn FnMut(&mut u32));

    /// Calls `visit` with the value that each partial or cell has chosen, if any.
    fn values(&mut self, visit: &mut dyn FnMut(&mut i64));

    /// Calls `visit` in the same way as [`values`](Self::values), for the suffixes and prefixes of
    /// windows. The suffixes and prefixes can contain values that are no longer in any cell.
    fn values_of_windows(&mut self, visit: &mut dyn FnMut(&mut i64));

    /// Creates empty states for the new partials of each source.
    fn make_room(&mut self, open: &[SourcePartials]);

    /// Returns the results of some partials from one source and resets their states.
    fn take(&mut self, source: usize, partials: &[u32]) -> OutputColumn;

    /// Returns the size of a state in bytes.
    fn state_bytes(&self) -> usize;

    /// Returns the number of words per state in a snapshot.
    fn saved_words(&self) -> usize;

    /// Returns the state of a partial as words; [`empty`](Self::empty) returns the empty state.
    fn words(&self, source: usize, partial: usize) -> StateWords;
    fn empty(&self) -> StateWords;

    /// Replaces the states of a source's partials with the states in `slices`, for the function
    /// with this number.
    fn load(&mut self, source: usize, slices: &[SlicePartials], function: usize);

    /// Appends the states of all partials, source by source, followed by the states of all cells.
    fn save(&self, words: &mut Vec<u64>);

    /// Restores states from the words written by [`save`](Self::save), given the number of partials
    /// per source and the number of cells per slice.
    fn restore(
        &mut self,
        partials: &[usize],
        cells: &[usize],
        words: &mut dyn Iterator<Item = u64>,
    );

    /// Returns whether a state with these words can result from rows within `bounds`.
    fn is_state(&self, words: StateWords, bounds: &StateBounds) -> bool;

    fn as_any(&mut self) -> &mut dyn Any;
}

pub(in crate::aggregate) struct States<F: Function> {
    /// The states of each source's partials.
    pub(in crate::aggregate) open: Vec<Vec<F::State>>,
    /// The states of each kept slice's cells.
    cells: VecDeque<Vec<F::State>>,
    suffix_prefix: SuffixPrefix<F>,
}

impl<F: StoredFunction> States<F> {
    pub(in crate::aggregate) fn new(sources: usize) -> Self {
        States {
            open: vec![vec![F::EMPTY]; sources],
            cells: VecDeque::new(),
            suffix_prefix: SuffixPrefix::default(),
        }
    }
}

/// The cells of the kept slices.
struct KeptCells<'a, F: Function> {
    cells: &'a VecDeque<Vec<F::State>>,
    kept: &'a VecDeque<ClosedSlice>,
    keys: usize,
}

impl<F: Function> SliceStates<F> for KeptCells<'_, F> {
    fn key_count(&self) -> usize {
        self.keys
    }

    fn keys(&self, slice: usize) -> &[u32] {
        &self.kept[slice].keys
    }

    fn cells(&self, slice: usize) -> &[F::State] {
        &self.cells[slice]
    }
}

impl<F: StoredFunction> Lane for States<F> {
    fn close<'a>(&'a mut self, closing: &'a [ClosingSlice]) -> Vec<Task<'a>> {
        let (open, first) = (&self.open, self.cells.len());
        self.cells.resize_with(first + closing.len(), Vec::new);
        let mut slices = self.cells.range_mut(first..);
        let task = |closing: &'a [ClosingSlice]| -> Task<'a> {
            let taken: Vec<_> = slices.by_ref().take(closing.len()).zip(closing).collect();
            Box::new(move || {
                taken
                    .into_iter()
                    .for_each(|(cells, closing)| *cells = combined::<F>(closing, open));
            })
        };
        closing.chunks(TASK_SLICES).map(task).collect()
    }

    fn forget(&mut self, partials: &[usize]) {
        for (states, &count) in self.open.iter_mut().zip(partials).filter(|(_, count)| **count > 0)
        {
            states.drain(1..=count);
        }
    }

    fn drop_slices(&mut self, slices: usize) {
        self.cells.drain(..slices);
    }

    fn write(
        &mut self,
        pages: &[WindowSteps],
        kept: &VecDeque<ClosedSlice>,
        keys: usize,
    ) -> Vec<OutputColumn> {
        let States { cells, suffix_prefix, .. } = self;
        let slices = KeptCells::<F> { cells, kept, keys };
        let page = |steps: &WindowSteps| {
            let mut values = Pages::<F::Output>::unwritten(steps.keys.len());
            let mut missing = Vec::new();
            suffix_prefix.slide(steps, &slices, 0, &mut values, &mut missing);
            OutputColumn { values: F::Output::column(values.written()), missing }
        };
        pages.iter().map(page).collect()
    }

    fn arrange(&mut self, partials: &[Vec<usize>], cells: &[Vec<usize>]) {
        let of_sources = self.open.iter_mut().map(|states| &mut states[1..]).zip(partials);
        let of_slices = self.cells.iter_mut().map(|cells| &mut cells[..]).zip(cells);
        for (states, was) in of_sources.chain(of_slices) {
            debug_assert_eq!(states.len(), was.len(), "each partial or cell has a state");
            let before = states.to_vec();
            states.iter_mut().zip(was).for_each(|(state, &at)| *state = before[at]);
        }
    }

    fn rows(&mut self, visit: &mut dyn FnMut(&mut u32)) {
        let partials = self.open.iter_mut().flat_map(|states| &mut states[1..]);
        partials.chain(self.cells.iter_mut().flatten()).filter_map(F::row).for_each(visit);
    }

    fn rows_of(&mut self, source: usize, partials: &[u32], visit: &mut dyn FnMut(&mut u32)) {
        for &partial in partials {
            F::row(&mut self.open[source][partial as usize]).into_iter().for_each(&mut *visit);
        }
    }

    fn rows_of_windows(&mut self, visit: &mut dyn FnMut(&mut u32)) {
        self.suffix_prefix.for_each(|state| {
            F::row(state).into_iter().for_each(&mut *visit);
        });
    }

    fn values(&mut self, visit: &mut dyn FnMut(&mut i64)) {
        let partials = self.open.iter_mut().flat_map(|states| &mut states[1..]);
        partials.chain(self.cells.iter_mut().flatten()).filter_map(F::value).for_each(visit);
    }

    fn values_of_windows(&mut self, visit: &mut dyn FnMut(&mut i64)) {
        self.suffix_prefix.for_each(|state| {
            F::value(state).into_iter().for_each(&mut *visit);
        });
    }

    fn make_room(&mut self, open: &[SourcePartials]) {
        self.open
            .iter_mut()
            .zip(open)
            .for_each(|(states, open)| states.resize(open.keys.len(), F::EMPTY));
    }

    fn take(&mut self, source: usize, partials: &[u32]) -> OutputColumn {
        let mut values = Pages::<F::Output>::unwritten(partials.len());
        let mut missing = Vec::new();
        for (row, (value, &partial)) in values.iter_mut().zip(partials).enumerate() {
            let found =
                F::finish(std::mem::replace(&mut self.open[source][partial as usize], F::EMPTY));
            missing.extend(found.is_none().then_some(row));
            value.set(found.unwrap_or_default());
        }
        OutputColumn { values: F::Output::column(values.written()), missing }
    }

    fn state_bytes(&self) -> usize {
        size_of::<F::State>()
    }

    fn saved_words(&self) -> usize {
        F::WORDS
    }

    fn words(&self, source: usize, partial: usize) -> StateWords {
        F::to_words(self.open[source][partial])
    }

    fn empty(&self) -> StateWords {
        F::to_words(F::EMPTY)
    }

    fn load(&mut self, source: usize, slices: &[SlicePartials], function: usize) {
        let states = &mut self.open[source];
        states.truncate(1);
        for (_, words) in slices.iter().flat_map(|(_, keys)| keys) {
            let words = &words[function * MAX_WORDS..][..MAX_WORDS];
            states.push(F::of_words(std::array::from_fn(|at| words[at])));
        }
    }

    fn save(&self, words: &mut Vec<u64>) {
        let states =
            self.open.iter().flat_map(|states| &states[1..]).chain(self.cells.iter().flatten());
        states.for_each(|&state| words.extend(&F::to_words(state)[..F::WORDS]));
    }

    fn restore(
        &mut self,
        partials: &[usize],
        cells: &[usize],
        words: &mut dyn Iterator<Item = u64>,
    ) {
        let mut state = || {
            let mut own: StateWords = [0; MAX_WORDS];
            own[..F::WORDS].fill_with(|| words.next().expect("all words are there"));
            F::of_words(own)
        };
        for (states, &count) in self.open.iter_mut().zip(partials) {
            states.extend((0..count).map(|_| state()));
        }
        self.cells
            .extend(cells.iter().map(|&count| (0..count).map(|_| state()).collect::<Vec<_>>()));
    }

    fn is_state(&self, words: StateWords, bounds: &StateBounds) -> bool {
        let state = F::of_words(words);
        F::to_words(state) == words
            && (words == F::to_words(F::EMPTY) || F::is_sound(state, bounds))
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Returns the cells of a closed slice.
fn combined<F: Function>(closing: &ClosingSlice, open: &[Vec<F::State>]) -> Vec<F::State> {
    let partials = |run: &SourceRun| &open[run.source][run.partials.clone()];
    let Some(cell_of) = &closing.cell_of else { return partials(&closing.runs[0]).to_vec() };
    let mut cells = vec![F::EMPTY; closing.keys.len()];
    let states = closing.runs.iter().flat_map(partials);
    for (&state, &cell) in states.zip(cell_of) {
        // Cells are numbered from 1.
        let cell = &mut cells[cell as usize - 1];
        *cell = F::combine(*cell, state);
    }
    cells
}
