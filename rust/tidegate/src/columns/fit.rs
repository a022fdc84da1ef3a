//! Converts rows to match the columns, column order and types of a schema.
//!
//! Frames from different libraries store the same strings in different layouts, and the same
//! numbers with different widths. Each value is converted exactly, or causes an error.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::cmp::distinct;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::cast::text;
use super::expression::is_text_or_binary;
use crate::columns::metadata::{check_categories, check_extensions};
use crate::columns::type_name::TypeName;
use crate::{Error, Result, shown};

/// Specifies how to treat columns that are not in a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Additional columns are an error.
    Refuse,
    /// Additional columns are left out.
    Ignore,
}

/// Converts batches to `schema`. The batches' columns can be in a different order. Column types can
/// differ as long as they represent the same values. In messages, rows are numbered starting with
/// `first`, which is the number of the first row.
///
/// # Errors
///
/// Returns a schema error if a column is missing or of a different kind. An additional column is
/// also an error, unless `extra` permits it. Returns a data error that names the column and the row
/// if a value does not fit.
pub(crate) fn fit(
    name: &str,
    schema: &SchemaRef,
    given: &Schema,
    batches: Vec<RecordBatch>,
    first: u64,
    extra: Extra,
) -> Result<Vec<RecordBatch>> {
    let same = |a: &Field, b: &Field| a.name() == b.name() && a.data_type() == b.data_type();
    let (wanted, fields) = (schema.fields(), given.fields());
    let is_same =
        wanted.len() == fields.len() && wanted.iter().zip(fields).all(|(a, b)| same(a, b));
    let places = match is_same {
        true => (0..wanted.len()).collect(),
        false => places(name, schema, given, extra)?,
    };
    for (field, &place) in wanted.iter().zip(&places) {
        check_extensions(field, "the operator", given.field(place), name)?;
    }
    let mut first = first;
    let mut fitted = Vec::with_capacity(batches.len());
    for batch in batches {
        let column = |(field, &place): (&std::sync::Arc<Field>, &usize)| {
            let column = batch.column(place);
            check_categories(name, field, given.field(place), column, first)?;
            exact(name, field, column, first)
        };
        let columns = wanted.iter().zip(&places).map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options)
            .map_err(|error| Error::data(format!("{name}: {error}")))?;
        first += batch.num_rows() as u64;
        fitted.push(batch);
    }
    Ok(fitted)
}

/// Returns the position of each schema column among the given columns, and checks that the given
/// columns have suitable types.
fn places(name: &str, schema: &Schema, given: &Schema, extra: Extra) -> Result<Vec<usize>> {
    let names = |fields: &Schema| {
        let shown: Vec<_> = fields
            .fields()
            .iter()
            .take(20)
            .map(|field| format!("`{}`", shown(field.name())))
            .collect();
        let more = fields.fields().len().saturating_sub(20);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", shown.join(", "))
    };
    let place = |field: &Field| {
        let mut found =
            given.fields().iter().enumerate().filter(|(_, other)| other.name() == field.name());
        let column = shown(field.name());
        let (place, other) = match (found.next(), found.next()) {
            (Some(found), None) => found,
            (Some(_), Some(_)) => {
                return Err(Error::schema(format!(
                    "{name}: the rows have more than one column `{column}`; leave out all but one"
                )));
            }
            (None, _) => {
                return Err(Error::schema(format!(
                    "{name}: the rows have no column `{column}`, which is {}; they have {}",
                    TypeName(field.data_type()),
                    names(given)
                )));
            }
        };
        match fits(other.data_type(), field.data_type()) {
            true => Ok(place),
            false => Err(Error::schema(format!(
                "{name}: column `{column}` is {}, expected {}; cast it first",
                TypeName(other.data_type()),
                TypeName(field.data_type())
            ))),
        }
    };
    let places = schema.fields().iter().map(|field| place(field)).collect::<Result<Vec<_>>>()?;
    // pandas exports the index of a frame as a column, unless the index numbers the rows.
    let is_index = |field: &Field| field.name().starts_with("__index_level_");
    let mut others = given
        .fields()
        .iter()
        .filter(|field| schema.column_with_name(field.name()).is_none() && !is_index(field));
    match others.next() {
        Some(other) if extra == Extra::Refuse => Err(Error::schema(format!(
            "{name}: the rows have a column `{}`, expected {}; leave it out, or push with \
             extra=\"ignore\"",
            shown(other.name()),
            names(schema)
        ))),
        _ => Ok(places),
    }
}

