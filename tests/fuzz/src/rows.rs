//! Drawn tables: Arrow columns, and the same values in a form that an oracle can compare.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch,
    RecordBatchOptions, StringArray, UInt32Array,
};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;
use arrow_select::take::{take, take_record_batch};
use tidegate::Bound;
use tidegate::stream::Lateness;

use crate::draw::Draw;

/// The properties that both tables of a query share.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The types of the two time columns.
    pub(crate) times: [DataType; 2],
    /// Whether times are as far apart as possible; for 64-bit integers only.
    pub(crate) is_extreme: bool,
    /// The types of the columns `from` and `to` of both sides, if rows have intervals.
    spans: Option<[[DataType; 2]; 2]>,
    keys: [DataType; 2],
    pub(crate) value: DataType,
    has_list: bool,
}

/// A number at the centre of a band, or one that is added up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Whole(i128),
    Float(f64),
}

/// Rows with the values that an oracle needs.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) batch: RecordBatch,
    /// Times in nanoseconds, or in steps for integers.
    pub(crate) ts: Vec<i128>,
    /// Codes of the values of `k` and `g`. Equal values have the same code.
    pub(crate) keys: Vec<[Option<u8>; 2]>,
    pub(crate) values: Vec<Option<Number>>,
    /// The start and end of each row's interval, in the unit of `ts`; empty if rows have no
    /// intervals.
    pub(crate) spans: Vec<[Option<i128>; 2]>,
}

/// The columns of the left table. On the right, the time column is called `at`.
const NAMES: [&str; 6] = ["ts", "k", "g", "x", "s", "id"];

const EXTREMES: [i64; 9] = [i64::MIN, i64::MIN + 1, -2, -1, 0, 1, 2, i64::MAX - 1, i64::MAX];

impl Layout {
    pub(crate) fn draw(draw: &mut Draw<'_>) -> Self {
        let times = draw.pick(&times_that_compare());
        Layout::with_times(&times, draw)
    }

    /// Draws the layout of rows with intervals.
    pub(crate) fn draw_with_spans(draw: &mut Draw<'_>) -> Self {
        let times = draw.pick(&times_that_compare());
        let layout = Layout::with_times(&times, draw);
        let times = if layout.is_extreme { vec![DataType::Int64] } else { times };
        let spans = [0, 1].map(|_| [draw.pick(&times), draw.pick(&times)]);
        Layout { spans: Some(spans), ..layout }
    }

    fn with_times(times: &[DataType], draw: &mut Draw<'_>) -> Self {
        let text = || DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let keys = [
            vec![DataType::Int64, DataType::Int32, DataType::UInt8, DataType::UInt64],
            vec![DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, text()],
            vec![DataType::Float64, DataType::Float32],
        ];
        let keys = draw.pick(&keys);
        let times = [draw.pick(times), draw.pick(times)];
        let is_extreme = times.iter().all(|time| *time == DataType::Int64) && draw.once_in(8);
        Layout {
            times,
            is_extreme,
            keys: [draw.pick(&keys), draw.pick(&keys)],
            value: draw.pick(&[
                DataType::Int64,
                DataType::Float64,
                DataType::Int32,
                DataType::Decimal128(9, 2),
            ]),
            has_list: draw.once_in(4),
            spans: None,
        }
    }

    /// Returns whether times are integers.
    pub(crate) fn is_whole(&self) -> bool {
        self.times[0].is_integer()
    }

    /// Returns a duration in the form that a caller passes.
    pub(crate) fn bound(&self, length: i128) -> Bound {
        if self.is_whole() { Bound::Steps(length) } else { Bound::Nanoseconds(length) }
    }

    /// Returns how far rows may be out of order, in the form that a caller passes.
    pub(crate) fn lateness(&self, lateness: i128) -> Lateness {
        (lateness > 0).then(|| self.bound(lateness)).into()
    }

    /// Returns the nanoseconds in a step of each side's time, or 1 for integers.
    pub(crate) fn steps(&self) -> [i128; 2] {
        self.times.each_ref().map(step)
    }

    /// Returns the step in which times and durations are drawn, so that times of both sides can be
    /// equal.
    pub(crate) fn tick(&self) -> i128 {
        let spans = self.spans.iter().flatten().flatten();
        self.times.iter().chain(spans).map(step).max().expect("two times")
    }

