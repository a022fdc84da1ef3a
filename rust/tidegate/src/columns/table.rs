//! An input table: validated record batches with the same schema.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, new_empty_array};
use arrow_schema::{DataType, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::take::take_record_batch;
use tidegate_operators::driver::Driver;
use tidegate_operators::matches::MAX_ROWS;
use tidegate_structures::memory;

use super::names::known;
use crate::columns::type_name::with_type_names;
use crate::{Error, Result, shown};

/// Record batches that share a schema and whose data has been validated.
#[derive(Clone, Debug)]
pub struct Table {
    /// The name of the table in messages, such as `left`, `right` or `streams[2]`.
    name: Arc<str>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: usize,
    /// The data prepared from the rows for use in many joins.
    prepared: Option<Arc<dyn Any + Send + Sync>>,
}

impl Table {
    /// Checks that offsets are in range and ascending, that strings are valid UTF-8, and that
    /// dictionary codes are in range.
    pub fn new(
        name: impl Into<Arc<str>>,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        driver: &Driver,
    ) -> Result<Self> {
        let table = Table::of_valid(name, schema, batches)?;
        let Table { name, schema, batches, .. } = &table;
        let columns: Vec<(usize, ArrayRef)> = batches
            .iter()
            .flat_map(|batch| batch.columns().iter().cloned().enumerate())
            .filter(|(_, array)| needs_validation(array.data_type()))
            .collect();
        let valid =
            driver.map(columns, |(column, array)| (column, array.to_data().validate_full()))?;
        if let Some((column, Err(error))) = valid.into_iter().find(|(_, valid)| valid.is_err()) {
            let field = schema.field(column);
            return Err(Error::data(format!(
                "{name}: column `{}` holds malformed Arrow data: {}",
                field.name(),
                with_type_names(&error.to_string(), field.data_type())
            )));
        }
        Ok(table)
    }

    /// Creates a table from batches that are known to be valid.
    pub(crate) fn of_valid(
        name: impl Into<Arc<str>>,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    ) -> Result<Self> {
        let name = name.into();
        let batches: Vec<RecordBatch> =
            batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        if rows >= MAX_ROWS {
            return Err(Error::memory(format!(
                "{name}: {rows} rows are more than the {} that a table can have; pass the table in \
                 parts",
                MAX_ROWS - 1
            )));
        }
        Ok(Table { name, schema, batches, rows, prepared: None })
    }

    /// Creates a table from a batch that has already been checked.
    pub(crate) fn trusted(name: impl Into<Arc<str>>, batch: RecordBatch) -> Self {
        let (schema, rows) = (batch.schema(), batch.num_rows());
        Table {
            name: name.into(),
            schema,
            batches: if rows > 0 { vec![batch] } else { Vec::new() },
            rows,
            prepared: None,
        }
    }

    /// Returns the table with another name.
    pub fn named(self, name: impl Into<Arc<str>>) -> Self {
        Table { name: name.into(), ..self }
    }

    /// Returns the table together with data prepared from its rows.
    pub(crate) fn with_prepared(self, prepared: Option<Arc<dyn Any + Send + Sync>>) -> Self {
        Table { prepared, ..self }
    }

    /// Returns the data prepared from the rows.
    pub(crate) fn prepared(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.prepared.as_ref()
    }

    /// Returns the name of the table, as shown in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The bytes of the rows.
    pub fn bytes(&self) -> usize {
        self.batches.iter().map(batch_bytes).sum()
    }

    /// Returns the batches, none of which is empty.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The chunks of a column.
    pub fn chunks(&self, column: usize) -> Vec<ArrayRef> {
        self.batches.iter().map(|batch| batch.column(column).clone()).collect()
    }

    /// Returns a column's array if the column consists of a single array of fixed-width values.
    pub(crate) fn whole(&self, column: usize) -> Option<ArrayRef> {
        let values = match self.schema.field(column).data_type() {
            DataType::Dictionary(_, values) => values,
            DataType::RunEndEncoded(_, values) => values.data_type(),
            plain => plain,
        };
        let chunks = self.chunks(column);
        match &chunks[..] {
            [] => Some(new_empty_array(self.schema.field(column).data_type())),
            [one] => Some(one.clone()),
            chunks if values.is_primitive() => {
                concat(&chunks.iter().map(|chunk| &**chunk).collect::<Vec<_>>()).ok()
            }
            _ => None,
        }
    }

    /// Returns some rows of the table, given their numbers in ascending order.
    pub(crate) fn taken(&self, rows: &[u32]) -> Result<Table> {
        let mut batches = Vec::new();
        let (mut first, mut rest) = (0, rows);
        for batch in &self.batches {
            let end = first + batch.num_rows();
            let (own, later) = rest.split_at(rest.partition_point(|&row| (row as usize) < end));
            if !own.is_empty() {
                memory::demand_values::<u64>(own.len().saturating_mul(batch.num_columns()));
                let places = own.iter().map(|&row| row - first as u32);
                let taken = take_record_batch(batch, &UInt32Array::from_iter_values(places));
                batches.push(taken.map_err(|error| Error::data(error.to_string()))?);
            }
            (first, rest) = (end, later);
        }
        Table::of_valid(self.name.clone(), self.schema.clone(), batches)
    }

    /// Returns a range of the table's rows, which share the table's memory.
    pub(crate) fn sliced(&self, rows: Range<usize>) -> Result<Table> {
        let mut batches = Vec::new();
        let mut first = 0;
        for batch in &self.batches {
            let end = first + batch.num_rows();
            let (start, stop) = (rows.start.max(first), rows.end.min(end));
            if start < stop {
                batches.push(batch.slice(start - first, stop - start));
            }
            first = end;
        }
        Table::of_valid(self.name.clone(), self.schema.clone(), batches)
    }

    /// Returns the table with only these columns.
    pub(crate) fn projected(&self, columns: &[usize]) -> Result<Table> {
        let batches = self.batches.iter().map(|batch| batch.project(columns));
        let schema = Arc::new(self.schema.project(columns)?);
        Table::of_valid(self.name.clone(), schema, batches.collect::<Result<_, _>>()?)
    }

    /// Converts a row number to a batch number and the row's position in that batch.
    pub fn locate(&self, row: usize) -> (usize, usize) {
        let mut place = row;
        for (at, batch) in self.batches.iter().enumerate() {
            if place < batch.num_rows() {
                return (at, place);
            }
            place -= batch.num_rows();
        }
        panic!("row {row} of a table of {} rows", self.rows)
    }
}

/// Returns false for fixed-width values, because every combination of bits is a valid value.
fn needs_validation(data_type: &DataType) -> bool {
    !data_type.is_primitive() && !matches!(data_type, DataType::Boolean | DataType::Null)
}

/// Returns the position of the only column called `name`.
pub(crate) fn column(table: &str, schema: &Schema, name: &str, role: &str) -> Result<usize> {
    let mut found = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| field.name() == name)
        .map(|(at, _)| at);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (Some(_), Some(_)) => Err(Error::schema(format!(
            "{table}: there is more than one column `{}`; rename all but one",
            shown(name)
        ))),
        (None, _) => {
            // Calls on tables have replaced expressions with the names of columns.
            let known = match is_expression(name) {
                true => "only calls on tables accept expressions; add a column with these values, \
                         and pass its name"
                    .to_owned(),
                false => known(name, schema.fields().iter().map(|field| field.name().as_str())),
            };
            Err(Error::schema(format!(
                "{table}: there is no column `{}`, which `{role}` names; {known}",
                shown(name)
            )))
        }
    }
}

