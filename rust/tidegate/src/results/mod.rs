//! Arrow output: the rows of a result, gathered from the inputs.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `gather/` | result columns from row numbers |
//! | `interleave.rs` | rows of many batches, at any places |
//! | `weave.rs` | rows of sources in merged order, each source's in its own |

pub(crate) mod gather;
pub(crate) mod interleave;
pub(crate) mod weave;

use arrow_array::RecordBatch;

/// The outcome of a read within a time limit.
#[derive(Debug)]
pub enum Next {
    /// The next batch.
    Batch(RecordBatch),
    /// No batch is left.
    End,
    /// No batch was available in time.
    NotYet,
}
