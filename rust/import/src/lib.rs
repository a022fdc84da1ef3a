//! Imports Arrow data through Arrow's C interfaces, after checking the structures.
//!
//! Programs that receive Arrow data from untrusted code should read it through this crate. The
//! arrow-rs crates trust the C structures. A negative length or a null pointer makes the crates
//! panic or read out of bounds. So this crate first checks every structure, using only integer
//! operations. Afterwards, arrow-rs reads a copy that contains only checked values. The producer's
//! memory itself cannot be checked, because the C interfaces do not include the lengths of buffers.
//! Buffer pointers and the last offset of a string column are therefore trusted.
//!
//! ```text
//!  producer ──▶ C structures ──▶ checked ──▶ a copy ──▶ arrow-rs ──▶ RecordBatch
//!               (stream, schema,    │
//!                array)             └──▶ Error: the column, and what is wrong with it
//! ```
//!
//! A stream is taken over from its producer, opened, and then read batch by batch:
//!
//! ```
//! use std::ptr::NonNull;
//! use std::sync::Arc;
//!
//! use arrow_array::{Int64Array, RecordBatch, RecordBatchIterator};
//! use tidegate_import::{FFI_ArrowArrayStream, UnopenedStream};
//!
//! let column = Arc::new(Int64Array::from(vec![10, 20, 30])) as _;
//! let rows = RecordBatch::try_from_iter([("ts", column)])?;
//! let batches = RecordBatchIterator::new([Ok(rows.clone())], rows.schema());
//! let mut exported = FFI_ArrowArrayStream::new(Box::new(batches));
//!
//! // SAFETY: arrow-rs exported the stream, and nothing else uses it.
//! let mut stream = unsafe { UnopenedStream::take(NonNull::from(&mut exported)) }?.open()?;
//! assert_eq!(stream.next_batch()?, Some(rows));
//! assert_eq!(stream.next_batch()?, None);
//!
//! // The structure is empty now, so a second consumer gets an error.
//! // SAFETY: as above.
//! let again = unsafe { UnopenedStream::take(NonNull::from(&mut exported)) };
//! assert!(again.unwrap_err().to_string().contains("already been consumed"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `schema.rs` | checks a schema |
//! | `array.rs` | checks and copies an array for arrow-rs; `array/buffers.rs` handles its buffers |
//! | `stream.rs` | reads record batches one by one |
//! | `node.rs` | the path of a column in nested data, for messages |

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod array;
mod error;
mod node;
mod schema;
mod stream;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
pub use arrow_array::ffi_stream::FFI_ArrowArrayStream;

pub use crate::array::{UnreadBatch, release_through};
pub use crate::error::{Error, Result, What};
pub use crate::schema::schema;
pub use crate::stream::{ArrowStream, UnopenedStream};

/// Runs `work`. A panic with a message becomes an error, because arrow-rs panics on data that it
/// does not understand.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        match text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)) {
            Some(text) => Err(Error::malformed(None, format!("arrow-rs cannot read it: {text}"))),
            None => resume_unwind(panic),
        }
    })
}
