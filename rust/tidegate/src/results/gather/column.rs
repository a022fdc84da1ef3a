//! A table column that consists of one or more chunks.

use std::borrow::Cow;
use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt32Array, make_array, new_null_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;
use bytemuck::{AnyBitPattern, NoUninit};
use bytes::Bytes;
use tidegate_operators::rows::NO_ROW;
use tidegate_structures::memory::gather::{Store, Value, gather};
use tidegate_structures::memory::pages::{Pages, Slot};

use super::chunks::{ChunkFinder, ChunkedColumn, Chunks, gather_columns};
use super::demand_texts;
use crate::Result;
use crate::columns::dictionary::{concat, interleave};
use crate::columns::table::Table;

/// The number of rows checked at a time for missing ones. The values of this many rows fill whole
/// cache lines.
const BLOCK: usize = 1 << 9;

/// A column of a table that is ready to be gathered.
#[derive(Debug)]
pub(crate) struct Column {
    data_type: DataType,
    chunks: Vec<ArrayRef>,
    /// The number of each chunk's first row, followed by the total number of rows.
    pub(super) starts: Vec<u32>,
    /// The width of each value in bytes, if all values have the same width and this crate's kernels
    /// gather them.
    pub(super) width: Option<usize>,
    /// Each chunk's raw values, if they have a fixed width.
    values: Vec<Buffer>,
    has_nulls: bool,
}

impl Column {
    pub(crate) fn new(table: &Table, column: usize) -> Self {
        let data_type = table.schema().field(column).data_type().clone();
        Self::of_chunks(data_type, one_dictionary(table.chunks(column)))
    }

    /// Returns a key column for both sides. If both columns are dictionaries of the same type, they
    /// share one dictionary.
    pub(crate) fn new_pair(
        left: &Table,
        left_column: usize,
        right: &Table,
        right_column: usize,
    ) -> (Self, Self) {
        let (of_left, of_right) = (left.chunks(left_column), right.chunks(right_column));
        let one = one_dictionary([of_left.clone(), of_right.clone()].concat());
        let (left_type, right_type) = (
            left.schema().field(left_column).data_type(),
            right.schema().field(right_column).data_type(),
        );
        let (of_left, of_right) = match &one[..] {
            [one] if left_type == right_type => {
                (vec![one.slice(0, left.rows())], vec![one.slice(left.rows(), right.rows())])
            }
            _ => (one_dictionary(of_left), one_dictionary(of_right)),
        };
        (Self::of_chunks(left_type.clone(), of_left), Self::of_chunks(right_type.clone(), of_right))
    }

    pub(crate) fn of_chunks(data_type: DataType, chunks: Vec<ArrayRef>) -> Self {
        let mut starts = vec![0_u32];
        starts.extend(chunks.iter().scan(0, |rows, chunk| {
            *rows += chunk.len() as u32;
            Some(*rows)
        }));
        let width = fixed_width(&data_type);
        let values = width.map_or_else(Vec::new, |width| {
            chunks.iter().map(|chunk| raw_values(chunk, width)).collect()
        });
        let has_nulls = chunks.iter().any(|chunk| chunk.null_count() > 0);
        Column { data_type, chunks, starts, width, values, has_nulls }
    }

    /// Returns `rows` consecutive rows, starting at `first`, without copying them. Returns `None`
    /// if `first` is `None` or the rows are in several chunks.
    pub(super) fn slice(&self, first: Option<usize>, rows: usize) -> Option<ArrayRef> {
        let first = first?;
        let chunk = self.starts.partition_point(|&start| start as usize <= first) - 1;
        let (start, end) = (self.starts[chunk] as usize, *self.starts.get(chunk + 1)? as usize);
        (first + rows <= end).then(|| self.chunks[chunk].slice(first - start, rows))
    }

    /// Returns the average number of bytes per row.
    pub(crate) fn row_bytes(&self) -> usize {
        let rows = self.starts[self.starts.len() - 1] as usize;
        self.width.unwrap_or_else(|| {
            let bytes: usize = self
                .chunks
                .iter()
                .map(|chunk| chunk.to_data().get_slice_memory_size().unwrap_or(0))
                .sum();
            bytes.div_ceil(rows.max(1))
        })
    }

