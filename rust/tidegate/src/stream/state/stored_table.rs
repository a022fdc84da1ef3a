//! Tables in snapshots. Each table is an Arrow IPC stream that contains a schema and one record
//! batch, without dictionaries.
//!
//! A table's reader already has the table's schema. Therefore, the reader skips the schema in the
//! stream, and columns can be nested to any depth. The content is checked against the expected
//! schema. Memory for data is allocated only after all bytes of the data have been read.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_buffer::Buffer;
use arrow_data::{BufferSpec, layout};
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{FieldNode, Message, MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::take::take;
use tidegate_structures::memory::{self, OutOfMemory};

use super::plain::{from_plain, plain_type, to_plain};
use crate::Result;
use crate::columns::nested::children;
use crate::columns::table::batch_bytes;

/// The marker that precedes each message. The length of the message's description follows the
/// marker.
const CONTINUES: [u8; 4] = [0xff; 4];

/// Writes rows so that equal rows produce equal bytes. Therefore, dictionaries are omitted, and so
/// are the bits that slices leave at the end of a bitmap.
pub(crate) fn write(rows: &RecordBatch) -> Result<Vec<u8>> {
    // The rows are copied twice: column by column, and then as a stream.
    memory::check();
    memory::demand(batch_bytes(rows).saturating_mul(2));
    let all = UInt32Array::from_iter_values(0..rows.num_rows() as u32);
    let columns = rows.columns().iter().map(|column| to_plain(&take(column, &all, None)?));
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    let rows = batch(&plain_schema(&rows.schema()), columns, rows.num_rows())?;
    let mut stream = StreamWriter::try_new(memory::vec(batch_bytes(&rows)), &rows.schema())?;
    stream.write(&rows)?;
    stream.finish()?;
    Ok(stream.into_inner()?)
}

/// Returns the rows in a stream, or an error that describes what is wrong with the stream.
pub(crate) fn read(stream: &[u8], schema: &SchemaRef) -> Result<RecordBatch, String> {
    memory::check();
    memory::demand(stream.len());
    // arrow-rs panics on some inconsistent lengths.
    let read = catch_unwind(AssertUnwindSafe(|| read_stream(stream, schema)));
    read.unwrap_or_else(|panic| match panic.is::<OutOfMemory>() {
        true => resume_unwind(panic),
        false => Err("its parts do not match each other".to_owned()),
    })
}

fn read_stream(stream: &[u8], schema: &SchemaRef) -> Result<RecordBatch, String> {
    let (_, rest) = message(stream)?;
    let (description, rest) = message(rest)?;
    let message = root_as_message(description).map_err(|error| error.to_string())?;
    let length = usize::try_from(message.bodyLength()).ok();
    let (body, rest) =
        length.and_then(|length| rest.split_at_checked(length)).ok_or("it ends early")?;
    if rest != [&CONTINUES[..], &[0; 4]].concat() {
        return Err("it does not end with its rows".to_owned());
    }
    let (plain, none) = (plain_schema(schema), HashMap::new());
    check(&message, body.len(), &plain)?;
    let rows = message.header_as_record_batch().ok_or("it has no rows")?;
    let rows = read_record_batch(&Buffer::from(body), rows, plain, &none, None, &message.version())
        .map_err(|error| error.to_string())?;
    let columns = rows.columns().iter().zip(schema.fields());
    let columns = columns
        .map(|(column, field)| from_plain(column, field.data_type()))
        .collect::<Result<_, _>>();
    columns
        .and_then(|columns| batch(schema, columns, rows.num_rows()))
        .map_err(|error| error.to_string())
}

/// Returns the description of the next message, and the bytes that follow it.
fn message(stream: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let rest =
        stream.strip_prefix(&CONTINUES).ok_or("a message does not begin like an Arrow message")?;
    let (length, rest) = rest.split_first_chunk().ok_or("it ends early")?;
    let length = usize::try_from(i32::from_le_bytes(*length)).ok();
    length
        .and_then(|length| rest.split_at_checked(length))
        .ok_or_else(|| "it ends early".to_owned())
}

/// Checks that a record batch has the form that [`write`] produces for this schema, and that its
/// buffers lie within its body.
fn check(message: &Message<'_>, body: usize, schema: &SchemaRef) -> Result<(), String> {
    let rows = message.header_as_record_batch().ok_or("it has no rows")?;
    if rows.compression().is_some() || message.version() != MetadataVersion::V5 {
        return Err("it is compressed, or was written by a different version of Arrow".to_owned());
    }
    let buffers = rows.buffers().ok_or("it has no buffers")?;
    let lies_within = |offset: i64, length: i64| {
        let end = offset.checked_add(length).and_then(|end| usize::try_from(end).ok());
        offset >= 0 && length >= 0 && end.is_some_and(|end| end <= body)
    };
    if !buffers.iter().all(|buffer| lies_within(buffer.offset(), buffer.length())) {
        return Err("a buffer ends beyond its rows".to_owned());
    }
    let nodes = rows.nodes().ok_or("it has no columns")?;
    // Nulls and runs take no bytes themselves.
    let most = i64::from(i32::MAX).saturating_add(8 * body as i64);
    let is_length =
        |length: i64, nulls: i64| (0..=most).contains(&length) && (0..=length).contains(&nulls);
    if !is_length(rows.length(), 0)
        || !nodes.iter().all(|node| is_length(node.length(), node.null_count()))
    {
        return Err("a column has the wrong length".to_owned());
    }
    let views = rows.variadicBufferCounts();
    if !views
        .is_none_or(|views| views.iter().all(|count| (0..=buffers.len() as i64).contains(&count)))
    {
        return Err("a column of views has the wrong number of buffers".to_owned());
    }
    let mut parts = Parts {
        nodes: nodes.iter(),
        buffers: buffers.iter(),
        views: views.into_iter().flat_map(|views| views.iter()),
    };
    let is_whole = schema.fields().iter().all(|field| parts.has_whole(field.data_type()).is_some());
    if !is_whole || parts.nodes.next().is_some() || parts.buffers.next().is_some() {
        return Err("it has different columns, or a buffer is shorter than its column".to_owned());
    }
    Ok(())
}

/// The parts of a message that have not been read yet: its columns, its buffers, and the number of
/// buffers in each view column.
struct Parts<N, B, V> {
    nodes: N,
    buffers: B,
    views: V,
}

impl<'a, N, B, V> Parts<N, B, V>
where
    N: Iterator<Item = &'a FieldNode>,
    B: Iterator<Item = &'a arrow_ipc::Buffer>,
    V: Iterator<Item = i64>,
{
    /// Checks that the next column has this type and that its buffers match its length. Child
    /// columns are checked in the same way. Returns `None` if a check fails. Offsets are not
    /// checked here, because arrow-rs checks their order.
    fn has_whole(&mut self, data_type: &DataType) -> Option<()> {
        let node = self.nodes.next()?;
        let (rows, layout) = (i128::from(node.length()), layout(data_type));
        let mut is_long =
            |bits: i128| (8 * i128::from(self.buffers.next()?.length()) >= bits).then_some(());
        if layout.can_contain_null_mask {
            is_long(if node.null_count() == 0 { 0 } else { rows })?;
        }
        for buffer in &layout.buffers {
            is_long(match buffer {
                BufferSpec::FixedWidth { byte_width, .. } => 8 * rows * *byte_width as i128,
                BufferSpec::BitMap => rows,
                BufferSpec::VariableWidth | BufferSpec::AlwaysNull => 0,
            })?;
        }
        if layout.variadic {
            (0..self.views.next()?).try_for_each(|_| is_long(0))?;
        }
        children(data_type).into_iter().try_for_each(|child| self.has_whole(child))
    }
}

/// Returns the schema without dictionaries.
fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let plain =
        |field: &Arc<Field>| Field::clone(field).with_data_type(plain_type(field.data_type()));
    Arc::new(Schema::new(schema.fields().iter().map(plain).collect::<Vec<_>>()))
}

