//! As-of joins that look up more than one right row per left row: at several offsets from the left
//! time, several nearest rows, or the rows before and after for interpolation.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use tidegate_operators::asof::Strategy;
use tidegate_operators::rows::How;

use super::aggregate::value_types::list_item;
use super::options::{JoinOptions, JoinPlan};
use super::output::{OutputColumn, Shape, nullable, origin, selected};
use super::plan::{Difference, Reach};
use crate::columns::keys::KeyColumn;
use crate::columns::metadata;
use crate::columns::table::Names;
use crate::columns::time::{self, Bound, DAY, Unit, nanoseconds};
use crate::{Error, Result, shown};

/// The column that contains the offset of each row in a long result.
pub(crate) const AT: &str = "at";

/// A distance from the time of each left row. Partners are looked up at this distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The offset as the caller wrote it, which is part of column names.
    pub label: String,
    /// The distance, which can be negative.
    pub distance: Bound,
    /// The maximum time distance between the time looked up and a partner, inclusive; `None` for no
    /// limit.
    pub tolerance: Option<Bound>,
}

/// The lookups of an as-of join that returns more than a single partner per left row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookups {
    /// The offsets at which partners are looked up; `None` for the time of the left row itself.
    pub at: Option<Vec<Offset>>,
    /// True if the result has one row per left row and offset, rather than one set of right columns
    /// per offset.
    pub is_long: bool,
    /// The maximum number of partners per lookup, which are returned in lists; `None` for single
    /// partners.
    pub partners: Option<u32>,
    /// True if numbers are interpolated between the rows before and after.
    pub interpolates: bool,
}

/// An offset in the time unit of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetPlan {
    pub(crate) steps: i64,
    pub(crate) tolerance: Option<i64>,
}

impl OffsetPlan {
    /// Returns the smallest and largest time difference between a left row and its partners.
    fn reach(self, strategy: Strategy, interpolates: bool) -> [Option<i64>; 2] {
        let OffsetPlan { steps, tolerance } = self;
        let looks = |strategies: [Strategy; 2]| interpolates || strategies.contains(&strategy);
        let lower = match looks([Strategy::Backward, Strategy::Nearest]) {
            true => tolerance.map(|most| steps.saturating_sub(most)),
            false => Some(steps),
        };
        let upper = match looks([Strategy::Forward, Strategy::Nearest]) {
            true => tolerance.map(|most| steps.saturating_add(most)),
            false => Some(steps),
        };
        [lower, upper]
    }
}

/// A column of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupColumn {
    Left(usize),
    /// The offset of a row in a long result.
    At,
    /// A right column, at the offset with this number. In a long result, the number is 0.
    Right {
        column: usize,
        offset: usize,
    },
}

/// Lookups whose offsets and columns fit two schemas.
#[derive(Debug)]
pub(crate) struct LookupPlan {
    pub(crate) offsets: Vec<OffsetPlan>,
    pub(crate) is_long: bool,
    /// The type of the column with offsets in a long result.
    pub(crate) at: AtColumn,
    pub(crate) partners: Option<u32>,
    pub(crate) interpolates: bool,
    /// For each right column, true if its values are interpolated.
    pub(crate) interpolated: Vec<bool>,
    pub(crate) columns: Vec<LookupColumn>,
    /// The left columns whose names determine the names of right columns.
    pub(crate) clashes: Vec<usize>,
}

/// The type of a column with offsets, and the number of its units per unit of time.
#[derive(Clone, Debug)]
pub(crate) struct AtColumn {
    pub(crate) data_type: DataType,
    pub(crate) factor: i64,
}

impl AtColumn {
    fn new(unit: Unit) -> Self {
        let (data_type, factor) = match (time::time_unit(unit), unit) {
            (_, Unit::Integer) => (DataType::Int64, 1),
            (Some(unit), _) => (DataType::Duration(unit), 1),
            (None, Unit::Nanoseconds(_)) => {
                let unit = TimeUnit::Microsecond;
                (DataType::Duration(unit), DAY / nanoseconds(unit))
            }
        };
        AtColumn { data_type, factor }
    }
}

