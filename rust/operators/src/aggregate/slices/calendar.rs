//! Calendar units, such as days and months in a time zone, numbered in time order.
//!
//! Local days have 23 to 25 hours, and months have 28 to 31 days, so dividing a time by a window
//! size does not find the window that contains it. Windows over calendar units are therefore
//! computed on unit numbers, which are evenly spaced:
//!
//! ```text
//!                     Sat 00:00   Sun 00:00  Mon 00:00   Tue 00:00     local clock
//!   times      ───────────┼───────────┼─────────┼───────────┼──────▶   Sunday has 23 hours
//!   units         18,348  │  18,349   │ 18,350  │  18,351   │          days since 1970-01-01
//! ```
//!
//! A unit begins at the first time at which the local clock has reached the unit's local start. If
//! clocks skip the local start, the unit begins when they have skipped it. If clocks show the local
//! start twice, the unit begins at the first of the two times. Units are therefore contiguous and
//! in time order, regardless of the time zone's rules.
//!
//! Both directions take one binary search over the changes of the zone's offset, and some integer
//! arithmetic.

use std::sync::Arc;

const SECONDS_PER_DAY: i64 = 86_400;

/// The number of seconds in 400 years, after which the calendar and its weekdays repeat.
const CYCLE: i64 = 146_097 * SECONDS_PER_DAY;

/// The offsets of a time zone from UTC, in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneOffsets {
    /// The times from which the offsets apply. The first offset applies to all earlier times.
    from: Vec<i64>,
    offsets: Vec<i64>,
    /// For each offset, the latest local time that clocks have approached before the next change.
    reached: Vec<i64>,
}

impl ZoneOffsets {
    /// The time from which the rules of every zone must repeat every 400 years: 2100-01-01 UTC.
    pub const PERIODIC_FROM: i64 = 4_102_444_800;

    /// The time up to which changes must be listed. One cycle and two more days are needed, because
    /// local times differ from UTC by up to one day.
    pub const LISTED_UPTO: i64 = Self::PERIODIC_FROM + CYCLE + 2 * SECONDS_PER_DAY;

    /// Creates the offsets of a zone.
    ///
    /// `changes` lists times in ascending order up to [`LISTED_UPTO`](Self::LISTED_UPTO), each with
    /// the offset from then on. `first` is the offset before the first change.
    ///
    /// # Panics
    ///
    /// Panics if the changes are not in ascending order.
    pub fn new(first: i64, changes: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let (mut from, mut offsets) = (vec![i64::MIN], vec![first]);
        for (time, offset) in changes {
            assert!(from.last() < Some(&time), "changes must be in ascending order");
            if offsets.last() != Some(&offset) {
                from.push(time);
                offsets.push(offset);
            }
        }
        let mut reached = Vec::with_capacity(from.len());
        for (next, offset) in from[1..].iter().zip(&offsets) {
            let latest = next + offset;
            reached.push(reached.last().map_or(latest, |before: &i64| latest.max(*before)));
        }
        reached.push(i64::MAX);
        ZoneOffsets { from, offsets, reached }
    }

    /// Returns the times from which the offsets apply, each with its offset. The first time is the
    /// smallest integer.
    pub fn changes(&self) -> impl Iterator<Item = (i64, i64)> {
        self.from.iter().copied().zip(self.offsets.iter().copied())
    }

