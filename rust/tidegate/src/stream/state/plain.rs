//! Columns whose bytes depend only on their values, at every level of nesting.
//!
//! Some parts of a column depend on the rows' history: dictionary codes, the buffers of string
//! views, the order of lists in list views, and the boundaries between runs of equal values. Plain
//! columns contain no trace of this history: they have no dictionaries, and they store each value
//! once, in row order. Only values at null positions remain unchanged.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::RunEndIndexType;
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, GenericListViewArray, OffsetSizeTrait, PrimitiveArray,
    RunArray, StringViewArray, UInt64Array, downcast_run_array, make_array,
};
use arrow_data::ArrayData;
use arrow_ord::ord::make_comparator;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, SortOptions};
use arrow_select::take::take;
use tidegate_structures::memory;

use crate::columns::cast::cast;
use crate::columns::dictionary;
use crate::columns::nested::{children, with_fields};

/// Returns the type with each dictionary type replaced by its value type.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| {
        FieldRef::new(Field::clone(field).with_data_type(plain_type(field.data_type())))
    };
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        other => with_fields(other, field),
    }
}

/// Returns the array without unused data and with each dictionary replaced by its values.
pub(crate) fn to_plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if is_plain(array.data_type()) {
        return Ok(array.clone());
    }
    match array.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            to_plain(&take(dictionary.values(), dictionary.keys(), None)?)
        }
        DataType::Utf8View => {
            Ok(Arc::new(array.as_string_view().iter().collect::<StringViewArray>()))
        }
        DataType::BinaryView => {
            Ok(Arc::new(array.as_binary_view().iter().collect::<BinaryViewArray>()))
        }
        DataType::ListView(_) => one_by_one::<i32>(array.as_list_view()),
        DataType::LargeListView(_) => one_by_one::<i64>(array.as_list_view()),
        DataType::RunEndEncoded(..) => downcast_run_array!(
            array => whole_runs(array),
            other => unreachable!("{other} is not run-end encoded")
        ),
        wanted => {
            let wanted = plain_type(wanted);
            with_children(array, &wanted, |child, _| to_plain(child))
        }
    }
}

/// Returns whether all arrays of this type are plain.
fn is_plain(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..)
        | DataType::Utf8View
        | DataType::BinaryView
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::RunEndEncoded(..) => false,
        nested => children(nested).into_iter().all(is_plain),
    }
}

/// Returns the lists in plain form, one after another.
fn one_by_one<O: OffsetSizeTrait>(lists: &GenericListViewArray<O>) -> Result<ArrayRef, ArrowError> {
    let size = |list: usize| match lists.is_valid(list) {
        true => lists.value_size(list).as_usize(),
        false => 0,
    };
    // Lists can share items, so there can be many more items than the array contains.
    let all: usize = (0..lists.len()).map(size).sum();
    memory::demand(all.saturating_mul(size_of::<u64>()));
    let number = |number: usize| O::from_usize(number).ok_or(ArrowError::OffsetOverflowError(all));
    let (mut offsets, mut sizes, mut items) = (Vec::new(), Vec::new(), memory::vec(all));
    for list in 0..lists.len() {
        offsets.push(number(items.len())?);
        sizes.push(number(size(list))?);
        let first = lists.value_offset(list).as_usize() as u64;
        items.extend(first..first + size(list) as u64);
    }
    let items = to_plain(&take(lists.values(), &UInt64Array::from(items), None)?)?;
    let (DataType::ListView(item) | DataType::LargeListView(item)) = plain_type(lists.data_type())
    else {
        unreachable!("list arrays have list types");
    };
    let nulls = lists.nulls().cloned();
    let lists =
        GenericListViewArray::<O>::try_new(item, offsets.into(), sizes.into(), items, nulls)?;
    Ok(Arc::new(lists))
}

/// Returns the array in plain form. Adjacent runs with equal values are merged.
fn whole_runs<R: RunEndIndexType>(array: &RunArray<R>) -> Result<ArrayRef, ArrowError> {
    let values = to_plain(&array.values_slice())?;
    let ends: Vec<R::Native> = array.run_ends().sliced_values().collect();
    let order = make_comparator(&values, &values, SortOptions::default())?;
    let is_last = |&run: &usize| run + 1 == ends.len() || order(run, run + 1) != Ordering::Equal;
    let lasts: Vec<usize> = (0..ends.len()).filter(is_last).collect();
    let ends = PrimitiveArray::<R>::from_iter_values(lasts.iter().map(|&run| ends[run]));
    let lasts = UInt64Array::from_iter_values(lasts.iter().map(|&run| run as u64));
    let values = take(&values, &lasts, None)?;
    // The type also contains the nullability and the metadata of both children.
    ArrayData::builder(plain_type(array.data_type()))
        .len(array.len())
        .add_child_data(ends.into_data())
        .add_child_data(values.into_data())
        .build()
        .map(make_array)
}

