//! The bytes of a snapshot: what they are of, then the state, then a checksum.
//!
//! ```text
//! "TIDEGATE"  version u16  query text  state ...  CRC-32 of all before
//! ```
//!
//! Numbers are little-endian; texts, bytes and tables begin with their length. Tables are Arrow IPC streams.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;
use tidegate_structures::memory;

use super::plain::{from_plain, plain_type, to_plain};
use super::source::batch_bytes;
use crate::{Error, Result};

const MAGIC: &[u8] = b"TIDEGATE";

/// Rises when older versions cannot read what is written.
const VERSION: u16 = 1;

/// Writes a snapshot.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    /// Begins a snapshot of an operator that does what `query` says.
    pub(super) fn new(query: &str) -> Self {
        let mut writer = Writer(MAGIC.to_vec());
        writer.0.extend(VERSION.to_le_bytes());
        writer.bytes(query.as_bytes());
        writer
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    pub(super) fn number(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn time(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        memory::reserve(&mut self.0, size_of::<u64>() + value.len());
        self.number(value.len() as u64);
        self.0.extend(value);
    }

    /// Writes which rows have had a match, and of how many from the first on it is settled.
    pub(super) fn matched(&mut self, (matched, settled): (&[bool], usize)) {
        self.bytes(&matched.iter().map(|&matched| u8::from(matched)).collect::<Vec<_>>());
        self.number(settled as u64);
    }

    /// Writes rows, such that equal rows are equal bytes: without what slices leave in a bitmap's last bits, and without
    /// dictionaries.
    pub(super) fn table(&mut self, rows: &RecordBatch) -> Result<()> {
        // The rows are copied column by column, then as a stream.
        memory::check();
        memory::demand(batch_bytes(rows).saturating_mul(2));
        let all = UInt32Array::from_iter_values(0..rows.num_rows() as u32);
        let columns = rows.columns().iter().map(|column| to_plain(&take(column, &all, None)?));
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        let schema = rows.schema();
        let fields = schema.fields().iter();
        let fields: Vec<Field> =
            fields.map(|field| Field::clone(field).with_data_type(plain_type(field.data_type()))).collect();
        let rows = batch(&Arc::new(Schema::new(fields)), columns, rows.num_rows())?;
        let mut stream = StreamWriter::try_new(memory::vec(batch_bytes(&rows)), &rows.schema())?;
        stream.write(&rows)?;
        stream.finish()?;
        let stream = stream.into_inner()?;
        self.bytes(&stream);
        Ok(())
    }

    /// The whole snapshot.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let checksum = crc32fast::hash(&self.0);
        self.0.extend(checksum.to_le_bytes());
        self.0
    }
}

/// Reads a snapshot.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads what [`Writer::matched`] wrote.
    pub(super) fn matched(&mut self) -> Result<(Vec<bool>, usize)> {
        let matched = self.bytes()?.iter().map(|&byte| byte != 0).collect();
        Ok((matched, self.number()? as usize))
    }

    /// Checks that `snapshot` is whole, and of an operator that does what `query` says.
    pub(super) fn new(snapshot: &'a [u8], query: &str) -> Result<Self> {
        let damaged = |what: &str| Error::state(format!("the snapshot is damaged: {what}; take an older one"));
        let Some(rest) = snapshot.strip_prefix(MAGIC) else {
            return Err(Error::state("these bytes are no snapshot of tidegate: they do not begin like one"));
        };
        let Some((version, _)) = rest.split_first_chunk::<2>() else { return Err(damaged("it ends early")) };
        let version = u16::from_le_bytes(*version);
        if version != VERSION {
            return Err(Error::state(format!(
                "the snapshot has version {version}, but this tidegate reads version {VERSION}; use the tidegate that \
                 wrote it"
            )));
        }
        let Some((content, checksum)) = snapshot.split_last_chunk::<4>() else { return Err(damaged("it ends early")) };
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(damaged("its checksum does not fit its bytes"));
        }
        let mut reader = Reader(&content[MAGIC.len() + size_of::<u16>()..]);
        let written = String::from_utf8_lossy(reader.bytes()?).into_owned();
        let differs = written.lines().zip(query.lines()).find(|(written, wanted)| written != wanted);
        match differs {
            Some((written, wanted)) => Err(Error::state(format!(
                "the snapshot is of another query: it has {written}, but this operator has {wanted}"
            ))),
            None if written != query => Err(Error::state("the snapshot is of another query")),
            None => Ok(reader),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.0.split_at_checked(len) else {
            return Err(Error::state("the snapshot is damaged: a part of it is longer than the whole"));
        };
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn flag(&mut self) -> Result<bool> {
        Ok(self.take(1)?[0] != 0)
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    pub(super) fn time(&mut self) -> Result<i64> {
        Ok(self.number()?.cast_signed())
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.number()?;
        self.take(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// A table, which must have this schema.
    pub(super) fn table(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let stream = self.bytes()?;
        let damaged = |error| Error::state(format!("the snapshot is damaged: a table cannot be read: {error}"));
        let reader = StreamReader::try_new(Cursor::new(stream), None).map_err(damaged)?;
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(damaged)?;
        let of_schema = |rows: RecordBatch| {
            let columns = rows.columns().iter().zip(schema.fields());
            let columns =
                columns.map(|(column, field)| from_plain(column, field.data_type())).collect::<Result<_, _>>()?;
            batch(schema, columns, rows.num_rows())
        };
        let batches = batches.into_iter().map(of_schema).collect::<Result<Vec<_>, _>>().map_err(damaged)?;
        concat_batches(schema, &batches).map_err(damaged)
    }
}

/// A batch, which may be without columns.
fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new_with_options(schema.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};

    use super::*;

    fn example() -> (RecordBatch, Vec<u8>) {
        let columns: [(&str, ArrayRef); 2] =
            [("a", Arc::new(Int64Array::from(vec![1, 2]))), ("b", Arc::new(StringArray::from(vec![Some("x"), None])))];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer = Writer::new("on: ts\nhow: inner");
        writer.flag(true);
        writer.time(i64::MIN);
        writer.table(&rows.slice(1, 1)).unwrap();
        (rows, writer.finish())
    }

    #[test]
    fn what_is_written_is_read() {
        let (rows, snapshot) = example();
        let mut reader = Reader::new(&snapshot, "on: ts\nhow: inner").unwrap();
        assert!(reader.flag().unwrap());
        assert_eq!(reader.time().unwrap(), i64::MIN);
        assert_eq!(reader.table(&rows.schema()).unwrap(), rows.slice(1, 1));
        assert!(reader.flag().unwrap_err().is_state());
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let rows = batch(&Arc::new(Schema::empty()), Vec::new(), 7).unwrap();
        let mut writer = Writer::new("");
        writer.table(&rows).unwrap();
        let snapshot = writer.finish();
        assert_eq!(Reader::new(&snapshot, "").unwrap().table(&rows.schema()).unwrap(), rows);
    }

    #[test]
    fn every_damage_is_seen() {
        let (_, snapshot) = example();
        for at in 0..snapshot.len() {
            let mut damaged = snapshot.clone();
            damaged[at] ^= 0x10;
            assert!(Reader::new(&damaged, "on: ts\nhow: inner").err().unwrap().is_state(), "byte {at}");
            assert!(Reader::new(&snapshot[..at], "on: ts\nhow: inner").err().unwrap().is_state(), "{at} bytes");
        }
        let error = Reader::new(&snapshot, "on: ts\nhow: left").err().unwrap();
        assert!(error.message().contains("it has how: inner, but this operator has how: left"), "{error}");
    }
}
