//! The windows of an aggregation: fixed lengths of time, or units of a calendar.
//!
//! Days, weeks, months, quarters and years are calendar units if the time zone is known. It is known
//! if the time column or the caller names one, or if the column contains dates. Otherwise, days
//! have 24 hours, and months are rejected.

use std::fmt::Write;

use arrow_schema::{DataType, Field};
use tidegate_operators::aggregate::{Calendar, CalendarUnit, WindowStep, Windows as WindowSlices};

use super::listed::WindowTable;
use super::row_counts::RowCounts;
use crate::columns::duration::{CalendarLength, clock_text};
use crate::columns::time::zone::{RULES, Zone};
use crate::columns::time::{self, Bound, DAY, Length, Unit};
use crate::{Error, Result};

/// Windows of time.
#[derive(Clone, Debug)]
pub enum Windows {
    /// Windows that start at regular intervals.
    Sliding(Box<SlidingArguments>),
    /// Session windows, separately for each key. A session starts with a row and ends this long
    /// after its last row.
    Session(Bound),
    /// Like `Session`, but each row has its own gap, given by a column or an SQL expression.
    SessionOf(String),
    /// Row-based windows over the rows of each key.
    Rows(RowCounts),
    /// Windows that are listed in a table.
    Listed(Box<WindowTable>),
}

/// The windows `[k * advance + offset, k * advance + offset + size)` for every integer k.
#[derive(Clone, Debug)]
pub struct SlidingArguments {
    /// The length of a window.
    pub size: Length,
    /// The time from the start of one window to the start of the next. `None` means the window
    /// size.
    pub advance: Option<Length>,
    /// The difference between the sizes of windows that begin at the same time, the largest of which
    /// is `size`. `None` means that all windows have this size.
    pub step: Option<Length>,
    /// Whether windows contain their ends instead of their starts.
    pub is_closed_right: bool,
    /// The start of the windows, relative to the epoch.
    pub offset: Length,
    /// The time zone of calendar units. `None` means the time zone of the time column.
    pub zone: Option<String>,
    /// The day on which weeks begin. `None` means Monday.
    pub week_start: Option<Weekday>,
}

impl Windows {
    /// Creates windows of a fixed size. `advance` is the time from the start of one window to the
    /// start of the next.
    pub fn of_lengths(size: Bound, advance: Bound) -> Self {
        let offset = Length::Fixed(Bound::Steps(0));
        let (size, advance) = (Length::Fixed(size), Some(Length::Fixed(advance)));
        Windows::Sliding(Box::new(SlidingArguments {
            size,
            advance,
            step: None,
            is_closed_right: false,
            offset,
            zone: None,
            week_start: None,
        }))
    }
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weekday {
    /// Monday.
    Monday,
    /// Tuesday.
    Tuesday,
    /// Wednesday.
    Wednesday,
    /// Thursday.
    Thursday,
    /// Friday.
    Friday,
    /// Saturday.
    Saturday,
    /// Sunday.
    Sunday,
}

impl Weekday {
    /// Returns the number of days from 1970-01-01, which was a Thursday, to the first such day.
    fn days_from_epoch(self) -> i64 {
        (self as i64 + 4) % 7
    }
}

/// Sliding windows whose lengths fit the time columns.
#[derive(Clone, Debug)]
pub(crate) enum SlidingWindows {
    Fixed { size: Bound, advance: Option<Bound>, step: Option<Bound>, offset: Bound },
    Calendar(CalendarWindows),
}

/// Windows of calendar units. All lengths except `shift` are numbers of units.
#[derive(Clone, Debug)]
pub(crate) struct CalendarWindows {
    unit: CalendarUnit,
    size: i64,
    advance: i64,
    step: Option<CalendarStep>,
    offset: i64,
    /// The local time at which units begin, in nanoseconds after midnight.
    shift: i128,
    /// `None` for dates, which have no time zone.
    zone: Option<Zone>,
}

/// The difference between the sizes of windows that begin at the same time.
#[derive(Clone, Copy, Debug)]
enum CalendarStep {
    Clock(Bound),
    Units(CalendarUnit, i64),
}

/// The kind of a time column, with its time zones.
enum TimeKind<'a> {
    Integers,
    Dates,
    WithoutZone,
    /// Timestamps in one or several time zones.
    Zones(Vec<&'a str>),
}

impl<'a> TimeKind<'a> {
    fn of(fields: &[&'a Field]) -> Self {
        let mut zones: Vec<&str> = fields
            .iter()
            .filter_map(|field| match field.data_type() {
                DataType::Timestamp(_, zone) => zone.as_deref(),
                _ => None,
            })
            .collect();
        zones.dedup();
        let are = |is: fn(&DataType) -> bool| fields.iter().all(|field| is(field.data_type()));
        match zones.is_empty() {
            false => TimeKind::Zones(zones),
            true if are(DataType::is_integer) => TimeKind::Integers,
            true if are(|of| matches!(of, DataType::Date32 | DataType::Date64)) => TimeKind::Dates,
            true => TimeKind::WithoutZone,
        }
    }
}

impl SlidingArguments {
    /// Determines whether the windows consist of calendar units, given the time columns.
    pub(crate) fn of_times(&self, fields: &[&Field]) -> Result<SlidingWindows> {
        let kind = TimeKind::of(fields);
        if self.step.is_some() && self.advance.is_some() {
            return Err(Error::argument(
                "step cannot be combined with advance, because windows that grow by a step are \
                 adjacent; leave one out",
            ));
        }
        let has_units = [Some(self.size), self.advance]
            .iter()
            .any(|one| matches!(one, Some(Length::Calendar(_))));
        let given = self.given_zone(&kind)?;
        if !has_units {
            return self.without_units();
        }
        match (kind, given) {
            (_, Some(zone)) => self.of_calendar(Some(zone)),
            (TimeKind::Dates, None) => self.of_calendar(None),
            (TimeKind::Zones(zones), None) => self.of_calendar(Some(own_zone(fields, &zones)?)),
            (TimeKind::Integers | TimeKind::WithoutZone, None) => {
                self.check_no_week_start("a time zone, as in zone=\"UTC\"")?;
                self.of_fixed()
            }
        }
    }

