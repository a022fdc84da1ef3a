//! The loop over adjacent right rows, which updates the states of all lanes.

use std::ops::Range;

use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::memory::pages::Slot;
use tidegate_structures::simd::wide::{Work, wide};

use super::super::operations::operation;
use super::super::passes::{AHEAD, SideRows, state_of};
use super::MOST_INTERVALS;

/// The state of a key. No row of numbers crosses a cache line.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct LaneState<const WORDS: usize, const LANES: usize> {
    /// For each lane, the number of the pane whose rows have been added. In other panes, the state
    /// is empty.
    panes: [u64; LANES],
    /// For each word, the number in each lane.
    words: [[u64; LANES]; WORDS],
}

impl<const WORDS: usize, const LANES: usize> LaneState<WORDS, LANES> {
    /// A state that is empty in all panes with numbers above 0.
    pub(super) const EMPTY: Self = LaneState { panes: [0; LANES], words: [[0; LANES]; WORDS] };
}

/// The results of one interval.
pub(super) struct IntervalResults<'f, const WORDS: usize> {
    /// The lane that has the interval's states.
    pub(super) lane: usize,
    /// The left row of the first result.
    pub(super) first: usize,
    /// The results for each word, or no results if the interval does not use the word.
    pub(super) found: [&'f mut [Slot<u64>]; WORDS],
}

/// The left rows that are at the same distance from their positions.
pub(super) struct LeftCursor {
    /// The distance from a left row's time to its position.
    pub(super) reach: i64,
    /// The left rows that remain.
    pub(super) rows: Range<usize>,
    /// The intervals with this distance.
    pub(super) intervals: Range<usize>,
}

/// The cursors of a task.
pub(super) struct LeftCursors<'a> {
    left: SideRows<'a>,
    cursors: Vec<LeftCursor>,
    /// The position of each cursor's next left row.
    places: [i64; MOST_INTERVALS],
}

/// The position after all others in a direction.
pub(super) const fn end_of_time<const FORWARD: bool>() -> i64 {
    if FORWARD { i64::MAX } else { i64::MIN }
}

impl<'a> LeftCursors<'a> {
    pub(super) fn new<const FORWARD: bool>(left: SideRows<'a>, cursors: Vec<LeftCursor>) -> Self {
        let places = [end_of_time::<FORWARD>(); MOST_INTERVALS];
        let mut cursors = LeftCursors { left, cursors, places };
        (0..cursors.cursors.len()).for_each(|cursor| cursors.locate::<FORWARD>(cursor));
        cursors
    }

    /// Computes the position of a cursor's next row.
    #[inline(always)]
    fn locate<const FORWARD: bool>(&mut self, cursor: usize) {
        let LeftCursor { reach, rows, .. } = &self.cursors[cursor];
        let next = if FORWARD { rows.start } else { rows.end.wrapping_sub(1) };
        self.places[cursor] = match self.left.ts.get(next) {
            Some(ts) if !rows.is_empty() => ts + reach,
            _ => end_of_time::<FORWARD>(),
        };
    }

    /// Returns the cursor with the next position.
    #[inline(always)]
    fn nearest<const FORWARD: bool>(&self) -> (usize, i64) {
        const { assert!(MOST_INTERVALS == 4) };
        let [a, b, c, d] = self.places;
        let nearer = |one: (usize, i64), other: (usize, i64)| {
            let is_nearer = if FORWARD { other.1 < one.1 } else { other.1 > one.1 };
            if is_nearer { other } else { one }
        };
        nearer(nearer((0, a), (1, b)), nearer((2, c), (3, d)))
    }

    /// Returns the position of the next left row of an interval.
    pub(super) fn place_of(&self, interval: usize) -> i64 {
        let cursor = self.cursors.iter().position(|one| one.intervals.contains(&interval));
        self.places[cursor.expect("each interval has a cursor")]
    }
}

/// The states of all keys.
pub(super) struct LaneStates<'s, const WORDS: usize, const LANES: usize> {
    pub(super) states: &'s mut [LaneState<WORDS, LANES>],
    /// The number of each lane's current pane.
    pub(super) panes: [u64; LANES],
    /// The words of an empty state.
    pub(super) empty: [u64; WORDS],
    /// `true` if the states are too large for a second-level cache.
    pub(super) are_large: bool,
}

/// The left rows that read states, and the results that are written for them.
pub(super) struct LeftReads<'s, 'f, const WORDS: usize> {
    pub(super) cursors: LeftCursors<'s>,
    pub(super) results: Vec<IntervalResults<'f, WORDS>>,
}

impl<const WORDS: usize> LeftReads<'_, '_, WORDS> {
    /// Writes the state of the left row at a cursor for all of the cursor's intervals.
    #[inline(always)]
    fn visit<const LANES: usize, const FORWARD: bool>(
        &mut self,
        cursor: usize,
        states: &LaneStates<'_, WORDS, LANES>,
    ) {
        let LeftCursors { left, cursors, .. } = &mut self.cursors;
        let LeftCursor { rows, intervals, .. } = &mut cursors[cursor];
        let (row, ahead) = match FORWARD {
            true => (rows.start, rows.start + AHEAD),
            false => (rows.end - 1, (rows.end - 1).wrapping_sub(AHEAD)),
        };
        *rows = if FORWARD { row + 1..rows.end } else { rows.start..row };
        if states.are_large
            && let Some(&key) = left.keys.get(ahead)
        {
            states.announce(key);
        }
        let state = &states.states[state_of(left.keys[row])];
        for IntervalResults { lane, first, found } in &mut self.results[intervals.clone()] {
            let is_current = state.panes[*lane] == states.panes[*lane];
            // Rows outside of the results belong to other tasks.
            let at = row.wrapping_sub(*first);
            for (word, found) in found.iter_mut().enumerate() {
                if let Some(slot) = found.get_mut(at) {
                    let number = state.words[word][*lane];
                    slot.set(if is_current { number } else { states.empty[word] });
                }
            }
        }
        self.cursors.locate::<FORWARD>(cursor);
    }

