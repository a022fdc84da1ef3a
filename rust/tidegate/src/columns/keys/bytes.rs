//! Keys that are byte strings. String columns are used unchanged, and all other columns are
//! encoded.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::array::AnyDictionaryArray;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, UInt32Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;
use tidegate_operators::rows::NO_KEY;
use tidegate_structures::memory;
use tidegate_structures::memory::pages::Slot;

use super::chunks::ColumnChunks;
use super::numbering::KeyColumns;
use super::types::is_word;
use super::words::word_chunk;
use crate::columns::cast::cast;
use crate::columns::table::Table;
use crate::{Error, Result};

/// A column of strings or binary values, with or without a dictionary.
pub(crate) struct ByteColumn {
    chunks: ColumnChunks,
}

impl ByteColumn {
    pub(super) fn new(table: &Table, column: usize) -> Self {
        ByteColumn { chunks: ColumnChunks::new(table, table.chunks(column)) }
    }
}

impl KeyColumns for ByteColumn {
    type Key = [u8];

    fn rows(&self) -> usize {
        self.chunks.rows()
    }

    fn for_each(&self, rows: Range<usize>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        for (chunk, range) in self.chunks.pieces(rows) {
            bytes(&self.chunks.arrays[chunk].slice(range.start, range.len()), &mut each)?;
        }
        Ok(())
    }

