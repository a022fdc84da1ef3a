//! Converts keys to ranks: numbers in the order of the keys, with nulls last.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_ord::sort::sort_to_indices;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, SortOptions};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::NO_KEY;
use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;
use tidegate_structures::memory::partition::ranges;

use super::values::times_as;
use crate::Result;
use crate::columns::cast::cast;
use crate::columns::keys::{KeyColumn, canonical, encode_groups, split};
use crate::columns::table::Table;
use crate::query::aggregate::value_types::leaf;
use crate::results::gather::Column;

/// The minimum number of rows for which an additional thread is worthwhile.
const PART_ROWS: usize = 1 << 16;

/// Nulls come last.
const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

/// Groups rows by equal keys, treating null like any other key.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The rank of each row's key.
    pub(crate) numbers: Pages<u32>,
    /// One more than the largest rank. Some smaller ranks might not occur.
    pub(crate) count: usize,
    /// The key columns, with a value for each rank.
    pub(crate) columns: Vec<Column>,
}

/// The numbers that identify a table's keys, in any order.
struct GroupNumbers {
    numbers: Pages<u32>,
    /// One more than the largest number.
    count: usize,
    /// The smallest key, if a key's number is its distance from the smallest key.
    smallest: Option<i64>,
    /// The number of keys other than null.
    distinct: usize,
}

impl GroupNumbers {
    fn new(table: &Table, by: &[KeyColumn], driver: &Driver) -> Result<Self> {
        let keys = encode_groups(table, by, driver)?;
        let (mut numbers, distinct) = (keys.right, keys.count);
        let mut count = distinct;
        if has_nulls(table, by) && by.len() == 1 {
            rewrite(&mut numbers, driver, |key| if key == NO_KEY { count as u32 } else { key })?;
            count += 1;
        }
        Ok(GroupNumbers { numbers, count, smallest: keys.smallest, distinct })
    }
}

/// Returns a number for each row's key, and one more than the largest of these numbers. Rows have
/// equal numbers if their keys are equal. Null is a key like any other.
pub(crate) fn number_groups(
    table: &Table,
    by: &[KeyColumn],
    driver: &Driver,
) -> Result<(Pages<u32>, usize)> {
    let GroupNumbers { numbers, count, .. } = GroupNumbers::new(table, by, driver)?;
    Ok((numbers, count))
}

impl Groups {
    /// Ranks the keys of a table with at least one row.
    pub(crate) fn new(table: &Table, by: &[KeyColumn], driver: &Driver) -> Result<Self> {
        let GroupNumbers { mut numbers, count, smallest, distinct } =
            GroupNumbers::new(table, by, driver)?;
        if let (Some(smallest), [key]) = (smallest, by)
            && let Some(values) =
                values_from(smallest, distinct, count, table.schema().field(key.right).data_type())?
        {
            return Ok(Groups { numbers, count, columns: vec![values] });
        }
        let rows = first_rows(&numbers, count, driver)?;
        // A number that does not occur refers to the first row.
        let order = key_order(table, by, &rows)?;
        let mut rank = memory::filled(count, 0);
        order.iter().zip(0..).for_each(|(number, place)| rank[*number as usize] = place);
        rewrite(&mut numbers, driver, |key| rank[key as usize])?;
        let rows: Vec<u32> = order.iter().map(|number| rows[*number as usize]).collect();
        let column = |key: &KeyColumn| {
            let mut values = Column::new(table, key.right).gather(&rows)?;
            if leaf(values.data_type()).is_floating() {
                // The result must not show which of several equal keys came first.
                values = cast(&canonical_values(&values)?, values.data_type())?;
            }
            Ok(Column::of_chunks(values.data_type().clone(), vec![values]))
        };
        Ok(Groups { numbers, count, columns: by.iter().map(column).collect::<Result<_>>()? })
    }
}

