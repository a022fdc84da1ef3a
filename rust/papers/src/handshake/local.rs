//! The rows that a node keeps from one side. The rows are stored in columns and can be looked up by
//! value through an index.

use std::ops::Range;

use super::index::Index;
use super::predicate::{Columns, SearchStructure};
use super::window::WindowPlace;

/// The number of rows below which an ordered index is not worth maintaining.
const LEAST_INDEXED: usize = if cfg!(test) { 8 } else { 1 << 11 };

/// The size of the sample that determines whether an ordered index pays off: the number of new
/// rows, and the number of (new row, kept row) pairs. An index pays off if fewer than one pair in
/// `PAYS` has values within reach.
const SAMPLE: (usize, usize) = (16, 1 << 14);
const PAYS: usize = if cfg!(test) { 4 } else { 128 };

/// Rows from one side that travel through the chain, in order.
#[derive(Debug)]
pub(super) struct Chunk<C> {
    /// The node that keeps the rows.
    pub(super) home: usize,
    pub(super) places: Vec<WindowPlace>,
    pub(super) columns: C,
}

impl<C> Chunk<C> {
    pub(super) fn first(&self) -> &WindowPlace {
        self.places.first().expect("a chunk has rows")
    }

    pub(super) fn last(&self) -> &WindowPlace {
        self.places.last().expect("a chunk has rows")
    }

    /// Returns one more than the number of the last row.
    pub(super) fn end(&self) -> u64 {
        self.last().number + 1
    }
}

/// Rows on one side, in order. Rows are appended at the end and removed from the front.
#[derive(Debug)]
pub(super) struct LocalWindow<C> {
    /// Rows before `start` have been removed. Memory used by removed rows is freed once at least
    /// half of all rows have been removed.
    places: Vec<WindowPlace>,
    columns: C,
    start: usize,
    /// The kind of index that looks up rows by value, if there is one. A hash table is always used;
    /// an ordered index is used only while it pays off.
    kind: Option<SearchStructure>,
    index: Option<Index>,
    /// The number of rows added so far, and the number at which the node next checks whether an
    /// ordered index pays off.
    added: usize,
    next_try: usize,
}

impl<C: Columns> LocalWindow<C> {
    pub(super) fn new(kind: Option<SearchStructure>) -> Self {
        let index =
            (kind == Some(SearchStructure::Hash)).then(|| Index::new(SearchStructure::Hash, 0));
        LocalWindow {
            places: Vec::new(),
            columns: C::default(),
            start: 0,
            kind,
            index,
            added: 0,
            next_try: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.start
    }

    pub(super) fn columns(&self) -> &C {
        &self.columns
    }

    pub(super) fn places(&self) -> &[WindowPlace] {
        &self.places
    }

    pub(super) fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        self.places.capacity() * (size_of::<WindowPlace>() + self.columns.row_bytes())
            + self.index.as_ref().map_or(0, Index::memory)
    }

    /// Appends the rows in a chunk.
    pub(super) fn insert(&mut self, chunk: &Chunk<C>, values: impl Fn(&C) -> &[i64]) {
        debug_assert!(
            self.places[self.start..].last().is_none_or(|last| last.number < chunk.first().number)
        );
        let old = self.places.len();
        self.added += chunk.places.len();
        self.places.extend_from_slice(&chunk.places);
        self.columns.push_rows(&chunk.columns, 0..chunk.places.len());
        if let Some(index) = &mut self.index {
            index.insert(&values(&self.columns)[old..]);
        }
    }

