use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::*;
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, TimeUnit, UnionFields};
use arrow_select::take::take_record_batch;
use proptest::prelude::*;
use tidegate_sync::Stop;

use super::*;
use crate::columns::cast::cast;

fn driver(threads: usize) -> Driver {
    Driver::new(threads, Stop::default())
}

fn of(batch: &RecordBatch) -> Digest {
    let mut digest = Digest::new(&batch.schema());
    digest.add(batch, &driver(1)).unwrap();
    digest
}

fn both(digest: &Digest) -> (u128, u128) {
    (digest.ordered(), digest.unordered())
}

fn one(array: impl Array + 'static) -> RecordBatch {
    one_of(Arc::new(array))
}

fn one_of(array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("x", array, true)]).unwrap()
}

fn cast_to(array: &dyn Array, data_type: &DataType) -> RecordBatch {
    one_of(cast(array, data_type).unwrap())
}

type MixedRow = (Option<i64>, Option<f64>, Option<String>, bool);

/// Returns a batch with columns of many kinds.
fn mixed(rows: &[MixedRow]) -> RecordBatch {
    let integers: Int64Array = rows.iter().map(|row| row.0).collect();
    let floats: Float64Array = rows.iter().map(|row| row.1).collect();
    let texts: StringArray = rows.iter().map(|row| row.2.clone()).collect();
    let mut lists = ListBuilder::new(Int64Builder::new());
    rows.iter().for_each(|row| lists.append_option(row.3.then_some([row.0, None])));
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("text", Arc::new(texts), true),
        ("integer", Arc::new(integers), true),
        ("list", Arc::new(lists.finish()), true),
        ("float", Arc::new(floats), true),
        ("flag", Arc::new(rows.iter().map(|row| Some(row.3)).collect::<BooleanArray>()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

prop_compose! {
    fn any_rows(most: usize)(rows in prop::collection::vec(
        (
            prop::option::of(-2_i64..3),
            prop::option::of(prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(1.5)]),
            prop::option::of("[a-b]{0,2}"),
            any::<bool>(),
        ),
        0..most,
    )) -> RecordBatch {
        mixed(&rows)
    }
}

/// Compares digests with recorded values, which must never change: a change would invalidate all
/// digests that users have stored.
#[test]
fn digests_are_kept_for_ever() {
    let told = |batch: &RecordBatch| {
        format!("{:032x} {:032x}", of(batch).ordered(), of(batch).unordered())
    };
    let rows = [
        (Some(1), Some(0.5), Some("one".to_owned()), true),
        (None, Some(f64::NAN), None, false),
        (Some(i64::MIN), None, Some(String::new()), true),
        (Some(1), Some(-0.0), Some("\u{e9}".to_owned()), false),
        (Some(1), Some(0.5), Some("one".to_owned()), true),
    ];
    let golden = [
        told(&RecordBatch::new_empty(Arc::new(Schema::empty()))),
        told(&one(Int64Array::from(vec![1, 2, 3]))),
        told(&one(UInt64Array::from(vec![u64::MAX]))),
        told(&one(TimestampMillisecondArray::from(vec![1, -1]))),
        told(&one(Decimal128Array::from(vec![150, -7, 0]))),
        told(&mixed(&rows)),
    ];
    assert_eq!(golden, GOLDEN);
}

const GOLDEN: [&str; 6] = [
    "c9e16cc76eec778553b9fb8bd2d36b8b 409db3e3c65b6d85c2c53597ddaab52c",
    "847f865001b2f53e243351084249941c 79a6114b4b2847d3fe4263dff2befcdf",
    "04ec53c4657a63b67023622838762b8e c4d47f221347543539d691fe5619a06a",
    "6f4bfe8e3f817d18b7384b21cb7b768d 5fdd77e73141ff1118792611764ad650",
    "bb1b83afd5c1569cd1b6116111989363 2174887533c2ffc6c46ff5ee652d3778",
    "133e1202e2ee286fded447ccecb2417d 6a2e6ba2969a79943b0ff17d5bb51f55",
];

/// Compares the bytes of consecutive rows with bytes written by hand from the table in `rows.rs`.
#[test]
fn oracle_the_bytes_of_rows_are_those_of_the_table() {
    let batch =
        mixed(&[(Some(-2), None, Some("ab".to_owned()), true), (None, Some(-0.0), None, false)]);
    let eight = |value: i64| value.to_le_bytes();
    let mut first = vec![1];
    first.extend(eight(-2));
    first.extend([0; 9]); // the float
    first.extend([1, 1]);
    first.push(1);
    first.extend(eight(2));
    first.extend(*b"ab");
    first.push(1);
    first.extend(eight(2)); // two items
    first.push(1);
    first.extend(eight(-2));
    first.extend([0; 9]);
    let mut second = vec![0; 9];
    second.push(1);
    second.extend([0; 8]);
    second.extend([1, 0]);
    second.extend([0, 0]);
    let words = [xxh3_128(&first), xxh3_128(&second)];
    assert_eq!(BatchRows::new(&batch).words(0..2), words);

    let header = "tidegate digest 1;4:text=string;7:integer=integer;4:list=list<integer>\
                  ;5:float=float;4:flag=boolean";
    let end = |state: u128, which: u8| {
        let mut bytes = xxh3_128(header.as_bytes()).to_le_bytes().to_vec();
        bytes.extend(2_u64.to_le_bytes());
        bytes.extend(state.to_le_bytes());
        bytes.push(which);
        xxh3_128(&bytes)
    };
    assert_eq!(of(&batch).unordered(), end(words[0].wrapping_add(words[1]), 1));
    assert_eq!(of(&batch).ordered(), end(Polynomial::of(&words).value(), 0));
}

proptest! {
    #[test]
    fn cuts_and_threads_do_not_show(
        batch in any_rows(600),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        threads in 1_usize..5,
    ) {
        let mut cuts: Vec<usize> =
            cuts.into_iter().map(|cut| cut.index(batch.num_rows() + 1)).collect();
        cuts.extend([0, batch.num_rows()]);
        cuts.sort_unstable();
        let mut digest = Digest::new(&batch.schema());
        let mut appended = Digest::new(&batch.schema());
        for cut in cuts.windows(2) {
            let part = batch.slice(cut[0], cut[1] - cut[0]);
            digest.add(&part, &driver(threads)).unwrap();
            appended.append(&of(&part)).unwrap();
        }
        prop_assert_eq!(both(&digest), both(&of(&batch)));
        prop_assert_eq!(both(&appended), both(&of(&batch)));
    }

    #[test]
    fn the_order_shows_in_one_of_both(batch in any_rows(40), seed in any::<u64>()) {
        let mut places: Vec<u32> = (0..batch.num_rows() as u32).collect();
        places.sort_by_key(|&place| xxh3_128(&(seed ^ u64::from(place)).to_le_bytes()));
        let permuted = take_record_batch(&batch, &UInt32Array::from(places)).unwrap();
        prop_assert_eq!(of(&permuted).unordered(), of(&batch).unordered());
        let words = |batch: &RecordBatch| BatchRows::new(batch).words(0..batch.num_rows());
        let same = words(&permuted) == words(&batch);
        prop_assert_eq!(of(&permuted).ordered() == of(&batch).ordered(), same);
    }

    #[test]
    fn each_value_each_row_and_each_copy_counts(batch in any_rows(20), other in any_rows(20)) {
        let words = |batch: &RecordBatch| {
            let mut words = BatchRows::new(batch).words(0..batch.num_rows());
            words.sort_unstable();
            words
        };
        let is_same = words(&batch) == words(&other);
        prop_assert_eq!(of(&batch).unordered() == of(&other).unordered(), is_same);
        let mut twice = of(&batch);
        twice.add(&batch, &driver(1)).unwrap();
        prop_assert_eq!(twice.unordered() == of(&batch).unordered(), batch.num_rows() == 0);
    }

    #[test]
    fn a_batch_is_taken_back(first in any_rows(40), last in any_rows(40)) {
        let mut digest = of(&first);
        digest.add(&last, &driver(1)).unwrap();
        digest.take_back(&last);
        prop_assert_eq!(both(&digest), both(&of(&first)));
        let bytes = digest.to_bytes();
        let read = Digest::new(&first.schema()).with_state(&bytes).unwrap();
        prop_assert_eq!(both(&read), both(&digest));
    }

    #[test]
    fn layouts_of_equal_texts_do_not_show(
        texts in prop::collection::vec(prop::option::of("[a-c]{0,20}"), 0..40),
        start in any::<prop::sample::Index>(),
    ) {
        use DataType::*;
        let array = StringArray::from(texts.clone());
        let start = start.index(texts.len() + 1);
        let rest = array.slice(start, texts.len() - start);
        let wanted = both(&of(&one(StringArray::from(texts[start..].to_vec()))));
        let dictionary = Dictionary(Box::new(Int32), Box::new(Utf8));
        for data_type in [Utf8, LargeUtf8, Utf8View, dictionary] {
            prop_assert_eq!(both(&of(&cast_to(&rest, &data_type))), wanted, "{}", data_type);
        }
    }
}

#[test]
fn layouts_of_equal_numbers_do_not_show() {
    use DataType::*;
    let numbers = Int64Array::from(vec![Some(1), None, Some(100), Some(1)]);
    let wanted = both(&of(&one(numbers.clone())));
    let dictionary = Dictionary(Box::new(Int8), Box::new(Int64));
    for data_type in [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, dictionary] {
        assert_eq!(both(&of(&cast_to(&numbers, &data_type))), wanted, "{data_type}");
    }
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![1, 2, 3, 4]), &numbers);
    assert_eq!(both(&of(&one(runs.unwrap()))), wanted);

    let floats = Float64Array::from(vec![Some(0.5), None, Some(-0.0), Some(f64::NAN)]);
    let wanted = both(&of(&one(floats.clone())));
    for data_type in [Float16, Float32] {
        assert_eq!(both(&of(&cast_to(&floats, &data_type))), wanted, "{data_type}");
    }
    let negative = f64::from_bits(f64::NAN.to_bits() | 1 << 63 | 7);
    let others = Float64Array::from(vec![Some(0.5), None, Some(0.0), Some(negative)]);
    assert_eq!(both(&of(&one(others))), wanted);

    let times = TimestampSecondArray::from(vec![Some(3), None, Some(-1)]);
    let wanted = both(&of(&one(times.clone())));
    for unit in [TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        assert_eq!(both(&of(&cast_to(&times, &Timestamp(unit, None)))), wanted, "{unit:?}");
    }
    let zoned = |zone: &str| both(&of(&one(times.clone().with_timezone(zone))));
    assert_eq!(zoned("+01:00"), zoned("UTC"));
    assert_ne!(zoned("UTC"), wanted);

    let cents = Decimal128Array::from(vec![150, -7, 0]).with_precision_and_scale(20, 2).unwrap();
    let wanted = both(&of(&one(cents.clone())));
    for data_type in [Decimal64(10, 3), Decimal128(30, 5), Decimal256(60, 7)] {
        assert_eq!(both(&of(&cast_to(&cents, &data_type))), wanted, "{data_type}");
    }
    let days = Date32Array::from(vec![1, -1]);
    assert_eq!(both(&of(&cast_to(&days, &Date64))), both(&of(&one(days))));
}

