//! A walk through the right rows of a task, from pane to pane.

use std::ops::Range;

use tidegate_structures::memory;

use super::super::passes::{BLOCK_ROWS, MANY_BYTES, Passes};
use super::super::words::Word;
use super::rows::{LaneLoop, LaneRows, LaneState, LaneStates, LeftReads, end_of_time};
use crate::driver::{Driver, Stopped};
use crate::rows::NO_KEY;

/// The pane that a lane has reached.
struct LanePane<'a> {
    passes: &'a Passes<'a>,
    /// The number of the pane among the nonempty panes.
    pane: usize,
    /// The last position in the pane, in the direction of the walk.
    last: i64,
    /// The boundary between the rows of the pane and the rows that follow it.
    end: usize,
}

impl<'a> LanePane<'a> {
    /// Returns the pane of the first row of a walk.
    fn first<const FORWARD: bool>(passes: &'a Passes<'a>, rows: &Range<usize>) -> Self {
        let row = if FORWARD { rows.start } else { rows.end - 1 } as u32;
        let pane = passes.borders.partition_point(|&border| border <= row) - 1;
        let mut first = LanePane { passes, pane, last: 0, end: 0 };
        first.enter::<FORWARD>(Some(pane), rows);
        first
    }

    /// Enters the next pane, or the time after all panes of the walk.
    fn leave<const FORWARD: bool>(&mut self, rows: &Range<usize>) {
        let next = if FORWARD { Some(self.pane + 1) } else { self.pane.checked_sub(1) };
        let next = next.filter(|_| rows.start < self.end && self.end < rows.end);
        self.enter::<FORWARD>(next, rows);
    }

    fn enter<const FORWARD: bool>(&mut self, pane: Option<usize>, rows: &Range<usize>) {
        let borders = &self.passes.borders;
        (self.last, self.end) = match pane {
            None => (end_of_time::<FORWARD>(), if FORWARD { rows.end } else { rows.start }),
            Some(pane) => {
                self.pane = pane;
                let (begin, end) = self.passes.pane(self.passes.right.ts[borders[pane] as usize]);
                match FORWARD {
                    true => (end, (borders[pane + 1] as usize).min(rows.end)),
                    // An interval that covers a whole pane is a prefix of the pane.
                    false => (begin.saturating_add(1), (borders[pane] as usize).max(rows.start)),
                }
            }
        };
    }
}

/// The memory that a thread uses for all of its walks.
pub(super) struct WalkMemory<const WORDS: usize, const LANES: usize> {
    states: Vec<LaneState<WORDS, LANES>>,
    /// For each word, the combined contribution of adjacent right rows.
    own: Vec<u64>,
    /// The number of the most recent pane. All panes have different numbers.
    panes: u64,
}

impl<const WORDS: usize, const LANES: usize> WalkMemory<WORDS, LANES> {
    pub(super) fn new(key_count: usize) -> Self {
        WalkMemory {
            states: memory::filled(key_count + 1, LaneState::EMPTY),
            own: memory::filled(WORDS * BLOCK_ROWS, 0),
            panes: 0,
        }
    }
}

/// The data that a thread needs for a walk in one direction.
pub(super) struct LaneWalk<'t, 'a, 'f, const WORDS: usize, const LANES: usize> {
    words: &'t [&'t Word<'a>],
    add: LaneLoop<WORDS, LANES>,
    states: LaneStates<'t, WORDS, LANES>,
    reads: LeftReads<'t, 'f, WORDS>,
    own: &'t mut [u64],
    /// The number of the most recent pane.
    panes: &'t mut u64,
    driver: &'t Driver,
}

impl<'t, 'a, 'f, const WORDS: usize, const LANES: usize> LaneWalk<'t, 'a, 'f, WORDS, LANES> {
    pub(super) fn new(
        words: &'t [&'t Word<'a>; WORDS],
        add: LaneLoop<WORDS, LANES>,
        reads: LeftReads<'t, 'f, WORDS>,
        memory: &'t mut WalkMemory<WORDS, LANES>,
        driver: &'t Driver,
    ) -> Self {
        let WalkMemory { states, own, panes } = memory;
        let are_large = size_of_val(&states[..]) > MANY_BYTES;
        let empty = words.map(|word| word.operation.empty());
        let states = LaneStates { states, panes: [0; LANES], empty, are_large };
        LaneWalk { words, add, states, reads, own, panes, driver }
    }

