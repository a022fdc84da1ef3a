//! Passes over the rows on both sides in time order.
//!
//! A pass visits the rows on both sides in a pane, merged by time. A right row updates its key's
//! state. A left row is visited at the end of its interval. The left row copies its key's current
//! state, which covers a prefix of the pane. Another pass runs backward, visits left rows at the
//! starts of their intervals, and yields the suffixes.
//!
//! ```text
//!   right rows of a key      a   b     c   d │   e   f           panes
//!   left row          l            ├─────────┼─────┤             its interval
//!   backward                 ◀───── l: cd    │
//!   forward                                  │  ─────▶ l: e
//! ```
//!
//! The cost of a row is independent of the number of its partners. The rows that a pass reads and
//! writes are adjacent in memory. Only the states, one per key, need to be looked up. No branch
//! depends on the side of the next row, because such a branch would be unpredictable.
//!
//! The passes here have a single interval. Other passes (`lanes/`) are faster for several intervals,
//! and if there are many right rows for each left row.

use std::hint::select_unpredictable;
use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::blocks::FoldedWord;
use super::operations::{MOST_WORDS, code, for_operations, operation};
use super::words::{Operation, Word};
use crate::driver::{Driver, Stopped};
use crate::interval::{PartnerColumns, pane_begin, pane_borders, pane_end};
use crate::matches::MAX_ROWS;
use crate::order::{JoinColumns, are_sorted, gallop};
use crate::rows::interval::LeftReach;
use crate::rows::{Interval, NO_KEY};

/// The approximate number of rows from both sides in a task.
pub(super) const TASK: usize = if cfg!(test) { 8 } else { 1 << 15 };

/// The number of right rows whose words are written in one go. The rows are then merged while their
/// words are still in a cache.
pub(super) const BLOCK_ROWS: usize = if cfg!(test) { 3 } else { 1 << 11 };

/// If states do not fit in a second-level cache, they are prefetched this many rows in advance.
pub(super) const AHEAD: usize = 16;

/// States are prefetched if they take up at least this many bytes in total.
pub(super) const MANY_BYTES: usize = if cfg!(test) { 48 } else { 1 << 18 };

/// The minimum number of right rows for each left row with which rows are added run by run.
const RUN_ROWS: usize = if cfg!(test) { 1 } else { 4 };

/// If times or distances exceed this limit, their sums can overflow.
const FAR: u64 = 1 << 61;

/// The rows on both sides, with keys and in time order, and the panes of the right rows.
pub(in crate::aggregate) struct Passes<'a> {
    pub(super) left: SideRows<'a>,
    pub(super) right: SideRows<'a>,
    pub(super) key_count: usize,
    /// The distances from a left row's time to the start and end of its interval.
    ends: (i64, i64),
    /// The length of intervals, which is also the length of panes. `None` if there is one pane,
    /// because intervals have one end only.
    pub(super) length: Option<u64>,
    /// The directions in which states are not always empty: backward and forward.
    pub(super) directions: [bool; 2],
    /// The first right row in each nonempty pane, and finally the number of right rows.
    pub(super) borders: Vec<u32>,
}

/// The rows on one side.
#[derive(Clone, Copy)]
pub(super) struct SideRows<'a> {
    pub(super) ts: &'a [i64],
    pub(super) keys: &'a [u32],
}

impl<'a> SideRows<'a> {
    fn new(JoinColumns { ts, keys }: JoinColumns<'a>) -> Option<Self> {
        keys.map(|keys| SideRows { ts, keys })
    }

    pub(super) fn slice(self, rows: Range<usize>) -> Self {
        SideRows { ts: &self.ts[rows.clone()], keys: &self.keys[rows] }
    }

    pub(super) fn len(self) -> usize {
        self.ts.len()
    }

    /// Returns whether all times are small enough that sums do not overflow.
    fn are_near(self) -> bool {
        [self.ts.first(), self.ts.last()].into_iter().flatten().all(|ts| ts.unsigned_abs() <= FAR)
    }
}

/// Some panes whose rows are folded in one direction by one thread, and the left rows whose
/// intervals begin or end in these panes.
struct PaneTask {
    is_forward: bool,
    panes: Range<usize>,
    left: Range<usize>,
}

