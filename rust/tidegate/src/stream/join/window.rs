//! The streaming window join: ScaleJoin, its baselines and the handshake joins. All of these joins
//! scan rows to test conditions.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
use tidegate_operators::rows::{Filter, Interval, Retention, Side};
use tidegate_operators::window::scale::{ScaleAlgorithm, ScaleJoin};
use tidegate_operators::window::{Operands, SlidingJoin};

use super::engine::{Engine, KeptRows, Prepare};
use super::interval::PrepareKeys;
use super::{Query, arrival, operator};
use crate::Result;
use crate::columns::expression::{self, Predicate, Scan, SideColumns};
use crate::columns::faults::Faults;
use crate::columns::table::Table;
use crate::columns::time::{self, Unit};
use crate::query::options::JoinOptions;
use crate::query::window::{
    Algorithm, SlidingJoinParts, WindowJoin, WindowJoinPlan, WindowPlan, equal_keys, numbers_of,
};
use crate::stream::explanation::{Method, explain};
use crate::stream::intake;
use crate::stream::operator::{Operator, with_room};
use crate::stream::options::StreamOptions;
use crate::stream::state::kept_keys::KeptKeys;
use crate::stream::times::within;

/// Creates a window join of sources with these schemas.
///
/// This example matches each row with the last row on the other side before it, unless the ask is
/// higher than the bid:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::columns::expression::parse_sql;
/// use tidegate::stream::{Poll, StreamOptions, lock, window_join};
/// use tidegate::{How, JoinOptions, Stop, Window, WindowJoin};
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
/// let asks = rows(&[("ts", &[1, 5]), ("price", &[50, 53])])?;
/// let bids = rows(&[("ts", &[2, 4, 6]), ("price", &[51, 52, 54])])?;
/// let not_below = parse_sql("left.price <= right.price")?;
/// let query = WindowJoin {
///     on: ("ts".to_owned(), "ts".to_owned()),
///     window: (Window::Rows(1), Window::Rows(1)),
///     algorithm: None,
///     // The other options specify an inner join.
///     options: JoinOptions { predicate: Some(not_below), ..options },
/// };
/// // `streams` specifies one source per side.
/// let mut join = window_join(&query, asks.schema(), bids.schema(), &streams)?;
/// for (source, rows) in join.sources().iter().zip([asks, bids]) {
///     let mut source = lock(source);
///     source.push(&rows.schema(), vec![rows], &Stop::default())?;
///     source.close();
/// }
/// let Poll::Batch(pairs) = join.poll()? else { unreachable!() };
/// // The ask at 5 is higher than the bid at 4, but not than the bid at 6.
/// assert_eq!(pairs["ts"].as_primitive::<Int64Type>().values(), &[1, 1, 5]);
/// assert_eq!(pairs["ts_right"].as_primitive::<Int64Type>().values(), &[2, 4, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn window_join(
    query: &WindowJoin,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    with_room([left, right], |schemas| join(query, schemas, options))
}

fn join(
    query: &WindowJoin,
    [left, right]: [SchemaRef; 2],
    options: &StreamOptions,
) -> Result<Operator> {
    let mut plan = query.plan(&left, &right)?;
    let faults = Faults::default();
    plan.join.note(&faults);
    if let (false, None, Retention::Time { left: of_left, right: of_right }) =
        (options.ordered, query.algorithm, plan.windows.retention)
    {
        let near = Interval::of_windows(of_left, of_right);
        return eager_window_join(query, plan, faults, &near, [left, right], options);
    }
    let JoinOptions { how, threads, .. } = query.options;
    let scan = plan.join.predicate.as_ref().map(Predicate::scan);
    let mut terms: Vec<Term> = scan.as_ref().map(Scan::terms).unwrap_or_default();
    let keys = (!plan.join.keys.is_empty()).then(|| KeptKeys::new(plan.join.keys.clone()));
    terms.extend(keys.is_some().then(|| equal_keys(numbers_of(&[]), numbers_of(&[]))));
    // Without numbers, there is nothing to look up.
    let any = if terms.is_empty() { Algorithm::ScaleJoin } else { Algorithm::Indexed };
    let algorithm = query.algorithm.unwrap_or(any);
    let index = algorithm.index(plan.join.has_equality());
    let row_bytes = algorithm.row_bytes(&terms);
    let method =
        Method { algorithm: algorithm.describe(), index, threads, row_bytes, is_eager: false };
    let explanation = explain(query.describe(&plan), &method, plan.join.columns.len(), options);
    let parts = SlidingJoinParts {
        retention: plan.windows.retention,
        how,
        threads,
        ordered: options.ordered,
        terms,
        pin: options.pin,
    };
    let predicate = plan.join.predicate.clone();
    let prepare = PrepareNumbers { row_bytes, predicate, scan, keys, times: None };
    let engine = Engine { prepare, join: parts.join(algorithm)? };
    let query = Query {
        identity: query.identity(&left, &right),
        options: &query.options,
        times: plan.windows.times,
        unit: plan.windows.unit,
        plan: plan.join,
        explanation,
        widths: [None, None],
        within: within(plan.windows.retention),
        faults,
        of_one_stream: false,
        order: intake::Order::Merged,
    };
    operator(query, engine, left, right, options)
}