/// Returns whether values of one type can be converted to another. Both types must hold the same
/// kind of data, but can differ in layout, width or unit.
fn fits(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, Duration,
        FixedSizeList, LargeList, List, ListView, Null, RunEndEncoded, Time32, Time64, Timestamp,
    };
    let is_decimal =
        |t: &DataType| matches!(t, Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..));
    match (from, to) {
        _ if from == to => true,
        (Null, _) => true,
        (Dictionary(_, from), to) => fits(from, to),
        (RunEndEncoded(_, from), to) => fits(from.data_type(), to),
        (from, Dictionary(_, to)) => fits(from, to),
        (Timestamp(_, from), Timestamp(_, to)) => from.is_some() == to.is_some(),
        (Duration(_), Duration(_)) => true,
        (Date32 | Date64, Date32 | Date64) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        (List(from) | LargeList(from) | FixedSizeList(from, _), List(to) | LargeList(to)) => {
            is_only_laid_out(from.data_type(), to.data_type())
        }
        (ListView(_), _) => false,
        _ if is_text_or_binary(from) && is_text_or_binary(to) => is_text(from) == is_text(to),
        _ if from.is_integer() => to.is_integer() || to.is_floating() || is_decimal(to),
        _ if from.is_floating() => to.is_floating(),
        _ => is_decimal(from) && is_decimal(to),
    }
}

/// Returns whether two types hold the same values in different layouts. Within lists, values are
/// converted only between such types, because a lost value would not be detected there.
fn is_only_laid_out(from: &DataType, to: &DataType) -> bool {
    let is_text_or_null = |t: &DataType| is_text(t) || *t == DataType::Null;
    from == to
        || *from == DataType::Null
        || (is_text_or_null(from) && is_text(to))
        || (is_text_or_binary(from) && is_text_or_binary(to) && is_text(from) == is_text(to))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Returns whether a value is NaN.
fn is_nan(array: &dyn Array, row: usize) -> bool {
    match array.data_type() {
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).is_nan(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).is_nan(),
        _ => false,
    }
}

/// Rejects a null if the schema does not allow nulls.
fn check_nulls(name: &str, field: &Field, column: &ArrayRef, first: u64) -> Result<()> {
    if field.is_nullable() || column.logical_null_count() == 0 {
        return Ok(());
    }
    let Some(nulls) = column.logical_nulls() else { return Ok(()) };
    let row = nulls.iter().position(|is_there| !is_there).unwrap_or(0);
    Err(Error::data(format!(
        "{name}: column `{}`, row {}: the value is null, but the schema declares the column as \
         non-nullable; filter such rows out first",
        shown(field.name()),
        first + row as u64
    )))
}

