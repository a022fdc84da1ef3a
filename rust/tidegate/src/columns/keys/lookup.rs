//! A side's numbered keys, among which other tables' keys can be looked up.

use arrow_schema::DataType;
use tidegate_operators::driver::Driver;
use tidegate_structures::memory::pages::Pages;

use super::bytes::{ByteColumn, RowColumns};
use super::numbering::{ByteTable, IntegerTable, KeyTable, look_up, number_side};
use super::types::{common_type, is_bytes, is_word};
use super::words::{KeySpan, direct_numbers, span, words};
use super::{KeyColumn, mend_one};
use crate::columns::table::Table;
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// A side's distinct keys and their numbers.
#[derive(Debug)]
pub(crate) struct KeyLookup {
    /// The side's key columns, with the types in which their values are compared.
    columns: Vec<(usize, DataType)>,
    numbers: NumberTable,
}

/// The key numbers, in a form that depends on the keys' type.
#[derive(Debug)]
enum NumberTable {
    /// Each number is the key's distance from the smallest key.
    Direct(KeySpan),
    Integers(IntegerTable),
    Bytes(ByteTable),
    Rows(ByteTable),
}

impl KeyLookup {
    /// Numbers the keys in some columns of a table. Also returns the number of each row's key.
    pub(crate) fn new(
        table: &Table,
        columns: &[usize],
        driver: &Driver,
    ) -> Result<(Self, Pages<u32>)> {
        Self::numbered(table, columns, true, driver)
    }

    /// Returns the lookup of a table's keys, given a table of the distinct keys in the order of
    /// their numbers. `columns` are the columns of the first table.
    pub(crate) fn of_keys(keys: &Table, columns: &[usize], driver: &Driver) -> Result<Self> {
        let all: Vec<usize> = (0..keys.schema().fields().len()).collect();
        let (mut lookup, _) = Self::numbered(keys, &all, false, driver)?;
        lookup.columns.iter_mut().zip(columns).for_each(|((at, _), &column)| *at = column);
        Ok(lookup)
    }

    /// Returns the lookup of a table's keys if they are numbered by their distance from the start
    /// of a span.
    pub(crate) fn of_span(table: &Table, columns: &[usize], ends: (i64, i64)) -> Result<Self> {
        let columns = key_types(table, columns)?;
        Ok(KeyLookup { columns, numbers: NumberTable::Direct(KeySpan::from(ends)) })
    }

    /// Returns the smallest and largest key if keys are numbered by their distance from the
    /// smallest one.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        match &self.numbers {
            NumberTable::Direct(span) => Some(span.ends()),
            _ => None,
        }
    }

    fn numbered(
        table: &Table,
        columns: &[usize],
        may_be_direct: bool,
        driver: &Driver,
    ) -> Result<(Self, Pages<u32>)> {
        let columns = key_types(table, columns)?;
        let (numbers, of_rows) = match &columns[..] {
            [(at, common)] if is_word(common) => {
                let column = words(table, *at, common, driver)?;
                match span(&column, driver)? {
                    Some(span) if may_be_direct && span.is_direct(table.rows()) => {
                        (NumberTable::Direct(span), direct_numbers(&column, span, driver)?)
                    }
                    _ => {
                        let (of_rows, table) = number_side(&column, driver)?;
                        (NumberTable::Integers(table), of_rows)
                    }
                }
            }
            [(at, common)] if is_bytes(common) => {
                let (of_rows, table) = number_side(&ByteColumn::new(table, *at), driver)?;
                (NumberTable::Bytes(table), of_rows)
            }
            columns => {
                let borrowed = columns.iter().map(|(at, common)| (*at, common)).collect();
                let (of_rows, table) = number_side(&RowColumns::new(table, borrowed), driver)?;
                (NumberTable::Rows(table), of_rows)
            }
        };
        Ok((KeyLookup { columns, numbers }, of_rows))
    }

    /// Returns one more than the largest number in use.
    pub(crate) fn count(&self) -> usize {
        match &self.numbers {
            NumberTable::Direct(span) => span.count(),
            NumberTable::Integers(table) => table.len(),
            NumberTable::Bytes(table) | NumberTable::Rows(table) => table.len(),
        }
    }

    /// Returns whether the left table's keys can be looked up. This requires the same key columns,
    /// compared in the types in which they are numbered.
    pub(crate) fn fits(&self, columns: &[KeyColumn]) -> bool {
        let same = |(column, (at, common)): (&KeyColumn, &(usize, DataType))| {
            column.right == *at && are_alike(&column.common, common)
        };
        columns.len() == self.columns.len() && columns.iter().zip(&self.columns).all(same)
    }

    /// Returns the numbers of the keys in the table whose keys have been numbered.
    pub(crate) fn own_numbers(&self, table: &Table, driver: &Driver) -> Result<Pages<u32>> {
        let columns = self.columns.iter().map(|(at, common)| KeyColumn {
            left: *at,
            right: *at,
            common: common.clone(),
        });
        self.left_numbers(table, &columns.collect::<Vec<_>>(), driver)
    }

    /// Returns the numbers of the left table's keys, which must [fit](Self::fits).
    pub(crate) fn left_numbers(
        &self,
        left: &Table,
        columns: &[KeyColumn],
        driver: &Driver,
    ) -> Result<Pages<u32>> {
        debug_assert!(self.fits(columns), "the same keys");
        let one = columns[0].left;
        match &self.numbers {
            NumberTable::Direct(span) => {
                let column = words(left, one, &self.columns[0].1, driver)?;
                direct_numbers(&column, *span, driver)
            }
            NumberTable::Integers(table) => {
                look_up(&words(left, one, &self.columns[0].1, driver)?, table, driver)
            }
            NumberTable::Bytes(table) => look_up(&ByteColumn::new(left, one), table, driver),
            NumberTable::Rows(table) => {
                let pairs = columns.iter().map(|column| (column.left, &column.common)).collect();
                look_up(&RowColumns::new(left, pairs), table, driver)
            }
        }
    }
}

/// Returns whether keys that are compared in these types have the same numbers. The layout of
/// strings and binary values does not matter.
fn are_alike(left: &DataType, right: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let are_text = |one: &DataType| matches!(one, Utf8 | LargeUtf8 | Utf8View);
    let are_binary = |one: &DataType| matches!(one, Binary | LargeBinary | BinaryView);
    let both = |is: &dyn Fn(&DataType) -> bool| is(left) && is(right);
    left == right || both(&are_text) || both(&are_binary)
}

/// Returns the types in which key columns are compared.
fn key_types(table: &Table, columns: &[usize]) -> Result<Vec<(usize, DataType)>> {
    let columns = columns.iter().map(|&at| {
        let field = table.schema().field(at);
        let common = common_type(field.data_type(), field.data_type()).ok_or_else(|| {
            Error::schema(format!(
                "{}: key column `{}` is {}; {}",
                table.name(),
                field.name(),
                TypeName(field.data_type()),
                mend_one(field.data_type())
            ))
        })?;
        Ok((at, common))
    });
    columns.collect()
}
