//! The parts of an index.
//!
//! Rows that are appended to an index form a new part, and small parts are merged. A join searches
//! each part:
//!
//! ```text
//! rows of the table   0 1 2 3 4 5 6 7 8 9 │ 10 11 12 │ 13
//! parts               ───── 0 ─────────── │ ── 1 ─── │ 2
//! ```

use std::ops::Range;

use tidegate_structures::memory::pages::Slot;

use super::search::{Search, search};
use super::{Groups, SideIndex};
use crate::rows::NO_KEY;

/// If there are fewer right rows per left row than this, visiting the rows in time order takes less
/// time than searching for each left row.
pub const SEARCHED: usize = 32;

/// A part of an index, together with the keys of the left rows.
#[derive(Clone, Copy, Debug)]
pub struct IndexPart<'a> {
    /// The rows.
    pub rows: &'a SideIndex,
    /// The number of rows that have expired. Their row numbers and times are the smallest.
    pub expired: usize,
    /// The time before which rows have expired, or the earliest possible time.
    pub earliest: i64,
    /// The number of each left row's key in this part, or [`NO_KEY`]. `None` if all rows have the
    /// same key.
    pub left_keys: Option<&'a [u32]>,
}

/// The rows of an index, as seen by the left rows of a join.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::order::{IndexPart, IndexedRows, JoinColumns, SideIndex};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let side = |ts: &[i64]| SideIndex::new(JoinColumns { ts, keys: None }, 1, &driver);
/// let (first, later) = (side(&[8, 9])?, side(&[30])?);
/// let part = |rows| IndexPart { rows, expired: 0, earliest: i64::MIN, left_keys: None };
/// let rows = IndexedRows::new([part(&first), part(&later)]);
/// assert_eq!(rows.rows(), 3);
/// # Ok::<(), Stopped>(())
/// ```
#[derive(Debug)]
pub struct IndexedRows<'a> {
    parts: Vec<SearchedPart<'a>>,
    rows: usize,
}

impl<'a> IndexedRows<'a> {
    /// Combines the rows of several parts. The rows of each part follow the rows of the previous
    /// part.
    ///
    /// # Panics
    ///
    /// Panics if a part has more expired rows than it has rows in total.
    pub fn new(parts: impl IntoIterator<Item = IndexPart<'a>>) -> Self {
        let mut rows = 0;
        let parts = parts.into_iter().map(|part| {
            assert!(
                part.expired <= part.rows.rows(),
                "a part has at most as many expired rows as rows"
            );
            let first = rows;
            rows += part.rows.rows() - part.expired;
            SearchedPart {
                groups: part.rows.groups(),
                key_count: part.rows.key_count(),
                first,
                expired: part.expired,
                earliest: part.earliest,
                left_keys: part.left_keys,
            }
        });
        IndexedRows { parts: parts.collect(), rows }
    }

    /// The number of rows that have not expired.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns whether a join with this many left rows searches for the position of each one.
    pub fn are_searched(&self, left_rows: usize) -> bool {
        left_rows.saturating_mul(SEARCHED) <= self.rows
    }

    /// Returns the only part if there is exactly one and none of its rows have expired.
    pub(crate) fn whole(&self) -> Option<&SearchedPart<'a>> {
        match &self.parts[..] {
            [part] if part.expired == 0 => Some(part),
            _ => None,
        }
    }

    /// The parts, in row order.
    pub(crate) fn parts(&self) -> &[SearchedPart<'a>] {
        &self.parts
    }

    /// Panics unless every part has a key for each of the `left_rows` left rows.
    pub(crate) fn check(&self, left_rows: usize) {
        let fits = |part: &SearchedPart| part.left_keys.is_none_or(|keys| keys.len() == left_rows);
        assert!(self.parts.iter().all(fits), "every part has one key per left row");
    }
}

/// A part of an index.
#[derive(Debug)]
pub(crate) struct SearchedPart<'a> {
    pub(crate) groups: Groups<'a>,
    pub(crate) key_count: usize,
    /// The row number in the index of the part's first row that has not expired.
    first: usize,
    expired: usize,
    earliest: i64,
    pub(crate) left_keys: Option<&'a [u32]>,
}

impl SearchedPart<'_> {
    /// Returns the positions of the rows that have the key of a left row, including expired ones.
    pub(crate) fn positions(&self, left: usize) -> Range<u32> {
        match self.left_keys.map_or(0, |keys| keys[left]) {
            NO_KEY => 0..0,
            key => self.groups.starts[key as usize]..self.groups.starts[key as usize + 1],
        }
    }

    /// Returns a search for the first row of a left row's key whose time is not less than `limit`.
    /// The search ignores expired rows. Without a limit, it finds the end of the key's rows.
    #[inline]
    pub(crate) fn search(&self, left: usize, limit: Option<i64>) -> Search {
        let Range { start, end } = self.positions(left);
        match limit {
            Some(limit) => Search { low: start, len: end - start, limit: limit.max(self.earliest) },
            None => Search { low: end, len: 0, limit: 0 },
        }
    }

    /// Runs searches.
    pub(crate) fn find(&self, searches: &mut [Search]) {
        search(self.groups.ts(), searches);
    }

    /// Returns the position before the result of a search, if there is a row of the left row's key
    /// that has not expired.
    #[inline]
    pub(crate) fn before(&self, left: usize, found: Search) -> Option<u32> {
        let place = found.low.checked_sub(1)?;
        let is_row = found.low > self.positions(left).start
            && self.groups.ts()[place as usize] >= self.earliest;
        is_row.then_some(place)
    }

    /// Returns the result of a search, if there is a row of the left row's key.
    #[inline]
    pub(crate) fn at(&self, left: usize, found: Search) -> Option<u32> {
        (found.low < self.positions(left).end).then_some(found.low)
    }

    /// Returns the number in the index of the row at a position.
    #[inline]
    pub(crate) fn row(&self, place: u32) -> u32 {
        let row = self.groups.numbers().map_or(place, |numbers| numbers[place as usize]);
        self.number(row)
    }

    /// Writes the index row numbers of the rows at adjacent positions.
    pub(crate) fn write_rows(&self, places: Range<u32>, slots: &mut [Slot<u32>]) {
        match self.groups.numbers() {
            Some(numbers) => {
                let own = &numbers[places.start as usize..places.end as usize];
                own.iter().zip(slots).for_each(|(&row, slot)| slot.set(self.number(row)));
            }
            None => places.zip(slots).for_each(|(place, slot)| slot.set(self.number(place))),
        }
    }

    /// Returns the index row number of a row in this part.
    fn number(&self, row: u32) -> u32 {
        (row as usize - self.expired + self.first) as u32
    }
}
