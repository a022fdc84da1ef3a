//! Assigns types to untyped inputs, such as a header without rows or an empty frame.
//!
//! The columns of such an input have the Arrow type `null`. As long as the input is empty, each
//! column can adopt the type of a column with which it is compared or combined. A `null` column
//! that has rows keeps its type, and is rejected if values are needed.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidegate::Table;
use tidegate::query::aggregate::{Aggregation, Windows};

/// The types to try for a time column that is untyped in every input. Which of these types fits
/// depends on the arguments.
static TIMES: [DataType; 2] = [DataType::Int64, DataType::Timestamp(TimeUnit::Microsecond, None)];

/// Returns the types to try for times and values. Sums need numbers, while most other functions
/// accept untyped values.
fn defaults() -> impl Iterator<Item = (&'static DataType, Option<DataType>)> {
    let values = [None, Some(DataType::Float64)].into_iter();
    values.flat_map(|values| TIMES.iter().map(move |time| (time, values.clone())))
}

fn is_null(schema: &Schema, name: &str) -> bool {
    schema.field_with_name(name).is_ok_and(|field| *field.data_type() == DataType::Null)
}

/// Returns the schema with each untyped column assigned the type that `of` returns for it.
fn typed(schema: &Schema, of: impl Fn(&str) -> Option<DataType>) -> SchemaRef {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Null => match of(field.name()) {
            Some(data_type) => Arc::new(Field::clone(field).with_data_type(data_type)),
            None => field.clone(),
        },
        _ => field.clone(),
    };
    let fields: Vec<_> = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Assigns types to the schemas of both sides of a join. Either side may be empty. `pairs` lists
/// the columns that the join compares. `fits` returns whether the join accepts two schemas.
pub(crate) fn of_join(
    pairs: &[(String, String)],
    fits: impl Fn(&Schema, &Schema) -> bool,
    schemas: [&SchemaRef; 2],
    are_empty: [bool; 2],
) -> [SchemaRef; 2] {
    let given = schemas.map(SchemaRef::clone);
    let [left, right] = schemas;
    let lacks_type = |(l, r): &(String, String)| {
        (are_empty[0] && is_null(left, l)) || (are_empty[1] && is_null(right, r))
    };
    if !pairs.iter().any(lacks_type) {
        return given;
    }
    let with = |(times, values): (&DataType, Option<DataType>)| {
        let side = |own: usize, name: &str| {
            let names = |(l, r): &(String, String)| [l.clone(), r.clone()];
            let Some(pair) = pairs.iter().map(names).find(|pair| pair[own] == name) else {
                return values.clone();
            };
            let other = schemas[1 - own].field_with_name(&pair[1 - own]).ok()?.data_type();
            match other {
                DataType::Null => Some(times.clone()),
                other => Some(other.clone()),
            }
        };
        [0, 1].map(|own| match are_empty[own] {
            true => typed(schemas[own], |name| side(own, name)),
            false => schemas[own].clone(),
        })
    };
    defaults().map(with).find(|[left, right]| fits(left, right)).unwrap_or(given)
}

/// Assigns types to the schemas of an aggregation's streams. Some streams may be empty.
pub(crate) fn of_aggregation(
    query: &Aggregation,
    schemas: &[SchemaRef],
    are_empty: impl Fn(usize) -> bool,
) -> Vec<SchemaRef> {
    let lacks_type = |(at, schema): (usize, &SchemaRef)| {
        are_empty(at) && schema.fields().iter().any(|field| *field.data_type() == DataType::Null)
    };
    if !schemas.iter().enumerate().any(lacks_type) {
        return schemas.to_vec();
    }
    let with = |(time, values): (&DataType, Option<DataType>)| {
        let default = |name: &str| match name {
            name if name == query.on => Some(time.clone()),
            name if matches!(&query.windows, Windows::SessionOf(gap) if gap == name) => {
                Some(DataType::Int64)
            }
            name if query.by.iter().any(|key| key.value == name) => None,
            _ => values.clone(),
        };
        of_streams(schemas, &are_empty, default)
    };
    defaults().map(with).find(|schemas| query.schema(schemas).is_ok()).unwrap_or(schemas.to_vec())
}

/// Assigns types to the schemas of streams. Some streams may be empty. An untyped column adopts the
/// type of the column with the same name in another stream. If there is no such type, the column
/// adopts the type that `default` returns.
pub(crate) fn of_streams(
    schemas: &[SchemaRef],
    are_empty: impl Fn(usize) -> bool,
    default: impl Fn(&str) -> Option<DataType>,
) -> Vec<SchemaRef> {
    let known = |name: &str| {
        let mut fields = schemas.iter().filter_map(|schema| schema.field_with_name(name).ok());
        let known = fields.find(|field| *field.data_type() != DataType::Null);
        known.map(|field| field.data_type().clone()).or_else(|| default(name))
    };
    let one = |(at, schema): (usize, &SchemaRef)| match are_empty(at) {
        true => typed(schema, known),
        false => schema.clone(),
    };
    schemas.iter().enumerate().map(one).collect()
}

/// Widens dictionary indices as needed so that streams' columns can be concatenated by name.
pub(crate) fn with_room(tables: Vec<Table>) -> tidegate::Result<Vec<Table>> {
    let Some(first) = tables.first() else { return Ok(tables) };
    let names: Vec<String> =
        first.schema().fields().iter().map(|field| field.name().clone()).collect();
    let shared: Vec<_> = names.iter().map(|name| vec![&**name; tables.len()]).collect();
    tidegate::with_room(tables, &shared)
}
