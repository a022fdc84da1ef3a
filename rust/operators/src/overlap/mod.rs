//! The overlap join: pairs of rows with equal keys whose intervals have a point in common.
//!
//! Each row has a start and an end. A pair `(l, r)` matches if the keys are equal, `l.start <=
//! r.end` and `r.start <= l.end`:
//!
//! ```text
//!   left               ├───────────┤              start to end
//!   right        ├──┤ ├──┤ ├──┤    ├───┤ ├──┤
//!                      ×    ×      ×              three pairs
//! ```
//!
//! 1. *Group* ([`order`](crate::order)): the right rows are partitioned by key, and sorted by start
//!    within each key. Partners that start within the same left row are then adjacent.
//! 2. *Windows* ([`windows`]): the other partners start before the left row and are still open when
//!    it starts. For certain times, lists of the open rows are stored. Together, the lists have no
//!    more entries than there are rows. A left row with `p` partners is compared with at most
//!    `2 * p` or `p + 7` rows, whichever is more.
//! 3. *Follow*: finds, for each left row, the last list before its start, and the last right row
//!    that starts before its end. From one left row of a key to the next, both the list and the
//!    right row move only a little.
//! 4. *List* ([`Overlaps::matches`]): compares the left row with the rows in that list, and with
//!    the rows that start between the time of the list and the end of the left row.
//!
//! The join takes O(n log n + m log m + pairs) time, regardless of the lengths of rows. A few long
//! rows are stored in lists and do not slow down the search for other rows. If the right rows are
//! not sorted by start, the partners of each left row are sorted as well. Computing only the number
//! of pairs is cheaper ([`count_overlaps`]).
//!
//! # Trade-offs
//!
//! The ends and row numbers of the right side are copied, which takes 12 bytes per row. Lists take
//! up to 4 bytes per row. A window takes 16 bytes, and there is one window per key, plus at most
//! one per eight rows. A left row takes 8 bytes. A pair takes 4 bytes, or 8 bytes while a page is
//! being assembled. Row numbers have 32 bits.
//!
//! # Sources
//!
//! The lists are the window lists from Chazelle, "Filtering Search: A New Approach to
//! Query-Answering" (SIAM Journal on Computing 15, 1986). A list is rebuilt once half of its rows
//! are closed.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `windows.rs` | lists of the rows that are open at certain times |
//! | `count.rs` | the number of pairs for each left row |
//! | `indexed.rs` | finds overlapping rows among the rows of an index |
//! | `tree.rs` | a tree of the latest ends among the rows of an index |

mod count;
mod indexed;
mod tree;
mod windows;

use std::ops::Range;

use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::{MAX_ROWS, Matches, RowLists, cut};
use crate::order::{Follow, Groups, JoinColumns, OrderedTimes, follow, gallop, step};
pub use count::count_overlaps;
pub use indexed::{IndexedIntervals, OverlapRule, overlapping_rows_in, overlaps_in};
pub use tree::EndTree;
use windows::{OverlapWindows, WindowReach};

/// The columns of one side that determine which rows match.
#[derive(Clone, Copy, Debug)]
pub struct IntervalColumns<'a> {
    /// The start of each row.
    pub starts: &'a [i64],
    /// The end of each row, inclusive.
    pub ends: &'a [i64],
    /// The dense key of each row. Each key is less than the join's number of keys, or is
    /// [`NO_KEY`](crate::rows::NO_KEY) if the row has no match. `None` if all rows have the same
    /// key.
    pub keys: Option<&'a [u32]>,
}

impl<'a> IntervalColumns<'a> {
    /// Returns the starts with their keys.
    fn by_start(&self) -> JoinColumns<'a> {
        JoinColumns { ts: self.starts, keys: self.keys }
    }

    /// Returns the ends with their keys.
    fn by_end(&self) -> JoinColumns<'a> {
        JoinColumns { ts: self.ends, keys: self.keys }
    }

    fn check(&self) {
        assert!(self.starts.len() < MAX_ROWS, "row numbers fit in 32 bits");
        assert_eq!(self.starts.len(), self.ends.len(), "an end a start");
    }
}

/// The right rows that overlap each left row. Pairs are listed only on request, because they may
/// not all fit in memory.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::overlap::{IntervalColumns, Overlaps};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let left = IntervalColumns { starts: &[10, 20], ends: &[15, 29], keys: None };
/// let right = IntervalColumns { starts: &[0, 12, 15], ends: &[99, 14, 20], keys: None };
/// let overlaps = Overlaps::new(left, right, 1, &driver)?;
/// let matches = overlaps.matches(left.starts, 0..2, &driver)?;
/// assert_eq!((matches.count(0), matches.count(1)), (3, 2));
/// # Ok::<(), Stopped>(())
/// ```
#[derive(Debug)]
pub struct Overlaps {
    /// The reach of each left row.
    reached: Pages<WindowReach>,
    windows: OverlapWindows,
    right_rows: usize,
}

