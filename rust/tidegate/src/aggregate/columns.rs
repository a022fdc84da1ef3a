//! The columns that functions read, as plain numbers for each source.

use std::ops::Deref;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::DataType;
use bytemuck::{AnyBitPattern, NoUninit};
use tidegate_operators::aggregate::{
    Aggregate, AllValues, Column, ColumnPairs, Interpolation, Mask, NumberColumns, OutputColumn,
    Quantile, RowList, order_of,
};
use tidegate_operators::driver::Driver;
use tidegate_structures::memory::bits::BitSet;
use tidegate_structures::memory::pages::Pages;

use super::groups::Groups;
use super::streams::Streams;
use crate::columns::cast::cast;
use crate::columns::keys::KeyColumn;
use crate::query::aggregate::plan::{FunctionsPlan, OutputPlan};
use crate::query::aggregate::user::UserInput;
use crate::query::aggregate::value_types::leaf;
use crate::query::aggregate::{Function, Takes};
use crate::{Error, Result};

/// The number of values that one thread reads at a time.
const BLOCK: usize = 1 << 16;

/// The functions' inputs, in the order of the aggregates.
#[derive(Debug)]
pub(crate) struct Columns(Vec<InputValues>);

/// The rows to process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent<'a> {
    /// All aggregated rows.
    Whole,
    /// Some rows of a stream. The encoding of values must not depend on earlier or later rows. If
    /// an aggregate computes the smallest or largest of [ordered](is_ordered_only) values, this
    /// variant contains the codes of these values, source by source. The variant contains `None`
    /// for a stream without rows.
    Stream(&'a [OrderedCodes]),
}

/// Values encoded as integers with the same order, if the values' type requires it.
pub(crate) type OrderedCodes = Option<Arc<Vec<i64>>>;

/// The input of one function.
#[derive(Debug)]
struct InputValues {
    function: Function,
    /// The column from which `numbers` were read.
    column: Option<usize>,
    /// Whether the numbers are durations.
    is_duration: bool,
    /// The half-life of the weights, in units of the times.
    half_life: Option<i64>,
    numbers: PlainNumbers,
    /// For a function that reads pairs of numbers, the second number of each pair.
    others: Vec<Array64<f64>>,
    /// The rows that are included, for each source.
    masks: Vec<Option<BitSet>>,
    /// The values by rank, for functions that return the minimum or maximum of non-numeric values.
    ranked: Option<Groups>,
}

/// A function and its input, in the form that operators need.
enum FunctionWithInput<'a> {
    States(Aggregate<'a>),
    AllValues(AllValues<'a>),
}

impl<'a> FunctionWithInput<'a> {
    fn of_states(self) -> Option<Aggregate<'a>> {
        match self {
            FunctionWithInput::States(aggregate) => Some(aggregate),
            FunctionWithInput::AllValues(_) => None,
        }
    }

    fn of_all_values(self) -> Option<AllValues<'a>> {
        match self {
            FunctionWithInput::States(_) => None,
            FunctionWithInput::AllValues(all) => Some(all),
        }
    }
}

#[derive(Clone, Debug)]
enum PlainNumbers {
    None,
    Integers(Vec<Array64<i64>>),
    Wide(Vec<Array64<i128>>),
    Floats(Vec<Array64<f64>>),
}

/// The values of a source, borrowed from Arrow if they are stored as a single array.
#[derive(Clone, Debug)]
enum Array64<T: ArrowNativeType> {
    Arrow(ScalarBuffer<T>),
    Own(Arc<Pages<T>>),
}

impl<T: ArrowNativeType + AnyBitPattern + NoUninit> Deref for Array64<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Array64::Arrow(values) => values,
            Array64::Own(values) => values,
        }
    }
}

