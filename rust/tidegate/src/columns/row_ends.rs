//! Interval ends that differ from row to row, computed from columns of one side.
//!
//! An end limits the distance from the left time to right times. If an end is a duration or an
//! integer, it is the distance itself. If an end is a time, it is the limit for right times. The
//! distance is then that time minus the left time.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema, TimeUnit};
use tidegate_operators::rows::{Closed, Interval};

use super::expression::{
    EndCondition, EndRule, Expr, Origin, RowValue, is_whole_number, whole_numbers,
};
use super::time::{self, Bound, Unit};
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// An end of an interval, as the caller specified it.
#[derive(Clone, PartialEq)]
pub enum End {
    /// A fixed distance from the left time, for all rows.
    Fixed(Bound),
    /// The value of an expression over one side's columns. The value is a duration, an integer or,
    /// for the left side, a time. If the value is null, the row matches nothing.
    Computed(Expr),
}

/// Formats an end as the text by which snapshots identify a query.
impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Fixed(bound) => bound.fmt(f),
            End::Computed(expr) => write!(f, "Computed({:?})", expr.to_string()),
        }
    }
}

impl From<Bound> for End {
    fn from(bound: Bound) -> Self {
        End::Fixed(bound)
    }
}

/// The ends of a join's intervals, at least one of which is computed.
#[derive(Clone, Debug)]
pub(crate) struct RowEnds {
    /// `None` for no bound.
    pub(crate) lower: Option<RowEnd>,
    /// `None` for no bound.
    pub(crate) upper: Option<RowEnd>,
    /// Whether a null end means that the row has no bound there. Otherwise, the row matches
    /// nothing.
    pub(crate) are_open: bool,
}

/// One end of a join's intervals.
#[derive(Clone, Debug)]
pub(crate) struct RowEnd {
    argument: &'static str,
    rule: EndRule,
    value: EndValue,
}

#[derive(Clone, Debug)]
enum EndValue {
    /// A fixed end, with the text that is shown to users.
    Fixed(i128, String),
    Computed(Expr, Box<RowValue>),
}

impl RowEnds {
    /// Returns whether an end is computed from this side's columns.
    pub(crate) fn reads(&self, side: Origin) -> bool {
        self.each().any(|end| end.side() == Some(side))
    }

    /// Returns the columns on one side that the interval's ends depend on.
    pub(crate) fn columns(&self, side: Origin) -> Vec<usize> {
        self.each().flat_map(|end| end.columns(side)).copied().collect()
    }

    fn each(&self) -> impl Iterator<Item = &RowEnd> {
        [&self.lower, &self.upper].into_iter().flatten()
    }

    /// Returns an interval that contains the right times of all pairs if every computed end is
    /// within `most` steps of its row's time, for rows on the left and on the right.
    pub(crate) fn within(&self, most: [i64; 2]) -> Interval {
        let most = |end: &RowEnd| most[usize::from(end.side() == Some(Origin::Right))];
        let lower = self.lower.as_ref().map(|end| end.fixed().unwrap_or(-most(end)));
        let upper = self.upper.as_ref().map(|end| end.fixed().unwrap_or(most(end)));
        Interval { lower, upper, closed: Closed::Both }
    }

    /// Returns the maximum distance between an end computed from this side and its row's time.
    /// Returns `None` if no end is computed from this side.
    pub(crate) fn width(&self, side: Origin, most: i64) -> Option<Width> {
        let of_side = |end: &&RowEnd| end.side() == Some(side);
        let ends: Vec<_> = self.each().filter(of_side).cloned().collect();
        (!ends.is_empty()).then_some(Width { ends, most, names: None })
    }

    /// Returns the conditions for a pair to be within the computed ends, given the names of the
    /// time columns.
    pub(crate) fn conditions<'a>(
        &'a self,
        times: (&'a str, &'a str),
        unit: Unit,
    ) -> Vec<EndCondition<'a>> {
        let condition = |end: &'a RowEnd| match &end.value {
            EndValue::Fixed(..) => None,
            EndValue::Computed(expr, value) => Some(EndCondition {
                argument: end.argument,
                rule: end.rule,
                side: value.side(),
                expr,
                times,
                unit: time::time_unit(unit),
            }),
        };
        self.each().filter_map(condition).collect()
    }
}