/// Returns the array with dictionaries wherever the type contains them. The function is the inverse
/// of [`to_plain`].
pub(crate) fn from_plain(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == wanted {
        return Ok(array.clone());
    }
    match wanted {
        DataType::Dictionary(keys, values) => {
            let values = from_plain(array, values)?;
            // Values of some types cannot be cast to a dictionary.
            cast(&values, wanted).or_else(|_| dictionary::encoded(keys, &values))
        }
        _ => with_children(array, wanted, from_plain),
    }
}

/// Casts the array to another type, including all of its children.
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

#[cfg(test)]
mod tests {
    use arrow_array::builder::{Int64Builder, ListViewBuilder};
    use arrow_array::{
        DictionaryArray, Int8Array, Int32Array, LargeStringArray, ListArray, RecordBatch,
        StringArray, StructArray,
    };
    use arrow_buffer::OffsetBuffer;
    use arrow_select::concat::concat;

    use super::super::stored_table;
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

    #[test]
    fn a_dictionary_of_structs_has_each_value_once() {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
        let field = Arc::new(Field::new("n", DataType::Int32, true));
        let values = StructArray::new(vec![field].into(), vec![numbers], None);
        let codes = (0..300).map(|row| (row > 0).then_some((row % 100) as i8));
        let array: ArrayRef =
            Arc::new(DictionaryArray::new(codes.collect::<Int8Array>(), Arc::new(values)));
        let back = from_plain(&to_plain(&array).unwrap(), array.data_type()).unwrap();
        assert_eq!((back.data_type(), back.null_count()), (array.data_type(), 1));
        assert_eq!(to_plain(&back).unwrap().to_data(), to_plain(&array).unwrap().to_data());
    }

    /// Returns two arrays that contain the same rows at different offsets.
    fn twice(array: ArrayRef) -> [ArrayRef; 2] {
        let rows = array.len();
        let cut = concat(&[&array.slice(rows / 2, rows - rows / 2), &array]).unwrap();
        [cut.slice(rows - rows / 2, rows), array]
    }

    #[test]
    fn runs_keep_their_type_and_are_not_expanded() {
        let field = |name: &str, data_type, null| Arc::new(Field::new(name, data_type, null));
        let runs = DataType::RunEndEncoded(
            field("ends", DataType::Int32, false),
            field("texts", DataType::LargeUtf8, true),
        );
        let rows = 1 << 30;
        let ends = Int32Array::from(vec![2, 7, rows]);
        let texts = LargeStringArray::from(vec!["a", "a", "a long text".repeat(100).as_str()]);
        let array = ArrayData::builder(runs.clone())
            .len(rows as usize)
            .add_child_data(ends.into_data())
            .add_child_data(texts.into_data());
        let plain = to_plain(&make_array(array.build().unwrap())).unwrap();
        assert_eq!((plain.data_type(), plain.len()), (&runs, rows as usize));
        assert_eq!(plain.to_data().child_data()[0].len(), 2);
        let end = to_plain(&plain.slice(5, 10)).unwrap();
        assert_eq!((end.len(), end.to_data().child_data()[0].len()), (10, 2));
        assert_eq!(to_plain(&plain.slice(0, 0)).unwrap().len(), 0);
    }

    #[test]
    fn equal_values_are_equal_wherever_they_lie() {
        let long = "longer than a view takes in itself";
        let texts: StringViewArray =
            [Some(long), None, Some("a"), Some(long)].into_iter().collect();
        let bytes: BinaryViewArray =
            [Some(long.as_bytes()), Some(b"a"), None].into_iter().collect();
        let mut lists = ListViewBuilder::new(Int64Builder::new());
        [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(2)])]
            .into_iter()
            .for_each(|list| lists.append_option(list));
        let runs = |ends: &[i32], values: &[&str]| -> ArrayRef {
            let values = StringArray::from(values.to_vec());
            Arc::new(RunArray::try_new(&Int32Array::from(ends.to_vec()), &values).unwrap())
        };
        let runs = [
            runs(&[2, 3, 5], &["a", "b", "c"]),
            runs(&[1, 2, 3, 4, 5], &["a", "a", "b", "c", "c"]),
        ];
        let in_a_list = ListArray::new(
            Arc::new(Field::new("item", DataType::Utf8View, true)),
            OffsetBuffer::from_lengths([1, 3]),
            Arc::new(texts.clone()),
            None,
        );
        let pairs = [
            twice(Arc::new(texts)),
            twice(Arc::new(bytes)),
            twice(Arc::new(lists.finish())),
            twice(Arc::new(in_a_list)),
            runs,
        ];
        for pair in pairs {
            let data_type = pair[0].data_type().clone();
            let written = pair.map(|array| {
                let rows = RecordBatch::try_from_iter([("a", array)]).unwrap();
                stored_table::write(&rows).unwrap()
            });
            assert!(written[0] == written[1], "{data_type:?}");
        }
    }
}
