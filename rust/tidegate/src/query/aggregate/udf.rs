//! User-defined functions that receive all values of a window.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::Result;

/// A function applied to the values in windows. Each call covers many windows: the function
/// receives one list column per input column and returns one value per window.
///
/// The function can be called from any thread, and from several threads at the same time. The
/// function is not called for windows without rows; the value of such a window is null.
#[derive(Clone)]
pub struct Udf {
    /// The type of its results.
    pub returns: DataType,
    /// The function.
    pub call: Arc<Call>,
}

/// A function that takes list columns named after its input columns.
type Call = dyn Fn(RecordBatch) -> Result<ArrayRef> + Send + Sync;

impl fmt::Debug for Udf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Udf").field("returns", &self.returns).finish_non_exhaustive()
    }
}
