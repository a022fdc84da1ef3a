//! Converts the values of functions to Arrow arrays.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, ListArray, PrimitiveArray, RecordBatch,
    UInt32Array, UInt64Array, new_null_array,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use arrow_select::take::take;
use bytemuck::{AnyBitPattern, NoUninit};
use bytes::Bytes;
use tidegate_operators::aggregate::{OutputColumn, OutputValues, float_of};
use tidegate_operators::rows::NO_ROW;
use tidegate_structures::memory::pages::Pages;

use super::groups::Groups;
use super::streams::Streams;
use crate::columns::cast::cast;
use crate::columns::type_name::TypeName;
use crate::query::aggregate::plan::{FunctionsPlan, Span};
use crate::query::aggregate::value_types::{leaf, list_item};
use crate::query::aggregate::{Function, Takes};
use crate::results::gather::Column;
use crate::{Error, Result};

/// The largest number with 38 decimal digits.
const MAX_DECIMAL: u128 = 10_u128.pow(38) - 1;

/// Builds arrays from the values of functions.
pub(crate) struct FunctionValues<'a> {
    pub(crate) functions: &'a FunctionsPlan,
    /// The value at each rank, for aggregates that compute ranks instead of values.
    pub(crate) ranked: Vec<Option<&'a Column>>,
    /// The columns of the rows, for aggregates that select rows.
    pub(crate) of_rows: Vec<Vec<Column>>,
}

impl<'a> FunctionValues<'a> {
    pub(crate) fn of_tables(
        functions: &'a FunctionsPlan,
        streams: &Streams,
        ranked: impl Fn(usize) -> Option<&'a Groups>,
    ) -> Self {
        let outputs = &functions.outputs;
        let of_rows = outputs.iter().map(|output| {
            let chosen = match &output.function {
                Function::Udf(_) => output.columns.clone(),
                _ => output.chosen().into_iter().collect(),
            };
            chosen.into_iter().map(|at| Column::new(&streams.table, at)).collect()
        });
        let ranked = |at: usize| ranked(at).map(|groups| &groups.columns[0]);
        FunctionValues {
            functions,
            ranked: (0..outputs.len()).map(ranked).collect(),
            of_rows: of_rows.collect(),
        }
    }

    /// Returns the results of the function at position `at`, as an array of the given type. `place`
    /// describes a row, for an error message. `spans` returns the time span of each row.
    pub(crate) fn column(
        &self,
        at: usize,
        column: OutputColumn,
        rows: usize,
        data_type: &DataType,
        place: &dyn Fn(usize) -> String,
        spans: &dyn Fn() -> Vec<Span>,
    ) -> Result<ArrayRef> {
        let missing = column.missing;
        let nulls = || nulls(rows, &missing);
        match column.values {
            OutputValues::Lists { ends, rows } => self.lists(at, &ends, &rows, &missing, data_type),
            OutputValues::Rows(mut numbers) => {
                let column =
                    self.of_rows[at].first().expect("the function has a column to choose from");
                if missing.is_empty() {
                    return Ok(column.gather(&numbers[..rows])?);
                }
                missing.iter().for_each(|row| numbers[*row] = NO_ROW);
                Ok(column.take(&numbers[..rows])?)
            }
            OutputValues::Integers(values) => match self.ranked[at] {
                Some(column) => {
                    // A missing value has rank 0, but the rank is hidden because the value is null.
                    let mut ranks: Vec<u32> =
                        values[..rows].iter().map(|rank| *rank as u32).collect();
                    missing.iter().for_each(|row| ranks[*row] = NO_ROW);
                    Ok(cast(&column.take(&ranks)?, data_type)?)
                }
                None => self.integers(at, values, rows, data_type, nulls()),
            },
            OutputValues::Held(values) => {
                let spans = spans();
                let means = values[..rows].iter().zip(&spans);
                let means =
                    Pages::collect(means.map(|(held, span)| held.mean(span.start, span.end)));
                Ok(primitive::<Float64Type>(means, rows, nulls()))
            }
            OutputValues::Wide(values) => self.wide(at, &values[..rows], data_type, nulls(), place),
            OutputValues::Floats(mut values) => {
                // Decimals were added up as whole numbers.
                if let (Takes::Sums, Some(scale)) =
                    (self.functions.outputs[at].function.takes(), self.scale(at))
                {
                    values.iter_mut().for_each(|value| *value /= 10_f64.powi(scale.into()));
                }
                Ok(primitive::<Float64Type>(values, rows, nulls()))
            }
        }
    }

