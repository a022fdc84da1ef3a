//! Takes over Arrow data through Arrow's C interfaces, once its structures have been checked.
//!
//! arrow-rs believes the C structures: a negative length or a null pointer makes it panic or read
//! foreign memory. So every structure is checked first, with integers alone, and arrow-rs reads a
//! copy of the structures that holds only what was checked. The producer's memory itself cannot be
//! checked: the C interfaces carry no lengths of buffers, so a pointer to a buffer, and the last
//! offset of a string column, are taken at their word.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `schema.rs` | checks a schema |
//! | `array.rs` | checks an array, into a copy that arrow-rs reads; `array/buffers.rs` its buffers |
//! | `stream.rs` | record batches one by one |
//! | `node.rs` | where in nested data that is, for messages |

mod array;
mod error;
mod node;
mod schema;
mod stream;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
pub use arrow_array::ffi_stream::FFI_ArrowArrayStream;

pub use crate::array::batch;
pub use crate::error::{Error, Result};
pub use crate::schema::schema;
pub use crate::stream::{Stream, Unopened};

/// What `work` gives; a panic with a text becomes an error, for arrow-rs panics over data that it
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
