//! The streaming band join, which is an index-based window join that represents values and keys as
//! codes.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::band::index::{Bands, most_selective};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Interval, Reach, Retention, RowJoin, Side};
use tidegate_structures::memory;
use tidegate_sync::Stop;

use super::engine::{Engine, Prepare};
use super::{Query, arrival, operator};
use crate::columns::codes::{CodeRanges, ColumnPlan, of_keys};
use crate::columns::faults::Faults;
use crate::columns::keys::KeyColumn;
use crate::columns::table::Table;
use crate::columns::time::{self, Int64s, Unit};
use crate::query::band::{AnyIndexJoin, BandAlgorithm, BandJoin, BandPlan};
use crate::query::options::JoinOptions;
use crate::stream::explanation::{Method, explain};
use crate::stream::intake::Order;
use crate::stream::operator::{Operator, with_room};
use crate::stream::options::StreamOptions;
use crate::stream::outcome::Figure;
use crate::stream::sides::maker::record_bytes;
use crate::stream::state::kept_keys::KeptKeys;
use crate::stream::times::within;
use crate::{Error, Result};

/// Another column is indexed instead if it reduces the number of candidates by at least this
/// factor. A smaller reduction does not justify sorting all rows again, and a sample cannot
/// reliably detect it.
const WORTH: f64 = 2.0;

/// The number of rows between two samples, as a multiple of the sample size.
const PATIENCE: u64 = 8;

/// Creates a band join of sources with these schemas.
///
/// This example matches each order with the offers that cost at most 1 less or 2 more and are at
/// most 5 apart in time:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::stream::{Poll, StreamOptions, band_join, lock};
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
/// # let (sources, lateness) = ((1, 1), (None.into(), None.into()));
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
/// // `streams` specifies one source per side.
/// let mut join = band_join(&query, orders.schema(), offers.schema(), &streams)?;
/// for (source, rows) in join.sources().iter().zip([orders, offers]) {
///     lock(source).push(&rows.schema(), vec![rows], &Stop::default())?;
/// }
/// // One of the offers is too cheap, and one is too far in time from both orders.
/// let Poll::Batch(pairs) = join.poll()? else { unreachable!() };
/// assert_eq!(pairs["price_right"].as_primitive::<Int64Type>().values(), &[102]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn band_join(
    query: &BandJoin,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    with_room([left, right], |[left, right]| join(query, left, Some(right), options))
}

/// Creates the band join of one stream with itself. Each row is processed as a left row and matched
/// with the earlier rows in its window, which are treated as right rows. Each pair of rows
/// therefore appears once. There is a single index.
///
/// This example finds readings that differ by at most 1 and are at most 5 apart in time:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::stream::{Poll, StreamOptions, band_self_join, lock};
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
/// # let (sources, lateness) = ((1, 0), (None.into(), None.into()));
/// # let streams = StreamOptions {
/// #     sources, lateness, memory_limit: None, ordered: true, pin: false,
/// # };
/// let readings = rows(&[("ts", &[1, 2, 6, 20]), ("x", &[10, 50, 11, 10])])?;
/// let stay = Window::Time(Bound::Steps(5));
/// let query = BandJoin {
///     on: vec![("x".to_owned(), "x".to_owned())],
///     within: vec![Within { below: Some(Distance::Whole(1)), above: Some(Distance::Whole(1)) }],
///     sliding: Some(Sliding { time: ("ts".to_owned(), "ts".to_owned()), window: (stay, stay) }),
///     algorithm: BandAlgorithm::Auto,
///     options, // of an inner join
/// };
/// // `streams` specifies one left source and no right source.
/// let mut join = band_self_join(&query, readings.schema(), &streams)?;
/// lock(&join.sources()[0]).push(&readings.schema(), vec![readings], &Stop::default())?;
/// let Poll::Batch(pairs) = join.poll()? else { unreachable!() };
/// assert_eq!(pairs["ts"].as_primitive::<Int64Type>().values(), &[6]);
/// assert_eq!(pairs["ts_right"].as_primitive::<Int64Type>().values(), &[1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn band_self_join(
    query: &BandJoin,
    rows: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    with_room([rows], |[rows]| join(query, rows, None, options))
}