    /// Returns lists of row values, or the results that a user-defined function returns for such
    /// lists.
    fn lists(
        &self,
        at: usize,
        ends: &[usize],
        rows: &[u32],
        missing: &[usize],
        data_type: &DataType,
    ) -> Result<ArrayRef> {
        let output = &self.functions.outputs[at];
        let lists = |column: &Column, read: usize, ends: &mut dyn Iterator<Item = usize>, nulls| {
            let values = column.gather(rows)?;
            let too_many = |_| {
                Error::data(format!(
                    "aggs: `{}`: the lists of a batch have more than 2^31 values; choose a shorter \
                     interval or window",
                    output.name
                ))
            };
            let ends = ends.map(|end| i32::try_from(end).map_err(too_many));
            let offsets = std::iter::once(Ok(0)).chain(ends).collect::<Result<Vec<i32>>>()?;
            let item = list_item(self.functions.read.field(read));
            let offsets = OffsetBuffer::new(offsets.into());
            Ok::<ArrayRef, Error>(Arc::new(ListArray::new(item, offsets, values, nulls)))
        };
        let Function::Udf(udf) = &output.function else {
            let [column] = &self.of_rows[at][..] else {
                unreachable!("a list has values of one column")
            };
            let nulls = nulls(ends.len(), missing);
            return lists(column, output.columns[0], &mut ends.iter().copied(), nulls);
        };
        // The function receives only lists that contain rows.
        let mut present = vec![true; ends.len()];
        missing.iter().for_each(|&row| present[row] = false);
        let filled = present.iter().filter(|&&is_present| is_present).count();
        if filled == 0 {
            return Ok(new_null_array(data_type, ends.len()));
        }
        let of_filled = || ends.iter().zip(&present).filter(|(_, present)| **present);
        let columns = self.of_rows[at].iter().zip(&output.columns).map(|(column, &read)| {
            let lists = lists(column, read, &mut of_filled().map(|(&end, _)| end), None)?;
            Ok((self.functions.read.field(read).name(), lists))
        });
        let columns: Vec<_> = columns.collect::<Result<_>>()?;
        let given = RecordBatch::try_from_iter(columns)?;
        let wrong = |what: String| Error::data(format!("aggs: `{}`: {what}", output.name));
        let found =
            (udf.call)(given).map_err(|error| error.within(&format!("aggs: `{}`", output.name)))?;
        if found.len() != filled {
            return Err(wrong(format!(
                "the function returned {} values for {filled} windows; return one for each list",
                found.len()
            )));
        }
        if found.data_type() != data_type {
            return Err(wrong(format!(
                "the function returned {}, but returns= specifies {}; give the type that it \
                 returns",
                TypeName(found.data_type()),
                TypeName(data_type)
            )));
        }
        if missing.is_empty() { Ok(found) } else { spread(&found, &present) }
    }

    /// Returns the scale of the decimals that an aggregate reads.
    fn scale(&self, at: usize) -> Option<i8> {
        match leaf(self.functions.read.field(self.functions.outputs[at].column()?).data_type()) {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => Some(*scale),
            _ => None,
        }
    }

    /// Converts counts, sums that are known to fit, and codes of values.
    fn integers(
        &self,
        at: usize,
        values: Pages<i64>,
        rows: usize,
        data_type: &DataType,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let is_code = self.functions.outputs[at].function.takes() == Takes::Order;
        match data_type {
            DataType::UInt64 => {
                let flip = if is_code { i64::MIN } else { 0 };
                let values = values[..rows].iter().map(|value| (value ^ flip).cast_unsigned());
                Ok(Arc::new(UInt64Array::new(values.collect(), nulls)))
            }
            other if other.is_floating() => {
                let values = values[..rows].iter().map(|code| float_of(*code));
                let floats: ArrayRef =
                    Arc::new(PrimitiveArray::<Float64Type>::new(values.collect(), nulls));
                Ok(cast(&floats, other)?)
            }
            DataType::Boolean => {
                let bits = values[..rows].iter().map(|value| *value != 0).collect();
                Ok(Arc::new(BooleanArray::new(bits, nulls)))
            }
            other => times_as(primitive::<Int64Type>(values, rows, nulls), other),
        }
    }