    /// Returns the first time at which clocks have reached a local time. Both are in seconds.
    pub fn instant_of(&self, local: i64) -> i64 {
        let first = self.first_time(local.into(), 1);
        first.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// Returns the difference between the largest and the smallest offset.
    fn spread(&self) -> i64 {
        let most = self.offsets.iter().max().expect("there is an offset");
        most - self.offsets.iter().min().expect("there is an offset")
    }

    /// Returns the latest local time that clocks have shown up to this time, in steps.
    fn clock(&self, ts: i64, steps_per_second: i64) -> i128 {
        let seconds = ts.div_euclid(steps_per_second);
        let moved = seconds_beyond(seconds);
        let at = self.from.partition_point(|from| *from <= seconds - moved) - 1;
        let steps = |seconds: i64| i128::from(seconds) * i128::from(steps_per_second);
        let shown = i128::from(ts) + steps(self.offsets[at]);
        match at.checked_sub(1) {
            // Before the change, clocks came within one step of this local time.
            Some(before) => shown.max(steps(self.reached[before]) + steps(moved) - 1),
            None => shown,
        }
    }

    /// Returns the first time at which clocks have reached a local time.
    fn first_time(&self, local: i128, steps_per_second: i64) -> i128 {
        let steps = |seconds: i64| i128::from(seconds) * i128::from(steps_per_second);
        // The quotient is rounded down, so whole seconds compare in the same way as the steps.
        let seconds = floor(local, steps_per_second);
        let moved = seconds_beyond(seconds);
        let at = self.reached.partition_point(|reached| *reached <= seconds - moved);
        let first = local - steps(self.offsets[at]);
        match at {
            0 => first,
            // Clocks that skip the local time reach it when the offset changes.
            _ => first.max(steps(self.from[at]) + steps(moved)),
        }
    }
}

/// Returns by how many seconds, in whole cycles, a time has to be moved back to be among the listed
/// times.
fn seconds_beyond(seconds: i64) -> i64 {
    match seconds.saturating_sub(ZoneOffsets::PERIODIC_FROM) {
        beyond if beyond < CYCLE => 0,
        beyond => beyond / CYCLE * CYCLE,
    }
}

/// Divides and rounds down. Quotients outside the 64-bit range are clamped to it.
///
/// Dividing 128-bit integers takes several times as long as dividing 64-bit integers.
fn floor(dividend: i128, divisor: i64) -> i64 {
    match i64::try_from(dividend) {
        Ok(dividend) => dividend.div_euclid(divisor),
        Err(_) => {
            let quotient = dividend.div_euclid(divisor.into());
            quotient.clamp(i64::MIN.into(), i64::MAX.into()) as i64
        }
    }
}

/// The kind of unit that a calendar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarUnit {
    /// Days since 1970-01-01.
    Day,
    /// Months since January 1970.
    Month,
}

/// Days or months as a numbered sequence of units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    unit: CalendarUnit,
    /// The number of steps of time in 24 hours.
    steps_per_day: i64,
    /// The local time at which units begin, relative to midnight at the start of the day or month.
    shift: i64,
    /// `None` means UTC.
    zone: Option<Arc<ZoneOffsets>>,
}

impl Calendar {
    /// Creates a calendar whose units begin `shift` steps after local midnight.
    ///
    /// # Panics
    ///
    /// Panics if there is a zone, but a second is not a whole number of time steps.
    pub fn new(
        unit: CalendarUnit,
        steps_per_day: i64,
        shift: i64,
        zone: Option<Arc<ZoneOffsets>>,
    ) -> Self {
        assert!(steps_per_day > 0, "a day must have a length");
        assert!(
            zone.is_none() || steps_per_day % SECONDS_PER_DAY == 0,
            "offsets are whole seconds, so times must be in a unit that divides a second"
        );
        Calendar { unit, steps_per_day, shift, zone }
    }

    /// Returns the kind of unit.
    pub fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// Returns the local time at which units begin, in steps after midnight.
    pub fn shift(&self) -> i64 {
        self.shift
    }

    fn steps_per_second(&self) -> i64 {
        self.steps_per_day / SECONDS_PER_DAY
    }

    /// Returns the number of the unit that contains a time.
    pub(super) fn unit_of(&self, ts: i64) -> i64 {
        let clock = match &self.zone {
            Some(zone) => zone.clock(ts, self.steps_per_second()),
            None => ts.into(),
        };
        let local = clock - i128::from(self.shift);
        let day = floor(local, self.steps_per_day);
        match self.unit {
            CalendarUnit::Day => day,
            CalendarUnit::Month => month_of(day),
        }
    }

    /// Returns the time at which a unit begins.
    pub(super) fn start_of(&self, unit: i128) -> i128 {
        let day = match self.unit {
            CalendarUnit::Day => unit,
            CalendarUnit::Month => first_day(unit),
        };
        let local = day * i128::from(self.steps_per_day) + i128::from(self.shift);
        match &self.zone {
            Some(zone) => zone.first_time(local, self.steps_per_second()),
            None => local,
        }
    }

    /// Returns an upper bound on the length of this many consecutive units, in steps.
    pub(super) fn longest(&self, units: i64) -> i64 {
        let days = match self.unit {
            CalendarUnit::Day => units,
            // No year has more than 366 days, and no month more than 31.
            CalendarUnit::Month => (units / 12).saturating_mul(366) + units % 12 * 31,
        };
        let spread = self.zone.as_ref().map_or(0, |zone| zone.spread() * self.steps_per_second());
        days.saturating_mul(self.steps_per_day).saturating_add(spread)
    }
}

