//! The ranges of a window's columns that match new rows.

use tidegate_structures::simd::scan::Span;

use super::Term;
use super::column::RankColumn;
use super::scan_columns::ScanColumns;
use crate::rows::Side;

/// For each new row, the range of matching values in each window column.
#[derive(Debug)]
pub struct Ranges {
    terms: usize,
    /// The ranges of all rows, in row order, with one range per column.
    spans: Vec<Span<u64>>,
    /// The ranges as codes, for the columns that have codes.
    codes: Vec<Span<u16>>,
    /// `true` for each row that cannot match anything in any window.
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

    /// Returns whether a row cannot match anything.
    pub(super) fn is_empty(&self, row: usize) -> bool {
        self.empty[row]
    }

    /// Returns the ranges of a row, one per column.
    pub(super) fn of(&self, row: usize) -> &[Span<u64>] {
        &self.spans[row * self.terms..(row + 1) * self.terms]
    }

    /// Returns the range of codes that match a row in a column. `coded` is the number of columns
    /// that have codes.
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
