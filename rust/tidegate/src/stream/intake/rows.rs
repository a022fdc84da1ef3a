//! The rows from a source in the gate, and functions that combine the rows from several batches
//! into one batch.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;
use tidegate_structures::gate::Run;

use super::stream::Stream;
use crate::Result;
use crate::columns::dictionary::of_column;
use crate::columns::time;
use crate::results::interleave::{Place, interleave};
use crate::stream::memory::Charge;

/// The memory overhead of each row in an operator, in bytes. The overhead covers the row's entry in
/// the gate. The row's entry in the state is also covered, unless that entry is larger.
pub(crate) const ROW_BYTES: usize = 40;

/// Rows from one source in the gate, in time order.
#[derive(Clone, Debug)]
pub(crate) struct SourceRun {
    pub(crate) ts: ScalarBuffer<i64>,
    pub(crate) batch: RecordBatch,
    /// The time when the newest of these rows was pushed.
    pub(crate) pushed: Instant,
    /// The memory charge, which is held for as long as the rows are.
    pub(crate) charge: Arc<Charge>,
}

impl Run for SourceRun {
    fn ts(&self) -> &[i64] {
        &self.ts
    }
}

/// Combines rows from several batches into one batch.
pub(crate) fn gather_batch(
    schema: &SchemaRef,
    batches: &[&RecordBatch],
    places: &[Place],
) -> Result<RecordBatch> {
    gather(schema, batches, places, |_| None)
}

/// Combines rows from several batches of a stream into one batch, given the rows' times.
pub(super) fn gather_timed(
    stream: &Stream,
    ts: &ScalarBuffer<i64>,
    batches: &[&RecordBatch],
    places: &[Place],
) -> Result<RecordBatch> {
    let times = time::from_int64(stream.schema.field(stream.on), stream.unit, ts);
    gather(&stream.schema, batches, places, |column| times.clone().filter(|_| column == stream.on))
}

fn gather(
    schema: &SchemaRef,
    batches: &[&RecordBatch],
    places: &[Place],
    known: impl Fn(usize) -> Option<ArrayRef>,
) -> Result<RecordBatch> {
    let column = |at: usize| match known(at) {
        Some(column) => Ok(column),
        None => {
            let chunks: Vec<ArrayRef> =
                batches.iter().map(|batch| batch.column(at).clone()).collect();
            let field = schema.field(at);
            interleave(field.data_type(), &chunks, places)
                .map_err(|error| of_column(field.name(), error))
        }
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(places.len()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}
