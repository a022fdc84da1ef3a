//! The kinds of columns. Types whose values can be equal as keys have the same kind.

use arrow_schema::{DataType, Field};

/// Returns the kind of a type, as written in the header.
pub(super) fn kind(data_type: &DataType) -> String {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256,
        Dictionary, Duration, FixedSizeBinary, FixedSizeList, Float16, Float32, Float64, Int8,
        Int16, Int32, Int64, Interval, LargeBinary, LargeList, LargeListView, LargeUtf8, List,
        ListView, Map, Null, RunEndEncoded, Struct, Time32, Time64, Timestamp, UInt8, UInt16,
        UInt32, UInt64, Union, Utf8, Utf8View,
    };
    let of = |field: &Field| kind(field.data_type());
    let text = match data_type {
        Null => "null",
        Boolean => "boolean",
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => "integer",
        Float16 | Float32 | Float64 => "float",
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => "decimal",
        Utf8 | LargeUtf8 | Utf8View => "string",
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "binary",
        Date32 | Date64 => "date",
        Time32(_) | Time64(_) => "time",
        Timestamp(_, None) => "timestamp",
        // A time zone only affects how an instant is shown.
        Timestamp(_, Some(_)) => "instant",
        Duration(_) => "duration",
        Interval(_) => "interval",
        Dictionary(_, values) => return kind(values),
        RunEndEncoded(_, values) => return of(values),
        List(item)
        | LargeList(item)
        | FixedSizeList(item, _)
        | ListView(item)
        | LargeListView(item) => return format!("list<{}>", of(item)),
        // The names of a map's fields depend on its producer.
        Map(entries, _) => {
            let Struct(fields) = entries.data_type() else {
                return format!("map<{}>", of(entries));
            };
            let kinds: Vec<String> = fields.iter().map(|field| of(field)).collect();
            return format!("map<{}>", kinds.join(";"));
        }
        Struct(fields) => {
            let named = |field: &Field| named(field.name(), &of(field));
            let fields: String = fields.iter().map(|field| named(field)).collect();
            return format!("struct<{fields}>");
        }
        Union(fields, _) => {
            let one = |(id, field): (i8, &std::sync::Arc<Field>)| {
                format!("{id}{}", named(field.name(), &of(field)))
            };
            return format!("union<{}>", fields.iter().map(one).collect::<String>());
        }
    };
    text.to_owned()
}

/// Combines a name and a kind into a string that no other name and kind can produce.
fn named(name: &str, kind: &str) -> String {
    format!(";{}:{name}={kind}", name.len())
}
