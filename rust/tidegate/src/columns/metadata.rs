//! Metadata of fields and schemas. A result keeps the metadata that applies to all of its values.
//!
//! Some metadata describes values. Examples are the categories of a polars enum and the parameters
//! of an extension type. A column whose values come from several inputs keeps such metadata if all
//! inputs agree on it.
//!
//! Other metadata describes rows. For example, pandas records which columns form a frame's index.
//! Unnamed indexes and column labels are dropped on import, because a result has different rows and
//! its columns may be renamed. A named index is treated like any other column. A column's pandas
//! metadata is kept under the column's name in the result.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde_json::{Value, json};

use crate::columns::type_name::TypeName;
use crate::{Error, Result, shown};

const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
const PANDAS: &str = "pandas";

/// The suffix that pandas appends to the names of Arrow types.
const ARROW_TYPE: &str = "[pyarrow]";

/// The metadata keys under which polars stores an enum's categories, newest first. When polars
/// reads a value that is not a category, the result is null.
const ENUM_CATEGORIES: [&str; 2] = ["_PL_ENUM_VALUES2", "_PL_ENUM_VALUES"];

/// Returns the first field with only the metadata on which both fields agree.
pub(crate) fn of_both(field: &Field, other: &Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.retain(|key, value| other.metadata().get(key) == Some(value));
    if extension(field) != extension(other) {
        metadata.remove(EXTENSION_NAME);
        metadata.remove(EXTENSION_METADATA);
    }
    field.clone().with_metadata(metadata)
}

/// Returns the first of several schemas that have the same columns. The columns keep only the
/// metadata on which all schemas agree.
pub(crate) fn of_all<'a>(inputs: impl Iterator<Item = &'a SchemaRef>) -> SchemaRef {
    let inputs: Vec<&Schema> = inputs.map(|schema| &**schema).collect();
    let first = inputs[0];
    let mut fields: Vec<Arc<Field>> = first.fields().to_vec();
    for other in &inputs[1..] {
        for (field, other) in fields.iter_mut().zip(other.fields()) {
            if field.metadata() != other.metadata() {
                *field = Arc::new(of_both(field, other));
            }
        }
    }
    let columns = fields.iter().map(|field| ColumnOrigin::named(field, field.name(), &inputs));
    let described = describe(&inputs, &columns.collect::<Vec<_>>(), |_| true);
    let metadata = with_columns(first, described);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// Returns a field's extension type: its name and parameters.
fn extension(field: &Field) -> Option<(&String, Option<&String>)> {
    let metadata = field.metadata();
    metadata.get(EXTENSION_NAME).map(|name| (name, metadata.get(EXTENSION_METADATA)))
}

/// Rejects two different extension types in one column. Values of different extension types can be
/// stored in the same way but mean different things. Monthly and daily pandas periods are an
/// example.
pub(crate) fn check_extensions(
    field: &Field,
    place: &str,
    other: &Field,
    other_place: &str,
) -> Result<()> {
    match (extension(field), extension(other)) {
        (Some(one), Some(another)) if one != another => Err(Error::schema(format!(
            "column `{}` is {} in {place} and {} in {other_place}; convert one of them",
            shown(field.name()),
            named(one),
            named(another)
        ))),
        _ => Ok(()),
    }
}

fn named((name, parameters): (&String, Option<&String>)) -> String {
    match parameters.filter(|text| !text.is_empty()) {
        None => shown(name).into_owned(),
        Some(text) => format!("{} {}", shown(name), shown(text)),
    }
}

/// If `field` is a polars enum, rejects values that are not among its categories. `other` is the
/// field to which the values belong.
pub(crate) fn check_categories(
    name: &str,
    field: &Field,
    other: &Field,
    column: &ArrayRef,
    first: u64,
) -> Result<()> {
    let key = ENUM_CATEGORIES.iter().find(|key| field.metadata().contains_key(**key));
    let Some(text) = key.and_then(|key| field.metadata().get(*key)) else { return Ok(()) };
    if key.and_then(|key| other.metadata().get(*key)) == Some(text) {
        return Ok(());
    }
    let failed = |error| Error::data(format!("{name}: column `{}`: {error}", shown(field.name())));
    let categories: HashSet<&str> = categories(text).collect();
    let values = cast(column, &DataType::LargeUtf8).map_err(failed)?;
    let values = values.as_string::<i64>();
    let is_other = |&row: &usize| values.is_valid(row) && !categories.contains(values.value(row));
    match (0..values.len()).find(is_other) {
        None => Ok(()),
        Some(row) => Err(Error::data(format!(
            "{name}: column `{}`, row {}: `{}` is not a category of the polars Enum with which the \
             operator was created; add the category, or create the operator with a String column",
            shown(field.name()),
            first + row as u64,
            shown(values.value(row))
        ))),
    }
}

/// Parses an enum's categories in the polars format, in which each category is preceded by its
/// length in bytes.
fn categories(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (length, rest) = text.split_once(';')?;
        let (category, rest) = rest.split_at_checked(length.parse().ok()?)?;
        text = rest;
        Some(category)
    })
}

