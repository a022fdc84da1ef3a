//! Parses and formats durations as users write them: `1h30m`, `-5 seconds`, `250ms`, `PT1H30M`. The
//! same parser is used for arguments and for `INTERVAL`. Window lengths may also contain calendar
//! units, as in `1mo`.

use crate::{Error, Result, shown};

/// The units, with their names in lower case.
const UNITS: [(UnitScale, &[&str]); 11] = [
    (UnitScale::Clock(1), &["ns", "nano", "nanos", "nanosecond", "nanoseconds"]),
    (
        UnitScale::Clock(1_000),
        &["us", "µs", "μs", "micro", "micros", "microsecond", "microseconds"],
    ),
    (UnitScale::Clock(1_000_000), &["ms", "milli", "millis", "millisecond", "milliseconds"]),
    (UnitScale::Clock(SECOND), &["s", "sec", "secs", "second", "seconds"]),
    (UnitScale::Clock(60 * SECOND), &["m", "min", "mins", "minute", "minutes"]),
    (UnitScale::Clock(3_600 * SECOND), &["h", "hr", "hrs", "hour", "hours"]),
    (UnitScale::Days, &["d", "day", "days"]),
    (UnitScale::Weeks, &["w", "wk", "wks", "week", "weeks"]),
    (UnitScale::Months(1), &["mo", "mon", "mons", "month", "months"]),
    (UnitScale::Months(3), &["q", "quarter", "quarters"]),
    (UnitScale::Months(12), &["y", "yr", "year", "years"]),
];

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

/// What a unit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitScale {
    /// A number of nanoseconds on the clock.
    Clock(i128),
    Days,
    Weeks,
    /// A number of months, which have no fixed length.
    Months(i128),
}

/// A length that was written with calendar units, such as `1mo` or `1d6h`. Its parts are separate,
/// because a calendar day does not always have 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalendarLength {
    /// The months, including those of quarters and years.
    pub months: i128,
    /// The days, as multiples of 24 hours in nanoseconds.
    pub days: i128,
    /// The weeks, as multiples of 168 hours in nanoseconds.
    pub weeks: i128,
    /// The hours and smaller units, in nanoseconds.
    pub clock: i128,
}

impl CalendarLength {
    /// Returns the length in nanoseconds if days have 24 hours and there are no months.
    pub(crate) fn fixed(&self) -> Option<i128> {
        (self.months == 0).then(|| self.days + self.weeks + self.clock)
    }

    /// Returns the number of days in the days and weeks, if it is a whole number.
    pub(crate) fn whole_days(&self) -> Option<i128> {
        let days = self.days + self.weeks;
        (days % DAY == 0).then_some(days / DAY)
    }

    /// Splits nanoseconds into whole days and a rest with the same sign.
    pub(crate) fn of_days_and_clock(nanoseconds: i128) -> Self {
        let clock = nanoseconds % DAY;
        CalendarLength { days: nanoseconds - clock, clock, ..CalendarLength::default() }
    }

    pub(crate) fn negated(self) -> Self {
        let CalendarLength { months, days, weeks, clock } = self;
        CalendarLength { months: -months, days: -days, weeks: -weeks, clock: -clock }
    }
}

/// A duration as it was written: its parts, and whether any of them is in calendar units.
struct WrittenDuration {
    parts: CalendarLength,
    has_calendar_units: bool,
    has_months: bool,
}

/// Formats a duration as a whole number of the largest possible unit.
///
/// ```text
/// 90_000_000_000 ──▶ 90s        0 ──▶ 0s
/// ```
pub(crate) fn duration_text(nanoseconds: i128) -> String {
    const UNITS: [(i128, &str); 7] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    let fits = |(length, _): &&(i128, &str)| nanoseconds % length == 0;
    let (length, name) =
        UNITS.iter().find(fits).expect("durations are whole numbers of nanoseconds");
    format!("{}{name}", nanoseconds / length)
}

/// Formats a fixed duration without calendar units, as a whole number of hours or of a smaller
/// unit.
pub(crate) fn clock_text(nanoseconds: i128) -> String {
    const HOUR: i128 = 3_600 * SECOND;
    match nanoseconds % HOUR {
        0 => format!("{}h", nanoseconds / HOUR),
        _ => duration_text(nanoseconds),
    }
}

/// Parses a duration to nanoseconds. A duration consists of an optional sign and numbers with units
/// from nanoseconds to weeks. The ISO 8601 format is also accepted.
///
/// Months and years are rejected because they have no fixed length.
pub fn parse_duration(text: &str) -> Result<i128> {
    let wrong = |why: &str| wrong(text, why);
    let parsed = parsed(text).map_err(wrong)?;
    match parsed.parts.fixed() {
        Some(nanoseconds) if !parsed.has_months => Ok(nanoseconds),
        _ => Err(wrong(NO_LENGTH)),
    }
}

