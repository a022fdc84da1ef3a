//! Evaluates the `where` condition of a table join, which selects candidate pairs.

use std::ops::Range;
use std::sync::Arc;

use tidegate_operators::driver::Driver;
use tidegate_operators::matches::Matches;
use tidegate_operators::predicate::{Index, ScanColumns, Term};

use crate::Result;
use crate::columns::expression::{Origin, Predicate, SideColumns};
use crate::columns::table::Table;
use crate::results::gather::Column;

/// The target number of remaining pairs per page of left rows. This is also the number of
/// candidates on the first page. A single left row can have more pairs than this.
const PAGE_PAIRS: u64 = 1 << 24;

/// The maximum growth in candidates from one page to the next.
const GROWTH: u64 = 16;

/// If there are fewer candidate pairs than one for this many right rows, gathering the columns of
/// all right rows for a scan takes longer than evaluating the condition on each pair.
const SCANNED: u64 = 8;

/// A condition on candidate pairs. Comparisons between numbers of the two sides are pushed down:
/// right rows are scanned, or looked up by their numbers. Scans and lookups are both many times
/// faster than evaluation. The residual conjuncts are evaluated on the remaining pairs.
#[derive(Debug)]
pub(crate) struct Condition {
    pushed: Option<PushedTerms>,
    residual: Option<Filter>,
    /// The number of candidates for the next page.
    candidates: u64,
}

/// The pushed comparisons, with the columns and the index used to find the rows that satisfy them.
#[derive(Debug)]
struct PushedTerms {
    terms: Vec<Term>,
    window: ScanColumns,
    /// The index, if looking up rows takes less time than comparing them.
    index: Option<Index>,
}

impl PushedTerms {
    fn new(terms: Vec<Term>, matches: &Matches, driver: &Driver) -> Result<Option<Self>> {
        let window = if terms.is_empty() { None } else { matches.window(&terms) };
        let Some(window) = window else { return Ok(None) };
        let index = matches.index(&terms, &window, driver)?;
        Ok(Some(PushedTerms { terms, window, index }))
    }
}

impl Condition {
    pub(crate) fn new(
        predicate: Predicate,
        left: &Table,
        right: &Table,
        matches: &Matches,
        driver: &Driver,
    ) -> Result<Self> {
        let is_scanned = matches.pairs().saturating_mul(SCANNED) >= matches.places() as u64;
        let (terms, residual) =
            if is_scanned { split(&predicate, left, right) } else { (Vec::new(), None) };
        let pushed = PushedTerms::new(terms, matches, driver)?;
        let residual = if pushed.is_some() { residual } else { Some(predicate) };
        let residual = residual.map(|predicate| Filter::new(predicate, left, right));
        // An index is used if only a small fraction of the candidates remains.
        let is_indexed = pushed.as_ref().is_some_and(|pushed| pushed.index.is_some());
        let candidates = if is_indexed { PAGE_PAIRS * GROWTH } else { PAGE_PAIRS };
        Ok(Condition { pushed, residual, candidates })
    }

    /// Describes, for `explain`, how the pairs that satisfy the condition are found.
    pub(crate) fn method(&self) -> &'static str {
        match &self.pushed {
            None => "evaluated on every pair",
            Some(PushedTerms { index: None, .. }) => "every pair compared",
            Some(PushedTerms { index: Some(_), .. }) => "looked up by value",
        }
    }

    /// Creates a condition that is evaluated on all pairs, for [`evaluate`](Self::evaluate).
    pub(crate) fn on_pairs(predicate: Predicate, left: &Table, right: &Table) -> Self {
        Condition {
            pushed: None,
            residual: Some(Filter::new(predicate, left, right)),
            candidates: PAGE_PAIRS,
        }
    }

    /// Returns the pairs that satisfy the condition.
    pub(crate) fn evaluate(&self, matches: &Arc<Matches>, driver: &Driver) -> Result<Matches> {
        let residual = self.residual.as_ref().expect("a condition without a scan is evaluated");
        residual.filter(matches, 0..matches.left_rows(), driver)
    }

    /// Returns a range of left rows that begins at `start`, and their matches that satisfy the
    /// condition.
    pub(crate) fn next_page(
        &mut self,
        matches: &Arc<Matches>,
        start: usize,
        driver: &Driver,
    ) -> Result<(Range<usize>, Matches)> {
        let page = matches.page(start, usize::MAX, self.candidates);
        let Some(PushedTerms { terms, window, index }) = &self.pushed else {
            let residual = self.residual.as_ref().expect("a condition has at least one part");
            return Ok((page.clone(), residual.filter(matches, page, driver)?));
        };
        let left = matches.scan(page.clone(), terms, (window, index.as_ref()), driver)?;
        // Assume that further candidates are like these, and choose as many as would leave a page
        // of pairs.
        let each = self.candidates / (left.pairs() + 1);
        self.candidates =
            PAGE_PAIRS.saturating_mul(each.max(1)).min(self.candidates.saturating_mul(GROWTH));
        let left = match &self.residual {
            None => left,
            Some(residual) => {
                let left = Arc::new(left);
                residual.filter(&left, 0..left.left_rows(), driver)?
            }
        };
        Ok((page, left))
    }
}

/// Returns the pushed comparisons between the columns of two tables, and the residual predicate.
pub(crate) fn split(
    predicate: &Predicate,
    left: &Table,
    right: &Table,
) -> (Vec<Term>, Option<Predicate>) {
    let columns = |table: &Table, side| SideColumns {
        arrays: predicate.columns(side).iter().map(|&at| table.whole(at)).collect(),
        rows: table.rows(),
    };
    predicate.split(&columns(left, Origin::Left), &columns(right, Origin::Right))
}

/// A predicate to evaluate, and the columns that it reads.
#[derive(Debug)]
pub(crate) struct Filter {
    predicate: Predicate,
    left: Vec<Column>,
    right: Vec<Column>,
}

impl Filter {
    pub(crate) fn new(predicate: Predicate, left: &Table, right: &Table) -> Self {
        let columns = |table, side| {
            predicate.columns(side).iter().map(|&at| Column::new(table, at)).collect()
        };
        let (left, right) = (columns(left, Origin::Left), columns(right, Origin::Right));
        Filter { predicate, left, right }
    }

    fn filter(
        &self,
        matches: &Arc<Matches>,
        page: Range<usize>,
        driver: &Driver,
    ) -> Result<Matches> {
        matches.filter(page, &|left, right| self.keep(left, right), driver)?
    }

    /// Returns whether each pair of rows satisfies the predicate.
    pub(crate) fn keep(&self, left: &[u32], right: &[u32]) -> Result<Vec<bool>> {
        let gather = |columns: &[Column], rows| {
            columns.iter().map(|column| column.gather(rows)).collect::<Result<Vec<_>, _>>()
        };
        let kept = self.predicate.evaluate(
            &gather(&self.left, left)?,
            &gather(&self.right, right)?,
            left.len(),
        )?;
        Ok(kept.iter().collect())
    }
}