/// Creates a window join that emits a pair as soon as both of its rows have been pushed. Each row
/// is compared with all kept rows by time and other numbers, unless keys or times alone leave only
/// a few candidates.
fn eager_window_join(
    query: &WindowJoin,
    plan: WindowJoinPlan,
    faults: Faults,
    near: &Interval,
    sides: [SchemaRef; 2],
    options: &StreamOptions,
) -> Result<Operator> {
    let JoinOptions { how, threads, .. } = query.options;
    let [left, right] = &sides;
    let identity = query.identity(left, right);
    let (lines, columns) = (query.describe(&plan), plan.join.columns.len());
    let predicate = plan.join.predicate.clone();
    let scan = predicate.as_ref().map(Predicate::scan);
    let mut terms = scan.as_ref().map(Scan::terms).unwrap_or_default();
    let scans = plan.join.keys.is_empty() && !terms.is_empty();
    let (algorithm, index) = match scans {
        true => (
            "eager: each row is compared with the kept rows of the other side, which are divided \
             among threads; times are compared like other numbers",
            Algorithm::Indexed.index(false),
        ),
        false => arrival::BY_TIME,
    };
    let scan_bytes = if scans { Algorithm::Indexed.row_bytes(&terms) } else { 0 };
    let row_bytes = arrival::ROW_BYTES + scan_bytes;
    let method = Method { algorithm, index, threads, row_bytes, is_eager: true };
    let explanation = explain(lines, &method, columns, options);
    let WindowPlan { times, unit, retention } = plan.windows;
    let keys = plan.join.keys.clone();
    let asked = Query {
        identity,
        options: &query.options,
        times,
        unit,
        plan: plan.join,
        explanation,
        widths: [None, None],
        within: Some(*near),
        faults,
        of_one_stream: false,
        order: intake::Order::Arrival,
    };
    let [left, right] = sides;
    if !scans {
        let engine = PrepareKeys::arriving(keys, near, how);
        return operator(asked, engine, left, right, options);
    }
    let near_in_time = in_time(near);
    let times = near_in_time.is_some().then_some(Times { on: [times.0, times.1], unit });
    terms.extend(near_in_time);
    let indexed = ScaleAlgorithm::Indexed;
    let join =
        ScaleJoin::new(retention, how, indexed, threads, false, terms).in_arrival_order(near);
    let prepare = PrepareNumbers { row_bytes, predicate, scan, keys: None, times };
    operator(asked, Engine { prepare, join: Box::new(join) }, left, right, options)
}

/// Returns the condition that two times lie within the windows, if the windows have time bounds.
fn in_time(near: &Interval) -> Option<Term> {
    // `left - right`: the interval is of `right - left`.
    let least = near.upper.map(|upper| Constraint::Difference {
        order: Order::GreaterOrEqual,
        than: upper.saturating_neg(),
    });
    let most = near.lower.map(|lower| Constraint::Difference {
        order: Order::LessOrEqual,
        than: lower.saturating_neg(),
    });
    let none = || Operand::new(Numbers::I64(Vec::new()), None);
    let within: Vec<_> = least.into_iter().chain(most).collect();
    let is_bounded = !within.is_empty();
    is_bounded
        .then(|| Term::new(none(), none(), Relation::Whole(within)).expect("a term without rows"))
}

/// The time columns of both sides, as comparable numbers.
#[derive(Clone, Copy, Debug)]
struct Times {
    on: [usize; 2],
    unit: Unit,
}

impl Times {
    fn of(&self, side: Side, batch: &RecordBatch) -> Result<Operand> {
        let table = Table::trusted(["left", "right"][side as usize], batch.clone());
        let ts = time::times(&table, self.on[side as usize], self.unit)?;
        Ok(Operand::new(Numbers::I64(ts.to_vec()), None))
    }
}

/// Prepares rows for a join on a condition, by converting the scanned columns and the keys to
/// numbers.
#[derive(Debug)]
struct PrepareNumbers {
    /// The number of bytes charged per row for the values that are kept here.
    row_bytes: usize,
    predicate: Option<Predicate>,
    /// Tests the predicate while the join compares numbers. Scanning stops at a row with a number
    /// that may cause an arithmetic error. Evaluating that row's pairs then shows whether the error
    /// occurs.
    scan: Option<Scan>,
    keys: Option<KeptKeys>,
    /// The time columns, which are added after the other numbers if rows are not processed in time
    /// order.
    times: Option<Times>,
}

