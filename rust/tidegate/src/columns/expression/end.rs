//! Computes the end of an interval from a row's time and from a value computed from the row's
//! columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{Array, Int64Array};
use arrow_schema::{ArrowError, DataType};

use super::Origin;
use crate::columns::cast::cast;

/// Converts a value to an end of the interval that contains the right times matching a left time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndRule {
    scale: Scale,
    kind: EndKind,
    /// True for the lower end.
    is_lower: bool,
    /// True if the interval excludes the end itself.
    is_open: bool,
}

/// What values are, relative to the times of their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndKind {
    /// A distance from the left to the right time.
    Distance,
    /// A right time.
    Time,
    /// The end of the row itself, which starts at its time. Two rows match if they have at least
    /// this many steps in common.
    RowEnd(i64),
}

/// The conversion from values to time steps.
#[derive(Clone, Copy, Debug)]
enum Scale {
    Multiply(i64),
    Divide(i64),
}

/// A number of steps, rounded down, with a flag that is true if the number is exact.
#[derive(Clone, Copy, Debug)]
struct Steps {
    floor: i128,
    is_whole: bool,
}

impl Scale {
    fn of(value: i64, step: i64) -> Self {
        if value >= step { Scale::Multiply(value / step) } else { Scale::Divide(step / value) }
    }
}

impl EndRule {
    /// Creates a rule for values whose unit is `value` nanoseconds and for steps of `step`
    /// nanoseconds. Either `value` or `step` must be a multiple of the other. For integers both are
    /// 1.
    pub(crate) fn new(
        (value, step): (i64, i64),
        is_time: bool,
        is_lower: bool,
        is_open: bool,
    ) -> Self {
        let kind = if is_time { EndKind::Time } else { EndKind::Distance };
        EndRule { scale: Scale::of(value, step), kind, is_lower, is_open }
    }

    /// Creates the rule for rows that start at their times and end at their values. Rows match if
    /// they have `least` steps in common. The unit of values is `value` nanoseconds, which is a
    /// multiple of a step.
    pub(crate) fn of_row_ends((value, step): (i64, i64), least: i64, side: Origin) -> Self {
        let kind = EndKind::RowEnd(least);
        let is_lower = side == Origin::Right;
        EndRule { scale: Scale::of(value, step), kind, is_lower, is_open: false }
    }

    /// Returns whether values are times of the other side.
    pub(crate) fn is_time(&self) -> bool {
        self.kind == EndKind::Time
    }

    /// Returns the number of steps by which a row starts after its end.
    pub(crate) fn is_reversed_by(&self, ts: i64, value: i128) -> Option<i128> {
        let after = i128::from(ts).saturating_sub(self.steps(value).floor);
        (after > 0 && matches!(self.kind, EndKind::RowEnd(_))).then_some(after)
    }

    fn steps(&self, value: i128) -> Steps {
        match self.scale {
            Scale::Multiply(factor) => {
                Steps { floor: value.saturating_mul(i128::from(factor)), is_whole: true }
            }
            Scale::Divide(divisor) => match i64::try_from(value) {
                // This is three times as fast as with 128 bits.
                Ok(value) => Steps {
                    floor: i128::from(value.div_euclid(divisor)),
                    is_whole: value.rem_euclid(divisor) == 0,
                },
                Err(_) => Steps {
                    floor: value.div_euclid(i128::from(divisor)),
                    is_whole: value.rem_euclid(i128::from(divisor)) == 0,
                },
            },
        }
    }

    /// Returns the smallest or largest whole distance from the left to the right time.
    fn rounded(&self, Steps { floor, is_whole }: Steps) -> i128 {
        match self.is_lower {
            true => floor.saturating_add(i128::from(self.is_open || !is_whole)),
            false => floor.saturating_sub(i128::from(self.is_open && is_whole)),
        }
    }

    /// Returns the distance, given that it is the same for all rows. The distance is clamped to 64
    /// bits, because no two times are farther apart.
    pub(crate) fn distance(&self, value: i128) -> i64 {
        let distance = self.rounded(self.steps(value));
        distance.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Returns whether the end is more than `most` steps away from the left time, given the row's
    /// time.
    pub(crate) fn is_beyond(&self, most: i64, ts: i64, value: i128) -> bool {
        let from = if self.kind == EndKind::Distance { 0 } else { i128::from(ts) };
        let Steps { floor, is_whole } = self.steps(value);
        let (floor, most) = (floor.saturating_sub(from), i128::from(most));
        floor < -most || floor.saturating_add(i128::from(!is_whole)) > most
    }

    /// Returns true if times on the other side match a row on this side from this end onward.
    /// Otherwise, they match up to this end.
    pub(crate) fn is_start(&self, side: Origin) -> bool {
        self.is_lower != (side == Origin::Right)
    }

    /// Returns the inclusive end of the times on the other side that a row on this side matches.
    /// Returns `None` if no 64-bit time matches.
    #[inline]
    pub(crate) fn time(&self, side: Origin, ts: i64, value: i128) -> Option<i64> {
        let mut steps = self.steps(value);
        match self.kind {
            EndKind::Distance => {}
            EndKind::Time => steps.floor = steps.floor.saturating_sub(i128::from(ts)),
            EndKind::RowEnd(least) => {
                let last = steps.floor.saturating_sub(i128::from(least));
                // Shorter rows do not have enough steps.
                let is_long = last >= i128::from(ts);
                return is_long.then(|| last.min(i64::MAX.into()) as i64);
            }
        }
        let distance = self.rounded(steps);
        let time = match side {
            Origin::Right => i128::from(ts).saturating_sub(distance),
            Origin::Left | Origin::Row => i128::from(ts).saturating_add(distance),
        };
        let time = match self.is_start(side) {
            true => time.max(i64::MIN.into()),
            false => time.min(i64::MAX.into()),
        };
        i64::try_from(time).ok()
    }

    /// Returns the ends for rows with these times and values. An end is null if the value is null
    /// or no time matches.
    pub(super) fn times(
        &self,
        side: Origin,
        ts: &dyn Array,
        values: &dyn Array,
    ) -> Result<Int64Array, ArrowError> {
        let ts = ts.as_primitive::<Int64Type>().values();
        let values = whole_numbers(values)?;
        let time = |(&ts, value): (&i64, Option<i128>)| self.time(side, ts, value?);
        Ok(ts.iter().zip(values).map(time).collect())
    }
}

/// Returns whether a type's values are integers, times or durations. [`whole_numbers`] can read
/// such values.
pub(crate) fn is_whole_number(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(_, 0))
}

