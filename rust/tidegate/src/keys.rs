//! Key columns as dense numbers: equal keys get equal numbers, whatever the columns' layouts.
//!
//! The right side's keys are numbered, in parts by several threads; the left side's are looked up. A key that holds a
//! null, and a left key that no right row has, is [`NO_KEY`].
//!
//! Three ways, by what the key is:
//!
//! - *direct*: one column stored as 64-bit integers whose values span little more than there are rows. The number is
//!   the distance from the smallest.
//! - *integers*: any other such column: a hash table of integers.
//! - *bytes*: strings and binaries as they are, anything else and several columns through `arrow-row`'s encoding, in
//!   which equal keys are equal bytes: a hash table of byte strings.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, TimeUnit};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval_join::NO_KEY;
use tidegate_structures::pages::Pages;
use tidegate_structures::partition::ranges;
use tidegate_sync::Stop;

use crate::table::Table;
use crate::{Error, Result};

/// Rows a thread encodes at a time.
const PART_ROWS: usize = 1 << 16;

/// The numbers of both sides' keys.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) left: Pages<u32>,
    pub(crate) right: Pages<u32>,
    /// One more than the largest number.
    pub(crate) count: usize,
    /// How they were made, for people.
    pub(crate) method: &'static str,
}

/// A pair of columns whose values must be equal, and the type in which they are compared.
#[derive(Clone, Debug)]
pub(crate) struct KeyColumn {
    pub(crate) left: usize,
    pub(crate) right: usize,
    common: DataType,
}

impl KeyColumn {
    pub(crate) fn new(left: usize, left_field: &Field, right: usize, right_field: &Field) -> Result<Self> {
        let common = common_type(left_field.data_type(), right_field.data_type()).ok_or_else(|| {
            Error::schema(format!(
                "keys of these types cannot be compared: left `{}` is {}, right `{}` is {}; cast one of them",
                left_field.name(),
                left_field.data_type(),
                right_field.name(),
                right_field.data_type()
            ))
        })?;
        Ok(KeyColumn { left, right, common })
    }

    /// The type that holds the values of both sides.
    pub(crate) fn common_type(&self) -> &DataType {
        &self.common
    }
}

