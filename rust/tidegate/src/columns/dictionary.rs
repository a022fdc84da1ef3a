//! Concatenates arrays or interleaves their rows when some of the arrays have dictionaries.
//!
//! `arrow-select` either concatenates dictionaries or merges them with a lossy hash table, which
//! may store a value more than once. Indices of 8 or 16 bits may then be too narrow even though
//! they could represent all distinct values. For example, concatenating a dictionary of a hundred
//! strings three times fails, and panics if the strings are string views. Here, such arrays are
//! first given a common dictionary that contains each value used by the rows exactly once.
//!
//! A dictionary column gets a single dictionary even if the indices have room for more values,
//! because pandas rejects dictionaries with duplicate values. Equal dictionaries are combined into
//! one, and different ones are merged into a dictionary that contains all their values in order.
//! For dictionaries within lists and structs, `arrow-select` is used if there is room for their
//! concatenation.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt32Array,
    make_array,
};
use arrow_buffer::ArrowNativeType;
use arrow_data::ArrayData;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::take::take;

use crate::{Error, Result};

/// A result whose error type is [`ArrowError`].
pub(super) type ArrowResult<T> = std::result::Result<T, ArrowError>;

/// Calls a function with the type of a dictionary's indices.
macro_rules! by_indices {
    ($indices:expr, $make:ident($($values:expr),+)) => {
        match $indices {
            DataType::Int8 => $make::<Int8Type>($($values),+),
            DataType::Int16 => $make::<Int16Type>($($values),+),
            DataType::Int32 => $make::<Int32Type>($($values),+),
            DataType::Int64 => $make::<Int64Type>($($values),+),
            DataType::UInt8 => $make::<UInt8Type>($($values),+),
            DataType::UInt16 => $make::<UInt16Type>($($values),+),
            DataType::UInt32 => $make::<UInt32Type>($($values),+),
            _ => $make::<UInt64Type>($($values),+),
        }
    };
}

/// Concatenates arrays of one type.
pub(crate) fn concat(arrays: &[&dyn Array]) -> ArrowResult<ArrayRef> {
    let shared = shared(arrays, usize::MAX)?;
    let arrays = &shared.as_deref().map_or_else(|| arrays.to_vec(), borrowed);
    let unified = unified(arrays)?;
    let arrays = &unified.as_deref().map_or_else(|| arrays.clone(), borrowed);
    of_one(arrays, &|arrays| arrow_select::concat::concat(arrays))
}

/// Returns the values at `places`. Each entry of `places` consists of an array number and a row
/// number in that array.
pub(crate) fn interleave(
    arrays: &[&dyn Array],
    places: &[(usize, usize)],
) -> ArrowResult<ArrayRef> {
    let shared = shared(arrays, places.len())?;
    let arrays = &shared.as_deref().map_or_else(|| arrays.to_vec(), borrowed);
    if !is_tight(arrays) {
        return of_one(arrays, &|arrays| arrow_select::interleave::interleave(arrays, places));
    }
    // Room is needed only for the values of these rows.
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); arrays.len()];
    let place = |&(array, row): &(usize, usize)| {
        rows[array].push(row as u32);
        (array, rows[array].len() - 1)
    };
    let places: Vec<(usize, usize)> = places.iter().map(place).collect();
    let taken =
        |(array, rows): (&&dyn Array, Vec<u32>)| take(*array, &UInt32Array::from(rows), None);
    let taken = arrays.iter().zip(rows).map(taken).collect::<ArrowResult<Vec<ArrayRef>>>()?;
    let taken = unified(&borrowed(&taken))?.unwrap_or(taken);
    let interleave = |arrays: &[&dyn Array]| arrow_select::interleave::interleave(arrays, &places);
    of_one(&borrowed(&taken), &interleave)
}

/// Concatenates batches with the same schema.
pub(crate) fn concat_batches<'a>(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
) -> Result<RecordBatch> {
    let batches: Vec<&RecordBatch> = batches.into_iter().collect();
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(schema.clone()));
    }
    let rows = batches.iter().map(|batch| batch.num_rows()).sum();
    by_column(schema, &batches, rows, concat)
}

