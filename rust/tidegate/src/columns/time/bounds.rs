//! Converts durations and interval ends to whole time units.

use arrow_schema::TimeUnit;
use tidegate_operators::rows::{Closed, Interval};

use super::unit::{DAY, Unit, nanoseconds};
use crate::columns::duration::duration_text;
use crate::{Error, Result};

/// An interval end, as specified by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A bound in the time columns' unit, or in the finer unit if their units differ.
    Steps(i128),
    /// A bound in nanoseconds.
    Nanoseconds(i128),
}

/// Returns a duration in whole units. Fails if the duration is not a whole number of units.
pub(crate) fn steps(name: &str, bound: Bound, unit: Unit) -> Result<i64> {
    let end = end(name, bound, unit, Round::Down)?;
    if !end.whole {
        return Err(Error::argument(format!(
            "{name} is {} {unit}, but times are whole {unit}; cast the time column to a finer unit",
            end.exact.show(),
            unit = unit.name()
        )));
    }
    Ok(end.steps)
}

/// Returns an interval end as a number of nanoseconds or as a plain integer, together with the size
/// of `unit` on the same scale. Also returns the end in that unit, formatted for messages.
pub(crate) fn amount(name: &str, bound: Bound, unit: Unit) -> Result<(i128, i64, String)> {
    let Fraction { amount, step } = end(name, bound, unit, Round::Down)?.exact;
    Ok((amount, step, Fraction { amount, step }.show()))
}

/// Returns Arrow's timestamp unit. Returns `None` for integers and days.
pub(crate) fn time_unit(unit: Unit) -> Option<TimeUnit> {
    let Unit::Nanoseconds(step) = unit else { return None };
    let units =
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    units.into_iter().find(|unit| nanoseconds(*unit) == step)
}

/// Returns the interval in whole units. The interval contains exactly the times that the caller
/// specified, even if an end is not a whole number of units.
pub(crate) fn interval(
    lower: Option<Bound>,
    upper: Option<Bound>,
    closed: Closed,
    unit: Unit,
) -> Result<Interval> {
    let low = lower.map(|bound| end("lower", bound, unit, Round::Up)).transpose()?;
    let high = upper.map(|bound| end("upper", bound, unit, Round::Down)).transpose()?;
    if let (Some(low), Some(high)) = (low, high)
        && low.exact > high.exact
    {
        let show = |bound: Option<Bound>| match bound {
            Some(Bound::Steps(steps)) => format!("{steps}"),
            Some(Bound::Nanoseconds(nanoseconds)) => duration_text(nanoseconds),
            None => "None".to_owned(),
        };
        return Err(Error::argument(format!(
            "lower must not be greater than upper, but lower is {} and upper is {}; swap them",
            show(lower),
            show(upper)
        )));
    }
    let open_below =
        matches!(closed, Closed::Right | Closed::Neither) && low.is_some_and(|low| low.whole);
    let open_above =
        matches!(closed, Closed::Left | Closed::Neither) && high.is_some_and(|high| high.whole);
    let closed = match (open_below, open_above) {
        (false, false) => Closed::Both,
        (false, true) => Closed::Left,
        (true, false) => Closed::Right,
        (true, true) => Closed::Neither,
    };
    Ok(Interval { lower: low.map(|low| low.steps), upper: high.map(|high| high.steps), closed })
}

/// Returns how far rows can be out of order, rounded down to whole units. Times are whole units, so
/// the rounding does not change which rows are late.
pub(crate) fn lateness(lateness: Option<Bound>, unit: Unit) -> Result<i64> {
    lateness.map_or(Ok(0), |lateness| length("lateness", lateness, unit))
}

/// Returns a duration, rounded down to whole units. Fails if it is negative. Times are whole units,
/// so the rounding does not change the meaning of the duration.
pub(crate) fn length(name: &str, length: Bound, unit: Unit) -> Result<i64> {
    let WholeEnd { steps, exact, .. } = end(name, length, unit, Round::Down)?;
    if steps < 0 {
        return Err(negative(name, exact, unit));
    }
    Ok(steps)
}

/// Returns a duration, rounded up to whole units. Fails if it is negative.
pub(crate) fn least_length(name: &str, length: Bound, unit: Unit) -> Result<i64> {
    let WholeEnd { steps, exact, .. } = end(name, length, unit, Round::Up)?;
    if exact.amount < 0 {
        return Err(negative(name, exact, unit));
    }
    Ok(steps)
}

/// Rejects a plain number as a duration if times are timestamps, because a plain number has no
/// unit. Zero needs no unit.
pub(crate) fn check_has_unit(name: &str, length: Bound, unit: Unit) -> Result<()> {
    match (length, unit) {
        (Bound::Steps(0), _) | (_, Unit::Integer) | (Bound::Nanoseconds(_), _) => Ok(()),
        (Bound::Steps(steps), Unit::Nanoseconds(step)) => {
            let own = if step == DAY { "d" } else { unit.name() };
            let other = if own == "s" { "min" } else { "s" };
            Err(Error::schema(format!(
                "{name} is the integer {steps}, but the time columns are dates or timestamps; give \
                 {name} a unit, as in \"{steps}{other}\" or, in the unit of the columns, \
                 \"{steps}{own}\""
            )))
        }
    }
}