impl<'a> Passes<'a> {
    /// Prepares passes over rows in time order. Returns `None` if rows are in any other order or
    /// have no keys. Also returns `None` if intervals have no ends or can extend beyond the 64-bit
    /// range. `is_sorted` is whether the rows are in time order, if this is known.
    pub(in crate::aggregate) fn new(
        columns: PartnerColumns<'a>,
        is_sorted: &mut Option<bool>,
        driver: &Driver,
    ) -> Result<Option<Self>, Stopped> {
        let PartnerColumns { left, right, key_count, interval, with_prevailing } = columns;
        let is_numbered = |side: JoinColumns<'_>| side.ts.len() < MAX_ROWS;
        assert!(is_numbered(left) && is_numbered(right), "row numbers fit in 32 bits");
        let (Some(left), Some(right)) = (SideRows::new(left), SideRows::new(right)) else {
            return Ok(None);
        };
        let Some(((early, late), directions)) = distances(interval) else { return Ok(None) };
        let is_near = left.are_near()
            && right.are_near()
            && [early, late].into_iter().all(|end| end.unsigned_abs() < FAR);
        if with_prevailing || early == late || !is_near {
            return Ok(None);
        }
        let is_sorted = match *is_sorted {
            Some(known) => known,
            None => *is_sorted.insert(are_sorted(&[left.ts, right.ts], driver)?),
        };
        if !is_sorted {
            return Ok(None);
        }
        let length = (directions == [true; 2]).then(|| early.abs_diff(late));
        let borders = match right.len() {
            0 => vec![0],
            _ => pane_borders(right.ts, length, driver)?,
        };
        let ends = (early + 1, late);
        Ok(Some(Passes { left, right, key_count, ends, length, directions, borders }))
    }

