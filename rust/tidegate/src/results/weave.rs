//! Combines rows from several ordered sources into one sequence. The order of the sequence is
//! specified row by row.
//!
//! ```text
//! order of sources   0 0 1 0 1
//! source 0           a b c           result   a b x c y
//! source 1           x y
//! ```
//!
//! Each value is the next one from its row's source, so row positions do not have to be stored or
//! looked up. Instead, one cursor per source moves through that source's values.

use std::ops::Range;
use std::slice::Iter;

use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{ArrowError, DataType, Field, SchemaRef};
use bytemuck::AnyBitPattern;
use tidegate_structures::memory;
use tidegate_structures::memory::gather::prefetch;

use super::gather::{demand_texts, fixed_width, raw_values};
use crate::Result;
use crate::columns::dictionary::{interleave as interleave_any, of_column};
use crate::columns::time::{self, Unit};

/// The size of a cache line in bytes.
const LINE: usize = 64;

/// A column of the sources.
#[derive(Debug)]
struct Strand<'a> {
    name: &'a str,
    data_type: &'a DataType,
    /// Sorted by source. The parts of each source are in that source's order.
    parts: Vec<SourceRows>,
}

#[derive(Debug)]
struct SourceRows {
    source: u16,
    rows: ArrayRef,
    /// The values, if they all have the same number of bytes.
    values: Option<Buffer>,
}

impl<'a> Strand<'a> {
    /// The parts are sorted by source. The parts of each source are in that source's order.
    fn new(field: &'a Field, parts: impl IntoIterator<Item = (u16, ArrayRef)>) -> Self {
        let data_type = field.data_type();
        let width = fixed_width(data_type);
        let part = |(source, rows): (u16, ArrayRef)| {
            let values = width.map(|width| raw_values(&rows, width));
            SourceRows { source, rows, values }
        };
        let parts: Vec<SourceRows> = parts.into_iter().map(part).collect();
        debug_assert!(parts.is_sorted_by_key(|part| part.source), "parts are sorted by source");
        Strand { name: field.name(), data_type, parts }
    }

    fn fixed(&self, rows: usize) -> Option<Box<dyn FixedValues + '_>> {
        Some(match fixed_width(self.data_type)? {
            1 => self.values::<u8>(rows),
            2 => self.values::<u16>(rows),
            4 => self.values::<u32>(rows),
            8 => self.values::<u64>(rows),
            _ => self.values::<i128>(rows),
        })
    }

    fn values<T: ArrowNativeType + AnyBitPattern>(&self, rows: usize) -> Box<dyn FixedValues + '_> {
        let values = self.parts.iter().map(|part| {
            let values: &[T] = bytemuck::cast_slice(part.values.as_deref().unwrap_or_default());
            (part.source, PartValues(values.iter()))
        });
        let has_nulls = self.parts.iter().any(|part| part.rows.null_count() > 0);
        let valid = has_nulls.then(|| {
            let bits = self.parts.iter().map(|part| (part.source, Bits::of(&part.rows)));
            (Cursors::new(bits), BooleanBufferBuilder::new(rows))
        });
        Box::new(WovenColumn { cursors: Cursors::new(values), woven: memory::vec(rows), valid })
    }
}

