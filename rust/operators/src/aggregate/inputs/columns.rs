//! The rows of sources, and columns of their values.

use tidegate_structures::memory::bits::BitSet;

/// One sorted source of rows.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// The time of each row; never falls.
    pub ts: &'a [i64],
    /// The key of each row; `None` where all rows have the key 0.
    pub keys: Option<&'a [u32]>,
}

/// The rows of a source that count; `None` for all.
pub type Mask<'a> = Option<&'a BitSet>;

/// The values of a source's rows.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a, T> {
    /// A value a row.
    pub values: &'a [T],
    /// The rows that count.
    pub mask: Mask<'a>,
}

/// A column of each source.
#[derive(Clone, Debug)]
pub enum NumberColumns<'a> {
    /// Whole numbers of which no sum leaves 64 bits.
    Integers(Vec<Column<'a, i64>>),
    /// Whole numbers of which no sum leaves 128 bits.
    Wide(Vec<Column<'a, i128>>),
    /// Floats.
    Floats(Vec<Column<'a, f64>>),
}

/// Two columns of each source. The masks of both are the same.
#[derive(Clone, Debug)]
pub struct ColumnPairs<'a> {
    /// The values.
    pub values: Vec<Column<'a, f64>>,
    /// The other value of each row.
    pub others: Vec<Column<'a, f64>>,
}

/// The number of each source's first row, where all rows are counted, source after source.
pub fn first_rows(streams: &[Stream<'_>]) -> Vec<u32> {
    let next = |first: &mut u32, stream: &Stream<'_>| {
        Some(std::mem::replace(first, *first + stream.ts.len() as u32))
    };
    streams.iter().scan(0, next).collect()
}