#[test]
fn values_of_different_kinds_differ() {
    let batches = [
        one(Int64Array::from(vec![1])),
        one(UInt64Array::from(vec![u64::MAX])),
        one(Int64Array::from(vec![-1])),
        one(Float64Array::from(vec![1.0])),
        one(Decimal128Array::from(vec![1]).with_precision_and_scale(5, 0).unwrap()),
        one(BooleanArray::from(vec![true])),
        one(StringArray::from(vec!["1"])),
        one(BinaryArray::from(vec![b"1".as_slice()])),
        one(StringArray::from(vec![""])),
        one(StringArray::from(vec![None::<&str>])),
        one(TimestampSecondArray::from(vec![1])),
        one(TimestampSecondArray::from(vec![1]).with_timezone("UTC")),
        one(DurationSecondArray::from(vec![1])),
        one(Time32SecondArray::from(vec![1])),
        one(Date32Array::from(vec![1])),
        one(IntervalYearMonthArray::from(vec![1])),
        one(NullArray::new(1)),
        one(Int64Array::from(vec![None])),
        RecordBatch::try_from_iter([("y", Arc::new(Int64Array::from(vec![1])) as ArrayRef)])
            .unwrap(),
    ];
    let mut digests: Vec<u128> =
        batches.iter().flat_map(|batch| [of(batch).ordered(), of(batch).unordered()]).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 2 * batches.len());
}