/// The type in which values of two types are compared for equality, if they can be.
pub(crate) fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary,
        FixedSizeBinary, Float64, Int64, LargeBinary, LargeUtf8, Null, Timestamp, UInt64, Utf8, Utf8View,
    };
    let string = |t: &DataType| matches!(t, Utf8 | LargeUtf8 | Utf8View);
    let binary = |t: &DataType| matches!(t, Binary | LargeBinary | BinaryView | FixedSizeBinary(_));
    match (left, right) {
        (Dictionary(_, values), other) | (other, Dictionary(_, values)) => common_type(values, other),
        (a, b) if a.is_signed_integer() && b.is_signed_integer() => Some(Int64),
        (a, b) if a.is_unsigned_integer() && b.is_unsigned_integer() => Some(UInt64),
        (a, b) if a.is_integer() && b.is_integer() => Some(Int64),
        (a, b) if a.is_floating() && b.is_floating() => Some(Float64),
        (a, b) if string(a) && string(b) => Some(if a == b { a.clone() } else { LargeUtf8 }),
        (a, b) if binary(a) && binary(b) => Some(if a == b { a.clone() } else { LargeBinary }),
        (Boolean | Null, Boolean | Null) => Some(Boolean),
        (Date32 | Date64, Date32 | Date64) => Some(if left == right { left.clone() } else { Date64 }),
        (Timestamp(a, zone), Timestamp(b, other)) if zone.is_some() == other.is_some() => {
            Some(Timestamp(finer(*a, *b), zone.clone()))
        }
        (
            Decimal32(a, s) | Decimal64(a, s) | Decimal128(a, s) | Decimal256(a, s),
            Decimal32(b, t) | Decimal64(b, t) | Decimal128(b, t) | Decimal256(b, t),
        ) => {
            let scale = *s.max(t);
            let whole = (i16::from(*a) - i16::from(*s)).max(i16::from(*b) - i16::from(*t));
            let digits = u8::try_from(whole + i16::from(scale)).ok()?;
            match digits {
                0..=38 => Some(Decimal128(digits, scale)),
                39..=76 => Some(Decimal256(digits, scale)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let rank = |unit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(a) >= rank(b) { a } else { b }
}

/// Numbers the keys of both sides.
pub(crate) fn encode(left: &Table, right: &Table, columns: &[KeyColumn], driver: &Driver) -> Result<Keys> {
    if let [column] = columns {
        if is_word(&column.common) {
            let left = words(left, column.left, &column.common, driver)?;
            let right = words(right, column.right, &column.common, driver)?;
            return match span(&right, driver)? {
                Some(span) if span.is_direct(left.rows() + right.rows()) => direct(&left, &right, span, driver),
                _ => dictionary::<IntegerTable, _>(&left, &right, "hashed integers", driver),
            };
        }
        if is_bytes(&column.common) {
            let left = ByteColumn { chunks: Chunks::new(left, left.chunks(column.left)) };
            let right = ByteColumn { chunks: Chunks::new(right, right.chunks(column.right)) };
            return dictionary::<ByteTable, _>(&left, &right, "hashed byte strings", driver);
        }
    }
    let left = RowColumns::new(left, columns.iter().map(|column| (column.left, &column.common)).collect());
    let right = RowColumns::new(right, columns.iter().map(|column| (column.right, &column.common)).collect());
    dictionary::<ByteTable, _>(&left, &right, "hashed rows of several columns", driver)
}

/// Numbers the keys of one table, for grouping. A null is a value like any other where there are several columns; the null
/// of a single column is [`NO_KEY`].
pub(crate) fn encode_groups(table: &Table, columns: &[KeyColumn], driver: &Driver) -> Result<Keys> {
    let nothing = Table::from(&**table.schema());
    if let [_] = columns {
        return encode(&nothing, table, columns, driver);
    }
    let rows = |table| {
        let columns = columns.iter().map(|column| (column.right, &column.common)).collect();
        RowColumns { nulls_are_values: true, ..RowColumns::new(table, columns) }
    };
    dictionary::<ByteTable, _>(&rows(&nothing), &rows(table), "hashed rows of several columns", driver)
}

/// Whether equality of the type is equality of 64-bit words, once floats are in canonical form.
pub(crate) fn is_word(data_type: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Float64, Int64, Timestamp, UInt64};
    matches!(data_type, Boolean | Date32 | Date64 | Float64 | Int64 | Timestamp(..) | UInt64)
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(data_type, Binary | BinaryView | FixedSizeBinary(_) | LargeBinary | LargeUtf8 | Utf8 | Utf8View)
}

/// A chunk as words: equal values, and only they, have equal words.
fn word_chunk(table: &Table, column: usize, chunk: &ArrayRef, common: &DataType) -> Result<Int64Array> {
    let failed = |error| {
        let name = table.schema().field(column).name().clone();
        Error::data(format!("{}: key column `{name}` cannot be compared as {common}: {error}", table.name()))
    };
    if let Some(values) = crate::time::as_int64(chunk)
        && chunk.data_type() == common
    {
        return Ok(Int64Array::new(values, chunk.nulls().cloned()));
    }
    let chunk = match chunk.data_type() {
        DataType::Dictionary(_, values) => cast(chunk, values).map_err(failed)?,
        _ => chunk.clone(),
    };
    // An unsigned key above the signed range has no equal on a side with signed keys; a null has none either.
    if *common == DataType::Int64 && *chunk.data_type() == DataType::UInt64 {
        return Ok(chunk.as_primitive::<UInt64Type>().unary_opt::<_, Int64Type>(|key| i64::try_from(key).ok()));
    }
    let strict = arrow_cast::CastOptions { safe: false, ..Default::default() };
    let plain = |to: &DataType| arrow_cast::cast_with_options(&chunk, to, &strict).map_err(failed);
    Ok(match common {
        DataType::Float64 => plain(common)?
            .as_primitive::<Float64Type>()
            .unary::<_, Int64Type>(|key| canonical(key).to_bits().cast_signed()),
        DataType::UInt64 => plain(common)?.as_primitive::<UInt64Type>().unary::<_, Int64Type>(u64::cast_signed),
        DataType::Date32 | DataType::Boolean => cast(&plain(common)?, &DataType::Int32)
            .and_then(|array| cast(&array, &DataType::Int64))
            .map_err(failed)?
            .as_primitive::<Int64Type>()
            .clone(),
        _ => {
            let array = plain(common)?;
            let values = crate::time::as_int64(&array).expect("a type stored as 64-bit integers");
            Int64Array::new(values, array.nulls().cloned())
        }
    })
}

/// One bit pattern for all NaN, and one for both zeros.
pub(crate) fn canonical(value: f64) -> f64 {
    if value.is_nan() {
        f64::NAN
    } else if value == 0.0 {
        0.0
    } else {
        value
    }
}

/// The chunks of a column and where each starts.
struct Chunks {
    arrays: Vec<ArrayRef>,
    starts: Vec<usize>,
}

impl Chunks {
    fn new(table: &Table, arrays: Vec<ArrayRef>) -> Self {
        let mut starts = vec![0];
        starts.extend(table.batches().iter().scan(0, |rows, batch| {
            *rows += batch.num_rows();
            Some(*rows)
        }));
        Chunks { arrays, starts }
    }

    fn rows(&self) -> usize {
        *self.starts.last().expect("a start and the end")
    }

    /// The parts of chunks that make up a range of rows: chunk number and range in it.
    fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let bounds = self.starts.windows(2).enumerate();
        bounds.filter_map(move |(chunk, bounds)| {
            let (start, end) = (rows.start.max(bounds[0]), rows.end.min(bounds[1]));
            (start < end).then(|| (chunk, start - bounds[0]..end - bounds[0]))
        })
    }
}

/// A side's keys, handed out row by row.
trait KeySource: Sync {
    type Key: ?Sized;

    fn rows(&self) -> usize;

    /// Calls `each` with every key of a range of rows, in order; `None` for a key that holds a null.
    fn for_each(&self, rows: Range<usize>, each: impl FnMut(Option<&Self::Key>)) -> Result<()>;
}

/// Distinct keys and their numbers, in order of first appearance.
trait KeyTable: Default + Send + Sync {
    type Key: ?Sized;

    fn number_of(&self, key: &Self::Key) -> Option<u32>;
    fn insert(&mut self, key: &Self::Key) -> u32;
    fn len(&self) -> usize;
    fn for_each(&self, each: impl FnMut(&Self::Key));
}

/// Numbers the right keys through a hash table and looks the left ones up.
fn dictionary<T, S>(left: &S, right: &S, method: &'static str, driver: &Driver) -> Result<Keys>
where
    T: KeyTable,
    S: KeySource<Key = T::Key>,
{
    // 1. Each thread numbers the keys of its part of the right side.
    let parts = ranges(right.rows(), driver.parts(right.rows(), PART_ROWS));
    let mut numbers = Pages::new(right.rows());
    let slices = split(&mut numbers, &parts);
    let tables = driver.map(parts.iter().cloned().zip(slices).collect(), |(rows, out)| {
        let mut table = T::default();
        let mut out = out.iter_mut();
        right.for_each(rows, |key| {
            *out.next().expect("a place a row") = key.map_or(NO_KEY, |key| table.insert(key));
        })?;
        Ok(table)
    })?;
    let mut tables = tables.into_iter().collect::<Result<Vec<T>>>()?.into_iter();
    // 2. The first part's numbers stay; the others' are translated.
    let mut all = tables.next().unwrap_or_default();
    let translations: Vec<Vec<u32>> = tables
        .map(|table| {
            let mut translation = Vec::with_capacity(table.len());
            table.for_each(|key| translation.push(all.insert(key)));
            translation
        })
        .collect();
    let later = split(&mut numbers, &parts).into_iter().skip(1).zip(&translations).collect();
    driver.map(later, |(part, translation): (&mut [u32], &Vec<u32>)| {
        part.iter_mut().filter(|number| **number != NO_KEY).for_each(|number| *number = translation[*number as usize]);
    })?;
    // 3. Left keys are looked up.
    let parts = ranges(left.rows(), left.rows().div_ceil(PART_ROWS));
    let mut found = Pages::new(left.rows());
    let slices = split(&mut found, &parts);
    let looked_up = driver.map(parts.into_iter().zip(slices).collect(), |(rows, out)| {
        let mut out = out.iter_mut();
        left.for_each(rows, |key| {
            *out.next().expect("a place a row") = key.and_then(|key| all.number_of(key)).unwrap_or(NO_KEY);
        })
    })?;
    looked_up.into_iter().collect::<Result<()>>()?;
    Ok(Keys { left: found, right: numbers, count: all.len(), method })
}

/// The keys of one side, for a caller that numbers them itself.
pub(crate) enum SideKeys<'a> {
    Words(WordColumn),
    Bytes(ByteColumn),
    Rows(RowColumns<'a>),
}

impl<'a> SideKeys<'a> {
    /// Whether keys of these columns are words; they are byte strings otherwise.
    pub(crate) fn are_words(columns: &[KeyColumn]) -> bool {
        matches!(columns, [column] if is_word(&column.common))
    }

    /// The keys in columns of a table, compared in these types.
    pub(crate) fn new(table: &'a Table, columns: &[(usize, &'a DataType)]) -> Result<Self> {
        Ok(match columns {
            [(column, common)] if is_word(common) => {
                SideKeys::Words(words(table, *column, common, &Driver::new(1, Stop::default()))?)
            }
            [(column, common)] if is_bytes(common) => {
                SideKeys::Bytes(ByteColumn { chunks: Chunks::new(table, table.chunks(*column)) })
            }
            columns => SideKeys::Rows(RowColumns::new(table, columns.to_vec())),
        })
    }

    /// Calls `each` with every key in row order; `None` for one that holds a null.
    pub(crate) fn for_each_word(&self, mut each: impl FnMut(Option<i64>)) -> Result<()> {
        match self {
            SideKeys::Words(keys) => keys.for_each(0..keys.rows(), |key| each(key.copied())),
            _ => Err(Error::bug("these keys are no words")),
        }
    }

    /// As [`for_each_word`](Self::for_each_word), for keys that are byte strings.
    pub(crate) fn for_each_bytes(&self, each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        match self {
            SideKeys::Bytes(keys) => keys.for_each(0..keys.rows(), each),
            SideKeys::Rows(keys) => keys.for_each(0..keys.rows(), each),
            SideKeys::Words(_) => Err(Error::bug("these keys are words")),
        }
    }
}

