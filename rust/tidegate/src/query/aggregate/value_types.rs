//! The types of the values that aggregate functions accept.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};

use crate::columns::keys::common_type;

pub(super) fn is_number(values: &DataType) -> bool {
    let is_decimal = matches!(
        values,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..)
    );
    values.is_integer() || values.is_floating() || is_decimal
}

/// Returns the item field of a list that contains values from this column.
pub(crate) fn list_item(of: &Field) -> FieldRef {
    let item = Field::new_list_field(of.data_type().clone(), true);
    Arc::new(item.with_metadata(meaning(of)))
}

/// Returns the part of a column's metadata that describes its values, such as the name of an
/// extension type. The column's Parquet field ID is omitted, because it would not apply to another
/// column with the same values.
pub(super) fn meaning(of: &Field) -> HashMap<String, String> {
    let mut metadata = of.metadata().clone();
    metadata.remove("PARQUET:field_id");
    metadata
}

/// Returns the type itself or, for a dictionary type, the type of its values.
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