/// Combines all rows of these batches into one batch. The batches are sorted by source. The batches
/// of each source are in that source's order. `merge` weaves all `rows` rows, and returns their
/// times in `unit`. A single batch is returned unchanged.
pub(crate) fn weave(
    schema: &SchemaRef,
    (on, unit): (usize, Unit),
    batches: &[(u16, RecordBatch)],
    rows: usize,
    merge: impl FnOnce(&mut Weave<'_>) -> Vec<i64>,
) -> Result<RecordBatch> {
    if let [(_, only)] = batches {
        return Ok(RecordBatch::try_new(schema.clone(), only.columns().to_vec())?);
    }
    let stored = time::is_int64(schema.field(on), unit);
    let others = (0..schema.fields().len()).filter(|&at| at != on || !stored);
    let strand = |at: usize| {
        let parts = batches.iter().map(|(source, batch)| (*source, batch.column(at).clone()));
        Strand::new(schema.field(at), parts)
    };
    let strands: Vec<Strand<'_>> = others.map(strand).collect();
    let mut weave = Weave::new(&strands, rows);
    let ts = merge(&mut weave);
    let mut columns = weave.finish()?;
    if let Some(times) = time::from_int64(schema.field(on), unit, &ts.into()) {
        columns.insert(on, times);
    }
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

/// Columns that are woven one piece at a time.
pub(crate) struct Weave<'a> {
    columns: Vec<(&'a Strand<'a>, Option<Box<dyn FixedValues + 'a>>)>,
    /// The location of each row among the parts, if any column has values of different lengths.
    places: Option<(Cursors<PartPlaces>, Vec<Place>)>,
}

impl<'a> Weave<'a> {
    /// Creates a weave with capacity for this number of rows. The parts of all columns must have
    /// the same lengths.
    fn new(strands: &'a [Strand<'a>], rows: usize) -> Self {
        let columns: Vec<_> = strands.iter().map(|strand| (strand, strand.fixed(rows))).collect();
        let other = columns.iter().find(|(_, values)| values.is_none());
        let places = other.map(|(strand, _)| {
            let parts = strand.parts.iter().enumerate();
            let places =
                parts.map(|(at, part)| (part.source, PartPlaces::new(at, part.rows.len())));
            (Cursors::new(places), memory::vec(rows))
        });
        Weave { columns, places }
    }

    /// Appends the next rows, given the source of each row.
    pub(crate) fn extend(&mut self, sources: &[u16]) {
        for values in self.columns.iter_mut().filter_map(|(_, values)| values.as_mut()) {
            values.extend(sources);
        }
        if let Some((cursors, places)) = &mut self.places {
            cursors.next_of(sources, places);
        }
    }

    /// Returns the woven columns.
    fn finish(self) -> Result<Vec<ArrayRef>> {
        let places = self.places.map_or_else(Vec::new, |(_, places)| places);
        let column = |(strand, values): (&Strand<'_>, Option<Box<dyn FixedValues + 'a>>)| {
            let Some(values) = values else {
                let chunks: Vec<ArrayRef> =
                    strand.parts.iter().map(|part| part.rows.clone()).collect();
                demand_texts(&chunks, places.iter().copied());
                let chunks: Vec<&dyn Array> = chunks.iter().map(|chunk| &**chunk).collect();
                let named = |error| of_column(strand.name, error);
                return interleave_any(&chunks, &places).map_err(named);
            };
            Ok(values.finish(strand.data_type)?)
        };
        self.columns.into_iter().map(column).collect()
    }
}

/// A column of fixed-length values.
trait FixedValues {
    fn extend(&mut self, sources: &[u16]);

    fn finish(self: Box<Self>, data_type: &DataType) -> std::result::Result<ArrayRef, ArrowError>;
}

/// Interleaves values from several parts of a column, in result order.
struct WovenColumn<'a, T> {
    cursors: Cursors<PartValues<'a, T>>,
    woven: Vec<T>,
    /// The validity of the values, if any value is null.
    valid: Option<(Cursors<Bits>, BooleanBufferBuilder)>,
}

impl<T: ArrowNativeType> FixedValues for WovenColumn<'_, T> {
    fn extend(&mut self, sources: &[u16]) {
        self.cursors.announce(sources.len());
        self.cursors.next_of(sources, &mut self.woven);
        if let Some((cursors, valid)) = &mut self.valid {
            sources.iter().for_each(|&source| valid.append(cursors.next(source)));
        }
    }

    fn finish(self: Box<Self>, data_type: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
        let nulls = self.valid.map(|(_, mut valid)| NullBuffer::new(valid.finish()));
        let data = ArrayDataBuilder::new(data_type.clone())
            .len(self.woven.len())
            .add_buffer(Buffer::from_vec(self.woven))
            .nulls(nulls.filter(|nulls| nulls.null_count() > 0));
        data.build().map(make_array)
    }
}

/// The current position in each source.
struct Cursors<I>(Vec<Cursor<I>>);

struct Cursor<I> {
    part: Option<I>,
    /// The remaining parts, in reverse order.
    later: Vec<I>,
}

impl<T, I: Iterator<Item = T>> Cursors<I> {
    fn new(parts: impl Iterator<Item = (u16, I)>) -> Self {
        let mut cursors: Vec<Cursor<I>> = Vec::new();
        for (source, part) in parts {
            let source = usize::from(source);
            if source >= cursors.len() {
                cursors.resize_with(source + 1, || Cursor { part: None, later: Vec::new() });
            }
            let cursor = &mut cursors[source];
            match cursor.part {
                None => cursor.part = Some(part),
                Some(_) => cursor.later.push(part),
            }
        }
        cursors.iter_mut().for_each(|cursor| cursor.later.reverse());
        Cursors(cursors)
    }

    /// Returns the next value of a source.
    #[inline(always)]
    fn next(&mut self, source: u16) -> T {
        let cursor = &mut self.0[usize::from(source)];
        match cursor.part.as_mut().and_then(Iterator::next) {
            Some(value) => value,
            None => cursor.next_of_later(),
        }
    }

    /// Appends the next value from the source of each row.
    fn next_of(&mut self, sources: &[u16], out: &mut Vec<T>) {
        memory::reserve(out, sources.len());
        out.extend(sources.iter().map(|&source| self.next(source)));
    }
}