#[test]
fn values_beneath_nulls_do_not_show() {
    let nulls = || Some(NullBuffer::from(vec![true, false, true]));
    let array = |beneath| Int64Array::new(ScalarBuffer::from(vec![1, beneath, 3]), nulls());
    assert_eq!(both(&of(&one(array(2)))), both(&of(&one(array(9)))));
    let fields = |beneath| {
        let field = Arc::new(Field::new("a", DataType::Int64, true));
        let child: ArrayRef = Arc::new(Int64Array::from(vec![1, beneath, 3]));
        StructArray::new(vec![field].into(), vec![child], nulls())
    };
    assert_eq!(both(&of(&one(fields(2)))), both(&of(&one(fields(9)))));
}

#[test]
fn layouts_of_equal_nested_values_do_not_show() {
    use DataType::*;
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
        Some(vec![Some(1), Some(2)]),
    ]);
    let item = |data_type| Arc::new(Field::new("other", data_type, true));
    let wanted = both(&of(&one(lists.slice(1, 3))));
    for data_type in [LargeList(item(Int32)), ListView(item(Int64)), LargeListView(item(Int64))] {
        let cast = cast(&lists, &data_type).unwrap();
        assert_eq!(both(&of(&one_of(cast.slice(1, 3)))), wanted, "{data_type}");
    }
    let pairs = ListArray::from_iter_primitive::<Float64Type, _, _>([
        Some(vec![Some(1.0), None]),
        Some(vec![Some(2.0), Some(3.0)]),
    ]);
    let fixed = cast(&pairs, &FixedSizeList(item(Float64), 2)).unwrap();
    assert_eq!(both(&of(&one_of(fixed.slice(1, 1)))), both(&of(&one(pairs.slice(1, 1)))));

    // Items of adjacent rows are distinguished.
    let other = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![Some(1)]),
        Some(vec![Some(2)]),
    ]);
    assert_ne!(of(&one(lists)).ordered(), of(&one(other)).ordered());
}