/// The slices of `values` that consecutive ranges stand for.
pub(crate) fn split<'a>(mut values: &'a mut [u32], parts: &[Range<usize>]) -> Vec<&'a mut [u32]> {
    let cut = |part: &Range<usize>| {
        let (head, rest) = std::mem::take(&mut values).split_at_mut(part.len());
        values = rest;
        head
    };
    parts.iter().map(cut).collect()
}

/// A column as words.
pub(crate) struct WordColumn {
    chunks: Vec<(ScalarBuffer<i64>, Option<NullBuffer>)>,
    starts: Chunks,
}

fn words(table: &Table, column: usize, common: &DataType, driver: &Driver) -> Result<WordColumn> {
    let arrays = table.chunks(column);
    let chunks = driver.map(arrays, |chunk| word_chunk(table, column, &chunk, common))?;
    let chunks = chunks.into_iter().map(|chunk| {
        chunk.map(|chunk| {
            let (_, values, nulls) = chunk.into_parts();
            (values, nulls.filter(|nulls| nulls.null_count() > 0))
        })
    });
    Ok(WordColumn { chunks: chunks.collect::<Result<_>>()?, starts: Chunks::new(table, Vec::new()) })
}

impl KeySource for WordColumn {
    type Key = i64;

    fn rows(&self) -> usize {
        self.starts.rows()
    }

