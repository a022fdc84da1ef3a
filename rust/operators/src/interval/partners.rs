//! Each left row's partners, as a run of right rows over which aggregates are computed.
//!
//! All intervals have the same length, so time is divided into *panes* of that length, starting at
//! time 0. An interval then begins in one pane and ends in that pane or in the next one. The
//! partners are then a suffix of the key's rows in the first pane and a prefix of its rows in the
//! second. Panes depend only on the right rows.
//!
//! ```text
//!   panes       ├───────────┼───────────┤
//!   interval          ├───────────┤
//!   partners          ● ●  ●│ ●   ●
//!                     suffix│prefix
//! ```
//!
//! The panes are those of van Herk, "A fast algorithm for local minimum and maximum filters on
//! rectangular and octagonal kernels" (1992), except that the boundaries are times instead of
//! positions.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

use super::{GroupMatches, find_in_groups};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::{Matches, Run};
use crate::order::{JoinColumns, gallop};
use crate::rows::{Interval, NO_KEY, NO_ROW};

/// The columns that determine the partners of each left row.
#[derive(Clone, Copy, Debug)]
pub struct PartnerColumns<'a> {
    /// The times and keys of left rows.
    pub left: JoinColumns<'a>,
    /// The times and keys of right rows.
    pub right: JoinColumns<'a>,
    /// A number greater than every key on both sides.
    pub key_count: usize,
    /// The allowed distance of a partner's time from the left row's time.
    pub interval: &'a Interval,
    /// `true` if the key's last right row before the interval is also a partner. This row prevails
    /// at the start of the interval.
    pub with_prevailing: bool,
}

/// The partners of left rows in an interval join. Right rows are sorted by key and time, and each
/// left row has a run of them.
#[derive(Debug)]
pub struct Partners {
    /// The right rows in the interval of each left row.
    matches: Matches,
    panes: Panes,
    /// The position of the last right row before each left row's interval, or
    /// [`NO_ROW`](crate::rows::NO_ROW). `None` if such rows do not count as partners.
    prevailing: Option<Pages<u32>>,
    /// The length of the panes. `None` if panes are unbounded.
    length: Option<u64>,
}

/// The order in which right rows are folded, and the starts of the panes in this order.
#[derive(Debug)]
pub(crate) enum Panes {
    /// Rows are folded key by key, in the order of their positions. For each position, contains the
    /// first position with the same key in the same pane.
    OfPlaces(Pages<u32>),
    /// Rows are in time order and are folded sequentially. Contains the first row in each nonempty
    /// pane, followed by the number of rows.
    OfRows(Vec<u32>),
}

/// Finds the partners of every left row.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::interval::{PartnerColumns, interval_partners};
/// use tidegate_operators::order::JoinColumns;
/// use tidegate_operators::rows::{Closed, Interval};
/// use tidegate_sync::Stop;
///
/// let left = JoinColumns { ts: &[10, 20], keys: None };
/// let right = JoinColumns { ts: &[8, 9, 30], keys: None };
/// let before = Interval { lower: Some(-2), upper: Some(0), closed: Closed::Both };
/// let columns =
///     PartnerColumns { left, right, key_count: 1, interval: &before, with_prevailing: true };
/// let partners = interval_partners(columns, &Driver::new(1, Stop::default()))?;
/// assert_eq!((partners.count(0), partners.count(1)), (2, 1)); // 20 with 9, before its interval
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics under the same conditions as [`interval_join`](super::interval_join).
pub fn interval_partners(
    columns: PartnerColumns<'_>,
    driver: &Driver,
) -> Result<Partners, Stopped> {
    let PartnerColumns { left, right, key_count, interval, with_prevailing } = columns;
    let GroupMatches { matches, starts, is_sorted } =
        find_in_groups(left, right, key_count, interval, driver)?;
    let groups =
        RightGroups { runs: matches.runs(), rows: matches.rows(), ts: right.ts, starts: &starts };
    let length = interval.length();
    // Rows that are stored in the order of folding do not have to be gathered. The rows of a single
    // key are always stored in this order.
    let panes = match is_sorted && right.keys.is_some() {
        true => Panes::OfRows(pane_borders(right.ts, length, driver)?),
        false => Panes::OfPlaces(groups.pane_starts(length, driver)?),
    };
    let prevailing =
        with_prevailing.then(|| groups.prevailing(left, interval, driver)).transpose()?;
    Ok(Partners { matches, panes, prevailing, length })
}

