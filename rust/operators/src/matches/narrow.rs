//! Narrows each run to the rows that lie in the bands of further columns.

use std::ops::Range;

use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::select::select_within;

use super::{Matches, Run};
use crate::driver::{Driver, Stopped};

/// Candidates of a task: enough to amortise it, few enough that a stop is seen soon and threads
/// finish together.
const TASK_CANDIDATES: usize = 1 << 16;

/// A column whose values decide which candidates stay.
#[derive(Debug)]
pub struct Check {
    /// The first and the last value that stays, for each left row.
    bounds: Pages<[i64; 2]>,
    /// The value at each place.
    values: Pages<i64>,
}

impl Check {
    /// A check of the values at places against bounds of left rows.
    pub(crate) fn new(bounds: Pages<[i64; 2]>, values: Pages<i64>) -> Self {
        Check { bounds, values }
    }
}

impl Matches {
    /// The matches of the left rows of `page` that all `checks` leave, in row order.
    pub fn narrow(
        &self,
        page: Range<usize>,
        checks: &[Check],
        driver: &Driver,
    ) -> Result<Matches, Stopped> {
        let kept = driver.map_with(self.pieces(page.clone()), Vec::new, |places, task| {
            let mut lengths = Vec::with_capacity(task.len());
            let mut rows = Vec::new();
            for left in task {
                places.clear();
                self.check(left, checks, places);
                let before = rows.len();
                rows.extend(places.iter().map(|&place| self.row(place)));
                if !self.ascending {
                    rows[before..].sort_unstable();
                }
                lengths.push(places.len() as u32);
            }
            (lengths, rows)
        })?;
        let mut runs = Pages::unwritten(page.len());
        let mut rows = Pages::unwritten(kept.iter().map(|(_, rows)| rows.len()).sum());
        let (mut left, mut end) = (0, 0);
        for (lengths, kept) in kept {
            Slot::copy(&mut rows[end as usize..end as usize + kept.len()], &kept);
            for length in lengths {
                runs[left].set(Run { start: end, end: end + length });
                (left, end) = (left + 1, end + length);
            }
        }
        let first_left = self.first_left + page.start as u32;
        let (runs, rows) = (runs.written(), rows.written());
        Ok(Matches {
            runs,
            first_left,
            rows: Some(rows),
            ascending: true,
            right_rows: self.right_rows,
            are_partners: false,
        })
    }

    /// Adds the places of a left row's run that all checks leave.
    fn check(&self, left: usize, checks: &[Check], places: &mut Vec<u32>) {
        let run = self.runs[left];
        let [first, others @ ..] = checks else { return places.extend(run.start..run.end) };
        let row = self.first_left as usize + left;
        let [low, high] = first.bounds[row];
        select_within(
            &first.values[run.start as usize..run.end as usize],
            low,
            high,
            run.start,
            places,
        );
        for check in others {
            let [low, high] = check.bounds[row];
            places.retain(|&place| (low..=high).contains(&check.values[place as usize]));
        }
    }

    /// Cuts left rows such that each piece, but one of a single row, has a bounded number of pairs.
    fn pieces(&self, page: Range<usize>) -> Vec<Range<usize>> {
        let mut tasks = Vec::new();
        let (mut start, mut work) = (page.start, 0);
        for row in page.clone() {
            // A row costs something also if it has no candidate.
            work += self.runs[row].len() + 4;
            if work >= TASK_CANDIDATES {
                tasks.push(start..row + 1);
                (start, work) = (row + 1, 0);
            }
        }
        tasks.push(start..page.end);
        tasks
    }
}
