//! The gaps of sessions: one gap for all rows, or a column with the gap of each row.
//!
//! A row at `ts` covers the time `[ts, ts + gap)`. Rows of a key belong to the same session if these
//! times overlap.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field};
use arrow_select::filter::filter_record_batch;

use super::inputs::ReadColumn;
use crate::columns::cast::cast;
use crate::columns::expression::{Origin, Predicate};
use crate::columns::time::{Unit, nanoseconds};
use crate::columns::type_name::TypeName;
use crate::{Error, Result};

/// For how long a row keeps a session open.
#[derive(Clone, Debug)]
pub(crate) enum SessionGap {
    /// The same gap for all rows, in steps of the time unit.
    Fixed(i64),
    /// A gap for each row.
    OfRows(GapColumn),
}

impl SessionGap {
    /// Describes sessions over rows whose times are in this unit.
    pub(crate) fn describe(&self, unit: Unit) -> String {
        match self {
            SessionGap::Fixed(gap) => {
                format!("sessions that end {gap} ({}) after their last row", unit.name())
            }
            SessionGap::OfRows(gap) => {
                format!("sessions that end once `{}` has passed after each row", gap.name)
            }
        }
    }

    /// Returns a value that is not greater than the gap of any row.
    pub(crate) fn least(&self) -> i64 {
        match self {
            SessionGap::Fixed(gap) => *gap,
            SessionGap::OfRows(_) => 1,
        }
    }
}

/// The column that contains the gap of each row.
#[derive(Clone, Debug)]
pub(crate) struct GapColumn {
    /// The position of the column among the columns that are read.
    pub(crate) at: usize,
    name: String,
    data_type: DataType,
    /// The length of the durations' unit in nanoseconds. `None` means integers in the unit of the
    /// times.
    duration: Option<i64>,
    unit: Unit,
}

impl GapColumn {
    /// Checks that a column, which is read as `field`, can contain gaps of times in `unit`.
    pub(super) fn new(at: usize, field: &Field, unit: Unit) -> Result<Self> {
        let (name, data_type) = (field.name().clone(), field.data_type().clone());
        let duration = match (&data_type, unit) {
            (DataType::Duration(of), Unit::Nanoseconds(_)) => Some(nanoseconds(*of)),
            (DataType::Duration(_), Unit::Integer) => {
                return Err(Error::schema(format!(
                    "session: `{name}` is {}, but the times are integers; cast it to int64",
                    TypeName(&data_type)
                )));
            }
            (integer, _) if integer.is_integer() => None,
            (other, _) => {
                return Err(Error::schema(format!(
                    "session: `{name}` is {}, expected a duration, or an integer in the unit of \
                     the times; cast it first",
                    TypeName(other)
                )));
            }
        };
        Ok(GapColumn { at, name, data_type, duration, unit })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the gaps of rows, in steps of the time unit. Rows are counted from `first` in errors.
    pub(crate) fn gaps(&self, values: &ArrayRef, ts: &[i64], first: u64) -> Result<Vec<i64>> {
        let wrong = |row: usize, what: String| {
            Error::data(format!(
                "row {}: session: `{}` {what}; exclude such rows with where, or replace the gap",
                first + row as u64,
                self.name
            ))
        };
        let given = cast(values, &DataType::Int64)
            .map_err(|error| Error::data(format!("session: column `{}`: {error}", self.name)))?;
        let given = given.as_primitive::<Int64Type>();
        let steps = |(row, ts): (usize, &i64)| {
            if given.is_null(row) {
                return Err(wrong(row, "is null, expected a gap".to_owned()));
            }
            let value = given.value(row);
            let gap = match (self.duration, self.unit) {
                (Some(of), Unit::Nanoseconds(step)) => {
                    let (length, step) = (i128::from(value) * i128::from(of), i128::from(step));
                    if length % step != 0 {
                        let unit = self.unit.name();
                        return Err(wrong(row, format!("is not a whole number of {unit}")));
                    }
                    length / step
                }
                _ => i128::from(value),
            };
            if gap <= 0 {
                return Err(wrong(row, format!("is {gap}, expected a gap greater than 0")));
            }
            match i64::try_from(i128::from(*ts) + gap) {
                Ok(end) => Ok(end - ts),
                Err(_) => Err(wrong(row, "ends the session outside the 64-bit range".to_owned())),
            }
        };
        ts.iter().enumerate().map(steps).collect()
    }
}

/// Finds rows without a valid gap before their sessions are computed.
#[derive(Clone, Debug)]
pub(crate) struct GapCheck<'a> {
    pub(crate) gap: &'a GapColumn,
    /// The column of the table from which the gaps are read.
    pub(crate) read: &'a ReadColumn,
    /// The condition that selects rows.
    pub(crate) rows: Option<&'a Predicate>,
}

impl GapCheck<'_> {
    /// Returns an error that names the first row that has no valid gap and satisfies the condition.
    /// Rows are counted from `first`.
    pub(crate) fn check(&self, batch: &RecordBatch, ts: &[i64], first: u64) -> Result<()> {
        let Err(error) = self.gaps(batch, ts, first) else { return Ok(()) };
        let Some(rows) = self.rows else { return Err(error) };
        if let Ok(counted) = counted(rows, batch) {
            let times = ts.iter().zip(&counted).filter(|(_, is_counted)| **is_counted);
            let times: Vec<i64> = times.map(|(ts, _)| *ts).collect();
            let counted = filter_record_batch(batch, &BooleanArray::from(counted))?;
            if self.gaps(&counted, &times, first).is_ok() {
                return Ok(());
            }
        }
        for (row, ts) in ts.iter().enumerate() {
            let alone = batch.slice(row, 1);
            if is_counted(rows, &alone) {
                self.gaps(&alone, &[*ts], first + row as u64)?;
            }
        }
        Ok(())
    }

    fn gaps(&self, batch: &RecordBatch, ts: &[i64], first: u64) -> Result<Vec<i64>> {
        let every: Vec<usize> = (0..batch.num_columns()).collect();
        let values = self.read.values(batch, &every)?;
        let values = cast(&values, &self.gap.data_type)?;
        self.gap.gaps(&values, ts, first)
    }
}

/// Returns whether the only row in a batch satisfies a condition. A row for which the condition
/// cannot be computed does not satisfy it.
pub(crate) fn is_counted(rows: &Predicate, batch: &RecordBatch) -> bool {
    counted(rows, batch).is_ok_and(|counted| counted[0])
}

/// Returns whether each row in a batch satisfies a condition.
fn counted(rows: &Predicate, batch: &RecordBatch) -> Result<Vec<bool>> {
    let columns = rows.columns(Origin::Row).iter();
    let columns: Vec<ArrayRef> = columns.map(|&column| batch.column(column).clone()).collect();
    Ok(rows.evaluate(&columns, &[], batch.num_rows())?.iter().collect())
}
