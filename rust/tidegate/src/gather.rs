//! Gathers rows of table columns, given by row numbers, into new arrays.
//!
//! Fixed-width columns, chunked or not, are gathered by the kernels of this file into memory on huge pages: a result is
//! large and fresh, and its page faults would cost more than the join (see [`tidegate_structures::pages`]). All other
//! columns go through `arrow-select`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, make_array, new_null_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use bytemuck::{AnyBitPattern, NoUninit};
use bytes::Bytes;
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::matches::NO_ROW;
use tidegate_structures::gather::{Store, Value, gather, prefetch};
use tidegate_structures::pages::Pages;

use crate::Result;
use crate::records::Records;
use crate::table::Table;

/// Rows of several chunks that are found together, while the values of those before are copied.
const TOGETHER: usize = 32;

/// A column of a table, ready to be gathered.
#[derive(Debug)]
pub(crate) struct Column {
    data_type: DataType,
    chunks: Vec<ArrayRef>,
    /// Where each chunk starts, with the number of rows as last element.
    starts: Vec<u32>,
    /// The width of a value, where all values have the same and this file gathers them.
    width: Option<usize>,
    /// Raw values of each chunk, where the width is fixed.
    values: Vec<Buffer>,
    has_nulls: bool,
}

impl Column {
    pub(crate) fn new(table: &Table, column: usize) -> Self {
        let data_type = table.schema().field(column).data_type().clone();
        Self::of_chunks(data_type, one_dictionary(table.chunks(column)))
    }

    /// A key column of both sides. Where both are dictionaries of one type, they get one dictionary.
    pub(crate) fn new_pair(left: &Table, left_column: usize, right: &Table, right_column: usize) -> (Self, Self) {
        let (of_left, of_right) = (left.chunks(left_column), right.chunks(right_column));
        let one = one_dictionary([of_left.clone(), of_right.clone()].concat());
        let (left_type, right_type) =
            (left.schema().field(left_column).data_type(), right.schema().field(right_column).data_type());
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
        let values = width.map_or_else(Vec::new, |width| chunks.iter().map(|chunk| raw_values(chunk, width)).collect());
        let has_nulls = chunks.iter().any(|chunk| chunk.null_count() > 0);
        Column { data_type, chunks, starts, width, values, has_nulls }
    }

    /// The bytes a row takes, on average.
    pub(crate) fn row_bytes(&self) -> usize {
        let rows = self.starts[self.starts.len() - 1] as usize;
        self.width.unwrap_or_else(|| {
            let bytes: usize =
                self.chunks.iter().map(|chunk| chunk.to_data().get_slice_memory_size().unwrap_or(0)).sum();
            bytes.div_ceil(rows.max(1))
        })
    }

