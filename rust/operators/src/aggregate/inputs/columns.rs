//! The rows from each source, and columns of row values.

use tidegate_structures::memory::bits::BitSet;

/// A sorted source of rows.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// The time of each row, in nondecreasing order.
    pub ts: &'a [i64],
    /// The key of each row. `None` if all rows have the key 0.
    pub keys: Option<&'a [u32]>,
}

/// The rows from a source that are included. `None` if all rows are included.
pub type Mask<'a> = Option<&'a BitSet>;

/// The values of a source's rows.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a, T> {
    /// One value per row.
    pub values: &'a [T],
    /// The rows that are included.
    pub mask: Mask<'a>,
}

/// One column per source.
#[derive(Clone, Debug)]
pub enum NumberColumns<'a> {
    /// Integers whose sums all fit in 64 bits.
    Integers(Vec<Column<'a, i64>>),
    /// Integers whose sums all fit in 128 bits.
    Wide(Vec<Column<'a, i128>>),
    /// Floats.
    Floats(Vec<Column<'a, f64>>),
}

/// Two columns per source. The two columns of a source have the same mask.
#[derive(Clone, Debug)]
pub struct ColumnPairs<'a> {
    /// The first value of each row.
    pub values: Vec<Column<'a, f64>>,
    /// The second value of each row.
    pub others: Vec<Column<'a, f64>>,
}

/// Returns the number of each source's first row, where rows are numbered consecutively across all
/// sources.
pub fn first_rows(streams: &[Stream<'_>]) -> Vec<u32> {
    let next = |first: &mut u32, stream: &Stream<'_>| {
        Some(std::mem::replace(first, *first + stream.ts.len() as u32))
    };
    streams.iter().scan(0, next).collect()
}
