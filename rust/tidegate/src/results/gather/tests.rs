//! Compares gathered values with those that `arrow-select` returns, and checks how much is stored
//! row by row.

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, BooleanArray, Decimal128Array, DictionaryArray, Float32Array, Int8Array, Int16Array,
    Int64Array, RecordBatch, StringArray, UInt32Array, new_null_array,
};
use arrow_schema::Field;
use arrow_select::concat::{concat, concat_batches};
use arrow_select::take::take;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tidegate_sync::Stop;

use super::*;
use crate::columns::table::Table;

/// Returns a batch with columns of every fixed width and of variable width, starting at row
/// `first`. Each batch's arrays have a nonzero offset, and each batch's dictionary is ordered
/// differently.
fn batch(first: usize, rows: usize, nulls: bool) -> RecordBatch {
    let numbers = || {
        let is_null = move |row: usize| nulls && row % 5 == 3;
        (first..=first + rows).map(move |row| (!is_null(row)).then_some(row as i64 * 3 + 1))
    };
    let words = || numbers().map(|number| number.map(|number| format!("word {}", number % 7)));
    let coded: DictionaryArray<Int8Type> =
        words().collect::<Vec<_>>().iter().map(|word| word.as_deref()).collect();
    let columns: [(&str, ArrayRef); 9] = [
        ("bytes", Arc::new(numbers().map(|n| n.map(|n| n as i8)).collect::<Int8Array>())),
        ("shorts", Arc::new(numbers().map(|n| n.map(|n| n as i16)).collect::<Int16Array>())),
        ("floats", Arc::new(numbers().map(|n| n.map(|n| n as f32)).collect::<Float32Array>())),
        ("longs", Arc::new(numbers().collect::<Int64Array>())),
        ("others", Arc::new(numbers().map(|n| n.map(|n| -n)).collect::<Int64Array>())),
        ("wide", Arc::new(numbers().map(|n| n.map(|n| n as i128)).collect::<Decimal128Array>())),
        ("flags", Arc::new(numbers().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>())),
        ("words", Arc::new(words().collect::<StringArray>())),
        ("coded", Arc::new(coded)),
    ];
    let fields =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.iter().map(|(_, array)| array.slice(1, rows)).collect();
    RecordBatch::try_new(schema, arrays).expect("the arrays are of the schema")
}

fn batches(lens: &[usize], nulls: bool) -> Vec<RecordBatch> {
    let first = lens.iter().scan(0, |sum, len| Some(std::mem::replace(sum, *sum + len)));
    lens.iter().zip(first).map(|(&len, first)| batch(first, len, nulls)).collect()
}

fn table(lens: &[usize], nulls: bool) -> Table {
    Table::of_valid("rows", batch(0, 0, false).schema(), batches(lens, nulls)).unwrap()
}

/// Concatenates a column's chunks and takes these rows from the result.
fn taken(table: &Table, column: usize, rows: &[u32]) -> ArrayRef {
    let chunks = table.chunks(column);
    if chunks.is_empty() {
        return new_null_array(table.schema().field(column).data_type(), rows.len());
    }
    let whole = concat(&chunks.iter().map(|chunk| &**chunk).collect::<Vec<_>>()).unwrap();
    let places: UInt32Array = rows.iter().map(|&row| (row != NO_ROW).then_some(row)).collect();
    take(&whole, &places, None).unwrap()
}

/// Returns the values, decoded if they are in a dictionary.
fn plain(array: &dyn Array) -> ArrayRef {
    let is_coded = matches!(array.data_type(), DataType::Dictionary(..));
    let data_type = if is_coded { &DataType::Utf8 } else { array.data_type() };
    cast(array, data_type).unwrap()
}