/// Returns a frame's schema without any unnamed pandas index, and the positions of the remaining
/// columns. Returns `None` if the schema has no pandas metadata.
pub fn without_index(schema: &Schema) -> Option<(SchemaRef, Vec<usize>)> {
    let mut pandas = pandas(schema)?;
    // An entry that is not a string describes a range index, which has no column.
    let levels = list(&pandas, "index_columns").filter_map(Value::as_str).map(str::to_owned);
    let (unnamed, named): (HashSet<String>, HashSet<String>) =
        levels.partition(|name| is_unnamed_level(name));
    let kept: Vec<usize> = (0..schema.fields().len())
        .filter(|&at| !unnamed.contains(schema.field(at).name()))
        .collect();
    set_indexes(&mut pandas, |name| named.contains(name));
    if let Some(columns) = pandas["columns"].as_array_mut() {
        columns.retain(|column| field_name(column).is_some_and(|name| !unnamed.contains(name)));
        columns.retain(is_readable);
        // If labels are not strings, pyarrow looks up its columns by these names.
        columns.iter_mut().for_each(|column| column["name"] = column["field_name"].clone());
    }
    let mut metadata = schema.metadata().clone();
    metadata.insert(PANDAS.to_owned(), pandas.to_string());
    let fields: Vec<_> = kept.iter().map(|&at| schema.fields()[at].clone()).collect();
    Some((Arc::new(Schema::new_with_metadata(fields, metadata)), kept))
}

/// Returns whether pandas can look up the type of a column by the type's recorded name. A lookup by
/// name does not work for Arrow types that have fields.
fn is_readable(column: &Value) -> bool {
    !column["numpy_type"]
        .as_str()
        .is_some_and(|name| name.contains('<') && name.ends_with(ARROW_TYPE))
}

