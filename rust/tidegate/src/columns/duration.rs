//! Parses and formats durations as users write them: `1h30m`, `-5 seconds`, `250ms`, `PT1H30M`. The
//! same parser is used for arguments and for `INTERVAL`.

use crate::{Error, Result, shown};

/// The lengths of units in nanoseconds, with their names in lower case.
const UNITS: [(i128, &[&str]); 8] = [
    (1, &["ns", "nano", "nanos", "nanosecond", "nanoseconds"]),
    (1_000, &["us", "µs", "μs", "micro", "micros", "microsecond", "microseconds"]),
    (1_000_000, &["ms", "milli", "millis", "millisecond", "milliseconds"]),
    (SECOND, &["s", "sec", "secs", "second", "seconds"]),
    (60 * SECOND, &["m", "min", "mins", "minute", "minutes"]),
    (3_600 * SECOND, &["h", "hr", "hrs", "hour", "hours"]),
    (86_400 * SECOND, &["d", "day", "days"]),
    (604_800 * SECOND, &["w", "wk", "wks", "week", "weeks"]),
];

const SECOND: i128 = 1_000_000_000;

/// The names, in lower case, of units that have no fixed length.
const CALENDAR: [&str; 12] = [
    "mo", "mon", "mons", "month", "months", "q", "quarter", "quarters", "y", "yr", "year", "years",
];

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

/// Parses a duration to nanoseconds. A duration consists of an optional sign and numbers with units
/// from nanoseconds to weeks. The ISO 8601 format is also accepted.
///
/// Months and years are rejected because they have no fixed length.
pub fn parse_duration(text: &str) -> Result<i128> {
    let wrong = |why: &str| {
        Error::argument(format!(
            "`{}` is not a duration: {why}; write, for example, \"1h30m\", \"-5s\" or \"250ms\"",
            shown(text)
        ))
    };
    let trimmed = text.trim();
    let (sign, rest) = match trimmed.strip_prefix('-') {
        Some(rest) => (-1, rest.trim_start()),
        None => (1, trimmed.strip_prefix('+').unwrap_or(trimmed).trim_start()),
    };
    if rest.is_empty() {
        return Err(wrong("it is empty"));
    }
    let total = match rest.strip_prefix(['P', 'p']) {
        Some(rest) => iso(rest),
        None => amounts(rest, plain_unit),
    };
    total.map(|total| sign * total).map_err(wrong)
}

/// Parses the ISO 8601 format after its `P`, as in `1DT2H30M`. The position of `M` determines
/// whether it means months or minutes.
fn iso(text: &str) -> std::result::Result<i128, &'static str> {
    const EMPTY: &str = "it has no number; expected a duration such as PT5S";
    let (date, time) = text.split_once(['T', 't']).map_or((text, None), |(d, t)| (d, Some(t)));
    if time.map_or(date.is_empty(), str::is_empty) {
        return Err(EMPTY);
    }
    let of_date = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "m" | "y" => Err(NO_LENGTH),
        "w" | "d" => plain_unit(unit),
        _ => Err("the units before its T can be W and D"),
    };
    let of_time = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "h" | "s" => plain_unit(unit),
        "m" => plain_unit("min"),
        _ => Err("the units after its T can be H, M and S"),
    };
    let [date, time] = [amounts(date, of_date)?, amounts(time.unwrap_or(""), of_time)?];
    date.checked_add(time).ok_or(BEYOND)
}

const NO_LENGTH: &str = "months and years have no fixed length; write days, such as \"30d\"";
const BEYOND: &str = "its numbers must be decimal, in whole nanoseconds and within 128 bits";

/// Returns the sum of several numbers, each with its own unit.
fn amounts(
    mut rest: &str,
    unit_of: impl Fn(&str) -> std::result::Result<i128, &'static str>,
) -> std::result::Result<i128, &'static str> {
    let mut total = 0_i128;
    while !rest.is_empty() {
        let digits =
            rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or("a number has no unit")?;
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let size = unit_of(unit)?;
        let amount = amount(number, size).and_then(|amount| total.checked_add(amount));
        total = amount.ok_or(BEYOND)?;
        rest = after.trim_start();
    }
    Ok(total)
}

/// Returns the number of nanoseconds in a unit. Some users read `M` as months, while others read it
/// as minutes.
fn plain_unit(unit: &str) -> std::result::Result<i128, &'static str> {
    if unit == "M" {
        return Err("M can mean minutes or months; write min, or days such as \"30d\"");
    }
    let lower = unit.to_lowercase();
    let known = UNITS.iter().find(|(_, names)| names.contains(&&*lower));
    known.map(|(size, _)| *size).ok_or(if CALENDAR.contains(&&*lower) {
        NO_LENGTH
    } else {
        "its units can be w, d, h, min, m, s, ms, us, ns, or their names, such as seconds"
    })
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