    /// Returns the bits of the values in these rows. Each value has 4 or 8 bytes.
    pub(crate) fn longs(&self, rows: Range<usize>) -> Cow<'_, [u64]> {
        match self.width {
            Some(4) => self.values_of::<u32>(rows).iter().map(|&word| word.into()).collect(),
            _ => self.values_of(rows),
        }
    }

    /// Returns the values in the given rows.
    fn values_of<T: AnyBitPattern + NoUninit>(&self, rows: Range<usize>) -> Cow<'_, [T]> {
        if let [chunk] = &self.values[..] {
            return Cow::Borrowed(&bytemuck::cast_slice(chunk)[rows]);
        }
        let finder = ChunkFinder::new(&self.starts);
        let (mut found, mut row) = (Vec::with_capacity(rows.len()), rows.start);
        while row < rows.end {
            let (chunk, place) = finder.find(row as u32);
            let values: &[T] = bytemuck::cast_slice(&self.values[chunk]);
            let end = values.len().min(place + rows.end - row);
            found.extend_from_slice(&values[place..end]);
            row += end - place;
        }
        found.into()
    }

    /// Gathers rows into a new array. None of the row numbers may be [`NO_ROW`].
    pub(crate) fn gather(&self, rows: &[u32]) -> Result<ArrayRef, ArrowError> {
        let Some(width) = self.width else { return self.take(rows) };
        let mut memory = Pages::<u8>::unwritten(width * rows.len());
        gather_columns(vec![(self, &mut memory[..])], rows, false, Store::Cached);
        self.array(Buffer::from(Bytes::from_owner(memory.written())), rows, None)
    }

    /// Returns the gathered values of the rows as an array. `missing` marks the rows that are
    /// missing, if any.
    pub(super) fn array(
        &self,
        values: Buffer,
        rows: &[u32],
        missing: Option<&NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let nulls = if self.has_nulls { self.nulls(rows) } else { missing.cloned() };
        let data = ArrayDataBuilder::new(self.data_type.clone())
            .len(rows.len())
            .add_buffer(values)
            .nulls(nulls);
        data.build().map(make_array)
    }

    /// Gathers rows of any type with `arrow-select`; [`NO_ROW`] yields a null.
    pub(crate) fn take(&self, rows: &[u32]) -> Result<ArrayRef, ArrowError> {
        match &self.chunks[..] {
            [] => Ok(new_null_array(&self.data_type, rows.len())),
            [chunk] if takes_nulls(&self.data_type) || !rows.contains(&NO_ROW) => {
                demand_texts(&self.chunks, rows.iter().map(|&row| (0, row as usize)));
                let nulls = NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |at| {
                    rows[at] != NO_ROW
                }));
                take(
                    chunk,
                    &UInt32Array::new(
                        rows.to_vec().into(),
                        (nulls.null_count() > 0).then_some(nulls),
                    ),
                    None,
                )
            }
            chunks => {
                let null = new_null_array(&self.data_type, 1);
                let mut sources: Vec<&dyn Array> = chunks.iter().map(|chunk| &**chunk).collect();
                sources.push(&*null);
                let finder = ChunkFinder::new(&self.starts);
                let places: Vec<(usize, usize)> = rows
                    .iter()
                    .map(|&row| if row == NO_ROW { (chunks.len(), 0) } else { finder.find(row) })
                    .collect();
                demand_texts(chunks, places.iter().copied());
                interleave(&sources, &places)
            }
        }
    }

    /// Returns a bitmap of the rows that are valid, or `None` if all rows are valid.
    fn nulls(&self, rows: &[u32]) -> Option<NullBuffer> {
        let finder = ChunkFinder::new(&self.starts);
        let valid = BooleanBuffer::collect_bool(rows.len(), |at| {
            let row = rows[at];
            row != NO_ROW && {
                let (chunk, place) = finder.find(row);
                self.chunks[chunk].is_valid(place)
            }
        });
        Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
    }

    /// If the column has a single chunk, writes the values of these rows. Rows whose number is
    /// [`NO_ROW`] get zeros.
    pub(super) fn gather_values(
        &self,
        rows: &[u32],
        optional: bool,
        out: &mut [Slot<u8>],
        store: Store,
    ) {
        match self.width {
            Some(1) => self.gather_as::<u8>(rows, optional, out, store),
            Some(2) => self.gather_as::<u16>(rows, optional, out, store),
            Some(4) => self.gather_as::<u32>(rows, optional, out, store),
            Some(8) => self.gather_as::<u64>(rows, optional, out, store),
            Some(16) => self.gather_as::<[u64; 2]>(rows, optional, out, store),
            width => unreachable!("values of width {width:?} are not gathered here"),
        }
    }

    fn gather_as<T: Value + AnyBitPattern + NoUninit + Default>(
        &self,
        rows: &[u32],
        optional: bool,
        out: &mut [Slot<u8>],
        store: Store,
    ) {
        let out: &mut [Slot<T>] = Slot::cast(out);
        let chunk: &[T] = bytemuck::cast_slice(&self.values[0]);
        if !optional {
            return gather(chunk, rows, out, store);
        }
        let Some(last) = chunk.len().checked_sub(1) else {
            Slot::fill(out, T::default());
            return;
        };
        for (out, rows) in out.chunks_mut(BLOCK).zip(rows.chunks(BLOCK)) {
            if !rows.contains(&NO_ROW) {
                gather(chunk, rows, out, store);
                continue;
            }
            // For a missing row, the last value is read, which avoids an unpredictable branch.
            for (out, &row) in out.iter_mut().zip(rows) {
                let value = chunk[(row as usize).min(last)];
                out.set(if row == NO_ROW { T::default() } else { value });
            }
        }
    }

    /// Returns the chunks as values of their width, with the position at which gathered values are
    /// written.
    pub(super) fn chunked<'a>(&'a self, out: &'a mut [Slot<u8>]) -> Box<dyn ChunkedColumn + 'a> {
        fn of<'a, T: Value + AnyBitPattern + NoUninit + Default>(
            values: &'a [Buffer],
            out: &'a mut [Slot<u8>],
        ) -> Box<dyn ChunkedColumn + 'a> {
            let chunks: Vec<&[T]> =
                values.iter().map(|values| bytemuck::cast_slice(values)).collect();
            Box::new(Chunks { chunks, out: Slot::cast(out) })
        }
        match self.width {
            Some(1) => of::<u8>(&self.values, out),
            Some(2) => of::<u16>(&self.values, out),
            Some(4) => of::<u32>(&self.values, out),
            Some(8) => of::<u64>(&self.values, out),
            Some(16) => of::<[u64; 2]>(&self.values, out),
            width => unreachable!("values of width {width:?} are not gathered here"),
        }
    }
}

