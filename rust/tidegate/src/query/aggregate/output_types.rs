//! The types of the results of functions.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};

use super::Function;
use super::plan::OutputPlan;
use crate::columns::keys::common_type;
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

pub(super) fn is_number(values: &DataType) -> bool {
    let is_decimal = matches!(
        values,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..)
    );
    values.is_integer() || values.is_floating() || is_decimal
}

pub(super) fn output_type(output: &OutputPlan, of: Option<&Field>) -> Result<DataType> {
    let OutputPlan { name, function, .. } = output;
    let Some(of) = of else { return Ok(DataType::Int64) };
    let given = of.data_type();
    let values = leaf(given);
    let refuse = |expected: &str| {
        Error::schema(format!(
            "aggs: `{name}`: {} of column `{}` of type {}: expected {expected}; cast it first",
            function.name(),
            of.name(),
            TypeName(given)
        ))
    };
    match function {
        Function::Count => Ok(DataType::Int64),
        Function::First | Function::Last | Function::ArgMin | Function::ArgMax => Ok(given.clone()),
        Function::Collect => Ok(DataType::List(list_item(of))),
        Function::Udf(udf) => Ok(udf.returns.clone()),
        Function::CountDistinct if is_ordered(values) => Ok(DataType::Int64),
        Function::CountDistinct => Err(refuse("numbers, times, booleans, text or binary")),
        Function::User(user) => user.result(values).ok_or_else(|| refuse(user.expected())),
        Function::Min | Function::Max if is_ordered(values) => Ok(values.clone()),
        Function::Min | Function::Max => Err(refuse("numbers, times, booleans, text or binary")),
        Function::Any | Function::All if *values == DataType::Boolean => Ok(DataType::Boolean),
        Function::Any | Function::All => Err(refuse("booleans")),
        _ if !is_number(values) => Err(refuse("numbers")),
        Function::Sum if values.is_unsigned_integer() => Ok(DataType::UInt64),
        Function::Sum if values.is_integer() => Ok(DataType::Int64),
        Function::Sum => Ok(match values {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
            _ => DataType::Float64,
        }),
        Function::Mean
        | Function::Var
        | Function::Std
        | Function::WeightedMean
        | Function::Product
        | Function::Covar
        | Function::Corr
        | Function::Median
        | Function::Quantile(_) => Ok(DataType::Float64),
    }
}

/// Returns the item field of a list that holds values of this column.
pub(crate) fn list_item(of: &Field) -> FieldRef {
    let item = Field::new_list_field(of.data_type().clone(), true);
    Arc::new(item.with_metadata(meaning(of)))
}

/// Returns a column's metadata that describes its values, such as the name of an extension type.
/// The column's number in its Parquet file is removed, because it does not apply to another column
/// with the same values.
pub(super) fn meaning(of: &Field) -> HashMap<String, String> {
    let mut metadata = of.metadata().clone();
    metadata.remove("PARQUET:field_id");
    metadata
}

/// The type itself; for a dictionary, the type of the values that it encodes.
pub(crate) fn leaf(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

pub(super) fn is_ordered(data_type: &DataType) -> bool {
    use DataType::{Duration, Time32, Time64};
    matches!(data_type, Time32(_) | Time64(_) | Duration(_))
        || common_type(data_type, data_type).is_some()
}
