//! The columns that functions read: columns of a table, and expressions over them.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};

use crate::columns::expression::{
    Expr, Origin, Predicate, RowValue, parse_function_sql, parse_row_sql, parse_side_sql,
};
use crate::columns::faults::Faults;
use crate::columns::table::Names;
use crate::{Error, Result, shown};

/// The columns of one table that functions read.
#[derive(Debug)]
pub(crate) struct InputPlan {
    /// The table's columns and expressions that supply the columns of
    /// [`FunctionsPlan::read`](super::plan::FunctionsPlan::read).
    pub(crate) read: Vec<ReadColumn>,
    /// The predicate of each aggregate.
    pub(crate) predicates: Vec<Option<Predicate>>,
}

/// A column that functions read.
#[derive(Clone, Debug)]
pub(crate) enum ReadColumn {
    /// A column of the table, by its position.
    Stored(usize),
    /// An expression over columns of the table.
    Computed(Box<RowValue>),
}

impl InputPlan {
    /// Configures conditions and expressions to record each row for which they cannot be computed.
    pub(crate) fn note(&mut self, faults: &Faults) {
        for predicate in &mut self.predicates {
            *predicate = predicate.take().map(|predicate| predicate.noting(faults));
        }
        for column in &mut self.read {
            if let ReadColumn::Computed(value) = column {
                value.note(faults);
            }
        }
    }

    /// Returns the columns that functions and their predicates read, in ascending order.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let predicates =
            self.predicates.iter().flatten().flat_map(|predicate| predicate.columns(Origin::Left));
        let mut used: Vec<usize> =
            self.read.iter().flat_map(ReadColumn::columns).chain(predicates).copied().collect();
        used.sort_unstable();
        used.dedup();
        used
    }
}

impl ReadColumn {
    /// Returns the positions of the table's columns that supply the values.
    pub(crate) fn columns(&self) -> &[usize] {
        match self {
            ReadColumn::Stored(at) => std::slice::from_ref(at),
            ReadColumn::Computed(value) => value.columns(),
        }
    }

    /// Returns the values for the rows in a batch, which contains only the `used` columns of the
    /// table.
    pub(crate) fn values(&self, batch: &RecordBatch, used: &[usize]) -> Result<ArrayRef> {
        let place = |at: &usize| used.binary_search(at).expect("what is read is used");
        match self {
            ReadColumn::Stored(at) => Ok(batch.column(place(at)).clone()),
            ReadColumn::Computed(value) => {
                let columns: Vec<ArrayRef> =
                    value.columns().iter().map(|at| batch.column(place(at)).clone()).collect();
                value.of_columns(&columns, batch.num_rows())
            }
        }
    }
}

/// Returns the input that a name or an SQL expression refers to, with its field. The name of a
/// column in the table is never parsed as an expression.
pub(crate) fn input(
    table: &str,
    schema: &Schema,
    names: &Names<'_>,
    text: &str,
    role: &'static str,
) -> Result<(Field, ReadColumn)> {
    let stored = |name: &str| {
        let at = names.column(table, name, role)?;
        Ok((schema.field(at).clone(), ReadColumn::Stored(at)))
    };
    if !matches!(role, "aggs" | "on" | "by" | "session") || names.has(text) || is_plain(text) {
        return stored(text);
    }
    let parsed = match (role, table) {
        ("aggs", _) => parse_function_sql(text),
        (_, "left" | "right") => parse_side_sql(text, table),
        _ => parse_row_sql(text),
    };
    match parsed {
        Ok(Expr::Column(_, name)) => stored(&name),
        Ok(expr) => {
            let mut reads_column = false;
            expr.for_each_column(&mut |_, _| reads_column = true);
            if !reads_column {
                return Err(Error::schema(format!(
                    "{role}: `{}` reads no column; name a column in it",
                    shown(text)
                )));
            }
            let value = RowValue::bind(role, &expr.of_one_table(), schema, &Schema::empty())?;
            let field = Field::new(text, value.data_type().clone(), true);
            Ok((field, ReadColumn::Computed(Box::new(value))))
        }
        // A misspelled name is reported as such.
        Err(_) if role != "aggs" && is_name_or_list(text) => stored(text),
        Err(error) => Err(error.of_argument("where", role)),
    }
}

/// Returns whether a string that is not a valid expression looks like a name or a list of names.
fn is_name_or_list(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ',' | ' '))
}

/// Returns whether a string is a name that needs no quotes in SQL.
pub(crate) fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Adds the name of a table to its error if there are several tables.
pub(super) fn in_table(name: &str, tables: usize, error: Error) -> Error {
    if tables == 1 { error } else { error.within(name) }
}
