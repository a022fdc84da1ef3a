//! The step from one window to the next: which slices leave it, which come, and which keys have
//! rows in it. It is the same for all functions.

use std::ops::Range;

use tidegate_structures::memory;

use super::windows::{Slice, Windows};
use crate::aggregate::output::Window;

/// The step from one window to the next. Slices are named by numbers.
#[derive(Debug)]
pub(in crate::aggregate) struct Step {
    /// The slices of a new suffix, where the window begins in another block than the one before
    /// it; the prefix is empty then.
    pub(in crate::aggregate) new_suffix: Option<Range<usize>>,
    /// The slices that leave the suffix, and the slices that come to the prefix.
    pub(in crate::aggregate) from_suffix: Range<usize>,
    pub(in crate::aggregate) to_prefix: Range<usize>,
    /// The number of results.
    pub(in crate::aggregate) rows: usize,
}

/// Consecutive windows, and the keys that have results in them.
#[derive(Debug, Default)]
pub(in crate::aggregate) struct WindowSteps {
    pub(in crate::aggregate) steps: Vec<Step>,
    /// The windows that have results.
    pub(in crate::aggregate) windows: Vec<Window>,
    /// The key of each result.
    pub(in crate::aggregate) keys: Vec<u32>,
}

impl WindowSteps {
    /// Appends a step to the window that begins with the slice `start`. `present` has keys in the
    /// order of results, and in how many slices of the window each has rows.
    pub(in crate::aggregate) fn push(
        &mut self,
        step: Step,
        start: Slice,
        windows: &Windows,
        present: impl ExactSizeIterator<Item = (u32, u32)>,
    ) {
        let rows = self.select(present);
        self.windows.extend((rows > 0).then(|| windows.window(start, rows)));
        self.steps.push(Step { rows, ..step });
    }

    /// Appends the keys that are present, and returns how many they are.
    fn select(&mut self, present: impl ExactSizeIterator<Item = (u32, u32)>) -> usize {
        let keys = &mut self.keys;
        let first = keys.len();
        keys.resize(first + present.len(), 0);
        let mut rows = 0;
        // No branch depends on which keys are present, for that cannot be foreseen.
        for (key, slices) in present {
            keys[first + rows] = key;
            rows += usize::from(slices > 0);
        }
        keys.truncate(first + rows);
        rows
    }
}

/// In how many slices of a window each key has rows.
#[derive(Debug, Default)]
pub(in crate::aggregate) struct Present {
    slices: Vec<u32>,
    /// The sum of these.
    pub(in crate::aggregate) cells: usize,
}

impl Present {
    /// Makes room for keys less than `keys`.
    pub(in crate::aggregate) fn make_room(&mut self, keys: usize) {
        let more = keys.saturating_sub(self.slices.len());
        memory::reserve(&mut self.slices, more);
        self.slices.resize(self.slices.len() + more, 0);
    }

    /// A slice with cells of these keys comes to the window.
    pub(in crate::aggregate) fn insert(&mut self, keys: &[u32]) {
        keys.iter().for_each(|key| self.slices[*key as usize] += 1);
        self.cells += keys.len();
    }

    /// A slice with cells of these keys leaves the window.
    pub(in crate::aggregate) fn remove(&mut self, keys: &[u32]) {
        keys.iter().for_each(|key| self.slices[*key as usize] -= 1);
        self.cells -= keys.len();
    }

    /// All keys, ascending, and in how many slices each has rows.
    pub(in crate::aggregate) fn all(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.slices.iter().enumerate().map(|(key, &slices)| (key as u32, slices))
    }

    /// The same of keys in some order.
    pub(in crate::aggregate) fn of(
        &self,
        order: &[u32],
    ) -> impl ExactSizeIterator<Item = (u32, u32)> {
        order.iter().map(|&key| (key, self.slices[key as usize]))
    }
}