proptest! {
    #[test]
    fn oracle_take(
        lens in [vec(1_usize..40, 0..5), vec(1_usize..40, 0..5)],
        nulls: [bool; 2],
        picked in vec((any::<[u32; 2]>(), any::<[bool; 2]>()), 0..100),
        optional: [bool; 2],
        side_by_side in option::of(any::<u32>()),
        laid_out: bool,
        read_soon: bool,
        threads in 1_usize..4,
        slices_left: bool,
    ) {
        let sides = [0, 1].map(|side| table(&lens[side], nulls[side]));
        let counts = [0, 1].map(|side| sides[side].rows());
        let optional = [0, 1].map(|side| optional[side] || counts[side] == 0);
        let rows = [0, 1].map(|side| {
            let row = |(row, is_there): &([u32; 2], [bool; 2])| match counts[side] as u32 {
                count if count > 0 && (!optional[side] || is_there[side]) => row[side] % count,
                _ => NO_ROW,
            };
            picked.iter().map(row).collect::<Vec<_>>()
        });
        let [mut left, mut right] = rows;
        if let Some(first) = side_by_side.filter(|_| counts[0] > 0) {
            let first = first % counts[0] as u32;
            left = (first..counts[0] as u32).take(left.len()).collect();
            right.truncate(left.len());
        }
        let rows = [left, right];
        let columns = 0..sides[0].schema().fields().len();
        let either = |column: usize| {
            let (of_left, of_right) = Column::new_pair(&sides[0], column, &sides[1], column);
            ColumnSource::Either(Arc::new(of_left), Arc::new(of_right))
        };
        let of_side = |table: &Table| {
            let column = |column| Arc::new(Column::new(table, column));
            columns.clone().map(column).collect::<Vec<_>>()
        };
        let [of_left, of_right] = [&sides[0], &sides[1]].map(of_side);
        let sources: Vec<_> = of_left.iter().cloned().map(ColumnSource::Left)
            .chain(of_right.iter().cloned().map(ColumnSource::Right))
            .chain(columns.clone().map(either))
            .collect();
        let types = sides[0].schema().fields().iter().map(|field| field.data_type().clone());
        let types = types.clone().chain(types.clone()).chain(types).collect();
        let records = Default::default();
        let mut gather = Gather { sources, types, optional, records, slices_left };
        if laid_out {
            gather.lay_out_right((counts[0], counts[1]), &Driver::new(2, Stop::default())).unwrap();
        }
        let driver = Driver::new(threads, Stop::default());
        let values = gather.values(&rows[0], &rows[1], read_soon, &driver).unwrap();
        let found = gather.columns(&rows[0], &rows[1], values).unwrap();
        for (at, array) in found.iter().enumerate() {
            let (of, column) = (at / columns.len(), at % columns.len());
            let expected: Vec<ArrayRef> =
                [0, 1].map(|side| plain(&taken(&sides[side], column, &rows[side]))).into();
            let expected = if of < 2 { expected[of].clone() } else {
                let place = |(at, &row): (usize, &u32)| (usize::from(row == NO_ROW), at);
                let places: Vec<_> = rows[0].iter().enumerate().map(place).collect();
                interleave(&[&*expected[0], &*expected[1]], &places).unwrap()
            };
            prop_assert_eq!(&plain(array), &expected, "column {} of {}", column, of);
        }
        for (columns, rows) in [of_left, of_right].iter().zip(&rows) {
            for column in columns.iter().filter(|_| !rows.contains(&NO_ROW)) {
                prop_assert_eq!(&column.gather(rows).unwrap(), &column.take(rows).unwrap());
            }
        }
    }

    /// Gathers rows that are roughly in order, as on a time-ordered side. Most blocks of rows then
    /// lie in a single chunk.
    #[test]
    fn oracle_take_of_rows_about_in_order(
        lens in vec(1_usize..900, 2..5),
        steps in vec((0_u32..4, 0_u32..300), 0..2000),
        nulls: bool,
        lacks in option::of(any::<usize>()),
        read_soon: bool,
    ) {
        let side = table(&lens, nulls);
        let most = side.rows() as u32;
        let mut begin = 0;
        let mut rows: Vec<u32> = steps
            .iter()
            .map(|(step, beyond)| {
                begin += step;
                (begin + beyond) % most
            })
            .collect();
        if let Some(at) = lacks.filter(|_| !rows.is_empty()) {
            let at = at % rows.len();
            rows[at] = NO_ROW;
        }
        let columns = 0..side.schema().fields().len();
        let column = |at| ColumnSource::Left(Arc::new(Column::new(&side, at)));
        let types = side.schema().fields().iter().map(|field| field.data_type().clone()).collect();
        let gather = Gather {
            sources: columns.map(column).collect(),
            types,
            optional: [lacks.is_some(), false],
            records: Default::default(),
            slices_left: false,
        };
        let found = of_left(&gather, &rows, read_soon);
        for (at, array) in found.iter().enumerate() {
            prop_assert_eq!(&plain(array), &plain(&taken(&side, at, &rows)), "column {}", at);
        }
    }

    #[test]
    fn oracle_concat(lens in vec(0_usize..40, 0..5), nulls: [bool; 5]) {
        let batches: Vec<_> = batches(&lens, false)
            .iter()
            .zip(nulls)
            .map(|(rows, nulls)| batch(lens.len(), rows.num_rows(), nulls))
            .collect();
        let schema = batch(0, 0, false).schema();
        let (found, expected) =
            (concat_rows(&schema, &batches).unwrap(), concat_batches(&schema, &batches).unwrap());
        prop_assert_eq!(found.num_rows(), expected.num_rows());
        for (found, expected) in found.columns().iter().zip(expected.columns()) {
            prop_assert_eq!(&plain(found), &plain(expected));
        }
    }

    #[test]
    fn oracle_longs(lens in vec(1_usize..40, 1..5), ends: [usize; 2]) {
        let rows = table(&lens, false);
        let ends = ends.map(|end| end % (rows.rows() + 1));
        let range = ends[0].min(ends[1])..ends[0].max(ends[1]);
        let values = range.clone().map(|row| (row as u64 + 1) * 3 + 1);
        let found = Column::new(&rows, 3).longs(range.clone()).into_owned();
        prop_assert_eq!(found, values.clone().collect::<Vec<_>>());
        let floats = values.map(|value| u64::from((value as f32).to_bits())).collect::<Vec<_>>();
        prop_assert_eq!(Column::new(&rows, 2).longs(range).into_owned(), floats);
    }
}