impl RowEnd {
    /// Binds the end that the named argument specifies. Times are in `unit`.
    pub(crate) fn bind(
        argument: &'static str,
        end: &End,
        is_open: bool,
        schemas: (&Schema, &Schema),
        times: (usize, usize),
        unit: Unit,
    ) -> Result<Self> {
        let is_lower = argument == "lower";
        let (value, units, is_time) = match end {
            End::Fixed(bound) => {
                let (amount, step, text) = time::amount(argument, *bound, unit)?;
                (EndValue::Fixed(amount, text), (1, step), false)
            }
            End::Computed(expr) => {
                let value = RowValue::bind(argument, expr, schemas.0, schemas.1)?;
                let (units, is_time) = meaning(argument, &value, schemas, times, unit)?;
                (EndValue::Computed(expr.clone(), Box::new(value)), units, is_time)
            }
        };
        Ok(RowEnd { argument, rule: EndRule::new(units, is_time, is_lower, is_open), value })
    }

    /// Binds the column in which the rows on a side end. The rows start at their times, in `unit`,
    /// and match rows with which they have `least` steps in common.
    pub(crate) fn of_rows(
        column: Expr,
        least: i64,
        schemas: (&Schema, &Schema),
        unit: Unit,
    ) -> Result<Self> {
        let value = RowValue::bind("on", &column, schemas.0, schemas.1)?;
        let units = match (unit, nanoseconds(value.data_type())) {
            (Unit::Nanoseconds(step), Some(nanoseconds)) => (nanoseconds, step),
            _ => (1, 1),
        };
        let rule = EndRule::of_row_ends(units, least, value.side());
        Ok(RowEnd { argument: "on", rule, value: EndValue::Computed(column, Box::new(value)) })
    }

    /// Returns the side whose columns the end reads, if any.
    pub(crate) fn side(&self) -> Option<Origin> {
        match &self.value {
            EndValue::Computed(_, value) => Some(value.side()),
            EndValue::Fixed(..) => None,
        }
    }

    fn columns(&self, of: Origin) -> &[usize] {
        match &self.value {
            EndValue::Computed(_, value) if value.side() == of => value.columns(),
            _ => &[],
        }
    }

    /// Describes, for users, the distance from the left to the right time.
    pub(crate) fn show(&self, left_time: &str) -> String {
        match &self.value {
            EndValue::Fixed(_, text) => text.clone(),
            EndValue::Computed(_, value) if self.rule.is_time() => {
                format!("{} - left.{left_time}", value.text())
            }
            EndValue::Computed(_, value) => value.text().to_owned(),
        }
    }

    /// For each row in a batch, returns the end of the interval in which the other side's times
    /// match the row. Returns `None` for a row that matches nothing, and `of_null` for a row for
    /// which the end is null. `ts` contains the times of the rows. Only columns of the side to which
    /// the batch belongs are read.
    pub(crate) fn times(
        &self,
        side: Origin,
        batch: &RecordBatch,
        ts: &[i64],
        of_null: Option<i64>,
    ) -> Result<Vec<Option<i64>>> {
        Ok(match &self.value {
            EndValue::Fixed(value, _) => {
                ts.iter().map(|&ts| self.rule.time(side, ts, *value)).collect()
            }
            EndValue::Computed(_, value) => {
                let values = whole_numbers(&value.evaluate(batch)?)?;
                let time = |(&ts, value): (&i64, Option<i128>)| match value {
                    Some(value) => self.rule.time(side, ts, value),
                    None => of_null,
                };
                ts.iter().zip(values).map(time).collect()
            }
        })
    }

    /// Returns the distance from the left time, or `None` if the distance is not the same for all
    /// rows.
    fn fixed(&self) -> Option<i64> {
        match &self.value {
            EndValue::Fixed(value, _) => Some(self.rule.distance(*value)),
            EndValue::Computed(..) => None,
        }
    }
}

/// The maximum distance between the time of a row and the ends that are computed from its columns.
#[derive(Clone, Debug)]
pub(crate) struct Width {
    ends: Vec<RowEnd>,
    /// The distance in steps.
    most: i64,
    /// If rows have a start and an end, the names of both and the unit of a step.
    names: Option<([String; 2], Unit)>,
}

impl Width {
    /// Returns the maximum length of rows that end at `end`, in steps of `unit`. `names` contains
    /// the names of the start and the end.
    pub(crate) fn of_rows(end: RowEnd, most: i64, names: [&str; 2], unit: Unit) -> Self {
        Width { ends: vec![end], most, names: Some((names.map(str::to_owned), unit)) }
    }