/// Returns the rows at the given positions. Each position consists of a batch's number and a row in
/// that batch. All batches have the same schema.
pub(crate) fn interleave_batches(
    batches: &[&RecordBatch],
    places: &[(usize, usize)],
) -> Result<RecordBatch> {
    let schema = batches[0].schema();
    by_column(&schema, batches, places.len(), |arrays| interleave(arrays, places))
}

fn by_column(
    schema: &SchemaRef,
    batches: &[&RecordBatch],
    rows: usize,
    make: impl Fn(&[&dyn Array]) -> ArrowResult<ArrayRef>,
) -> Result<RecordBatch> {
    let column = |at: usize| {
        let arrays: Vec<&dyn Array> = batches.iter().map(|batch| &**batch.column(at)).collect();
        make(&arrays).map_err(|error| of_column(schema.field(at).name(), error))
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// Converts an error in a column. The new error names the column if its dictionaries were the
/// cause.
pub(crate) fn of_column(name: &str, error: ArrowError) -> Error {
    match error {
        ArrowError::DictionaryKeyOverflowError => {
            Error::from(error).within(&format!("column `{name}`"))
        }
        error => error.into(),
    }
}

/// Returns the values as a dictionary with the given index type. The dictionary contains each value
/// only once.
pub(crate) fn encoded(indices: &DataType, values: &ArrayRef) -> ArrowResult<ArrayRef> {
    fn each_its_own<K: ArrowDictionaryKeyType>(values: &ArrayRef) -> ArrowResult<ArrayRef> {
        let nulls = values.logical_nulls();
        let is_there = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let rows = (0..values.len()).filter(|&row| is_there(row));
        let rows = UInt32Array::from_iter_values(rows.map(|row| row as u32));
        let present = take(values, &rows, None)?;
        let mut numbers = ValueNumbers::<K>::new(values.data_type())?;
        let mut numbered = numbers.of(&present, 0)?.into_iter();
        let keys = (0..values.len()).map(|row| if is_there(row) { numbered.next() } else { None });
        let keys = keys.collect::<PrimitiveArray<K>>();
        Ok(Arc::new(DictionaryArray::try_new(keys, numbers.values(&[&present])?)?))
    }
    by_indices!(indices, each_its_own(values))
}

/// Returns the same values with one shared dictionary that contains all values from the original
/// dictionaries. Returns `None` if the arrays already share a dictionary, if their dictionaries
/// have more than `most` values in total, or if one dictionary cannot hold all values.
fn shared(arrays: &[&dyn Array], most: usize) -> ArrowResult<Option<Vec<ArrayRef>>> {
    let Some(DataType::Dictionary(indices, _)) = arrays.first().map(|array| array.data_type())
    else {
        return Ok(None);
    };
    if is_one(arrays) {
        return Ok(None);
    }
    let dictionaries = || arrays.iter().map(|array| array.as_any_dictionary().values());
    // An empty dictionary, such as that of an all-null array, is contained in every other
    // dictionary.
    let Some(longest) = dictionaries().max_by_key(|values| values.len()) else { return Ok(None) };
    if dictionaries().all(|values| values.is_empty() || values == longest) {
        let with_it = |array: &&dyn Array| array.as_any_dictionary().with_values(longest.clone());
        return Ok(Some(arrays.iter().map(with_it).collect()));
    }
    if dictionaries().map(|values| values.len()).sum::<usize>() > most {
        return Ok(None);
    }
    match by_indices!(&**indices, of_all_values(arrays)) {
        Err(ArrowError::DictionaryKeyOverflowError) => Ok(None),
        made => made.map(Some),
    }
}

/// Returns the dictionary arrays with a single dictionary that contains all their values.
fn of_all_values<K: ArrowDictionaryKeyType>(arrays: &[&dyn Array]) -> ArrowResult<Vec<ArrayRef>> {
    let arrays: Vec<_> = arrays.iter().map(|array| array.as_dictionary::<K>()).collect();
    let mut numbers = ValueNumbers::<K>::new(arrays[0].values().data_type())?;
    let number = |(at, array): (usize, &&DictionaryArray<K>)| numbers.of(array.values(), at);
    let number_of = arrays.iter().enumerate().map(number).collect::<ArrowResult<Vec<_>>>()?;
    let values = numbers.values(&arrays.iter().map(|array| array.values()).collect::<Vec<_>>())?;
    let array = |(array, number_of): (&&DictionaryArray<K>, &Vec<K::Native>)| {
        let keys = array.keys().iter().map(|key| key.map(|key| number_of[key.as_usize()]));
        let keys = keys.collect::<PrimitiveArray<K>>();
        Ok(Arc::new(DictionaryArray::try_new(keys, values.clone())?) as ArrayRef)
    };
    arrays.iter().zip(&number_of).map(array).collect()
}

/// Combines several arrays into one by calling `make`. For dictionary arrays that share a
/// dictionary, only the indices are combined.
fn of_one(
    arrays: &[&dyn Array],
    make: &dyn Fn(&[&dyn Array]) -> ArrowResult<ArrayRef>,
) -> ArrowResult<ArrayRef> {
    match arrays.first().map(|array| array.data_type()) {
        Some(DataType::Dictionary(indices, _)) if is_one(arrays) => {
            by_indices!(&**indices, of_keys(arrays, make))
        }
        _ => make(arrays),
    }
}

/// Combines the indices of arrays that share a dictionary. `arrow-select` would concatenate the
/// dictionary with itself.
fn of_keys<K: ArrowDictionaryKeyType>(
    arrays: &[&dyn Array],
    make: &dyn Fn(&[&dyn Array]) -> ArrowResult<ArrayRef>,
) -> ArrowResult<ArrayRef> {
    let first = arrays[0].as_dictionary::<K>();
    let keys = |array: &&'_ dyn Array| array.as_dictionary::<K>().keys().clone();
    let keys: Vec<PrimitiveArray<K>> = arrays.iter().map(keys).collect();
    let keys = make(&keys.iter().map(|keys| keys as &dyn Array).collect::<Vec<_>>())?;
    let keys = keys.as_primitive::<K>().clone();
    Ok(Arc::new(DictionaryArray::try_new(keys, first.values().clone())?))
}

/// Returns whether all arrays share one dictionary.
fn is_one(arrays: &[&dyn Array]) -> bool {
    let dictionary = |array: &&dyn Array| array.to_data().child_data()[0].clone();
    arrays.windows(2).all(|two| dictionary(&two[0]).ptr_eq(&dictionary(&two[1])))
}

/// Returns whether the arrays need a common dictionary before they can be combined.
fn is_tight(arrays: &[&dyn Array]) -> bool {
    match arrays.first().map(|array| array.data_type()) {
        Some(DataType::Dictionary(..)) => !is_one(arrays),
        Some(data_type) => has_dictionary(data_type) && is_beyond(&all_data(arrays)),
        None => false,
    }
}

/// Returns the same values with a common dictionary that contains only the values used by the rows.
/// Returns `None` if the arrays do not need a common dictionary.
fn unified(arrays: &[&dyn Array]) -> ArrowResult<Option<Vec<ArrayRef>>> {
    if !is_tight(arrays) {
        return Ok(None);
    }
    Ok(Some(with_one(all_data(arrays))?.into_iter().map(make_array).collect()))
}

fn borrowed(arrays: &[ArrayRef]) -> Vec<&dyn Array> {
    arrays.iter().map(|array| &**array).collect()
}

fn all_data(arrays: &[&dyn Array]) -> Vec<ArrayData> {
    arrays.iter().map(|array| array.to_data()).collect()
}

fn has_dictionary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => has_dictionary(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        DataType::Union(fields, _) => {
            fields.iter().any(|(_, field)| has_dictionary(field.data_type()))
        }
        _ => false,
    }
}

/// Returns whether the dictionaries of the arrays or of their child arrays have too many values in
/// total.
fn is_beyond(arrays: &[ArrayData]) -> bool {
    let all = || arrays.iter().map(|array| array.child_data()[0].len()).sum::<usize>();
    let beyond = match arrays[0].data_type() {
        DataType::Dictionary(indices, _) => all() > most(indices),
        _ => false,
    };
    beyond || (0..arrays[0].child_data().len()).any(|at| is_beyond(&children(arrays, at)))
}

/// Returns whether a single dictionary has room for the values of all the arrays' dictionaries. The
/// dictionaries of child arrays must also have room. All arrays have the same type.
pub(crate) fn have_room(arrays: &[ArrayData]) -> bool {
    fn are_numbered<K: ArrowDictionaryKeyType>(arrays: &[ArrayData]) -> bool {
        let mut values: Vec<&ArrayData> =
            arrays.iter().map(|array| &array.child_data()[0]).collect();
        values.dedup_by(|one, other| one.ptr_eq(other));
        let mut numbers = ValueNumbers::<K>::new(values[0].data_type());
        let number = |values: &ArrayData| match &mut numbers {
            Ok(numbers) => numbers.of(&make_array(values.clone()), 0).is_ok(),
            Err(_) => false,
        };
        values.into_iter().all(number)
    }
    let Some(first) = arrays.first() else { return true };
    let has_own = match first.data_type() {
        DataType::Dictionary(indices, _) if is_beyond(arrays) => {
            by_indices!(&**indices, are_numbered(arrays))
        }
        _ => true,
    };
    has_own && (0..first.child_data().len()).all(|at| have_room(&children(arrays, at)))
}

/// Returns the largest index of an index type.
fn most(indices: &DataType) -> usize {
    match indices {
        DataType::Int8 => i8::MAX as usize,
        DataType::UInt8 => u8::MAX.into(),
        DataType::Int16 => i16::MAX as usize,
        DataType::UInt16 => u16::MAX.into(),
        DataType::Int32 => i32::MAX as usize,
        DataType::UInt32 => u32::MAX as usize,
        _ => usize::MAX,
    }
}

fn children(arrays: &[ArrayData], at: usize) -> Vec<ArrayData> {
    arrays.iter().map(|array| array.child_data()[at].clone()).collect()
}

/// Returns the arrays with one shared dictionary at each level of their type.
fn with_one(arrays: Vec<ArrayData>) -> ArrowResult<Vec<ArrayData>> {
    let mut made: Vec<Vec<ArrayData>> = vec![Vec::new(); arrays.len()];
    for at in 0..arrays[0].child_data().len() {
        let of_child = with_one(children(&arrays, at))?;
        made.iter_mut().zip(of_child).for_each(|(made, child)| made.push(child));
    }
    let rebuilt = arrays.into_iter().zip(made).map(|(array, children)| match children.is_empty() {
        true => Ok(array),
        false => array.into_builder().child_data(children).build(),
    });
    let arrays = rebuilt.collect::<ArrowResult<Vec<ArrayData>>>()?;
    match arrays[0].data_type() {
        DataType::Dictionary(indices, _) => by_indices!(&**indices, one_dictionary(arrays)),
        _ => Ok(arrays),
    }
}

/// Returns the dictionary arrays with a single dictionary that contains the values used by their
/// rows.
fn one_dictionary<K: ArrowDictionaryKeyType>(
    arrays: Vec<ArrayData>,
) -> ArrowResult<Vec<ArrayData>> {
    let arrays: Vec<ArrayRef> = arrays.into_iter().map(make_array).collect();
    let arrays: Vec<&DictionaryArray<K>> =
        arrays.iter().map(|array| array.as_dictionary::<K>()).collect();
    let mut numbers = ValueNumbers::<K>::new(arrays[0].values().data_type())?;
    let mut of_values = Vec::with_capacity(arrays.len());
    let mut used_values = Vec::with_capacity(arrays.len());
    for (at, array) in arrays.iter().enumerate() {
        let mut is_used = vec![false; array.values().len()];
        array.keys().iter().flatten().for_each(|key| is_used[key.as_usize()] = true);
        let used = UInt32Array::from_iter_values(
            (0..).zip(&is_used).filter_map(|(value, &is_used)| is_used.then_some(value)),
        );
        let values = take(array.values(), &used, None)?;
        let numbered = numbers.of(&values, at)?;
        let mut number_of = vec![K::default_value(); is_used.len()];
        used.values().iter().zip(numbered).for_each(|(&value, number)| {
            number_of[value as usize] = number;
        });
        of_values.push(number_of);
        used_values.push(values);
    }
    let values = numbers.values(&used_values.iter().collect::<Vec<_>>())?;
    let array = |(array, number_of): (&&DictionaryArray<K>, Vec<K::Native>)| {
        let keys = array.keys().iter().map(|key| key.map(|key| number_of[key.as_usize()]));
        let keys = keys.collect::<PrimitiveArray<K>>();
        Ok(DictionaryArray::try_new(keys, values.clone())?.into_data())
    };
    arrays.iter().zip(of_values).map(array).collect()
}

/// Returns the dictionary with another index type, reduced to the values used by its rows.
pub(crate) fn compacted<K: ArrowDictionaryKeyType>(
    array: &DictionaryArray<Int32Type>,
) -> ArrowResult<ArrayData> {
    let mut is_used = vec![false; array.values().len()];
    array.keys().iter().flatten().for_each(|key| is_used[key.as_usize()] = true);
    let used = UInt32Array::from_iter_values(
        (0..).zip(&is_used).filter_map(|(value, &is_used)| is_used.then_some(value)),
    );
    let values = take(array.values(), &used, None)?;
    let mut numbers = ValueNumbers::<K>::new(values.data_type())?;
    let mut number_of = vec![K::default_value(); is_used.len()];
    let numbered = numbers.of(&values, 0)?;
    used.values().iter().zip(numbered).for_each(|(&value, number)| {
        number_of[value as usize] = number;
    });
    let keys = array.keys().iter().map(|key| key.map(|key| number_of[key.as_usize()]));
    let keys = keys.collect::<PrimitiveArray<K>>();
    Ok(DictionaryArray::try_new(keys, numbers.values(&[&values])?)?.into_data())
}

/// The number that is assigned to each value. Numbers start from 0.
struct ValueNumbers<K: ArrowDictionaryKeyType> {
    /// `None` if values of this type cannot be compared.
    converter: Option<RowConverter>,
    numbers: HashMap<Box<[u8]>, K::Native>,
    /// The position at which each value first occurs: an array number and a row number in that
    /// array.
    places: Vec<(usize, usize)>,
}

impl<K: ArrowDictionaryKeyType> ValueNumbers<K> {
    fn new(data_type: &DataType) -> ArrowResult<Self> {
        let fields = vec![SortField::new(data_type.clone())];
        let converter = match RowConverter::supports_fields(&fields) {
            true => Some(RowConverter::new(fields)?),
            false => None,
        };
        Ok(ValueNumbers { converter, numbers: HashMap::new(), places: Vec::new() })
    }

    /// Returns the numbers of the values in the array at position `at`.
    fn of(&mut self, values: &ArrayRef, at: usize) -> ArrowResult<Vec<K::Native>> {
        let places = &mut self.places;
        let mut next = |row: usize| {
            let number = K::Native::from_usize(places.len());
            places.push((at, row));
            number.ok_or(ArrowError::DictionaryKeyOverflowError)
        };
        let Some(converter) = &self.converter else {
            return (0..values.len()).map(next).collect();
        };
        let encoded = converter.convert_columns(std::slice::from_ref(values))?;
        let mut number = |(row, bytes): (usize, &[u8])| {
            if let Some(&number) = self.numbers.get(bytes) {
                return Ok(number);
            }
            let number = next(row)?;
            self.numbers.insert(bytes.into(), number);
            Ok(number)
        };
        encoded.iter().map(|row| row.data()).enumerate().map(&mut number).collect()
    }

    /// Returns the values in order of their numbers. `arrays` contains the arrays that were
    /// numbered.
    fn values(&self, arrays: &[&ArrayRef]) -> ArrowResult<ArrayRef> {
        let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &***array).collect();
        arrow_select::interleave::interleave(&arrays, &self.places)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Decimal128Array, StringArray, StructArray};
    use arrow_schema::Field;

    use super::*;
    use crate::columns::cast::cast;

    /// Returns a dictionary with 8-bit indices that contains each value once.
    fn bytes(values: ArrayRef) -> ArrayRef {
        let keys = PrimitiveArray::<Int8Type>::from_iter_values(0..values.len() as i8);
        Arc::new(DictionaryArray::try_new(keys, values).unwrap())
    }

    fn texts(from: usize) -> ArrayRef {
        Arc::new((from..from + 100).map(|at| Some(format!("v{at}"))).collect::<StringArray>())
    }

    #[test]
    fn dictionaries_that_repeat_values_have_room() {
        let decimals: ArrayRef = Arc::new(Decimal128Array::from_iter_values(0..100));
        for values in [texts(0), cast(&texts(0), &DataType::Utf8View).unwrap(), decimals] {
            let parts = [bytes(values.clone()), bytes(values.clone()), bytes(values.clone())];
            let three = borrowed(&parts);
            let plain = arrow_select::concat::concat(&[&*values, &*values, &*values]).unwrap();
            let found = concat(&three).unwrap();
            assert_eq!(*cast(&found, values.data_type()).unwrap(), *plain);
            let places: Vec<_> = (0..300).map(|at| (at % 3, at / 3)).collect();
            let found = interleave(&three, &places).unwrap();
            let expected = arrow_select::interleave::interleave(&[&*values; 3], &places).unwrap();
            assert_eq!(*cast(&found, values.data_type()).unwrap(), *expected);
        }
    }

    #[test]
    fn only_values_of_the_rows_need_room() {
        let parts = [bytes(texts(0)), bytes(texts(100)), bytes(texts(200))];
        let all = borrowed(&parts);
        assert!(matches!(concat(&all), Err(ArrowError::DictionaryKeyOverflowError)));
        let found = interleave(&all, &[(2, 99), (0, 0), (1, 5)]).unwrap();
        let expected = StringArray::from(vec!["v299", "v0", "v105"]);
        assert_eq!(*cast(&found, &DataType::Utf8).unwrap(), expected);
    }

    #[test]
    fn dictionaries_in_structs_have_room() {
        let part = |from: usize| -> ArrayRef {
            let field = Field::new("a", bytes(texts(0)).data_type().clone(), true);
            let array = bytes(texts(from));
            Arc::new(StructArray::new(vec![field].into(), vec![array], None))
        };
        let parts = [part(0), part(0), part(0)];
        let found = concat(&borrowed(&parts)).unwrap();
        let found = found.as_struct().column(0).clone();
        let expected = arrow_select::concat::concat(&[&*texts(0); 3]).unwrap();
        assert_eq!(*cast(&found, &DataType::Utf8).unwrap(), *expected);
        let different = [part(0), part(100), part(200)];
        let found = concat(&borrowed(&different));
        assert!(matches!(found, Err(ArrowError::DictionaryKeyOverflowError)));
    }

    #[test]
    fn dictionaries_become_one_that_has_each_value_once() {
        let of = |values: &[&str]| bytes(Arc::new(StringArray::from(values.to_vec())));
        let values = |array: &ArrayRef| array.as_any_dictionary().values().clone();
        let (first, same, other) =
            (of(&["b", "a", "unused"]), of(&["b", "a", "unused"]), of(&["c", "a"]));
        let places = [(1, 1), (0, 0), (1, 0), (0, 1), (1, 1), (0, 0)];
        for found in [
            concat(&[&*first, &*same]).unwrap(),
            interleave(&[&*first, &*same], &places).unwrap(),
            interleave(
                &[&*first, &*same, &*arrow_array::new_null_array(first.data_type(), 1)],
                &places,
            )
            .unwrap(),
        ] {
            assert_eq!(*values(&found), *values(&first));
        }
        for found in [
            concat(&[&*first, &*other]).unwrap(),
            interleave(&[&*first, &*other], &places).unwrap(),
        ] {
            assert_eq!(*values(&found), StringArray::from(vec!["b", "a", "unused", "c"]));
        }
        let found = interleave(&[&*first, &*other], &places).unwrap();
        let expected = StringArray::from(vec!["a", "b", "c", "a", "a", "b"]);
        assert_eq!(*cast(&found, &DataType::Utf8).unwrap(), expected);
        // If there are more values than rows, only the values that the rows use are kept.
        let found = interleave(&[&*first, &*other], &places[..2]).unwrap();
        assert_eq!(*cast(&found, &DataType::Utf8).unwrap(), StringArray::from(vec!["a", "b"]));
        assert_eq!(values(&found).len(), 2);
    }

    #[test]
    fn nulls_stay_nulls() {
        let with_null = |from: usize| -> ArrayRef {
            let keys = PrimitiveArray::<Int8Type>::from_iter(
                (0..100).map(|at| (at % 7 != 0).then_some(at)),
            );
            Arc::new(DictionaryArray::try_new(keys, texts(from)).unwrap())
        };
        let parts = [with_null(0), with_null(0), with_null(0)];
        let found = concat(&borrowed(&parts)).unwrap();
        let plain = cast(&with_null(0), &DataType::Utf8).unwrap();
        let expected = arrow_select::concat::concat(&[&*plain; 3]).unwrap();
        assert_eq!(*cast(&found, &DataType::Utf8).unwrap(), *expected);
    }
}
