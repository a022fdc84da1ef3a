//! Passes Arrow data between Python and the crate `tidegate`, in both directions.
//!
//! `import.rs` depends on `reader.rs`, because a reader returned by one call can be an input to the
//! next. A reader that this package returned is read directly, without going through Arrow's
//! interfaces.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `capsule.rs` | extracts pointers from Arrow capsules for `tidegate-import` |
//! | `frames.rs` | converts short pandas frames, column by column |
//! | `export.rs` | exports pyarrow objects, and streams for any consumer |
//! | `reader.rs` | a result as record batches |
//! | `import.rs` | imports Arrow data: reads it without the GIL, and checks it |
//! | `iterated.rs` | a reader of batches that a Python object produces |

pub(crate) mod capsule;
pub(crate) mod export;
pub(crate) mod frames;
pub(crate) mod import;
pub(crate) mod iterated;
pub(crate) mod reader;