/// Parses a length that may contain months, quarters and years. Also returns whether the length
/// contains calendar units, which are days and longer units.
pub(crate) fn parse_parts(text: &str) -> Result<(CalendarLength, bool)> {
    let parsed = parsed(text).map_err(|why| wrong(text, why))?;
    Ok((parsed.parts, parsed.has_calendar_units))
}

fn wrong(text: &str, why: &str) -> Error {
    Error::argument(format!(
        "`{}` is not a duration: {why}; write, for example, \"1h30m\", \"-5s\" or \"250ms\"",
        shown(text)
    ))
}

fn parsed(text: &str) -> std::result::Result<WrittenDuration, &'static str> {
    let trimmed = text.trim();
    let (is_negative, rest) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed).trim_start()),
    };
    if rest.is_empty() {
        return Err("it is empty");
    }
    let mut parsed = WrittenDuration {
        parts: CalendarLength::default(),
        has_calendar_units: false,
        has_months: false,
    };
    match rest.strip_prefix(['P', 'p']) {
        Some(rest) => iso(rest, &mut parsed)?,
        None => amounts(rest, plain_unit, &mut parsed)?,
    }
    // The sum of the fixed parts must also fit, because it is computed without further checks.
    let CalendarLength { days, weeks, clock, .. } = parsed.parts;
    days.checked_add(weeks).and_then(|days| days.checked_add(clock)).ok_or(BEYOND)?;
    if is_negative {
        parsed.parts = parsed.parts.negated();
    }
    Ok(parsed)
}

/// Parses the ISO 8601 format after its `P`, as in `1DT2H30M`. The position of `M` determines
/// whether it means months or minutes.
fn iso(text: &str, parsed: &mut WrittenDuration) -> std::result::Result<(), &'static str> {
    const EMPTY: &str = "it has no number; expected a duration such as PT5S";
    let (date, time) = text.split_once(['T', 't']).map_or((text, None), |(d, t)| (d, Some(t)));
    if time.map_or(date.is_empty(), str::is_empty) {
        return Err(EMPTY);
    }
    let of_date = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "m" => plain_unit("mo"),
        "y" | "w" | "d" => plain_unit(unit),
        _ => Err("the units before its T can be Y, M, W and D"),
    };
    let of_time = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "h" | "s" => plain_unit(unit),
        "m" => plain_unit("min"),
        _ => Err("the units after its T can be H, M and S"),
    };
    amounts(date, of_date, parsed)?;
    amounts(time.unwrap_or(""), of_time, parsed)
}

const NO_LENGTH: &str = "months and years have no fixed length; write days, such as \"30d\"";
const BEYOND: &str = "its numbers must be decimal, in whole nanoseconds and within 128 bits";
const PARTIAL: &str = "months and longer units must be whole numbers";

/// Adds several numbers, each with its own unit.
fn amounts(
    mut rest: &str,
    unit_of: impl Fn(&str) -> std::result::Result<UnitScale, &'static str>,
    parsed: &mut WrittenDuration,
) -> std::result::Result<(), &'static str> {
    while !rest.is_empty() {
        let digits =
            rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or("a number has no unit")?;
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let scale = unit_of(unit)?;
        let WrittenDuration { parts, has_calendar_units, has_months } = parsed;
        let (part, size, partial) = match scale {
            UnitScale::Clock(size) => (&mut parts.clock, size, BEYOND),
            UnitScale::Days => (&mut parts.days, DAY, BEYOND),
            UnitScale::Weeks => (&mut parts.weeks, 7 * DAY, BEYOND),
            UnitScale::Months(months) => (&mut parts.months, months, PARTIAL),
        };
        let amount = amount(number, size).ok_or(partial)?;
        *part = part.checked_add(amount).ok_or(BEYOND)?;
        *has_calendar_units |= !matches!(scale, UnitScale::Clock(_));
        *has_months |= matches!(scale, UnitScale::Months(_));
        rest = after.trim_start();
    }
    Ok(())
}

/// Returns what a unit counts. Some users read `M` as months, while others read it as minutes.
fn plain_unit(unit: &str) -> std::result::Result<UnitScale, &'static str> {
    if unit == "M" {
        return Err("M can mean minutes or months; write min, or days such as \"30d\"");
    }
    let lower = unit.to_lowercase();
    let known = UNITS.iter().find(|(_, names)| names.contains(&&*lower));
    known
        .map(|(scale, _)| *scale)
        .ok_or("its units can be w, d, h, min, m, s, ms, us, ns, or their names, such as seconds")
}

