//! Keeps the matches that satisfy a condition made up of comparisons and bands.

use std::ops::Range;
use std::sync::Arc;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::{Matches, Run};
use crate::driver::{Driver, Stopped};
use crate::predicate::{Index, News, Ranges, ScanColumns, Term};
use crate::rows::Side;

/// The number of pairs in a task. With tasks of this size, a stop is noticed within milliseconds.
const TASK_PAIRS: u64 = 1 << 24;

/// The maximum number of rows in a task. This maximum limits the memory needed for the rows'
/// ranges.
const TASK_ROWS: usize = 1 << 14;

/// The maximum numbers of pairs and rows in a task if rows are looked up. With lookups, pairs cost
/// nothing unless a row has many candidates. Comparing the pairs of a task then takes 0.1 s.
const LOOKED_UP: (u64, usize) = (1 << 32, 1 << 12);

impl Matches {
    /// Returns a window with the right rows in run order, or `None` if [`ScanColumns::new`] returns
    /// `None`.
    pub fn window(&self, terms: &[Term]) -> Option<ScanColumns> {
        let rows = self.rows.as_ref().map_or(self.right_rows, |rows| rows.len());
        let mut window = ScanColumns::new(terms, Side::Right, self.rows(), rows)?;
        window.tune(terms, Side::Right, self.rows(), self.runs.len());
        Some(window)
    }

    /// Returns an index of the window if looking up rows takes less time than comparing all pairs.
    pub fn index(
        &self,
        terms: &[Term],
        window: &ScanColumns,
        driver: &Driver,
    ) -> Result<Option<Index>, Stopped> {
        let news = News { side: Side::Left, rows: self.runs.len(), is_growing: false };
        Index::choose(window, terms, news, |row| self.runs[row].start..self.runs[row].end, driver)
    }

    fn places_of(&self, rows: Range<usize>) -> Vec<Range<u32>> {
        self.runs[rows].iter().map(|run| run.start..run.end).collect()
    }

    /// Returns the matches of the left rows in `page` that satisfy all terms. `window` contains the
    /// right rows, and `index` is the window's index, if it has one.
    pub fn scan(
        &self,
        page: Range<usize>,
        terms: &[Term],
        (window, index): (&ScanColumns, Option<&Index>),
        driver: &Driver,
    ) -> Result<Matches, Stopped> {
        let tasks = match index {
            None => {
                let pairs = self.pairs_of(page.clone()) / (4 * driver.threads() as u64);
                self.tasks(page.clone(), (pairs.clamp(TASK_PAIRS / 16, TASK_PAIRS), TASK_ROWS))
            }
            Some(_) => self.tasks(page.clone(), LOOKED_UP),
        };
        let found = driver.map(tasks, |task| {
            let runs = self.places_of(task.clone());
            let first = self.first_left as usize + task.start;
            let ranges = Ranges::new(window, terms, Side::Left, first..first + runs.len());
            let mut found = vec![Vec::new(); runs.len()];
            match index {
                None => window.find(&ranges, &runs, &mut found),
                Some(index) => {
                    index.find(window, &ranges, &runs, &mut found);
                }
            }
            let lengths: Vec<u32> = found.iter().map(|places| places.len() as u32).collect();
            let mut rows = memory::concat(&found);
            if let Some(numbers) = &self.rows {
                rows.iter_mut().for_each(|row| *row = numbers[*row as usize]);
            }
            if !self.ascending {
                let mut rest = &mut rows[..];
                for &length in &lengths {
                    let (of_row, others) = std::mem::take(&mut rest).split_at_mut(length as usize);
                    of_row.sort_unstable();
                    rest = others;
                }
            }
            (lengths, rows)
        })?;
        let mut runs = Pages::unwritten(page.len());
        let mut rows = Pages::unwritten(found.iter().map(|(_, rows)| rows.len()).sum());
        let (mut row, mut filled) = (0, 0);
        for (lengths, found) in found {
            Slot::copy(&mut rows[filled..filled + found.len()], &found);
            for length in lengths {
                runs[row].set(Run { start: filled as u32, end: filled as u32 + length });
                filled += length as usize;
                row += 1;
            }
        }
        let first_left = self.first_left + page.start as u32;
        let (runs, rows) = (runs.written(), rows.written());
        Ok(Matches {
            runs,
            first_left,
            rows: Some(Arc::new(rows)),
            ascending: true,
            right_rows: self.right_rows,
            are_partners: false,
        })
    }

    /// Divides the rows in a page into tasks. The number of pairs and rows per task is limited.
    fn tasks(
        &self,
        page: Range<usize>,
        (most_pairs, most_rows): (u64, usize),
    ) -> Vec<Range<usize>> {
        let mut tasks = Vec::new();
        let (mut start, mut pairs) = (page.start, 0);
        for row in page.clone() {
            pairs += self.runs[row].len() as u64;
            if pairs >= most_pairs || row + 1 - start == most_rows {
                tasks.push(start..row + 1);
                (start, pairs) = (row + 1, 0);
            }
        }
        if start < page.end {
            tasks.push(start..page.end);
        }
        tasks
    }
}