    fn schema(&self, side: usize) -> SchemaRef {
        let types = [
            self.times[side].clone(),
            self.keys[side].clone(),
            DataType::Boolean,
            self.value.clone(),
            DataType::Utf8,
            DataType::UInt32,
        ];
        let field = |(name, data_type): (&str, DataType)| {
            let name = if name == "ts" && side == 1 { "at" } else { name };
            Field::new(name, data_type, !matches!(name, "ts" | "at" | "id"))
        };
        let mut fields: Vec<Field> = NAMES.into_iter().zip(types).map(field).collect();
        if let Some(spans) = &self.spans {
            let ends = ["from", "to"].into_iter().zip(&spans[side]);
            fields.extend(ends.map(|(name, data_type)| Field::new(name, data_type.clone(), true)));
        }
        if self.has_list {
            fields.push(Field::new_list("l", Field::new("item", DataType::Int64, true), true));
        }
        Arc::new(Schema::new(fields))
    }

    /// Draws `count` rows of a side, in any order of time.
    pub(crate) fn rows(&self, draw: &mut Draw<'_>, side: usize, count: usize) -> Rows {
        let (step, tick) = (self.steps()[side], self.tick());
        let unsigned = is_unsigned(&self.times[side]);
        // A few rows are close together. Many rows are spread out, or all of them would match each
        // other.
        let span = 12.max(count as i32);
        let (nulls, dense) = (draw.flip(), draw.flip());
        let mut rows = Rows {
            batch: RecordBatch::new_empty(self.schema(side)),
            ts: vec![],
            keys: vec![],
            values: vec![],
            spans: vec![],
        };
        // A row whose interval ends before it starts is refused, so few tables contain one.
        let are_some_wrong = self.spans.is_some() && draw.once_in(16);
        let mut texts = Vec::new();
        for _ in 0..count {
            let null = |draw: &mut Draw<'_>| nulls && draw.once_in(6);
            let ts = match self.is_extreme {
                true => i128::from(draw.pick(&EXTREMES)),
                false => {
                    let ts = tick
                        * draw.signed(if unsigned { 0 } else { -2 }, if dense { 3 } else { span });
                    ts + if step < tick && draw.once_in(3) { step } else { 0 }
                }
            };
            rows.ts.push(ts);
            let key = |draw: &mut Draw<'_>, most| (!null(draw)).then(|| draw.number(0, most) as u8);
            rows.keys.push([key(draw, 2), key(draw, 1)]);
            rows.values.push((!null(draw)).then(|| self.number(draw)));
            texts.push((!null(draw)).then(|| draw.pick(&["", "a", "ab", "b"])));
            if self.spans.is_some() {
                let is_wrong = are_some_wrong && draw.once_in(4);
                let ends = self.span(side, if dense { 3 } else { span }, is_wrong, draw);
                rows.spans.push(ends.map(|end| (!null(draw)).then_some(end)));
            }
        }
        rows.batch = self.batch(&rows, side, &texts, draw);
        rows
    }

    /// Draws the start and end of an interval. A wrong interval ends before it starts.
    fn span(&self, side: usize, last: i32, is_wrong: bool, draw: &mut Draw<'_>) -> [i128; 2] {
        let types = &self.spans.as_ref().expect("rows with intervals")[side];
        if self.is_extreme {
            let [a, b] = [0, 1].map(|_| i128::from(draw.pick(&EXTREMES)));
            return if is_wrong { [a.max(b), a.min(b)] } else { [a.min(b), a.max(b)] };
        }
        let (steps, tick) = (types.each_ref().map(step), self.tick());
        let between = |step: i128, draw: &mut Draw<'_>| match step < tick && draw.once_in(3) {
            true => step,
            false => 0,
        };
        // Ensures that an end one tick earlier is a valid value of the type.
        let first = if types.iter().any(is_unsigned) { 1 } else { -2 };
        let from = tick * draw.signed(first, last) + between(steps[0], draw);
        let length = match draw.number(0, 7) {
            _ if is_wrong => return [from, round_up(from - tick, steps[1])],
            0 => 0,
            1 => draw.signed(0, last),
            _ => draw.signed(0, 4),
        };
        [from, round_up(from + tick * length, steps[1]) + between(steps[1], draw)]
    }

    fn number(&self, draw: &mut Draw<'_>) -> Number {
        const FLOATS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, -0.0, 0.0, 1e16, -1e16, f64::NAN, 1e-9];
        match self.value {
            DataType::Float64 => Number::Float(draw.pick(&FLOATS)),
            _ => Number::Whole(draw.signed(-3, 9)),
        }
    }

    fn batch(
        &self,
        rows: &Rows,
        side: usize,
        texts: &[Option<&str>],
        draw: &mut Draw<'_>,
    ) -> RecordBatch {
        let schema = self.schema(side);
        let ids = UInt32Array::from_iter_values(0..rows.ts.len() as u32);
        let mut columns: Vec<ArrayRef> = vec![
            time_column(rows.ts.iter().copied().map(Some), &self.times[side]),
            key_column(&rows.keys, &self.keys[side], draw),
            Arc::new(
                rows.keys
                    .iter()
                    .map(|keys| keys[1].map(|code| code == 1))
                    .collect::<BooleanArray>(),
            ),
            value_column(&rows.values, &self.value),
            Arc::new(texts.iter().copied().collect::<StringArray>()),
            Arc::new(ids),
        ];
        for (end, data_type) in self.spans.iter().flat_map(|spans| &spans[side]).enumerate() {
            columns.push(time_column(rows.spans.iter().map(|span| span[end]), data_type));
        }
        if self.has_list {
            let list = |row: i64| {
                (row % 5 != 1).then(|| (0..row % 3).map(move |at| (at != 1).then_some(row)))
            };
            let lists = (0..rows.ts.len() as i64).map(list);
            columns.push(Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)));
        }
        RecordBatch::try_new(schema, columns).expect("the columns match the schema")
    }
}