/// Creates a band join of two streams, or of one stream with itself.
fn join(
    query: &BandJoin,
    left: SchemaRef,
    right: Option<SchemaRef>,
    options: &StreamOptions,
) -> Result<Operator> {
    let of_one_stream = right.is_none();
    if of_one_stream {
        query.check_of_one_stream()?;
    }
    let right = right.unwrap_or_else(|| left.clone());
    let mut plan = query.plan(&left, &right)?;
    let faults = Faults::default();
    plan.join.note(&faults);
    let (Some(windows), Some(sliding)) = (plan.windows, &query.sliding) else {
        return Err(Error::argument("a streaming band join needs a window and its time columns"));
    };
    check_algorithm(query.algorithm)?;
    let JoinOptions { how, threads, .. } = query.options;
    let index = describe_index(query.algorithm, &plan, of_one_stream);
    let near = near_rows(query, windows.retention, of_one_stream, options);
    // Rows of one stream are kept in order of arrival, regardless of the columns that each side of
    // a pair contains.
    let records = if of_one_stream { 0 } else { record_bytes(&plan.join, &left, &right) };
    let row_bytes = records + if near.is_some() { arrival::ROW_BYTES } else { 0 };
    let algorithm = match near {
        Some(_) => EAGER.to_owned(),
        None => query.algorithm.to_string(),
    };
    let is_eager = near.is_some();
    let method = Method { algorithm: &algorithm, index: &index, threads, row_bytes, is_eager };
    let explanation =
        explain(query.describe(&plan, of_one_stream), &method, plan.join.columns.len(), options);
    let times = near.map(|near| TimeBand {
        on: [windows.times.0, windows.times.1],
        unit: windows.unit,
        near: Reach::new(&near),
    });
    let kind = query.algorithm.index();
    let prepare = PrepareCodes::new(&plan.columns, &plan.join.keys, times, kind, row_bytes);
    let prepare = PrepareCodes { of_one_stream, ..prepare };
    let (columns, retention) = (prepare.order.len(), windows.retention);
    let join = match of_one_stream {
        true => query.algorithm.self_join(retention, columns, options.ordered),
        false => query.algorithm.join(Some(retention), how, columns, options.ordered),
    };
    let join = join.of_threads(threads);
    let join = Box::new(match &near {
        Some(near) => join.in_arrival_order(near),
        None => join,
    });
    let engine = Engine { prepare, join };
    let asked = Query {
        identity: query.identity(sliding, &left, &right),
        options: &query.options,
        times: windows.times,
        unit: windows.unit,
        plan: plan.join,
        explanation,
        widths: [None, None],
        within: within(windows.retention),
        faults,
        of_one_stream,
        order: if is_eager { Order::Arrival } else { Order::Merged },
    };
    operator(asked, engine, left, right, options)
}

/// Rejects the algorithm that needs all rows before it can find pairs.
fn check_algorithm(algorithm: BandAlgorithm) -> Result<()> {
    match algorithm {
        BandAlgorithm::Sort => Err(Error::argument(
            "algorithm: sort is for whole tables; use auto or an index for streams",
        )),
        _ => Ok(()),
    }
}

/// Describes the index and the indexed column, for an explanation.
fn describe_index(algorithm: BandAlgorithm, plan: &BandPlan, of_one_stream: bool) -> String {
    let columns = plan.columns.len() + usize::from(!plan.join.keys.is_empty());
    let column = match columns {
        1 => format!("on {}", plan.columns[0].right_name()),
        _ => "on the band column or key that yields the fewest candidates in a sample; the others are compared"
            .to_owned(),
    };
    let chosen = match algorithm {
        BandAlgorithm::Auto => "; the fastest for any window and distribution",
        _ => "",
    };
    let side = if of_one_stream { "" } else { " per side" };
    format!("{}{side}{}, {column}{chosen}", algorithm.index(), algorithm.settings())
}

/// Returns the range of time differences between matching rows, if rows are processed in arrival
/// order. If an index is selected by name, rows are processed in merged order, as in the paper on
/// that index.
fn near_rows(
    query: &BandJoin,
    retention: Retention,
    of_one_stream: bool,
    options: &StreamOptions,
) -> Option<Interval> {
    match (options.ordered, query.algorithm, retention) {
        (false, BandAlgorithm::Auto, Retention::Time { left, right }) if !of_one_stream => {
            Some(Interval::of_windows(left, right))
        }
        _ => None,
    }
}

/// The explanation of the algorithm that emits a pair as soon as both of its rows have been pushed.
const EAGER: &str = "eager: each row is compared with all kept rows, earlier or later; rows enter the indexes, then each thread \
                     finds the matches of its part, and times are compared like other columns";

/// Time, treated as a band column.
#[derive(Debug)]
struct TimeBand {
    on: [usize; 2],
    unit: Unit,
    /// The range of time differences between matching rows.
    near: Reach,
}

