//! Errors: the reason why data cannot be taken over.

use std::fmt;

use crate::node::Node;

/// Why data cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The structures contradict themselves, or the type that they say the data has.
    Malformed {
        /// The column, as a path of names; none where the rows as a whole are meant.
        column: Option<String>,
        /// What is wrong.
        what: String,
    },
    /// The data is of a type that has no rows.
    NoRows(String),
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

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error about a node of the data.
    #[cold]
    pub(crate) fn at(node: &Node<'_>, what: impl Into<String>) -> Self {
        Error::malformed(node.path(), what)
    }

    #[cold]
    pub(crate) fn malformed(column: Option<String>, what: impl Into<String>) -> Self {
        Error::Malformed { column, what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Malformed { column: Some(column), what } => {
                write!(f, "column `{column}` holds malformed Arrow data: {what}")
            }
            Error::Malformed { column: None, what } => write!(f, "malformed Arrow data: {what}"),
            Error::NoRows(found) => {
                write!(
                    f,
                    "expected rows (record batches, or an array of structs), got Arrow data of \
                     type {found}"
                )
            }
            Error::Released => {
                f.write_str("the Arrow data was consumed before; pass a table, or a new reader")
            }
            Error::Producer { code, text } => {
                let text = text.as_deref().unwrap_or("the producer gave no reason");
                write!(f, "reading the Arrow stream failed: {text} (error code {code})")
            }
        }
    }
}

impl std::error::Error for Error {}