    /// The bits of the values of some rows, which have 8 bytes each.
    pub(crate) fn longs(&self, rows: Range<usize>) -> Cow<'_, [u64]> {
        if let [chunk] = &self.values[..] {
            return Cow::Borrowed(&bytemuck::cast_slice(chunk)[rows]);
        }
        let finder = ChunkFinder::new(&self.starts);
        let (mut longs, mut row) = (Vec::with_capacity(rows.len()), rows.start);
        while row < rows.end {
            let (chunk, place) = finder.find(row as u32);
            let values: &[u64] = bytemuck::cast_slice(&self.values[chunk]);
            let end = values.len().min(place + rows.end - row);
            longs.extend_from_slice(&values[place..end]);
            row += end - place;
        }
        longs.into()
    }

    /// Gathers the rows, none of which is [`NO_ROW`], into an array of its own.
    pub(crate) fn gather(&self, rows: &[u32]) -> Result<ArrayRef, ArrowError> {
        let Some(width) = self.width else { return self.take(rows) };
        let mut memory = Pages::<u8>::new(width * rows.len());
        gather_columns(vec![(self, &mut memory[..width * rows.len()])], rows, false, Store::Cached);
        self.array(Buffer::from(Bytes::from_owner(memory)), rows, false)
    }

    /// The array of the values gathered from the rows.
    fn array(&self, values: Buffer, rows: &[u32], optional: bool) -> Result<ArrayRef, ArrowError> {
        let data = ArrayDataBuilder::new(self.data_type.clone())
            .len(rows.len())
            .add_buffer(values)
            .nulls(self.nulls(rows, optional));
        data.build().map(make_array)
    }

    /// Gathers the rows by `arrow-select`, whatever the type; [`NO_ROW`] gives a null.
    pub(crate) fn take(&self, rows: &[u32]) -> Result<ArrayRef, ArrowError> {
        match &self.chunks[..] {
            [] => Ok(new_null_array(&self.data_type, rows.len())),
            [chunk] if takes_nulls(&self.data_type) || !rows.contains(&NO_ROW) => {
                let nulls = NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |at| rows[at] != NO_ROW));
                take(chunk, &UInt32Array::new(rows.to_vec().into(), (nulls.null_count() > 0).then_some(nulls)), None)
            }
            chunks => {
                let null = new_null_array(&self.data_type, 1);
                let mut sources: Vec<&dyn Array> = chunks.iter().map(|chunk| &**chunk).collect();
                sources.push(&*null);
                let finder = ChunkFinder::new(&self.starts);
                let places: Vec<(usize, usize)> =
                    rows.iter().map(|&row| if row == NO_ROW { (chunks.len(), 0) } else { finder.find(row) }).collect();
                interleave(&sources, &places)
            }
        }
    }

    /// Which of the rows are valid, if one may not be.
    fn nulls(&self, rows: &[u32], optional: bool) -> Option<NullBuffer> {
        if !self.has_nulls && !optional {
            return None;
        }
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

    /// Writes the values of the rows, of which those that are [`NO_ROW`] give zeros, where the column has one chunk.
    fn gather_values(&self, rows: &[u32], optional: bool, out: &mut [u8], store: Store) {
        match self.width {
            Some(1) => self.gather_as::<u8>(rows, optional, out, store),
            Some(2) => self.gather_as::<u16>(rows, optional, out, store),
            Some(4) => self.gather_as::<u32>(rows, optional, out, store),
            Some(8) => self.gather_as::<u64>(rows, optional, out, store),
            Some(16) => self.gather_as::<[u64; 2]>(rows, optional, out, store),
            width => unreachable!("a width of {width:?} is not gathered here"),
        }
    }

    fn gather_as<T: Value + AnyBitPattern + NoUninit + Default>(
        &self,
        rows: &[u32],
        optional: bool,
        out: &mut [u8],
        store: Store,
    ) {
        let out: &mut [T] = bytemuck::cast_slice_mut(out);
        let chunk: &[T] = bytemuck::cast_slice(&self.values[0]);
        match optional {
            false => gather(chunk, rows, out, store),
            true => out.iter_mut().zip(rows).for_each(|(out, &row)| {
                *out = chunk.get(row as usize).copied().unwrap_or_default();
            }),
        }
    }

    /// The chunks as values of their width, and where values gathered from them go.
    fn chunked<'a>(&'a self, out: &'a mut [u8]) -> Box<dyn Chunked + 'a> {
        fn of<'a, T: AnyBitPattern + NoUninit + Default>(
            values: &'a [Buffer],
            out: &'a mut [u8],
        ) -> Box<dyn Chunked + 'a> {
            let chunks: Vec<&[T]> = values.iter().map(|values| bytemuck::cast_slice(values)).collect();
            Box::new(Chunks { chunks, out: bytemuck::cast_slice_mut(out) })
        }
        match self.width {
            Some(1) => of::<u8>(&self.values, out),
            Some(2) => of::<u16>(&self.values, out),
            Some(4) => of::<u32>(&self.values, out),
            Some(8) => of::<u64>(&self.values, out),
            Some(16) => of::<[u64; 2]>(&self.values, out),
            width => unreachable!("a width of {width:?} is not gathered here"),
        }
    }
}

/// Where a row is: its chunk, and its place there.
type Place = (usize, usize);

/// The place of a row that there is not.
const NO_PLACE: Place = (usize::MAX, 0);

/// A column of several chunks, of which values are gathered.
trait Chunked {
    /// Asks for the values at these places.
    fn ask(&self, places: &[Place]);

    /// Writes them behind those written before.
    fn copy(&mut self, places: &[Place]);
}

struct Chunks<'a, T> {
    chunks: Vec<&'a [T]>,
    /// What has not been written yet.
    out: &'a mut [T],
}