fn negative(name: &str, exact: Fraction, unit: Unit) -> Error {
    Error::argument(format!("{name} must not be negative, got {} ({})", exact.show(), unit.name()))
}

#[derive(Clone, Copy)]
enum Round {
    Up,
    Down,
}

/// An interval end, rounded to a whole number of units, and its exact value.
#[derive(Clone, Copy)]
struct WholeEnd {
    steps: i64,
    /// True if the exact value is a whole number of units. A time can equal the end only if the
    /// exact value is a whole number.
    whole: bool,
    exact: Fraction,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fraction {
    /// The exact value, in nanoseconds or in the unit of an integer column.
    amount: i128,
    step: i64,
}

impl Fraction {
    fn show(self) -> String {
        let (whole, rest) =
            (self.amount / i128::from(self.step), self.amount % i128::from(self.step));
        if rest == 0 {
            whole.to_string()
        } else {
            format!("{:.9}", self.amount as f64 / self.step as f64)
        }
    }
}

fn end(name: &str, bound: Bound, unit: Unit, round: Round) -> Result<WholeEnd> {
    check_has_unit(name, bound, unit)?;
    let (amount, step) = match (bound, unit) {
        (Bound::Steps(steps), Unit::Integer) => (steps, 1),
        (Bound::Steps(steps), Unit::Nanoseconds(step)) => {
            (steps.saturating_mul(i128::from(step)), step)
        }
        (Bound::Nanoseconds(amount), Unit::Nanoseconds(step)) => (amount, step),
        (Bound::Nanoseconds(_), Unit::Integer) => {
            return Err(Error::schema(format!(
                "{name} is a duration, but the time columns are integers; give {name} as an \
                 integer in their unit"
            )));
        }
    };
    let (floor, rest) = (amount.div_euclid(i128::from(step)), amount.rem_euclid(i128::from(step)));
    let steps = match round {
        Round::Up if rest > 0 => floor + 1,
        _ => floor,
    };
    let steps = i64::try_from(steps).map_err(|_| {
        let next = if matches!(name, "lower" | "upper" | "tolerance") {
            "; give None for no bound"
        } else {
            ""
        };
        Error::argument(format!(
            "{name} is {steps} {}, which does not fit 64 bits{next}",
            unit.name()
        ))
    })?;
    Ok(WholeEnd { steps, whole: rest == 0, exact: Fraction { amount, step } })
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Unit = Unit::Nanoseconds(1_000);

    #[test]
    fn ends_between_steps_keep_their_meaning() {
        let found = interval(
            Some(Bound::Nanoseconds(-1_500)),
            Some(Bound::Nanoseconds(1_500)),
            Closed::Neither,
            US,
        )
        .unwrap();
        assert_eq!(found, Interval { lower: Some(-1), upper: Some(1), closed: Closed::Both });
        let found = interval(
            Some(Bound::Nanoseconds(-1_000)),
            Some(Bound::Nanoseconds(2_000)),
            Closed::Neither,
            US,
        )
        .unwrap();
        assert_eq!(found, Interval { lower: Some(-1), upper: Some(2), closed: Closed::Neither });
    }

    #[test]
    fn an_integer_is_no_length_of_time() {
        let steps = |steps, unit| length("size", Bound::Steps(steps), unit);
        assert_eq!(steps(5, Unit::Integer).unwrap(), 5);
        assert_eq!(steps(0, US).unwrap(), 0);
        let message = steps(5, US).unwrap_err().message().to_owned();
        assert!(message.ends_with("as in \"5s\" or, in the unit of the columns, \"5us\""));
        let message = steps(-1, Unit::Nanoseconds(DAY)).unwrap_err().message().to_owned();
        assert!(message.contains("size is the integer -1") && message.ends_with("\"-1d\""));
        let message = steps(1, Unit::Nanoseconds(1_000_000_000)).unwrap_err().message().to_owned();
        assert!(message.ends_with("\"1min\" or, in the unit of the columns, \"1s\""));
    }

    #[test]
    fn crossed_and_oversized_ends_are_refused() {
        let error =
            interval(Some(Bound::Steps(1)), Some(Bound::Steps(0)), Closed::Both, Unit::Integer)
                .unwrap_err();
        assert_eq!(
            error.message(),
            "lower must not be greater than upper, but lower is 1 and upper is 0; swap them"
        );
        let error =
            interval(Some(Bound::Steps(1 << 70)), None, Closed::Both, Unit::Integer).unwrap_err();
        assert!(error.message().contains("does not fit 64 bits"), "{error}");
        let error =
            interval(Some(Bound::Nanoseconds(1)), None, Closed::Both, Unit::Integer).unwrap_err();
        assert!(error.is_schema());
    }
}