    fn write_numbers(
        &self,
        rows: Range<usize>,
        mut number_of: impl FnMut(&[u8]) -> u32,
        mut out: &mut [Slot<u32>],
    ) -> Result<()> {
        for (chunk, range) in self.chunks.pieces(rows) {
            let array = self.chunks.arrays[chunk].slice(range.start, range.len());
            let (now, later) = std::mem::take(&mut out).split_at_mut(range.len());
            out = later;
            match array.as_any_dictionary_opt() {
                Some(dictionary) => number_codes(dictionary, &mut number_of, now)?,
                None => {
                    let mut out = now.iter_mut();
                    bytes(&array, |key| {
                        let number = key.map_or(NO_KEY, &mut number_of);
                        out.next().expect("a place a row").set(number);
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// Writes the key numbers for a dictionary-encoded array. Each value is numbered once, when it
/// first occurs in a row.
fn number_codes(
    dictionary: &dyn AnyDictionaryArray,
    mut number_of: impl FnMut(&[u8]) -> u32,
    out: &mut [Slot<u32>],
) -> Result<()> {
    let (values, codes) = decoded(dictionary)?;
    let mut numbers: Vec<Option<u32>> = memory::vec(values.len());
    numbers.resize(values.len(), None);
    let mut number = |code: u32| {
        let code = code as usize;
        *numbers[code].get_or_insert_with(|| match values.is_valid(code) {
            true => number_of(values.value(code)),
            false => NO_KEY,
        })
    };
    match codes.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => out.iter_mut().zip(codes.values()).for_each(|(out, &code)| out.set(number(code))),
        Some(_) => out
            .iter_mut()
            .zip(&codes)
            .for_each(|(out, code)| out.set(code.map_or(NO_KEY, &mut number))),
    }
    Ok(())
}

/// Returns a dictionary's values and, for each row, the position of its value.
fn decoded(dictionary: &dyn AnyDictionaryArray) -> Result<(LargeBinaryArray, UInt32Array)> {
    let values = cast(dictionary.values(), &DataType::LargeBinary)?.as_binary::<i64>().clone();
    let codes = match dictionary.keys().as_primitive_opt::<Int32Type>() {
        // No code is negative, so its bits remain the same.
        Some(codes) => {
            let bits = codes.values().inner().clone();
            UInt32Array::new(ScalarBuffer::from(bits), codes.nulls().cloned())
        }
        None => cast(dictionary.keys(), &DataType::UInt32)?.as_primitive().clone(),
    };
    Ok((values, codes))
}

fn bytes(array: &dyn Array, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
    match array.data_type() {
        DataType::Utf8 => {
            array.as_string::<i32>().iter().for_each(|key| each(key.map(str::as_bytes)))
        }
        DataType::LargeUtf8 => {
            array.as_string::<i64>().iter().for_each(|key| each(key.map(str::as_bytes)))
        }
        DataType::Utf8View => {
            array.as_string_view().iter().for_each(|key| each(key.map(str::as_bytes)))
        }
        DataType::Binary => array.as_binary::<i32>().iter().for_each(each),
        DataType::LargeBinary => array.as_binary::<i64>().iter().for_each(each),
        DataType::BinaryView => array.as_binary_view().iter().for_each(each),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().for_each(each),
        DataType::Null => (0..array.len()).for_each(|_| each(None)),
        DataType::Dictionary(..) => {
            let (values, codes) = decoded(array.as_any_dictionary())?;
            let value =
                |code: u32| values.is_valid(code as usize).then(|| values.value(code as usize));
            codes.iter().for_each(|code| each(code.and_then(value)));
        }
        other => return Err(Error::bug(format!("{other} is not a string or binary type"))),
    }
    Ok(())
}

/// Several columns, or one column of any other type, as encoded rows.
pub(crate) struct RowColumns<'a> {
    table: &'a Table,
    columns: Vec<(usize, &'a DataType)>,
    chunks: ColumnChunks,
    /// True if rows that contain a null have keys.
    nulls_are_values: bool,
}

impl<'a> RowColumns<'a> {
    pub(super) fn new(table: &'a Table, columns: Vec<(usize, &'a DataType)>) -> Self {
        RowColumns {
            table,
            columns,
            chunks: ColumnChunks::new(table, Vec::new()),
            nulls_are_values: false,
        }
    }

    /// Returns the same rows, but rows that contain nulls also get keys.
    pub(super) fn with_nulls(self) -> Self {
        RowColumns { nulls_are_values: true, ..self }
    }

    /// Returns the type in which a column is encoded.
    fn encoded_type(common: &DataType) -> DataType {
        match common {
            _ if is_word(common) => DataType::Int64,
            DataType::Utf8 | DataType::Utf8View => DataType::LargeUtf8,
            DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                DataType::LargeBinary
            }
            other => other.clone(),
        }
    }

    fn column(&self, column: usize, common: &DataType, chunk: &ArrayRef) -> Result<ArrayRef> {
        if is_word(common) {
            return Ok(Arc::new(word_chunk(self.table, column, chunk, common)?));
        }
        Ok(cast(chunk, &Self::encoded_type(common))?)
    }
}

impl KeyColumns for RowColumns<'_> {
    type Key = [u8];

    fn rows(&self) -> usize {
        self.chunks.rows()
    }

    fn for_each(&self, rows: Range<usize>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        /// The number of rows encoded at a time. The number is small enough for the encoded rows to
        /// stay in a cache.
        const ENCODED: usize = 1 << 12;
        let fields =
            self.columns.iter().map(|(_, common)| SortField::new(Self::encoded_type(common)));
        let converter = RowConverter::new(fields.collect())?;
        for (chunk, range) in self.chunks.pieces(rows) {
            let batch = &self.table.batches()[chunk];
            for start in range.clone().step_by(ENCODED) {
                let len = ENCODED.min(range.end - start);
                let columns = self.columns.iter().map(|&(column, common)| {
                    self.column(column, common, &batch.column(column).slice(start, len))
                });
                let columns = columns.collect::<Result<Vec<_>>>()?;
                let nulls = columns.iter().fold(None, |nulls, column| {
                    NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
                });
                let encoded = converter.convert_columns(&columns)?;
                for (row, key) in encoded.iter().enumerate() {
                    let valid = self.nulls_are_values
                        || nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                    each(valid.then_some(key.as_ref()));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::{ArrowDictionaryKeyType, Int8Type, UInt64Type};
    use arrow_array::{DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
    use arrow_buffer::ArrowNativeType;
    use arrow_schema::{Field, Schema};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use tidegate_operators::driver::Driver;
    use tidegate_sync::Stop;

    use super::super::{KeyColumn, encode};
    use super::*;

    const WORDS: [Option<&str>; 5] = [Some("a"), None, Some(""), Some("a"), Some("bc")];

    /// Encodes the words of each chunk with a dictionary. The chunks' dictionaries begin with
    /// different words.
    fn coded<K: ArrowDictionaryKeyType>(chunks: &[Vec<Option<u8>>]) -> Vec<ArrayRef> {
        let chunk = |(first, codes): (usize, &Vec<Option<u8>>)| -> ArrayRef {
            let words: StringArray = WORDS.into_iter().cycle().skip(first).take(5).collect();
            // Prepend another row so that each chunk starts after the beginning of its array.
            let codes = [Some(0)].into_iter().chain(codes.iter().copied());
            let keys: PrimitiveArray<K> = codes
                .map(|code| code.map(|code| K::Native::from_usize(code.into()).expect("a code")))
                .collect();
            let rows = keys.len() - 1;
            Arc::new(DictionaryArray::new(keys, Arc::new(words)).slice(1, rows))
        };
        chunks.iter().enumerate().map(chunk).collect()
    }

    fn table(chunks: &[ArrayRef], data_type: &DataType) -> Table {
        let schema = Arc::new(Schema::new(vec![Field::new("k", data_type.clone(), true)]));
        let batch = |chunk: &ArrayRef| {
            RecordBatch::try_new(schema.clone(), vec![chunk.clone()]).expect("a column of the type")
        };
        Table::of_valid("rows", schema.clone(), chunks.iter().map(batch).collect()).unwrap()
    }

    fn numbers(left: &[ArrayRef], right: &[ArrayRef], data_type: &DataType) -> [Vec<u32>; 2] {
        let field = Field::new("k", data_type.clone(), true);
        let column = KeyColumn::new(0, &field, 0, &field).unwrap();
        let driver = Driver::new(2, Stop::default());
        let keys =
            encode(&table(left, data_type), &table(right, data_type), &[column], &driver).unwrap();
        [keys.left.to_vec(), keys.right.to_vec()]
    }

    fn has_the_numbers_of_plain_texts<K: ArrowDictionaryKeyType>(
        sides: &[Vec<Vec<Option<u8>>>; 2],
    ) {
        let [left, right] = [&sides[0], &sides[1]].map(|chunks| coded::<K>(chunks));
        let data_type = DataType::Dictionary(Box::new(K::DATA_TYPE), Box::new(DataType::Utf8));
        let [plain_left, plain_right] = [&left, &right].map(|chunks| -> Vec<ArrayRef> {
            chunks.iter().map(|chunk| cast(chunk, &DataType::Utf8).unwrap()).collect()
        });
        assert_eq!(
            numbers(&left, &right, &data_type),
            numbers(&plain_left, &plain_right, &DataType::Utf8)
        );
    }

    proptest! {
        #[test]
        fn oracle_plain_texts(
            sides in [(); 2].map(|()| vec(vec(option::of(0_u8..5), 0..9), 0..4)),
        ) {
            has_the_numbers_of_plain_texts::<Int8Type>(&sides);
            has_the_numbers_of_plain_texts::<Int32Type>(&sides);
            has_the_numbers_of_plain_texts::<UInt64Type>(&sides);
        }
    }
}
