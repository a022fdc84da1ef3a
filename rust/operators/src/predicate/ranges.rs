//! The ranges of a window's columns that match new rows.

use tidegate_structures::simd::scan::Span;

use super::Term;
use super::column::RankColumn;
use super::scan_columns::ScanColumns;
use crate::rows::Side;

/// For each of some new rows, the range in which each column of a window must be.
#[derive(Debug)]
pub struct Ranges {
    terms: usize,
    /// The ranges of all rows, row by row, with one range per column.
    spans: Vec<Span<u64>>,
    /// The ranges as codes, for the columns that have codes.
    codes: Vec<Span<u16>>,
    /// For each row, whether it matches nothing in any window.
    empty: Vec<bool>,
}

impl Ranges {
    /// Creates the ranges for rows of `side`, which must be the side opposite the window.
    pub fn new(
        window: &ScanColumns,
        terms: &[Term],
        side: Side,
        rows: impl ExactSizeIterator<Item = usize>,
    ) -> Self {
        let coded = window.codes();
        let mut ranges = Ranges {
            terms: terms.len(),
            spans: Vec::with_capacity(rows.len() * terms.len()),
            codes: Vec::with_capacity(rows.len() * coded.len()),
            empty: Vec::with_capacity(rows.len()),
        };
        for row in rows {
            let mut empty = false;
            for (nth, column) in window.columns().iter().enumerate() {
                let span = column_span(column, &terms[column.term], side, row);
                empty |= span.is_none();
                let span = span.unwrap_or_default();
                ranges.spans.push(span);
                if let Some(code) = coded.get(nth) {
                    ranges.codes.push(if empty {
                        Span::default()
                    } else {
                        code.span(column, span)
                    });
                }
            }
            ranges.empty.push(empty);
        }
        ranges
    }

    /// Returns whether a row matches nothing.
    pub(super) fn is_empty(&self, row: usize) -> bool {
        self.empty[row]
    }

    /// Returns the ranges of a row, one per column.
    pub(super) fn of(&self, row: usize) -> &[Span<u64>] {
        &self.spans[row * self.terms..(row + 1) * self.terms]
    }

    /// Returns the range of a row in the codes of a column, if `coded` columns have codes.
    pub(super) fn code(&self, row: usize, coded: usize, column: usize) -> Span<u16> {
        self.codes[row * coded + column]
    }
}

fn column_span(column: &RankColumn, term: &Term, side: Side, row: usize) -> Option<Span<u64>> {
    let (new, like) = (term.operand(side), term.operand(side.other()));
    if !new.compares(row) {
        return None;
    }
    let (low, high) = term.relation.range(side.other(), &like.numbers, &new.numbers, row)?;
    column.span(low, high)
}