    /// Visits the right rows in a range, and the left rows of all cursors. Each lane has the panes
    /// of one of the passes.
    pub(super) fn run<const FORWARD: bool>(
        mut self,
        lanes: &[&Passes<'_>],
        rows: Range<usize>,
    ) -> Result<(), Stopped> {
        (0..LANES).for_each(|lane| self.begin_pane(lane));
        if rows.is_empty() {
            self.reads.visit_until::<LANES, FORWARD>(end_of_time::<FORWARD>(), &self.states);
            return Ok(());
        }
        let panes = lanes.iter().map(|passes| LanePane::first::<FORWARD>(passes, &rows));
        let mut panes: Vec<_> = panes.collect();
        let mut at = if FORWARD { rows.start } else { rows.end };
        loop {
            let ends = panes.iter().map(|pane| (pane.last, pane.end));
            let nearest = if FORWARD { ends.min() } else { ends.max() };
            let (last, end) = nearest.expect("there is at least one lane");
            if self.are_needed::<FORWARD>(&panes) {
                self.add_rows::<FORWARD>(panes[0].passes, at.min(end)..at.max(end))?;
            }
            at = end;
            self.reads.visit_until::<LANES, FORWARD>(last, &self.states);
            if last == end_of_time::<FORWARD>() {
                return Ok(());
            }
            for (lane, pane) in panes.iter_mut().enumerate().filter(|(_, pane)| pane.last == last) {
                self.begin_pane(lane);
                pane.leave::<FORWARD>(&rows);
            }
        }
    }

    /// Makes all states of a lane empty.
    fn begin_pane(&mut self, lane: usize) {
        *self.panes += 1;
        self.states.panes[lane] = *self.panes;
    }

    /// Returns whether any left row's position is in the current pane of its lane.
    fn are_needed<const FORWARD: bool>(&self, panes: &[LanePane<'_>]) -> bool {
        self.reads.results.iter().enumerate().any(|(interval, results)| {
            let (place, last) = (self.reads.cursors.place_of(interval), panes[results.lane].last);
            let is_in_pane = if FORWARD { place <= last } else { place >= last };
            is_in_pane && place != end_of_time::<FORWARD>()
        })
    }

    /// Adds adjacent right rows, and visits the left rows between them.
    fn add_rows<const FORWARD: bool>(
        &mut self,
        passes: &Passes<'_>,
        mut rows: Range<usize>,
    ) -> Result<(), Stopped> {
        while !rows.is_empty() {
            self.driver.check()?;
            let taken = rows.len().min(BLOCK_ROWS);
            let block = match FORWARD {
                true => rows.start..rows.start + taken,
                false => rows.end - taken..rows.end,
            };
            rows = if FORWARD { block.end..rows.end } else { rows.start..block.start };
            let right = passes.right.slice(block.clone());
            // The state of rows without a key remains empty.
            let has_unkeyed = right.keys.contains(&NO_KEY);
            let words = self.words.iter().zip(self.states.empty);
            let written = self.own.chunks_mut(BLOCK_ROWS).zip(words);
            for (own, (word, empty)) in written {
                (word.write)(block.clone(), &mut own[..taken], 1);
                if has_unkeyed {
                    let unkeyed = own.iter_mut().zip(right.keys).filter(|(_, key)| **key == NO_KEY);
                    unkeyed.for_each(|(own, _)| *own = empty);
                }
            }
            let own = std::array::from_fn(|word| &self.own[word * BLOCK_ROWS..][..taken]);
            let (states, reads) = (&mut self.states, &mut self.reads);
            (self.add)(LaneRows { right, own, states, reads });
        }
        Ok(())
    }
}
