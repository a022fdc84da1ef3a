//! Passes over the rows on both sides in time order, for several intervals at once.
//!
//! Like [`Passes`], each pass visits the rows on both sides, merged by time. The words of a right
//! row are computed once. Each distinct length of panes has a *lane*. A key's
//! state contains a number for each word and lane, and a right row updates the numbers in all lanes
//! with vector instructions.
//!
//! ```text
//!   right rows of a key      a   b    c    d      e     f
//!   panes of lane 0        ├───────────────────┼────────────
//!   panes of lane 1        ├────────┼──────────┼────────┼───
//!   forward, lane 0          a   ab   abc  abcd   e     ef
//!   forward, lane 1          a   ab   c    cd     e     f
//! ```
//!
//! States are not reset when a pane ends. Instead, panes are numbered, and a state contains the
//! number of the pane in each lane. A number that belongs to an earlier pane counts as empty.
//!
//! A left row has one position per interval. A cursor visits the left rows of all intervals whose
//! positions have the same distance from the rows' times. A pass alternates between a run of right
//! rows, which does not compare left times, and the left row with the next position.
//!
//! Tasks begin where panes of the longest lane begin. The panes of other lanes can extend across
//! this border. Such a pane belongs to the earlier task, so both tasks add some of the right rows.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `walk.rs` | a walk through the rows of a task, from pane to pane |
//! | `rows.rs` | the loop over adjacent rows |

mod rows;
mod walk;

use std::cmp::Reverse;
use std::ops::Range;

use tidegate_structures::memory::pages::{Pages, UnwrittenPages};

use super::blocks::FoldedWord;
use super::operations::{MOST_WORDS, code, for_operations};
use super::passes::{LeftWords, Passes, TASK};
use super::words::{Operation, Word};
use crate::driver::{Driver, Stopped};
use rows::{IntervalResults, LaneLoops, LeftCursor, LeftCursors, LeftReads};
use walk::{LaneWalk, WalkMemory};

/// The maximum number of intervals that are folded at once. This many numbers fit in a register.
const MOST_INTERVALS: usize = 4;

/// The minimum number of right rows per pane. With fewer rows, too much time would be spent at the
/// ends of panes, which are visited for all intervals.
const LEAST_PANE: usize = if cfg!(test) { 2 } else { 32 };

/// The number of tasks per thread in each direction. With few tasks, few rows are visited by two
/// tasks.
const TASKS_PER_THREAD: usize = 4;

/// An interval and the words that its functions need.
pub(in crate::aggregate) struct IntervalWords<'p, 'a> {
    pub(in crate::aggregate) passes: &'p Passes<'a>,
    /// Whether each word is needed.
    pub(in crate::aggregate) needs: Vec<bool>,
}

impl IntervalWords<'_, '_> {
    fn has_long_panes(&self) -> bool {
        self.passes.right.len() / LEAST_PANE >= self.passes.borders.len() - 1
    }
}

/// Folds words over several intervals, which must belong to the same rows. For each interval,
/// returns all words. Words that an interval does not need are empty.
pub(in crate::aggregate) fn fold_words(
    intervals: &[IntervalWords<'_, '_>],
    words: &[Word<'_>],
    driver: &Driver,
) -> Result<Vec<Vec<FoldedWord>>, Stopped> {
    let unknown = |_: &_| words.iter().map(|_| FoldedWord::default()).collect();
    let mut found: Vec<Vec<FoldedWord>> = intervals.iter().map(unknown).collect();
    let (mut together, mut alone): (Vec<_>, Vec<_>) =
        (0..intervals.len()).partition(|&at| intervals[at].has_long_panes());
    let has_runs = intervals.iter().any(|one| one.passes.has_runs());
    together.sort_by_key(|&at| Reverse(intervals[at].passes.length.unwrap_or(u64::MAX)));
    for group in together.chunks(MOST_INTERVALS) {
        match group {
            [one] if !has_runs => alone.push(*one),
            _ => {
                let intervals = group.iter().map(|&at| &intervals[at]).collect();
                for (word, folded) in Lanes::new(intervals).fold(words, driver)? {
                    group.iter().zip(folded).for_each(|(&at, folded)| found[at][word] = folded);
                }
            }
        }
    }
    for at in alone {
        let IntervalWords { passes, needs } = &intervals[at];
        let needed: Vec<_> = (0..words.len()).filter(|&word| needs[word]).collect();
        let own: Vec<_> = needed.iter().map(|&word| &words[word]).collect();
        let folded = passes.fold(&own, driver)?;
        needed.iter().zip(folded).for_each(|(&word, folded)| found[at][word] = folded);
    }
    Ok(found)
}

/// Intervals that are folded together. Intervals with longer panes precede those with shorter ones.
struct Lanes<'g, 'p, 'a> {
    intervals: Vec<&'g IntervalWords<'p, 'a>>,
}

