//! Arrow output: the result rows, which are gathered from the inputs.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `gather/` | result columns from row numbers |
//! | `interleave.rs` | gathers rows of many batches |
//! | `weave.rs` | combines the rows of several sources in merged order |

pub(crate) mod gather;
pub(crate) mod interleave;
pub(crate) mod weave;

use arrow_array::RecordBatch;

/// The outcome of a read with a time limit.
#[derive(Debug)]
pub enum Next {
    /// The next batch.
    Batch(RecordBatch),
    /// No batch is left.
    End,
    /// No batch became available in time.
    NotYet,
}