/// Returns whether a name that no column has looks like an expression over columns.
fn is_expression(name: &str) -> bool {
    let is_operator = |c: char| matches!(c, '+' | '*' | '/' | '%' | '(' | ')' | '.');
    name.contains(is_operator) && name.contains(char::is_alphabetic)
}

/// The columns of a schema, indexed by name for repeated lookups.
pub(crate) struct Names<'a> {
    schema: &'a Schema,
    /// The position of each column. The position is `None` if several columns share the name.
    places: HashMap<&'a str, Option<usize>>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(schema: &'a Schema) -> Self {
        let mut places = HashMap::with_capacity(schema.fields().len());
        for (at, field) in schema.fields().iter().enumerate() {
            places
                .entry(field.name().as_str())
                .and_modify(|place| *place = None)
                .or_insert(Some(at));
        }
        Names { schema, places }
    }

    /// Like [`column`].
    pub(crate) fn column(&self, table: &str, name: &str, role: &str) -> Result<usize> {
        match self.places.get(name) {
            Some(&Some(at)) => Ok(at),
            _ => column(table, self.schema, name, role),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }
}

/// An empty table, for tests and for planning.
impl From<&Schema> for Table {
    fn from(schema: &Schema) -> Self {
        Table {
            name: "table".into(),
            schema: Arc::new(schema.clone()),
            batches: Vec::new(),
            rows: 0,
            prepared: None,
        }
    }
}

/// Returns the size of a batch's rows in bytes.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    let bytes = |column: &ArrayRef| {
        column.to_data().get_slice_memory_size().unwrap_or(column.get_array_memory_size())
    };
    batch.columns().iter().map(bytes).sum()
}
