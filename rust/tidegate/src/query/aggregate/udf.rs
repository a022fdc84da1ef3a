//! Functions of one's own that are given all values of a window.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::Result;

/// A function of the values of windows. It is called for many windows at once, with a list column
/// for each column that it is of, and returns a value for each window.
///
/// It is called from any thread, and from several at once. A window without rows has no call: its
/// value is null.
#[derive(Clone)]
pub struct Udf {
    /// The type of its results.
    pub returns: DataType,
    /// The function.
    pub call: Arc<Call>,
}

/// A function of list columns, which have the names of the columns that they are of.
type Call = dyn Fn(RecordBatch) -> Result<ArrayRef> + Send + Sync;

impl fmt::Debug for Udf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Udf").field("returns", &self.returns).finish_non_exhaustive()
    }
}
