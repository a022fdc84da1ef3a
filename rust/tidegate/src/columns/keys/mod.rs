//! Converts key columns to dense numbers: equal keys get equal numbers, regardless of the columns'
//! layouts.
//!
//! Several threads number the right side's keys in parts. The left side's keys are then looked up.
//! A key gets [`NO_KEY`](tidegate_operators::rows::NO_KEY) if it contains a null. Left keys that do
//! not occur on the right side also get `NO_KEY`.
//!
//! There are three methods, depending on the type of the key:
//!
//! - *direct*: for a single column of 64-bit integers whose range of values is only slightly larger
//!   than the number of rows. Each number is the key's distance from the smallest key.
//! - *integers*: a hash table of integers, for any other single column of 64-bit integers.
//! - *bytes*: a hash table of byte strings. Strings and binary values are used unchanged. Other
//!   types and multiple columns are encoded by `arrow-row`, which encodes equal keys as equal
//!   bytes.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `types.rs` | the types of keys that can be compared for equality |
//! | `words.rs`, `bytes.rs` | keys as words, keys as bytes |
//! | `chunks.rs` | the chunks of a column |
//! | `numbering.rs` | the numbers of keys, and the hash tables that find them |
//! | `lookup.rs` | the numbered keys of a side, for lookups by several joins |

mod bytes;
mod chunks;
mod lookup;
mod numbering;
mod types;
mod words;

use arrow_schema::{DataType, Field, Schema};
use tidegate_operators::driver::Driver;
use tidegate_sync::Stop;

use self::bytes::{ByteColumn, RowColumns};
pub(crate) use self::lookup::KeyLookup;
use self::numbering::{ByteTable, IntegerTable, KeyColumns, number};
pub(crate) use self::numbering::{Keys, grow, split};
use self::types::is_bytes;
pub(crate) use self::types::{beyond_64_bits, common_type, is_word};
pub(crate) use self::words::canonical;
use self::words::{WordColumn, direct, span, words};
use super::table::Table;
use crate::columns::metadata::check_extensions;
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

const KEY_TYPES: &str =
    "keys can be integers, floats, booleans, strings, bytes, decimals, dates or timestamps";

/// A pair of columns whose values must be equal, with the type in which the values are compared.
#[derive(Clone, Debug)]
pub(crate) struct KeyColumn {
    pub(crate) left: usize,
    pub(crate) right: usize,
    common: DataType,
}

impl KeyColumn {
    pub(crate) fn new(
        left: usize,
        left_field: &Field,
        right: usize,
        right_field: &Field,
    ) -> Result<Self> {
        check_extensions(left_field, "left", right_field, "right")?;
        let common =
            common_type(left_field.data_type(), right_field.data_type()).ok_or_else(|| {
                Error::schema(format!(
                    "keys of these types cannot be compared: left `{}` is {}, right `{}` is {}; {}",
                    left_field.name(),
                    TypeName(left_field.data_type()),
                    right_field.name(),
                    TypeName(right_field.data_type()),
                    mend(left_field.data_type(), right_field.data_type())
                ))
            })?;
        Ok(KeyColumn { left, right, common })
    }

    /// Returns a column by which the rows of one table are grouped.
    pub(crate) fn of_group(at: usize, schema: &Schema) -> Result<Self> {
        let field = schema.field(at);
        KeyColumn::new(at, field, at, field).map_err(|_| {
            Error::schema(format!(
                "by: column `{}` is {}, which cannot be a key; {}",
                field.name(),
                TypeName(field.data_type()),
                mend_one(field.data_type())
            ))
        })
    }

    /// Returns the type to which the values of both sides are converted for comparison.
    pub(crate) fn common_type(&self) -> &DataType {
        &self.common
    }

    /// Returns a type that can hold the values of both sides.
    pub(crate) fn holding_type(&self, left: &Field, right: &Field) -> DataType {
        let types = [left, right].map(Field::data_type);
        if types[0] == types[1] {
            return types[0].clone();
        }
        beyond_64_bits(&types).unwrap_or_else(|| self.common.clone())
    }
}

/// Returns advice on how to convert keys that cannot be compared.
fn mend(left: &DataType, right: &DataType) -> String {
    let is_key = |given: &DataType| common_type(given, given).is_some();
    let is_castable = |given: &DataType| given.is_integer() || given.is_string();
    match (is_span(left), is_span(right)) {
        (true, true) => "cast both to integers or to strings".to_owned(),
        (true, false) if is_castable(right) => format!("cast the left one to {}", TypeName(right)),
        (false, true) if is_castable(left) => format!("cast the right one to {}", TypeName(left)),
        _ if is_key(left) && is_key(right) => "cast one of them".to_owned(),
        _ => KEY_TYPES.to_owned(),
    }
}