/// Returns a decimal number times `size`, if the product is an integer.
fn amount(number: &str, size: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole =
        if whole.is_empty() && !fraction.is_empty() { 0 } else { whole.parse::<i128>().ok()? };
    let mut total = whole.checked_mul(size)?;
    let mut unit = size;
    for digit in fraction.chars() {
        let digit = i128::from(digit.to_digit(10)?);
        if unit % 10 != 0 && digit != 0 {
            return None;
        }
        unit /= 10;
        total = total.checked_add(digit * unit)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        for (text, nanoseconds) in [
            ("1h30m", 5_400_000_000_000),
            ("-5s", -5_000_000_000),
            ("250ms", 250_000_000),
            ("1.5h", 5_400_000_000_000),
            ("+2 min 3 s", 123_000_000_000),
            ("0s", 0),
            ("1w2d", 777_600_000_000_000),
            ("10us", 10_000),
            (".5us", 500),
            ("1ns", 1),
            ("-5 seconds", -5_000_000_000),
            ("5sec", 5_000_000_000),
            ("1 day", 86_400_000_000_000),
            ("1 Hour 30 Minutes", 5_400_000_000_000),
            ("3 hrs", 10_800_000_000_000),
            ("2D", 172_800_000_000_000),
            ("PT5S", 5_000_000_000),
            ("-P1DT1M", -86_460_000_000_000),
            ("P2W", 1_209_600_000_000_000),
            ("pt0.5s", 500_000_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), nanoseconds, "{text}");
        }
    }

    #[test]
    fn a_duration_is_written_as_it_is_read() {
        for text in ["5s", "90s", "-1500ms", "1d", "36h", "1ns", "0s", "7min"] {
            assert_eq!(duration_text(parse_duration(text).unwrap()), text);
        }
        assert_eq!(duration_text(parse_duration("1h30m").unwrap()), "90min");
    }

    #[test]
    fn a_message_quotes_the_beginning_of_a_long_text() {
        let error = parse_duration(&".".repeat(1_000_000)).unwrap_err();
        assert!(error.message().starts_with(&format!("`{}…` is not", ".".repeat(80))), "{error}");
        assert!(error.message().ends_with("\"250ms\""), "{error}");
    }

    #[test]
    fn lengths_with_calendar_units_keep_their_parts() {
        let length = |months: i128, days: i128, weeks: i128, clock: i128| {
            let (days, weeks, clock) = (days * DAY, weeks * 7 * DAY, clock * SECOND);
            CalendarLength { months, days, weeks, clock }
        };
        for (text, expected, has_calendar_units) in [
            ("1mo", length(1, 0, 0, 0), true),
            ("-1 month 14d", length(-1, -14, 0, 0), true),
            ("2q", length(6, 0, 0, 0), true),
            ("1y", length(12, 0, 0, 0), true),
            ("P1Y2M3DT4H", length(14, 3, 0, 4 * 3_600), true),
            ("1w2d", length(0, 2, 1, 0), true),
            ("1d6h", length(0, 1, 0, 6 * 3_600), true),
            ("0d", length(0, 0, 0, 0), true),
            ("24h", length(0, 0, 0, 86_400), false),
            ("PT24H", length(0, 0, 0, 86_400), false),
        ] {
            assert_eq!(parse_parts(text).unwrap(), (expected, has_calendar_units), "{text}");
        }
        assert!(parse_parts("5M").unwrap_err().message().contains("minutes or months"));
        assert_eq!((clock_text(DAY), clock_text(90 * SECOND)), ("24h".into(), "90s".into()));
    }

    #[test]
    fn what_is_refused() {
        for (text, part) in [
            ("", "empty"),
            ("5", "no unit"),
            ("1mo", "30d"),
            ("1 fortnight", "units"),
            ("s", "decimal"),
            ("1.2.3s", "decimal"),
            ("0.5ns", "nanosecond"),
            ("--1s", "units"),
            ("1 month", "30d"),
            ("5M", "minutes or months"),
            ("P1M", "30d"),
            ("0mo", "30d"),
            ("0.5mo", "whole"),
            ("P1H", "before its T"),
            ("PT1D", "after its T"),
            ("P", "no number"),
            ("PT", "no number"),
            ("P1DT", "no number"),
            ("PT5", "no unit"),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.is_argument() && error.message().contains(part), "{text}: {error}");
        }
    }
}
