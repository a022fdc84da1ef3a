//! The streaming band join: index-based window join, with values and keys as codes.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::band::index::{Bands, most_selective};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{RowJoin, Side};
use tidegate_sync::Stop;

use super::engine::{Engine, Prepare};
use super::{Query, StreamOptions, operator, record_bytes};
use crate::columns::codes::{CodeRanges, ColumnPlan, of_keys};
use crate::columns::table::Table;
use crate::query::band::{AnyIndexJoin, BandAlgorithm, BandJoin};
use crate::query::options::JoinOptions;
use crate::stream::explanation::{Method, explain};
use crate::stream::operator::{Figure, Operator};
use crate::stream::state::kept_keys::KeptKeys;
use crate::{Error, Result};

/// How many times fewer candidates another column must give for it to be indexed instead: sorting
/// all rows in again is not worth less, nor is a sample that sure.
const WORTH: f64 = 2.0;

/// How many times the rows of a sample come before another sample is taken.
const PATIENCE: u64 = 8;

/// The band join of rows of these schemas.
///
/// Each order with the offers that cost at most 1 less or 2 more, and came at most 5 apart:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::stream::{Polled, StreamOptions, band_join, lock};
/// use tidegate::{
///     BandAlgorithm, BandJoin, Bound, Distance, How, JoinOptions, Sliding, Stop, Window, Within,
/// };
///
/// # let rows = |columns: &[(&str, &[i64])]| {
/// #     let column = |values: &[i64]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
/// #     RecordBatch::try_from_iter(columns.iter().map(|(name, values)| (*name, column(values))))
/// # };
/// # let (by, how, suffix) = (Vec::new(), How::Inner, "_right".to_owned());
/// # let (predicate, columns, threads, max_rows, batch_rows) = (None, None, 1, None, None);
/// # let options = JoinOptions {
/// #     by, predicate, how, suffix, columns, threads, max_rows, batch_rows,
/// # };
/// # let (sources, lateness) = ((1, 1), (None, None));
/// # let streams = StreamOptions {
/// #     sources, lateness, memory_limit: None, ordered: true, pin: false,
/// # };
/// let orders = rows(&[("ts", &[1, 20]), ("price", &[100, 100])])?;
/// let offers = rows(&[("ts", &[2, 3, 9]), ("price", &[98, 102, 100])])?;
/// let stay = Window::Time(Bound::Steps(5));
/// let query = BandJoin {
///     on: vec![("price".to_owned(), "price".to_owned())],
///     within: vec![Within { below: Some(Distance::Whole(1)), above: Some(Distance::Whole(2)) }],
///     sliding: Some(Sliding { time: ("ts".to_owned(), "ts".to_owned()), window: (stay, stay) }),
///     algorithm: BandAlgorithm::Auto,
///     options, // of an inner join
/// };
/// // The options `streams` ask for one source a side.
/// let mut join = band_join(&query, orders.schema(), offers.schema(), &streams)?;
/// for (source, rows) in join.sources().iter().zip([orders, offers]) {
///     lock(source).push(&rows.schema(), vec![rows], &Stop::default())?;
/// }
/// // Of the offers, one is too cheap, and one is too far from both orders.
/// let Polled::Batch(pairs) = join.poll()? else { unreachable!() };
/// assert_eq!(pairs["price_right"].as_primitive::<Int64Type>().values(), &[102]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn band_join(
    query: &BandJoin,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    let plan = query.plan(&left, &right)?;
    let (Some(windows), Some(sliding)) = (plan.windows, &query.sliding) else {
        return Err(Error::argument(
            "a band join of rows as they come needs a window, and the columns of time",
        ));
    };
    if query.algorithm == BandAlgorithm::Sort {
        return Err(Error::argument(
            "algorithm: sort is for whole tables; give auto or an index, since rows that come have to be found",
        ));
    }
    let JoinOptions { how, threads, .. } = query.options;
    let names: Vec<String> = plan.columns.iter().map(ColumnPlan::right_name).collect();
    let keys = (!plan.join.keys.is_empty()).then(|| KeptKeys::new(plan.join.keys.clone()));
    let columns = plan.columns.len() + usize::from(keys.is_some());
    let chosen = match (query.algorithm, columns) {
        (BandAlgorithm::Auto, _) => "; the fastest for any window and distribution",
        _ => "",
    };
    let column = match columns {
        1 => format!("on {}", names[0]),
        _ => "on the band column or key that gives the fewest candidates of a sample; the others are compared"
            .to_owned(),
    };
    let index = format!("{} a side, {column}{chosen}", query.algorithm.index());
    let row_bytes = record_bytes(&plan.join, &left, &right);
    let method =
        Method { algorithm: &query.algorithm.to_string(), index: &index, threads, row_bytes };
    let explanation = explain(query.describe(&plan), &method, plan.join.columns.len(), options);
    let join = query.algorithm.join(Some(windows.retention), how, columns, options.ordered);
    let prepare = PrepareCodes {
        kind: query.algorithm.index(),
        names: names.into_iter().chain(keys.is_some().then(|| "the key".to_owned())).collect(),
        columns: plan.columns,
        keys,
        order: (0..columns).collect(),
        rows: 0,
        sampled: 0,
        row_bytes,
    };
    let query = Query {
        identity: query.identity(sliding, &left, &right),
        options: &query.options,
        times: windows.times,
        unit: windows.unit,
        plan: plan.join,
        explanation,
        widths: [None, None],
    };
    operator(query, Engine { prepare, join: Box::new(join) }, left, right, options)
}