impl PrepareNumbers {
    /// Returns the rows' numbers for each term. `of_keys` returns the numbers of the rows' keys.
    fn of(
        &mut self,
        join: &SlidingJoin,
        batches: [&RecordBatch; 2],
        mut of_keys: impl FnMut(&mut KeptKeys, Side) -> Result<Operand>,
    ) -> Result<Option<Vec<(Operand, Operand)>>> {
        let mut numbers = match (&mut self.scan, &self.predicate) {
            (Some(scan), Some(predicate)) if join.compares() => {
                let columns = |side: expression::Origin, batch: &RecordBatch| SideColumns {
                    arrays: predicate
                        .columns(side)
                        .iter()
                        .map(|&column| Some(batch.column(column).clone()))
                        .collect(),
                    rows: batch.num_rows(),
                };
                let [left, right] = batches;
                scan.numbers(
                    &columns(expression::Origin::Left, left),
                    &columns(expression::Origin::Right, right),
                )
            }
            _ => join.compares().then(Vec::new),
        };
        if let Some(keys) = &mut self.keys {
            let of_keys = (of_keys(keys, Side::Left)?, of_keys(keys, Side::Right)?);
            numbers.iter_mut().for_each(|numbers| numbers.push(of_keys.clone()));
        }
        if let (Some(times), Some(numbers)) = (&self.times, &mut numbers) {
            let [left, right] = batches;
            numbers.push((times.of(Side::Left, left)?, times.of(Side::Right, right)?));
        }
        Ok(numbers)
    }
}

/// The test that still has to be applied to the pairs that were found.
struct Test<'a> {
    predicate: Option<&'a Predicate>,
    keys: Option<&'a KeptKeys>,
    /// The low bits of the row number at offset 0 on each side.
    firsts: [u32; 2],
}

impl Test<'_> {
    fn keep(&self, kept: &KeptRows<'_>, left: &[u32], right: &[u32]) -> Result<Vec<bool>> {
        let equal: Vec<bool> = match self.keys {
            None => vec![true; left.len()],
            Some(keys) => {
                let offset =
                    |number: &u32, side: Side| number.wrapping_sub(self.firsts[side as usize]);
                let equal = |(l, r)| keys.are_equal(offset(l, Side::Left), offset(r, Side::Right));
                left.iter().zip(right).map(equal).collect()
            }
        };
        match self.predicate {
            None => Ok(equal),
            Some(predicate) => kept.keep_candidates(predicate, equal, left, right),
        }
    }
}

impl Prepare for PrepareNumbers {
    type Values<'a> = Operands<'a>;
    type Join = SlidingJoin;

    fn prepare(
        &mut self,
        join: &mut SlidingJoin,
        _: &Driver,
        batches: [&RecordBatch; 2],
        then: impl FnOnce(&mut SlidingJoin, Self::Values<'_>),
    ) -> Result<()> {
        let numbers = self.of(join, batches, |keys, side| {
            keys.push(side, batches[side as usize]).map(|keys| numbers_of(&keys))
        })?;
        then(join, numbers.as_deref());
        Ok(())
    }

    fn prepare_again(
        &mut self,
        join: &mut SlidingJoin,
        batches: [&RecordBatch; 2],
        then: impl FnOnce(&mut SlidingJoin, Self::Values<'_>),
    ) -> Result<()> {
        let numbers = self.of(join, batches, |keys, side| Ok(numbers_of(&keys.of_kept(side))))?;
        then(join, numbers.as_deref());
        Ok(())
    }

    fn test<'a>(&'a self, join: &SlidingJoin, kept: &'a KeptRows<'_>) -> Option<Box<Filter<'a>>> {
        let (predicate, keys) = match join.compares() {
            true => (self.scan.as_ref().and_then(Scan::residual), None),
            false => (self.predicate.as_ref(), self.keys.as_ref()),
        };
        let firsts = [Side::Left, Side::Right].map(|side| join.first(side) as u32);
        let test = Test { predicate, keys, firsts };
        let is_needed = predicate.is_some() || keys.is_some();
        is_needed.then(|| -> Box<Filter<'a>> {
            Box::new(move |left, right| test.keep(kept, left, right).map_err(Into::into))
        })
    }

    fn release(&mut self, join: &mut SlidingJoin) {
        if let Some(keys) = &mut self.keys {
            keys.keep([join.rows(Side::Left), join.rows(Side::Right)]);
        }
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }
}