    /// Returns advice if fixed windows of whole days do not begin at midnight in the column's time
    /// zone.
    pub(crate) fn advice(&self, fields: &[&Field]) -> Option<String> {
        let Length::Fixed(Bound::Nanoseconds(size)) = self.size else { return None };
        let TimeKind::Zones(zones) = TimeKind::of(fields) else { return None };
        let is_utc = Zone::named(zones[0]).is_ok_and(|zone| zone.is_utc());
        let (days, rest) = (size / i128::from(DAY), size % i128::from(DAY));
        let is_of_weeks = days % 7 == 0;
        if days <= 0 || rest != 0 || (is_utc && !is_of_weeks) {
            return None;
        }
        let start = match is_utc {
            true => "begin on Thursdays".to_owned(),
            false => format!("do not begin at midnight in {}", zones[0]),
        };
        let written = if is_of_weeks { format!("{}w", days / 7) } else { format!("{days}d") };
        let hours = clock_text(size);
        Some(format!(
            "size is a fixed length of {hours}, so windows are counted from 1970-01-01T00:00 UTC \
             and {start}; write size=\"{written}\" for calendar units, or size=\"{hours}\" to keep \
             these windows"
        ))
    }

    fn given_zone(&self, kind: &TimeKind<'_>) -> Result<Option<Zone>> {
        let Some(name) = &self.zone else { return Ok(None) };
        let refuse = |what: &str| {
            Err(Error::argument(format!("zone: {what}, which have no time zone; leave zone out")))
        };
        match kind {
            TimeKind::Integers => refuse("the times are integers"),
            TimeKind::Dates => refuse("the times are dates"),
            TimeKind::WithoutZone | TimeKind::Zones(_) => Zone::named(name).map(Some),
        }
    }

    /// Returns windows whose size and advance have no calendar units.
    fn without_units(&self) -> Result<SlidingWindows> {
        if self.zone.is_some() {
            return Err(Error::argument(
                "zone: size is a fixed length, so windows are counted from 1970-01-01T00:00 UTC in \
                 every time zone; leave zone out, or give size in calendar units, such as \"1d\"",
            ));
        }
        self.check_no_week_start("a size in weeks, such as \"1w\"")?;
        self.of_fixed()
    }

    fn check_no_week_start(&self, needed: &str) -> Result<()> {
        match self.week_start {
            None => Ok(()),
            Some(_) => Err(Error::argument(format!(
                "week_start needs {needed}; add it, or leave week_start out"
            ))),
        }
    }

