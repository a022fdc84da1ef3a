//! Lists of the rows that are open at certain times.
//!
//! A *window* begins at a certain time. The window lists a key's rows that started before that time
//! and end at that time or later. A row that is open at a given time is therefore in the list of
//! the last window that begins before this time, or it has started since that window began.
//!
//! A new window begins once as many rows have ended in the current window as are still open. Until
//! then, more than half of the rows that were listed or that started later are still open. The new
//! list has no more entries than the number of rows that have ended in the current window. So the
//! lists together have no more entries than there are rows.

use std::sync::Arc;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use super::by_place;
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::order::{Groups, gallop};

/// The minimum number of rows that end in a window. Comparing fewer rows takes less time than
/// finding a window.
const ENDED: u32 = 8;

/// The right rows with which a left row is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct WindowReach {
    /// The last window that begins before the row starts.
    pub(super) window: u32,
    /// The position after the last right row that starts before the row ends.
    pub(super) end: u32,
}

/// A window. Each window's list ends where the next window's list begins.
#[derive(Clone, Copy, Debug)]
struct OverlapWindow {
    /// The position of the first row that starts in the window.
    first: u32,
    /// The start of the window's list.
    list: u32,
}

/// The windows over the right rows, for all keys.
#[derive(Debug)]
pub(super) struct OverlapWindows {
    /// For each key, the number of its first window. The last entry is the number of windows.
    starts: Vec<u32>,
    /// The start time of each window. The first window of a key begins at the earliest possible
    /// time.
    times: Vec<i64>,
    /// The windows, followed by an entry that marks the end of the lists.
    windows: Vec<OverlapWindow>,
    /// The listed positions, in ascending order within each list.
    open: Vec<u32>,
    /// The end of the row at each position.
    ends: Pages<i64>,
    /// The number of the row at each position. `None` if positions are row numbers.
    numbers: Option<Arc<Pages<u32>>>,
    /// `true` if each key's row numbers are in ascending order.
    ascending: bool,
}

/// The windows for a range of keys.
#[derive(Default)]
struct KeyWindows {
    /// The number of windows for each key.
    counts: Vec<u32>,
    times: Vec<i64>,
    windows: Vec<OverlapWindow>,
    open: Vec<u32>,
}

impl OverlapWindows {
    /// Creates the windows of rows that are grouped by key and start. `ends` contains the end of
    /// each row, and `sorted_ends` contains each key's ends in sorted order.
    pub(super) fn new(
        groups: &Groups<'_>,
        ends: &[i64],
        sorted_ends: &[i64],
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let ends = by_place(ends, groups.numbers(), driver)?;
        let keys = groups.starts.len() - 1;
        let mut tasks = Vec::new();
        let mut first = 0;
        for key in 0..keys {
            let rows = groups.starts[key + 1] - groups.starts[first];
            if rows as usize >= PART_ROWS || key + 1 == keys {
                tasks.push(first..key + 1);
                first = key + 1;
            }
        }
        let parts = driver.map(tasks, |keys| {
            let mut part = KeyWindows::default();
            for key in keys {
                let at = groups.starts[key] as usize..groups.starts[key + 1] as usize;
                part.add(groups.ts(), &ends, sorted_ends, at);
            }
            part
        })?;
        let mut windows = OverlapWindows {
            starts: vec![0],
            times: Vec::new(),
            windows: Vec::new(),
            open: Vec::new(),
            ends,
            numbers: None,
            ascending: groups.ascending(),
        };
        for part in parts {
            let listed = place(windows.open.len());
            for count in part.counts {
                windows.starts.push(windows.starts[windows.starts.len() - 1] + count);
            }
            let moved =
                |window: OverlapWindow| OverlapWindow { list: window.list + listed, ..window };
            memory::reserve(&mut windows.open, part.open.len());
            memory::reserve(&mut windows.times, part.times.len());
            memory::reserve(&mut windows.windows, part.windows.len() + 1);
            windows.times.extend(part.times);
            windows.windows.extend(part.windows.into_iter().map(moved));
            windows.open.extend(part.open);
        }
        let end = OverlapWindow { first: 0, list: place(windows.open.len()) };
        // Rows without partners have the first window, even if there is none.
        windows.windows.extend(if windows.times.is_empty() { vec![end; 2] } else { vec![end] });
        Ok(windows)
    }

    /// Returns the same windows, together with the numbers of the rows.
    pub(super) fn with_numbers(self, groups: Groups<'_>) -> Self {
        OverlapWindows { numbers: groups.into_numbers(), ..self }
    }