impl Columns {
    pub(crate) fn new(
        streams: &Streams,
        plan: &FunctionsPlan,
        extent: Extent<'_>,
        driver: &Driver,
    ) -> Result<Self> {
        let mut columns: Vec<InputValues> = Vec::with_capacity(plan.outputs.len());
        for (at, output) in plan.outputs.iter().enumerate() {
            // Several functions of a column, such as its sum and its mean, read the same numbers.
            let alike = columns.iter().find(|known| known.has_numbers_of(output));
            let known = alike.map(|alike| alike.numbers.clone());
            columns.push(InputValues::new(streams, plan, output, at, extent, known, driver)?);
        }
        Ok(Columns(columns))
    }

    /// The functions whose states can be combined.
    /// Divides the functions into groups, given the group of each function. Also returns the group
    /// of each function, and the function's position in the group.
    pub(crate) fn divided(
        self,
        group_of: &[usize],
        groups: usize,
    ) -> (Vec<Self>, Vec<(usize, usize)>) {
        let mut divided: Vec<_> = (0..groups).map(|_| Columns(Vec::new())).collect();
        let mut places = Vec::with_capacity(group_of.len());
        for (values, &group) in self.0.into_iter().zip(group_of) {
            places.push((group, divided[group].0.len()));
            divided[group].0.push(values);
        }
        (divided, places)
    }

    pub(crate) fn aggregates(&self) -> Vec<Aggregate<'_>> {
        self.0.iter().filter_map(|values| values.function().of_states()).collect()
    }

    /// The functions of all values.
    pub(crate) fn all_values(&self) -> Vec<AllValues<'_>> {
        self.0.iter().filter_map(|values| values.function().of_all_values()).collect()
    }

    /// Returns whether a function lists the rows' values.
    pub(crate) fn has_lists(&self) -> bool {
        self.0.iter().any(|values| values.function.lists_rows())
    }

    /// Combines the results from [`aggregates`](Self::aggregates) and
    /// [`all_values`](Self::all_values), in the order of the functions. Any further results of
    /// `aggregates` follow at the end.
    pub(crate) fn put_together(
        &self,
        of_states: Vec<OutputColumn>,
        of_all_values: Vec<OutputColumn>,
    ) -> Vec<OutputColumn> {
        let (mut of_states, mut of_all_values) = (of_states.into_iter(), of_all_values.into_iter());
        let next = |values: &InputValues| match values.function.is_of_all_values() {
            true => of_all_values.next(),
            false => of_states.next(),
        };
        let mut columns: Vec<_> = self.0.iter().map_while(next).collect();
        columns.extend(of_states);
        columns
    }

    /// Returns the values by rank for the aggregate at position `at`, if it aggregates ranks.
    pub(crate) fn ranked(&self, at: usize) -> Option<&Groups> {
        self.0[at].ranked.as_ref()
    }
}