/// The lanes that are folded in one direction.
struct Direction<'p, 'a> {
    is_forward: bool,
    /// For each lane, passes with its panes.
    lanes: Vec<&'p Passes<'a>>,
    /// The intervals, in the order of the distance from left rows to positions.
    intervals: Vec<LaneInterval<'p, 'a>>,
}

struct LaneInterval<'p, 'a> {
    /// The position among all intervals.
    interval: usize,
    lane: usize,
    passes: &'p Passes<'a>,
}

/// The rows that a task visits.
struct LaneTask {
    right: Range<usize>,
    /// For each interval, the left rows whose results the task computes.
    left: Vec<Range<usize>>,
}

/// The results of one direction, for each interval and word.
type DirectionPages<const WORDS: usize> = Vec<[UnwrittenPages<u64>; WORDS]>;

impl<'p, 'a> Direction<'p, 'a> {
    /// Returns the lanes of the intervals that need any of the words.
    fn new(intervals: &[&IntervalWords<'p, 'a>], words: &[usize], is_forward: bool) -> Self {
        let mut direction = Direction { is_forward, lanes: Vec::new(), intervals: Vec::new() };
        for (interval, IntervalWords { passes, needs }) in intervals.iter().enumerate() {
            let is_needed = words.iter().any(|&word| needs[word]);
            if is_needed && passes.directions[usize::from(is_forward)] {
                let lanes = &mut direction.lanes;
                let known = lanes.iter().position(|known| known.length == passes.length);
                let lane = known.unwrap_or_else(|| {
                    lanes.push(passes);
                    lanes.len() - 1
                });
                direction.intervals.push(LaneInterval { interval, lane, passes });
            }
        }
        direction.intervals.sort_by_key(|one| one.passes.reach(is_forward));
        direction
    }

    /// Divides the work into tasks with at least `enough` right rows.
    fn cut(&self, enough: usize) -> Vec<LaneTask> {
        let Some(longest) = self.lanes.first() else { return Vec::new() };
        let borders = &longest.borders;
        let mut starts = vec![borders[0]];
        let mut pane = 0;
        loop {
            let start = borders[pane];
            pane += borders[pane..].partition_point(|border| ((border - start) as usize) < enough);
            if pane + 1 >= borders.len() {
                break;
            }
            starts.push(borders[pane]);
        }
        let left_rows = longest.left.len();
        let mut tasks = Vec::with_capacity(starts.len());
        let mut first = vec![0; self.intervals.len()];
        for (at, &start) in starts.iter().enumerate() {
            let next = starts.get(at + 1).copied();
            let left = |(one, first): (&LaneInterval<'_, '_>, &mut usize)| {
                let end = next.map_or(left_rows, |next| one.left_before(next, self.is_forward));
                std::mem::replace(first, end)..end
            };
            let left = self.intervals.iter().zip(&mut first).map(left).collect();
            let end = self.lanes.iter().map(|lane| match next {
                Some(next) => lane.borders[first_pane(lane, next)],
                None => lane.borders[lane.borders.len() - 1],
            });
            let end = end.max().expect("there is at least one lane");
            tasks.push(LaneTask { right: start as usize..end as usize, left });
        }
        tasks
    }

    /// Returns the left rows of a task, and their results.
    fn reads<'s, 'f, const FORWARD: bool, const WORDS: usize>(
        &'s self,
        left: &[Range<usize>],
        results: Vec<IntervalResults<'f, WORDS>>,
    ) -> LeftReads<'s, 'f, WORDS> {
        let left_rows = self.lanes[0].left;
        LeftReads { cursors: LeftCursors::new::<FORWARD>(left_rows, self.cursors(left)), results }
    }