    /// Visits the left rows whose positions are not after `last`. No right rows remain before
    /// `last`.
    pub(super) fn visit_until<const LANES: usize, const FORWARD: bool>(
        &mut self,
        last: i64,
        states: &LaneStates<'_, WORDS, LANES>,
    ) {
        loop {
            let (cursor, place) = self.cursors.nearest::<FORWARD>();
            let is_later = if FORWARD { place > last } else { place < last };
            if is_later || place == end_of_time::<FORWARD>() {
                return;
            }
            self.visit::<LANES, FORWARD>(cursor, states);
        }
    }
}

impl<const WORDS: usize, const LANES: usize> LaneStates<'_, WORDS, LANES> {
    /// Prefetches the state of a key.
    #[inline(always)]
    fn announce(&self, key: u32) {
        // A state can take up two cache lines.
        if let Some(state) = self.states.get(state_of(key)) {
            prefetch(&state.panes, 0);
            prefetch(&state.words, WORDS - 1);
        }
    }

    /// Adds the words of a row to the state of its key.
    #[expect(clippy::needless_range_loop, reason = "iterators would not be vectorized")]
    #[inline(always)]
    fn add<const OPERATIONS: u8>(&mut self, key: u32, added: [u64; WORDS]) {
        let state = &mut self.states[state_of(key)];
        // Masks instead of conditions, so that the compiler uses vector instructions.
        let mut are_current = [0; LANES];
        for lane in 0..LANES {
            let is_current = state.panes[lane] == self.panes[lane];
            are_current[lane] = if is_current { u64::MAX } else { 0 };
        }
        for word in 0..WORDS {
            let operation = operation::<OPERATIONS>(word);
            for lane in 0..LANES {
                let (number, is_current) = (state.words[word][lane], are_current[lane]);
                let known = number & is_current | operation.empty() & !is_current;
                state.words[word][lane] = operation.apply(known, added[word]);
            }
        }
        state.panes = self.panes;
    }
}

/// Adjacent right rows, and the states that they update.
pub(super) struct LaneRows<'r, 's, 'f, const WORDS: usize, const LANES: usize> {
    pub(super) right: SideRows<'r>,
    /// For each word, what the rows add.
    pub(super) own: [&'r [u64]; WORDS],
    pub(super) states: &'r mut LaneStates<'s, WORDS, LANES>,
    pub(super) reads: &'r mut LeftReads<'s, 'f, WORDS>,
}

/// Adds right rows in order to the states of their keys, for all lanes. Each left row is visited
/// between the right rows before and after its position. Left rows after the last right row are not
/// visited.
pub(super) type LaneLoop<const WORDS: usize, const LANES: usize> =
    fn(LaneRows<'_, '_, '_, WORDS, LANES>);

/// The loops for both directions.
#[derive(Clone, Copy)]
pub(super) struct LaneLoops<const WORDS: usize, const LANES: usize> {
    pub(super) forward: LaneLoop<WORDS, LANES>,
    pub(super) backward: LaneLoop<WORDS, LANES>,
}

impl<const WORDS: usize, const LANES: usize> LaneLoops<WORDS, LANES> {
    pub(super) fn of<const OPERATIONS: u8>() -> Self {
        LaneLoops {
            forward: |rows| wide(AddLaneRows::<_, _, OPERATIONS, true>(rows)),
            backward: |rows| wide(AddLaneRows::<_, _, OPERATIONS, false>(rows)),
        }
    }
}

struct AddLaneRows<
    'r,
    's,
    'f,
    const WORDS: usize,
    const LANES: usize,
    const OPERATIONS: u8,
    const FORWARD: bool,
>(LaneRows<'r, 's, 'f, WORDS, LANES>);

impl<const WORDS: usize, const LANES: usize, const OPERATIONS: u8, const FORWARD: bool> Work
    for AddLaneRows<'_, '_, '_, WORDS, LANES, OPERATIONS, FORWARD>
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let AddLaneRows(LaneRows { right, own, states, reads }) = self;
        let count = right.len();
        let (ts, keys) = (right.ts, &right.keys[..count]);
        let own = own.map(|own| &own[..count]);
        // The loop reads these fields from registers.
        let LaneStates { states, panes, empty, are_large } = states;
        let mut states = LaneStates { states, panes: *panes, empty: *empty, are_large: *are_large };
        // In the backward direction, the next row is the one before the counter.
        let mut next = if FORWARD { 0 } else { count };
        loop {
            let (cursor, place) = reads.cursors.nearest::<FORWARD>();
            loop {
                let row = if FORWARD { next } else { next.wrapping_sub(1) };
                if row >= count {
                    return;
                }
                if if FORWARD { ts[row] > place } else { ts[row] < place } {
                    break;
                }
                let ahead = if FORWARD { row + AHEAD } else { row.wrapping_sub(AHEAD) };
                if states.are_large
                    && let Some(&key) = keys.get(ahead)
                {
                    states.announce(key);
                }
                states.add::<OPERATIONS>(keys[row], own.map(|own| own[row]));
                next = if FORWARD { next + 1 } else { next - 1 };
            }
            reads.visit::<LANES, FORWARD>(cursor, &states);
        }
    }
}