impl InputValues {
    fn new(
        streams: &Streams,
        plan: &FunctionsPlan,
        output: &OutputPlan,
        at: usize,
        extent: Extent<'_>,
        known: Option<PlainNumbers>,
        driver: &Driver,
    ) -> Result<Self> {
        let takes = output.function.takes();
        let mut input = InputValues {
            function: output.function.clone(),
            column: output.taken(),
            is_duration: false,
            half_life: output.half_life,
            numbers: PlainNumbers::None,
            others: Vec::new(),
            masks: streams.sources.iter().map(|source| source.masks[at].clone()).collect(),
            ranked: None,
        };
        let Some(column) = input.column else { return Ok(input) };
        let chunks = streams.table.chunks(column);
        let sources = of_present_rows(streams, &chunks, &mut input.masks);
        if let (Takes::Floats, Some(&column)) = (takes, output.columns.get(1)) {
            let chunks = streams.table.chunks(column);
            let sources = of_present_rows(streams, &chunks, &mut input.masks);
            input.others = primitives::<Float64Type>(&sources, driver)?;
        }
        let data_type = leaf(plan.read.field(column).data_type());
        input.is_duration = matches!(data_type, DataType::Duration(_));
        input.numbers = match takes {
            _ if let Some(known) = known => known,
            Takes::Presence | Takes::Rows => PlainNumbers::None,
            Takes::Order | Takes::Distinct if is_ordered_only(data_type) => {
                PlainNumbers::Integers(match extent {
                    Extent::Whole => {
                        let field = plan.read.field(column);
                        let key = KeyColumn::new(column, field, column, field)?;
                        let groups = Groups::new(&streams.table, &[key], driver)?;
                        let codes = of_sources(
                            groups.numbers.iter().map(|number| i64::from(*number)),
                            streams,
                        );
                        // The number of distinct values is not itself one of the values.
                        input.ranked = (takes == Takes::Order).then_some(groups);
                        codes
                    }
                    Extent::Stream(codes) => of_sources(
                        codes[at].iter().flat_map(|codes| codes.iter().copied()),
                        streams,
                    ),
                })
            }
            Takes::Order | Takes::Distinct => {
                PlainNumbers::Integers(codes(&sources, data_type, driver)?)
            }
            Takes::Sums => {
                let rows = match extent {
                    Extent::Whole => streams.table.rows() as u128,
                    Extent::Stream(_) => STREAM_ROWS,
                };
                numbers(&sources, data_type, output, rows, extent, driver)?
            }
            Takes::Integers => PlainNumbers::Integers(primitives::<Int64Type>(&sources, driver)?),
            Takes::Floats => PlainNumbers::Floats(primitives::<Float64Type>(&sources, driver)?),
        };
        Ok(input)
    }

    /// Returns whether an output reads the same numbers as this input.
    fn has_numbers_of(&self, output: &OutputPlan) -> bool {
        let takes = output.function.takes();
        matches!(takes, Takes::Sums | Takes::Floats | Takes::Integers)
            && takes == self.function.takes()
            && self.column.is_some()
            && self.column == output.taken()
    }