    /// Folds words in both directions.
    pub(in crate::aggregate) fn fold(
        &self,
        words: &[&Word<'_>],
        driver: &Driver,
    ) -> Result<Vec<FoldedWord>, Stopped> {
        let mut order: Vec<usize> = (0..words.len()).collect();
        order.sort_by_key(|&at| words[at].operation);
        let mut folded: Vec<_> = words.iter().map(|_| FoldedWord::default()).collect();
        for group in order.chunks(MOST_WORDS) {
            let words: Vec<_> = group.iter().map(|&at| words[at]).collect();
            let found = self.fold_any(&words, driver)?;
            group.iter().zip(found).for_each(|(&at, found)| folded[at] = found);
        }
        Ok(folded)
    }

    /// Folds words whose operations are in ascending order.
    fn fold_any(&self, words: &[&Word<'_>], driver: &Driver) -> Result<Vec<FoldedWord>, Stopped> {
        let operations: Vec<_> = words.iter().map(|word| word.operation).collect();
        for_operations!(operations, OPERATIONS => {
            let merges = Merges::of::<{ code(OPERATIONS) }>();
            self.fold_group::<{ OPERATIONS.len() }>(words, merges, driver)
        })
    }

    fn fold_group<const WORDS: usize>(
        &self,
        words: &[&Word<'_>],
        merges: Merges<WORDS>,
        driver: &Driver,
    ) -> Result<Vec<FoldedWord>, Stopped> {
        let empty = std::array::from_fn(|word| words[word].operation.empty());
        let unwritten = |is_forward: bool| {
            let rows = if self.directions[usize::from(is_forward)] { self.left.len() } else { 0 };
            std::array::from_fn(|_| Pages::unwritten(rows))
        };
        let (mut suffixes, mut prefixes): ([_; WORDS], [_; WORDS]) =
            (unwritten(false), unwritten(true));
        let mut tasks = Vec::new();
        for (is_forward, found) in [(false, &mut suffixes), (true, &mut prefixes)] {
            if !self.directions[usize::from(is_forward)] {
                continue;
            }
            let mut rest = found.each_mut().map(|found| &mut found[..]);
            for task in self.cut(is_forward) {
                let own = split_off(&mut rest, task.left.len());
                tasks.push((task, own));
            }
        }
        let states = || memory::filled(self.key_count + 1, empty);
        let scratch = || (states(), memory::filled(BLOCK_ROWS + 1, empty));
        let is_large = size_of::<[u64; WORDS]>() * self.key_count > MANY_BYTES;
        let done = driver.map_with(tasks, scratch, |(states, own), (task, found)| {
            let merge = if is_large { merges.many } else { merges.few };
            let merge = if task.is_forward { merge.forward } else { merge.backward };
            let folding = PassFold { passes: self, words, merge, empty, states, own, driver };
            match task.is_forward {
                true => folding.run::<true>(task, found),
                false => folding.run::<false>(task, found),
            }
        })?;
        done.into_iter().collect::<Result<(), _>>()?;
        let written = suffixes.into_iter().zip(prefixes).zip(words);
        let folded = written.map(|((suffixes, prefixes), word)| {
            self.folded(word, suffixes.written(), prefixes.written())
        });
        Ok(folded.collect())
    }

    /// Returns a word of the suffixes and prefixes. Words in directions without states are ignored.
    pub(super) fn folded(
        &self,
        word: &Word<'_>,
        suffixes: Pages<u64>,
        prefixes: Pages<u64>,
    ) -> FoldedWord {
        match self.directions {
            [true, true] => FoldedWord { suffixes, prefixes },
            [true, false] => FoldedWord::whole(word.operation, suffixes),
            _ => FoldedWord::whole(word.operation, prefixes),
        }
    }

    /// Returns whether there are many right rows between two left rows.
    pub(super) fn has_runs(&self) -> bool {
        self.right.len() / RUN_ROWS >= self.left.len()
    }

    /// Returns the distance from a left row's time to its position in a pass.
    pub(super) fn reach(&self, is_forward: bool) -> i64 {
        if is_forward { self.ends.1 } else { self.ends.0 }
    }

    /// Returns whether a left row's position is before a pane that begins at a given time. An
    /// interval that covers a whole pane is treated as a prefix of the pane, not as a suffix.
    pub(super) fn is_before(&self, is_forward: bool, begin: i64) -> impl Fn(i64) -> bool + use<> {
        let reach = self.reach(is_forward);
        move |ts| if is_forward { ts + reach < begin } else { ts + reach <= begin }
    }

    /// Returns the first and last time of the pane that contains `ts`.
    pub(super) fn pane(&self, ts: i64) -> (i64, i64) {
        match self.length {
            Some(length) => (pane_begin(ts, length), pane_end(ts, length)),
            None => (i64::MIN, i64::MAX),
        }
    }

    /// Divides the work of one direction into tasks.
    fn cut(&self, is_forward: bool) -> Vec<PaneTask> {
        let (left, right) = (self.left.len(), self.right.len());
        // The number of right rows in a task if the rows on both sides are divided evenly.
        let enough = (TASK as u64 * right as u64 / (left + right).max(1) as u64).max(1) as u32;
        let panes = self.borders.len() - 1;
        let (mut tasks, mut pane, mut first) = (Vec::new(), 0, 0);
        loop {
            let start = self.borders[pane];
            let rest = &self.borders[pane..panes];
            let next = pane + rest.partition_point(|border| border - start < enough);
            if next >= panes {
                tasks.push(PaneTask { is_forward, panes: pane..panes, left: first..left });
                return tasks;
            }
            let begin = self.pane(self.right.ts[self.borders[next] as usize]).0;
            let end = self.left.ts.partition_point(|&ts| self.is_before(is_forward, begin)(ts));
            tasks.push(PaneTask { is_forward, panes: pane..next, left: first..end });
            (pane, first) = (next, end);
        }
    }
}

/// Returns the offsets from a left row's time to the last time before its interval and to the end
/// of the interval, along with the directions of the passes. Returns `None` if the interval has no
/// ends or contains no times.
fn distances(interval: &Interval) -> Option<((i64, i64), [bool; 2])> {
    match (interval.lower, interval.upper) {
        (Some(_), Some(_)) => Some((interval.distances(0, 0)?, [true; 2])),
        (None, Some(_)) => {
            let late = interval.last(0)?;
            Some(((late.checked_sub(1)?, late), [false, true]))
        }
        (Some(_), None) => {
            let first = interval.first(0)?;
            Some(((first.checked_sub(1)?, first), [true, false]))
        }
        (None, None) => None,
    }
}

/// The memory to which the words of adjacent left rows are written.
pub(super) type LeftWords<'a, const WORDS: usize> = [&'a mut [Slot<u64>]; WORDS];

/// Splits off and returns the memory for the first rows.
pub(super) fn split_off<'a, const WORDS: usize>(
    found: &mut LeftWords<'a, WORDS>,
    rows: usize,
) -> LeftWords<'a, WORDS> {
    found
        .each_mut()
        .map(|found| found.split_off_mut(..rows).expect("there are at least this many rows"))
}