/// Converts a column to the type of a field, preserving each value.
fn exact(name: &str, field: &Field, column: &ArrayRef, first: u64) -> Result<ArrayRef> {
    let (from, to) = (column.data_type(), field.data_type());
    check_nulls(name, field, column, first)?;
    if from == to {
        return Ok(column.clone());
    }
    let failed = |error| {
        Error::data(format!(
            "{name}: column `{}`: {} to {}: {error}",
            shown(field.name()),
            TypeName(from),
            TypeName(to)
        ))
    };
    // A cast replaces values that do not fit the type with nulls.
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let cast = |column: &ArrayRef, to| cast_with_options(column, to, &options).map_err(failed);
    let plain = match from {
        DataType::Dictionary(_, values) => cast(column, values)?,
        DataType::RunEndEncoded(_, values) => cast(column, values.data_type())?,
        _ => column.clone(),
    };
    let found = cast(&plain, to)?;
    let lost = match plain.data_type() {
        DataType::Null => None,
        // Casting the number back shows whether it has changed.
        from if from.is_numeric() || from.is_temporal() => {
            let unpacked = match found.data_type() {
                DataType::Dictionary(_, values) => cast(&found, values)?,
                _ => found.clone(),
            };
            let back = cast(&unpacked, from)?;
            let is_nan = |row: usize| is_nan(&back, row) && is_nan(&plain, row);
            let differs = distinct(&back, &plain).map_err(failed)?;
            differs.values().set_indices().find(|&row| !is_nan(row))
        }
        _ if found.null_count() == plain.null_count() => None,
        _ => (0..found.len()).find(|&row| found.is_null(row) && plain.is_valid(row)),
    };
    match lost {
        None => Ok(found),
        Some(row) => {
            let value = text(&plain, row);
            Err(Error::data(format!(
                "{name}: column `{}`, row {}: {} of {} is not a value of {}; round it first, or \
                 create the operator with a wider type",
                shown(field.name()),
                first + row as u64,
                value,
                TypeName(from),
                TypeName(to)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::{Int64Type, UInt8Type};
    use arrow_array::{
        DictionaryArray, Float64Array, Int64Array, LargeStringArray, NullArray, StringViewArray,
        TimestampMicrosecondArray, UInt8Array,
    };
    use arrow_schema::TimeUnit;

    use super::*;

    fn fitted(to: DataType, column: ArrayRef) -> Result<ArrayRef> {
        let schema = Arc::new(Schema::new(vec![Field::new("x", to, true)]));
        let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
        let given = batch.schema();
        Ok(fit("rows", &schema, &given, vec![batch], 7, Extra::Refuse)?[0].column(0).clone())
    }

    #[test]
    fn values_in_other_layouts_stay_as_they_are() {
        let texts: Vec<ArrayRef> = vec![
            Arc::new(LargeStringArray::from(vec![Some("a"), None])),
            Arc::new(StringViewArray::from(vec![Some("a"), None])),
            Arc::new([Some("a"), None].into_iter().collect::<DictionaryArray<UInt8Type>>()),
        ];
        for text in texts {
            let found = fitted(DataType::Utf8, text).unwrap();
            assert_eq!(found.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), None]);
        }
        let found = fitted(DataType::Int64, Arc::new(UInt8Array::from(vec![255]))).unwrap();
        assert_eq!(found.as_primitive::<Int64Type>().values(), &[255]);
        let found = fitted(DataType::Float64, Arc::new(Int64Array::from(vec![1 << 53]))).unwrap();
        assert_eq!(found.as_primitive::<Float64Type>().values(), &[9_007_199_254_740_992.0]);
        let nulls = fitted(DataType::Utf8, Arc::new(NullArray::new(2))).unwrap();
        assert_eq!(nulls.null_count(), 2);
        let nan = Arc::new(Float64Array::from(vec![f64::NAN, -0.0, f64::INFINITY]));
        assert!(
            fitted(DataType::Float32, nan).unwrap().as_primitive_opt::<Float64Type>().is_none()
        );
    }

    #[test]
    fn a_value_that_would_change_is_an_error() {
        let lost = |to, column: ArrayRef| fitted(to, column).unwrap_err().message().to_owned();
        let odd = lost(DataType::Float64, Arc::new(Int64Array::from(vec![0, (1 << 53) + 1])));
        assert!(odd.starts_with("rows: column `x`, row 8: 9007199254740993 of int64"), "{odd}");
        let wide = lost(DataType::UInt8, Arc::new(Int64Array::from(vec![-1])));
        assert!(wide.contains("row 7: -1 of int64 is not a value of uint8"), "{wide}");
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let between = lost(seconds.clone(), Arc::new(TimestampMicrosecondArray::from(vec![1])));
        assert!(between.contains("is not a value of timestamp[s]"), "{between}");
        let kind = lost(seconds, Arc::new(Int64Array::from(vec![1])));
        assert!(
            kind.contains("column `x` is int64, expected timestamp[s]; cast it first"),
            "{kind}"
        );
        let float = lost(DataType::Int64, Arc::new(Float64Array::from(vec![1.0])));
        assert!(float.contains("is double, expected int64"), "{float}");
    }
}
