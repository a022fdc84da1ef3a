//! Encodes rows as bytes: equal values have equal bytes, regardless of their layout.
//!
//! | kind | the bytes of a value that is not null |
//! | --- | --- |
//! | boolean | 1, a byte 0 or 1 |
//! | integer | 1 and 8 bytes; from 2^63 on, 2 and 8 bytes |
//! | float | 1 and the 8 bytes of a double; one NaN, one zero |
//! | decimal | 1, 2 bytes of scale, 32 bytes of digits, without trailing zeros |
//! | date | 1, 8 bytes of milliseconds |
//! | time | 1, 8 bytes of nanoseconds |
//! | timestamp, instant, duration | 1, 16 bytes of nanoseconds |
//! | interval | 1, 4 bytes of months, 4 of days, 8 of nanoseconds |
//! | string, binary | 1, 8 bytes of length, the bytes |
//! | list, map | 1, 8 bytes of length, the items; an item of a map is its key and its value |
//! | struct | 1, the fields |
//! | union | 1, a byte that identifies the field, the field |
//!
//! Numbers are little-endian. A null is a single 0 byte, padded with zeros if all values of the
//! kind have the same length. The value in a null slot is ignored.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrowPrimitiveType, BooleanArray, PrimitiveArray, RecordBatch, UnionArray,
    downcast_integer, downcast_run_array,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use xxhash_rust::xxh3::xxh3_128;

use crate::columns::keys::canonical;

/// The number of rows that are encoded together. This number is small enough for the rows' bytes to
/// stay in the L1 cache.
const BLOCK_ROWS: usize = 256;

/// The rows in a batch.
pub(super) struct BatchRows<'a> {
    /// The columns with fixed-length values, and the offset of each within a row.
    fixed: Vec<(usize, Box<dyn DigestColumn + 'a>)>,
    /// The total length of the fixed-length values.
    width: usize,
    others: Vec<Box<dyn DigestColumn + 'a>>,
}

impl<'a> BatchRows<'a> {
    pub(super) fn new(batch: &'a RecordBatch) -> Self {
        let (mut fixed, mut width, mut others) = (Vec::new(), 0, Vec::new());
        for array in batch.columns() {
            let column = column(array);
            match column.width() {
                Some(own) => {
                    fixed.push((width, column));
                    width += own;
                }
                None => others.push(column),
            }
        }
        BatchRows { fixed, width, others }
    }

    /// Returns the words of the rows in a range.
    pub(super) fn words(&self, rows: Range<usize>) -> Vec<u128> {
        let mut words = Vec::with_capacity(rows.len());
        let (mut block, mut row) = (vec![0; BLOCK_ROWS * self.width], Vec::new());
        for start in rows.clone().step_by(BLOCK_ROWS) {
            let part = start..rows.end.min(start + BLOCK_ROWS);
            for (place, column) in &self.fixed {
                column.fill(
                    part.clone(),
                    &mut ValueSlots { block: &mut block, width: self.width, place: *place },
                );
            }
            let fixed = |at: usize| &block[(at - start) * self.width..][..self.width];
            if self.others.is_empty() {
                words.extend(part.map(|at| xxh3_128(fixed(at))));
                continue;
            }
            words.extend(part.map(|at| {
                row.clear();
                row.extend_from_slice(fixed(at));
                self.others.iter().for_each(|column| column.append(at, &mut row));
                xxh3_128(&row)
            }));
        }
        words
    }
}

/// The bytes that hold a column's values in a block of rows.
struct ValueSlots<'a> {
    block: &'a mut [u8],
    width: usize,
    place: usize,
}

impl ValueSlots<'_> {
    /// Returns the `W` bytes that hold the column's value in each row, starting from the first row.
    fn of<const W: usize>(&mut self) -> impl Iterator<Item = &mut [u8; W]> {
        let place = self.place;
        let rows = self.block.chunks_exact_mut(self.width);
        rows.map(move |row| row[place..].first_chunk_mut().expect("rows contain all columns"))
    }
}

/// A column whose values can be written as bytes.
trait DigestColumn: Send + Sync {
    /// Returns the length that all values share, or `None` if their lengths differ.
    fn width(&self) -> Option<usize>;

    /// Appends the value in the given row.
    fn append(&self, row: usize, to: &mut Vec<u8>);

