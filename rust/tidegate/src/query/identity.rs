//! The identity of a query: a string that determines the query's results and is stored in
//! snapshots.
//!
//! Queries with equal identities have equal results, so the identity does not include the number of
//! threads, the memory limit or the algorithm.

use std::fmt::{Debug, Display, Write};

use arrow_schema::Schema;

/// Names and values, one pair per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity(String);

impl Identity {
    pub(crate) fn of(operator: &str) -> Self {
        Identity(String::new()).line("operator", operator)
    }

    pub(crate) fn line(mut self, name: &str, value: impl Display) -> Self {
        writeln!(self.0, "{name}: {value}").expect("writing to a string cannot fail");
        self
    }

    /// Adds the columns of an input, with their types.
    pub(crate) fn columns(self, name: &str, schema: &Schema) -> Self {
        let columns: Vec<String> = schema
            .fields()
            .iter()
            .map(|field| format!("{}: {}", field.name(), field.data_type()))
            .collect();
        self.line(name, columns.join(", "))
    }

    /// Adds the number of sources and their lateness, and returns the text.
    pub(crate) fn sources(self, sources: impl Debug, lateness: impl Debug) -> String {
        self.line("sources", format_args!("{sources:?}"))
            .line("lateness", format_args!("{lateness:?}"))
            .0
    }
}
