//! The pairs of a join, which are found page by page.

use std::sync::Arc;

use tidegate_operators::driver::Driver;
use tidegate_operators::matches::{Check, Matches};
use tidegate_operators::overlap::Overlaps;

use super::condition::Condition;
use crate::Result;
use crate::columns::expression::Predicate;
use crate::columns::table::Table;
use crate::columns::time::Int64s;

/// The number of pairs that are checked at a time. All of these pairs might be in the result.
const CHECKED_PAIRS: u64 = 1 << 26;

/// If pairs are listed, the total number of right rows that are compared with a page's left rows.
/// The number is limited because the first batch cannot be built until a page is complete.
const LISTED_PAIRS: u64 = 1 << 22;

/// The pairs of a join, which are found page by page.
#[derive(Debug)]
pub(super) struct Pairs {
    pub(super) candidates: Candidates,
    pub(super) condition: Option<Condition>,
}

/// Pairs of rows, of which the result contains those that satisfy the condition.
#[derive(Debug)]
pub(super) enum Candidates {
    /// A run of right rows for each left row.
    Runs(Arc<Matches>),
    /// The right rows in a run that pass the checks.
    Checked(Matches, Vec<Check>),
    /// The right rows that overlap a left row, given the starts of the left rows.
    Overlaps(Box<Overlaps>, Int64s),
}

impl Candidates {
    pub(super) fn runs(matches: Matches) -> Self {
        Candidates::Runs(Arc::new(matches))
    }

    pub(super) fn left_rows(&self) -> usize {
        match self {
            Candidates::Runs(matches) => matches.left_rows(),
            Candidates::Checked(matches, _) => matches.left_rows(),
            Candidates::Overlaps(overlaps, _) => overlaps.left_rows(),
        }
    }

    pub(super) fn right_rows(&self) -> usize {
        match self {
            Candidates::Runs(matches) => matches.right_rows(),
            Candidates::Checked(matches, _) => matches.right_rows(),
            Candidates::Overlaps(overlaps, _) => overlaps.right_rows(),
        }
    }
}

/// The pairs that a join found in two tables.
pub(super) struct FoundPairs {
    /// The method by which keys were numbered.
    pub(super) key_method: &'static str,
    pub(super) candidates: Candidates,
}

impl Pairs {
    /// Returns the candidates that satisfy the condition, if there is one.
    pub(super) fn new(
        candidates: Candidates,
        predicate: Option<Predicate>,
        left: &Table,
        right: &Table,
        driver: &Driver,
    ) -> Result<Self> {
        let condition = |predicate| match &candidates {
            Candidates::Runs(matches) => Condition::new(predicate, left, right, matches, driver),
            _ => Ok(Condition::on_pairs(predicate, left, right)),
        };
        let condition = predicate.map(condition).transpose()?;
        Ok(Pairs { candidates, condition })
    }

    /// Returns the next range of left rows to process, which begins at `start`, and the result
    /// pairs of these rows.
    pub(super) fn next_page(
        &mut self,
        start: usize,
        driver: &Driver,
    ) -> Result<(usize, Arc<Matches>)> {
        let (page, matches) = match (&self.candidates, &mut self.condition) {
            (Candidates::Runs(matches), None) => {
                return Ok((matches.left_rows(), matches.clone()));
            }
            (Candidates::Runs(matches), Some(condition)) => {
                let (page, matches) = condition.next_page(matches, start, driver)?;
                return Ok((page.end, Arc::new(matches)));
            }
            (Candidates::Checked(matches, checks), _) => {
                let page = matches.page(start, usize::MAX, CHECKED_PAIRS);
                (page.clone(), matches.narrow(page, checks, driver)?)
            }
            (Candidates::Overlaps(overlaps, starts), _) => {
                let page = overlaps.page(start, LISTED_PAIRS);
                (page.clone(), overlaps.matches(starts, page, driver)?)
            }
        };
        let matches = Arc::new(matches);
        let matches = match &mut self.condition {
            None => matches,
            Some(condition) => Arc::new(condition.evaluate(&matches, driver)?),
        };
        Ok((page.end, matches))
    }
}