impl Lookups {
    /// Returns the offsets as the caller wrote them.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.at.iter().flatten().map(|offset| offset.label.as_str())
    }

    /// Rejects options that contradict each other.
    pub(crate) fn check(&self, how: How) -> Result<()> {
        if self.is_long && self.at.is_none() {
            return Err(Error::argument(
                "long: this returns one row per left row and offset, but there are no offsets; give \
                 at, such as at=[\"0s\", \"10s\"], or leave it out",
            ));
        }
        if self.partners.is_some() && !how.pairs() {
            return Err(Error::argument(format!(
                "n: a join with how=`{}` returns no right columns, so there are no lists of \
                 partners; leave n out, or give how=\"left\" or how=\"inner\"",
                format!("{how:?}").to_lowercase()
            )));
        }
        if self.partners.is_some() && self.interpolates {
            return Err(Error::argument(
                "n: strategy=\"interpolate\" returns one value between two rows; leave n out, or \
                 give strategy=\"nearest\"",
            ));
        }
        Ok(())
    }

    /// Returns the error for a join of streams, which finds one partner per left row.
    pub(crate) fn of_tables(&self) -> Error {
        Error::argument(if self.at.is_some() {
            "at: a join of streams looks up partners at the time of each left row; write \
             IntervalJoin with aggs such as {\"price_10s\": tidegate.agg.last(\"price\", \
             lower=\"10s\", upper=\"10s\", prevailing=True)}, or call asof_join on tables"
        } else if self.partners.is_some() {
            "n: a join of streams finds one partner per left row; write IntervalJoin with aggs such \
             as {\"prices\": tidegate.agg.last(\"price\", 3)}, or call asof_join on tables"
        } else {
            "strategy: a join of streams does not interpolate; write one AsofJoin with \
             strategy=\"backward\" and one with strategy=\"forward\", and interpolate between their \
             results, or call asof_join on tables"
        })
    }

    /// Returns the plan and the columns of the result.
    pub(crate) fn plan(
        &self,
        (left, right): (&Schema, &Schema),
        times: (usize, usize),
        unit: Unit,
        tolerance: Option<i64>,
        options: &JoinOptions,
    ) -> Result<(LookupPlan, JoinPlan)> {
        self.check(options.how)?;
        let offsets = match &self.at {
            None => vec![OffsetPlan { steps: 0, tolerance }],
            Some(at) => offsets(at, unit)?,
        };
        let keys = options.keys(left, right)?;
        let names = ResultNames { lookups: self, times, options, keys: &keys };
        let at = AtColumn::new(unit);
        if self.is_long && offsets.iter().any(|one| one.steps.checked_mul(at.factor).is_none()) {
            return Err(Error::argument(
                "long: an offset does not fit 64 bits in microseconds; give smaller offsets, or \
                 leave long out",
            ));
        }
        let interpolated = names.interpolated(right);
        let (columns, clashes) = names.columns(left, right, &at.data_type, &interpolated);
        let columns = selected(columns, options.columns.as_deref(), &options.suffix)?;
        let (columns, fields): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let outputs = |column: &LookupColumn| match *column {
            LookupColumn::Left(at) => Some(OutputColumn::Left(at)),
            LookupColumn::Right { column, .. } => Some(OutputColumn::Right(column)),
            LookupColumn::At => None,
        };
        let of_each = columns.iter().zip(&fields);
        let origins: Vec<_> = of_each
            .filter_map(|(column, field)| Some(origin(outputs(column)?, field, left, right)))
            .collect();
        let metadata = metadata::of_join(left, right, &origins);
        let schema = Arc::new(Schema::new_with_metadata(fields.clone(), metadata));
        let join = JoinPlan {
            predicate: options.predicate(left, right)?,
            columns: columns.iter().filter_map(outputs).collect(),
            schema,
            keys,
        };
        let plan = LookupPlan {
            offsets,
            is_long: self.is_long,
            at,
            partners: self.partners,
            interpolates: self.interpolates,
            interpolated,
            columns,
            clashes,
        };
        Ok((plan, join))
    }

    /// Returns the lines of an explanation that describe the lookups.
    pub(crate) fn describe(&self, plan: &LookupPlan, unit: Unit) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(at) = &self.at {
            let offset = |(one, planned): (&Offset, &OffsetPlan)| match planned.tolerance {
                None => shown(&one.label).into_owned(),
                Some(most) => {
                    format!("{} (at most {} away)", shown(&one.label), unit.length(most))
                }
            };
            let offsets: Vec<_> = at.iter().zip(&plan.offsets).map(offset).collect();
            let shape = match self.is_long {
                true => "one row per left row and offset",
                false => "one set of right columns per offset",
            };
            lines.push(format!("  at         {}: {shape}", offsets.join(", ")));
        }
        if let Some(most) = self.partners {
            lines.push(format!("  partners   up to {most}, as lists in time order"));
        }
        lines
    }
}

/// Converts offsets to the time unit of the join.
fn offsets(at: &[Offset], unit: Unit) -> Result<Vec<OffsetPlan>> {
    if at.is_empty() {
        return Err(Error::argument(
            "at: expected at least one offset, got an empty list; leave at out to look up partners \
             at the times of the left rows",
        ));
    }
    let mut plans: Vec<OffsetPlan> = Vec::with_capacity(at.len());
    for (number, Offset { label, distance, tolerance }) in at.iter().enumerate() {
        let steps = time::steps(&format!("at[{number}]"), *distance, unit)?;
        let length = |tolerance| time::length("tolerance", tolerance, unit);
        let tolerance = tolerance.map(length).transpose()?;
        if let Some(other) = plans.iter().position(|other| other.steps == steps) {
            return Err(Error::argument(format!(
                "at: offsets `{}` and `{}` are equal; leave one of them out",
                shown(&at[other].label),
                shown(label)
            )));
        }
        plans.push(OffsetPlan { steps, tolerance });
    }
    Ok(plans)
}

