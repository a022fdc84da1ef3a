//! Columns without dictionaries, at any depth: which codes values have is an accident of how rows
//! came.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, make_array};
use arrow_buffer::ArrowNativeType;
use arrow_cast::cast;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, UnionFields};
use arrow_select::take::take;

/// The type with each dictionary replaced by its values.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| {
        FieldRef::new(Field::clone(field).with_data_type(plain_type(field.data_type())))
    };
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::ListView(item) => DataType::ListView(field(item)),
        DataType::LargeListView(item) => DataType::LargeListView(field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(field(item), *size),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        DataType::RunEndEncoded(ends, values) => {
            DataType::RunEndEncoded(ends.clone(), field(values))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        DataType::Union(fields, mode) => {
            let fields: UnionFields = fields.iter().map(|(id, of_id)| (id, field(of_id))).collect();
            DataType::Union(fields, *mode)
        }
        other => other.clone(),
    }
}

/// The types of the children of an array.
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

/// The array with each dictionary replaced by its values.
pub(crate) fn to_plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let wanted = plain_type(array.data_type());
    if *array.data_type() == wanted {
        return Ok(array.clone());
    }
    match array.as_any_dictionary_opt() {
        Some(dictionary) => to_plain(&take(dictionary.values(), dictionary.keys(), None)?),
        None => with_children(array, &wanted, |child, _| to_plain(child)),
    }
}

/// The array with dictionaries where the type has some: the reverse of [`to_plain`].
pub(crate) fn from_plain(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == wanted {
        return Ok(array.clone());
    }
    match wanted {
        DataType::Dictionary(keys, values) => {
            let values = from_plain(array, values)?;
            // Values of some types cannot be told apart there; each row then has one of its own.
            cast(&values, wanted).or_else(|_| each_its_own(keys, values))
        }
        _ => with_children(array, wanted, from_plain),
    }
}

/// The array as of another type, each child made so.
fn with_children(
    array: &ArrayRef,
    wanted: &DataType,
    make: impl Fn(&ArrayRef, &DataType) -> Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let child = |(data, wanted): (&ArrayData, &DataType)| {
        Ok(make(&make_array(data.clone()), wanted)?.into_data())
    };
    let made = data
        .child_data()
        .iter()
        .zip(children(wanted))
        .map(child)
        .collect::<Result<_, ArrowError>>()?;
    data.into_builder().data_type(wanted.clone()).child_data(made).build().map(make_array)
}

fn each_its_own(keys: &DataType, values: ArrayRef) -> Result<ArrayRef, ArrowError> {
    match keys {
        DataType::Int8 => numbered::<Int8Type>(values),
        DataType::Int16 => numbered::<Int16Type>(values),
        DataType::Int32 => numbered::<Int32Type>(values),
        DataType::Int64 => numbered::<Int64Type>(values),
        DataType::UInt8 => numbered::<UInt8Type>(values),
        DataType::UInt16 => numbered::<UInt16Type>(values),
        DataType::UInt32 => numbered::<UInt32Type>(values),
        _ => numbered::<UInt64Type>(values),
    }
}

fn numbered<K: ArrowDictionaryKeyType>(values: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let key = |row: usize| K::Native::from_usize(row).ok_or(ArrowError::DictionaryKeyOverflowError);
    let keys = (0..values.len()).map(key).collect::<Result<Vec<_>, _>>()?;
    let keys = PrimitiveArray::<K>::new(keys.into(), values.logical_nulls());
    Ok(std::sync::Arc::new(DictionaryArray::try_new(keys, values)?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, ListArray, StringArray, StructArray};
    use arrow_buffer::OffsetBuffer;

    use super::*;

    fn words(dictionary: &[&str], codes: &[Option<i32>]) -> ArrayRef {
        let dictionary = Arc::new(StringArray::from(dictionary.to_vec()));
        Arc::new(DictionaryArray::new(Int32Array::from(codes.to_vec()), dictionary))
    }

    fn list_of_structs(words: ArrayRef) -> ArrayRef {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..words.len() as i32));
        let fields = [("w", &words), ("n", &numbers)];
        let fields =
            fields.map(|(name, array)| Arc::new(Field::new(name, array.data_type().clone(), true)));
        let structs = StructArray::new(fields.to_vec().into(), vec![words, numbers], None);
        let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
        Arc::new(ListArray::new(
            item,
            OffsetBuffer::from_lengths([1, 0, 3]),
            Arc::new(structs),
            None,
        ))
    }

    #[test]
    fn equal_values_are_equal_whatever_their_codes() {
        let one = list_of_structs(words(&["a", "b"], &[Some(0), Some(1), None, Some(0)]));
        let other =
            list_of_structs(words(&["x", "b", "a", "a"], &[Some(3), Some(1), None, Some(2)]));
        let (plain, also_plain) = (to_plain(&one).unwrap(), to_plain(&other).unwrap());
        assert_eq!(plain.to_data(), also_plain.to_data());
        assert_eq!(*plain.data_type(), plain_type(one.data_type()));
        let back = from_plain(&plain, one.data_type()).unwrap();
        assert_eq!(back.data_type(), one.data_type());
        assert_eq!(to_plain(&back).unwrap().to_data(), plain.to_data());
    }

    #[test]
    fn a_dictionary_of_structs_comes_back() {
        let values = list_of_structs(words(&["a"], &[Some(0); 4]));
        let array: ArrayRef =
            Arc::new(DictionaryArray::new(Int32Array::from(vec![Some(2), None, Some(0)]), values));
        let back = from_plain(&to_plain(&array).unwrap(), array.data_type()).unwrap();
        assert_eq!((back.data_type(), back.null_count()), (array.data_type(), 1));
        assert_eq!(to_plain(&back).unwrap().to_data(), to_plain(&array).unwrap().to_data());
    }
}
