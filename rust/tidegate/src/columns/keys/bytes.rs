//! Keys that are byte strings: a string column as it is, all other columns encoded.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType;

use super::Chunks;
use super::numbering::KeySource;
use super::types::is_word;
use super::words::word_chunk;
use crate::columns::table::Table;
use crate::{Error, Result};

/// A column of strings or binaries, dictionary-encoded or not.
pub(crate) struct ByteColumn {
    chunks: Chunks,
}

impl ByteColumn {
    pub(super) fn new(table: &Table, column: usize) -> Self {
        ByteColumn { chunks: Chunks::new(table, table.chunks(column)) }
    }
}

impl KeySource for ByteColumn {
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
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = cast(dictionary.values(), &DataType::LargeBinary)?;
            let values = values.as_binary::<i64>();
            let codes = cast(dictionary.keys(), &DataType::UInt32)?;
            let value =
                |code: u32| values.is_valid(code as usize).then(|| values.value(code as usize));
            codes.as_primitive::<UInt32Type>().iter().for_each(|code| each(code.and_then(value)));
        }
        other => return Err(Error::bug(format!("{other} is no string or binary type"))),
    }
    Ok(())
}

/// Several columns, or one of any other type, as encoded rows.
pub(crate) struct RowColumns<'a> {
    table: &'a Table,
    columns: Vec<(usize, &'a DataType)>,
    chunks: Chunks,
    /// Whether a row with a null has a key.
    nulls_are_values: bool,
}

impl<'a> RowColumns<'a> {
    pub(super) fn new(table: &'a Table, columns: Vec<(usize, &'a DataType)>) -> Self {
        RowColumns {
            table,
            columns,
            chunks: Chunks::new(table, Vec::new()),
            nulls_are_values: false,
        }
    }

    /// The same rows, of which those with a null have a key, too.
    pub(super) fn with_nulls(self) -> Self {
        RowColumns { nulls_are_values: true, ..self }
    }

    /// The type in which a column enters the encoding.
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

impl KeySource for RowColumns<'_> {
    type Key = [u8];

    fn rows(&self) -> usize {
        self.chunks.rows()
    }

    fn for_each(&self, rows: Range<usize>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        /// Rows encoded at a time: their bytes should stay in a cache.
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