    fn function(&self) -> FunctionWithInput<'_> {
        let masks = || self.masks.iter().map(Option::as_ref).collect();
        let quantile = |quantile| {
            FunctionWithInput::AllValues(AllValues::Quantile { values: self.floats(), quantile })
        };
        let rows = |list| FunctionWithInput::AllValues(AllValues::Rows { masks: masks(), list });
        FunctionWithInput::States(match &self.function {
            Function::Count => Aggregate::Count(masks()),
            Function::Sum => Aggregate::Sum(self.numbers()),
            Function::Mean if self.is_duration => Aggregate::WholeMean(self.numbers()),
            Function::Mean => Aggregate::Mean(self.numbers()),
            Function::Min | Function::All => Aggregate::Min(self.integers()),
            Function::Max | Function::Any => Aggregate::Max(self.integers()),
            Function::First => Aggregate::First(masks()),
            Function::Last => Aggregate::Last(masks()),
            Function::Var => Aggregate::Variance(self.floats()),
            Function::Std => Aggregate::Deviation(self.floats()),
            Function::WeightedMean => Aggregate::WeightedMean(self.pairs()),
            Function::TimeWeightedMean => Aggregate::TimeWeightedMean(self.floats()),
            Function::EwmMean(_) => {
                let half_life = self.half_life.expect("the plan has a half-life");
                Aggregate::DecayedMean { values: self.floats(), half_life }
            }
            Function::Covar => Aggregate::Covariance(self.pairs()),
            Function::Corr => Aggregate::Correlation(self.pairs()),
            Function::ArgMin => Aggregate::RowOfMin(self.integers()),
            Function::ArgMax => Aggregate::RowOfMax(self.integers()),
            Function::Product => Aggregate::Product(self.floats()),
            Function::User(user) => match user.of {
                UserInput::Integers(aggregate) => aggregate(self.integers()),
                UserInput::Floats(aggregate) => aggregate(self.floats()),
            },
            Function::Median => {
                return quantile(Quantile { share: 0.5, interpolation: Interpolation::Midpoint });
            }
            Function::Quantile(which) => return quantile(*which),
            Function::CountDistinct => {
                return FunctionWithInput::AllValues(AllValues::Distinct(self.integers()));
            }
            Function::Collect | Function::Udf(_) => return rows(RowList::All),
            Function::FirstRows(most) => return rows(RowList::First(*most as usize)),
            Function::LastRows(most) => return rows(RowList::Last(*most as usize)),
            Function::Top(most) => {
                let (values, most) = (self.integers(), *most as usize);
                return FunctionWithInput::AllValues(AllValues::Largest { values, most });
            }
        })
    }

    fn pairs(&self) -> ColumnPairs<'_> {
        ColumnPairs { values: self.floats(), others: self.columns(&self.others) }
    }

    fn integers(&self) -> Vec<Column<'_, i64>> {
        let PlainNumbers::Integers(values) = &self.numbers else {
            unreachable!("{} takes whole numbers", self.function.name())
        };
        self.columns(values)
    }

    fn floats(&self) -> Vec<Column<'_, f64>> {
        let PlainNumbers::Floats(values) = &self.numbers else {
            unreachable!("{} takes floats", self.function.name())
        };
        self.columns(values)
    }

    fn numbers(&self) -> NumberColumns<'_> {
        match &self.numbers {
            PlainNumbers::Integers(values) => NumberColumns::Integers(self.columns(values)),
            PlainNumbers::Wide(values) => NumberColumns::Wide(self.columns(values)),
            PlainNumbers::Floats(values) => NumberColumns::Floats(self.columns(values)),
            PlainNumbers::None => unreachable!("{} takes numbers", self.function.name()),
        }
    }

    fn columns<'a, T: ArrowNativeType + AnyBitPattern + NoUninit>(
        &'a self,
        values: &'a [Array64<T>],
    ) -> Vec<Column<'a, T>> {
        let masks = self.masks.iter().map(|mask| -> Mask<'a> { mask.as_ref() });
        values.iter().zip(masks).map(|(values, mask)| Column { values, mask }).collect()
    }
}

/// Returns the arrays of each source. Removes rows with null values from the source's mask.
fn of_present_rows<'a>(
    streams: &Streams,
    chunks: &'a [ArrayRef],
    masks: &mut [Option<BitSet>],
) -> Vec<&'a [ArrayRef]> {
    let sources = streams.sources.iter().map(|source| &chunks[source.batches.clone()]);
    let sources: Vec<&[ArrayRef]> = sources.collect();
    for (mask, chunks) in masks.iter_mut().zip(&sources) {
        leave_out_nulls(mask, chunks);
    }
    sources
}

/// Removes rows without values from a mask.
fn leave_out_nulls(mask: &mut Option<BitSet>, chunks: &[ArrayRef]) {
    if chunks.iter().all(|chunk| chunk.logical_null_count() == 0) {
        return;
    }
    let rows = chunks.iter().map(|chunk| chunk.len()).sum();
    let mut valid = BitSet::new(rows);
    let mut first = 0;
    for chunk in chunks {
        match chunk.logical_nulls() {
            None => valid.insert_range(first, first + chunk.len()),
            Some(nulls) => {
                nulls
                    .valid_slices()
                    .for_each(|(start, end)| valid.insert_range(first + start, first + end));
            }
        }
        first += chunk.len();
    }
    match mask {
        Some(mask) => mask.intersect(&valid),
        None => *mask = Some(valid),
    }
}

/// Returns the values of a primitive type for every source.
fn primitives<T: ArrowPrimitiveType>(
    sources: &[&[ArrayRef]],
    driver: &Driver,
) -> Result<Vec<Array64<T::Native>>>
where
    T::Native: AnyBitPattern + NoUninit,
{
    mapped::<T, T::Native>(
        sources,
        &T::DATA_TYPE,
        driver,
        |value| value,
        |values| Some(values.clone()),
    )
}

