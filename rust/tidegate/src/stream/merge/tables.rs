//! Merges whole tables.
//!
//! All rows are already available. Therefore, no row waits for a source, and no gate is needed.
//! Tables in time order are divided into stretches of consecutive result rows. Each thread merges
//! one stretch at a time into a batch. Tables whose rows are out of order are merged like streams:
//! late rows are either reordered or rejected.

use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use tidegate_operators::order::merge::{MAX_RUNS, Merger, Stretch, stretches};
use tidegate_structures::memory;

use super::stream_of;
use super::streams::{MergeInput, MergeStreams, at_least_one};
use crate::columns::metadata::of_all;
use crate::columns::table::Table;
use crate::columns::time::{self, Bound, Int64s};
use crate::results::Next;
use crate::results::weave::weave;
use crate::stream::intake::stream::{Stream, check_schema};
use crate::{Driver, Result};

/// The preferred minimum number of batches in a result, which allows a few threads to share the
/// work.
const BATCHES: usize = 8;

/// The maximum number of rows in a batch, for a small result and for a large one. Building a batch
/// requires visiting its part of each table, which takes as long as processing a few rows. Batches
/// are therefore larger if the result is large.
const BATCH_ROWS: (usize, usize) = (1 << 16, 1 << 18);

/// The interval at which a stream merge checks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(100);

/// Merges sorted tables with the same columns into batches, by time, then table, then row. Each
/// table's rows can be out of order by up to `lateness`.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{Int64Array, RecordBatch};
/// use tidegate::stream::merge_tables;
/// use tidegate::{Driver, Stop, Table};
///
/// let driver = Driver::new(2, Stop::default());
/// let table = |name: &str, ts: Vec<i64>| {
///     let rows = RecordBatch::try_from_iter([("ts", Arc::new(Int64Array::from(ts)) as _)])?;
///     Table::new(name, rows.schema(), vec![rows], &driver)
/// };
/// let tables = [table("a", vec![1, 3])?, table("b", vec![2])?];
/// let merged = merge_tables(&tables, "ts", None, &driver)?;
/// assert_eq!(merged.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
/// # Ok::<(), tidegate::Error>(())
/// ```
pub fn merge_tables(
    tables: &[Table],
    on: &str,
    lateness: Option<Bound>,
    driver: &Driver,
) -> Result<Vec<RecordBatch>> {
    let Some(first) = tables.first() else { return Err(at_least_one()) };
    for table in tables {
        check_schema(first.schema(), table.name(), table.schema())?;
    }
    let stream = stream_of(merged_schema(tables), on, lateness)?;
    if tables.len() <= MAX_RUNS {
        let times = tables.iter().map(|table| time::times(table, stream.on, stream.unit));
        let times: Vec<Int64s> = times.collect::<Result<_>>()?;
        let runs: Vec<&[i64]> = times.iter().map(|times| &**times).collect();
        let rows: usize = tables.iter().map(Table::rows).sum();
        let most = (rows / BATCHES).clamp(BATCH_ROWS.0, BATCH_ROWS.1);
        if let Some(stretches) = stretches(&runs, most, driver)? {
            let made = driver.map_with(stretches, Merger::default, |merger, stretch| {
                batch(&stream, tables, &runs, &stretch, merger)
            })?;
            return made.into_iter().collect();
        }
    }
    as_streams(tables, on, lateness, driver)
}

/// Returns the schema of the merged tables. There must be at least one table.
pub fn merged_schema(tables: &[Table]) -> SchemaRef {
    of_all(tables.iter().map(Table::schema))
}

/// Returns the rows in a stretch.
fn batch(
    stream: &Stream,
    tables: &[Table],
    runs: &[&[i64]],
    stretch: &Stretch,
    merger: &mut Merger,
) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    for ((table, range), source) in tables.iter().zip(stretch.ranges()).zip(0..=u16::MAX) {
        let mut first = 0;
        for batch in table.batches() {
            let start = range.start.clamp(first, first + batch.num_rows());
            let end = range.end.clamp(start, first + batch.num_rows());
            if start < end {
                batches.push((source, batch.slice(start - first, end - start)));
            }
            first += batch.num_rows();
        }
    }
    weave(&stream.schema, (stream.on, stream.unit), &batches, stretch.rows(), |weave| {
        let mut all = memory::vec(stretch.rows());
        stretch.merge(runs, merger, |ts, sources| {
            all.extend_from_slice(ts);
            weave.extend(sources);
        });
        all
    })
}

fn as_streams(
    tables: &[Table],
    on: &str,
    lateness: Option<Bound>,
    driver: &Driver,
) -> Result<Vec<RecordBatch>> {
    let input = |table: &Table| {
        let batches = table.batches().to_vec().into_iter().map(Ok);
        let batches = RecordBatchIterator::new(batches, table.schema().clone());
        MergeInput { batches: Box::new(batches), waits: false }
    };
    let streams = tables.iter().map(input).collect();
    let merge = MergeStreams::new(streams, on, lateness, driver.threads(), None)?;
    let mut batches = Vec::new();
    loop {
        match merge.next_within(PATIENCE)? {
            Next::Batch(batch) => batches.push(batch),
            Next::End => return Ok(batches),
            Next::NotYet => {}
        }
        driver.check()?;
    }
}
