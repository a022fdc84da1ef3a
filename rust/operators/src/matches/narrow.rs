//! Narrows each run to the rows that lie in the bands of further columns.

use std::ops::Range;

use tidegate_structures::memory::pages::Pages;
use tidegate_structures::memory::select::select_within;

use super::Matches;
use super::pieces::{RowLists, cut};
use crate::driver::{Driver, Stopped};

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
}