/// Returns lists of types whose times can be compared.
fn times_that_compare() -> [Vec<DataType>; 3] {
    let naive = |unit| DataType::Timestamp(unit, None);
    let zoned = |unit, zone: &str| DataType::Timestamp(unit, Some(zone.into()));
    [
        vec![DataType::Int64, DataType::Int32, DataType::UInt32, DataType::UInt64],
        vec![
            naive(TimeUnit::Millisecond),
            naive(TimeUnit::Microsecond),
            naive(TimeUnit::Second),
            DataType::Date32,
        ],
        vec![zoned(TimeUnit::Millisecond, "UTC"), zoned(TimeUnit::Microsecond, "Europe/Paris")],
    ]
}

/// Returns the nanoseconds in a step of a time type, or 1 for integers.
fn step(time: &DataType) -> i128 {
    match time {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Date32 => 86_400_000_000_000,
        _ => 1,
    }
}

fn is_unsigned(time: &DataType) -> bool {
    matches!(time, DataType::UInt32 | DataType::UInt64)
}

/// Returns the first multiple of `step` that is not below `time`.
fn round_up(time: i128, step: i128) -> i128 {
    -(-time).div_euclid(step) * step
}

/// Builds a column of times from nanoseconds or integers.
pub(crate) fn time_column(
    times: impl Iterator<Item = Option<i128>>,
    data_type: &DataType,
) -> ArrayRef {
    let step = step(data_type);
    let times: Int64Array = times.map(|time| time.map(|time| (time / step) as i64)).collect();
    let times = match data_type {
        // A date is built from days, not from milliseconds.
        DataType::Date32 => {
            cast(&cast(&times, &DataType::Int32).expect("the days fit"), &DataType::Date32)
        }
        data_type => cast(&times, data_type),
    };
    times.expect("times of the type")
}

/// Builds the column `k`. The order of its values is that of their codes.
fn key_column(keys: &[[Option<u8>; 2]], data_type: &DataType, draw: &mut Draw<'_>) -> ArrayRef {
    let codes = keys.iter().map(|keys| keys[0].map(usize::from));
    let column: ArrayRef = match data_type {
        t if t.is_integer() => {
            Arc::new(codes.map(|code| code.map(|code| [0, 1, 100][code])).collect::<Int64Array>())
        }
        t if t.is_floating() => {
            // Both zeros are the same key.
            let mut zero = || if draw.flip() { -0.0 } else { 0.0 };
            let value = |code: Option<usize>| code.map(|code| [zero(), 1.5, f64::NAN][code]);
            Arc::new(codes.map(value).collect::<Float64Array>())
        }
        _ => Arc::new(
            codes.map(|code| code.map(|code| ["", "a", "é"][code])).collect::<StringArray>(),
        ),
    };
    cast(&column, data_type).expect("keys of the type")
}

/// Builds the column `x`.
fn value_column(values: &[Option<Number>], data_type: &DataType) -> ArrayRef {
    let column: ArrayRef = match data_type {
        DataType::Float64 => {
            Arc::new(values.iter().map(|value| value.map(Number::float)).collect::<Float64Array>())
        }
        _ => Arc::new(values.iter().map(|value| value.map(Number::whole)).collect::<Int64Array>()),
    };
    cast(&column, data_type).expect("numbers of the type")
}

impl Number {
    pub(crate) fn float(self) -> f64 {
        match self {
            Number::Whole(whole) => whole as f64,
            Number::Float(float) => float,
        }
    }

