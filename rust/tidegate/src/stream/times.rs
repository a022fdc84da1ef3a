//! The times in an operator's results, which determine how another operator receives these results.
//!
//! ```text
//! watermark 100 of a join with upper = 10    a right row of 100 or more may still come
//!   later of the two times    100 or more    lag 0
//!   time of the left row       90 or more    lag 10
//! ```
//!
//! Every result has a position in time: its later row's time, the last time at which a row could
//! have matched, or the end of its window. The positions of future results are at or above the
//! watermark. Results are emitted in the order of their positions, unless any order is acceptable.
//! A lag is the maximum amount by which a time can precede its result's position. Therefore, lags
//! limit how far times can be out of order and determine which times can still occur.

use arrow_schema::{Field, Schema};
use tidegate_operators::asof::{AsOf, Strategy};
use tidegate_operators::rows::{How, Interval, Retention};

use crate::columns::time::Unit;
use crate::query::aggregate::plan::WindowSpan;

use crate::query::options::JoinPlan;
use crate::query::output::OutputColumn;
use crate::{Error, Result};

/// The time in a result that another operator uses as the time of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultTime {
    /// The time of the left row or the start of a window.
    Left,
    /// The time of the right row or the end of a window.
    Right,
    /// The later of the two times.
    Later,
    /// The earlier of the two times.
    Earlier,
}

/// The times in the results of an operator.
#[derive(Clone, Copy, Debug)]
pub struct ResultTimes {
    /// The time unit of the watermark and of `lags`.
    unit: Unit,
    /// The columns of the result that contain the two times, if any.
    columns: [Option<usize>; 2],
    /// The maximum amount by which each time can precede its result's position, or `None` if there
    /// is no limit.
    lags: [Option<i64>; 2],
    /// True if some results may have only one of the two times.
    is_alone: bool,
    /// True if results are emitted in the order of their positions.
    in_order: bool,
}

impl ResultTimes {
    /// Returns the times of rows that are emitted unchanged, with their time in the given column.
    pub(super) fn of_rows(column: usize, unit: Unit) -> Self {
        let (columns, lags) = ([Some(column), None], [Some(0), None]);
        ResultTimes { unit, columns, lags, is_alone: true, in_order: true }
    }

    /// Returns the times of windows.
    pub(super) fn of_windows(span: &WindowSpan, unit: Unit) -> Self {
        let start = match span {
            WindowSpan::Windows(windows) => Some(windows.longest()),
            WindowSpan::Sessions(_) | WindowSpan::Listed(_) => None,
            // The last window of a key is emitted long after its rows.
            WindowSpan::Rows(_) => return Self::unbounded(unit),
        };
        let (columns, lags) = ([Some(0), Some(1)], [start, Some(0)]);
        ResultTimes { unit, columns, lags, is_alone: false, in_order: true }
    }

    /// Returns the times of windows that may be emitted long after their rows.
    fn unbounded(unit: Unit) -> Self {
        let columns = [Some(0), Some(1)];
        ResultTimes { unit, columns, lags: [None, None], is_alone: true, in_order: false }
    }

    /// Returns the times of pairs that match within this interval.
    pub(super) fn of_pairs(
        interval: Option<&Interval>,
        plan: &JoinPlan,
        (left, right): (usize, usize),
        unit: Unit,
        how: How,
    ) -> Self {
        let distance = |end: Option<i64>| end.map(|end| end.max(0));
        let lags = interval.map_or([None; 2], |interval| {
            let before = interval.lower.map(i64::saturating_neg);
            [distance(interval.upper), distance(before)]
        });
        let place = |wanted: OutputColumn| plan.columns.iter().position(|&one| one == wanted);
        let columns = [place(OutputColumn::Left(left)), place(OutputColumn::Right(right))];
        ResultTimes { unit, columns, lags, is_alone: how != How::Inner, in_order: true }
    }

    /// Returns the times of left rows that are joined with the nearest right row.
    pub(super) fn of_nearest(
        asof: &AsOf,
        plan: &JoinPlan,
        times: (usize, usize),
        unit: Unit,
        how: How,
    ) -> Self {
        let most = asof.tolerance;
        let lags = match asof.strategy {
            Strategy::Backward => [Some(0), most],
            Strategy::Forward => [most, Some(0)],
            Strategy::Nearest => [most, most.map(|most| most.saturating_mul(2))],
        };
        ResultTimes { lags, ..Self::of_pairs(None, plan, times, unit, how) }
    }

    /// Returns the same times, marked as being in order only if `ordered` is true.
    pub(super) fn unordered(self, ordered: bool) -> Self {
        ResultTimes { in_order: ordered, ..self }
    }

    /// Returns which of the two times the given result column contains.
    fn named(&self, column: usize) -> Option<ResultTime> {
        let [left, right] = self.columns;
        let is = |one: Option<usize>| one == Some(column);
        is(left).then_some(ResultTime::Left).or(is(right).then_some(ResultTime::Right))
    }

