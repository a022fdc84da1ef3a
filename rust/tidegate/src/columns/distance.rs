//! Distances between values: as specified by the caller, and in the columns' steps.

use std::fmt;

use super::time::{Bound, Unit, check_has_unit};
use crate::{Error, Result, shown};

/// A distance between two values, as the caller specified it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distance {
    /// An integer, for columns that do not contain times.
    Whole(i128),
    /// A floating-point number.
    Float(f64),
    /// `digits` times ten to the power of `-scale`.
    Decimal {
        /// The digits, as one integer.
        digits: i128,
        /// The negative power of ten.
        scale: i32,
    },
    /// A duration.
    Nanoseconds(i128),
}

/// How far the right value can be below or above the left value. `None` means no bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Within {
    /// The maximum distance below.
    pub below: Option<Distance>,
    /// The maximum distance above.
    pub above: Option<Distance>,
}

/// The step size of a column's codes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CodeStep {
    /// This negative power of ten.
    Power(i32),
    /// One step of a time column.
    Time(Unit),
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distance::Whole(whole) => write!(f, "{whole}"),
            Distance::Float(float) => write!(f, "{float}"),
            Distance::Decimal { digits, scale } => write!(f, "{digits}e{}", -scale),
            Distance::Nanoseconds(nanoseconds) => write!(f, "{nanoseconds} ns"),
        }
    }
}

impl Distance {
    /// Parses a decimal number in scientific notation, such as `1.50e-2`.
    pub fn decimal(text: &str) -> Result<Self> {
        let (digits, scale) = scientific(text).ok_or_else(|| {
            Error::argument(format!(
                "within: `{}` is not a number of up to 38 digits; give fewer digits",
                shown(text)
            ))
        })?;
        Ok(Distance::Decimal { digits, scale })
    }

    /// Rejects a value that is not a valid distance: a negative number or NaN.
    pub(crate) fn check(self, column: &str) -> Result<()> {
        let ok = match self {
            Distance::Whole(number)
            | Distance::Decimal { digits: number, .. }
            | Distance::Nanoseconds(number) => number >= 0,
            Distance::Float(float) => float >= 0.0,
        };
        if ok {
            return Ok(());
        }
        Err(Error::argument(format!(
            "within must not be negative or NaN, but it is {self} for `{column}`"
        )))
    }

    /// The distance between floating-point numbers.
    pub(crate) fn as_float(self, column: &str) -> Result<f64> {
        match self {
            Distance::Whole(whole) => Ok(whole as f64),
            Distance::Float(float) => Ok(float),
            // Convert the decimal through text, which is rounded only once.
            Distance::Decimal { .. } => {
                Ok(self.to_string().parse().expect("the text contains a valid number"))
            }
            Distance::Nanoseconds(_) => Err(not_a_time(column)),
        }
    }

    /// Returns the distance in whole steps, rounded down. Returns `None` if the distance exceeds
    /// the difference between any two values.
    pub(crate) fn as_steps(self, column: &str, step: CodeStep) -> Result<Option<u64>> {
        let (digits, power) = match (self, step) {
            (Distance::Whole(whole), CodeStep::Power(power)) => (whole, power),
            (Distance::Whole(whole), CodeStep::Time(unit)) => {
                check_has_unit(&format!("within for `{column}`"), Bound::Steps(whole), unit)?;
                (whole, 0)
            }
            (Distance::Nanoseconds(nanoseconds), CodeStep::Time(Unit::Nanoseconds(step))) => {
                (nanoseconds / i128::from(step), 0)
            }
            (Distance::Nanoseconds(_), _) => return Err(not_a_time(column)),
            (Distance::Float(float), CodeStep::Power(_)) if float.is_infinite() => return Ok(None),
            (Distance::Float(float), CodeStep::Power(power)) => {
                let (digits, scale) = shortest(float);
                (digits, power - scale)
            }
            (Distance::Decimal { digits, scale }, CodeStep::Power(power)) => {
                (digits, power - scale)
            }
            (Distance::Float(_) | Distance::Decimal { .. }, CodeStep::Time(_)) => {
                return Err(Error::schema(format!(
                    "within for `{column}` is {self}, but the column is a time; give a duration"
                )));
            }
        };
        let scaled = match power {
            0.. => power
                .try_into()
                .ok()
                .and_then(|power| 10_i128.checked_pow(power))
                .map(|ten| digits.checked_mul(ten)),
            _ => {
                Some(Some(10_i128.checked_pow(power.unsigned_abs()).map_or(0, |ten| digits / ten)))
            }
        };
        Ok(match scaled.flatten() {
            _ if digits == 0 => Some(0),
            Some(steps) => u64::try_from(steps).ok(),
            None => None,
        })
    }
}