    /// Returns the windows of a key.
    #[inline]
    pub(super) fn of_key(&self, key: u32) -> std::ops::Range<u32> {
        self.starts[key as usize]..self.starts[key as usize + 1]
    }

    /// Returns the start time of each window.
    pub(super) fn times(&self) -> &[i64] {
        &self.times
    }

    /// Returns the position of the first row that starts in a window.
    #[inline]
    pub(super) fn first_after(&self, window: u32) -> u32 {
        self.windows[window as usize].first
    }

    /// Returns the number of right rows with which a left row is compared.
    #[inline]
    pub(super) fn candidates(&self, reached: WindowReach) -> usize {
        let [window, next] = [0, 1].map(|nth| self.windows[reached.window as usize + nth]);
        (next.list - window.list) as usize + reached.end.saturating_sub(window.first) as usize
    }

    /// Finds the right rows that overlap a left row with this start, and appends them to `rows` in
    /// row order. Returns the number of appended rows. `places` is memory for reuse.
    #[inline]
    pub(super) fn list(
        &self,
        reached: WindowReach,
        start: i64,
        places: &mut Vec<u32>,
        rows: &mut Vec<u32>,
    ) -> u32 {
        let [window, next] = [0, 1].map(|nth| self.windows[reached.window as usize + nth]);
        let candidates = self.candidates(reached);
        if candidates >= places.len() {
            let more = candidates + 1 - places.len();
            memory::reserve(places, more);
            places.resize(candidates + 1, 0);
        }
        // No branch depends on whether a row is open.
        let mut count = 0;
        for &place in &self.open[window.list as usize..next.list as usize] {
            places[count] = place;
            let is_open = self.ends[place as usize] >= start && place < reached.end;
            count += usize::from(is_open);
        }
        if window.first < reached.end {
            let ends = &self.ends[window.first as usize..reached.end as usize];
            for (&end, place) in ends.iter().zip(window.first..) {
                places[count] = place;
                count += usize::from(end >= start);
            }
        }
        let places = &places[..count];
        memory::reserve(rows, count);
        match &self.numbers {
            None => rows.extend_from_slice(places),
            Some(numbers) => {
                let before = rows.len();
                rows.extend(places.iter().map(|&place| numbers[place as usize]));
                if !self.ascending {
                    rows[before..].sort_unstable();
                }
            }
        }
        count as u32
    }
}

/// Converts a position in the lists to 32 bits. The lists have no more entries than there are rows.
fn place(at: usize) -> u32 {
    u32::try_from(at).expect("rows must not end before they start")
}

impl KeyWindows {
    /// Adds the windows of a key whose rows are at positions `at`.
    fn add(
        &mut self,
        starts: &[i64],
        ends: &[i64],
        sorted_ends: &[i64],
        at: std::ops::Range<usize>,
    ) {
        if at.is_empty() {
            return self.counts.push(0);
        }
        let windows = self.windows.len();
        let (starts, sorted_ends) = (&starts[..at.end], &sorted_ends[..at.end]);
        // The last window: the position of its first row, the number of rows that have ended before
        // it, and the start of its list.
        let (mut first, mut ended, mut list) = (at.start as u32, at.start, self.open.len());
        self.begin(i64::MIN, first, list);
        // A lower bound on the number of rows that have to end before the next window begins.
        let mut wanted = ENDED as usize;
        while let Some(&end) = sorted_ends.get(ended + wanted - 1) {
            let Some(time) = end.checked_add(1) else { break };
            let next_first = gallop(starts, first, |start| start < time);
            let have_ended = gallop(sorted_ends, (ended + wanted) as u32, |other| other < time);
            let listed = self.open.len() - list;
            let open_or_ended = listed + (next_first - first) as usize;
            if 2 * (have_ended as usize - ended) < open_or_ended {
                // Meanwhile, more rows can start, but not fewer.
                wanted = open_or_ended.div_ceil(2);
                continue;
            }
            let next_list = self.open.len();
            memory::reserve(&mut self.open, open_or_ended);
            let is_open = |place: u32| ends[place as usize] >= time;
            for nth in list..next_list {
                let place = self.open[nth];
                if is_open(place) {
                    self.open.push(place);
                }
            }
            self.open.extend((first..next_first).filter(|&place| is_open(place)));
            (first, ended, list) = (next_first, have_ended as usize, next_list);
            self.begin(time, first, list);
            wanted = ENDED as usize;
        }
        self.counts.push((self.windows.len() - windows) as u32);
    }

    fn begin(&mut self, time: i64, first: u32, list: usize) {
        self.times.push(time);
        self.windows.push(OverlapWindow { first, list: place(list) });
    }
}
