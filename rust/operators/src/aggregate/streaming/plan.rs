//! Which windows come next, and what happens from one to the next.

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_structures::memory::pages::Pages;

use super::super::Window;
use super::super::windows::{Slice, Windows};
use super::Kept;

/// About how many result rows a page has: enough that making it weighs little, few enough that it
/// comes soon.
const PAGE_ROWS: usize = 1 << 16;

/// What happens from one window to the next, in slices that are kept.
#[derive(Debug)]
pub(in super::super) struct Step {
    /// The first block, if the window begins in another than the one before it; the second one is
    /// empty then.
    pub(super) block: Option<Range<usize>>,
    /// The slices that leave the first block, and those that enter the second.
    pub(super) leave: Range<usize>,
    pub(super) enter: Range<usize>,
    pub(super) rows: usize,
}

/// Consecutive windows, and the keys that have results in them.
#[derive(Debug, Default)]
pub(in super::super) struct Steps {
    pub(super) steps: Vec<Step>,
    /// The start of each window, and how many rows it has.
    pub(super) windows: Vec<Window>,
    /// The key of each result.
    pub(super) keys: Vec<u32>,
}

/// How far the windows have been made.
#[derive(Debug)]
pub(super) struct Position {
    /// Windows that begin before it have been made.
    pub(super) next: Slice,
    /// Where the second block begins, if there is a first.
    border: Option<Slice>,
    /// Slices that are kept: of these, those before `left` are not in the last window, those from
    /// `entered` on not yet.
    left: usize,
    entered: usize,
    /// By key: in how many slices of the last window it has rows.
    present: Vec<u32>,
}

impl Position {
    pub(super) fn new(next: Slice) -> Self {
        Position { next, border: None, left: 0, entered: 0, present: Vec::new() }
    }

    /// The next windows of slices before `closed`, a page at most. `order` has the keys in the
    /// order of results.
    pub(super) fn steps(
        &mut self,
        kept: &VecDeque<Kept>,
        closed: Slice,
        windows: &Windows,
        order: &[u32],
    ) -> Steps {
        self.present.resize(
            order.iter().max().map_or(0, |&key| key as usize + 1).max(self.present.len()),
            0,
        );
        let mut steps = Steps::default();
        while steps.keys.len() < PAGE_ROWS
            && let Some(step) = self.step(kept, closed, windows, order, &mut steps)
        {
            steps.steps.push(step);
        }
        steps
    }

    fn step(
        &mut self,
        kept: &VecDeque<Kept>,
        closed: Slice,
        windows: &Windows,
        order: &[u32],
        steps: &mut Steps,
    ) -> Option<Step> {
        let (length, stride) = (windows.length(), windows.stride());
        let before = |from: usize, slice: Slice| {
            from + kept.range(from..).take_while(|kept| kept.slice < slice).count()
        };
        // 1. The next window, or the first after it that has rows.
        let left = before(self.left, self.next);
        let first = kept.get(left)?.slice;
        let start = self
            .next
            .max((first.saturating_sub(length).saturating_add(stride)).div_euclid(stride) * stride);
        let end = start.saturating_add(length);
        if end > closed {
            return None;
        }
        // 2. Its slices: some of the first block, and some of the second.
        let mut step = Step {
            block: None,
            leave: self.left..left,
            enter: self.entered..before(self.entered, end),
            rows: 0,
        };
        if self.border.is_none_or(|border| start >= border) {
            let border = (start.div_euclid(length).saturating_add(1)).saturating_mul(length);
            let split = before(left, border);
            step = Step {
                block: Some(left..split),
                leave: left..left,
                enter: split..before(split, end),
                rows: 0,
            };
            self.border = Some(border);
        }
        // 3. Its keys.
        let entered = step.enter.end;
        for kept in kept.range(self.left..left.min(self.entered)) {
            kept.keys.iter().for_each(|key| self.present[*key as usize] -= 1);
        }
        for kept in kept.range(self.entered.max(left)..entered) {
            kept.keys.iter().for_each(|key| self.present[*key as usize] += 1);
        }
        (self.left, self.entered, self.next) = (left, entered, start.saturating_add(stride));
        step.rows = self.select(order, &mut steps.keys);
        steps.windows.push(windows.window(start, step.rows));
        Some(step)
    }

    /// Appends the keys that are present, and returns how many they are.
    fn select(&self, order: &[u32], keys: &mut Vec<u32>) -> usize {
        let first = keys.len();
        keys.resize(first + order.len(), 0);
        let mut rows = 0;
        // No branch depends on who is present, for that cannot be foreseen.
        for &key in order {
            keys[first + rows] = key;
            rows += usize::from(self.present[key as usize] > 0);
        }
        keys.truncate(first + rows);
        rows
    }

    /// How many slices no window needs any more; they are forgotten.
    pub(super) fn drop_slices(&mut self, kept: &VecDeque<Kept>) -> usize {
        if kept.back().is_some_and(|last| last.slice < self.next) {
            *self = Position::new(self.next);
            return kept.len();
        }
        self.entered -= self.left;
        std::mem::take(&mut self.left)
    }
}

/// The results' keys as places in the order of keys.
pub(super) fn ranks(keys: &[u32], rank: &[u32]) -> Pages<u32> {
    Pages::collect(keys.iter().map(|key| rank[*key as usize]))
}