    fn of_fixed(&self) -> Result<SlidingWindows> {
        let fixed = |name: &str, length: Length| {
            length.fixed().ok_or_else(|| {
                Error::argument(format!(
                    "{name} contains months, which have no fixed length; add a time zone, such as \
                     zone=\"Europe/Berlin\" or zone=\"UTC\", or write days, such as \"30d\""
                ))
            })
        };
        Ok(SlidingWindows::Fixed {
            size: fixed("size", self.size)?,
            advance: self.advance.map(|advance| fixed("advance", advance)).transpose()?,
            step: self.step.map(|step| fixed("step", step)).transpose()?,
            offset: fixed("offset", self.offset)?,
        })
    }

    fn of_calendar(&self, zone: Option<Zone>) -> Result<SlidingWindows> {
        let (unit, size) = units("size", self.size)?;
        let (advance_unit, advance) = match self.advance {
            Some(advance) => units("advance", advance)?,
            None => (unit, size),
        };
        if unit != advance_unit {
            return Err(Error::argument(
                "size and advance must both count months, quarters and years, or both count days \
                 and weeks; change one of them",
            ));
        }
        let in_weeks = match self.advance.unwrap_or(self.size) {
            Length::Calendar(length) => length.weeks != 0 && length.days == 0,
            Length::Fixed(_) | Length::Clock(_) => false,
        };
        if !in_weeks {
            self.check_no_week_start("an advance in weeks, such as \"1w\"")?;
        }
        let aligned =
            if in_weeks { self.week_start.unwrap_or(Weekday::Monday).days_from_epoch() } else { 0 };
        let (offset, shift) = self.offset_in(unit)?;
        let offset = i64::try_from(offset + i128::from(aligned)).map_err(|_| beyond("offset"))?;
        let step = self.step.map(|step| self.step_in(step, unit)).transpose()?;
        let windows = CalendarWindows { unit, size, advance, step, offset, shift, zone };
        Ok(SlidingWindows::Calendar(windows))
    }

    /// Returns the step of windows whose size counts these units.
    fn step_in(&self, step: Length, unit: CalendarUnit) -> Result<CalendarStep> {
        let Length::Calendar(_) = step else {
            let clock = step.fixed().ok_or_else(|| beyond("step"))?;
            return match clock {
                Bound::Steps(steps) => Err(Error::argument(format!(
                    "step is the integer {steps}, but the windows are calendar units; give step a \
                     unit, as in \"{steps}h\""
                ))),
                Bound::Nanoseconds(_) => Ok(CalendarStep::Clock(clock)),
            };
        };
        match (units("step", step)?, unit) {
            ((CalendarUnit::Month, _), CalendarUnit::Day) => Err(Error::argument(
                "step counts months, but size counts days; give step in days, or size in months",
            )),
            ((of_step, count), _) => Ok(CalendarStep::Units(of_step, count)),
        }
    }

