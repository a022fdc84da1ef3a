//! A part of the time, and the cells that it has.

use std::ops::Range;

use crate::aggregate::slices::windows::Slice;

/// A part of the time that begins and ends with slices, and its cells: what all sources have of a
/// key in a slice.
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