impl Overlaps {
    /// Finds the reach of each left row among the right rows. `key_count` must be greater than
    /// every key on both sides. Rows that end before they start are also compared, but the bounds
    /// on time and memory do not apply to them.
    ///
    /// # Panics
    ///
    /// Panics if a side has [`MAX_ROWS`] rows or more, columns differ in length, or a key is out of
    /// bounds.
    pub fn new(
        left: IntervalColumns<'_>,
        right: IntervalColumns<'_>,
        key_count: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        left.check();
        right.check();
        let groups = Groups::new(right.by_start(), key_count, driver)?;
        let ends = OrderedTimes::new(right.by_end(), key_count, driver)?;
        let windows = OverlapWindows::new(&groups, right.ends, ends.ts(), driver)?;
        drop(ends);
        let reached = follow(
            left.by_start(),
            key_count,
            &OverlapReach { windows: &windows, right: &groups, ends: left.ends },
            driver,
        )?;
        let right_rows = right.starts.len();
        Ok(Overlaps { reached, windows: windows.with_numbers(groups), right_rows })
    }

    /// The number of left rows.
    pub fn left_rows(&self) -> usize {
        self.reached.len()
    }

    /// The number of right rows.
    pub fn right_rows(&self) -> usize {
        self.right_rows
    }

    /// Returns a range of left rows, beginning at `start`, that are compared with at most `most`
    /// right rows in total. If the first row alone exceeds this limit, returns only that row.
    pub fn page(&self, start: usize, most: u64) -> Range<usize> {
        let mut candidates = 0;
        let fits = |reached: &&WindowReach| {
            candidates += self.windows.candidates(**reached) as u64;
            candidates <= most
        };
        let rows = self.reached[start..].iter().take_while(fits).count().max(1);
        start..self.reached.len().min(start + rows)
    }

    /// Returns the matches of the left rows in `page`. The caller passes the start of each left
    /// row.
    pub fn matches(
        &self,
        starts: &[i64],
        page: Range<usize>,
        driver: &Driver,
    ) -> Result<Matches, Stopped> {
        let candidates = |row: usize| self.windows.candidates(self.reached[row]);
        let pieces = cut(page.clone(), candidates);
        let found = driver.map_with(pieces, Vec::new, |places, piece| {
            let mut found = RowLists::default();
            found.lengths.reserve(piece.len());
            for row in piece {
                let length =
                    self.windows.list(self.reached[row], starts[row], places, &mut found.rows);
                found.lengths.push(length);
            }
            found
        })?;
        Matches::of_pieces(found, page.start as u32, page.len(), self.right_rows, driver)
    }
}

/// Finds the reach of left rows.
struct OverlapReach<'a> {
    windows: &'a OverlapWindows,
    right: &'a Groups<'a>,
    /// The end of each left row.
    ends: &'a [i64],
}

impl Follow for OverlapReach<'_> {
    /// The index of a window.
    type Place = u32;
    type Output = WindowReach;

    fn begin(&self, key: u32) -> u32 {
        self.windows.of_key(key).start
    }

    #[inline(always)]
    fn next(&self, window: &mut u32, key: u32, row: usize, start: i64) -> WindowReach {
        let (first, end) = (self.right.starts[key as usize], self.right.starts[key as usize + 1]);
        if first == end {
            return WindowReach::default();
        }
        let after = self.windows.of_key(key).end as usize;
        *window = gallop(&self.windows.times()[..after], *window, |time| time <= start) - 1;
        let group = &self.right.ts()[..end as usize];
        let from = self.windows.first_after(*window);
        let begins = |ts| ts <= self.ends[row];
        let from = if from > first && !begins(group[from as usize - 1]) { first } else { from };
        WindowReach { window: *window, end: step(group, from, begins) }
    }
}

/// Returns the values in position order, given the row number at each position. If `numbers` is
/// `None`, positions are row numbers.
fn by_place(
    values: &[i64],
    numbers: Option<&[u32]>,
    driver: &Driver,
) -> Result<Pages<i64>, Stopped> {
    let Some(numbers) = numbers else { return Ok(Pages::copied(values)) };
    let mut placed = Pages::unwritten(numbers.len());
    let parts = ranges(numbers.len(), driver.parts(numbers.len(), PART_ROWS));
    let mut rest = &mut placed[..];
    let mut work = Vec::with_capacity(parts.len());
    for part in parts {
        let (head, tail) = rest.split_at_mut(part.len());
        work.push((&numbers[part], head));
        rest = tail;
    }
    driver.map(work, |(numbers, placed): (&[u32], &mut [Slot<i64>])| {
        for (&row, slot) in numbers.iter().zip(placed) {
            slot.set(values[row as usize]);
        }
    })?;
    Ok(placed.written())
}