    /// Returns the offset in whole units, and the remaining nanoseconds.
    fn offset_in(&self, unit: CalendarUnit) -> Result<(i128, i128)> {
        let length = match self.offset {
            Length::Calendar(length) => length,
            Length::Fixed(Bound::Nanoseconds(clock) | Bound::Steps(clock @ 0))
            | Length::Clock(clock) => CalendarLength { clock, ..CalendarLength::default() },
            Length::Fixed(Bound::Steps(steps)) => {
                return Err(Error::argument(format!(
                    "offset is the integer {steps}, but the windows are calendar units; give offset \
                     a unit, as in \"{steps}h\""
                )));
            }
        };
        let CalendarLength { months, days, weeks, clock } = length;
        match unit {
            CalendarUnit::Month => Ok((months, days + weeks + clock)),
            CalendarUnit::Day if months != 0 => Err(Error::argument(
                "offset contains months, but size counts days; write days, such as \"30d\"",
            )),
            CalendarUnit::Day => {
                let all = days + weeks + clock;
                Ok((all.div_euclid(DAY.into()), all.rem_euclid(DAY.into())))
            }
        }
    }
}

/// Returns the only time zone of these columns.
fn own_zone(fields: &[&Field], zones: &[&str]) -> Result<Zone> {
    let column = fields[0].name();
    if let [first, other, ..] = zones {
        return Err(Error::argument(format!(
            "the columns `{column}` have different time zones, {first} and {other}; choose one for \
             the windows, as in zone=\"{first}\""
        )));
    }
    Zone::named(zones[0]).map_err(|_| {
        Error::schema(format!(
            "column `{column}` has the unknown time zone `{}`; choose one for the windows, as in \
             zone=\"Europe/Berlin\"",
            zones[0]
        ))
    })
}

/// Returns a positive length as a number of calendar units.
fn units(name: &str, length: Length) -> Result<(CalendarUnit, i64)> {
    let Length::Calendar(length) = length else {
        return Err(Error::argument(format!(
            "{name} is a fixed length, but the windows are calendar units; give {name} in calendar \
             units, too, such as \"1d\", or write both in hours, such as \"24h\""
        )));
    };
    let CalendarLength { months, days, weeks, clock } = length;
    let has_days = days != 0 || weeks != 0;
    let refuse =
        |why: &str, next: &str| Err(Error::argument(format!("{name} {why}; write {next}")));
    let (unit, count) = match length.whole_days() {
        _ if months != 0 && has_days => {
            return refuse(
                "contains both months and days",
                "one of them, and shift windows with offset",
            );
        }
        _ if clock != 0 => {
            return refuse(
                "contains both calendar units and hours or smaller units",
                "calendar units only, such as \"1d\", or hours only, such as \"36h\"",
            );
        }
        None => {
            return refuse(
                "is not a whole number of days",
                "hours instead, such as \"36h\" for a day and a half",
            );
        }
        Some(days) if months == 0 => (CalendarUnit::Day, days),
        Some(_) => (CalendarUnit::Month, months),
    };
    let count = i64::try_from(count).map_err(|_| beyond(name))?;
    if count <= 0 {
        let unit = unit_name(unit);
        return Err(Error::argument(format!(
            "{name} must be greater than 0, got {count} ({unit})"
        )));
    }
    Ok((unit, count))
}

fn beyond(name: &str) -> Error {
    Error::argument(format!("{name} does not fit 64 bits; choose a shorter length"))
}

fn longer_step() -> Error {
    Error::argument("step must not be longer than size; choose a shorter step, or leave it out")
}

fn unit_name(unit: CalendarUnit) -> &'static str {
    match unit {
        CalendarUnit::Day => "days",
        CalendarUnit::Month => "months",
    }
}

/// Descriptions of the windows.
#[derive(Debug)]
pub(crate) struct DescribedWindows {
    /// Identifies the windows in snapshots.
    pub(crate) identity: String,
    /// The line of the explanation that describes the calendar, if there is one.
    pub(crate) calendar: Option<String>,
    /// The time zone of the calendar, if there is one.
    pub(crate) zone: Option<String>,
}

impl DescribedWindows {
    /// Describes windows that are listed in a table.
    pub(super) fn of_list(windows: usize, digest: u128) -> Self {
        let identity = format!("listed, {windows} with digest {digest:032x}");
        DescribedWindows { identity, calendar: None, zone: None }
    }

    pub(crate) fn new(windows: &Windows, sliding: Option<&SlidingWindows>) -> Self {
        let identity = match sliding {
            Some(sliding) => sliding.identity(),
            None => format!("{windows:?}"),
        };
        DescribedWindows {
            identity,
            calendar: sliding.and_then(SlidingWindows::explain),
            zone: sliding.and_then(SlidingWindows::zone),
        }
    }
}

impl SlidingWindows {
    /// Returns the windows in steps of the time unit.
    pub(crate) fn in_steps(&self, unit: Unit) -> Result<WindowSlices> {
        match self {
            SlidingWindows::Fixed { size, advance, step, offset } => {
                let size = positive("size", *size, unit)?;
                let advance =
                    advance.map_or(Ok(size), |advance| positive("advance", advance, unit))?;
                let windows =
                    WindowSlices::new(size, advance, time::steps("offset", *offset, unit)?);
                let Some(step) = step else { return Ok(windows) };
                let step = positive("step", *step, unit)?;
                if step > size {
                    return Err(longer_step());
                }
                Ok(windows.growing_by(WindowStep::Time(step)))
            }
            SlidingWindows::Calendar(windows) => windows.in_steps(unit),
        }
    }

    /// Returns the time zone of calendar units.
    fn zone(&self) -> Option<String> {
        let SlidingWindows::Calendar(CalendarWindows { zone, .. }) = self else { return None };
        zone.as_ref().map(|zone| zone.name.clone())
    }