    fn for_each(&self, rows: Range<usize>, mut each: impl FnMut(Option<&i64>)) -> Result<()> {
        for (chunk, range) in self.starts.pieces(rows) {
            let (values, nulls) = &self.chunks[chunk];
            match nulls {
                None => values[range].iter().for_each(|key| each(Some(key))),
                Some(nulls) => range.for_each(|row| each(nulls.is_valid(row).then_some(&values[row]))),
            }
        }
        Ok(())
    }
}

/// The smallest and the largest key.
#[derive(Clone, Copy)]
struct Span {
    low: i64,
    high: i64,
}

impl Span {
    /// Whether numbering by distance costs no more memory than a hash table of the rows would.
    fn is_direct(self, rows: usize) -> bool {
        self.high.checked_sub(self.low).is_some_and(|width| (width as u64) < 2 * rows as u64 + 1024)
    }
}

fn span(column: &WordColumn, driver: &Driver) -> Result<Option<Span>> {
    let parts = ranges(column.rows(), column.rows().div_ceil(PART_ROWS));
    let spans = driver.map(parts, |rows| {
        let mut span: Option<Span> = None;
        let mut widen = |low: i64, high: i64| {
            let wide = span.get_or_insert(Span { low, high });
            *wide = Span { low: wide.low.min(low), high: wide.high.max(high) };
        };
        for (chunk, range) in column.starts.pieces(rows) {
            let (values, nulls) = &column.chunks[chunk];
            match nulls {
                // Minimum and maximum in one pass each, so that both are vectorised.
                None => widen(
                    values[range.clone()].iter().copied().fold(i64::MAX, i64::min),
                    values[range].iter().copied().fold(i64::MIN, i64::max),
                ),
                Some(nulls) => range.filter(|&row| nulls.is_valid(row)).for_each(|row| widen(values[row], values[row])),
            }
        }
        span
    })?;
    let wider = |a: Span, b: Span| Span { low: a.low.min(b.low), high: a.high.max(b.high) };
    Ok(spans.into_iter().flatten().reduce(wider))
}

