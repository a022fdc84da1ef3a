//! The ready rows on one side.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::rows::Side;
use tidegate_structures::memory;

use crate::Result;
use crate::results::gather::concat_rows;
use crate::results::interleave::{NO_PLACE, Place};
use crate::stream::intake::ready::ReadyRun;
use crate::stream::intake::rows::gather_batch;
use crate::stream::intake::sides::SourceSides;

/// Sorts runs by side, with left sources first, and by source within each side. Returns the number
/// of runs from left sources.
pub(in crate::stream) fn left_first(runs: &mut [ReadyRun], of_sources: &SourceSides) -> usize {
    runs.sort_by_key(|run| of_sources.of(run.source) as usize);
    runs.partition_point(|run| of_sources.of(run.source) == Side::Left)
}

/// Returns a side's rows in merged order, taken from its sources' runs. `sources` contains each
/// row's source, for the rows on both sides. `is_own` returns whether a source belongs to this
/// side.
pub(in crate::stream) fn side_rows(
    schema: &SchemaRef,
    runs: &[ReadyRun],
    sources: &[u16],
    is_own: impl Fn(u16) -> bool,
) -> Result<RecordBatch> {
    let batches: Vec<RecordBatch> = runs.iter().map(ReadyRun::rows).collect();
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return Ok(RecordBatch::new_empty(schema.clone()));
    };
    if let [rows] = &batches[..] {
        return Ok(rows.clone());
    }
    if first.source == last.source {
        return concat_rows(schema, &batches);
    }
    // The position of the next row of each source.
    let mut next: Vec<Place> = vec![NO_PLACE; usize::from(last.source - first.source) + 1];
    for (number, run) in runs.iter().enumerate().rev() {
        next[usize::from(run.source - first.source)] = (number as u32, 0);
    }
    let of_side = sources.iter().filter(|&&source| is_own(source));
    let places = of_side.map(|source| {
        let next = &mut next[usize::from(source - first.source)];
        let place = *next;
        let is_last = place.1 as usize + 1 == runs[place.0 as usize].len();
        *next = if is_last { (place.0 + 1, 0) } else { (place.0, place.1 + 1) };
        place
    });
    let mut all: Vec<Place> = memory::vec(sources.len());
    all.extend(places);
    gather_batch(schema, &batches.iter().collect::<Vec<_>>(), &all)
}
