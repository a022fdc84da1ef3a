//! Errors that describe why data cannot be imported.

use std::fmt;

use arrow_schema::DataType;

use crate::node::Node;

/// The reason why data cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The structures are inconsistent with each other or with their declared data type.
    Malformed {
        /// The column, as a path of names. `None` refers to entire rows.
        column: Option<String>,
        /// A description of the problem.
        what: What,
    },
    /// The type of a column is not defined by Arrow.
    Unknown {
        /// The column.
        column: String,
        /// The type, given as the producer's format string.
        format: String,
    },
    /// A column's values have a fixed size of 0, so the array length is undefined.
    NoSize {
        /// The column, as a path of names.
        column: String,
    },
    /// The data has a type that does not represent rows.
    NoRows(DataType),
    /// The data was released, or another consumer has taken it over.
    Released,
    /// The producer reported an error.
    Producer {
        /// The producer's error code, which is an `errno` value.
        code: i32,
        /// The producer's description of the error.
        text: Option<String>,
    },
}

/// A description of what is wrong with the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A description that does not name a type.
    Plain(String),
    /// A description that names this type or the types it contains, in arrow-rs notation.
    Typed(String, DataType),
}

impl From<String> for What {
    fn from(text: String) -> Self {
        What::Plain(text)
    }
}

impl From<&str> for What {
    fn from(text: &str) -> Self {
        What::Plain(text.to_owned())
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error for a node of the data.
    #[cold]
    pub(crate) fn at(node: &Node<'_>, what: impl Into<What>) -> Self {
        Error::malformed(node.path(), what)
    }

    #[cold]
    pub(crate) fn malformed(column: Option<String>, what: impl Into<What>) -> Self {
        Error::Malformed { column, what: what.into() }
    }

    /// Creates an error for a type. The description is the type's name followed by `what`.
    #[cold]
    pub(crate) fn of_type(node: &Node<'_>, data_type: &DataType, what: &str) -> Self {
        Error::at(node, What::Typed(format!("{data_type} {what}"), data_type.clone()))
    }

    /// Returns the text of the error. `named` receives a type and a description in which arrow-rs
    /// names that type. `named` returns the description to use in the text.
    pub fn text(&self, named: impl Fn(&str, &DataType) -> String) -> String {
        match self {
            Error::Malformed { column, what } => {
                let what = match what {
                    What::Plain(text) => text.clone(),
                    What::Typed(text, data_type) => named(text, data_type),
                };
                match column {
                    Some(column) => format!("column `{column}` holds malformed Arrow data: {what}"),
                    None => format!("malformed Arrow data: {what}"),
                }
            }
            Error::Unknown { column, format } => format!(
                "column `{column}` has the type `{format}`, which Arrow does not define, \
                 so no column of the input can be read; cast it first, or pass \
                 frame.drop(\"{column}\")"
            ),
            Error::NoSize { column } => format!(
                "column `{column}` has values of size 0, which are not supported; cast it or leave \
                 it out"
            ),
            Error::NoRows(found) => format!(
                "expected rows (record batches, or an array of structs), got Arrow data of type {}",
                named(&found.to_string(), found)
            ),
            Error::Released => {
                "the Arrow data has already been consumed; pass a table, or a new reader".to_owned()
            }
            Error::Producer { code, text } => {
                let text = text.as_deref().unwrap_or("the producer gave no reason");
                format!("reading the Arrow stream failed: {text} (error code {code})")
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(|text, _| text.to_owned()))
    }
}

impl std::error::Error for Error {}