/// Returns the values of an array that contains integers, times or durations.
pub(crate) fn whole_numbers(array: &dyn Array) -> Result<Vec<Option<i128>>, ArrowError> {
    Ok(match array.data_type() {
        DataType::UInt64 => {
            array.as_primitive::<UInt64Type>().iter().map(|value| value.map(i128::from)).collect()
        }
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().iter().collect(),
        _ => {
            let values = cast(array, &DataType::Int64)?;
            values.as_primitive::<Int64Type>().iter().map(|value| value.map(i128::from)).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes, in nanoseconds, whether the end of an interval admits a time on the other side.
    fn is_within(
        (value_unit, step): (i64, i64),
        [is_time, is_lower, is_open]: [bool; 3],
        side: Origin,
        (ts, value, other): (i64, i128, i64),
    ) -> bool {
        let (left, right) = if side == Origin::Left { (ts, other) } else { (other, ts) };
        let steps = |time: i64| i128::from(time) * i128::from(step);
        let from = if is_time { 0 } else { steps(left) };
        let end = from + value * i128::from(value_unit);
        match (is_lower, is_open) {
            (true, false) => end <= steps(right),
            (true, true) => end < steps(right),
            (false, false) => steps(right) <= end,
            (false, true) => steps(right) < end,
        }
    }

    #[test]
    fn oracle_the_times_that_an_end_admits() {
        let times = [i64::MIN, i64::MIN + 1, -3, -1, 0, 1, 2, 5, i64::MAX - 1, i64::MAX];
        let values = [i128::from(i64::MIN), -9, -4, -1, 0, 1, 2, 3, 8, i128::from(i64::MAX)];
        for units in [(1, 1), (10, 5), (5, 10), (1, 1_000)] {
            for flags in 0..8 {
                let flags = [flags & 1 > 0, flags & 2 > 0, flags & 4 > 0];
                let [is_time, is_lower, is_open] = flags;
                let rule = EndRule::new(units, is_time, is_lower, is_open);
                // A time is an end of the left side only.
                let sides = [Origin::Left, Origin::Right];
                for side in sides.into_iter().filter(|&side| !is_time || side == Origin::Left) {
                    for (ts, value) in times.iter().flat_map(|ts| values.map(|value| (*ts, value)))
                    {
                        let end = rule.time(side, ts, value);
                        for other in times {
                            let found = end.is_some_and(|end| match rule.is_start(side) {
                                true => end <= other,
                                false => other <= end,
                            });
                            let row = (ts, value, other);
                            let wanted = is_within(units, flags, side, row);
                            assert_eq!(
                                found, wanted,
                                "{units:?} {flags:?} {side:?} {row:?} {end:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn oracle_rows_that_start_and_end() {
        let times = [i64::MIN, -3, -1, 0, 1, 2, 4, i64::MAX];
        for (side, least) in [Origin::Left, Origin::Right]
            .into_iter()
            .flat_map(|side| [0, 1, 3].map(|least| (side, least)))
        {
            let rule = EndRule::of_row_ends((2, 1), least, side);
            assert!(!rule.is_start(side));
            for (ts, value) in times.iter().flat_map(|ts| times.map(|value| (*ts, value))) {
                let end = 2 * i128::from(value);
                let length = end - i128::from(ts);
                let found = rule.time(side, ts, value.into());
                for other in times {
                    let wanted = length >= least.into() && end - i128::from(other) >= least.into();
                    assert_eq!(found.is_some_and(|last| other <= last), wanted);
                }
                assert_eq!(rule.is_reversed_by(ts, value.into()), (length < 0).then_some(-length));
                assert_eq!(rule.is_beyond(3, ts, value.into()), length.abs() > 3);
            }
        }
    }

    #[test]
    fn oracle_ends_that_are_too_far_away() {
        for units in [(1, 1), (10, 5), (5, 10)] {
            for (is_time, most) in [(false, 0), (false, 3), (true, 3)] {
                let rule = EndRule::new(units, is_time, true, true);
                for (ts, value) in (-3..4).flat_map(|ts| (-20..20).map(move |value| (ts, value))) {
                    let from = if is_time { i128::from(ts * units.1) } else { 0 };
                    let distance = (value * i128::from(units.0) - from).abs();
                    let wanted = distance > i128::from(most * units.1);
                    assert_eq!(rule.is_beyond(most, ts, value), wanted, "{units:?} {ts} {value}");
                }
            }
        }
    }
}