/// Returns whether pyarrow generated this name for an unnamed index level.
fn is_unnamed_level(name: &str) -> bool {
    let level = name.strip_prefix("__index_level_").and_then(|rest| rest.strip_suffix("__"));
    level.is_some_and(|level| level.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A result column and the input columns that supply its values. Each input column is paired with
/// the index of its input.
pub(crate) struct ColumnOrigin<'a> {
    pub(crate) field: &'a Field,
    pub(crate) of: Vec<(usize, &'a Field)>,
}

impl<'a> ColumnOrigin<'a> {
    /// Creates a result column that takes its values from the column with this name in every input.
    pub(crate) fn named(field: &'a Field, name: &str, inputs: &[&'a Schema]) -> Self {
        let column = |(input, schema): (usize, &&'a Schema)| {
            Some((input, schema.field_with_name(name).ok()?))
        };
        ColumnOrigin { field, of: inputs.iter().enumerate().filter_map(column).collect() }
    }
}

/// Returns the metadata of a join's result. The left side's metadata is kept, except that the
/// pandas metadata describes the result's columns.
pub(crate) fn of_join(
    left: &Schema,
    right: &Schema,
    columns: &[ColumnOrigin<'_>],
) -> HashMap<String, String> {
    let of_left = columns.iter().flat_map(|column| column.of.iter().find(|(side, _)| *side == 0));
    let levels: HashSet<&str> = of_left.map(|(_, field)| field.name().as_str()).collect();
    with_columns(left, describe(&[left, right], columns, |name| levels.contains(name)))
}

/// Returns the metadata of a result that consists of left rows and aggregates of right rows.
pub(crate) fn of_partners(
    left: &Schema,
    right: &Schema,
    functions: &[ColumnOrigin<'_>],
) -> HashMap<String, String> {
    let mut described = describe(&[right], functions, |_| false);
    if let (Some(of_left), Some(of_functions)) = (pandas(left), &mut described) {
        let columns = list(&of_left, "columns").chain(list(of_functions, "columns"));
        let columns = columns.cloned().collect();
        *of_functions = of_left;
        of_functions["columns"] = columns;
    }
    with_columns(left, described.or_else(|| pandas(left)))
}

/// Returns the metadata of a result that aggregates groups of rows. Only pandas metadata for the
/// result's columns is included.
pub(crate) fn of_groups(
    tables: &[&Schema],
    columns: &[ColumnOrigin<'_>],
) -> HashMap<String, String> {
    with_columns(&Schema::empty(), describe(tables, columns, |_| false))
}

/// Returns a schema's metadata with the pandas metadata replaced.
fn with_columns(schema: &Schema, described: Option<Value>) -> HashMap<String, String> {
    let mut metadata = schema.metadata().clone();
    metadata.remove(PANDAS);
    metadata.extend(described.map(|pandas| (PANDAS.to_owned(), pandas.to_string())));
    metadata
}

/// Returns the pandas metadata of a result's columns. `is_level` selects the index levels of the
/// first input that remain in the result.
fn describe(
    inputs: &[&Schema],
    columns: &[ColumnOrigin<'_>],
    is_level: impl Fn(&str) -> bool,
) -> Option<Value> {
    let said: Vec<Option<Value>> = inputs.iter().map(|schema| pandas(schema)).collect();
    let mut described = said.iter().flatten().next()?.clone();
    let by_name: Vec<_> = said.iter().map(|pandas| by_name(pandas.as_ref())).collect();
    let of_column = |column: &ColumnOrigin<'_>| {
        let of = |(input, field): &(usize, &Field)| {
            said_of(column.field, field, by_name[*input].get(field.name().as_str())?)
        };
        let found: Vec<Value> = column.of.iter().filter_map(of).collect();
        found.iter().find(|said| is_nullable(said)).or(found.first()).cloned()
    };
    set_indexes(&mut described, |name| said[0].is_some() && is_level(name));
    described["columns"] = columns.iter().filter_map(of_column).collect();
    Some(described)
}

/// Adapts the pandas metadata of an input column to a result column. Returns `None` if the metadata
/// does not describe the values of the result column.
fn said_of(column: &Field, of: &Field, said: &Value) -> Option<Value> {
    let mut said = said.clone();
    if of.data_type() != column.data_type() || extension(of) != extension(column) {
        let are_numbers = [of, column].iter().all(|field| is_number(field.data_type()));
        let name = nullable_name(said["numpy_type"].as_str()?, column.data_type());
        let name = name.filter(|_| are_numbers)?;
        said["pandas_type"] = json!(name.to_lowercase());
        said["numpy_type"] = json!(name);
    }
    said["name"] = json!(column.name());
    said["field_name"] = json!(column.name());
    Some(said)
}

/// Returns whether pandas reads the column as a nullable type. Integers of a nullable type stay
/// exact even if there are nulls.
fn is_nullable(said: &Value) -> bool {
    let name = said["numpy_type"].as_str().unwrap_or_default();
    name.ends_with(ARROW_TYPE) || is_masked(name)
}

/// Returns whether pandas stores a null mask for columns of this type.
fn is_masked(name: &str) -> bool {
    let kind = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    ["boolean", "Int", "UInt", "Float"].contains(&kind)
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(data_type, DataType::Boolean | DataType::Float32 | DataType::Float64)
}

/// Returns the pandas type for numbers that are computed from a column of a nullable type.
fn nullable_name(of: &str, data_type: &DataType) -> Option<String> {
    match data_type {
        _ if of.ends_with(ARROW_TYPE) => Some(format!("{}{ARROW_TYPE}", TypeName(data_type))),
        _ if !is_masked(of) => None,
        DataType::Boolean => Some("boolean".to_owned()),
        // From Int8 to Float64, pandas and Arrow use the same names.
        _ => Some(data_type.to_string()),
    }
}

/// Keeps only the selected index levels and removes the column labels.
fn set_indexes(pandas: &mut Value, is_level: impl Fn(&str) -> bool) {
    if let Some(levels) = pandas["index_columns"].as_array_mut() {
        levels.retain(|level| level.as_str().is_some_and(&is_level));
    }
    pandas["column_indexes"] = json!([]);
}

/// Returns the schema's pandas metadata if it is well-formed.
fn pandas(schema: &Schema) -> Option<Value> {
    let found: Value = serde_json::from_str(schema.metadata().get(PANDAS)?).ok()?;
    found.is_object().then_some(found)
}

fn list<'a>(pandas: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    pandas[name].as_array().into_iter().flatten()
}

fn field_name(column: &Value) -> Option<&str> {
    column["field_name"].as_str()
}

fn by_name(pandas: Option<&Value>) -> HashMap<&str, &Value> {
    let columns = pandas.into_iter().flat_map(|pandas| list(pandas, "columns"));
    columns.filter_map(|column| Some((field_name(column)?, column))).collect()
}