/// The number of partners in a left row's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartnerCount {
    pub(super) count: u32,
    /// `true` if the first partner precedes the interval.
    pub(super) is_prevailing: bool,
}

impl Partners {
    /// Returns the partners of all left rows, given one list per left row. The lists are stored
    /// consecutively, and each list is in time order. `starts` contains the start of each list,
    /// followed by the end of the last one. `ts` contains the times.
    pub(super) fn of_lists(
        lists: &[PartnerCount],
        starts: &[u32],
        with_prevailing: bool,
        ts: &[i64],
        interval: &Interval,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let bounds = || lists.iter().zip(starts.iter().zip(&starts[1..]));
        let run = |(one, (&start, &end)): (&PartnerCount, (&u32, &u32))| Run {
            start: start + u32::from(one.is_prevailing),
            end,
        };
        let before = |(one, (&start, _)): (&PartnerCount, (&u32, &u32))| {
            if one.is_prevailing { start } else { NO_ROW }
        };
        let runs = Pages::collect(bounds().map(run));
        let length = interval.length();
        let groups = RightGroups { runs: &runs, rows: None, ts, starts };
        let panes = Panes::OfPlaces(groups.pane_starts(length, driver)?);
        Ok(Partners {
            matches: Matches::new(runs, None, true, ts.len()),
            panes,
            prevailing: with_prevailing.then(|| Pages::collect(bounds().map(before))),
            length,
        })
    }

    /// Returns the number of partners for a left row.
    pub fn count(&self, left: usize) -> usize {
        let prevailing =
            self.prevailing.as_ref().is_some_and(|prevailing| prevailing[left] != NO_ROW);
        self.matches.runs()[left].len() + usize::from(prevailing)
    }

    /// Returns at most `rows` left rows, from `start` onwards. These rows have at most `most`
    /// partners in total, unless there is only one row.
    pub fn page(&self, start: usize, rows: usize, most: u64) -> Range<usize> {
        let end = self.left_rows().min(start.saturating_add(rows));
        if most == u64::MAX {
            return start..end;
        }
        let mut partners = 0;
        let fits = |left: &usize| {
            partners += self.count(*left) as u64;
            partners <= most
        };
        let taken = (start..end).take_while(fits).count().max(1);
        start..end.min(start + taken)
    }

    /// Returns the positions of each left row's partners. A prevailing row is directly before the
    /// other partners.
    pub(crate) fn whole_runs(&self) -> impl Fn(usize) -> Run + '_ {
        let (runs, prevailing) = (self.runs(), self.prevailing());
        move |left| {
            let run = runs[left];
            match prevailing.map_or(NO_ROW, |prevailing| prevailing[left]) {
                NO_ROW => run,
                before if run.len() == 0 => Run { start: before, end: before + 1 },
                before => Run { start: before, end: run.end },
            }
        }
    }

    /// Returns the partners as matches, in which prevailing rows are not distinguished.
    pub fn into_matches(self) -> Matches {
        match self.prevailing {
            None => self.matches,
            Some(prevailing) => self.matches.with_rows_before(&prevailing),
        }
    }

    /// The number of left rows.
    pub fn left_rows(&self) -> usize {
        self.matches.left_rows()
    }

    /// The number of right rows.
    pub fn right_rows(&self) -> usize {
        self.matches.right_rows()
    }

    pub(crate) fn runs(&self) -> &[Run] {
        self.matches.runs()
    }

    pub(crate) fn prevailing(&self) -> Option<&[u32]> {
        self.prevailing.as_deref()
    }

    pub(crate) fn panes(&self) -> &Panes {
        &self.panes
    }

    /// Returns a cursor that checks whether each left row's interval covers the start of a pane.
    pub(crate) fn pane_cursor<'a>(&self, columns: PartnerColumns<'a>) -> PaneCursor<'a> {
        PaneCursor { length: self.length, columns, begin: i64::MAX, end: i64::MIN }
    }

    /// Returns the number of positions.
    pub(crate) fn places(&self) -> usize {
        self.rows().map_or(self.right_rows(), <[u32]>::len)
    }

    /// Returns the right row at each position, or `None` if positions are row numbers.
    pub(crate) fn rows(&self) -> Option<&[u32]> {
        self.matches.rows()
    }
}

