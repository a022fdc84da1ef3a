//! The `where` of a join of tables: which of the candidate pairs stay.

use std::ops::Range;
use std::sync::Arc;

use tidegate_operators::driver::Driver;
use tidegate_operators::matches::Matches;
use tidegate_operators::predicate::{Index, ScanColumns, Term};

use crate::Result;
use crate::columns::expression::{Columns, Origin, Predicate};
use crate::columns::table::Table;
use crate::results::gather::Column;

/// How many pairs a page of left rows should leave, and how many candidates the first one has; a
/// single left row may have more.
const PAGE_PAIRS: u64 = 1 << 24;

/// How many times as many candidates as the last page the next page may have.
const GROWTH: u64 = 16;

/// A condition on candidate pairs. Comparisons between numbers of the two sides are scanned for,
/// which is many times faster than evaluating them, or right rows are looked up by their numbers;
/// the other conjuncts are evaluated on the pairs that this leaves.
#[derive(Debug)]
pub(crate) struct Condition {
    search: Option<Search>,
    rest: Option<Filter>,
    /// How many candidates the next page has.
    candidates: u64,
}

/// What is looked for by number.
#[derive(Debug)]
struct Search {
    terms: Vec<Term>,
    window: ScanColumns,
    /// Where looking rows up takes less time than comparing them.
    index: Option<Index>,
}

impl Search {
    fn new(terms: Vec<Term>, matches: &Matches, driver: &Driver) -> Result<Option<Self>> {
        let window = if terms.is_empty() { None } else { matches.window(&terms) };
        let Some(window) = window else { return Ok(None) };
        let index = matches.index(&terms, &window, driver)?;
        Ok(Some(Search { terms, window, index }))
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
        let (terms, rest) = split(&predicate, left, right);
        let search = Search::new(terms, matches, driver)?;
        let rest = if search.is_some() { rest } else { Some(predicate) };
        let rest = rest.map(|predicate| Filter::new(predicate, left, right));
        // An index is chosen where a small part of the candidates stays.
        let is_indexed = search.as_ref().is_some_and(|search| search.index.is_some());
        let candidates = if is_indexed { PAGE_PAIRS * GROWTH } else { PAGE_PAIRS };
        Ok(Condition { search, rest, candidates })
    }

    /// How pairs are found that meet the condition, for people.
    pub(crate) fn method(&self) -> &'static str {
        match &self.search {
            None => "evaluated on every pair",
            Some(Search { index: None, .. }) => "every pair compared",
            Some(Search { index: Some(_), .. }) => "looked up by value",
        }
    }

    /// A condition that is evaluated on all pairs, for [`evaluate`](Self::evaluate).
    pub(crate) fn on_pairs(predicate: Predicate, left: &Table, right: &Table) -> Self {
        Condition {
            search: None,
            rest: Some(Filter::new(predicate, left, right)),
            candidates: PAGE_PAIRS,
        }
    }

    /// Those of all pairs that stay.
    pub(crate) fn evaluate(&self, matches: &Arc<Matches>, driver: &Driver) -> Result<Matches> {
        let rest = self.rest.as_ref().expect("a condition without a scan is evaluated");
        rest.filter(matches, 0..matches.left_rows(), driver)
    }

    /// Left rows from `start` on, and those of their matches that stay.
    pub(crate) fn next_page(
        &mut self,
        matches: &Arc<Matches>,
        start: usize,
        driver: &Driver,
    ) -> Result<(Range<usize>, Matches)> {
        let page = matches.page(start, self.candidates);
        let Some(Search { terms, window, index }) = &self.search else {
            let rest = self.rest.as_ref().expect("a condition has a part");
            return Ok((page.clone(), rest.filter(matches, page, driver)?));
        };
        let left = matches.scan(page.clone(), terms, (window, index.as_ref()), driver)?;
        // As many candidates as would leave a page of pairs, were they like these.
        let each = self.candidates / (left.pairs() + 1);
        self.candidates =
            PAGE_PAIRS.saturating_mul(each.max(1)).min(self.candidates.saturating_mul(GROWTH));
        let left = match &self.rest {
            None => left,
            Some(rest) => {
                let left = Arc::new(left);
                rest.filter(&left, 0..left.left_rows(), driver)?
            }
        };
        Ok((page, left))
    }
}

/// The comparisons between the columns of two tables, and what has to be evaluated on the pairs
/// that they leave.
pub(crate) fn split(
    predicate: &Predicate,
    left: &Table,
    right: &Table,
) -> (Vec<Term>, Option<Predicate>) {
    let columns = |table: &Table, side| Columns {
        arrays: predicate.columns(side).iter().map(|&at| table.whole(at)).collect(),
        rows: table.rows(),
    };
    predicate.split(&columns(left, Origin::Left), &columns(right, Origin::Right))
}

/// What is evaluated, and the columns it reads.
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

    /// Which of these pairs of rows stay.
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
