//! The windows of an operator that are not complete yet.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_sync::Stop;

use super::super::intake::source::lock;
use super::super::outcome::Poll;
use super::{AggregateOptions, aggregate};
use crate::Result;
use crate::query::aggregate::Aggregation;

/// Returns the windows that are open in a snapshot of an operator, with their values so far: the
/// results that the operator would still emit if no more rows arrived. `is_digested` is true if the
/// operator computes a digest.
pub fn open_windows(
    query: &Aggregation,
    schema: SchemaRef,
    options: &AggregateOptions,
    is_digested: bool,
    snapshot: &[u8],
) -> Result<Vec<RecordBatch>> {
    let options = AggregateOptions { memory_limit: None, ..options.clone() };
    let copy = aggregate(query, schema, &options)?;
    let mut copy = if is_digested { copy.with_digest() } else { copy };
    copy.restore(snapshot, &Stop::default())?;
    // These results are final, and the operator itself returns them.
    while let Poll::Batch(_) = copy.poll()? {}
    copy.sources().iter().for_each(|source| lock(source).close());
    let mut found = Vec::new();
    while let Poll::Batch(batch) = copy.poll()? {
        found.push(batch);
    }
    copy.close();
    Ok(found)
}