/// Rows whose values are close match: values, and keys behind them, become codes.
#[derive(Debug)]
struct PrepareCodes {
    columns: Vec<ColumnPlan>,
    keys: Option<KeptKeys>,
    /// The names of the columns, and of the key behind them.
    names: Vec<String>,
    /// Which of these each column of the join is; the first one is indexed.
    order: Vec<usize>,
    /// Rows that have come, and those when an epoch was looked at last for another column to be
    /// indexed.
    rows: u64,
    sampled: u64,
    kind: &'static str,
    /// Bytes that are kept of a row beside its columns, as a part of a record.
    row_bytes: usize,
}

impl PrepareCodes {
    /// The values that rows of a side are compared by: their bands, then their keys.
    fn ranges(&mut self, side: Side, batch: &RecordBatch) -> Result<Vec<CodeRanges>> {
        // One thread: others are woken for what comes after.
        let driver = Driver::new(1, Stop::default());
        let table = Table::trusted(["left", "right"][side as usize], batch.clone());
        let of_bands = self.columns.iter().map(|column| column.ranges(side, &table, &driver));
        let mut ranges = of_bands.collect::<Result<Vec<_>>>()?;
        if let Some(keys) = &mut self.keys {
            ranges.push(of_keys(&keys.push(side, batch)?));
        }
        Ok(ranges)
    }

    fn in_order<'a>(&self, ranges: &'a [CodeRanges]) -> Vec<Bands<'a>> {
        self.order.iter().map(|&column| ranges[column].bands()).collect()
    }

    /// Indexes another column, if rows say that it is worth it.
    fn choose(&mut self, join: &mut AnyIndexJoin, [left, right]: [&[CodeRanges]; 2]) {
        let rows = [left, right].map(|ranges| ranges[0].codes.len() as u64);
        self.rows += rows[0] + rows[1];
        if self.order.len() == 1 || rows.contains(&0) || self.rows < self.sampled * PATIENCE {
            return;
        }
        self.sampled = self.rows;
        let (column, times) = most_selective(&self.in_order(left), &self.in_order(right), 0);
        if times >= WORTH {
            self.order.swap(0, column);
            join.index_by(column);
        }
    }
}

impl Prepare for PrepareCodes {
    type Values<'a> = [&'a [Bands<'a>]; 2];
    type Join = AnyIndexJoin;

    fn prepare(
        &mut self,
        join: &mut AnyIndexJoin,
        _: &Driver,
        [left, right]: [&RecordBatch; 2],
        then: impl FnOnce(&mut AnyIndexJoin, Self::Values<'_>),
    ) -> Result<()> {
        let (left, right) = (self.ranges(Side::Left, left)?, self.ranges(Side::Right, right)?);
        self.choose(join, [&left, &right]);
        then(join, [&self.in_order(&left), &self.in_order(&right)]);
        Ok(())
    }

    fn finds_results(&self) -> bool {
        self.order.len() == 1
    }

    fn release(&mut self, join: &mut AnyIndexJoin) {
        if let Some(keys) = &mut self.keys {
            keys.keep([join.rows(Side::Left), join.rows(Side::Right)]);
        }
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn scatters(&self) -> bool {
        true
    }

    fn memory(&self) -> usize {
        self.keys.as_ref().map_or(0, KeptKeys::memory)
    }

    fn figures(&self, join: &AnyIndexJoin) -> Vec<(&'static str, Figure)> {
        let index = format!("{} on {}", self.kind, self.names[self.order[0]]);
        vec![("index", Figure::Text(index)), ("merges", Figure::Number(join.merges()))]
    }
}