#[test]
fn batches_of_a_result_share_a_dictionary() {
    let (left, right) = (table(&[5, 6], false), table(&[7], false));
    let values = |column: &Column| {
        let array = column.take(&[0]).unwrap().to_data();
        array.child_data()[0].buffers()[0].as_ptr()
    };
    let (of_left, of_right) = Column::new_pair(&left, 8, &right, 8);
    assert_eq!(values(&of_left), values(&of_right));
    assert_eq!(of_left.take(&[4, 5]).unwrap().len(), 2);
    // Dictionaries of several chunks are merged; other chunks remain unchanged.
    assert_eq!(Column::new(&left, 8).starts, [0, 11]);
    assert_eq!(Column::new(&left, 7).starts, [0, 5, 11]);
    let texts = Column::new_pair(&left, 7, &right, 7);
    assert_eq!((&*texts.0.starts, &*texts.1.starts), (&[0, 5, 11][..], &[0, 7][..]));
    let mixed = Column::new_pair(&left, 8, &right, 7);
    assert_eq!((&*mixed.0.starts, &*mixed.1.starts), (&[0, 11][..], &[0, 7][..]));
}

/// Gathers only the columns of left rows.
fn of_left(gather: &Gather, rows: &[u32], read_soon: bool) -> Vec<ArrayRef> {
    let values = gather.values(rows, &[], read_soon, &Driver::new(2, Stop::default())).unwrap();
    gather.columns(rows, &[], values).unwrap()
}

#[test]
fn left_rows_side_by_side_are_sliced() {
    let left = table(&[5, 6], true);
    let columns = [0, 5, 6, 7, 8];
    let gather = |slices_left| {
        let source = |&column: &usize| ColumnSource::Left(Arc::new(Column::new(&left, column)));
        let types = columns.iter().map(|&at| left.schema().field(at).data_type().clone()).collect();
        let (optional, records) = ([false; 2], Default::default());
        Gather {
            sources: columns.iter().map(source).collect(),
            types,
            optional,
            records,
            slices_left,
        }
    };
    let starts = |array: &dyn Array| {
        let data = array.to_data();
        data.buffers()[0].as_ptr().wrapping_add(data.offset())
    };
    // Checks whether values belong to the chunk instead of a copy. Dictionaries of several chunks
    // are merged.
    let is_slice = |slices_left, rows: &[u32], column: usize| {
        let found = &of_left(&gather(slices_left), rows, false)[column];
        let place = rows[0] as usize;
        let chunks = left.chunks(columns[column]);
        let (chunk, place) = if place < 5 { (&chunks[0], place) } else { (&chunks[1], place - 5) };
        starts(found) == starts(&chunk.slice(place, 1))
    };
    // This column contains bytes; the others contain wider values, offsets or bits.
    assert!(is_slice(true, &[1, 2, 3, 4], 0) && is_slice(true, &[6, 7, 8, 9, 10], 0));
    assert!(is_slice(true, &[5, 6], 3) && is_slice(true, &[5], 1));
    assert!(!is_slice(false, &[1, 2, 3, 4], 0), "not asked for");
    assert!(!is_slice(true, &[3, 4, 5], 0), "of two chunks");
    assert!(!is_slice(true, &[1, 3, 2, 4], 0), "not in order");
    for rows in [&[0, 1, 2][..], &[4, 5], &[1, 1, 3], &[5, 6, 7, 8, 9, 10]] {
        let [found, copied] = [true, false].map(|slices| of_left(&gather(slices), rows, false));
        assert_eq!(found, copied);
    }
    assert_eq!(consecutive(&[NO_ROW]), None);
    assert_eq!(consecutive(&[NO_ROW - 1]), Some(NO_ROW as usize - 1));
    assert_eq!(consecutive(&[NO_ROW - 1, NO_ROW]), None);
    assert_eq!(consecutive(&[]), None);
}