    /// Writes the values in a range of rows, if all values have the same length.
    fn fill(&self, rows: Range<usize>, to: &mut ValueSlots<'_>) {
        let (mut value, place) = (Vec::new(), to.place);
        for (row, to) in rows.zip(to.block.chunks_exact_mut(to.width)) {
            value.clear();
            self.append(row, &mut value);
            to[place..][..value.len()].copy_from_slice(&value);
        }
    }
}

/// Returns the array as a column whose values can be written as bytes.
#[expect(clippy::too_many_lines, reason = "a flat match with a few lines per type")]
fn column<'a>(array: &'a dyn Array) -> Box<dyn DigestColumn + 'a> {
    use DataType::*;
    let nanoseconds = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    match array.data_type() {
        Null => Box::new(Nulls),
        Boolean => Box::new(array.as_boolean()),
        Int8 => integers::<Int8Type>(array),
        Int16 => integers::<Int16Type>(array),
        Int32 => integers::<Int32Type>(array),
        Int64 => integers::<Int64Type>(array),
        UInt8 => integers::<UInt8Type>(array),
        UInt16 => integers::<UInt16Type>(array),
        UInt32 => integers::<UInt32Type>(array),
        UInt64 => plain::<UInt64Type, 9>(array, |value| {
            marked(if value > i64::MAX as u64 { 2 } else { 1 }, value.to_le_bytes())
        }),
        Float16 => floats::<Float16Type>(array),
        Float32 => floats::<Float32Type>(array),
        Float64 => floats::<Float64Type>(array),
        Decimal32(_, scale) => decimals::<Decimal32Type>(array, *scale),
        Decimal64(_, scale) => decimals::<Decimal64Type>(array, *scale),
        Decimal128(_, scale) => decimals::<Decimal128Type>(array, *scale),
        Decimal256(_, scale) => decimals::<Decimal256Type>(array, *scale),
        Date32 => plain::<Date32Type, 9>(array, |days| whole(i64::from(days) * 86_400_000)),
        Date64 => plain::<Date64Type, 9>(array, whole),
        Time32(TimeUnit::Second) => times::<Time32SecondType>(array, 1_000_000_000),
        Time32(_) => times::<Time32MillisecondType>(array, 1_000_000),
        Time64(TimeUnit::Microsecond) => times::<Time64MicrosecondType>(array, 1_000),
        Time64(_) => times::<Time64NanosecondType>(array, 1),
        Timestamp(unit, _) => match unit {
            TimeUnit::Second => instants::<TimestampSecondType>(array, nanoseconds(unit)),
            TimeUnit::Millisecond => instants::<TimestampMillisecondType>(array, nanoseconds(unit)),
            TimeUnit::Microsecond => instants::<TimestampMicrosecondType>(array, nanoseconds(unit)),
            TimeUnit::Nanosecond => instants::<TimestampNanosecondType>(array, nanoseconds(unit)),
        },
        Duration(unit) => match unit {
            TimeUnit::Second => instants::<DurationSecondType>(array, nanoseconds(unit)),
            TimeUnit::Millisecond => instants::<DurationMillisecondType>(array, nanoseconds(unit)),
            TimeUnit::Microsecond => instants::<DurationMicrosecondType>(array, nanoseconds(unit)),
            TimeUnit::Nanosecond => instants::<DurationNanosecondType>(array, nanoseconds(unit)),
        },
        Interval(IntervalUnit::YearMonth) => {
            plain::<IntervalYearMonthType, 17>(array, |months| interval(months, 0, 0))
        }
        Interval(IntervalUnit::DayTime) => plain::<IntervalDayTimeType, 17>(array, |value| {
            interval(0, value.days, i64::from(value.milliseconds) * 1_000_000)
        }),
        Interval(IntervalUnit::MonthDayNano) => {
            plain::<IntervalMonthDayNanoType, 17>(array, |value| {
                interval(value.months, value.days, value.nanoseconds)
            })
        }
        Utf8 => bytes(array, array.as_string::<i32>(), |array, row| array.value(row).as_bytes()),
        LargeUtf8 => {
            bytes(array, array.as_string::<i64>(), |array, row| array.value(row).as_bytes())
        }
        Utf8View => bytes(array, array.as_string_view(), |array, row| array.value(row).as_bytes()),
        Binary => bytes(array, array.as_binary::<i32>(), |array, row| array.value(row)),
        LargeBinary => bytes(array, array.as_binary::<i64>(), |array, row| array.value(row)),
        BinaryView => bytes(array, array.as_binary_view(), |array, row| array.value(row)),
        FixedSizeBinary(_) => {
            bytes(array, array.as_fixed_size_binary(), |array, row| array.value(row))
        }
        Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            chosen(keys(dictionary.keys()), dictionary.values())
        }
        RunEndEncoded(..) => downcast_run_array!(
            array => chosen(move |row| Some(array.get_physical_index(row)), array.values()),
            _ => unreachable!("an array of runs")
        ),
        List(_) => {
            let list = array.as_list::<i32>();
            let ends = list.value_offsets();
            items(array, list.values(), |row| ends[row] as usize..ends[row + 1] as usize)
        }
        LargeList(_) => {
            let list = array.as_list::<i64>();
            let ends = list.value_offsets();
            items(array, list.values(), |row| ends[row] as usize..ends[row + 1] as usize)
        }
        ListView(_) => {
            let list = array.as_list_view::<i32>();
            let (starts, sizes) = (list.value_offsets(), list.value_sizes());
            items(array, list.values(), |row| {
                starts[row] as usize..starts[row] as usize + sizes[row] as usize
            })
        }
        LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            let (starts, sizes) = (list.value_offsets(), list.value_sizes());
            items(array, list.values(), |row| {
                starts[row] as usize..starts[row] as usize + sizes[row] as usize
            })
        }
        FixedSizeList(_, size) => {
            let size = *size as usize;
            let list = array.as_fixed_size_list();
            items(array, list.values(), move |row| row * size..(row + 1) * size)
        }
        Map(..) => {
            let map = array.as_map();
            let ends = map.value_offsets();
            let entry =
                Tuple { array: None, fields: vec![column(map.keys()), column(map.values())] };
            let bounds = |row: usize| ends[row] as usize..ends[row + 1] as usize;
            Box::new(Items { array, items: Box::new(entry), bounds })
        }
        Struct(_) => {
            let fields = array.as_struct().columns().iter().map(|field| column(field)).collect();
            Box::new(Tuple { array: Some(array), fields })
        }
        Union(fields, _) => {
            let array = array.as_union();
            let children = fields.iter().map(|(id, _)| (id, column(array.child(id)))).collect();
            Box::new(Variants { array, children })
        }
    }
}

