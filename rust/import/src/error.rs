//! Errors: the reason why data cannot be taken over.

use std::fmt;

use arrow_schema::DataType;

use crate::node::Node;

/// Why data cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The structures contradict themselves, or the type that they say the data has.
    Malformed {
        /// The column, as a path of names; none where the rows as a whole are meant.
        column: Option<String>,
        /// What is wrong.
        what: What,
    },
    /// The type of a column is not defined by Arrow.
    Unknown {
        /// The column.
        column: String,
        /// The type, as the producer's format string.
        format: String,
    },
    /// The values of a column have a fixed size of 0, so an array of them has no definite length.
    NoSize {
        /// The column, as a path of names.
        column: String,
    },
    /// The data is of a type that has no rows.
    NoRows(DataType),
    /// The data was released, or taken over by another consumer.
    Released,
    /// The producer reported an error.
    Producer {
        /// Its number, of the kind of `errno`.
        code: i32,
        /// What the producer says about it.
        text: Option<String>,
    },
}

/// What is wrong with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// In words that name no type.
    Plain(String),
    /// In words that name this type, or types that it is made of, as arrow-rs does.
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
    /// An error about a node of the data.
    #[cold]
    pub(crate) fn at(node: &Node<'_>, what: impl Into<What>) -> Self {
        Error::malformed(node.path(), what)
    }

    #[cold]
    pub(crate) fn malformed(column: Option<String>, what: impl Into<What>) -> Self {
        Error::Malformed { column, what: what.into() }
    }

    /// An error about a type, in words behind its name.
    #[cold]
    pub(crate) fn of_type(node: &Node<'_>, data_type: &DataType, what: &str) -> Self {
        Error::at(node, What::Typed(format!("{data_type} {what}"), data_type.clone()))
    }

    /// The text of the error. `named` is given words in which arrow-rs names a type, and the type; its
    /// words are in the text.
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
                "the Arrow data was consumed before; pass a table, or a new reader".to_owned()
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