/// Returns the key values in ascending order, followed by nulls if `count` is larger than the
/// number of distinct values. Returns `None` unless the type's values are ordered like the numbers
/// and each number has a value.
fn values_from(
    smallest: i64,
    distinct: usize,
    count: usize,
    data_type: &DataType,
) -> Result<Option<Column>> {
    use DataType::{
        Boolean, Date32, Date64, Int8, Int16, Int32, Int64, Timestamp, UInt8, UInt16, UInt32,
    };
    if !matches!(
        data_type,
        Int8 | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | Timestamp(..)
            | Date32
            | Date64
            | Boolean
    ) {
        return Ok(None);
    }
    let values = (smallest..=i64::MAX)
        .take(distinct)
        .map(Some)
        .chain(std::iter::repeat_n(None, count - distinct));
    let values: ArrayRef = Arc::new(Int64Array::from_iter(values));
    Ok(Some(Column::of_chunks(data_type.clone(), vec![times_as(values, data_type)?])))
}

fn has_nulls(table: &Table, by: &[KeyColumn]) -> bool {
    by.iter().any(|key| table.chunks(key.right).iter().any(|chunk| chunk.logical_null_count() > 0))
}

fn rewrite(numbers: &mut [u32], driver: &Driver, new: impl Fn(u32) -> u32 + Sync) -> Result<()> {
    let parts = ranges(numbers.len(), numbers.len().div_ceil(PART_ROWS));
    driver.map(split(numbers, &parts), |part| {
        part.iter_mut().for_each(|number| *number = new(*number))
    })?;
    Ok(())
}

/// For each number, returns the first row with that number. For a number that does not occur,
/// returns the first of all rows instead.
fn first_rows(numbers: &[u32], count: usize, driver: &Driver) -> Result<Vec<u32>> {
    const NONE: u32 = u32::MAX;
    let parts = ranges(numbers.len(), driver.parts(numbers.len(), PART_ROWS.max(count)));
    let found = driver.map(parts, |part| {
        let mut rows = memory::filled(count, NONE);
        for (row, &number) in part.clone().zip(&numbers[part]) {
            let first = &mut rows[number as usize];
            if *first == NONE {
                *first = row as u32;
            }
        }
        rows
    })?;
    let mut found = found.into_iter();
    let mut rows = found.next().expect("there is a part");
    for later in found {
        // A later part has larger row numbers. The largest number of all marks a missing row.
        rows.iter_mut().zip(later).for_each(|(row, later)| *row = later.min(*row));
    }
    rows.iter_mut().filter(|row| **row == NONE).for_each(|row| *row = 0);
    Ok(rows)
}

/// Returns the numbers sorted by key. For each number, `rows` contains one row with that number's
/// key.
fn key_order(table: &Table, by: &[KeyColumn], rows: &[u32]) -> Result<Vec<u32>> {
    let values = |key: &KeyColumn| comparable(&Column::new(table, key.right).gather(rows)?);
    let columns = by.iter().map(values).collect::<Result<Vec<_>>>()?;
    // A column that contains only nulls has no order. Sorting a single column does not support
    // this.
    if let [column] = &columns[..]
        && *column.data_type() != DataType::Null
    {
        return Ok(sort_to_indices(column, Some(ASCENDING), None)?.values().to_vec());
    }
    let fields = columns
        .iter()
        .map(|column| SortField::new_with_options(column.data_type().clone(), ASCENDING));
    let encoded = RowConverter::new(fields.collect())?.convert_columns(&columns)?;
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_unstable_by(|a, b| encoded.row(*a as usize).cmp(&encoded.row(*b as usize)));
    Ok(order)
}

/// Converts values to a form that is ordered like the keys.
fn comparable(values: &ArrayRef) -> Result<ArrayRef> {
    let plain = canonical_values(values)?;
    Ok(if plain.data_type().is_floating() { cast(&plain, &DataType::Float64)? } else { plain })
}

/// Returns the values, with dictionaries decoded. Floats have a single NaN and a single zero.
pub(crate) fn canonical_values(values: &ArrayRef) -> Result<ArrayRef> {
    let plain = cast(values, leaf(values.data_type()))?;
    if !plain.data_type().is_floating() {
        return Ok(plain);
    }
    let floats = cast(&plain, &DataType::Float64)?;
    let floats: ArrayRef =
        Arc::new(floats.as_primitive::<Float64Type>().unary::<_, Float64Type>(canonical));
    Ok(cast(&floats, plain.data_type())?)
}