    /// Decides from time to time whether to use an ordered index. The decision is based on a sample
    /// of the `rows` new rows and on how many kept rows are in their reach.
    pub(super) fn try_index(
        &mut self,
        rows: usize,
        reach: impl Fn(usize) -> Option<(i64, i64)>,
        values: impl Fn(&C) -> &[i64],
    ) {
        let kept = self.len();
        if self.kind != Some(SearchStructure::Ordered)
            || self.added < self.next_try
            || kept < LEAST_INDEXED
        {
            return;
        }
        self.next_try = self.added + kept;
        let values = &values(&self.columns)[self.start..];
        let news = rows.min(SAMPLE.0);
        let of_each = (SAMPLE.1 / news).min(kept);
        let in_reach = |nth: usize| -> usize {
            let Some((low, high)) = reach(nth * rows / news) else { return 0 };
            (0..of_each).filter(|at| (low..=high).contains(&values[at * kept / of_each])).count()
        };
        let pays = (0..news).map(in_reach).sum::<usize>() * PAYS < news * of_each;
        match &self.index {
            None if pays => {
                let index = self.index.insert(Index::new(SearchStructure::Ordered, self.start));
                index.insert(values);
            }
            Some(_) if !pays => self.index = None,
            _ => {}
        }
    }

    /// Returns the range of rows that new rows from the other side can meet. Only rows numbered
    /// below `limit` are included. The range may also include rows that only some of the new rows
    /// can meet.
    pub(super) fn in_reach(
        &self,
        first: &WindowPlace,
        last: &WindowPlace,
        limit: u64,
    ) -> Range<usize> {
        let live = &self.places[self.start..];
        let start = live.partition_point(|place| place.number < first.from);
        // Rows after the last new row may or may not have it in their window, and the start of
        // their windows only increases.
        let end = live.partition_point(|place| place.number < limit && place.from <= last.number);
        self.start + start..self.start + end.max(start)
    }

    /// Drops the rows numbered below `number`, and returns the last of them.
    pub(super) fn expire(
        &mut self,
        number: u64,
        values: impl Fn(&C) -> &[i64],
    ) -> Option<WindowPlace> {
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
            self.places.shrink_to(2 * self.places.len());
            if let Some(index) = &mut self.index {
                index.forget(self.start);
            }
            self.start = 0;
            if self.places.is_empty() && self.kind == Some(SearchStructure::Ordered) {
                // Free its memory, too. The index is rebuilt once it pays off.
                (self.index, self.next_try) = (None, self.added);
            }
        }
        Some(last)
    }

    /// Removes and returns the rows numbered below `number`.
    pub(super) fn take(&mut self, number: u64) -> Option<Chunk<C>> {
        debug_assert!(self.index.is_none(), "indexed rows are not passed on");
        let rows = self.start
            ..self.start + self.places[self.start..].partition_point(|place| place.number < number);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(numbers: Range<u64>) -> Chunk<Vec<i64>> {
        let places =
            numbers.clone().map(|number| WindowPlace { number, from: 0, upto: 0 }).collect();
        Chunk { home: 0, places, columns: numbers.map(|number| number as i64 % 100).collect() }
    }

    #[test]
    fn an_ordered_index_comes_and_goes_with_what_is_in_reach() {
        let mut window = LocalWindow::new(Some(SearchStructure::Ordered));
        window.insert(&chunk(0..300), Vec::as_slice);
        assert!(
            window.expire(150, Vec::as_slice).is_some(),
            "some rows are removed before the index is built"
        );
        window.insert(&chunk(300..400), Vec::as_slice);
        window.try_index(4, |row| Some((row as i64, row as i64)), Vec::as_slice);
        let found = |window: &LocalWindow<Vec<i64>>, reach: (i64, i64)| {
            let mut found = Vec::new();
            let places = window.start..window.places.len();
            window.index()?.find([Some(reach)].into_iter(), places, |_, place| {
                found.push(window.places[place as usize].number)
            });
            found.sort_unstable();
            Some(found)
        };
        assert_eq!(found(&window, (7, 7)), Some(vec![207, 307]));
        window.expire(250, Vec::as_slice);
        window.insert(&chunk(400..900), Vec::as_slice);
        assert_eq!(found(&window, (7, 7)), Some(vec![307, 407, 507, 607, 707, 807]));
        // After enough further rows, all of them are in reach.
        window.try_index(2, |_| Some((0, 99)), Vec::as_slice);
        assert_eq!(found(&window, (7, 7)), None);
    }
}