/// Encodes an eight-byte value.
fn whole(value: i64) -> [u8; 9] {
    marked(1, value.to_le_bytes())
}

/// Returns a value with a leading byte that marks it as not null.
fn marked(mark: u8, value: [u8; 8]) -> [u8; 9] {
    let mut bytes = [mark; 9];
    bytes[1..].copy_from_slice(&value);
    bytes
}

fn interval(months: i32, days: i32, nanoseconds: i64) -> [u8; 17] {
    let mut bytes = [1; 17];
    bytes[1..5].copy_from_slice(&months.to_le_bytes());
    bytes[5..9].copy_from_slice(&days.to_le_bytes());
    bytes[9..].copy_from_slice(&nanoseconds.to_le_bytes());
    bytes
}

/// Encodes a decimal with as few digits as possible so that 1.50 and 1.5 are equal.
fn decimal(mut digits: i256, scale: i8) -> [u8; 35] {
    let mut scale = i16::from(scale);
    if digits == i256::ZERO {
        scale = 0;
    }
    let ten = i256::from_i128(10);
    // Most numbers fit in a word, which can be divided much faster.
    while let Some(word) = digits.to_i128().and_then(|word| i64::try_from(word).ok()) {
        if word == 0 || word % 10 != 0 {
            return decimal_bytes(digits, scale);
        }
        (digits, scale) = (i256::from_i128((word / 10).into()), scale - 1);
    }
    while digits % ten == i256::ZERO {
        (digits, scale) = (digits / ten, scale - 1);
    }
    decimal_bytes(digits, scale)
}

fn decimal_bytes(digits: i256, scale: i16) -> [u8; 35] {
    let mut bytes = [1; 35];
    bytes[1..3].copy_from_slice(&scale.to_le_bytes());
    bytes[3..].copy_from_slice(&digits.to_le_bytes());
    bytes
}

