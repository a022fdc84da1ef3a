//! Types that contain other types. Lists and replaces the child types of nested types.

use arrow_schema::{DataType, FieldRef, Fields, UnionFields};

/// Returns the types of an array's children.
pub(crate) fn children(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.data_type()],
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        _ => Vec::new(),
    }
}

/// Returns the type with each child field replaced by the result of `change`. The types of run ends
/// are kept, and types without children are returned unchanged.
pub(crate) fn with_fields(
    data_type: &DataType,
    change: impl Fn(&FieldRef) -> FieldRef,
) -> DataType {
    match data_type {
        DataType::List(item) => DataType::List(change(item)),
        DataType::LargeList(item) => DataType::LargeList(change(item)),
        DataType::ListView(item) => DataType::ListView(change(item)),
        DataType::LargeListView(item) => DataType::LargeListView(change(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(change(item), *size),
        DataType::Map(entries, sorted) => DataType::Map(change(entries), *sorted),
        DataType::RunEndEncoded(ends, values) => {
            DataType::RunEndEncoded(ends.clone(), change(values))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(change).collect::<Fields>()),
        DataType::Union(fields, mode) => {
            let fields = fields.iter().map(|(id, field)| (id, change(field)));
            DataType::Union(fields.collect::<UnionFields>(), *mode)
        }
        other => other.clone(),
    }
}