impl<T: Copy + Default> Chunked for Chunks<'_, T> {
    fn ask(&self, places: &[Place]) {
        for &(chunk, place) in places {
            if let Some(chunk) = self.chunks.get(chunk) {
                prefetch(chunk, place);
            }
        }
    }

    fn copy(&mut self, places: &[Place]) {
        let (out, rest) = std::mem::take(&mut self.out).split_at_mut(places.len());
        for (out, &(chunk, place)) in out.iter_mut().zip(places) {
            *out = self.chunks.get(chunk).map_or_else(T::default, |chunk| chunk[place]);
        }
        self.out = rest;
    }
}

/// Writes the values of the same rows of columns of one table; of rows that are [`NO_ROW`], zeros.
fn gather_columns(columns: Vec<(&Column, &mut [u8])>, rows: &[u32], optional: bool, store: Store) {
    let Some(starts) = columns.first().map(|(column, _)| &column.starts) else { return };
    debug_assert!(columns.iter().all(|(column, _)| column.starts == *starts), "columns of a table are cut alike");
    if starts.len() == 2 {
        return columns.into_iter().for_each(|(column, out)| column.gather_values(rows, optional, out, store));
    }
    let finder = ChunkFinder::new(starts);
    let mut columns: Vec<_> = columns.into_iter().map(|(column, out)| column.chunked(out)).collect();
    // Where rows are is found once for all columns, and ahead, so that values come from memory meanwhile.
    let find = |rows: &[u32], places: &mut [Place; TOGETHER], columns: &[Box<dyn Chunked + '_>]| {
        for (place, &row) in places.iter_mut().zip(rows) {
            *place = if row == NO_ROW { NO_PLACE } else { finder.find(row) };
        }
        columns.iter().for_each(|column| column.ask(&places[..rows.len()]));
    };
    let mut memory = [[NO_PLACE; TOGETHER]; 2];
    let [places, ahead] = &mut memory;
    let (mut places, mut ahead) = (places, ahead);
    let (mut some, mut rest) = rows.split_at(TOGETHER.min(rows.len()));
    find(some, places, &columns);
    while !some.is_empty() {
        let (next, others) = rest.split_at(TOGETHER.min(rest.len()));
        find(next, ahead, &columns);
        columns.iter_mut().for_each(|column| column.copy(&places[..some.len()]));
        (some, rest) = (next, others);
        std::mem::swap(&mut places, &mut ahead);
    }
}

/// Whether `take` gives a null where a row number is null: not of types without a validity bitmap of their own.
fn takes_nulls(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::RunEndEncoded(..) => false,
        DataType::Struct(fields) => fields.iter().all(|field| takes_nulls(field.data_type())),
        _ => true,
    }
}

/// Dictionary chunks as one array with one dictionary, so that all batches of a result share it; other chunks as they are,
/// and so dictionaries that together have more values than their codes can tell apart.
fn one_dictionary(chunks: Vec<ArrayRef>) -> Vec<ArrayRef> {
    let of_dictionaries = chunks.iter().all(|chunk| matches!(chunk.data_type(), DataType::Dictionary(..)));
    if chunks.len() < 2 || !of_dictionaries || !chunks.windows(2).all(|pair| pair[0].data_type() == pair[1].data_type())
    {
        return chunks;
    }
    let arrays: Vec<&dyn Array> = chunks.iter().map(|chunk| &**chunk).collect();
    concat(&arrays).map_or(chunks, |one| vec![one])
}

