//! The two states that form a window, for each key: a suffix of one block of slices and a prefix of
//! the next.

use tidegate_structures::memory;
use tidegate_structures::memory::pages::Slot;

use super::steps::WindowSteps;
use crate::aggregate::states::functions::Function;

/// The states of numbered slices for one function. Windows are formed from these states.
pub(in crate::aggregate) trait SliceStates<F: Function> {
    /// One more than the largest key.
    fn key_count(&self) -> usize;

    /// Returns the keys of a slice's cells; [`cells`](Self::cells) returns their states.
    fn keys(&self, slice: usize) -> &[u32];
    fn cells(&self, slice: usize) -> &[F::State];
}

/// The suffixes and prefixes of one function. Keys are represented by numbers.
pub(in crate::aggregate) struct SuffixPrefix<F: Function> {
    /// The states of each key: `suffix` covers the end of the first block, and `prefix` covers the
    /// start of the second.
    suffix: Vec<F::State>,
    prefix: Vec<F::State>,
    /// The state of the suffix before each cell was combined with it, with the last cell first.
    replaced: Vec<F::State>,
}

impl<F: Function> Default for SuffixPrefix<F> {
    fn default() -> Self {
        SuffixPrefix { suffix: Vec::new(), prefix: Vec::new(), replaced: Vec::new() }
    }
}

impl<F: Function> SuffixPrefix<F> {
    /// Writes the results of the next windows, starting at row `first` of the page.
    pub(in crate::aggregate) fn slide(
        &mut self,
        steps: &WindowSteps,
        slices: &impl SliceStates<F>,
        first: usize,
        page: &mut [Slot<F::Output>],
        missing: &mut Vec<usize>,
    ) {
        self.make_room(slices.key_count());
        let mut done = 0;
        for step in &steps.steps {
            if let Some(suffix) = &step.new_suffix {
                self.begin(slices.key_count());
                for slice in suffix.clone().rev() {
                    self.extend_suffix(slices.cells(slice), slices.keys(slice));
                }
            }
            step.from_suffix.clone().for_each(|slice| self.shorten_suffix(slices.keys(slice)));
            for slice in step.to_prefix.clone() {
                self.extend_prefix(slices.cells(slice), slices.keys(slice));
            }
            let keys = &steps.keys[done..done + step.rows];
            self.write(keys, first + done, page, missing);
            done += step.rows;
        }
    }

    /// Starts with an empty suffix and an empty prefix, for keys less than `keys`.
    fn begin(&mut self, keys: usize) {
        for states in [&mut self.suffix, &mut self.prefix] {
            states.clear();
            memory::reserve(states, keys);
            states.resize(keys, F::EMPTY);
        }
        self.replaced.clear();
    }

    /// Allocates room for keys less than `keys`.
    fn make_room(&mut self, keys: usize) {
        for states in [&mut self.suffix, &mut self.prefix] {
            memory::reserve(states, keys.saturating_sub(states.len()));
            states.resize(keys.max(states.len()), F::EMPTY);
        }
    }

    /// Prepends the cells of a slice to the suffix.
    fn extend_suffix(&mut self, cells: &[F::State], keys: &[u32]) {
        memory::reserve(&mut self.replaced, keys.len());
        for (cell, key) in cells.iter().zip(keys) {
            let suffix = &mut self.suffix[*key as usize];
            self.replaced.push(*suffix);
            *suffix = F::combine(*cell, *suffix);
        }
    }

    /// Removes the first slice from the suffix. The slice must have these keys.
    fn shorten_suffix(&mut self, keys: &[u32]) {
        let rest = self.replaced.len() - keys.len();
        for (before, key) in self.replaced[rest..].iter().zip(keys) {
            self.suffix[*key as usize] = *before;
        }
        self.replaced.truncate(rest);
    }

    /// Appends the cells of a slice to the prefix.
    fn extend_prefix(&mut self, cells: &[F::State], keys: &[u32]) {
        for (cell, key) in cells.iter().zip(keys) {
            let prefix = &mut self.prefix[*key as usize];
            *prefix = F::combine(*prefix, *cell);
        }
    }

    /// Writes the results of the keys, starting at row `first` of the page.
    fn write(
        &self,
        keys: &[u32],
        first: usize,
        page: &mut [Slot<F::Output>],
        missing: &mut Vec<usize>,
    ) {
        let (suffix, prefix) = (&self.suffix[..], &self.prefix[..self.suffix.len()]);
        let values = &mut page[first..first + keys.len()];
        for (at, (value, key)) in values.iter_mut().zip(keys).enumerate() {
            let found = F::finish(F::combine(suffix[*key as usize], prefix[*key as usize]));
            if found.is_none() {
                memory::reserve(missing, 1);
                missing.push(first + at);
            }
            value.set(found.unwrap_or_default());
        }
    }

    /// Calls `visit` with every state.
    pub(in crate::aggregate) fn for_each(&mut self, visit: impl FnMut(&mut F::State)) {
        self.suffix.iter_mut().chain(&mut self.prefix).chain(&mut self.replaced).for_each(visit);
    }
}