impl LookupPlan {
    /// Returns the range of time differences between left rows and their partners.
    pub(crate) fn reach(&self, times: (usize, usize), strategy: Strategy) -> Reach {
        let ends = self.offsets.iter().map(|offset| offset.reach(strategy, self.interpolates));
        let [mut lowest, mut highest] = [Some(i64::MAX), Some(i64::MIN)];
        for [lower, upper] in ends {
            lowest = lowest.zip(lower).map(|(one, other)| one.min(other));
            highest = highest.zip(upper).map(|(one, other)| one.max(other));
        }
        let steps = |end: Option<i64>| end.map(Difference::Steps);
        Reach { columns: times, lower: steps(lowest), upper: steps(highest) }
    }

    /// Returns the smallest offset, less its tolerance if there is one. Earlier right rows match
    /// only as the last row of their key.
    pub(crate) fn lowest(&self) -> Option<Difference> {
        let ends = self
            .offsets
            .iter()
            .map(|offset| offset.steps.saturating_sub(offset.tolerance.unwrap_or(0)));
        ends.min().map(Difference::Steps)
    }

    /// Returns the origins of the result columns, as in
    /// [`QueryPlan`](super::plan::QueryPlan::origins). The origin of an offset is the left time
    /// column, to which the offset is added.
    pub(crate) fn origins(&self, on: usize) -> Vec<(Option<usize>, Option<usize>)> {
        let origin = |column: &LookupColumn| match *column {
            LookupColumn::Left(at) => (Some(at), None),
            LookupColumn::At => (Some(on), None),
            LookupColumn::Right { column, .. } => (None, Some(column)),
        };
        self.columns.iter().map(origin).collect()
    }
}

/// The parts of a query that determine the names and types of its result columns.
struct ResultNames<'a> {
    lookups: &'a Lookups,
    times: (usize, usize),
    options: &'a JoinOptions,
    keys: &'a [KeyColumn],
}

impl ResultNames<'_> {
    /// Returns all result columns, and the left columns that have the names of right columns.
    fn columns(
        &self,
        left: &Schema,
        right: &Schema,
        at: &DataType,
        interpolated: &[bool],
    ) -> (Vec<(LookupColumn, FieldRef)>, Vec<usize>) {
        let JoinOptions { how, suffix, .. } = self.options;
        let shape = Shape { how: *how, keys: self.keys, suffix, columns: None };
        let fields = left.fields().iter().enumerate();
        let mut columns: Vec<_> =
            fields.map(|(at, field)| (LookupColumn::Left(at), field.clone())).collect();
        if self.lookups.is_long {
            columns.push((LookupColumn::At, Arc::new(Field::new(AT, at.clone(), false))));
        }
        if !how.pairs() {
            return (columns, Vec::new());
        }
        let labels: Vec<Option<&str>> = match &self.lookups.at {
            Some(at) if !self.lookups.is_long => {
                at.iter().map(|offset| Some(offset.label.as_str())).collect()
            }
            _ => vec![None],
        };
        let shared: HashSet<usize> = shape.shared_keys(left, right).map(|key| key.right).collect();
        // With several offsets, a left row can be unmatched at some of them.
        let is_optional = how.keeps_left() || labels.len() > 1;
        let (names, mut clashes) = (Names::new(left), Vec::new());
        for (offset, label) in labels.into_iter().enumerate() {
            for (column, field) in right.fields().iter().enumerate() {
                if shared.contains(&column) {
                    continue;
                }
                let mut name = match label {
                    Some(label) => format!("{}_{label}", field.name()),
                    None => field.name().clone(),
                };
                if names.has(&name) {
                    clashes.extend(left.index_of(&name).ok());
                    name.push_str(suffix);
                }
                let field = self.field(field, interpolated[column], is_optional).with_name(name);
                columns.push((LookupColumn::Right { column, offset }, Arc::new(field)));
            }
        }
        (columns, clashes)
    }

    /// Returns, for each right column, whether its values are interpolated. Times and keys are not.
    fn interpolated(&self, right: &Schema) -> Vec<bool> {
        let is_compared =
            |column| column == self.times.1 || self.keys.iter().any(|key| key.right == column);
        let is_number = |field: &FieldRef| field.data_type().is_numeric();
        let fields = right.fields().iter().enumerate();
        fields
            .map(|(column, field)| {
                self.lookups.interpolates && !is_compared(column) && is_number(field)
            })
            .collect()
    }

    /// Returns the field of a result column with the values of a right column.
    fn field(&self, field: &FieldRef, is_interpolated: bool, is_optional: bool) -> Field {
        if self.lookups.partners.is_some() {
            let item = list_item(field);
            return Field::new(field.name(), DataType::List(item), is_optional);
        }
        if is_interpolated {
            let is_nullable = is_optional || field.is_nullable();
            return Field::new(field.name(), DataType::Float64, is_nullable);
        }
        Field::clone(&nullable(field, is_optional))
    }
}
