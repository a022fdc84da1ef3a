//! Expressions that compute a value from the rows in one table, and conditions on times that depend
//! on such values.

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Schema, TimeUnit};
use arrow_select::concat::concat;

use super::bind::{Predicate, bind_value, bind_with_ends};
use super::bound::TypedOperation;
use super::end::EndRule;
use super::evaluate::BlockPairs;
use super::{Expr, Origin};
use crate::columns::faults::Faults;
use crate::{Error, Result, shown};

/// An expression over one table's columns, checked against the schemas of two tables.
#[derive(Clone, Debug)]
pub(crate) struct RowValue {
    /// The argument in which the expression was passed, for error messages.
    argument: &'static str,
    root: TypedOperation,
    side: Origin,
    columns: Vec<usize>,
    /// The record of rows for which the expression cannot be computed. If this field is `None`,
    /// such rows cause an error.
    faults: Option<Faults>,
}

impl RowValue {
    /// Checks that `expr` reads existing columns of only one side, and combines compatible types.
    ///
    /// # Errors
    ///
    /// Returns a schema error that names the argument, the column or operation, its types, and the
    /// expected types.
    pub(crate) fn bind(
        argument: &'static str,
        expr: &Expr,
        left: &Schema,
        right: &Schema,
    ) -> Result<Self> {
        let (root, of_left, of_right) =
            bind_value(expr, left, right).map_err(|error| error.of_argument("where", argument))?;
        let (side, columns) = match (of_left.is_empty(), of_right.is_empty()) {
            (false, true) => (Origin::Left, of_left),
            (true, false) => (Origin::Right, of_right),
            (is_constant, _) => {
                let text = expr.to_string();
                let text = shown(&text);
                return Err(Error::schema(match is_constant {
                    true => format!(
                        "{argument}: `{text}` reads no column; give the value itself, such as \
                         {argument}=\"5s\" or {argument}=5"
                    ),
                    false => format!(
                        "{argument}: `{text}` uses columns of both sides, expected columns of one \
                         side; compare columns of both sides in where"
                    ),
                }));
            }
        };
        Ok(RowValue { argument, root, side, columns, faults: None })
    }

    /// Returns the side whose columns the expression reads.
    pub(crate) fn side(&self) -> Origin {
        self.side
    }

    /// Returns the columns that the expression reads from its side, as ascending positions in the
    /// schema.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.root.data_type
    }

    /// Returns the text that the user wrote.
    pub(crate) fn text(&self) -> &str {
        &self.root.text
    }

    /// Evaluates the expression for each row in a batch from the side that the expression reads.
    ///
    /// # Errors
    ///
    /// Returns a data error if integers, decimals or times overflow or are divided by zero.
    pub(crate) fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let columns: Vec<ArrayRef> =
            self.columns.iter().map(|&column| batch.column(column).clone()).collect();
        self.of_columns(&columns, batch.num_rows())
    }

    /// For rows where the expression cannot be computed, returns null and records the failure in
    /// `faults`.
    pub(crate) fn note(&mut self, faults: &Faults) {
        self.faults = Some(faults.clone());
    }

    /// Like [`evaluate`](Self::evaluate), given only the columns that the expression reads.
    pub(crate) fn of_columns(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let found = self
            .root
            .values(&BlockPairs::All { columns, len: rows })
            .map_err(|error| error.of_argument("where", self.argument));
        match (found, &self.faults) {
            (Err(error), Some(faults)) if error.is_data() && rows == 1 => {
                faults.note(error);
                Ok(new_null_array(self.data_type(), 1))
            }
            (Err(error), Some(_)) if error.is_data() => {
                let half = rows / 2;
                let part = |from: usize, len: usize| {
                    let columns: Vec<ArrayRef> =
                        columns.iter().map(|column| column.slice(from, len)).collect();
                    self.of_columns(&columns, len)
                };
                Ok(concat(&[&part(0, half)?, &part(half, rows - half)?])?)
            }
            (found, _) => found,
        }
    }
}

/// The condition that a time on the other side does not lie beyond an end computed from this side's
/// columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndCondition<'a> {
    /// The argument in which the end was passed.
    pub(crate) argument: &'static str,
    pub(crate) rule: EndRule,
    /// The side from whose columns the end is computed.
    pub(crate) side: Origin,
    pub(crate) expr: &'a Expr,
    /// The time columns of the left and right sides.
    pub(crate) times: (&'a str, &'a str),
    /// The unit of a step. `None` for integers and days.
    pub(crate) unit: Option<TimeUnit>,
}

impl EndCondition<'_> {
    /// Returns the time on the condition's side, the time on the other side, and the value.
    pub(super) fn exprs(&self) -> [Expr; 3] {
        let left = Expr::Column(Origin::Left, self.times.0.to_owned());
        let right = Expr::Column(Origin::Right, self.times.1.to_owned());
        match self.side {
            Origin::Right => [right, left, self.expr.clone()],
            Origin::Left | Origin::Row => [left, right, self.expr.clone()],
        }
    }
}

impl Predicate {
    /// Binds the conditions for one or more ends, followed by another condition. That condition is
    /// evaluated only for pairs that satisfy all conditions for the ends. Times must fit in 64 bits
    /// after conversion to the step's unit.
    pub(crate) fn bind_with_ends(
        ends: &[EndCondition<'_>],
        condition: Option<&Expr>,
        left: &Schema,
        right: &Schema,
    ) -> Result<Self> {
        bind_with_ends(ends, condition, left, right)
    }
}
