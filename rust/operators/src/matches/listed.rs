//! Creates matches from pairs in any order.

use std::sync::Arc;

use tidegate_structures::memory::pages::Pages;
use tidegate_structures::memory::partition::{ranges, split_buckets};

use super::{Matches, Run};
use crate::driver::{Driver, PART_ROWS, Stopped};

impl Matches {
    /// Creates matches from two lists, which contain the left and right row numbers of the pairs.
    /// Each pair must be listed exactly once.
    ///
    /// # Panics
    ///
    /// Panics if there are at least 2^32 pairs, or if a number is out of bounds.
    pub fn of_pairs(
        pairs: &[(Vec<u32>, Vec<u32>)],
        left_rows: usize,
        right_rows: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let count = pairs.iter().map(|(left, _)| left.len()).sum::<usize>();
        assert!(u32::try_from(count).is_ok(), "positions fit in 32 bits");
        // 1. Count the pairs of each left row, which determines the start of its run.
        let mut runs = Pages::filled(left_rows, Run::default());
        for (left, _) in pairs {
            driver.check()?;
            left.iter().for_each(|&row| runs[row as usize].end += 1);
        }
        let mut end = 0;
        for run in runs.iter_mut() {
            (run.start, end) = (end, end + run.end);
            run.end = run.start;
        }
        // 2. Copy its right rows there, and sort them.
        let mut rows = Pages::<u32>::unwritten(count);
        for (left, right) in pairs {
            driver.check()?;
            for (&left, &right) in left.iter().zip(right) {
                let run = &mut runs[left as usize];
                rows[run.end as usize].set(right);
                run.end += 1;
            }
        }
        let mut rows = rows.written();
        let parts = ranges(left_rows, driver.parts(left_rows, PART_ROWS));
        let start = |row: usize| runs.get(row).map_or(count as u32, |run| run.start);
        let starts: Vec<u32> =
            parts.iter().map(|part| start(part.start)).chain([count as u32]).collect();
        let work: Vec<_> = split_buckets(&mut rows, &starts).into_iter().zip(parts).collect();
        driver.map(work, |(rows, part): (&mut [u32], std::ops::Range<usize>)| {
            let first = start(part.start);
            for run in &runs[part] {
                rows[(run.start - first) as usize..(run.end - first) as usize].sort_unstable();
            }
        })?;
        Ok(Matches::new(runs, Some(Arc::new(rows)), true, right_rows))
    }
}
