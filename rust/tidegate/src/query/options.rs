//! The options that all joins have, and the part of the plan that depends on them.

use std::fmt::Debug;

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::predicate::Term;
use tidegate_operators::rows::How;

use super::identity::Identity;
use super::output::{OutputColumn, Shape};
use crate::Result;
use crate::columns::expression::{Expr, Predicate};
use crate::columns::faults::Faults;
use crate::columns::keys::KeyColumn;
use crate::columns::table::Names;

/// The options that all joins have, in addition to the relation that defines their pairs.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// Pairs of columns whose values must be equal.
    pub by: Vec<(String, String)>,
    /// A condition on matching pairs.
    pub predicate: Option<Expr>,
    /// The kind of join, which determines which rows the result contains.
    pub how: How,
    /// The suffix for right columns whose names also occur on the left side.
    pub suffix: String,
    /// The columns of the result; `None` for all columns.
    pub columns: Option<Vec<String>>,
    /// The number of threads.
    pub threads: usize,
    /// The maximum number of rows in the result.
    pub max_rows: Option<u64>,
    /// The maximum number of rows in a result batch. If `None`, batches take up a few megabytes.
    pub batch_rows: Option<usize>,
}

/// The part of the plan that all joins have.
#[derive(Debug)]
pub(crate) struct JoinPlan {
    pub(crate) keys: Vec<KeyColumn>,
    pub(crate) predicate: Option<Predicate>,
    pub(crate) columns: Vec<OutputColumn>,
    pub(crate) schema: SchemaRef,
}

impl JoinPlan {
    /// Configures the condition to record in `faults` every pair for which it cannot be evaluated.
    pub(crate) fn note(&mut self, faults: &Faults) {
        self.predicate = self.predicate.take().map(|predicate| predicate.noting(faults));
    }
}

impl JoinOptions {
    pub(crate) fn plan(&self, left: &Schema, right: &Schema) -> Result<JoinPlan> {
        self.plan_with(self.keys(left, right)?, left, right)
    }

    /// Returns the key columns of both sides.
    pub(super) fn keys(&self, left: &Schema, right: &Schema) -> Result<Vec<KeyColumn>> {
        let (of_left, of_right) = (Names::new(left), Names::new(right));
        let key = |(l, r): &(String, String)| {
            let (l, r) = (of_left.column("left", l, "by")?, of_right.column("right", r, "by")?);
            KeyColumn::new(l, left.field(l), r, right.field(r))
        };
        self.by.iter().map(key).collect()
    }

    /// Returns the condition, if there is one.
    pub(super) fn predicate(&self, left: &Schema, right: &Schema) -> Result<Option<Predicate>> {
        self.predicate.as_ref().map(|expr| Predicate::bind(expr, left, right)).transpose()
    }

    /// Returns the plan for a table that is joined with itself. Messages refer to the table as
    /// `name`.
    pub(crate) fn plan_of_one(&self, name: &str, schema: &Schema) -> Result<JoinPlan> {
        let names = Names::new(schema);
        let key = |(key, _): &(String, String)| {
            KeyColumn::of_group(names.column(name, key, "by")?, schema)
        };
        let keys = self.by.iter().map(key).collect::<Result<Vec<_>>>()?;
        self.plan_with(keys, schema, schema)
    }

    fn plan_with(&self, keys: Vec<KeyColumn>, left: &Schema, right: &Schema) -> Result<JoinPlan> {
        let predicate = self.predicate(left, right)?;
        let shape = Shape {
            how: self.how,
            keys: &keys,
            suffix: &self.suffix,
            columns: self.columns.as_deref(),
        };
        let (columns, schema) = shape.output(left, right)?;
        Ok(JoinPlan { keys, predicate, columns, schema })
    }

    /// Returns the text that identifies the results of a join with these options and this relation.
    pub(crate) fn identity(
        &self,
        operator: &str,
        [left, right]: [&Schema; 2],
        relation: &[(&str, &dyn Debug)],
    ) -> Identity {
        let JoinOptions { by, predicate, how, suffix, columns, .. } = self;
        let predicate = predicate.as_ref().map(|predicate| format!("{:?}", predicate.to_string()));
        relation
            .iter()
            .fold(
                Identity::of(operator).columns("left", left).columns("right", right),
                |identity, (name, value)| identity.line(name, format_args!("{value:?}")),
            )
            .line("by", format_args!("{by:?}"))
            .line("where", predicate.as_deref().unwrap_or("none"))
            .line("how", format_args!("{how:?}"))
            .line("suffix", format_args!("{suffix:?}"))
            .line("columns", format_args!("{columns:?}"))
    }

    /// Returns the line of an explanation that names the keys.
    pub(crate) fn describe_keys(&self) -> String {
        let keys: Vec<_> = self
            .by
            .iter()
            .map(|(l, r)| if l == r { l.clone() } else { format!("{l} = {r}") })
            .collect();
        match keys.is_empty() {
            true => "  key        none: all rows are one group".to_owned(),
            false => format!("  key        {}", keys.join(", ")),
        }
    }

    /// Returns the line of an explanation that shows the condition, if there is one.
    pub(crate) fn describe_predicate(&self) -> Option<String> {
        self.predicate
            .as_ref()
            .map(|predicate| format!("  where      {predicate}, on blocks of candidate pairs"))
    }
}

impl JoinPlan {
    /// Returns the line of an explanation that describes how the condition is tested, if there is
    /// one.
    pub(crate) fn describe_scan(&self) -> Option<String> {
        let (scanned, all) = self.predicate.as_ref()?.comparisons();
        let wide = tidegate_structures::instructions::instructions();
        Some(match scanned {
            0 => "  scan       none: the condition has no conjunct that compares numbers of the two sides".to_owned(),
            _ => format!("  scan       {scanned} of {all} conjuncts, as ranges of numbers, with {wide}"),
        })
    }

    /// Returns the explanation line that describes how runs of right rows are looked up.
    pub(crate) fn describe_index(&self) -> String {
        let runs = "  index      right rows grouped by key, in time order";
        let Some(predicate) = &self.predicate else { return runs.to_owned() };
        let scan = predicate.scan();
        match &scan.of_right()[..] {
            [] => {
                format!("{runs}; none by value, because no numbers of the two sides are compared")
            }
            numbers => format!(
                "{runs}; also in blocks by the value of {}, if a sample shows that looking up rows \
                 is faster than comparing them",
                numbers.join(" or ")
            ),
        }
    }

    /// Returns whether the join requires equal keys or equal integers on both sides.
    pub(crate) fn has_equality(&self) -> bool {
        let terms =
            self.predicate.as_ref().map(|predicate| predicate.scan().terms()).unwrap_or_default();
        !self.keys.is_empty() || terms.iter().any(Term::is_equality)
    }
}