/// The loop over adjacent rows for a group of operations. This loop is the only code that is
/// compiled for each group of operations. The rest of the code runs once per pane or per few
/// thousand rows.
type Merge<const WORDS: usize> =
    fn(&PassRows<'_, WORDS>, &mut [[u64; WORDS]], LeftWords<'_, WORDS>) -> usize;

/// The loops for both directions.
#[derive(Clone, Copy)]
struct Directions<const WORDS: usize> {
    forward: Merge<WORDS>,
    backward: Merge<WORDS>,
}

/// One set of loops for states that fit in a second-level cache, and another for larger numbers of
/// states.
#[derive(Clone, Copy)]
struct Merges<const WORDS: usize> {
    few: Directions<WORDS>,
    many: Directions<WORDS>,
}

impl<const WORDS: usize> Merges<WORDS> {
    fn of<const OPERATIONS: u8>() -> Self {
        Merges {
            few: Directions {
                forward: merge::<WORDS, OPERATIONS, true, false>,
                backward: merge::<WORDS, OPERATIONS, false, false>,
            },
            many: Directions {
                forward: merge::<WORDS, OPERATIONS, true, true>,
                backward: merge::<WORDS, OPERATIONS, false, true>,
            },
        }
    }
}

/// The data that a thread needs for folding.
struct PassFold<'a, const WORDS: usize> {
    passes: &'a Passes<'a>,
    words: &'a [&'a Word<'a>],
    merge: Merge<WORDS>,
    /// The state before any row is added.
    empty: [u64; WORDS],
    /// The state of each key; see [`state_of`]. Between two panes, all states are empty.
    states: &'a mut [[u64; WORDS]],
    /// The words that adjacent right rows add.
    own: &'a mut [[u64; WORDS]],
    driver: &'a Driver,
}

impl<const WORDS: usize> PassFold<'_, WORDS> {
    fn run<const FORWARD: bool>(
        mut self,
        task: PaneTask,
        mut found: LeftWords<'_, WORDS>,
    ) -> Result<(), Stopped> {
        let passes = self.passes;
        let reach = passes.reach(FORWARD);
        let mut left = passes.left.slice(task.left);
        for pane in task.panes {
            let rows = passes.borders[pane] as usize..passes.borders[pane + 1] as usize;
            let ts = passes.right.ts[rows.start];
            let (begin, end) = passes.pane(ts);
            let before = gallop(left.ts, 0, passes.is_before(FORWARD, begin)) as usize;
            let within = gallop(left.ts, before as u32, |ts| ts + reach <= end) as usize;
            self.fill_empty(split_off(&mut found, before));
            if before < within {
                let found = split_off(&mut found, within - before);
                self.fold::<FORWARD>(rows.clone(), left.slice(before..within), found)?;
                self.make_empty(rows);
            }
            left = left.slice(within..left.len());
        }
        self.fill_empty(found);
        Ok(())
    }

    /// Writes the empty state for all left rows in `found`.
    fn fill_empty(&self, found: LeftWords<'_, WORDS>) {
        for (found, word) in found.into_iter().zip(self.empty) {
            Slot::fill(found, word);
        }
    }

    /// Resets the states that these right rows have updated.
    fn make_empty(&mut self, rows: Range<usize>) {
        let empty = self.empty;
        if rows.len() >= self.states.len() {
            return self.states.fill(empty);
        }
        let keys = &self.passes.right.keys[rows];
        keys.iter().for_each(|&key| self.states[state_of(key)] = empty);
    }

    /// Folds a pane's right rows, and writes the states of the left rows that have positions in the
    /// pane.
    fn fold<const FORWARD: bool>(
        &mut self,
        rows: Range<usize>,
        left: SideRows<'_>,
        mut found: LeftWords<'_, WORDS>,
    ) -> Result<(), Stopped> {
        let passes = self.passes;
        let (mut rest, mut waiting) = (rows, 0..left.len());
        while !rest.is_empty() && !waiting.is_empty() {
            self.driver.check()?;
            let taken = rest.len().min(BLOCK_ROWS);
            let block =
                if FORWARD { rest.start..rest.start + taken } else { rest.end - taken..rest.end };
            let right = passes.right.slice(block.clone());
            let own = &mut self.own[..=taken];
            for (at, word) in self.words.iter().enumerate() {
                let words = &mut own[..taken].as_flattened_mut()[at..];
                (word.write)(block.clone(), words, WORDS);
            }
            own[taken] = self.empty;
            // The state of rows without a key remains empty.
            if right.keys.contains(&NO_KEY) {
                let without = own.iter_mut().zip(right.keys).filter(|(_, key)| **key == NO_KEY);
                without.for_each(|(own, _)| *own = self.empty);
            }
            let merging = PassRows {
                right,
                own,
                left: left.slice(waiting.clone()),
                reach: passes.reach(FORWARD),
            };
            let found = found.each_mut().map(|found| &mut found[waiting.clone()]);
            let done = (self.merge)(&merging, self.states, found);
            if FORWARD {
                (rest.start, waiting.start) = (rest.start + taken, waiting.start + done);
            } else {
                (rest.end, waiting.end) = (rest.end - taken, waiting.end - done);
            }
        }
        // There are no more right rows.
        for row in waiting {
            let state = self.states[state_of(left.keys[row])];
            found.iter_mut().zip(state).for_each(|(found, word)| found[row].set(word));
        }
        Ok(())
    }
}

