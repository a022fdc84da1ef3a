//! Determines the next windows and the steps to compute them.

use std::collections::VecDeque;

use tidegate_structures::memory::pages::Pages;

use crate::aggregate::folds::epochs::open::ClosedSlice;
use crate::aggregate::slices::steps::{Present, Step, WindowSteps};
use crate::aggregate::slices::windows::{Slice, Windows};

/// The approximate number of result rows per page. This number is large enough to keep the overhead
/// small, and small enough for each page to be ready soon.
const PAGE_ROWS: usize = 1 << 16;

/// The position up to which windows have been computed.
#[derive(Debug)]
pub(super) struct Position {
    /// All windows that begin before this slice have been computed.
    pub(super) next: Slice,
    /// The start of the next suffix, if there is one.
    border: Option<Slice>,
    /// The last window consists of the kept slices from `begin` to `end` (exclusive).
    begin: usize,
    end: usize,
    /// The keys of the last window.
    present: Present,
}

impl Position {
    pub(super) fn new(next: Slice) -> Self {
        Position { next, border: None, begin: 0, end: 0, present: Present::default() }
    }

    /// Returns the next windows that end before `closed`, up to one page. `order` contains the keys
    /// in result order.
    pub(super) fn steps(
        &mut self,
        kept: &VecDeque<ClosedSlice>,
        closed: Slice,
        windows: &Windows,
        order: &[u32],
    ) -> WindowSteps {
        self.present.make_room(order.iter().max().map_or(0, |&key| key as usize + 1));
        let mut steps = WindowSteps::default();
        while steps.keys.len() < PAGE_ROWS
            && self.step(kept, closed, windows, order, &mut steps).is_some()
        {}
        steps
    }

    /// Appends the step that leads to the next window, if that window is complete.
    fn step(
        &mut self,
        kept: &VecDeque<ClosedSlice>,
        closed: Slice,
        windows: &Windows,
        order: &[u32],
        steps: &mut WindowSteps,
    ) -> Option<()> {
        let (length, stride) = (windows.length(), windows.stride());
        let before = |from: usize, slice: Slice| {
            from + kept.range(from..).take_while(|kept| kept.slice < slice).count()
        };
        // 1. Find the next window, or the first window after it that has rows. A window that grows
        //    begins with its block.
        let is_growing = windows.grow();
        let first_of = |next: Slice| if is_growing { windows.first_slice(next) } else { next };
        let begin = before(self.begin, first_of(self.next));
        let first = kept.get(begin)?.slice;
        let start = self
            .next
            .max((first.saturating_sub(length).saturating_add(stride)).div_euclid(stride) * stride);
        let end_slice = start.saturating_add(length);
        if end_slice > closed {
            return None;
        }
        // 2. Find its slices: part of a suffix, and part of a prefix. The window is a prefix if it
        //    grows.
        let begin = if is_growing { before(begin, first_of(start)) } else { begin };
        let mut step = Step {
            new_suffix: None,
            from_suffix: self.begin..begin,
            to_prefix: self.end..before(self.end, end_slice),
            rows: 0,
        };
        if self.border.is_none_or(|border| match is_growing {
            true => first_of(start) != border,
            false => start >= border,
        }) {
            let border = match is_growing {
                true => first_of(start),
                false => (start.div_euclid(length).saturating_add(1)).saturating_mul(length),
            };
            let split = before(begin, border);
            step = Step {
                new_suffix: Some(begin..split),
                from_suffix: begin..begin,
                to_prefix: split..before(split, end_slice),
                rows: 0,
            };
            self.border = Some(border);
        }
        // 3. Find its keys.
        let end = step.to_prefix.end;
        for kept in kept.range(self.begin..begin.min(self.end)) {
            self.present.remove(&kept.keys);
        }
        for kept in kept.range(self.end.max(begin)..end) {
            self.present.insert(&kept.keys);
        }
        (self.begin, self.end, self.next) = (begin, end, start.saturating_add(stride));
        steps.push(step, start, windows, self.present.of(order));
        Some(())
    }

    /// Drops the slices that no window needs any more, and returns the number of dropped slices.
    pub(super) fn drop_slices(&mut self, kept: &VecDeque<ClosedSlice>) -> usize {
        if kept.back().is_some_and(|last| last.slice < self.next) {
            *self = Position::new(self.next);
            return kept.len();
        }
        self.end -= self.begin;
        std::mem::take(&mut self.begin)
    }
}

/// Returns the results' keys as positions in the key order.
pub(super) fn ranks(keys: &[u32], rank: &[u32]) -> Pages<u32> {
    Pages::collect(keys.iter().map(|key| rank[*key as usize]))
}
