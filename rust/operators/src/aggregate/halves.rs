//! The two states of each key that make a window: what is left of one block, and what has come of
//! the next.

use tidegate_structures::memory::pages::Slot;

use super::functions::Function;

/// The halves of the windows of one function. Keys are numbers.
pub(super) struct Halves<F: Function> {
    /// By key: the state of what is left of the first block, and of what has come of the second.
    suffix: Vec<F::State>,
    prefix: Vec<F::State>,
    /// What stood in the suffix before each cell was combined with it, the last cell first.
    replaced: Vec<F::State>,
}

impl<F: Function> Default for Halves<F> {
    fn default() -> Self {
        Halves { suffix: Vec::new(), prefix: Vec::new(), replaced: Vec::new() }
    }
}

impl<F: Function> Halves<F> {
    /// Begins with two empty blocks of keys less than `keys`.
    pub(super) fn begin(&mut self, keys: usize) {
        for states in [&mut self.suffix, &mut self.prefix] {
            states.clear();
            states.resize(keys, F::EMPTY);
        }
        self.replaced.clear();
    }

    /// Makes room for keys less than `keys`.
    pub(super) fn make_room(&mut self, keys: usize) {
        for states in [&mut self.suffix, &mut self.prefix] {
            states.resize(keys.max(states.len()), F::EMPTY);
        }
    }

    /// Puts the cells of a slice before the first block.
    pub(super) fn prepend(&mut self, cells: &[F::State], keys: &[u32]) {
        for (cell, key) in cells.iter().zip(keys) {
            let suffix = &mut self.suffix[*key as usize];
            self.replaced.push(*suffix);
            *suffix = F::combine(*cell, *suffix);
        }
    }

    /// Takes the first slice, which has these keys, from the first block.
    pub(super) fn leave(&mut self, keys: &[u32]) {
        let rest = self.replaced.len() - keys.len();
        for (before, key) in self.replaced[rest..].iter().zip(keys) {
            self.suffix[*key as usize] = *before;
        }
        self.replaced.truncate(rest);
    }

    /// Puts the cells of a slice behind the second block.
    pub(super) fn append(&mut self, cells: &[F::State], keys: &[u32]) {
        for (cell, key) in cells.iter().zip(keys) {
            let prefix = &mut self.prefix[*key as usize];
            *prefix = F::combine(*prefix, *cell);
        }
    }

    /// Writes the results of the keys, from row `first` of the page on.
    pub(super) fn write(
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
                missing.push(first + at);
            }
            value.set(found.unwrap_or_default());
        }
    }

    /// Calls `visit` with every state.
    pub(super) fn for_each(&mut self, visit: impl FnMut(&mut F::State)) {
        self.suffix.iter_mut().chain(&mut self.prefix).chain(&mut self.replaced).for_each(visit);
    }
}