/// The months from March of a year to the next March, and the days in 400 such years.
const MONTHS: i128 = 12;
const DAYS_OF_CYCLE: i128 = 146_097;

/// The days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i128 = 719_468;

/// Returns the number of the month that contains a day.
///
/// Years are counted from March, so that a leap day is the last day of its year. From March on, the
/// first days of months are `(153 * month + 2) / 5` days after the start of the year.
fn month_of(day: i64) -> i64 {
    let day = i128::from(day) + EPOCH_DAYS;
    // The numbers fit in 64 bits from here on, where divisions are faster.
    let cycle = day.div_euclid(DAYS_OF_CYCLE) as i64;
    let day = day.rem_euclid(DAYS_OF_CYCLE) as i64;
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    // March of the year 0 precedes January 1970 by 1,969 years and ten months.
    (cycle * 400 + year) * 12 + month - (1_970 * 12 - 2)
}

/// Returns the first day of a month.
fn first_day(month: i128) -> i128 {
    let since_march = month + 1_970 * MONTHS - 2;
    let (year, month) = (since_march.div_euclid(MONTHS), since_march.rem_euclid(MONTHS));
    let of_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    of_years + (153 * month + 2) / 5 - EPOCH_DAYS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the local time of each second, as clocks show it.
    fn shown(zone: &ZoneOffsets, seconds: i64) -> i64 {
        let offset = zone.changes().take_while(|(from, _)| *from <= seconds).last();
        seconds + offset.expect("the first offset applies to all earlier times").1
    }

    proptest! {
        #[test]
        fn oracle_a_unit_begins_when_clocks_have_reached_its_start(
            first in -30_i64..30,
            changes in proptest::collection::btree_map(-200_i64..200, -30_i64..30, 0..6),
            local in -250_i64..250,
            per_second in 1_i64..3,
        ) {
            let zone = ZoneOffsets::new(first, changes);
            let reached = |seconds: i64| shown(&zone, seconds) >= local;
            let wanted = (-400..400).find(|seconds| reached(*seconds)).unwrap();
            let found = zone.first_time((local * per_second).into(), per_second);
            prop_assert_eq!(found, i128::from(wanted * per_second));
            // The latest local time that clocks have shown is the inverse.
            for seconds in -300..300 {
                let clock = zone.clock(seconds * per_second, per_second);
                prop_assert_eq!(clock >= (local * per_second).into(), seconds >= wanted);
            }
        }

        #[test]
        fn months_are_numbered_like_days(month in -60_000_i64..60_000) {
            let first = i64::try_from(first_day(month.into())).unwrap();
            prop_assert_eq!(month_of(first), month);
            prop_assert_eq!(month_of(first - 1), month - 1);
        }
    }

    #[test]
    fn known_days() {
        for (month, day) in [(0, 0), (1, 31), (-1, -31), (12, 365), (25, 761), (362, 11_017)] {
            assert_eq!(first_day(month), day);
        }
        // 2000-02-29 is day 11,016.
        assert_eq!((month_of(11_016), month_of(11_017)), (361, 362));
    }

    #[test]
    fn rules_repeat_every_400_years() {
        let hour = 3_600;
        let year = |year: i64| first_day(((year - 1970) * 12).into()) as i64 * SECONDS_PER_DAY;
        // The offset is two hours in the second half of every year.
        let changes = (1990..2502)
            .flat_map(|at| [(year(at), hour), (year(at) + 182 * SECONDS_PER_DAY, 2 * hour)])
            .filter(|(time, _)| *time < ZoneOffsets::LISTED_UPTO);
        let zone = Some(Arc::new(ZoneOffsets::new(0, changes)));
        let calendar = Calendar::new(CalendarUnit::Day, SECONDS_PER_DAY, 0, zone);
        for at in [1995, 2099, 2100, 2499, 2500, 2501, 2899, 2900, 25_000] {
            for (day, offset) in [(10, 1), (190, 2)] {
                let day = year(at) / SECONDS_PER_DAY + day;
                let start = day * SECONDS_PER_DAY - offset * hour;
                assert_eq!(calendar.start_of(day.into()), i128::from(start), "{at}");
                assert_eq!((calendar.unit_of(start - 1), calendar.unit_of(start)), (day - 1, day));
            }
        }
    }
}
