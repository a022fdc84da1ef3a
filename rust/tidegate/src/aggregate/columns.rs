//! The columns that functions read, as plain numbers for each source.

use std::sync::Arc;

use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use bytemuck::{AnyBitPattern, NoUninit};
use tidegate_operators::aggregate::{
    Aggregate, AllValues, Column, ColumnPairs, Interpolation, Mask, NumberColumns, OutputColumn,
    Quantile, RowList,
};
use tidegate_operators::driver::Driver;
use tidegate_structures::memory::bits::BitSet;

use super::groups::Groups;
pub(crate) use super::numbers::is_ordered_only;
use super::numbers::{Array64, PlainNumbers, STREAM_ROWS, codes, numbers, of_sources, primitives};
use super::streams::Streams;
use crate::Result;
use crate::columns::keys::KeyColumn;
use crate::query::aggregate::plan::{FunctionsPlan, OutputPlan};
use crate::query::aggregate::user::UserInput;
use crate::query::aggregate::value_types::leaf;
use crate::query::aggregate::{Function, Takes};

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
    masks: Vec<Option<Arc<BitSet>>>,
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
            let alike = columns.iter().find(|known| known.has_numbers_of(output, plan));
            let known = alike.map(|alike| alike.numbers.clone());
            let input = InputValues::new(streams, plan, output, at, extent, known, driver)?;
            columns.push(input.sharing_masks(&columns));
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
            masks: streams.sources.iter().map(|one| one.masks[at].clone().map(Arc::new)).collect(),
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
    fn has_numbers_of(&self, output: &OutputPlan, plan: &FunctionsPlan) -> bool {
        let takes = output.function.takes();
        let are_shared = match (takes, self.column) {
            (Takes::Sums | Takes::Floats | Takes::Integers, _) => true,
            (Takes::Order | Takes::Distinct, Some(column)) => {
                !is_ordered_only(leaf(plan.read.field(column).data_type()))
            }
            _ => false,
        };
        are_shared
            && takes == self.function.takes()
            && self.column.is_some()
            && self.column == output.taken()
    }

    /// Shares masks with known inputs that include the same rows.
    fn sharing_masks(mut self, known: &[InputValues]) -> Self {
        for (source, mask) in self.masks.iter_mut().enumerate() {
            let mut others = known.iter().map(|known| &known.masks[source]);
            if let Some(same) = others.find(|other| *other == mask) {
                mask.clone_from(same);
            }
        }
        self
    }

    fn function(&self) -> FunctionWithInput<'_> {
        let masks = || self.masks.iter().map(Option::as_deref).collect();
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
        let masks = self.masks.iter().map(|mask| -> Mask<'a> { mask.as_deref() });
        values.iter().zip(masks).map(|(values, mask)| Column { values, mask }).collect()
    }
}

/// Returns the arrays of each source. Removes rows with null values from the source's mask.
fn of_present_rows<'a>(
    streams: &Streams,
    chunks: &'a [ArrayRef],
    masks: &mut [Option<Arc<BitSet>>],
) -> Vec<&'a [ArrayRef]> {
    let sources = streams.sources.iter().map(|source| &chunks[source.batches.clone()]);
    let sources: Vec<&[ArrayRef]> = sources.collect();
    for (mask, chunks) in masks.iter_mut().zip(&sources) {
        leave_out_nulls(mask, chunks);
    }
    sources
}

/// Removes rows without values from a mask.
fn leave_out_nulls(mask: &mut Option<Arc<BitSet>>, chunks: &[ArrayRef]) {
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
        Some(mask) => Arc::make_mut(mask).intersect(&valid),
        None => *mask = Some(Arc::new(valid)),
    }
}