/// Returns the values of every source as type `to`, each converted by `new`. If no conversion is
/// needed, `same` returns a chunk's own values.
fn mapped<T: ArrowPrimitiveType, N: ArrowNativeType + AnyBitPattern + NoUninit>(
    sources: &[&[ArrayRef]],
    to: &DataType,
    driver: &Driver,
    new: impl Fn(T::Native) -> N + Sync,
    same: impl Fn(&ScalarBuffer<T::Native>) -> Option<ScalarBuffer<N>> + Sync,
) -> Result<Vec<Array64<N>>> {
    let source = |chunks: &[ArrayRef]| -> Result<Array64<N>> {
        let chunks = driver.map(chunks.to_vec(), |chunk| cast(&chunk, to))?;
        let chunks: Vec<ArrayRef> = chunks.into_iter().collect::<Result<_, _>>()?;
        let values: Vec<_> =
            chunks.iter().map(|chunk| chunk.as_primitive::<T>().values()).collect();
        if let [values] = values[..]
            && let Some(values) = same(values)
        {
            return Ok(Array64::Arrow(values));
        }
        let mut all = Pages::unwritten(values.iter().map(|values| values.len()).sum());
        let mut rest = &mut all[..];
        let mut blocks = Vec::new();
        for block in values.iter().flat_map(|values| values.chunks(BLOCK)) {
            let (out, others) = std::mem::take(&mut rest).split_at_mut(block.len());
            rest = others;
            blocks.push((block, out));
        }
        driver.map(blocks, |(values, out)| {
            out.iter_mut().zip(values).for_each(|(out, value)| out.set(new(*value)));
        })?;
        Ok(Array64::Own(Arc::new(all.written())))
    };
    sources.iter().map(|chunks| source(chunks)).collect()
}

/// The maximum number of rows that one stream can have in a window. More rows would take years to
/// arrive.
const STREAM_ROWS: u128 = 1 << 48;

/// Returns the input for sums and means. The numbers are 64-bit if no sum over this many rows can
/// overflow, and 128-bit otherwise. For streams, the choice depends only on the type.
fn numbers(
    sources: &[&[ArrayRef]],
    data_type: &DataType,
    output: &OutputPlan,
    rows: u128,
    extent: Extent<'_>,
    driver: &Driver,
) -> Result<PlainNumbers> {
    let is_narrow = match data_type {
        DataType::Boolean => true,
        other => other.primitive_width().is_some_and(|width| width <= 2),
    };
    let fits = |largest: u64| match extent {
        Extent::Whole => u128::from(largest) * rows <= i64::MAX as u128,
        Extent::Stream(_) => is_narrow,
    };
    if data_type.is_floating() {
        return Ok(PlainNumbers::Floats(primitives::<Float64Type>(sources, driver)?));
    }
    if data_type.is_unsigned_integer() {
        let values = primitives::<UInt64Type>(sources, driver)?;
        let largest = largest(&values, driver, |value| value)?;
        if fits(largest) {
            let bits = |value: u64| value.cast_signed();
            let same = |values: &ScalarBuffer<u64>| {
                Some(ScalarBuffer::new(values.inner().clone(), 0, values.len()))
            };
            return Ok(PlainNumbers::Integers(mapped::<UInt64Type, i64>(
                sources,
                &DataType::UInt64,
                driver,
                bits,
                same,
            )?));
        }
        return Ok(PlainNumbers::Wide(widened(&values, driver)?));
    }
    if data_type.is_integer() || matches!(data_type, DataType::Boolean | DataType::Duration(_)) {
        let values = primitives::<Int64Type>(sources, driver)?;
        let largest = largest(&values, driver, i64::unsigned_abs)?;
        if fits(largest) {
            return Ok(PlainNumbers::Integers(values));
        }
        return Ok(PlainNumbers::Wide(widened(&values, driver)?));
    }
    let scale = match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => *scale,
        other => return Err(Error::bug(format!("{other} is not a number"))),
    };
    let to = DataType::Decimal128(38, scale);
    let values = mapped::<Decimal128Type, i128>(
        sources,
        &to,
        driver,
        |value| value,
        |values| Some(values.clone()),
    )?;
    let largest = largest(&values, driver, i128::unsigned_abs)?;
    if largest.checked_mul(rows).is_none_or(|most| most > i128::MAX as u128) {
        return Err(Error::data(format!(
            "aggs: `{}`: the sum of these decimals may exceed 128 bits; cast the column to float64",
            output.name
        )));
    }
    Ok(PlainNumbers::Wide(values))
}