    /// Returns the rows in a batch that have an end too far from their own time. `ts` contains
    /// the times of the rows. `first` is the number of the first row.
    ///
    /// # Errors
    ///
    /// Returns a data error if a row starts after its end.
    pub(crate) fn too_wide(&self, batch: &RecordBatch, ts: &[i64], first: u64) -> Result<Vec<u32>> {
        let mut rows = Vec::new();
        for RowEnd { rule, value, .. } in &self.ends {
            let EndValue::Computed(_, value) = value else { continue };
            let values = whole_numbers(&value.evaluate(batch)?)?;
            if let Some(([start, end], unit)) = &self.names {
                let reversed = |(row, value): (usize, &Option<i128>)| {
                    Some((row, rule.is_reversed_by(ts[row], (*value)?)?))
                };
                if let Some((row, after)) = values.iter().enumerate().find_map(reversed) {
                    return Err(ends_early(first + row as u64, after, (start, end), *unit));
                }
            }
            let is_beyond = |(row, value): (usize, Option<i128>)| {
                rule.is_beyond(self.most, ts[row], value?).then_some(row as u32)
            };
            rows.extend(values.into_iter().enumerate().filter_map(is_beyond));
        }
        rows.sort_unstable();
        rows.dedup();
        Ok(rows)
    }
}

/// Returns the error for a row that starts `after` steps after its end.
pub(crate) fn ends_early(row: u64, after: i128, names: (&str, &str), unit: Unit) -> Error {
    Error::data(format!(
        "row {row}: column `{}` is {after} {} after column `{}`, expected a start at or before its \
         end; swap the two, or filter such rows out first",
        names.0,
        unit.steps_name(),
        names.1,
    ))
}

/// Returns the number of nanoseconds in the unit of a type's values, or `None` for integers.
fn nanoseconds(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Duration(unit) | DataType::Timestamp(unit, _) => Some(time::nanoseconds(*unit)),
        DataType::Date32 => Some(time::DAY),
        DataType::Date64 => Some(time::nanoseconds(TimeUnit::Millisecond)),
        _ => None,
    }
}

/// Describes the values that an end can have, given the unit of the times.
fn expected(unit: Unit) -> &'static str {
    match unit {
        Unit::Integer => "an integer (a distance from the left time)",
        Unit::Nanoseconds(_) => "a time, or a duration (a distance from the left time)",
    }
}

/// Returns two lengths in nanoseconds: the values' unit and the time columns' step. For integers,
/// both are 1. Also returns whether the values are times.
fn meaning(
    argument: &str,
    value: &RowValue,
    (left, right): (&Schema, &Schema),
    times: (usize, usize),
    unit: Unit,
) -> Result<((i64, i64), bool)> {
    let (text, data_type) = (value.text(), value.data_type());
    let refused = |why: String| {
        Err(Error::schema(format!("{argument}: `{text}` is {}, {why}", TypeName(data_type))))
    };
    let is_integer = is_whole_number(data_type);
    let nanoseconds = match nanoseconds(data_type) {
        Some(nanoseconds) => nanoseconds,
        None if is_integer => 1,
        None => return refused(format!("expected {}", expected(unit))),
    };
    let is_duration = matches!(data_type, DataType::Duration(_));
    let step = match (unit, is_integer) {
        (Unit::Integer, true) => return Ok(((1, 1), false)),
        (Unit::Nanoseconds(_), true) => {
            return refused(format!(
                "which has no unit, but the time columns are dates or timestamps; make it a \
                 duration, as in {argument}=\"({text}) * INTERVAL '1 second'\""
            ));
        }
        (Unit::Integer, false) => {
            return refused(
                "but the time columns are integers; give an integer in their unit".to_owned(),
            );
        }
        (Unit::Nanoseconds(step), false) => step,
    };
    if is_duration {
        return Ok(((nanoseconds, step), false));
    }
    let (of_left, of_right) = (left.field(times.0), right.field(times.1));
    if value.side() == Origin::Right {
        return refused(format!(
            "a time of the right side, and {argument} bounds `right.{}`; for the left rows whose \
             time is between two times of a right row, write overlap_join with on=((\"{}\", \
             \"{}\"), (start, end))",
            of_right.name(),
            of_left.name(),
            of_left.name()
        ));
    }
    let is_zoned =
        |data_type: &DataType| matches!(data_type, DataType::Timestamp(_, zone) if zone.is_some());
    if is_zoned(data_type) != is_zoned(of_left.data_type()) {
        return refused(format!(
            "and `left.{}` is {}: times with and without a time zone cannot be compared; add a \
             time zone to both, or to neither",
            of_left.name(),
            TypeName(of_left.data_type())
        ));
    }
    Ok(((nanoseconds, step), true))
}