    fn whole(self) -> i64 {
        match self {
            Number::Whole(whole) => whole as i64,
            Number::Float(float) => float as i64,
        }
    }
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.ts.len()
    }

    /// Returns the rows with these numbers, in this order.
    pub(crate) fn take(&self, rows: &[usize]) -> Rows {
        let places = UInt32Array::from_iter_values(rows.iter().map(|&row| row as u32));
        Rows {
            batch: take_record_batch(&self.batch, &places).expect("rows of the batch"),
            ts: rows.iter().map(|&row| self.ts[row]).collect(),
            keys: rows.iter().map(|&row| self.keys[row]).collect(),
            values: rows.iter().map(|&row| self.values[row]).collect(),
            spans: rows.iter().filter_map(|&row| self.spans.get(row).copied()).collect(),
        }
    }

    /// Concatenates tables of one layout.
    /// Returns the values of `id`.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let ids = self.batch.column_by_name("id").expect("a column");
        ids.as_primitive::<UInt32Type>().values().to_vec()
    }

    pub(crate) fn concat(parts: &[Rows]) -> Rows {
        let batches: Vec<RecordBatch> = parts.iter().map(|part| part.batch.clone()).collect();
        Rows {
            batch: concat(&batches[0].schema(), &batches),
            ts: parts.iter().flat_map(|part| part.ts.clone()).collect(),
            keys: parts.iter().flat_map(|part| part.keys.clone()).collect(),
            values: parts.iter().flat_map(|part| part.values.clone()).collect(),
            spans: parts.iter().flat_map(|part| part.spans.clone()).collect(),
        }
    }

    /// Divides the rows at drawn places.
    pub(crate) fn chunks(&self, draw: &mut Draw<'_>) -> Vec<RecordBatch> {
        let mut cuts = vec![0, self.len()];
        for _ in 0..draw.number(0, 3) {
            cuts.push(draw.number(0, self.len() as u32) as usize);
        }
        cuts.sort_unstable();
        cuts.windows(2).map(|cut| self.batch.slice(cut[0], cut[1] - cut[0])).collect()
    }
}

/// Concatenates batches.
pub(crate) fn concat(schema: &SchemaRef, batches: &[RecordBatch]) -> RecordBatch {
    concat_batches(schema, batches).expect("batches of one schema")
}

/// Returns the values of a column for these rows, and null for each `None`.
pub(crate) fn pick(column: &ArrayRef, rows: impl Iterator<Item = Option<usize>>) -> ArrayRef {
    let rows: UInt32Array = rows.map(|row| row.map(|row| row as u32)).collect();
    take(column, &rows, None).expect("rows of the column")
}

/// Sorts a result by the row numbers of its sides, for results that may be emitted in any order.
pub(crate) fn by_number(batch: &RecordBatch) -> RecordBatch {
    let numbers = |name: &str| -> Vec<Option<u32>> {
        batch.column_by_name(name).map_or(vec![None; batch.num_rows()], |ids| {
            ids.as_primitive::<UInt32Type>().iter().collect()
        })
    };
    let (left, right) = (numbers("id"), numbers("id_right"));
    let mut order: Vec<u32> = (0..batch.num_rows() as u32).collect();
    order.sort_by_key(|&row| (left[row as usize], right[row as usize]));
    take_record_batch(batch, &UInt32Array::from(order)).expect("rows of the batch")
}

/// Builds a batch from named columns.
pub(crate) fn batch_of(columns: Vec<(String, ArrayRef)>, rows: usize) -> RecordBatch {
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns
        .into_iter()
        .map(|(name, column)| (Field::new(name, column.data_type().clone(), true), column))
        .unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .expect("columns of equal length")
}

/// Panics unless both batches have the same columns and rows, bit by bit. Strings may differ in
/// layout.
pub(crate) fn assert_same(
    found: &RecordBatch,
    wanted: &RecordBatch,
    context: &dyn std::fmt::Debug,
) {
    let names = |batch: &RecordBatch| -> Vec<String> {
        batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    };
    assert_eq!(names(found), names(wanted), "{context:#?}");
    assert_eq!(
        found.num_rows(),
        wanted.num_rows(),
        "rows of {found:#?}, wanted {wanted:#?}; {context:#?}"
    );
    for (at, (found, wanted)) in found.columns().iter().zip(wanted.columns()).enumerate() {
        let (found, wanted) = (plain(found), plain(wanted));
        let wanted = cast(&wanted, found.data_type()).expect("a type that holds both sides' keys");
        assert!(
            found.to_data() == wanted.to_data(),
            "column {at} is {found:?}, wanted {wanted:?}; {context:#?}"
        );
    }
}

/// Converts strings to the plainest layout.
fn plain(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Dictionary(..) | DataType::LargeUtf8 | DataType::Utf8View => {
            cast(column, &DataType::Utf8).expect("text")
        }
        _ => column.clone(),
    }
}