/// Adjacent rows on both sides.
struct PassRows<'a, const WORDS: usize> {
    right: SideRows<'a>,
    /// The words that each right row adds. The last entry is for left rows, which add nothing.
    own: &'a [[u64; WORDS]],
    left: SideRows<'a>,
    /// The distance from a left row's time to its position.
    reach: i64,
}

/// Processes the rows in order until one side has no more rows. A right row updates its key's
/// state. For a left row, its key's state is written. Returns the number of left rows that were
/// processed.
fn merge<const WORDS: usize, const OPERATIONS: u8, const FORWARD: bool, const MANY: bool>(
    rows: &PassRows<'_, WORDS>,
    states: &mut [[u64; WORDS]],
    found: LeftWords<'_, WORDS>,
) -> usize {
    let (rights, lefts) = (rows.right.len(), rows.left.len());
    let (right_ts, right_keys) = (rows.right.ts, &rows.right.keys[..rights]);
    let (left_ts, left_keys) = (rows.left.ts, &rows.left.keys[..lefts]);
    let (own, reach) = (&rows.own[..=rights], rows.reach);
    let found = found.map(|found| &mut found[..lefts]);
    // In the backward direction, the next row is the one before the counter.
    let (mut right, mut left) = if FORWARD { (0, 0) } else { (rights, lefts) };
    let row = |counted: usize| if FORWARD { counted } else { counted.wrapping_sub(1) };
    while row(right) < rights && row(left) < lefts {
        let (of_right, of_left) = (row(right), row(left));
        let (ts, place) = (right_ts[of_right], left_ts[of_left] + reach);
        let is_right = if FORWARD { ts <= place } else { ts >= place };
        if MANY {
            let ahead = |row: usize| {
                if FORWARD { row + AHEAD } else { row.wrapping_sub(AHEAD) }
            };
            if let Some(&key) = right_keys.get(ahead(of_right)) {
                prefetch(states, state_of(key));
            }
            if let Some(&key) = left_keys.get(ahead(of_left)) {
                prefetch(states, state_of(key));
            }
        }
        let key = select_unpredictable(is_right, right_keys[of_right], left_keys[of_left]);
        let state = &mut states[state_of(key)];
        let added = &own[select_unpredictable(is_right, of_right, rights)];
        for word in 0..WORDS {
            let value = operation::<OPERATIONS>(word).apply(state[word], added[word]);
            state[word] = value;
            found[word][of_left].set(value);
        }
        let (rights, lefts) = (usize::from(is_right), usize::from(!is_right));
        (right, left) = match FORWARD {
            true => (right + rights, left + lefts),
            false => (right - rights, left - lefts),
        };
    }
    if FORWARD { left } else { lefts - left }
}

/// Returns the position of a key's state. Rows without a key use the first state.
#[inline(always)]
pub(super) fn state_of(key: u32) -> usize {
    const { assert!(NO_KEY == u32::MAX) };
    key.wrapping_add(1) as usize
}
