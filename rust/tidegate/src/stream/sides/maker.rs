//! Builds result batches from kept rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{How, Results, Side};

use crate::Result;
use crate::query::options::JoinPlan;
use crate::query::output::OutputColumn;
use crate::results::gather::{ColumnSource, Gather, Records, Rows, fixed_width};
use crate::stream::state::store::Store;

/// The maximum number of rows in a result batch. A few columns of this length fill a huge page. The
/// division of results into batches depends only on the results.
pub(in crate::stream) const BATCH_ROWS: usize = 1 << 15;

/// Builds result batches from kept rows.
#[derive(Debug)]
pub(in crate::stream) struct Maker {
    gather: Gather,
    schema: SchemaRef,
}

impl Maker {
    pub(in crate::stream) fn new(plan: &JoinPlan, how: How, stores: [&Store; 2]) -> Self {
        let [left, right] = stores;
        let source = |column: &OutputColumn| match *column {
            OutputColumn::Left(at) => ColumnSource::Left(Arc::new(left.column(at))),
            OutputColumn::Right(at) => ColumnSource::Right(Arc::new(right.column(at))),
            OutputColumn::Either(l, r) => {
                ColumnSource::Either(Arc::new(left.column(l)), Arc::new(right.column(r)))
            }
        };
        let gather = Gather {
            sources: plan.columns.iter().map(source).collect(),
            types: plan.schema.fields().iter().map(|field| field.data_type().clone()).collect(),
            optional: [how.keeps_right(), how.keeps_left()],
            records: [Side::Left, Side::Right]
                .map(|side| records(plan, side, stores[side as usize])),
            // Rows leave a store while results that contain them are still held.
            slices_left: false,
        };
        Maker { gather, schema: plan.schema.clone() }
    }

    pub(in crate::stream) fn batches(
        &self,
        results: &Results,
        driver: &Driver,
    ) -> Result<Vec<RecordBatch>> {
        let batches = driver.map(cuts(results), |rows| self.batch(results, rows, driver))?;
        let batches: Vec<Vec<RecordBatch>> = batches.into_iter().collect::<Result<_>>()?;
        Ok(batches.into_iter().flatten().collect())
    }

    /// Builds one batch of result rows. Builds several batches if a column's strings exceed 2 GiB,
    /// or if a dictionary would have more values than its indices can represent.
    fn batch(
        &self,
        results: &Results,
        rows: Range<usize>,
        driver: &Driver,
    ) -> Result<Vec<RecordBatch>> {
        let left = &results.left[rows.clone()];
        // Results of semi and anti joins have no right rows.
        let right = results.right.get(rows.clone()).unwrap_or_default();
        let values = self.gather.values(left, right, true, driver)?;
        let columns = match self.gather.columns(left, right, values) {
            Err(ArrowError::DictionaryKeyOverflowError | ArrowError::OffsetOverflowError(_))
                if rows.len() > 1 =>
            {
                let half = rows.start + rows.len() / 2;
                let mut batches = self.batch(results, rows.start..half, driver)?;
                batches.extend(self.batch(results, half..rows.end, driver)?);
                return Ok(batches);
            }
            columns => columns?,
        };
        let options = RecordBatchOptions::new().with_row_count(Some(left.len()));
        Ok(vec![RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?])
    }
}

/// Returns the columns of a side that the result contains and that have 8-byte values. A store also
/// keeps these columns row by row.
pub(in crate::stream) fn long_columns(plan: &JoinPlan, side: Side, schema: &Schema) -> Vec<usize> {
    let columns = plan.columns.iter().filter_map(|column| of_side(column, side));
    columns
        .filter(|&at| fixed_width(schema.field(at).data_type()) == Some(size_of::<u64>()))
        .collect()
}

/// Returns the maximum number of bytes that are kept per row for columns that are stored row by
/// row.
pub(in crate::stream) fn record_bytes(plan: &JoinPlan, left: &Schema, right: &Schema) -> usize {
    let bytes = |side, schema| Store::record_bytes(&long_columns(plan, side, schema));
    bytes(Side::Left, left).max(bytes(Side::Right, right))
}

fn of_side(column: &OutputColumn, side: Side) -> Option<usize> {
    match (*column, side) {
        (OutputColumn::Left(at), Side::Left) | (OutputColumn::Right(at), Side::Right) => Some(at),
        _ => None,
    }
}

/// Returns the side's columns that its store keeps row by row, identified by their positions in the
/// result.
fn records(plan: &JoinPlan, side: Side, store: &Store) -> Vec<Records> {
    let place =
        |&at: &usize| plan.columns.iter().position(|column| of_side(column, side) == Some(at));
    let records = |(columns, rows): (&[usize], &Rows)| {
        let columns = columns
            .iter()
            .map(place)
            .collect::<Option<_>>()
            .expect("these columns are in the result");
        Records { columns, rows: rows.clone() }
    };
    store.records().map(records).collect()
}

/// Returns the range of rows in each result batch. There are as few batches as possible, of similar
/// size.
fn cuts(results: &Results) -> Vec<Range<usize>> {
    let rows = results.left.len();
    let size = rows.div_ceil(rows.div_ceil(BATCH_ROWS).max(1)).max(1);
    (0..rows).step_by(size).map(|from| from..rows.min(from + size)).collect()
}
