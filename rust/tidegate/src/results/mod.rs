//! Arrow out: the rows of a result, gathered from the inputs.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `gather/` | result columns from row numbers |
//! | `interleave.rs` | rows of many batches |

pub(crate) mod gather;
pub(crate) mod interleave;

use arrow_array::RecordBatch;

/// The outcome of a read within a time limit.
#[derive(Debug)]
pub enum Next {
    /// The next batch.
    Batch(RecordBatch),
    /// No batch is left.
    End,
    /// No batch was ready in time.
    NotYet,
}
