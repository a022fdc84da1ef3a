//! Window lengths, which can be fixed durations or calendar units.

use std::fmt;

use super::bounds::Bound;
use super::unit::DAY;
use crate::Result;
use crate::columns::duration::{CalendarLength, clock_text, parse_parts};

/// The length or the offset of windows, as specified by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A fixed duration, or a number of integer steps.
    Fixed(Bound),
    /// A number of nanoseconds that was written in hours or smaller units.
    Clock(i128),
    /// A length with days or longer units. They are calendar units if the time zone is known.
    Calendar(CalendarLength),
}

impl Length {
    /// Parses a length such as `1mo` or `24h`.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(match parse_parts(text)? {
            (parts, true) => Length::Calendar(parts),
            (parts, false) => Length::Clock(parts.clock),
        })
    }

    /// Returns the fixed duration if days have 24 hours and there are no months.
    pub(crate) fn fixed(self) -> Option<Bound> {
        match self {
            Length::Fixed(bound) => Some(bound),
            Length::Clock(nanoseconds) => Some(Bound::Nanoseconds(nanoseconds)),
            Length::Calendar(length) => length.fixed().map(Bound::Nanoseconds),
        }
    }
}

/// Formats the length so that it can be parsed again. Steps are formatted as an integer.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = match *self {
            Length::Fixed(Bound::Steps(steps)) => return write!(f, "{steps}"),
            Length::Fixed(Bound::Nanoseconds(clock)) | Length::Clock(clock) => {
                return f.write_str(&clock_text(clock));
            }
            Length::Calendar(length) => length,
        };
        let CalendarLength { months, days, weeks, clock } = length;
        let days = (days + weeks) / i128::from(DAY);
        // A sign applies to all parts.
        debug_assert!(
            [months, days, clock].iter().all(|part| *part >= 0)
                || [months, days, clock].iter().all(|part| *part <= 0)
        );
        if months < 0 || days < 0 || clock < 0 {
            f.write_str("-")?;
        }
        if months != 0 {
            write!(f, "{}mo", months.abs())?;
        }
        if days != 0 || (months == 0 && clock == 0) {
            write!(f, "{}d", days.abs())?;
        }
        if clock == 0 { Ok(()) } else { f.write_str(&clock_text(clock.abs())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_written_as_it_is_read() {
        for text in ["1mo", "2d", "-1mo1d", "1d6h", "14mo3d90min", "24h", "-90s", "0d", "6h"] {
            let length = Length::parse(text).unwrap();
            assert_eq!(length.to_string(), text);
        }
        assert_eq!(Length::parse("1y1w").unwrap().to_string(), "12mo7d");
        assert_eq!(Length::Fixed(Bound::Steps(-3)).to_string(), "-3");
    }
}
