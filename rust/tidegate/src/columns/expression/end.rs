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
    /// True if values are right times, and false if they are distances from the left time.
    is_time: bool,
    /// True for the lower end.
    is_lower: bool,
    /// True if the interval excludes the end itself.
    is_open: bool,
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
        let scale =
            if value >= step { Scale::Multiply(value / step) } else { Scale::Divide(step / value) };
        EndRule { scale, is_time, is_lower, is_open }
    }

    pub(crate) fn is_time(&self) -> bool {
        self.is_time
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
        let from = if self.is_time { i128::from(ts) } else { 0 };
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
        if self.is_time {
            steps.floor = steps.floor.saturating_sub(i128::from(ts));
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
