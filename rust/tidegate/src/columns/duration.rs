//! Durations as people write them: `1h30m`, `-5s`, `250ms`.

use crate::{Error, Result, shown};

const UNITS: [(&str, i128); 11] = [
    ("w", 604_800_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ns", 1),
];

/// The nanoseconds of a duration: numbers each with a unit of w, d, h, min or m, s, ms, us, ns,
/// with a sign before all.
///
/// Months and years have no fixed length and are refused.
pub fn parse_duration(text: &str) -> Result<i128> {
    let wrong = |why: &str| {
        Error::argument(format!(
            "`{}` is not a duration: {why}; write for instance \"1h30m\", \"-5s\" or \"250ms\"",
            shown(text)
        ))
    };
    let trimmed = text.trim();
    let (sign, mut rest) = match trimmed.strip_prefix('-') {
        Some(rest) => (-1, rest.trim_start()),
        None => (1, trimmed.strip_prefix('+').unwrap_or(trimmed).trim_start()),
    };
    if rest.is_empty() {
        return Err(wrong("it is empty"));
    }
    let mut total = 0_i128;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(|| wrong("a number has no unit"))?;
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let size = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size);
        let size = size.ok_or_else(|| match unit {
            "mo" | "M" | "y" | "Y" | "q" => {
                wrong("months and years have no fixed length, write days such as \"30d\"")
            }
            _ => wrong("its units may be w, d, h, min, m, s, ms, us, ns"),
        })?;
        total =
            amount(number, size).and_then(|amount| total.checked_add(amount)).ok_or_else(|| {
                wrong(
                    "its numbers must be decimal, no finer than a nanosecond and not beyond 128 \
                     bits",
                )
            })?;
        rest = after.trim_start();
    }
    Ok(sign * total)
}

/// A decimal number times `size`, if that is whole.
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
        ] {
            assert_eq!(parse_duration(text).unwrap(), nanoseconds, "{text}");
        }
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
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.is_argument() && error.message().contains(part), "{text}: {error}");
        }
    }
}
