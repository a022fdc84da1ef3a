//! The step from one window to the next: the slices to remove, the slices to add, and the keys that
//! occur in the new window. All functions share these steps.

use std::ops::Range;

use tidegate_structures::memory;

use super::windows::{Slice, Windows};
use crate::aggregate::output::Window;

/// The step from one window to the next. Slices are identified by number.
#[derive(Debug)]
pub(in crate::aggregate) struct Step {
    /// The slices of a new suffix, if the window begins in a different block from the previous
    /// window. If there is a new suffix, the prefix is empty.
    pub(in crate::aggregate) new_suffix: Option<Range<usize>>,
    /// The slices that are removed from the suffix, and those that are added to the prefix.
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
    /// Appends the step that leads to the window that begins with slice `start`. `present`
    /// contains the keys in result order. Each key is paired with the number of slices in the
    /// window that contain the key.
    pub(in crate::aggregate) fn push(
        &mut self,
        step: Step,
        start: Slice,
        windows: &Windows,
        present: impl ExactSizeIterator<Item = (u32, u32)>,
    ) {
        let rows = if windows.exists(start) { self.select(present) } else { 0 };
        self.windows.extend((rows > 0).then(|| windows.window(start, rows)));
        self.steps.push(Step { rows, ..step });
    }

    /// Appends the keys that are present, and returns how many there are.
    fn select(&mut self, present: impl ExactSizeIterator<Item = (u32, u32)>) -> usize {
        let keys = &mut self.keys;
        let first = keys.len();
        keys.resize(first + present.len(), 0);
        let mut rows = 0;
        // No branch depends on which keys are present, because such a branch would be
        // unpredictable.
        for (key, slices) in present {
            keys[first + rows] = key;
            rows += usize::from(slices > 0);
        }
        keys.truncate(first + rows);
        rows
    }
}

/// For each key, the number of the window's slices that contain the key.
#[derive(Debug, Default)]
pub(in crate::aggregate) struct Present {
    slices: Vec<u32>,
    /// The number of cells in the window: the sum of these numbers.
    pub(in crate::aggregate) cells: usize,
}

impl Present {
    /// Makes room for keys less than `keys`.
    pub(in crate::aggregate) fn make_room(&mut self, keys: usize) {
        let more = keys.saturating_sub(self.slices.len());
        memory::reserve(&mut self.slices, more);
        self.slices.resize(self.slices.len() + more, 0);
    }

    /// Adds a slice to the window, given the keys of the slice's cells.
    pub(in crate::aggregate) fn insert(&mut self, keys: &[u32]) {
        keys.iter().for_each(|key| self.slices[*key as usize] += 1);
        self.cells += keys.len();
    }

    /// Removes a slice from the window, given the keys of the slice's cells.
    pub(in crate::aggregate) fn remove(&mut self, keys: &[u32]) {
        keys.iter().for_each(|key| self.slices[*key as usize] -= 1);
        self.cells -= keys.len();
    }

    /// Returns all keys in ascending order, each with the number of slices that contain the key.
    pub(in crate::aggregate) fn all(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.slices.iter().enumerate().map(|(key, &slices)| (key as u32, slices))
    }

    /// Returns the number of slices for each given key, in the same order as the keys.
    pub(in crate::aggregate) fn of(
        &self,
        order: &[u32],
    ) -> impl ExactSizeIterator<Item = (u32, u32)> {
        order.iter().map(|&key| (key, self.slices[key as usize]))
    }
}