    /// Converts sums that may not fit the type of the result.
    fn wide(
        &self,
        at: usize,
        values: &[i128],
        data_type: &DataType,
        nulls: Option<NullBuffer>,
        place: &dyn Fn(usize) -> String,
    ) -> Result<ArrayRef> {
        let fits = |value: i128| match data_type {
            DataType::Int64 | DataType::Duration(_) => i64::try_from(value).is_ok(),
            DataType::UInt64 => u64::try_from(value).is_ok(),
            _ => value.unsigned_abs() <= MAX_DECIMAL,
        };
        let mut nulls = nulls;
        if let Some(row) = values.iter().position(|value| !fits(*value)) {
            let error = Error::data(format!(
                "aggs: `{}`: {} the sum {} does not fit {}; cast the column to {}",
                self.functions.outputs[at].name,
                place(row),
                values[row],
                TypeName(data_type),
                match data_type {
                    DataType::Duration(_) => "a coarser unit",
                    _ if self.scale(at).is_some() => "float64",
                    _ => "a decimal or to float64",
                }
            ));
            let Some(faults) = &self.functions.faults else { return Err(error) };
            faults.note(error);
            let fitting = NullBuffer::from_iter(values.iter().map(|value| fits(*value)));
            nulls = NullBuffer::union(nulls.as_ref(), Some(&fitting));
        }
        Ok(match data_type {
            DataType::Int64 => {
                let values = values.iter().map(|value| *value as i64).collect();
                Arc::new(PrimitiveArray::<Int64Type>::new(values, nulls))
            }
            DataType::Duration(_) => {
                let values = values.iter().map(|value| *value as i64).collect();
                let values: ArrayRef = Arc::new(PrimitiveArray::<Int64Type>::new(values, nulls));
                cast(&values, data_type)?
            }
            DataType::UInt64 => {
                let values = values.iter().map(|value| *value as u64).collect();
                Arc::new(UInt64Array::new(values, nulls))
            }
            other => {
                let values = values.iter().copied().collect();
                Arc::new(Decimal128Array::new(values, nulls).with_data_type(other.clone()))
            }
        })
    }
}

/// Returns a null buffer in which the missing rows are null.
fn nulls(rows: usize, missing: &[usize]) -> Option<NullBuffer> {
    if missing.is_empty() {
        return None;
    }
    let mut valid = BooleanBufferBuilder::new(rows);
    valid.append_n(rows, true);
    missing.iter().for_each(|row| valid.set_bit(*row, false));
    Some(NullBuffer::new(valid.finish()))
}

/// Converts integers to the type that they represent.
pub(crate) fn times_as(values: ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let narrow = match to {
        DataType::Date32 | DataType::Time32(_) => {
            cast(&values, &DataType::Int32).map_err(|error| {
                Error::data(format!(
                    "{error}, since the result is {}; cast the time column to timestamp[s]",
                    TypeName(to)
                ))
            })?
        }
        _ => values,
    };
    Ok(cast(&narrow, to)?)
}

/// Fills the positions marked as present with the values found, and all other positions with nulls.
fn spread(found: &ArrayRef, present: &[bool]) -> Result<ArrayRef> {
    let mut next = 0;
    let places = present.iter().map(|&is_present| {
        is_present.then(|| {
            next += 1;
            next - 1
        })
    });
    Ok(take(found, &places.collect::<UInt32Array>(), None)?)
}

/// Creates an array of the first `rows` values, without copying them.
pub(super) fn primitive<T: ArrowPrimitiveType>(
    values: Pages<T::Native>,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> ArrayRef
where
    T::Native: AnyBitPattern + NoUninit,
{
    let buffer = Buffer::from(Bytes::from_owner(ValueBytes(values)));
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(buffer, 0, rows), nulls))
}

/// Values as bytes.
struct ValueBytes<T>(Pages<T>);

impl<T: AnyBitPattern + NoUninit> AsRef<[u8]> for ValueBytes<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}