    /// Describes the windows in the identity of a query. The description of fixed windows also
    /// identifies them in snapshots that were written before calendar units existed.
    fn identity(&self) -> String {
        match self {
            SlidingWindows::Fixed { size, advance, step, offset } => {
                let step = step.map_or(String::new(), |step| format!(", step: {step:?}"));
                format!(
                    "Sliding {{ size: {size:?}, advance: {advance:?}, offset: {offset:?}{step} }}"
                )
            }
            SlidingWindows::Calendar(windows) => windows.identity(),
        }
    }

    /// Describes the calendar, if there is one.
    fn explain(&self) -> Option<String> {
        let SlidingWindows::Calendar(windows) = self else { return None };
        let unit = unit_name(windows.unit);
        let midnight = match windows.unit {
            CalendarUnit::Day => "midnight",
            CalendarUnit::Month => "midnight of their first day",
        };
        let shift = CalendarLength::of_days_and_clock(windows.shift);
        let mut line = match windows.shift {
            0 => format!("  calendar   {unit} begin at {midnight}"),
            1.. => {
                format!("  calendar   {unit} begin {} after {midnight}", Length::Calendar(shift))
            }
            _ => {
                let before = Length::Calendar(shift.negated());
                format!("  calendar   {unit} begin {before} before {midnight}")
            }
        };
        match &windows.zone {
            Some(zone) => write!(line, " in {zone}").expect("writing to a string cannot fail"),
            None => line.push_str(" of dates"),
        }
        if windows.zone.as_ref().is_some_and(|zone| !zone.is_fixed) {
            write!(line, ", by the rules of tzdb {RULES}")
                .expect("writing to a string cannot fail");
        }
        Some(line)
    }
}

impl CalendarWindows {
    fn in_steps(&self, unit: Unit) -> Result<WindowSlices> {
        let shift = time::steps("offset", Bound::Nanoseconds(self.shift), unit)?;
        let Unit::Nanoseconds(tick) = unit else { unreachable!("integers have no calendar") };
        let offsets = self.zone.as_ref().map(|zone| zone.offsets.clone());
        let calendar = Calendar::new(self.unit, DAY / tick, shift, offsets);
        let windows =
            WindowSlices::of_calendar(self.size, self.advance, self.offset, calendar.clone());
        let step = match self.step {
            None => return Ok(windows),
            Some(CalendarStep::Clock(clock)) => WindowStep::Time(positive("step", clock, unit)?),
            Some(CalendarStep::Units(of_step, count)) if of_step == self.unit => {
                WindowStep::Units(count, calendar)
            }
            Some(CalendarStep::Units(of_step, count)) => {
                let zone = self.zone.as_ref().map(|zone| zone.offsets.clone());
                WindowStep::Units(count, Calendar::new(of_step, DAY / tick, shift, zone))
            }
        };
        let is_longer = match &step {
            WindowStep::Time(length) => *length > windows.longest(),
            WindowStep::Units(count, of) if of.unit() == self.unit => *count > self.size,
            WindowStep::Units(count, _) => *count > self.size.saturating_mul(31),
        };
        if is_longer { Err(longer_step()) } else { Ok(windows.growing_by(step)) }
    }

    fn identity(&self) -> String {
        let CalendarWindows { unit, size, advance, step, offset, shift, zone } = self;
        let step = match step {
            None => String::new(),
            Some(CalendarStep::Clock(clock)) => format!(", growing by {clock:?}"),
            Some(CalendarStep::Units(unit, count)) => {
                format!(", growing by {count} {}", unit_name(*unit))
            }
        };
        let zone = zone.as_ref().map_or("none".to_owned(), |zone| {
            format!("{} with rules {:016x}", zone.name, zone.fingerprint())
        });
        let offset = offset.rem_euclid(*advance);
        let unit = unit_name(*unit);
        format!(
            "{size} {unit} every {advance} from {offset}, after {shift} ns, in zone {zone}{step}"
        )
    }
}

pub(crate) fn positive(name: &str, bound: Bound, unit: Unit) -> Result<i64> {
    match time::steps(name, bound, unit)? {
        steps if steps > 0 => Ok(steps),
        steps => Err(Error::argument(format!(
            "{name} must be greater than 0, got {steps} ({})",
            unit.name()
        ))),
    }
}
