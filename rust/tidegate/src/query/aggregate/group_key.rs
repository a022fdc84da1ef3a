//! The keys of an aggregation.

/// A key of an aggregation.
#[derive(Clone, PartialEq, Eq)]
pub struct GroupKey {
    /// The name of the result column. `None` means the name of the column or the text of the
    /// expression.
    pub name: Option<String>,
    /// A column of the input, or an SQL expression over its columns.
    pub value: String,
}

impl GroupKey {
    /// Returns the name of the result column, unless the name depends on the input.
    pub(crate) fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.value)
    }
}

impl From<&str> for GroupKey {
    fn from(column: &str) -> Self {
        GroupKey { name: None, value: column.to_owned() }
    }
}

/// Formats a key as the text by which snapshots identify a query.
impl std::fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            None => self.value.fmt(f),
            Some(name) => (name, &self.value).fmt(f),
        }
    }
}

/// Formats a key as messages and explanations show it.
impl std::fmt::Display for GroupKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            None => f.write_str(&self.value),
            Some(name) => write!(f, "{name} = {}", self.value),
        }
    }
}
