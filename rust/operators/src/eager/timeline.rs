//! The rows on one side that have the same key, in time order.
//!
//! Most rows arrive approximately in time order, so they are inserted near the end. Rows are stored
//! in runs of limited length. Inserting a row that arrives much later than others with similar
//! times then moves only a few rows.

use std::collections::VecDeque;

use tidegate_structures::memory::gather::prefetch;

/// The maximum number of rows in a run.
const RUN_ROWS: usize = if cfg!(test) { 4 } else { 256 };

/// The time of a row and the low bits of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) ts: i64,
    pub(super) number: u32,
}

/// Rows in time order.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// The last run. Most timelines consist of this run alone.
    last: Vec<Entry>,
    /// The runs before the last one. No run is empty.
    #[allow(
        clippy::box_collection,
        reason = "one pointer per key, since most keys have no such runs"
    )]
    former: Option<Box<VecDeque<Vec<Entry>>>>,
}

/// Returns the time of the first or last row in a run. The run must not be empty.
fn end(run: &[Entry], at: usize) -> i64 {
    run[at].ts
}

impl Timeline {
    /// Adds a row. Rows before `bound` are no longer needed.
    #[inline]
    pub(super) fn insert(&mut self, entry: Entry, bound: i64) {
        if self.last.len() == self.last.capacity() {
            self.make_room(bound);
        }
        let newest = match (self.last.last(), &self.former) {
            (Some(last), _) => Some(last.ts),
            (None, Some(former)) => former.back().map(|run| end(run, run.len() - 1)),
            (None, None) => None,
        };
        if newest.is_none_or(|newest| newest <= entry.ts) {
            self.last.push(entry);
        } else {
            self.insert_within(entry);
        }
    }

    /// Prefetches the memory of the newest rows.
    #[inline(always)]
    pub(super) fn ask(&self) {
        prefetch(&self.last, self.last.len().saturating_sub(2));
    }

    /// Drops the rows before `bound`, or begins another run if the last one is full.
    #[inline(never)]
    fn make_room(&mut self, bound: i64) {
        let over = self.last.partition_point(|entry| entry.ts < bound);
        // At most as many rows are moved as are dropped.
        if over * 2 >= self.last.len() {
            self.last.drain(..over);
        }
        if self.last.len() < RUN_ROWS {
            let more = self.last.len().max(4).min(RUN_ROWS - self.last.len());
            self.last.reserve_exact(more);
            return;
        }
        let full = std::mem::replace(&mut self.last, Vec::with_capacity(RUN_ROWS));
        let former = self.former.get_or_insert_default();
        while former.front().is_some_and(|run| end(run, run.len() - 1) < bound) {
            former.pop_front();
        }
        former.push_back(full);
    }

    /// Adds a row that is earlier than the last one.
    #[inline(never)]
    fn insert_within(&mut self, entry: Entry) {
        let is_in_last = self.last.first().is_some_and(|first| first.ts <= entry.ts);
        let former = match &mut self.former {
            Some(former) if !is_in_last && !former.is_empty() => former,
            _ => {
                let at = self.last.partition_point(|other| other.ts <= entry.ts);
                self.last.insert(at, entry);
                return;
            }
        };
        // The last run that begins at or before the row, or the first run.
        let at = former.partition_point(|run| end(run, 0) <= entry.ts).saturating_sub(1);
        let run = &mut former[at];
        let place = run.partition_point(|other| other.ts <= entry.ts);
        if run.len() < RUN_ROWS {
            run.insert(place, entry);
            return;
        }
        let half = run.len() / 2;
        let mut second = Vec::with_capacity(RUN_ROWS);
        second.extend_from_slice(&run[half..]);
        run.truncate(half);
        match place.checked_sub(half) {
            Some(place) => second.insert(place, entry),
            None => run.insert(place, entry),
        }
        former.insert(at + 1, second);
    }