/// Creates a batch, even if there are no columns.
pub(crate) fn batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new_with_options(
        schema.clone(),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};

    use super::*;

    fn rows() -> RecordBatch {
        let columns: [(&str, ArrayRef); 2] = [
            ("a", Arc::new(Int64Array::from(vec![1, 2, 3]))),
            ("b", Arc::new(StringArray::from(vec![Some("x"), None, Some("long")]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn no_stream_is_read_beyond_its_bytes() {
        let (rows, stream) = (rows(), write(&rows()).unwrap());
        assert_eq!(read(&stream, &rows.schema()).unwrap(), rows);
        for len in 0..stream.len() {
            assert!(read(&stream[..len], &rows.schema()).is_err(), "{len} bytes");
        }
        for at in 0..stream.len() - 8 {
            for extreme in [0, 1, u64::MAX, 1 << 31, 1 << 62, i64::MAX.cast_unsigned()] {
                let mut damaged = stream.clone();
                damaged[at..at + 8].copy_from_slice(&extreme.to_le_bytes());
                // Everything that is read can be used, and arrow-rs does not panic.
                let _ = read_stream(&damaged, &rows.schema()).map(|rows| write(&rows).unwrap());
            }
        }
        assert!(
            read(&stream, &Arc::new(Schema::new(rows.schema().fields()[..1].to_vec()))).is_err()
        );
    }
}
