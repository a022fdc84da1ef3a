//! Columns that are computed from a table's other columns before a query runs.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{FieldRef, Schema};
use arrow_select::concat::concat;
use tidegate_operators::driver::Driver;

use crate::Result;
use crate::columns::table::{Names, Table};
use crate::query::aggregate::inputs::{ReadColumn, input};

/// The number of rows for which an expression is evaluated at a time.
const BLOCK_ROWS: usize = 1 << 16;

/// Returns the table with an additional column for each expression among `asked`, and the name of
/// the column for each string in `asked`. A string that is the name of a column refers to that
/// column.
///
/// `role` is the argument in which the strings were passed. The names of additional columns differ
/// from those in `taken`.
///
/// # Errors
///
/// Returns a schema error if a string is neither a column nor a valid expression, and a data error if
/// an expression cannot be computed for a row.
pub fn computed(
    table: &Table,
    asked: &[String],
    role: &'static str,
    taken: &[String],
    driver: &Driver,
) -> Result<(Table, Vec<String>)> {
    let schema = table.schema();
    let columns = Names::new(schema);
    let (mut fields, mut values): (Vec<FieldRef>, Vec<ReadColumn>) = (Vec::new(), Vec::new());
    let mut names: Vec<String> = Vec::with_capacity(asked.len());
    for (at, text) in asked.iter().enumerate() {
        if let Some(known) = asked[..at].iter().position(|other| other == text) {
            names.push(names[known].clone());
            continue;
        }
        let (field, column) = input(table.name(), schema, &columns, text, role)?;
        let mut name = field.name().clone();
        if let ReadColumn::Computed(_) = &column {
            while columns.has(&name) || taken.contains(&name) || names.contains(&name) {
                name = format!("{name} ({})", table.name());
            }
            fields.push(Arc::new(field.with_name(&name)));
            values.push(column);
        }
        names.push(name);
    }
    if values.is_empty() {
        return Ok((table.clone(), names));
    }
    let all: Vec<FieldRef> = schema.fields().iter().cloned().chain(fields).collect();
    let wider = Arc::new(Schema::new_with_metadata(all, schema.metadata().clone()));
    let every: Vec<usize> = (0..schema.fields().len()).collect();
    let mut batches = Vec::with_capacity(table.batches().len());
    for batch in table.batches() {
        let starts = (0..batch.num_rows()).step_by(BLOCK_ROWS);
        let blocks = starts.map(|at| batch.slice(at, BLOCK_ROWS.min(batch.num_rows() - at)));
        let of_block = |block: RecordBatch| -> Result<Vec<ArrayRef>> {
            values.iter().map(|value| value.values(&block, &every)).collect()
        };
        let found = driver.map(blocks.collect(), of_block)?;
        let found = found.into_iter().collect::<Result<Vec<_>>>()?;
        let mut arrays = batch.columns().to_vec();
        for at in 0..values.len() {
            let parts: Vec<&dyn Array> = found.iter().map(|block| &*block[at]).collect();
            arrays.push(concat(&parts)?);
        }
        batches.push(RecordBatch::try_new(wider.clone(), arrays)?);
    }
    Ok((Table::of_valid(table.name(), wider, batches)?, names))
}