#[test]
fn maps_and_unions_have_digests() {
    let map = |names: [&str; 3], value: i64| {
        let names = builder::MapFieldNames {
            entry: names[0].into(),
            key: names[1].into(),
            value: names[2].into(),
        };
        let mut map = MapBuilder::new(Some(names), StringBuilder::new(), Int64Builder::new());
        map.keys().append_value("a");
        map.values().append_value(value);
        map.append(true).unwrap();
        map.append(false).unwrap();
        one(map.finish())
    };
    let first = map(["entries", "keys", "values"], 1);
    assert_eq!(both(&of(&first)), both(&of(&map(["key_value", "key", "value"], 1))));
    assert_ne!(both(&of(&first)), both(&of(&map(["entries", "keys", "values"], 2))));

    let fields = [
        (0, Arc::new(Field::new("a", DataType::Int64, true))),
        (5, Arc::new(Field::new("b", DataType::Utf8, true))),
    ];
    let fields: UnionFields = fields.into_iter().collect();
    let ids = || ScalarBuffer::from(vec![5_i8, 0]);
    let sparse: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![9, 7])),
        Arc::new(StringArray::from(vec!["x", "beneath"])),
    ];
    let dense: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![7])), Arc::new(StringArray::from(vec!["x"]))];
    let sparse = UnionArray::try_new(fields.clone(), ids(), None, sparse).unwrap();
    let offsets = Some(ScalarBuffer::from(vec![0, 0]));
    let dense = UnionArray::try_new(fields, ids(), offsets, dense).unwrap();
    assert_eq!(both(&of(&one(sparse))), both(&of(&one(dense))));
}

#[test]
fn rows_without_columns_are_counted() {
    let rows = |count| {
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::new(Schema::empty());
        RecordBatch::try_new_with_options(schema, Vec::new(), &options).unwrap()
    };
    assert_ne!(of(&rows(1)).ordered(), of(&rows(2)).ordered());
    assert_ne!(of(&rows(0)).unordered(), of(&rows(1)).unordered());
}

#[test]
fn other_columns_are_refused_and_change_nothing() {
    let mut digest = of(&one(Int64Array::from(vec![1])));
    let before = both(&digest);
    let error = digest.add(&one(StringArray::from(vec!["1"])), &driver(1)).unwrap_err();
    assert!(error.is_schema());
    assert_eq!(
        error.message(),
        "column 0: expected `x` of kind integer, as in the previous rows, found `x` of kind \
         string; create a digest for each schema, or cast the rows"
    );
    let stop = Stop::default();
    stop.request();
    let many = one(Int64Array::from(vec![1; 3 * PART_ROWS]));
    assert!(digest.add(&many, &Driver::new(2, stop)).unwrap_err().is_stopped());
    assert_eq!(both(&digest), before);
}