    /// Appends to `found` the numbers of the rows with times from `first` to `last`.
    #[inline]
    pub(super) fn find(&self, first: i64, last: i64, found: &mut Vec<u32>) {
        if let Some(former) = &self.former {
            let begin = former.partition_point(|run| end(run, run.len() - 1) < first);
            for run in former.range(begin..) {
                if end(run, 0) > last {
                    return;
                }
                take(run, first, last, found);
            }
        }
        take(&self.last, first, last, found);
    }

    /// Assigns each row the number that `renumber` returns, and drops the rows for which it returns
    /// `None`.
    pub(super) fn renumber(&mut self, renumber: impl Fn(u32) -> Option<u32>) {
        let keep = |run: &mut Vec<Entry>| {
            run.retain_mut(|entry| {
                renumber(entry.number).map(|number| entry.number = number).is_some()
            });
            run.shrink_to_fit();
        };
        keep(&mut self.last);
        if let Some(former) = &mut self.former {
            former.iter_mut().for_each(keep);
            former.retain(|run| !run.is_empty());
            former.shrink_to_fit();
        }
    }

    /// Returns the amount of memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        let of_run = |run: &Vec<Entry>| run.capacity() * size_of::<Entry>();
        let of_former = |former: &VecDeque<Vec<Entry>>| {
            former.capacity() * size_of::<Vec<Entry>>() + former.iter().map(of_run).sum::<usize>()
        };
        of_run(&self.last) + self.former.as_deref().map_or(0, of_former)
    }
}

/// Appends to `found` the numbers of a run's rows with times from `first` to `last`.
#[inline]
fn take(run: &[Entry], first: i64, last: i64, found: &mut Vec<u32>) {
    let run = &run[..behind(run, |ts| ts <= last)];
    let start = behind(run, |ts| ts < first);
    found.extend(run[start..].iter().map(|entry| entry.number));
}

/// Returns the number of rows in a run that satisfy `holds`. These rows must be the first rows in
/// the run. Usually, all but a few rows satisfy `holds`, so the search begins at the end.
#[inline]
fn behind(run: &[Entry], holds: impl Fn(i64) -> bool) -> usize {
    const FEW: usize = 8;
    let (few, mut rows) = (run.len().saturating_sub(FEW), run.len());
    while rows > few {
        if holds(run[rows - 1].ts) {
            return rows;
        }
        rows -= 1;
    }
    run[..rows].partition_point(|entry| holds(entry.ts))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn oracle_a_list_that_is_sorted_again(
            rows in prop::collection::vec((0_i64..60, 0_i64..12), 1..200),
            window in 0_i64..20,
        ) {
            let (mut timeline, mut list) = (Timeline::default(), Vec::new());
            let mut bound = i64::MIN;
            for (number, (ts, rise)) in rows.into_iter().enumerate() {
                let entry = Entry { ts: ts.max(bound), number: number as u32 };
                timeline.insert(entry, bound);
                list.push(entry);
                // The sort is stable: rows with equal times stay in order of arrival.
                list.sort_by_key(|entry| entry.ts);
                if rise == 0 {
                    bound = bound.max(ts - 30);
                }
                let (first, last) = (bound.max(ts - window), ts + window);
                let mut found = Vec::new();
                timeline.find(first, last, &mut found);
                let expected: Vec<u32> = list
                    .iter()
                    .filter(|entry| (first..=last).contains(&entry.ts))
                    .map(|entry| entry.number)
                    .collect();
                prop_assert_eq!(found, expected);
            }
            timeline.renumber(|number| (number % 3 > 0).then_some(number + 1));
            let mut found = Vec::new();
            timeline.find(bound, i64::MAX, &mut found);
            let kept = list.iter().filter(|entry| entry.ts >= bound && entry.number % 3 > 0);
            prop_assert_eq!(found, kept.map(|entry| entry.number + 1).collect::<Vec<_>>());
        }
    }
}