/// The pane in which the interval of the most recent left row begins. Left rows in time order often
/// share a pane.
pub(crate) struct PaneCursor<'a> {
    length: Option<u64>,
    columns: PartnerColumns<'a>,
    begin: i64,
    end: i64,
}

impl PaneCursor<'_> {
    /// Returns whether a left row's interval begins at or before the start of the pane that
    /// contains the row's first partner. The result does not depend on the rows in the pane. Both
    /// rows are identified by their numbers.
    #[inline]
    pub(crate) fn covers_start(&mut self, left: usize, first_partner: u32) -> bool {
        let PartnerColumns { left: of_left, right, interval, .. } = self.columns;
        let Some(first) = interval.first(of_left.ts[left]) else { return false };
        if first < self.begin || first > self.end {
            (self.begin, self.end) = match self.length {
                Some(length) => (pane_begin(first, length), pane_end(first, length)),
                None => (i64::MIN, i64::MAX),
            };
        }
        first == self.begin || right.ts[first_partner as usize] > self.end
    }
}

impl Interval {
    /// Returns the number of time values in the interval, or `None` if the interval is unbounded or
    /// contains all times.
    fn length(&self) -> Option<u64> {
        let (lower, upper) = (i128::from(self.lower?), i128::from(self.upper?));
        let open = match self.closed {
            crate::rows::Closed::Both => 0,
            crate::rows::Closed::Left | crate::rows::Closed::Right => 1,
            crate::rows::Closed::Neither => 2,
        };
        u64::try_from((upper - lower + 1 - open).max(1)).ok()
    }
}

/// Returns the last time in the pane that contains `ts`, for panes of this length.
pub(crate) fn pane_end(ts: i64, length: u64) -> i64 {
    match i64::try_from(length) {
        Ok(length) => ts.saturating_add(length - 1 - ts.rem_euclid(length)),
        // With this length, one pane contains all times below 0, and another one contains the rest.
        Err(_) if ts < 0 => -1,
        Err(_) => i64::MAX,
    }
}

/// Returns the first time of the pane that contains `ts`.
pub(crate) fn pane_begin(ts: i64, length: u64) -> i64 {
    match i64::try_from(length) {
        Ok(length) => ts.saturating_sub(ts.rem_euclid(length)),
        Err(_) if ts < 0 => i64::MIN,
        Err(_) => 0,
    }
}

/// Returns the first row in each nonempty pane, followed by the number of rows. The rows must be in
/// time order.
pub(crate) fn pane_borders(
    ts: &[i64],
    length: Option<u64>,
    driver: &Driver,
) -> Result<Vec<u32>, Stopped> {
    let Some(length) = length else { return Ok(vec![0, ts.len() as u32]) };
    let of_part = |part: Range<usize>| {
        let after = |row: usize, from: usize| {
            let end = pane_end(ts[row], length);
            gallop(&ts[..part.end], from as u32, |ts| ts <= end) as usize
        };
        let mut borders = Vec::new();
        let mut row = part.start.checked_sub(1).map_or(0, |before| after(before, part.start));
        while row < part.end {
            memory::reserve(&mut borders, 1);
            borders.push(row as u32);
            row = after(row, row + 1);
        }
        borders
    };
    let parts = driver.map(ranges(ts.len(), driver.parts(ts.len(), PART_ROWS)), of_part)?;
    let mut borders = memory::vec(parts.iter().map(Vec::len).sum::<usize>() + 1);
    parts.iter().for_each(|part| borders.extend_from_slice(part));
    borders.push(ts.len() as u32);
    Ok(borders)
}

