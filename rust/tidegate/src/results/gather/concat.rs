//! Combines several batches into one.

use arrow_array::{Array, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::column::{fixed_width, raw_values};
use crate::Result;
use crate::columns::dictionary::{concat, of_column};

/// Concatenates the rows from several batches. Fixed-width values share one memory allocation,
/// which uses huge pages if it is large.
pub(crate) fn concat_rows(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(schema.clone()));
    }
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let width = |column: usize| fixed_width(schema.field(column).data_type());
    let columns = 0..schema.fields().len();
    let padded = |width: usize| (width * rows).next_multiple_of(64);
    // 1. The values, column by column.
    let mut memory = Pages::<u8>::unwritten(columns.clone().filter_map(width).map(padded).sum());
    let mut rest = &mut memory[..];
    for (column, width) in columns.clone().filter_map(|column| Some((column, width(column)?))) {
        let (mut out, others) = std::mem::take(&mut rest).split_at_mut(padded(width));
        rest = others;
        for batch in batches {
            let values = raw_values(batch.column(column), width);
            let (now, later) = out.split_at_mut(values.len());
            Slot::copy(now, &values);
            out = later;
        }
        Slot::fill(out, 0);
    }
    // 2. These values and the others become arrays.
    let memory = Bytes::from_owner(memory.written());
    let mut start = 0;
    let columns = columns.map(|column| {
        let chunks: Vec<&dyn Array> = batches.iter().map(|batch| &**batch.column(column)).collect();
        let Some(width) = width(column) else {
            let named = |error| of_column(schema.field(column).name(), error);
            return concat(&chunks).map_err(named);
        };
        let values = Buffer::from(memory.slice(start..start + width * rows));
        start += padded(width);
        let data = ArrayDataBuilder::new(schema.field(column).data_type().clone())
            .len(rows)
            .add_buffer(values);
        Ok(data.nulls(concat_nulls(&chunks)).build().map(make_array)?)
    });
    let columns = columns.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// Returns which values in the chunks are valid, or `None` if all are.
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