/// Numbers keys by their distance from the smallest right one.
fn direct(left: &WordColumn, right: &WordColumn, span: Span, driver: &Driver) -> Result<Keys> {
    let width = span.high.abs_diff(span.low);
    let number = |key: i64| {
        let distance = (key as u64).wrapping_sub(span.low as u64);
        if distance <= width { distance as u32 } else { NO_KEY }
    };
    let side = |column: &WordColumn| -> Result<Pages<u32>> {
        let parts = ranges(column.rows(), column.rows().div_ceil(PART_ROWS));
        let mut numbers = Pages::new(column.rows());
        let slices = split(&mut numbers, &parts);
        driver.map(parts.into_iter().zip(slices).collect(), |(rows, mut out): (_, &mut [u32])| {
            for (chunk, range) in column.starts.pieces(rows) {
                let (values, nulls) = &column.chunks[chunk];
                let (head, rest) = std::mem::take(&mut out).split_at_mut(range.len());
                out = rest;
                head.iter_mut().zip(&values[range.clone()]).for_each(|(out, &key)| *out = number(key));
                if let Some(nulls) = nulls {
                    head.iter_mut()
                        .zip(range)
                        .filter(|(_, row)| nulls.is_null(*row))
                        .for_each(|(out, _)| *out = NO_KEY);
                }
            }
        })?;
        Ok(numbers)
    };
    Ok(Keys { left: side(left)?, right: side(right)?, count: width as usize + 1, method: "direct integers" })
}

const HASHER: FixedState = FixedState::with_seed(0x7469_6465);

#[derive(Default)]
struct IntegerTable {
    numbers: HashTable<u32>,
    keys: Vec<i64>,
}

impl KeyTable for IntegerTable {
    type Key = i64;

    fn number_of(&self, key: &i64) -> Option<u32> {
        self.numbers.find(HASHER.hash_one(key), |&number| self.keys[number as usize] == *key).copied()
    }

    fn insert(&mut self, key: &i64) -> u32 {
        let IntegerTable { numbers, keys } = self;
        let same = |&number: &u32| keys[number as usize] == *key;
        match numbers.find(HASHER.hash_one(key), same) {
            Some(&number) => number,
            None => {
                let number = keys.len() as u32;
                keys.push(*key);
                numbers.insert_unique(HASHER.hash_one(key), number, |&number| HASHER.hash_one(keys[number as usize]));
                number
            }
        }
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn for_each(&self, each: impl FnMut(&i64)) {
        self.keys.iter().for_each(each);
    }
}

#[derive(Default)]
struct ByteTable {
    numbers: HashTable<(u64, u32)>,
    /// The distinct keys, one after the other.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteTable {
    fn key(bytes: &[u8], ends: &[usize], number: u32) -> std::ops::Range<usize> {
        debug_assert!(ends[number as usize] <= bytes.len());
        let start = if number == 0 { 0 } else { ends[number as usize - 1] };
        start..ends[number as usize]
    }
}

impl KeyTable for ByteTable {
    type Key = [u8];

    fn number_of(&self, key: &[u8]) -> Option<u32> {
        let hash = HASHER.hash_one(key);
        let same = |&(other, number): &(u64, u32)| {
            other == hash && &self.bytes[Self::key(&self.bytes, &self.ends, number)] == key
        };
        self.numbers.find(hash, same).map(|&(_, number)| number)
    }

