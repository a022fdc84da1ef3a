//! The rows of one side that a node keeps, in columns, with what finds them by a value.

use std::ops::Range;

use super::index::Index;
use super::predicate::{Columns, Kind};
use super::window::Place;

/// Rows on their way through the chain, in the order of their side.
#[derive(Debug)]
pub(super) struct Chunk<C> {
    /// The node that keeps them.
    pub(super) home: usize,
    pub(super) places: Vec<Place>,
    pub(super) columns: C,
}

impl<C> Chunk<C> {
    pub(super) fn first(&self) -> &Place {
        self.places.first().expect("a chunk has rows")
    }

    pub(super) fn last(&self) -> &Place {
        self.places.last().expect("a chunk has rows")
    }

    /// The number after its last row's.
    pub(super) fn end(&self) -> u64 {
        self.last().number + 1
    }
}

/// Rows of one side, in their order. Rows are added at the end and leave at the front.
#[derive(Debug)]
pub(super) struct LocalWindow<C> {
    /// The rows before `start` are gone; they are dropped once they are as many as the others.
    places: Vec<Place>,
    columns: C,
    start: usize,
    index: Option<Index>,
}

impl<C: Columns> LocalWindow<C> {
    pub(super) fn new(kind: Option<Kind>) -> Self {
        LocalWindow { places: Vec::new(), columns: C::default(), start: 0, index: kind.map(Index::new) }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.start
    }

    pub(super) fn columns(&self) -> &C {
        &self.columns
    }

    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    pub(super) fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.places.capacity() * (size_of::<Place>() + self.columns.row_bytes())
            + self.index.as_ref().map_or(0, Index::memory)
    }

    /// Adds the rows of a chunk.
    pub(super) fn insert(&mut self, chunk: &Chunk<C>, values: impl Fn(&C) -> &[i64]) {
        debug_assert!(self.places[self.start..].last().is_none_or(|last| last.number < chunk.first().number));
        let old = self.places.len();
        self.places.extend_from_slice(&chunk.places);
        self.columns.push_rows(&chunk.columns, 0..chunk.places.len());
        if let Some(index) = &mut self.index {
            index.insert(&values(&self.columns)[old..]);
        }
    }

    /// The rows numbered below `limit` that new rows of the other side can meet, those in between included that some of
    /// the new rows cannot.
    pub(super) fn in_reach(&self, first: &Place, last: &Place, limit: u64) -> Range<usize> {
        let live = &self.places[self.start..];
        let start = live.partition_point(|place| place.number < first.from);
        // Rows that come after the last new one see it or do not, and what they see first only rises.
        let end = live.partition_point(|place| place.number < limit && place.from <= last.number);
        self.start + start..self.start + end.max(start)
    }

    /// Drops the rows numbered below `number`, and gives the last of them.
    pub(super) fn expire(&mut self, number: u64, values: impl Fn(&C) -> &[i64]) -> Option<Place> {
        let gone = self.places[self.start..].partition_point(|place| place.number < number);
        if gone == 0 {
            return None;
        }
        if let Some(index) = &mut self.index {
            index.drop_first(&values(&self.columns)[self.start..self.start + gone]);
        }
        self.start += gone;
        let last = self.places[self.start - 1];
        if self.start * 2 >= self.places.len() {
            self.columns.drop_first(self.start);
            self.places.drain(..self.start);
            if let Some(index) = &mut self.index {
                index.forget(self.start);
            }
            self.start = 0;
        }
        Some(last)
    }

    /// Takes the rows numbered below `number` out.
    pub(super) fn take(&mut self, number: u64) -> Option<Chunk<C>> {
        debug_assert!(self.index.is_none(), "rows that have an index stay");
        let rows = self.start..self.start + self.places[self.start..].partition_point(|place| place.number < number);
        if rows.is_empty() {
            return None;
        }
        let mut columns = C::default();
        columns.push_rows(&self.columns, rows.clone());
        let chunk = Chunk { home: 0, places: self.places[rows].to_vec(), columns };
        self.expire(number, |_| &[]);
        Some(chunk)
    }
}
