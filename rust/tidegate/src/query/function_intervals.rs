//! The intervals of functions that aggregate partners in an interval join.

use tidegate_operators::rows::{Closed, Interval};

use super::aggregate::{Aggregate, OwnInterval, own_interval_refused};
use super::interval::IntervalJoin;
use super::plan::distances;
use crate::columns::row_ends::End;
use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result, shown};

/// The message for a prevailing row of an interval that has no start.
pub(crate) const NOTHING_BEFORE: &str = "prevailing: no row precedes an interval without a lower \
                                         bound; give lower, or leave prevailing out";

/// The interval of each function. The first interval is that of the join.
#[derive(Clone, Debug)]
pub(crate) struct FunctionIntervals {
    /// The intervals that differ from the join's.
    others: Vec<OtherInterval>,
    /// For each function, 0 for the join's interval, or 1 more than the position of another
    /// interval.
    of_functions: Vec<usize>,
}

/// An interval that some functions use instead of the join's interval.
#[derive(Clone, Debug)]
struct OtherInterval {
    ends: FunctionEnds,
    /// The first function that has the interval.
    function: String,
}

/// The ends of an interval, and whether the last right row before the interval is also a partner.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FunctionEnds {
    lower: Option<Bound>,
    upper: Option<Bound>,
    closed: Closed,
    with_prevailing: bool,
}

/// An interval of left rows, and whether the last right row before the interval is also a partner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartnerInterval {
    pub(crate) interval: Interval,
    pub(crate) with_prevailing: bool,
}

impl FunctionIntervals {
    /// Returns the interval of each function. If no function has the join's interval, the join's
    /// interval becomes that of the first function.
    pub(crate) fn new(
        join: &mut IntervalJoin,
        with_prevailing: &mut bool,
        functions: &[Aggregate],
    ) -> Result<Self> {
        let Some(one) = functions.iter().find(|one| one.interval.is_some()) else {
            return Self::of_join(functions);
        };
        let of_join = FunctionEnds {
            lower: fixed(join.lower.as_ref(), &one.name)?,
            upper: fixed(join.upper.as_ref(), &one.name)?,
            closed: join.closed,
            with_prevailing: *with_prevailing,
        };
        let ends = functions.iter().map(|one| of_join.of_function(one));
        let ends = ends.collect::<Result<Vec<_>>>()?;
        let first = if ends.contains(&of_join) { of_join } else { ends[0] };
        (join.lower, join.upper) = (first.lower.map(End::Fixed), first.upper.map(End::Fixed));
        (join.closed, *with_prevailing) = (first.closed, first.with_prevailing);
        let mut others: Vec<OtherInterval> = Vec::new();
        let mut place = |(ends, one): (FunctionEnds, &Aggregate)| {
            if ends == first {
                return 0;
            }
            1 + others.iter().position(|other| other.ends == ends).unwrap_or_else(|| {
                others.push(OtherInterval { ends, function: one.name.clone() });
                others.len() - 1
            })
        };
        let of_functions = ends.into_iter().zip(functions).map(&mut place).collect();
        Ok(FunctionIntervals { others, of_functions })
    }

    /// Returns the join's interval for all functions. Fails if a function has its own interval.
    pub(crate) fn of_join(functions: &[Aggregate]) -> Result<Self> {
        match functions.iter().find(|one| one.interval.is_some()) {
            Some(one) => Err(own_interval_refused(one)),
            None => {
                Ok(FunctionIntervals { others: Vec::new(), of_functions: vec![0; functions.len()] })
            }
        }
    }

    /// For each function, the position of its interval among all intervals.
    pub(crate) fn of_functions(&self) -> &[usize] {
        &self.of_functions
    }

    /// The number of intervals.
    pub(crate) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns all intervals in steps of the given unit, given the join's interval.
    pub(crate) fn each(&self, first: PartnerInterval, unit: Unit) -> Result<Vec<PartnerInterval>> {
        let other = |OtherInterval { ends, function }: &OtherInterval| {
            let FunctionEnds { lower, upper, closed, with_prevailing } = *ends;
            let interval = time::interval(lower, upper, closed, unit)
                .map_err(|error| Error::argument(of_function(function, &error)))?;
            Ok(PartnerInterval { interval, with_prevailing })
        };
        std::iter::once(Ok(first)).chain(self.others.iter().map(other)).collect()
    }

    /// Returns an interval that covers all intervals, given the join's interval. The result is the
    /// join's interval if there are no others.
    pub(crate) fn covering(&self, first: PartnerInterval, unit: Unit) -> Result<PartnerInterval> {
        if self.others.is_empty() {
            return Ok(first);
        }
        let intervals = self.each(first, unit)?;
        let ends: Vec<_> = intervals.iter().map(|one| distances(one.interval)).collect();
        let lower = ends.iter().map(|ends| ends.0).min().flatten();
        let upper: Option<Vec<i64>> = ends.iter().map(|ends| ends.1).collect();
        let upper = upper.and_then(|upper| upper.into_iter().max());
        // Intervals that exclude their ends can be empty.
        let upper = upper.map(|upper| lower.map_or(upper, |lower| upper.max(lower)));
        Ok(PartnerInterval {
            interval: Interval { lower, upper, closed: Closed::Both },
            with_prevailing: intervals.iter().any(|one| one.with_prevailing),
        })
    }
}

impl FunctionEnds {
    /// Returns the interval of a function, given the join's interval.
    fn of_function(self, one: &Aggregate) -> Result<Self> {
        let Some(OwnInterval { lower, upper, closed, with_prevailing }) = &one.interval else {
            return Ok(self);
        };
        let own = FunctionEnds {
            lower: lower.unwrap_or(self.lower),
            upper: upper.unwrap_or(self.upper),
            closed: closed.unwrap_or(self.closed),
            with_prevailing: with_prevailing.unwrap_or(self.with_prevailing),
        };
        match own.with_prevailing && own.lower.is_none() {
            true => Err(Error::argument(of_function(&one.name, &NOTHING_BEFORE))),
            false => Ok(own),
        }
    }
}

/// Returns an end of the join's interval, which must be the same for all rows.
fn fixed(end: Option<&End>, function: &str) -> Result<Option<Bound>> {
    match end {
        None => Ok(None),
        Some(End::Fixed(bound)) => Ok(Some(*bound)),
        Some(End::Computed(_)) => Err(Error::argument(of_function(
            function,
            &"it has its own interval, so lower and upper of the call must be durations or \
              integers, not columns; make another call for bounds from columns",
        ))),
    }
}

/// Returns the message of an error in one function's interval.
fn of_function(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("aggs: `{}`: {error}", shown(name))
}
