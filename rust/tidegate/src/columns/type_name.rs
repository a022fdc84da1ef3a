//! Formats Arrow types with their Python names, for messages.

use std::cmp::Reverse;
use std::fmt::{Display, Formatter, Result};

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit, UnionMode};

/// Formats a type in the same way as `str()` of a `pyarrow.DataType`.
///
/// A type does not record whether its dictionary is ordered, so the text always describes it as
/// unordered.
///
/// ```
/// use arrow_schema::{DataType, TimeUnit};
/// use tidegate::TypeName;
///
/// let time = DataType::Timestamp(TimeUnit::Microsecond, None);
/// assert_eq!(TypeName(&time).to_string(), "timestamp[us]");
/// assert_eq!(TypeName(&DataType::new_list(DataType::Utf8, true)).to_string(), "list<item: string>");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TypeName<'a>(pub &'a DataType);

impl Display for TypeName<'_> {
    #[expect(clippy::too_many_lines, reason = "a flat match with a line or two per type")]
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        use DataType::{
            Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128,
            Decimal256, Dictionary, Duration, FixedSizeBinary, FixedSizeList, Float16, Float32,
            Float64, Int8, Int16, Int32, Int64, Interval, LargeBinary, LargeList, LargeListView,
            LargeUtf8, List, ListView, Map, Null, RunEndEncoded, Struct, Time32, Time64, Timestamp,
            UInt8, UInt16, UInt32, UInt64, Union, Utf8, Utf8View,
        };
        let plain = match self.0 {
            Null => "null",
            Boolean => "bool",
            Int8 => "int8",
            Int16 => "int16",
            Int32 => "int32",
            Int64 => "int64",
            UInt8 => "uint8",
            UInt16 => "uint16",
            UInt32 => "uint32",
            UInt64 => "uint64",
            Float16 => "halffloat",
            Float32 => "float",
            Float64 => "double",
            Utf8 => "string",
            LargeUtf8 => "large_string",
            Utf8View => "string_view",
            Binary => "binary",
            LargeBinary => "large_binary",
            BinaryView => "binary_view",
            Date32 => "date32[day]",
            Date64 => "date64[ms]",
            Interval(IntervalUnit::YearMonth) => "month_interval",
            Interval(IntervalUnit::DayTime) => "day_time_interval",
            Interval(IntervalUnit::MonthDayNano) => "month_day_nano_interval",
            FixedSizeBinary(width) => return write!(f, "fixed_size_binary[{width}]"),
            Time32(unit) => return write!(f, "time32[{}]", unit_name(*unit)),
            Time64(unit) => return write!(f, "time64[{}]", unit_name(*unit)),
            Duration(unit) => return write!(f, "duration[{}]", unit_name(*unit)),
            Timestamp(unit, None) => return write!(f, "timestamp[{}]", unit_name(*unit)),
            Timestamp(unit, Some(zone)) => {
                return write!(f, "timestamp[{}, tz={zone}]", unit_name(*unit));
            }
            Decimal32(digits, scale) => return write!(f, "decimal32({digits}, {scale})"),
            Decimal64(digits, scale) => return write!(f, "decimal64({digits}, {scale})"),
            Decimal128(digits, scale) => return write!(f, "decimal128({digits}, {scale})"),
            Decimal256(digits, scale) => return write!(f, "decimal256({digits}, {scale})"),
            List(item) => return write!(f, "list<{}>", FieldName(item)),
            LargeList(item) => return write!(f, "large_list<{}>", FieldName(item)),
            ListView(item) => return write!(f, "list_view<{}>", FieldName(item)),
            LargeListView(item) => return write!(f, "large_list_view<{}>", FieldName(item)),
            FixedSizeList(item, length) => {
                return write!(f, "fixed_size_list<{}>[{length}]", FieldName(item));
            }
            Struct(fields) => {
                let fields = fields.iter().map(|field| FieldName(field).to_string());
                return write!(f, "struct<{}>", listed(fields));
            }
            Map(entries, is_sorted) => return map(f, entries, *is_sorted),
            Union(fields, mode) => {
                let fields =
                    fields.iter().map(|(code, field)| format!("{}={code}", FieldName(field)));
                let kind = if *mode == UnionMode::Dense { "dense" } else { "sparse" };
                return write!(f, "{kind}_union<{}>", listed(fields));
            }
            Dictionary(codes, values) => {
                let (codes, values) = (TypeName(codes), TypeName(values));
                return write!(f, "dictionary<values={values}, indices={codes}, ordered=0>");
            }
            RunEndEncoded(ends, values) => {
                let (ends, values) = (TypeName(ends.data_type()), TypeName(values.data_type()));
                return write!(f, "run_end_encoded<run_ends: {ends}, values: {values}>");
            }
        };
        f.write_str(plain)
    }
}