/// Rows of several batches as one. Values of fixed width share one piece of memory, on huge pages if they are many.
pub(crate) fn concat_rows(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch, ArrowError> {
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(schema.clone()));
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let width = |column: usize| fixed_width(schema.field(column).data_type());
    let columns = 0..schema.fields().len();
    let padded = |width: usize| (width * rows).next_multiple_of(64);
    // 1. The values, column by column.
    let mut memory = Pages::<u8>::new(columns.clone().filter_map(width).map(padded).sum());
    let mut rest = &mut memory[..];
    for (column, width) in columns.clone().filter_map(|column| Some((column, width(column)?))) {
        let (mut out, others) = std::mem::take(&mut rest).split_at_mut(padded(width));
        rest = others;
        for batch in batches {
            let values = raw_values(batch.column(column), width);
            let (now, later) = out.split_at_mut(values.len());
            now.copy_from_slice(&values);
            out = later;
        }
    }
    // 2. They become arrays, as do the others.
    let memory = Bytes::from_owner(memory);
    let mut start = 0;
    let columns = columns.map(|column| {
        let chunks: Vec<&dyn Array> = batches.iter().map(|batch| &**batch.column(column)).collect();
        let Some(width) = width(column) else { return concat(&chunks) };
        let values = Buffer::from(memory.slice(start..start + width * rows));
        start += padded(width);
        let data = ArrayDataBuilder::new(schema.field(column).data_type().clone()).len(rows).add_buffer(values);
        data.nulls(concat_nulls(&chunks)).build().map(make_array)
    });
    let columns = columns.collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

/// Which values of the chunks are valid, if one is not.
fn concat_nulls(chunks: &[&dyn Array]) -> Option<NullBuffer> {
    if chunks.iter().all(|chunk| chunk.null_count() == 0) {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(chunks.iter().map(|chunk| chunk.len()).sum());
    for chunk in chunks {
        match chunk.nulls() {
            Some(nulls) => valid.append_buffer(nulls.inner()),
            None => valid.append_n(chunk.len(), true),
        }
    }
    Some(NullBuffer::new(valid.finish()))
}

/// The bytes of a value, where all values of the type have the same number and our kernels know it.
pub(crate) fn fixed_width(data_type: &DataType) -> Option<usize> {
    data_type.primitive_width().filter(|width| [1, 2, 4, 8, 16].contains(width))
}

/// The values of a fixed-width array, without those before its offset.
pub(crate) fn raw_values(array: &dyn Array, width: usize) -> Buffer {
    let data = array.to_data();
    let values = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
    if values.as_ptr().align_offset(width) == 0 { values } else { Buffer::from(values.as_slice()) }
}

/// Finds the chunk of a row. Rows are cut into blocks, of which few hold a chunk's end: no branch on where a row is goes
/// wrong often, in whichever order rows come.
struct ChunkFinder<'a> {
    starts: &'a [u32],
    /// The chunk of each block's first row, and once more that of the last row.
    chunk_of: Vec<u32>,
    /// A block has 2 to the power of this many rows.
    shift: u32,
}

impl<'a> ChunkFinder<'a> {
    fn new(starts: &'a [u32]) -> Self {
        let (chunks, rows) = (starts.len() - 1, starts[starts.len() - 1]);
        let Some(last) = rows.checked_sub(1) else { return ChunkFinder { starts, chunk_of: Vec::new(), shift: 0 } };
        // Some blocks a chunk.
        let shift = (rows / chunks as u32 / 8).checked_ilog2().unwrap_or(0);
        let mut chunk = 0;
        let mut chunk_at = |row: u32| {
            while starts[chunk + 1] <= row {
                chunk += 1;
            }
            chunk as u32
        };
        let firsts = (0..=last >> shift).map(|block| block << shift);
        let chunk_of = firsts.chain([last]).map(&mut chunk_at).collect();
        ChunkFinder { starts, chunk_of, shift }
    }

    #[inline]
    fn find(&self, row: u32) -> (usize, usize) {
        let block = (row >> self.shift) as usize;
        let (first, last) = (self.chunk_of[block] as usize, self.chunk_of[block + 1] as usize);
        let chunk = match first == last {
            true => first,
            false => first + self.starts[first + 1..=last].partition_point(|&start| start <= row),
        };
        (chunk, (row - self.starts[chunk]) as usize)
    }
}

/// Where a column of the result comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A column of the left side.
    Left(Arc<Column>),
    /// A column of the right side.
    Right(Arc<Column>),
    /// A key column: the left side's value, or the right side's where there is no left row.
    Either(Arc<Column>, Arc<Column>),
}

/// What is gathered for a row of the result.
#[derive(Debug)]
pub(crate) struct Gather {
    pub(crate) sources: Vec<Source>,
    /// The types of the result's columns.
    pub(crate) types: Vec<DataType>,
    /// Whether result rows may be without a left row, and without a right row.
    pub(crate) optional: [bool; 2],
    /// Right columns that lie row by row, too.
    pub(crate) records: Vec<Records>,
}

