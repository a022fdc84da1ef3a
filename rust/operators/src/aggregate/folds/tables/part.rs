//! A time range and its cells.

use std::ops::Range;

use crate::aggregate::slices::windows::Slice;

/// A time range that begins and ends at slice boundaries, and its cells. A cell covers all rows
/// with one key in one slice, from any source.
#[derive(Debug)]
pub(in crate::aggregate) struct TimePart {
    /// The key of each cell.
    pub(in crate::aggregate) keys: Vec<u32>,
    pub(in crate::aggregate) slices: Vec<SliceCells>,
}

/// The cells of a slice.
#[derive(Clone, Debug)]
pub(in crate::aggregate) struct SliceCells {
    pub(in crate::aggregate) slice: Slice,
    pub(in crate::aggregate) cells: Range<usize>,
}
