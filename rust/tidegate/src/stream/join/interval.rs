//! The streaming interval join, which is a PPOIJ join that represents keys as numbers and tests
//! conditions on columns.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::eager::TimeJoin;
use tidegate_operators::interval::streaming::{
    KeyedJoin, LOAD_FACTOR, NUMBER_BYTES, Parallelism as Pattern, StreamingJoin,
};
use tidegate_operators::rows::{Filter, How, Interval, Side};

use super::engine::{Engine, KeptRows, Prepare};
use super::spans::{KeptSpans, SPAN_BYTES};
use super::{Query, arrival, operator};
use crate::columns::faults::Faults;
use crate::columns::keys::KeyColumn;
use crate::columns::row_ends::Width;
use crate::columns::time::{Bound, Unit};
use crate::query::identity::Identity;
use crate::query::interval::IntervalJoin;
use crate::query::options::{JoinOptions, JoinPlan};
use crate::query::published;
use crate::stream::explanation::{Method, explain};
use crate::stream::intake::Order;
use crate::stream::operator::{Operator, with_room};
use crate::stream::options::StreamOptions;
use crate::stream::outcome::Figure;
use crate::stream::state::keys::KeyNumbers;
use crate::{Error, Result};

/// The assignment of keys to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallelism {
    /// KP, until the load requires HP.
    Auto,
    /// KP: each key is assigned to a single thread.
    Key,
    /// DP: each key's rows are distributed over all threads.
    Data,
    /// HP: each key's rows are distributed over as many threads as that key's load requires.
    Hybrid,
    /// Scale-OIJ: the threads of a team read each other's lists.
    ScaleOij,
}

impl Parallelism {
    /// Returns the corresponding pattern of PPOIJ, if there is one.
    fn pattern(self) -> Option<Pattern> {
        match self {
            Parallelism::Auto => Some(Pattern::Auto),
            Parallelism::Key => Some(Pattern::Key),
            Parallelism::Data => Some(Pattern::Data),
            Parallelism::Hybrid => Some(Pattern::Hybrid),
            Parallelism::ScaleOij => None,
        }
    }
}

/// Creates an interval join of sources with these schemas. `parallelism` determines how keys are
/// assigned to threads. A key is split when a thread's number of comparisons reaches `load_factor`
/// (1.2 by default) times the mean. An interval end that is computed from columns may be at most
/// `max_width` away from the time of its row, on the left and on the right. Rows whose ends are
/// farther away are set aside, like late rows.
///
/// This example matches each trade with the quotes that are at most 2 older:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::stream::{Parallelism, Poll, StreamOptions, interval_join, lock};
/// use tidegate::{Bound, Closed, How, IntervalJoin, JoinOptions, Stop};
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
/// let trades = rows(&[("ts", &[10, 20])])?;
/// let quotes = rows(&[("ts", &[9, 15])])?;
/// let query = IntervalJoin {
///     on: ("ts".to_owned(), "ts".to_owned()),
///     lower: Some(Bound::Steps(-2).into()),
///     upper: Some(Bound::Steps(0).into()),
///     closed: Closed::Both,
///     open_ends: false,
///     limit: None,
///     options, // of an inner join
/// };
/// let (left, right) = (trades.schema(), quotes.schema());
/// // `streams` specifies one source per side.
/// let mut join = interval_join(&query, Parallelism::Auto, None, None, left, right, &streams)?;
/// for (source, rows) in join.sources().iter().zip([trades, quotes]) {
///     lock(source).push(&rows.schema(), vec![rows], &Stop::default())?;
/// }
/// // The trade at 20 waits, because a quote at 18 may still arrive.
/// let Poll::Batch(pairs) = join.poll()? else { unreachable!() };
/// assert_eq!(pairs["ts"].as_primitive::<Int64Type>().values(), &[10]);
/// assert_eq!(pairs["ts_right"].as_primitive::<Int64Type>().values(), &[9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn interval_join(
    query: &IntervalJoin,
    parallelism: Parallelism,
    load_factor: Option<f64>,
    max_width: Option<[Bound; 2]>,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    with_room([left, right], |schemas| {
        join(query, parallelism, load_factor, max_width, schemas, options)
    })
}