/// Replaces the arrow-rs names of a type and its child types in a string with their Python names.
///
/// ```
/// use arrow_schema::DataType;
/// use tidegate::with_type_names;
///
/// let lists = DataType::new_list(DataType::UInt8, true);
/// assert_eq!(
///     with_type_names("List(UInt8) child invalid: UInt8 of 3 bytes", &lists),
///     "list<item: uint8> child invalid: uint8 of 3 bytes"
/// );
/// ```
pub fn with_type_names(text: &str, data_type: &DataType) -> String {
    let mut types = Vec::new();
    add_types(data_type, &mut types);
    let mut names: Vec<(String, String)> =
        types.into_iter().map(|one| (one.to_string(), TypeName(one).to_string())).collect();
    // A name can be part of a longer one.
    names.sort_by_key(|(shown, _)| Reverse(shown.len()));
    let (mut named, mut rest) = (String::new(), text);
    while let Some(next) = rest.chars().next() {
        let (read, written) = match names.iter().find(|(shown, _)| rest.starts_with(shown)) {
            Some((shown, name)) => (shown.len(), &**name),
            None => (next.len_utf8(), &rest[..next.len_utf8()]),
        };
        named.push_str(written);
        rest = &rest[read..];
    }
    named
}

/// Appends a type and all of its child types.
fn add_types<'a>(data_type: &'a DataType, types: &mut Vec<&'a DataType>) {
    types.push(data_type);
    match data_type {
        DataType::Dictionary(codes, values) => {
            add_types(codes, types);
            add_types(values, types);
        }
        DataType::RunEndEncoded(one, other) => {
            [one, other].into_iter().for_each(|field| add_types(field.data_type(), types));
        }
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => add_types(field.data_type(), types),
        DataType::Struct(fields) => {
            fields.iter().for_each(|field| add_types(field.data_type(), types));
        }
        DataType::Union(fields, _) => {
            fields.iter().for_each(|(_, field)| add_types(field.data_type(), types));
        }
        _ => {}
    }
}

/// The field of a nested type.
struct FieldName<'a>(&'a Field);

impl Display for FieldName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let end = if self.0.is_nullable() { "" } else { " not null" };
        write!(f, "{}: {}{end}", self.0.name(), TypeName(self.0.data_type()))
    }
}

fn map(f: &mut Formatter<'_>, entries: &Field, is_sorted: bool) -> Result {
    let DataType::Struct(fields) = entries.data_type() else {
        return write!(f, "map<{}>", FieldName(entries));
    };
    // A field's name is shown only if it differs from the default name.
    let of = |field: &Field, usual: &str| match field.name() {
        name if name == usual => TypeName(field.data_type()).to_string(),
        name => format!("{} ('{name}')", TypeName(field.data_type())),
    };
    let parts = fields.iter().zip(["key", "value"]).map(|(field, usual)| of(field, usual));
    let end = if is_sorted { ", keys_sorted" } else { "" };
    write!(f, "map<{}{end}>", listed(parts))
}

fn listed(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}