fn not_a_time(column: &str) -> Error {
    Error::schema(format!(
        "within for `{column}` is a duration, but the column is a number; give a number"
    ))
}

/// Returns the digits and scale of the shortest decimal number that parses to this float. A user
/// who writes 0.1 means one tenth.
fn shortest(float: f64) -> (i128, i32) {
    scientific(&format!("{float:e}")).expect("scientific notation has at most 17 digits")
}

/// Returns the digits of a number in scientific notation, and their scale.
fn scientific(text: &str) -> Option<(i128, i32)> {
    let (digits, exponent) = text.split_once('e')?;
    let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    Some((
        digits.replace('.', "").parse().ok()?,
        i32::try_from(fraction).ok()?.checked_sub(exponent.parse().ok()?)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(distance: Distance, power: i32) -> Option<u64> {
        distance.as_steps("x", CodeStep::Power(power)).unwrap()
    }

    #[test]
    fn distances_are_rounded_down_to_whole_steps() {
        assert_eq!(steps(Distance::Float(0.1), 2), Some(10));
        assert_eq!(steps(Distance::Float(0.3), 1), Some(3));
        assert_eq!(steps(Distance::Float(2.99), 0), Some(2));
        assert_eq!(steps(Distance::Float(1e-300), 2), Some(0));
        assert_eq!(steps(Distance::Float(0.0), 0), Some(0));
        assert_eq!(steps(Distance::Float(1e300), 0), None);
        assert_eq!(steps(Distance::Float(f64::INFINITY), 0), None);
        assert_eq!(steps(Distance::Float(12345.678), 1), Some(123_456));
        assert_eq!(steps(Distance::Decimal { digits: 15, scale: 1 }, 0), Some(1));
        assert_eq!(steps(Distance::Decimal { digits: 15, scale: -2 }, 1), Some(15_000));
        assert_eq!(steps(Distance::Whole(u64::MAX.into()), 0), Some(u64::MAX));
        assert_eq!(steps(Distance::Whole(i128::from(u64::MAX) + 1), 0), None);
        assert_eq!(steps(Distance::Whole(0), 40), Some(0));
        let ms = CodeStep::Time(Unit::Nanoseconds(1_000_000));
        assert_eq!(Distance::Nanoseconds(2_999_999).as_steps("x", ms).unwrap(), Some(2));
        assert!(Distance::Float(1.0).as_steps("x", ms).is_err());
        assert!(Distance::Nanoseconds(1).as_steps("x", CodeStep::Power(0)).is_err());
    }

    #[test]
    fn decimals_become_the_nearest_float() {
        assert_eq!(
            Distance::decimal("1.50e+1").unwrap(),
            Distance::Decimal { digits: 150, scale: 1 }
        );
        assert!(Distance::decimal("NaN").is_err());
        assert_eq!(Distance::Decimal { digits: 1, scale: 1 }.as_float("x").unwrap(), 0.1);
        assert_eq!(Distance::Decimal { digits: 25, scale: -3 }.as_float("x").unwrap(), 25_000.0);
    }
}