/// Fixed-length values in an array of plain numbers.
struct PlainColumn<'a, A: ArrowPrimitiveType, F, const W: usize> {
    array: &'a PrimitiveArray<A>,
    encode: F,
}

impl<A, F, const W: usize> DigestColumn for PlainColumn<'_, A, F, W>
where
    A: ArrowPrimitiveType,
    F: Fn(A::Native) -> [u8; W] + Send + Sync,
{
    fn width(&self) -> Option<usize> {
        Some(W)
    }

    fn append(&self, row: usize, to: &mut Vec<u8>) {
        let is_null = self.array.is_null(row);
        let value = if is_null { [0; W] } else { (self.encode)(self.array.value(row)) };
        to.extend_from_slice(&value);
    }

    fn fill(&self, rows: Range<usize>, to: &mut ValueSlots<'_>) {
        let values = &self.array.values()[rows.clone()];
        match self.array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                for (&value, place) in values.iter().zip(to.of::<W>()) {
                    *place = (self.encode)(value);
                }
            }
            Some(nulls) => {
                for ((row, &value), place) in rows.zip(values).zip(to.of::<W>()) {
                    *place = if nulls.is_null(row) { [0; W] } else { (self.encode)(value) };
                }
            }
        }
    }
}

fn plain<'a, A: ArrowPrimitiveType, const W: usize>(
    array: &'a dyn Array,
    encode: impl Fn(A::Native) -> [u8; W] + Send + Sync + 'a,
) -> Box<dyn DigestColumn + 'a> {
    Box::new(PlainColumn { array: array.as_primitive::<A>(), encode })
}

fn integers<'a, A: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &'a dyn Array,
) -> Box<dyn DigestColumn + 'a> {
    plain::<A, 9>(array, |value| whole(value.into()))
}

fn floats<'a, A: ArrowPrimitiveType<Native: Into<f64>>>(
    array: &'a dyn Array,
) -> Box<dyn DigestColumn + 'a> {
    plain::<A, 9>(array, |value| marked(1, canonical(value.into()).to_bits().to_le_bytes()))
}

fn times<'a, A: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &'a dyn Array,
    nanoseconds: i64,
) -> Box<dyn DigestColumn + 'a> {
    // These types contain times of day. A value of one of these types can be out of range, but
    // still has a well-defined encoding.
    plain::<A, 9>(array, move |value| whole(value.into().wrapping_mul(nanoseconds)))
}

fn instants<'a, A: ArrowPrimitiveType<Native: Into<i128>>>(
    array: &'a dyn Array,
    nanoseconds: i128,
) -> Box<dyn DigestColumn + 'a> {
    plain::<A, 17>(array, move |value| {
        let mut bytes = [1; 17];
        bytes[1..].copy_from_slice(&(value.into() * nanoseconds).to_le_bytes());
        bytes
    })
}

fn decimals<'a, A: ArrowPrimitiveType<Native: Into<i256>>>(
    array: &'a dyn Array,
    scale: i8,
) -> Box<dyn DigestColumn + 'a> {
    plain::<A, 35>(array, move |value| decimal(value.into(), scale))
}

struct Nulls;

impl DigestColumn for Nulls {
    fn width(&self) -> Option<usize> {
        Some(1)
    }

    fn append(&self, _: usize, to: &mut Vec<u8>) {
        to.push(0);
    }
}

impl DigestColumn for &BooleanArray {
    fn width(&self) -> Option<usize> {
        Some(2)
    }

    fn append(&self, row: usize, to: &mut Vec<u8>) {
        let is_null = self.is_null(row);
        to.extend_from_slice(&if is_null { [0, 0] } else { [1, u8::from(self.value(row))] });
    }
}

/// Strings or bytes.
struct Bytes<'a, A, F> {
    array: &'a dyn Array,
    values: &'a A,
    value: F,
}

impl<A: Sync, F: Fn(&A, usize) -> &[u8] + Send + Sync> DigestColumn for Bytes<'_, A, F> {
    fn width(&self) -> Option<usize> {
        None
    }

    fn append(&self, row: usize, to: &mut Vec<u8>) {
        if self.array.is_null(row) {
            return to.push(0);
        }
        let value = (self.value)(self.values, row);
        to.extend_from_slice(&marked(1, (value.len() as u64).to_le_bytes()));
        to.extend_from_slice(value);
    }
}