impl TimeBand {
    fn ranges(&self, side: Side, table: &Table) -> Result<CodeRanges> {
        let codes = time::times(table, self.on[side as usize], self.unit)?;
        // For a time that matches nothing, the lower bound is above the upper one.
        let reached = |&ts: &i64| self.near.times(side, ts).unwrap_or((1, 0));
        let low = memory::collect(codes.iter().map(|ts| reached(ts).0));
        let high = memory::collect(codes.iter().map(|ts| reached(ts).1));
        Ok(CodeRanges { codes: Int64s::Arrow(codes.into_buffer()), low, high })
    }
}

/// Prepares rows for a join on close values, by converting their values and keys to codes.
#[derive(Debug)]
struct PrepareCodes {
    columns: Vec<ColumnPlan>,
    keys: Option<KeptKeys>,
    /// The time band, if rows are not processed in time order.
    times: Option<TimeBand>,
    /// The column names, followed by the names of the key and the time.
    names: Vec<String>,
    /// The position of each of the join's columns in `names`. The first of these columns is
    /// indexed.
    order: Vec<usize>,
    /// The number of rows that have arrived so far, and the number that had arrived at the last
    /// check for a better column to index.
    rows: u64,
    sampled: u64,
    kind: &'static str,
    /// The number of bytes that a row takes up in a record, in addition to its columns.
    row_bytes: usize,
    /// True if left and right rows come from the same stream.
    of_one_stream: bool,
}

impl PrepareCodes {
    fn new(
        columns: &[ColumnPlan],
        keys: &[KeyColumn],
        times: Option<TimeBand>,
        kind: &'static str,
        row_bytes: usize,
    ) -> Self {
        let mut names: Vec<String> = columns.iter().map(ColumnPlan::right_name).collect();
        names.extend((!keys.is_empty()).then(|| "the key".to_owned()));
        names.extend(times.is_some().then(|| "the time".to_owned()));
        PrepareCodes {
            kind,
            order: (0..names.len()).collect(),
            names,
            columns: columns.to_vec(),
            keys: (!keys.is_empty()).then(|| KeptKeys::new(keys.to_vec())),
            times,
            rows: 0,
            sampled: 0,
            row_bytes,
            of_one_stream: false,
        }
    }

    /// Returns the values by which a side's rows are compared: first their bands, then their keys
    /// and times.
    fn ranges(&mut self, side: Side, batch: &RecordBatch) -> Result<Vec<CodeRanges>> {
        // Use one thread; the others are woken for the subsequent work.
        let driver = Driver::new(1, Stop::default());
        let table = Table::trusted(["left", "right"][side as usize], batch.clone());
        let of_bands = self.columns.iter().map(|column| column.ranges(side, &table, &driver));
        let mut ranges = of_bands.collect::<Result<Vec<_>>>()?;
        if let Some(keys) = &mut self.keys {
            ranges.push(of_keys(&keys.push(side, batch)?));
        }
        if let Some(times) = &self.times {
            ranges.push(times.ranges(side, &table)?);
        }
        Ok(ranges)
    }

    fn in_order<'a>(&self, ranges: &'a [CodeRanges]) -> Vec<Bands<'a>> {
        self.order.iter().map(|&column| ranges[column].bands()).collect()
    }

    /// Switches to another indexed column if a sample of rows shows that this is worthwhile.
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
        self.choose(join, [&left, if self.of_one_stream { &left } else { &right }]);
        then(join, [&self.in_order(&left), &self.in_order(&right)]);
        Ok(())
    }

    fn finds_results(&self) -> bool {
        self.order.len() == 1
    }

    fn comparisons_a_row(&self) -> u64 {
        // The indexes of the papers are trees, whose nodes are scattered in memory.
        if self.kind == BandAlgorithm::Auto.index() { 1 } else { 64 }
    }

    fn release(&mut self, join: &mut AnyIndexJoin) {
        if let Some(keys) = &mut self.keys {
            keys.keep([join.rows(Side::Left), join.rows(Side::Right)]);
        }
    }

    fn retain(&mut self, offsets: [&[u32]; 2]) {
        if let Some(keys) = &mut self.keys {
            keys.retain(offsets);
        }
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn scatters(&self) -> bool {
        !self.of_one_stream
    }

    fn memory(&self) -> usize {
        self.keys.as_ref().map_or(0, KeptKeys::memory)
    }

    fn figures(&self, join: &AnyIndexJoin) -> Vec<(&'static str, Figure)> {
        let index = format!("{} on {}", self.kind, self.names[self.order[0]]);
        vec![("index", Figure::Text(index)), ("merges", Figure::Number(join.merges()))]
    }
}