/// Right rows sorted by key and time.
struct RightGroups<'a> {
    /// The run of each left row.
    runs: &'a [Run],
    /// The row at each position. `None` if positions are row numbers.
    rows: Option<&'a [u32]>,
    /// The time of each row, indexed by row number.
    ts: &'a [i64],
    starts: &'a [u32],
}

impl RightGroups<'_> {
    #[inline]
    fn ts(&self, place: u32) -> i64 {
        self.ts[self.rows.map_or(place, |rows| rows[place as usize]) as usize]
    }

    /// Returns the first position between `from` and `to` at which `before` returns `false` for the
    /// time. Times for which `before` returns `true` must precede all other times.
    fn search(&self, from: u32, to: u32, before: impl Fn(i64) -> bool) -> u32 {
        let (mut low, mut high) = (from, to);
        while low < high {
            let middle = low + (high - low) / 2;
            match before(self.ts(middle)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// Returns, for each position, the first position with the same key in the same pane. Returns
    /// `None` if panes are unbounded.
    fn pane_starts(&self, length: Option<u64>, driver: &Driver) -> Result<Pages<u32>, Stopped> {
        let count = self.starts[self.starts.len() - 1] as usize;
        let mut pane_starts = Pages::unwritten(count);
        let mut rest = &mut pane_starts[..];
        let mut parts = Vec::new();
        for part in ranges(count, driver.parts(count, PART_ROWS)) {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(part.len());
            rest = others;
            parts.push((part.start as u32, own));
        }
        let end_of = |ts| length.map_or(i64::MAX, |length| pane_end(ts, length));
        driver.map(parts, |(first, slots): (u32, &mut [Slot<u32>])| {
            if slots.is_empty() {
                return;
            }
            // The last key that starts at or before the first position and has rows.
            let mut key = self.starts.partition_point(|&start| start <= first) - 1;
            let begin = length.map_or(i64::MIN, |length| pane_begin(self.ts(first), length));
            let mut start = self.search(self.starts[key], first, |ts| ts < begin);
            let mut end = end_of(self.ts(first));
            for (place, slot) in (first..).zip(slots) {
                let mut is_new = false;
                while self.starts[key + 1] <= place {
                    key += 1;
                    is_new = true;
                }
                let ts = self.ts(place);
                if is_new || ts > end {
                    (start, end) = (place, end_of(ts));
                }
                slot.set(start);
            }
        })?;
        Ok(pane_starts.written())
    }

    /// Returns the position of the last right row before each left row's interval.
    fn prevailing(
        &self,
        left: JoinColumns<'_>,
        interval: &Interval,
        driver: &Driver,
    ) -> Result<Pages<u32>, Stopped> {
        let mut found = Pages::unwritten(left.ts.len());
        let tasks = found.chunks_mut(PART_ROWS).enumerate().collect();
        driver.map(tasks, |(task, found): (usize, &mut [Slot<u32>])| {
            for (row, slot) in (task * PART_ROWS..).zip(found) {
                slot.set(self.prevails(left, row, interval).unwrap_or(NO_ROW));
            }
        })?;
        Ok(found.written())
    }

    fn prevails(&self, left: JoinColumns<'_>, row: usize, interval: &Interval) -> Option<u32> {
        let key = left.keys.map_or(0, |keys| keys[row]);
        if key == NO_KEY {
            return None;
        }
        let run = self.runs[row];
        let (start, end) = (self.starts[key as usize], self.starts[key as usize + 1]);
        let first = match (run.len(), interval.first(left.ts[row])) {
            (0, Some(first)) => self.search(start, end, |ts| ts < first),
            // The interval begins after all possible times.
            (0, None) => end,
            _ => run.start,
        };
        (first > start).then(|| first - 1)
    }
}