/// Returns whether `take` produces a null for a null row number. For types without a validity
/// bitmap, `take` produces no nulls.
fn takes_nulls(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::RunEndEncoded(..) => false,
        DataType::Struct(fields) => fields.iter().all(|field| takes_nulls(field.data_type())),
        _ => true,
    }
}

/// Converts dictionary chunks to a single array with one dictionary so that all batches of a
/// result share that dictionary. Other chunks remain unchanged. Dictionaries also remain unchanged
/// if their codes cannot represent the total number of values.
fn one_dictionary(chunks: Vec<ArrayRef>) -> Vec<ArrayRef> {
    let of_dictionaries =
        chunks.iter().all(|chunk| matches!(chunk.data_type(), DataType::Dictionary(..)));
    if chunks.len() < 2
        || !of_dictionaries
        || !chunks.windows(2).all(|pair| pair[0].data_type() == pair[1].data_type())
    {
        return chunks;
    }
    let arrays: Vec<&dyn Array> = chunks.iter().map(|chunk| &**chunk).collect();
    concat(&arrays).map_or(chunks, |one| vec![one])
}

/// Returns the size of a value in bytes, if all values of the type have the same size and this
/// crate's kernels support it.
pub(crate) fn fixed_width(data_type: &DataType) -> Option<usize> {
    data_type.primitive_width().filter(|width| [1, 2, 4, 8, 16].contains(width))
}

/// Returns a fixed-width array's values, starting at its offset.
pub(crate) fn raw_values(array: &dyn Array, width: usize) -> Buffer {
    let data = array.to_data();
    let values = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
    if values.as_ptr().align_offset(width) == 0 { values } else { Buffer::from(values.as_slice()) }
}