impl<T> Cursors<PartValues<'_, T>> {
    /// Prefetches the values that will be needed after `rows` more rows. With many sources, the
    /// processor cannot detect that each source is read sequentially.
    fn announce(&self, rows: usize) {
        let share = rows.div_ceil(self.0.len().max(1));
        for values in self.0.iter().filter_map(|cursor| cursor.part.as_ref()) {
            let rest = values.0.as_slice();
            (share..2 * share).step_by(LINE / size_of::<T>()).for_each(|at| prefetch(rest, at));
        }
    }
}

impl<T, I: Iterator<Item = T>> Cursor<I> {
    #[cold]
    #[inline(never)]
    fn next_of_later(&mut self) -> T {
        loop {
            let mut part = self.later.pop().expect("the parts have a value for each row");
            let value = part.next();
            self.part = Some(part);
            if let Some(value) = value {
                return value;
            }
        }
    }
}

/// The values of a part.
struct PartValues<'a, T>(Iter<'a, T>);

impl<T: Copy> Iterator for PartValues<'_, T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        self.0.next().copied()
    }
}

/// A part's number, and a row number within that part.
type Place = (usize, usize);

/// The locations of a part's rows.
struct PartPlaces {
    part: usize,
    rows: Range<usize>,
}

impl PartPlaces {
    fn new(part: usize, rows: usize) -> Self {
        PartPlaces { part, rows: 0..rows }
    }
}

impl Iterator for PartPlaces {
    type Item = Place;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        Some((self.part, self.rows.next()?))
    }
}

/// Returns a bitmap of the rows in a part that are not null.
struct Bits {
    nulls: Option<NullBuffer>,
    rows: Range<usize>,
}

impl Bits {
    fn of(part: &ArrayRef) -> Self {
        Bits { nulls: part.nulls().cloned(), rows: 0..part.len() }
    }
}

impl Iterator for Bits {
    type Item = bool;

    #[inline(always)]
    fn next(&mut self) -> Option<bool> {
        let row = self.rows.next()?;
        Some(self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BooleanArray, Int32Array, StringArray};

    use super::*;

    const SOURCES: [u16; 6] = [3, 0, 3, 3, 0, 3];

    fn field(data_type: DataType) -> Field {
        Field::new("values", data_type, true)
    }

    fn woven(strand: Strand<'_>) -> ArrayRef {
        let strands = [strand];
        let mut weave = Weave::new(&strands, SOURCES.len());
        SOURCES.chunks(4).for_each(|sources| weave.extend(sources));
        weave.finish().unwrap().remove(0)
    }

    #[test]
    fn each_source_goes_through_its_parts() {
        let parts: [(u16, ArrayRef); 4] = [
            (0, Arc::new(Int32Array::from(vec![1, 2]))),
            (3, Arc::new(Int32Array::from(vec![9, 5, 6]).slice(1, 2))),
            (3, Arc::new(Int32Array::from(Vec::<i32>::new()))),
            (3, Arc::new(Int32Array::from(vec![Some(7), None]))),
        ];
        let expected = vec![Some(5), Some(1), Some(6), Some(7), Some(2), None];
        let found = woven(Strand::new(&field(DataType::Int32), parts));
        assert_eq!(*found, Int32Array::from(expected));
    }

    #[test]
    fn columns_of_any_type_have_the_same_order() {
        let texts: [(u16, ArrayRef); 2] = [
            (0, Arc::new(StringArray::from(vec!["a", "b"]))),
            (3, Arc::new(StringArray::from(vec![Some("c"), None, Some("d"), Some("e")]))),
        ];
        let expected = vec![Some("c"), Some("a"), None, Some("d"), Some("b"), Some("e")];
        let found = woven(Strand::new(&field(DataType::Utf8), texts));
        assert_eq!(*found, StringArray::from(expected));

        let flags: [(u16, ArrayRef); 2] = [
            (0, Arc::new(BooleanArray::from(vec![true, false]))),
            (3, Arc::new(BooleanArray::from(vec![false, true, true, false]))),
        ];
        let expected = BooleanArray::from(vec![false, true, true, true, false, false]);
        assert_eq!(*woven(Strand::new(&field(DataType::Boolean), flags)), expected);
    }

    #[test]
    fn rows_of_one_batch_are_not_copied() {
        let only =
            RecordBatch::try_from_iter([("ts", Arc::new(Int32Array::from(vec![1, 2])) as _)]);
        let only = only.unwrap();
        let found =
            weave(&only.schema(), (0, Unit::Integer), &[(4, only.clone())], 2, |_| unreachable!());
        let buffer = |batch: &RecordBatch| batch.column(0).to_data().buffers()[0].as_ptr();
        assert_eq!(buffer(&found.unwrap()), buffer(&only));
    }
}