    fn insert(&mut self, key: &[u8]) -> u32 {
        if let Some(number) = self.number_of(key) {
            return number;
        }
        let (hash, number) = (HASHER.hash_one(key), self.ends.len() as u32);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.numbers.insert_unique(hash, (hash, number), |&(hash, _)| hash);
        number
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn for_each(&self, mut each: impl FnMut(&[u8])) {
        (0..self.ends.len() as u32).for_each(|number| each(&self.bytes[Self::key(&self.bytes, &self.ends, number)]));
    }
}

/// A column of strings or binaries, dictionary-encoded or not.
pub(crate) struct ByteColumn {
    chunks: Chunks,
}

impl KeySource for ByteColumn {
    type Key = [u8];

    fn rows(&self) -> usize {
        self.chunks.rows()
    }

    fn for_each(&self, rows: Range<usize>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        for (chunk, range) in self.chunks.pieces(rows) {
            bytes(&self.chunks.arrays[chunk].slice(range.start, range.len()), &mut each)?;
        }
        Ok(())
    }
}

fn bytes(array: &dyn Array, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().for_each(|key| each(key.map(str::as_bytes))),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().for_each(|key| each(key.map(str::as_bytes))),
        DataType::Utf8View => array.as_string_view().iter().for_each(|key| each(key.map(str::as_bytes))),
        DataType::Binary => array.as_binary::<i32>().iter().for_each(each),
        DataType::LargeBinary => array.as_binary::<i64>().iter().for_each(each),
        DataType::BinaryView => array.as_binary_view().iter().for_each(each),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().for_each(each),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = cast(dictionary.values(), &DataType::LargeBinary)?;
            let values = values.as_binary::<i64>();
            let codes = cast(dictionary.keys(), &DataType::UInt32)?;
            let value = |code: u32| values.is_valid(code as usize).then(|| values.value(code as usize));
            codes.as_primitive::<UInt32Type>().iter().for_each(|code| each(code.and_then(value)));
        }
        other => return Err(Error::bug(format!("{other} is no string or binary type"))),
    }
    Ok(())
}

/// Several columns, or one of any other type, as encoded rows.
pub(crate) struct RowColumns<'a> {
    table: &'a Table,
    columns: Vec<(usize, &'a DataType)>,
    chunks: Chunks,
    /// Whether a row with a null has a key.
    nulls_are_values: bool,
}

impl<'a> RowColumns<'a> {
    fn new(table: &'a Table, columns: Vec<(usize, &'a DataType)>) -> Self {
        RowColumns { table, columns, chunks: Chunks::new(table, Vec::new()), nulls_are_values: false }
    }

    /// The type in which a column enters the encoding.
    fn encoded_type(common: &DataType) -> DataType {
        match common {
            _ if is_word(common) => DataType::Int64,
            DataType::Utf8 | DataType::Utf8View => DataType::LargeUtf8,
            DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::LargeBinary,
            other => other.clone(),
        }
    }

    fn column(&self, column: usize, common: &DataType, chunk: &ArrayRef) -> Result<ArrayRef> {
        if is_word(common) {
            return Ok(Arc::new(word_chunk(self.table, column, chunk, common)?));
        }
        Ok(cast(chunk, &Self::encoded_type(common))?)
    }
}

impl KeySource for RowColumns<'_> {
    type Key = [u8];

    fn rows(&self) -> usize {
        self.chunks.rows()
    }

    fn for_each(&self, rows: Range<usize>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        /// Rows encoded at a time: their bytes should stay in a cache.
        const ENCODED: usize = 1 << 12;
        let fields = self.columns.iter().map(|(_, common)| SortField::new(Self::encoded_type(common)));
        let converter = RowConverter::new(fields.collect())?;
        for (chunk, range) in self.chunks.pieces(rows) {
            let batch = &self.table.batches()[chunk];
            for start in range.clone().step_by(ENCODED) {
                let len = ENCODED.min(range.end - start);
                let columns = self
                    .columns
                    .iter()
                    .map(|&(column, common)| self.column(column, common, &batch.column(column).slice(start, len)));
                let columns = columns.collect::<Result<Vec<_>>>()?;
                let nulls = columns
                    .iter()
                    .fold(None, |nulls, column| NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref()));
                let encoded = converter.convert_columns(&columns)?;
                for (row, key) in encoded.iter().enumerate() {
                    let valid = self.nulls_are_values || nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                    each(valid.then_some(key.as_ref()));
                }
            }
        }
        Ok(())
    }
}
