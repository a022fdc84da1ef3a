//! Result rows of kept ones.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, FieldRef};
use arrow_select::interleave::interleave as interleave_arrays;
use tidegate_operators::online_join::{Results, Side};

use super::engine::KeptRows;
use crate::Result;
use crate::interleave::{NO_PLACE, Place};
use crate::join::JoinPlan;
use crate::schema::OutputColumn;

/// Rows of a result batch: a thread's piece of an epoch's results. Where results are cut depends on nothing else.
const BATCH_ROWS: usize = 1 << 14;

/// Makes result rows of kept ones.
pub(super) struct Maker<'a>(pub(super) KeptRows<'a>);

impl Maker<'_> {
    pub(super) fn batches(&self, results: &Results) -> Result<Vec<RecordBatch>> {
        cuts(results).into_iter().map(|rows| self.batch(results, rows)).collect()
    }

    pub(super) fn batch(&self, results: &Results, rows: Range<usize>) -> Result<RecordBatch> {
        let kept = &self.0;
        let JoinPlan { columns, schema, .. } = kept.plan;
        let left = &results.left[rows.clone()];
        // Results of semi and anti joins have no right rows.
        let right = results.right.get(rows).unwrap_or_default();
        let (left_places, right_places) = (kept.places(Side::Left, left), kept.places(Side::Right, right));
        let of_left = |at: usize| kept.column(Side::Left, at, &left_places);
        let of_right = |at: usize| kept.column(Side::Right, at, &right_places);
        let column = |(column, field): (&OutputColumn, &FieldRef)| match *column {
            OutputColumn::Left(at) => of_left(at),
            OutputColumn::Right(at) => of_right(at),
            OutputColumn::Either(l, r) => {
                let (l, r) = (as_type(of_left(l)?, field.data_type())?, as_type(of_right(r)?, field.data_type())?);
                either(&l, &r, &left_places)
            }
        };
        let columns = columns.iter().zip(schema.fields()).map(column);
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(left.len()));
        Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
    }
}

/// The rows of each batch of results.
pub(super) fn cuts(results: &Results) -> Vec<Range<usize>> {
    let rows = results.left.len();
    (0..rows).step_by(BATCH_ROWS).map(|from| from..rows.min(from + BATCH_ROWS)).collect()
}

pub(super) fn as_type(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type { Ok(array) } else { cast(&array, data_type) }
}

/// The left value where there is a left row, the right one elsewhere.
fn either(left: &ArrayRef, right: &ArrayRef, left_places: &[Place]) -> Result<ArrayRef, ArrowError> {
    let place = |(at, &place): (usize, &Place)| (usize::from(place == NO_PLACE), at);
    let places: Vec<(usize, usize)> = left_places.iter().enumerate().map(place).collect();
    let arrays: [&dyn Array; 2] = [left, right];
    interleave_arrays(&arrays, &places)
}