/// Returns the largest magnitude of all values, including those in null slots.
fn largest<T: ArrowNativeType + AnyBitPattern + NoUninit + Sync, M: Ord + Default + Copy + Send>(
    sources: &[Array64<T>],
    driver: &Driver,
    magnitude: impl Fn(T) -> M + Sync,
) -> Result<M> {
    let blocks: Vec<&[T]> = sources.iter().flat_map(|values| values.chunks(BLOCK)).collect();
    let found = driver.map(blocks, |block| {
        block.iter().fold(M::default(), |largest, value| largest.max(magnitude(*value)))
    })?;
    Ok(found.into_iter().max().unwrap_or_default())
}

fn widened<T: ArrowNativeType + AnyBitPattern + NoUninit + Into<i128> + Sync>(
    sources: &[Array64<T>],
    driver: &Driver,
) -> Result<Vec<Array64<i128>>> {
    let widen = |values: &Array64<T>| {
        Array64::Own(Arc::new(Pages::collect(values.iter().map(|value| (*value).into()))))
    };
    Ok(driver.map(sources.iter().collect(), widen)?)
}

/// Returns whether values of a type are ordered but cannot be converted cheaply to 64-bit integers
/// with the same order.
pub(crate) fn is_ordered_only(data_type: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Duration, Time32, Time64, Timestamp};
    let is_number = data_type.is_integer() || data_type.is_floating();
    !is_number
        && !matches!(
            data_type,
            Boolean | Date32 | Date64 | Duration(_) | Time32(_) | Time64(_) | Timestamp(..)
        )
}

/// Maps a float to an integer that sorts the same way. Positive and negative zero map to the same
/// integer, as they do in keys.
fn order(value: f64) -> i64 {
    order_of(value + 0.0)
}

/// Converts values to integers with the same order, for types that allow a cheap conversion.
fn codes(
    sources: &[&[ArrayRef]],
    data_type: &DataType,
    driver: &Driver,
) -> Result<Vec<Array64<i64>>> {
    use DataType::{Date32, Time32, UInt64};
    match data_type {
        UInt64 => {
            let code = |value: u64| value.cast_signed() ^ i64::MIN;
            mapped::<UInt64Type, i64>(sources, &UInt64, driver, code, |_| None)
        }
        Date32 | Time32(_) => {
            mapped::<Int32Type, i64>(sources, &DataType::Int32, driver, i64::from, |_| None)
        }
        other if other.is_floating() => {
            mapped::<Float64Type, i64>(sources, &DataType::Float64, driver, order, |_| None)
        }
        _ => primitives::<Int64Type>(sources, driver),
    }
}

/// Returns the codes of all rows, source by source.
fn of_sources(mut all: impl Iterator<Item = i64>, streams: &Streams) -> Vec<Array64<i64>> {
    let source = |rows: usize| {
        let mut codes = Pages::unwritten(rows);
        codes.iter_mut().zip(&mut all).for_each(|(code, value)| code.set(value));
        Array64::Own(Arc::new(codes.written()))
    };
    streams.sources.iter().map(super::streams::SortedSource::rows).map(source).collect()
}