    /// Returns the cursors of a task.
    fn cursors(&self, left: &[Range<usize>]) -> Vec<LeftCursor> {
        let mut cursors: Vec<LeftCursor> = Vec::new();
        for (at, (one, left)) in self.intervals.iter().zip(left).enumerate() {
            let reach = one.passes.reach(self.is_forward);
            match cursors.last_mut().filter(|cursor| cursor.reach == reach) {
                Some(LeftCursor { rows, intervals, .. }) => {
                    *rows = rows.start.min(left.start)..rows.end.max(left.end);
                    intervals.end = at + 1;
                }
                None => {
                    cursors.push(LeftCursor { reach, rows: left.clone(), intervals: at..at + 1 });
                }
            }
        }
        cursors
    }
}

impl LaneInterval<'_, '_> {
    /// Returns the number of left rows whose positions precede all panes that begin at `row` or
    /// later.
    fn left_before(&self, row: u32, is_forward: bool) -> usize {
        let Passes { left, right, borders, .. } = self.passes;
        let row = borders[first_pane(self.passes, row)] as usize;
        match right.ts.get(row) {
            None => left.len(),
            Some(&ts) => {
                let begin = self.passes.pane(ts).0;
                left.ts.partition_point(|&ts| self.passes.is_before(is_forward, begin)(ts))
            }
        }
    }
}

/// Returns the first pane that begins at a row or later, or the number of panes.
fn first_pane(passes: &Passes<'_>, row: u32) -> usize {
    passes.borders[..passes.borders.len() - 1].partition_point(|&border| border < row)
}

impl<'g, 'p, 'a> Lanes<'g, 'p, 'a> {
    fn new(intervals: Vec<&'g IntervalWords<'p, 'a>>) -> Self {
        Lanes { intervals }
    }