impl Gather {
    /// Lays right columns out row by row: worth it for a result that has most right rows, at places far apart.
    pub(crate) fn lay_out_right(&mut self, rows: (usize, usize), driver: &Driver) -> Result<(), Stopped> {
        let right = |(place, source): (usize, &Source)| match source {
            Source::Right(column) if column.width == Some(size_of::<u64>()) => Some((place, column.clone())),
            _ => None,
        };
        self.records = Records::lay_out(self.sources.iter().enumerate().filter_map(right).collect(), rows, driver)?;
        Ok(())
    }

    /// The bytes a result row takes, on average.
    pub(crate) fn row_bytes(&self) -> usize {
        let bytes = |source: &Source| match source {
            Source::Left(column) | Source::Right(column) => column.row_bytes(),
            Source::Either(left, right) => left.row_bytes().max(right.row_bytes()),
        };
        self.sources.iter().map(bytes).sum()
    }

    /// The columns of the result rows given by their rows of each side. Values that will not be read soon are written past
    /// the caches.
    pub(crate) fn columns(&self, left: &[u32], right: &[u32], read_soon: bool) -> Result<Vec<ArrayRef>, ArrowError> {
        let rows = left.len();
        // 1. Fixed-width values of all columns share one piece of memory, each at a cache line's start.
        let width = |source: &Source| match source {
            Source::Left(column) | Source::Right(column) => column.width,
            Source::Either(..) => None,
        };
        let padded = |width: usize| (width * rows).next_multiple_of(64);
        let mut memory = Pages::<u8>::new(self.sources.iter().filter_map(width).map(padded).sum());
        let store = if memory.is_warm() && !read_soon { Store::Streaming } else { Store::Cached };
        let mut rest = &mut memory[..];
        let mut of_source = |source: &Source| {
            let width = width(source).unwrap_or(0);
            let (out, others) = std::mem::take(&mut rest).split_at_mut(padded(width));
            rest = others;
            &mut out[..width * rows]
        };
        let mut out: Vec<&mut [u8]> = self.sources.iter().map(&mut of_source).collect();
        for records in &self.records {
            records.gather(right, self.optional[1], &mut out, store);
        }
        let mut of_sides = [Vec::new(), Vec::new()];
        for (source, out) in self.sources.iter().zip(out).filter(|(_, out)| !out.is_empty()) {
            match source {
                Source::Left(column) => of_sides[0].push((&**column, out)),
                Source::Right(column) => of_sides[1].push((&**column, out)),
                Source::Either(..) => unreachable!("its width is not fixed"),
            }
        }
        for (columns, (rows, optional)) in
            of_sides.into_iter().zip([(left, self.optional[0]), (right, self.optional[1])])
        {
            gather_columns(columns, rows, optional, store);
        }
        // 2. They become arrays; the others are gathered one by one.
        let memory = Bytes::from_owner(memory);
        let mut start = 0;
        let mut fixed = |column: &Column, width: usize, rows: &[u32], optional| {
            let values = Buffer::from(memory.slice(start..start + width * rows.len()));
            start += padded(width);
            column.array(values, rows, optional)
        };
        let mut array = |column: &Column, rows: &[u32], optional| match column.width {
            Some(width) => fixed(column, width, rows, optional),
            None => column.take(rows),
        };
        let one = |(source, data_type): (&Source, &DataType)| match source {
            Source::Left(column) => array(column, left, self.optional[0]),
            Source::Right(column) => array(column, right, self.optional[1]),
            Source::Either(of_left, of_right) => either(of_left, of_right, left, right, data_type),
        };
        self.sources.iter().zip(&self.types).map(one).collect()
    }
}

/// The left column's value where there is a left row, else the right column's, in one type.
fn either(
    of_left: &Column,
    of_right: &Column,
    left: &[u32],
    right: &[u32],
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let as_common = |array: ArrayRef| match array.data_type() == data_type {
        true => Ok(array),
        false => arrow_cast::cast(&array, data_type),
    };
    if left.iter().all(|&row| row != NO_ROW) {
        return as_common(of_left.take(left)?);
    }
    let left_values = as_common(of_left.take(left)?)?;
    let right_values = as_common(of_right.take(right)?)?;
    let places: Vec<_> = left.iter().enumerate().map(|(at, &row)| (usize::from(row == NO_ROW), at)).collect();
    interleave(&[&*left_values, &*right_values], &places)
}
