//! The only error type of the crate. An error consists of a private kind, a message, and predicates
//! that show how a caller can respond.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidegate_operators::driver::Stopped;
use tidegate_operators::rows::JoinError;
use tidegate_structures::memory::OutOfMemory;

/// An error that is described in one sentence: the column, the row, the actual value and the
/// expected value.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// The error that a user-defined function returned.
    cause: Option<Arc<Cause>>,
}

/// Any error type from outside the crate.
type Cause = dyn Any + Send + Sync;

/// Errors with the same message are equal, regardless of their causes.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.message) == (other.kind, &other.message)
    }
}

impl Eq for Error {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorKind {
    Argument,
    Schema,
    Order,
    Memory,
    State,
    Closed,
    Data,
    Stopped,
    Bug,
}

/// Shortens a caller's text for quotation in a message. The beginning is enough to recognize the
/// text.
pub fn shown(text: &str) -> Cow<'_, str> {
    shown_up_to(text, 80)
}

/// Returns the first `most` characters of a string, followed by an ellipsis if there are more.
pub(crate) fn shown_up_to(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $new:ident, $is:ident, $kind:ident;)*) => {
        impl Error {
            $(
                $(#[$doc])*
                #[cold]
                pub fn $new(message: impl Into<String>) -> Self {
                    Error { kind: ErrorKind::$kind, message: message.into(), cause: None }
                }

                /// Returns whether the constructor with this name creates errors of this kind.
                pub fn $is(&self) -> bool {
                    self.kind == ErrorKind::$kind
                }
            )*
        }
    };
}

kinds! {
    /// An argument that is invalid regardless of the data, such as `lower > upper` or an unknown
    /// `how`.
    argument, is_argument, Argument;
    /// A column that is missing, duplicated, or of an unsuitable type.
    schema, is_schema, Schema;
    /// Rows that violate a promised order.
    order, is_order, Order;
    /// A limit (`max_rows` or `memory_limit`) that was reached before memory was allocated, or
    /// insufficient system memory.
    memory, is_memory, Memory;
    /// A snapshot that cannot be restored.
    state, is_state, State;
    /// A handle that was used after it was closed.
    closed, is_closed, Closed;
    /// A value that cannot be used, such as a null time, malformed Arrow data, or an overflow in an
    /// expression.
    data, is_data, Data;
    /// A request by the caller to stop the work.
    stopped, is_stopped, Stopped;
    /// A broken invariant of this crate.
    bug, is_bug, Bug;
}

impl Error {
    /// Converts a panic to an error.
    pub fn from_panic(panic: &(dyn Any + Send)) -> Self {
        if let Some(refused) = panic.downcast_ref::<OutOfMemory>() {
            return (*refused).into();
        }
        let text = panic.downcast_ref::<&str>().copied();
        let text = text
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        Error::bug(format!(
            "this is a bug in tidegate; please report it with the data that shows it: {text}"
        ))
    }

    /// Returns the result of `work`. If `work` panics, returns an error instead.
    pub(crate) fn catch<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
        Self::catch_unwound(work).unwrap_or_else(Err)
    }

    /// Returns the result of `work`, which can itself be an error. If `work` panics, returns an
    /// error instead. After a panic, the work may be incomplete.
    pub(crate) fn catch_unwound<T>(work: impl FnOnce() -> Result<T>) -> Result<Result<T>> {
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Error::from_panic(&*panic))
    }

    /// Adds a note that the error stopped an operator in the middle of its work.
    pub(crate) fn of_operator(self) -> Self {
        self.with(
            "; the operator failed while it was processing rows and cannot continue; create a new \
             one, and restore a snapshot into it",
        )
    }

    /// Returns the same error with `text` appended to its message.
    pub(crate) fn with(self, text: &str) -> Self {
        Error { message: format!("{}{text}", self.message), ..self }
    }

    /// Returns the same error with `place` at the beginning of its message.
    pub(crate) fn within(self, place: &str) -> Self {
        Error { message: format!("{place}: {}", self.message), ..self }
    }

    /// If the message begins with the argument `named`, replaces that name with `argument`.
    pub fn of_argument(self, named: &str, argument: &str) -> Self {
        match self.message.strip_prefix(named) {
            None => self,
            Some(rest) => Error { message: format!("{argument}{rest}"), ..self },
        }
    }

    /// Returns the same error with an error from a user-defined function as its cause.
    pub fn caused_by(self, cause: impl Any + Send + Sync) -> Self {
        Error { cause: Some(Arc::new(cause)), ..self }
    }

    /// Returns the error from a user-defined function that caused this one, if any.
    pub fn cause(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.cause.as_deref()
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl std::error::Error for Error {}

impl From<Stopped> for Error {
    fn from(_: Stopped) -> Self {
        Error::stopped("the work was asked to stop")
    }
}

impl From<JoinError> for Error {
    fn from(failed: JoinError) -> Self {
        match failed {
            JoinError::Stopped(stopped) => stopped.into(),
            JoinError::Filter(error) => match error.downcast() {
                Ok(error) => *error,
                Err(other) => Error::argument(format!("where: {other}")),
            },
        }
    }
}

impl From<OutOfMemory> for Error {
    fn from(refused: OutOfMemory) -> Self {
        Error::memory(format!(
            "{refused}; allow the process more memory, use fewer rows or columns, or read the \
             result in batches"
        ))
    }
}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        match error {
            arrow_schema::ArrowError::MemoryError(text) => {
                Error::memory(format!("there is no memory: {text}"))
            }
            arrow_schema::ArrowError::DictionaryKeyOverflowError => Error::schema(
                "the rows of one batch have more dictionary values than the indices can \
                 distinguish; cast the column to a dictionary with int32 indices, or to its \
                 values, first",
            ),
            arrow_schema::ArrowError::OffsetOverflowError(_) => Error::schema(
                "one batch has more than 2 GiB of strings or lists in a column; cast the column to \
                 large_string or large_list first",
            ),
            error => Error::data(error.to_string()),
        }
    }
}