    /// Returns the folded words of all intervals, for each word that an interval needs.
    fn fold(
        &self,
        words: &[Word<'_>],
        driver: &Driver,
    ) -> Result<Vec<(usize, Vec<FoldedWord>)>, Stopped> {
        let is_needed = |word: &usize| self.intervals.iter().any(|one| one.needs[*word]);
        let mut needed: Vec<_> = (0..words.len()).filter(is_needed).collect();
        // Words of the same intervals are folded together.
        let users = |word: usize| self.intervals.iter().map(move |one| !one.needs[word]);
        needed.sort_by_cached_key(|&word| (users(word).collect::<Vec<_>>(), words[word].operation));
        let mut all = Vec::with_capacity(needed.len());
        for group in needed.chunks_mut(MOST_WORDS) {
            group.sort_by_key(|&word| words[word].operation);
            let operations: Vec<_> = group.iter().map(|&word| words[word].operation).collect();
            let folded = for_operations!(operations, OPERATIONS => {
                const WORDS: usize = OPERATIONS.len();
                let group = std::array::from_fn(|at| (group[at], &words[group[at]]));
                match self.has_one_lane() {
                    true => {
                        let loops = LaneLoops::of::<{ code(OPERATIONS) }>();
                        self.fold_group::<WORDS, 1>(group, loops, driver)?
                    }
                    false => {
                        let loops = LaneLoops::of::<{ code(OPERATIONS) }>();
                        self.fold_group::<WORDS, MOST_INTERVALS>(group, loops, driver)?
                    }
                }
            });
            all.extend(group.iter().copied().zip(folded));
        }
        Ok(all)
    }

    fn has_one_lane(&self) -> bool {
        let length = |one: &&IntervalWords<'_, '_>| one.passes.length;
        self.intervals.iter().all(|one| length(one) == length(&self.intervals[0]))
    }

    /// Folds a group of words. For each word, returns its folded values in all intervals.
    fn fold_group<const WORDS: usize, const LANES: usize>(
        &self,
        words: [(usize, &Word<'_>); WORDS],
        loops: LaneLoops<WORDS, LANES>,
        driver: &Driver,
    ) -> Result<Vec<Vec<FoldedWord>>, Stopped> {
        let numbers = words.map(|(number, _)| number);
        let direction = |is_forward| Direction::new(&self.intervals, &numbers, is_forward);
        let directions = [false, true].map(direction);
        let mut pages = [false, true].map(|is_forward| self.unwritten(&words, is_forward));
        let rows = self.intervals[0].passes.right.len();
        let enough = (rows / (driver.threads() * TASKS_PER_THREAD)).max(TASK);
        let mut tasks = Vec::new();
        for (direction, pages) in directions.iter().zip(&mut pages) {
            let cut = direction.cut(enough);
            let results = direction.results(&cut, pages);
            tasks
                .extend(cut.into_iter().zip(results).map(|(task, found)| (direction, task, found)));
        }
        let words = words.map(|(_, word)| word);
        let key_count = self.intervals[0].passes.key_count;
        let scratch = || WalkMemory::new(key_count);
        let done =
            driver.map_with(
                tasks,
                scratch,
                |memory, (direction, task, results)| match direction.is_forward {
                    true => {
                        let reads = direction.reads::<true, WORDS>(&task.left, results);
                        let walk = LaneWalk::new(&words, loops.forward, reads, memory, driver);
                        walk.run::<true>(&direction.lanes, task.right)
                    }
                    false => {
                        let reads = direction.reads::<false, WORDS>(&task.left, results);
                        let walk = LaneWalk::new(&words, loops.backward, reads, memory, driver);
                        walk.run::<false>(&direction.lanes, task.right)
                    }
                },
            )?;
        done.into_iter().collect::<Result<(), _>>()?;
        Ok(self.folded(&numbers, words, pages))
    }

    /// Returns memory for the results of one direction.
    fn unwritten<const WORDS: usize>(
        &self,
        words: &[(usize, &Word<'_>); WORDS],
        is_forward: bool,
    ) -> DirectionPages<WORDS> {
        let of_interval = |IntervalWords { passes, needs }: &&IntervalWords<'_, '_>| {
            let is_folded = passes.directions[usize::from(is_forward)];
            words.map(|(number, _)| {
                Pages::unwritten(if is_folded && needs[number] { passes.left.len() } else { 0 })
            })
        };
        self.intervals.iter().map(of_interval).collect()
    }

    /// Combines the results of both directions. For each word, returns its folded values in all
    /// intervals.
    fn folded<const WORDS: usize>(
        &self,
        numbers: &[usize; WORDS],
        words: [&Word<'_>; WORDS],
        [backward, forward]: [DirectionPages<WORDS>; 2],
    ) -> Vec<Vec<FoldedWord>> {
        let mut all: Vec<Vec<FoldedWord>> = words.iter().map(|_| Vec::new()).collect();
        for (interval, (suffixes, prefixes)) in
            self.intervals.iter().zip(backward.into_iter().zip(forward))
        {
            for (at, (suffixes, prefixes)) in suffixes.into_iter().zip(prefixes).enumerate() {
                all[at].push(match interval.needs[numbers[at]] {
                    true => {
                        interval.passes.folded(words[at], suffixes.written(), prefixes.written())
                    }
                    false => FoldedWord::default(),
                });
            }
        }
        all
    }
}

impl Direction<'_, '_> {
    /// Divides the memory for results among the tasks.
    fn results<'f, const WORDS: usize>(
        &self,
        tasks: &[LaneTask],
        pages: &'f mut DirectionPages<WORDS>,
    ) -> Vec<Vec<IntervalResults<'f, WORDS>>> {
        let all = pages.iter_mut().map(|pages| Some(pages.each_mut().map(|pages| &mut pages[..])));
        let mut all: Vec<Option<LeftWords<'f, WORDS>>> = all.collect();
        let rest = self.intervals.iter().map(|one| all[one.interval].take());
        let mut rest: Vec<_> =
            rest.map(|rest| rest.expect("each interval is listed once")).collect();
        let of_task = |task: &LaneTask| {
            let mut results = Vec::with_capacity(rest.len());
            for ((one, left), rest) in self.intervals.iter().zip(&task.left).zip(&mut rest) {
                let found = rest.each_mut().map(|rest| {
                    let rows = left.len().min(rest.len());
                    rest.split_off_mut(..rows).expect("there are at least this many rows")
                });
                results.push(IntervalResults { lane: one.lane, first: left.start, found });
            }
            results
        };
        tasks.iter().map(of_task).collect()
    }
}