/// Returns advice on how to turn a column that cannot be used as a key into one that can.
fn mend_one(given: &DataType) -> &'static str {
    if is_span(given) { "cast it to integers or to strings" } else { KEY_TYPES }
}

/// Returns whether the values are durations or times of day, which cannot be keys.
fn is_span(given: &DataType) -> bool {
    matches!(given, DataType::Duration(_) | DataType::Time32(_) | DataType::Time64(_))
}

/// Numbers the keys of both sides.
pub(crate) fn encode(
    left: &Table,
    right: &Table,
    columns: &[KeyColumn],
    driver: &Driver,
) -> Result<Keys> {
    if let [column] = columns {
        if is_word(&column.common) {
            let left = words(left, column.left, &column.common, driver)?;
            let right = words(right, column.right, &column.common, driver)?;
            return match span(&right, driver)? {
                Some(span) if span.is_direct(left.rows() + right.rows()) => {
                    direct(&left, &right, span, driver)
                }
                _ => number::<IntegerTable, _>(&left, &right, "hashed integers", driver),
            };
        }
        if is_bytes(&column.common) {
            let left = ByteColumn::new(left, column.left);
            let right = ByteColumn::new(right, column.right);
            return number::<ByteTable, _>(&left, &right, "hashed byte strings", driver);
        }
    }
    let left =
        RowColumns::new(left, columns.iter().map(|column| (column.left, &column.common)).collect());
    let right = RowColumns::new(
        right,
        columns.iter().map(|column| (column.right, &column.common)).collect(),
    );
    number::<ByteTable, _>(&left, &right, "hashed rows of several columns", driver)
}

/// Numbers the keys of one table, for grouping its rows. With several columns, a null is a value
/// like any other. In a single column, a null gets [`NO_KEY`](tidegate_operators::rows::NO_KEY).
pub(crate) fn encode_groups(table: &Table, columns: &[KeyColumn], driver: &Driver) -> Result<Keys> {
    let nothing = Table::from(&**table.schema());
    if let [_] = columns {
        return encode(&nothing, table, columns, driver);
    }
    let rows = |table| {
        let columns = columns.iter().map(|column| (column.right, &column.common)).collect();
        RowColumns::new(table, columns).with_nulls()
    };
    number::<ByteTable, _>(&rows(&nothing), &rows(table), "hashed rows of several columns", driver)
}

/// The keys of one side, for a caller that numbers the keys itself.
pub(crate) enum SideKeys<'a> {
    Words(WordColumn),
    Bytes(ByteColumn),
    Rows(RowColumns<'a>),
}

impl<'a> SideKeys<'a> {
    /// Returns whether the keys in these columns are 64-bit words. Otherwise, they are byte
    /// strings.
    pub(crate) fn are_words(columns: &[KeyColumn]) -> bool {
        matches!(columns, [column] if is_word(&column.common))
    }

    /// Returns the keys in the given columns of a table. The keys are compared as values of these
    /// types.
    pub(crate) fn new(table: &'a Table, columns: &[(usize, &'a DataType)]) -> Result<Self> {
        Ok(match columns {
            [(column, common)] if is_word(common) => {
                SideKeys::Words(words(table, *column, common, &Driver::new(1, Stop::default()))?)
            }
            [(column, common)] if is_bytes(common) => {
                SideKeys::Bytes(ByteColumn::new(table, *column))
            }
            columns => SideKeys::Rows(RowColumns::new(table, columns.to_vec())),
        })
    }

    /// Returns the same keys, but treats a null among several columns as a value like any other.
    pub(crate) fn with_nulls(self) -> Self {
        match self {
            SideKeys::Rows(keys) => SideKeys::Rows(keys.with_nulls()),
            one_column => one_column,
        }
    }

    /// Calls `each` with every key in row order, and with `None` for keys that contain a null.
    pub(crate) fn for_each_word(&self, mut each: impl FnMut(Option<i64>)) -> Result<()> {
        match self {
            SideKeys::Words(keys) => keys.for_each(0..keys.rows(), |key| each(key.copied())),
            _ => Err(Error::bug("these keys are not words")),
        }
    }

    /// Like [`for_each_word`](Self::for_each_word), but reads keys that are byte strings.
    pub(crate) fn for_each_bytes(&self, each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        match self {
            SideKeys::Bytes(keys) => keys.for_each(0..keys.rows(), each),
            SideKeys::Rows(keys) => keys.for_each(0..keys.rows(), each),
            SideKeys::Words(_) => Err(Error::bug("these keys are words")),
        }
    }
}
