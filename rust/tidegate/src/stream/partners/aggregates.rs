//! Aggregates each left row's partners.
//!
//! A left row becomes final after the last time at which a right row can match it. The distance to
//! this time is the same for all left rows, so the rows become final in order of arrival.

use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{How, Interval};

use super::kind::{FinalRows, PartnerKind};
use super::standing::with_standing;
use super::{PartnerQuery, explain, operator};
use crate::Result;
use crate::columns::faults::Faults;
use crate::columns::keys::KeyColumn;
use crate::columns::time::Bound;
use crate::query::aggregate::{Aggregate, Function};
use crate::query::partners::PartnerAggregation;
use crate::stream::intake::Order;
use crate::stream::operator::{Operator, with_room};
use crate::stream::options::StreamOptions;
use crate::stream::recomputation::{FinalResults, Watermark};
use crate::stream::sides::{JoinRequest, Sides};
use crate::stream::state::timed_rows::TimedRows;
use crate::stream::times::ResultTimes;

/// Creates an operator that aggregates each left row's partners, for sources with these schemas. A
/// left row is emitted once no further row can become its partner. An interval end that is computed
/// from columns may be at most `max_width` away from the time of its row, on the left and on the
/// right. Rows whose ends are farther away are set aside, like late rows.
///
/// This example counts the quotes that are at most 2 older than each trade:
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::query::aggregate::{Aggregate, Function};
/// use tidegate::stream::{Poll, StreamOptions, lock, partner_aggregates};
/// use tidegate::{Bound, Closed, How, IntervalJoin, JoinOptions};
/// use tidegate::{PartnerAggregation, PartnerJoin, Stop};
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
/// let quotes = rows(&[("ts", &[8, 9, 15])])?;
/// let join = IntervalJoin {
///     on: ("ts".to_owned(), "ts".to_owned()),
///     lower: Some(Bound::Steps(-2).into()),
///     upper: Some(Bound::Steps(0).into()),
///     closed: Closed::Both,
///     open_ends: false,
///     limit: None,
///     options,
/// };
/// let (name, function) = ("quotes".to_owned(), Function::Count);
/// let count = Aggregate { name, function, columns: Vec::new(), predicate: None, interval: None };
/// let join = PartnerJoin::Interval { join, with_prevailing: false };
/// let query = PartnerAggregation::new(join, vec![count], How::Left)?;
/// // `streams` specifies one source per side.
/// let mut join = partner_aggregates(&query, None, trades.schema(), quotes.schema(), &streams)?;
/// for (source, rows) in join.sources().iter().zip([trades, quotes]) {
///     lock(source).push(&rows.schema(), vec![rows], &Stop::default())?;
/// }
/// // The trade at 20 waits, because a quote at 18 may still arrive.
/// let Poll::Batch(counts) = join.poll()? else { unreachable!() };
/// assert_eq!(counts["quotes"].as_primitive::<Int64Type>().values(), &[2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn partner_aggregates(
    query: &PartnerAggregation,
    max_width: Option<[Bound; 2]>,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    with_room([left, right], |schemas| join(query, max_width, schemas, options))
}

fn join(
    query: &PartnerAggregation,
    max_width: Option<[Bound; 2]>,
    [left, right]: [SchemaRef; 2],
    options: &StreamOptions,
) -> Result<Operator> {
    let calls_back = |aggregate: &Aggregate| matches!(aggregate.function, Function::Udf(_));
    let pin = options.pin && !query.aggregates.iter().any(calls_back);
    let options = &StreamOptions { pin, ..options.clone() };
    let plan = query.stream_plan(max_width, &left, &right)?;
    let threads = query.options().threads;
    let keeping = match (plan.with_prevailing, plan.interval.lower) {
        (true, _) => {
            "right rows until no interval reaches them and a later row with the same key \
             replaces them"
        }
        (false, Some(_)) => "right rows until no interval reaches them",
        (false, None) => "all right rows, because the interval has no lower bound",
    };
    let place = "a left row at the position of the last time at which a right row can match";
    let columns = plan.schema.fields().len();
    let explanation = explain(plan.lines, keeping, place, threads, columns, options);
    let interval = Some(&plan.interval);
    let times = ResultTimes::of_pairs(interval, &plan.join, plan.times, plan.unit, How::Left);
    let keys = plan.join.keys;
    let faults = Faults::default();
    let kind = OfPartners {
        query: query.clone(),
        interval: plan.interval,
        with_prevailing: plan.with_prevailing,
        looks_at_pairs: plan.looks_at_pairs,
        keys: keys.clone(),
        faults: faults.clone(),
    };
    let request = JoinRequest {
        identity: plan.identity,
        schema: plan.schema,
        times,
        explanation,
        threads,
        widths: plan.widths,
        order: Order::Merged,
        faults,
    };
    let sides = Sides { left: &left, right: &right, times: plan.times, unit: plan.unit };
    operator(PartnerQuery { kind: Box::new(kind), request, sides, keys }, options)
}

/// Aggregates of partners.
#[derive(Debug)]
struct OfPartners {
    query: PartnerAggregation,
    /// The times of partners.
    interval: Interval,
    with_prevailing: bool,
    looks_at_pairs: bool,
    keys: Vec<KeyColumn>,
    faults: Faults,
}

impl PartnerKind for OfPartners {
    fn settle(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        gone: u64,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<FinalRows>> {
        let rows = left.while_ts(|ts| now.is_none_or(|now| self.last(ts) < now));
        if rows == 0 {
            return Ok(FinalResults::NONE);
        }
        let (left, right) = (left.table("left", rows)?, right.table("right", right.len())?);
        let join =
            self.query.start_on(&left, &right, Some(gone), Some(&self.faults), driver.clone())?;
        let batches = join.of_passing_rows().read_all()?;
        Ok(FinalResults { batches, leaving: FinalRows::First(rows) })
    }

    fn reach(&self, first_left: Option<i64>, now: i64) -> i64 {
        if self.with_prevailing { i64::MIN } else { self.first(first_left, now) }
    }

    fn picks(&self) -> bool {
        self.with_prevailing
    }

    fn needed(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        now: i64,
        driver: &Driver,
    ) -> Result<Vec<u32>> {
        let from = self.first(left.first_ts(), now);
        let needed = with_standing(right, left, &self.keys, None, from, driver)?;
        Ok(needed.present().map(|row| row as u32).collect())
    }

    fn looks_at_pairs(&self) -> bool {
        self.looks_at_pairs
    }
}

impl OfPartners {
    /// Returns the last time at which a row can be a partner of a left row at `ts`.
    fn last(&self, ts: i64) -> i64 {
        // Without a last matchable time, all times are after the interval.
        let last = self.interval.last(ts).unwrap_or(i64::MIN);
        if !self.with_prevailing {
            return last;
        }
        // If an interval is empty, rows before its start can be after its end.
        let before = self.interval.first(ts).map_or(i64::MAX, |first| first.saturating_sub(1));
        last.max(before)
    }

    /// Returns the earliest time that lies within the interval of a left row that is not final.
    fn first(&self, first_left: Option<i64>, now: i64) -> i64 {
        let ts = first_left.map_or(now, |first| first.min(now));
        self.interval.first(ts).unwrap_or(i64::MAX)
    }
}