#[test]
fn columns_are_laid_out_as_far_as_the_rows_afford() {
    let driver = Driver::new(1, Stop::default());
    let laid_out = |columns: &[usize], left_rows: usize| {
        let right = table(&[10, 20], false);
        let columns: Vec<_> =
            columns.iter().map(|&column| (column, Arc::new(Column::new(&right, column)))).collect();
        let records = Records::lay_out(&columns, (left_rows, right.rows()), &driver).unwrap();
        records.into_iter().map(|records| records.columns).collect::<Vec<_>>()
    };
    let none: [Vec<usize>; 0] = [];
    // Up to 24 bytes may be used for each row on either side. A row of two columns takes up 16
    // bytes, and a row of three or four columns takes up 32.
    assert_eq!(laid_out(&[3, 4], 0), [[3, 4]]);
    assert_eq!(laid_out(&[3, 4, 3], 9), none);
    assert_eq!(laid_out(&[3, 4, 3], 10), [[3, 4, 3]]);
    assert_eq!(laid_out(&[3, 4, 3, 4, 3, 4], 29), [[3, 4, 3, 4]]);
    assert_eq!(laid_out(&[3, 4, 3, 4, 3, 4], 30), [vec![3, 4, 3, 4], vec![3, 4]]);
    // Storing a single column or two narrow ones row by row has no advantage, unlike a wide and a
    // narrow one.
    assert_eq!(laid_out(&[3], 100), none);
    assert_eq!(laid_out(&[2, 2], 100), none);
    assert_eq!(laid_out(&[2, 3], 100), [[2, 3]]);
    // All right columns of a result that can be stored row by row are stored in this way.
    let [left, right] = [table(&[9], false), table(&[3], false)];
    let sides =
        [4, 3, 7, 2].map(|column| ColumnSource::Right(Arc::new(Column::new(&right, column))));
    let mut sources = vec![ColumnSource::Left(Arc::new(Column::new(&left, 3)))];
    sources.extend(sides);
    let (types, records) = (Vec::new(), Default::default());
    let mut gather = Gather { sources, types, optional: [false; 2], records, slices_left: false };
    gather.lay_out_right((left.rows(), right.rows()), &driver).unwrap();
    let places = gather.records.map(|side| side.into_iter().map(|records| records.columns));
    assert_eq!(places.map(Iterator::collect::<Vec<_>>), [vec![], vec![vec![1, 2, 4]]]);
    let taken = (0..9).filter(|&column| Records::takes(&Column::new(&right, column)));
    assert_eq!(taken.collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn a_result_row_takes_the_bytes_of_its_columns() {
    let rows = table(&[10, 20], false);
    let column = |column| Arc::new(Column::new(&rows, column));
    let sources = vec![
        ColumnSource::Left(column(3)),
        ColumnSource::Right(column(5)),
        ColumnSource::Either(column(2), column(3)),
        ColumnSource::Right(column(7)),
    ];
    let (types, records) = (Vec::new(), Default::default());
    let gather = Gather { sources, types, optional: [false; 2], records, slices_left: false };
    // A string is six bytes long, and each chunk has one more offset than strings.
    assert_eq!(gather.row_bytes(), 8 + 16 + 8 + (30 * (6 + 4) + 2 * 4_usize).div_ceil(30));
    let empty = table(&[], false);
    assert_eq!([3, 7].map(|column| Column::new(&empty, column).row_bytes()), [8, 0]);
}

#[test]
fn rows_of_streams_come_and_leave() {
    for columns in 2..=4 {
        let mut rows = Rows::new(columns);
        assert_eq!((rows.memory(), Rows::row_bytes(columns)), (0, [16, 32, 32][columns - 2]));
        let values: Vec<Vec<u64>> = (0..columns as u64)
            .map(|column| (0..10).map(|row| row * 10 + column).collect())
            .collect();
        rows.push(&values.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(rows.memory(), 64 * Rows::row_bytes(columns));
        rows.drop_front(4);
        let records = Records { columns: (0..columns).collect(), rows };
        let mut memory: Vec<_> = (0..columns).map(|_| Pages::<u8>::unwritten(3 * 8)).collect();
        let mut out: Vec<&mut [Slot<u8>]> =
            memory.iter_mut().map(|memory| &mut memory[..]).collect();
        records.gather(&[5, NO_ROW, 0], true, &mut out, Store::Cached);
        for (column, memory) in memory.into_iter().enumerate() {
            let column = column as u64;
            let memory = memory.written();
            let found: &[u64] = bytemuck::cast_slice(&memory);
            assert_eq!(found, [90 + column, 0, 40 + column]);
        }
    }
}
