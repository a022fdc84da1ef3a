//! The chunks of a column.

use std::ops::Range;

use arrow_array::ArrayRef;

use crate::columns::table::Table;

/// A column's chunks and the row number at which each chunk starts.
pub(super) struct ColumnChunks {
    pub(super) arrays: Vec<ArrayRef>,
    pub(super) starts: Vec<usize>,
}

impl ColumnChunks {
    pub(super) fn new(table: &Table, arrays: Vec<ArrayRef>) -> Self {
        let mut starts = vec![0];
        starts.extend(table.batches().iter().scan(0, |rows, batch| {
            *rows += batch.num_rows();
            Some(*rows)
        }));
        ColumnChunks { arrays, starts }
    }

    pub(super) fn rows(&self) -> usize {
        *self.starts.last().expect("a start and the end")
    }

    /// Divides a range of rows into parts, each of which lies within one chunk. Each part consists
    /// of a chunk number and a range within that chunk.
    pub(super) fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let bounds = self.starts.windows(2).enumerate();
        bounds.filter_map(move |(chunk, bounds)| {
            let (start, end) = (rows.start.max(bounds[0]), rows.end.min(bounds[1]));
            (start < end).then(|| (chunk, start - bounds[0]..end - bounds[0]))
        })
    }
}