    /// Returns the maximum amount by which a time can precede its result's position, or `None` if
    /// there is no limit.
    fn lag(&self, of: ResultTime) -> Option<i64> {
        let [left, right] = self.lags;
        let lag = match of {
            ResultTime::Left => left,
            ResultTime::Right => right,
            ResultTime::Later if !self.is_alone => Some(0),
            ResultTime::Later | ResultTime::Earlier => Some(left?.max(right?)),
        };
        lag.filter(|&lag| lag < i64::MAX)
    }
}

/// Returns the interval that corresponds to time-based windows, or `None` for row-based windows.
pub(super) fn within(retention: Retention) -> Option<Interval> {
    match retention {
        Retention::Time { left, right } => Some(Interval::of_windows(left, right)),
        Retention::Rows { .. } => None,
    }
}

/// The relation between a source and the operator that it follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lead {
    /// The time unit of the operator's watermark and of `lag`.
    unit: Unit,
    lag: i64,
}

impl Lead {
    /// Returns the promise that the source can make in `unit`, given that all future results of the
    /// operator have positions at or above `place`.
    pub(super) fn promise(self, place: i64, unit: Unit) -> Option<i64> {
        floor(place.saturating_sub(self.lag), self.unit, unit)
    }
}

/// The properties of a source that follows an operator.
#[derive(Clone, Debug)]
pub(super) struct LedSource {
    pub(super) lead: Lead,
    /// The maximum time by which the source's rows can be out of order, in the source's unit, or
    /// `None` if there is no limit.
    pub(super) lateness: Option<i64>,
    /// The result columns from which the source's time is computed, or no columns if the time is a
    /// result column.
    pub(super) columns: Vec<String>,
}

/// Determines how a source with this time column receives an operator's results. The source's times
/// are compared in `unit`. `of` specifies a time that is computed from the two times of a result.
pub(super) fn led(
    times: &ResultTimes,
    schema: &Schema,
    (on, unit): (&Field, Unit),
    of: Option<ResultTime>,
) -> Result<LedSource> {
    let on = on.name();
    let at = schema.fields().iter().position(|field| field.name() == on);
    let name = |at: usize| schema.field(at).name().clone();
    let own: Vec<String> = times.columns.iter().flatten().map(|&at| name(at)).collect();
    let of = match (of, at) {
        (None, Some(at)) => times.named(at).ok_or_else(|| {
            Error::schema(format!(
                "the source's time column `{on}` is not among the time columns of the results \
                 ({}); use one of these as `on` of the operator that is fed",
                own.join(", ")
            ))
        })?,
        (None, None) => {
            return Err(Error::schema(format!(
                "the results have no column `{on}`, the source's time column; write (operator, \
                 \"later\") for the later of the two times of a pair"
            )));
        }
        (Some(_), Some(_)) => {
            return Err(Error::schema(format!(
                "the results already have a column `{on}`; use a different name as `on` of the \
                 operator that is fed, for the added time"
            )));
        }
        (Some(of), None) if own.len() == 2 => of,
        (Some(_), None) => {
            return Err(Error::schema(format!(
                "the results must have both times, but have only ({}); leave `columns` out, or \
                 list both times",
                own.join(", ")
            )));
        }
    };
    let lag = times.lag(of).ok_or_else(|| {
        Error::argument(format!(
            "`{on}`: such a time may be any distance below the times of other results, so no row would \
             be final before the end; bound the interval or the window, or write (operator, \
             \"later\")"
        ))
    })?;
    let in_unit = ceil(lag, times.unit, unit).ok_or_else(|| {
        Error::schema(format!(
            "`{on}`: the results have times in {}, but the source has times in {}; give the source \
             a time column of the same type as the results",
            times.unit.name(),
            unit.name()
        ))
    })?;
    let columns = if at.is_some() { Vec::new() } else { own };
    let lead = Lead { unit: times.unit, lag };
    Ok(LedSource { lead, lateness: times.in_order.then_some(in_unit), columns })
}

/// Converts a watermark to another unit, rounding down. Returns `None` if the units cannot be
/// compared.
fn floor(ts: i64, from: Unit, to: Unit) -> Option<i64> {
    convert(ts, from, to, i128::div_euclid)
}

/// Converts a distance to another unit, rounding up. Returns `None` if the units cannot be
/// compared.
fn ceil(distance: i64, from: Unit, to: Unit) -> Option<i64> {
    convert(distance, from, to, |a, b| -(-a).div_euclid(b))
}

fn convert(steps: i64, from: Unit, to: Unit, divided: impl Fn(i128, i128) -> i128) -> Option<i64> {
    let of = |unit: Unit| match unit {
        Unit::Integer => None,
        Unit::Nanoseconds(step) => Some(i128::from(step)),
    };
    match (of(from), of(to)) {
        (None, None) => Some(steps),
        (Some(from), Some(to)) => {
            let steps = divided(i128::from(steps) * from, to);
            Some(steps.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
        }
        _ => None,
    }
}
