//! Narrows each run to the rows that also satisfy the bands of the remaining columns.

use std::ops::Range;

use tidegate_structures::memory::pages::Pages;
use tidegate_structures::memory::select::select_within;

use super::Matches;
use super::pieces::{RowLists, cut};
use crate::driver::{Driver, Stopped};

/// A column whose values determine which candidates are kept.
#[derive(Debug)]
pub struct Check {
    /// The smallest and the largest accepted value for each left row.
    bounds: Pages<[i64; 2]>,
    /// The value at each position.
    values: Pages<i64>,
}

impl Check {
    /// Creates a check that compares the value at each position with the bounds of left rows.
    pub(crate) fn new(bounds: Pages<[i64; 2]>, values: Pages<i64>) -> Self {
        Check { bounds, values }
    }
}

impl Matches {
    /// Returns the matches of the left rows in `page` that pass all `checks`, in row order.
    pub fn narrow(
        &self,
        page: Range<usize>,
        checks: &[Check],
        driver: &Driver,
    ) -> Result<Matches, Stopped> {
        let pieces = cut(page.clone(), |left| self.runs[left].len());
        let kept = driver.map_with(pieces, Vec::new, |places, piece| {
            let mut found = RowLists::default();
            for left in piece {
                places.clear();
                self.check(left, checks, places);
                let before = found.rows.len();
                found.rows.extend(places.iter().map(|&place| self.row(place)));
                if !self.ascending {
                    found.rows[before..].sort_unstable();
                }
                found.lengths.push(places.len() as u32);
            }
            found
        })?;
        let first_left = self.first_left + page.start as u32;
        Matches::of_pieces(kept, first_left, page.len(), self.right_rows, driver)
    }

    /// Appends the positions in a left row's run that pass all checks.
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
}