fn join(
    query: &IntervalJoin,
    parallelism: Parallelism,
    load_factor: Option<f64>,
    max_width: Option<[Bound; 2]>,
    [left, right]: [SchemaRef; 2],
    options: &StreamOptions,
) -> Result<Operator> {
    let is_asked = load_factor.is_some();
    let load_factor = checked(load_factor, parallelism, options.ordered)?;
    let mut plan = query.plan(&left, &right)?;
    let bounded = query.bounded(&plan, max_width)?;
    let mut lines = query.describe(&plan);
    lines.extend(bounded.describe(plan.unit));
    if is_asked || parallelism == Parallelism::Hybrid {
        lines.push(format!(
            "  balance    keys are split once one thread performs {load_factor} times the mean number of comparisons"
        ));
    }
    let identity = query.stream_identity(&bounded, &left, &right);
    plan.join.predicate = query.condition_within(&plan, &left, &right)?;
    let join = BoundedJoin {
        identity,
        options: &query.options,
        times: plan.times,
        unit: plan.unit,
        plan: plan.join,
        lines,
        widths: bounded.widths,
        interval: bounded.interval,
        spans: None,
    };
    join.operator(parallelism, load_factor, [left, right], options)
}

/// A join of rows whose times lie in an interval and that satisfy a condition.
pub(super) struct BoundedJoin<'a> {
    pub(super) identity: Identity,
    pub(super) options: &'a JoinOptions,
    /// The time column of each side.
    pub(super) times: (usize, usize),
    pub(super) unit: Unit,
    pub(super) plan: JoinPlan,
    /// The explanation lines that describe which pairs match.
    pub(super) lines: Vec<String>,
    /// On each side, the maximum distance between a computed end and the time of its row.
    pub(super) widths: [Option<Width>; 2],
    /// The interval that contains the right times of all pairs, relative to the left times.
    pub(super) interval: Interval,
    /// The starts and ends of kept rows, if rows match only if they overlap.
    pub(super) spans: Option<KeptSpans>,
}

impl BoundedJoin<'_> {
    /// Creates the operator.
    pub(super) fn operator(
        mut self,
        parallelism: Parallelism,
        load_factor: f64,
        [left, right]: [SchemaRef; 2],
        options: &StreamOptions,
    ) -> Result<Operator> {
        let JoinOptions { how, threads, .. } = *self.options;
        let is_eager = !options.ordered;
        if is_eager {
            arrival::check_shares(parallelism == Parallelism::Auto)?;
        }
        let (algorithm, index, row_bytes) = match is_eager {
            true => (arrival::BY_TIME.0, arrival::BY_TIME.1, arrival::ROW_BYTES),
            false => {
                (algorithm(parallelism), index(parallelism), copies_bytes(parallelism, threads))
            }
        };
        let row_bytes = row_bytes + self.spans.as_ref().map_or(0, |_| SPAN_BYTES);
        let method = Method { algorithm, index, threads, row_bytes, is_eager };
        let faults = Faults::default();
        self.plan.note(&faults);
        let explanation = explain(self.lines, &method, self.plan.columns.len(), options);
        let keys = self.plan.keys.clone();
        let interval = self.interval;
        let query = Query {
            identity: self.identity,
            options: self.options,
            times: self.times,
            unit: self.unit,
            plan: self.plan,
            explanation,
            widths: self.widths,
            within: Some(interval),
            faults,
            of_one_stream: false,
            order: if is_eager { Order::Arrival } else { Order::Merged },
        };
        let prepare = PrepareKeys { keys: KeyNumbers::new(keys), row_bytes, spans: self.spans };
        if is_eager {
            let engine = Engine { prepare, join: Box::new(TimeJoin::new(&interval, how)) };
            return operator(query, engine, left, right, options);
        }
        let join: Box<dyn KeyedJoin> = match parallelism.pattern() {
            Some(pattern) => Box::new(
                StreamingJoin::new(&interval, how, pattern, threads, options.ordered)
                    .with_load_factor(load_factor),
            ),
            None => published::scale_oij(&interval, how, threads),
        };
        let engine = Engine { prepare, join };
        operator(query, engine, left, right, options)
    }
}

/// Returns the requested load factor, or the default.
fn checked(load_factor: Option<f64>, parallelism: Parallelism, ordered: bool) -> Result<f64> {
    let Some(load_factor) = load_factor else { return Ok(LOAD_FACTOR) };
    if !(load_factor.is_finite() && load_factor >= 1.0) {
        return Err(Error::argument(format!(
            "load_factor must be 1 or more, got {load_factor}; write load_factor=1.2"
        )));
    }
    if !ordered {
        return Err(Error::argument(
            "load_factor: with ordered=False, no key belongs to a single thread; leave it out",
        ));
    }
    match parallelism {
        Parallelism::Auto | Parallelism::Hybrid => Ok(load_factor),
        Parallelism::Key | Parallelism::Data => Err(Error::argument(
            "load_factor: only parallelism=\"hybrid\" and \"auto\" split keys by their load; write \
             parallelism=\"hybrid\", or leave it out",
        )),
        Parallelism::ScaleOij => Err(Error::argument(
            "load_factor: parallelism=\"scale-oij\" distributes keys by a schedule that has no load \
             factor; write parallelism=\"hybrid\", or leave it out",
        )),
    }
}

