//! Lists of the rows that are open at some times.
//!
//! A *window* begins at a time, and lists the rows of a key that started before it and end at it or
//! later. So a row that is open at a time is in the list of the last window that begins before this
//! time, or has started since.
//!
//! A window begins where as many rows have ended since the last one as are still open. At any time
//! before, more than half of the rows that were listed, or have started since, are open. And the new
//! list is no longer than the number of rows that have ended since the last one, so that all lists
//! have as many entries as there are rows, at most.

use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use super::by_place;
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::order::{Groups, gallop};

/// The fewest rows that end in a window: comparing a few rows takes less time than finding a
/// window.
const ENDED: u32 = 8;

/// How far a left row reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct WindowReach {
    /// The last window that begins before the row starts.
    pub(super) window: u32,
    /// The place after the last right row that starts before the row ends.
    pub(super) end: u32,
}

/// A window. Its list ends where the next one's begins.
#[derive(Clone, Copy, Debug)]
struct OverlapWindow {
    /// The place of the first row that starts in it.
    first: u32,
    /// Where its list begins.
    list: u32,
}

/// The windows of all keys, over the right rows.
#[derive(Debug)]
pub(super) struct OverlapWindows {
    /// The first window of each key, and the number of windows.
    starts: Vec<u32>,
    /// When each begins; the first one of a key is there from the beginning.
    times: Vec<i64>,
    /// Last, the end of the lists.
    windows: Vec<OverlapWindow>,
    /// The places that are listed, ascending in each list.
    open: Vec<u32>,
    /// The end of the row at each place.
    ends: Pages<i64>,
    /// The number of the row at each place; `None` where a row's place is its number.
    numbers: Option<Pages<u32>>,
    /// Whether the numbers of each key ascend.
    ascending: bool,
}

/// The windows of some neighbouring keys.
#[derive(Default)]
struct KeyWindows {
    /// How many windows each key has.
    counts: Vec<u32>,
    times: Vec<i64>,
    windows: Vec<OverlapWindow>,
    open: Vec<u32>,
}

impl OverlapWindows {
    /// The windows of rows that are grouped by key and start, given the end of each row, and the
    /// ends in order within each key.
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
        // Rows without partners have the first window, also where there is none.
        windows.windows.extend(if windows.times.is_empty() { vec![end; 2] } else { vec![end] });
        Ok(windows)
    }

    /// The same, with the numbers of the rows.
    pub(super) fn with_numbers(self, groups: Groups<'_>) -> Self {
        OverlapWindows { numbers: groups.into_numbers(), ..self }
    }

    /// The windows of a key.
    #[inline]
    pub(super) fn of_key(&self, key: u32) -> std::ops::Range<u32> {
        self.starts[key as usize]..self.starts[key as usize + 1]
    }

    /// When each window begins.
    pub(super) fn times(&self) -> &[i64] {
        &self.times
    }

    /// The place of the first row that starts in a window.
    #[inline]
    pub(super) fn first_after(&self, window: u32) -> u32 {
        self.windows[window as usize].first
    }

    /// How many right rows a left row is compared with.
    #[inline]
    pub(super) fn candidates(&self, reached: WindowReach) -> usize {
        let [window, next] = [0, 1].map(|nth| self.windows[reached.window as usize + nth]);
        (next.list - window.list) as usize + reached.end.saturating_sub(window.first) as usize
    }

    /// Adds the right rows that overlap a left row with this start to `rows`, in row order, and
    /// returns how many. `places` is scratch.
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

/// A place in the lists, which have no more entries than there are rows.
fn place(at: usize) -> u32 {
    u32::try_from(at).expect("rows that do not end before they start")
}

impl KeyWindows {
    /// Adds the windows of the key whose rows are at these places.
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
        // The last window: the place of the first row in it, the rows that have ended before it,
        // and where its list is.
        let (mut first, mut ended, mut list) = (at.start as u32, at.start, self.open.len());
        self.begin(i64::MIN, first, list);
        // The rows that have to end before the next one, as far as is known.
        let mut wanted = ENDED as usize;
        while let Some(&end) = sorted_ends.get(ended + wanted - 1) {
            let Some(time) = end.checked_add(1) else { break };
            let next_first = gallop(starts, first, |start| start < time);
            let have_ended = gallop(sorted_ends, (ended + wanted) as u32, |other| other < time);
            let listed = self.open.len() - list;
            let open_or_ended = listed + (next_first - first) as usize;
            if 2 * (have_ended as usize - ended) < open_or_ended {
                // By then more rows may have started, never fewer.
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
