//! Finds the matching pairs of new rows and kept rows.

use std::ops::Range;
use std::sync::Arc;

use super::local::{Chunk, LocalWindow};
use super::predicate::{Pair, Predicate};
use super::window::WindowPlace;

/// A pair of the result. Pairs are ordered as in the contract: by the later row in merged order,
/// then by the earlier row. In all pairs at the same position, the later row is on the same side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResultPair {
    /// The position of the later row in merged order.
    pub seq: u64,
    /// The left row's number.
    pub left: u64,
    /// The right row's number.
    pub right: u64,
}

/// Compares rows for a node.
#[derive(Debug)]
pub(super) struct Finder<P> {
    predicate: Arc<P>,
    /// Pairs whose values match, before the windows are checked.
    pairs: Vec<Pair>,
    /// Pairs that match.
    pub(super) found: Vec<ResultPair>,
    /// The number of candidate pairs examined.
    pub(super) comparisons: u64,
}

impl<P: Predicate> Finder<P> {
    pub(super) fn new(predicate: Arc<P>) -> Self {
        Finder { predicate, pairs: Vec::new(), found: Vec::new(), comparisons: 0 }
    }

    /// Returns the values by which left rows are looked up.
    pub(super) fn left_values<'a>(&self, left: &'a P::Left) -> &'a [i64] {
        self.predicate.lookup().map_or(&[], |lookup| lookup.left_values(left))
    }

    /// Returns the values by which right rows are looked up.
    pub(super) fn right_values<'a>(&self, right: &'a P::Right) -> &'a [i64] {
        self.predicate.lookup().map_or(&[], |lookup| lookup.right_values(right))
    }

    /// Compares a new left chunk with a kept right chunk.
    pub(super) fn chunks_meet(&mut self, left: &Chunk<P::Left>, right: &Chunk<P::Right>) {
        self.scan((left, 0..left.places.len()), (right, 0..right.places.len()));
    }

    /// Compares new left rows with the right rows that the node keeps.
    pub(super) fn left_meets(&mut self, left: &Chunk<P::Left>, window: &mut LocalWindow<P::Right>) {
        let predicate = self.predicate.clone();
        if let Some(lookup) = predicate.lookup() {
            let reach = |row: usize| lookup.right_reach(&left.columns, row);
            window.try_index(left.places.len(), reach, |columns| lookup.right_values(columns));
        }
        let window = &*window;
        let rows = window.in_reach(left.first(), left.last(), u64::MAX);
        if rows.is_empty() {
            return;
        }
        if let (Some(index), Some(lookup)) = (window.index(), predicate.lookup()) {
            let reaches = (0..left.places.len()).map(|row| lookup.right_reach(&left.columns, row));
            index.find(reaches, rows, |left, right| self.pairs.push(Pair { left, right }));
            self.comparisons += self.pairs.len() as u64;
            lookup.retain(&left.columns, window.columns(), &mut self.pairs);
            self.keep(&left.places, window.places());
        } else {
            self.scan((left, 0..left.places.len()), (window, rows));
        }
    }

    /// Compares new right rows with the node's left rows that are numbered below `limit`.
    pub(super) fn right_meets(
        &mut self,
        right: &Chunk<P::Right>,
        window: &mut LocalWindow<P::Left>,
        limit: u64,
    ) {
        let predicate = self.predicate.clone();
        if let Some(lookup) = predicate.lookup() {
            let reach = |row: usize| lookup.left_reach(&right.columns, row);
            window.try_index(right.places.len(), reach, |columns| lookup.left_values(columns));
        }
        let window = &*window;
        let rows = window.in_reach(right.first(), right.last(), limit);
        if rows.is_empty() {
            return;
        }
        if let (Some(index), Some(lookup)) = (window.index(), predicate.lookup()) {
            let reaches = (0..right.places.len()).map(|row| lookup.left_reach(&right.columns, row));
            index.find(reaches, rows, |right, left| self.pairs.push(Pair { left, right }));
            self.comparisons += self.pairs.len() as u64;
            lookup.retain(window.columns(), &right.columns, &mut self.pairs);
            self.keep(window.places(), &right.places);
        } else {
            self.scan((window, rows), (right, 0..right.places.len()));
        }
    }

    /// Compares all of these rows.
    fn scan(
        &mut self,
        (left, left_rows): (&impl PlacedRows<P::Left>, Range<usize>),
        (right, right_rows): (&impl PlacedRows<P::Right>, Range<usize>),
    ) {
        self.comparisons += (left_rows.len() * right_rows.len()) as u64;
        self.predicate.pairs(
            left.columns(),
            left_rows,
            right.columns(),
            right_rows,
            &mut self.pairs,
        );
        self.keep(left.places(), right.places());
    }

    /// Keeps only the pairs whose rows are within the windows.
    fn keep(&mut self, left: &[WindowPlace], right: &[WindowPlace]) {
        for pair in self.pairs.drain(..) {
            let (left, right) = (&left[pair.left as usize], &right[pair.right as usize]);
            if left.meets(right) {
                let seq = left.seq().max(right.seq());
                self.found.push(ResultPair { seq, left: left.number, right: right.number });
            }
        }
    }
}

/// Rows with their positions in merged order.
trait PlacedRows<C> {
    fn columns(&self) -> &C;
    fn places(&self) -> &[WindowPlace];
}

impl<C> PlacedRows<C> for Chunk<C> {
    fn columns(&self) -> &C {
        &self.columns
    }

    fn places(&self) -> &[WindowPlace] {
        &self.places
    }
}

impl<C: super::predicate::Columns> PlacedRows<C> for LocalWindow<C> {
    fn columns(&self) -> &C {
        LocalWindow::columns(self)
    }

    fn places(&self) -> &[WindowPlace] {
        LocalWindow::places(self)
    }
}