/// Returns the number of bytes that a row takes up in the threads' structures, not counting a
/// single number in one buffer.
fn copies_bytes(parallelism: Parallelism, threads: usize) -> usize {
    match parallelism {
        Parallelism::Auto | Parallelism::Key | Parallelism::Hybrid => 0,
        Parallelism::Data => (threads - 1) * NUMBER_BYTES,
        Parallelism::ScaleOij => published::NODE_BYTES - NUMBER_BYTES,
    }
}

fn algorithm(parallelism: Parallelism) -> &'static str {
    match parallelism {
        Parallelism::Auto => {
            "PPOIJ, each key on one thread (KP); with a condition, switches to \
             hybrid once one thread has far more comparisons than the others"
        }
        Parallelism::Key => "PPOIJ, each key on one thread (KP)",
        Parallelism::Data => "PPOIJ, each key on all threads (DP)",
        Parallelism::Hybrid => {
            "PPOIJ, each key on as many threads as its share of the comparisons needs (HP)"
        }
        Parallelism::ScaleOij => {
            "Scale-OIJ, each row on one thread of its key's team, which searches the lists of \
             the whole team; keys of busy threads get more threads"
        }
    }
}

fn index(parallelism: Parallelism) -> &'static str {
    match parallelism {
        Parallelism::ScaleOij => {
            "skip lists of each thread, key and side, which other threads read: the rows that later rows may match, \
             newest first"
        }
        _ => "for each key and side, the rows that later rows may match, in time order",
    }
}

/// Prepares rows for a join on equal keys, by converting keys to numbers.
#[derive(Debug)]
pub(super) struct PrepareKeys {
    keys: KeyNumbers,
    /// The number of bytes charged for a row's numbers in the buffers of additional threads.
    row_bytes: usize,
    /// The starts and ends of kept rows, if rows match only if they overlap.
    spans: Option<KeptSpans>,
}

impl PrepareKeys {
    /// Creates the engine for a join that processes rows in arrival order.
    pub(super) fn arriving(keys: Vec<KeyColumn>, near: &Interval, how: How) -> Engine<Self> {
        let keys = KeyNumbers::new(keys);
        let prepare = PrepareKeys { keys, row_bytes: arrival::ROW_BYTES, spans: None };
        Engine { prepare, join: Box::new(TimeJoin::new(near, how)) }
    }
}

impl Prepare for PrepareKeys {
    type Values<'a> = [&'a [u32]; 2];
    type Join = dyn KeyedJoin;

    fn prepare(
        &mut self,
        join: &mut Self::Join,
        driver: &Driver,
        batches: [&RecordBatch; 2],
        then: impl FnOnce(&mut Self::Join, Self::Values<'_>),
    ) -> Result<()> {
        let [left, right] = self.keys.of_both(driver, batches)?;
        if let Some(spans) = &mut self.spans {
            spans.push(batches)?;
        }
        then(join, [&left, &right]);
        Ok(())
    }

    fn finds_results(&self) -> bool {
        self.spans.is_none()
    }

    fn test<'a>(&'a self, join: &Self::Join, kept: &'a KeptRows<'_>) -> Option<Box<Filter<'a>>> {
        let firsts = [Side::Left, Side::Right].map(|side| join.first(side) as u32);
        match &self.spans {
            None => kept.test(),
            Some(spans) => Some(Box::new(move |left, right| {
                spans.keep(kept, firsts, left, right).map_err(Into::into)
            })),
        }
    }

    fn release(&mut self, join: &mut Self::Join) {
        self.keys.release(&join.take_silent());
        if let Some(spans) = &mut self.spans {
            spans.keep_last([join.rows(Side::Left), join.rows(Side::Right)]);
        }
    }

    fn retain(&mut self, offsets: [&[u32]; 2]) {
        if let Some(spans) = &mut self.spans {
            spans.retain(offsets);
        }
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn memory(&self) -> usize {
        self.keys.memory() + self.spans.as_ref().map_or(0, KeptSpans::memory)
    }

    fn figures(&self, join: &Self::Join) -> Vec<(&'static str, Figure)> {
        let split = join.split_keys().map(|keys| ("split_keys", Figure::Number(keys as u64)));
        split.into_iter().collect()
    }
}