fn bytes<'a, A: Sync, F: Fn(&A, usize) -> &[u8] + Send + Sync + 'a>(
    array: &'a dyn Array,
    values: &'a A,
    value: F,
) -> Box<dyn DigestColumn + 'a> {
    Box::new(Bytes { array, values, value })
}

/// Values that are stored indirectly, in a dictionary or in runs.
struct IndirectColumn<'a, F> {
    place: F,
    values: Box<dyn DigestColumn + 'a>,
}

impl<F: Fn(usize) -> Option<usize> + Send + Sync> DigestColumn for IndirectColumn<'_, F> {
    fn width(&self) -> Option<usize> {
        self.values.width()
    }

    fn append(&self, row: usize, to: &mut Vec<u8>) {
        match (self.place)(row) {
            Some(place) => self.values.append(place, to),
            None => to.resize(to.len() + self.width().unwrap_or(1), 0),
        }
    }
}

fn chosen<'a>(
    place: impl Fn(usize) -> Option<usize> + Send + Sync + 'a,
    values: &'a dyn Array,
) -> Box<dyn DigestColumn + 'a> {
    Box::new(IndirectColumn { place, values: column(values) })
}

/// Returns the position of a row's value in a dictionary, or `None` if the value is null.
fn keys<'a>(keys: &'a dyn Array) -> Box<dyn Fn(usize) -> Option<usize> + Send + Sync + 'a> {
    fn of<A: ArrowPrimitiveType<Native: arrow_buffer::ArrowNativeType>>(
        keys: &dyn Array,
    ) -> Box<dyn Fn(usize) -> Option<usize> + Send + Sync + '_> {
        use arrow_buffer::ArrowNativeType;
        let keys = keys.as_primitive::<A>();
        Box::new(move |row| (!keys.is_null(row)).then(|| keys.value(row).as_usize()))
    }
    macro_rules! of_type {
        ($type:ty, $keys:expr) => {
            of::<$type>($keys)
        };
    }
    downcast_integer! {
        keys.data_type() => (of_type, keys),
        _ => unreachable!("keys are integers")
    }
}

/// Lists of items. `bounds` returns the range of a row's items.
struct Items<'a, F> {
    array: &'a dyn Array,
    items: Box<dyn DigestColumn + 'a>,
    bounds: F,
}

impl<F: Fn(usize) -> Range<usize> + Send + Sync> DigestColumn for Items<'_, F> {
    fn width(&self) -> Option<usize> {
        None
    }

    fn append(&self, row: usize, to: &mut Vec<u8>) {
        if self.array.is_null(row) {
            return to.push(0);
        }
        let items = (self.bounds)(row);
        to.extend_from_slice(&marked(1, (items.len() as u64).to_le_bytes()));
        items.for_each(|item| self.items.append(item, to));
    }
}

fn items<'a>(
    array: &'a dyn Array,
    values: &'a dyn Array,
    bounds: impl Fn(usize) -> Range<usize> + Send + Sync + 'a,
) -> Box<dyn DigestColumn + 'a> {
    Box::new(Items { array, items: column(values), bounds })
}

/// Structs and map entries. Map entries are never null.
struct Tuple<'a> {
    array: Option<&'a dyn Array>,
    fields: Vec<Box<dyn DigestColumn + 'a>>,
}

impl DigestColumn for Tuple<'_> {
    fn width(&self) -> Option<usize> {
        None
    }

    fn append(&self, row: usize, to: &mut Vec<u8>) {
        if self.array.is_some_and(|array| array.is_null(row)) {
            return to.push(0);
        }
        to.push(1);
        self.fields.iter().for_each(|field| field.append(row, to));
    }
}

/// Unions.
struct Variants<'a> {
    array: &'a UnionArray,
    children: Vec<(i8, Box<dyn DigestColumn + 'a>)>,
}

impl DigestColumn for Variants<'_> {
    fn width(&self) -> Option<usize> {
        None
    }

    fn append(&self, row: usize, to: &mut Vec<u8>) {
        let id = self.array.type_id(row);
        to.extend([1, id.cast_unsigned()]);
        let child = self.children.iter().find(|(of, _)| *of == id);
        let (_, child) = child.expect("a union has a field for each type ID");
        child.append(self.array.value_offset(row), to);
    }
}
