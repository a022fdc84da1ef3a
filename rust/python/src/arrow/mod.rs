//! Arrow data between Python and the crate `tidegate`, in both directions.
//!
//! The way in comes last: a reader of one call may be an input of the next, and is then read as it
//! is, without Arrow's interfaces between.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `capsule.rs` | pointers out of Arrow capsules, to `tidegate-import` |
//! | `frames.rs` | short pandas frames, column by column |
//! | `export.rs` | objects of pyarrow; streams for any consumer |
//! | `reader.rs` | a result as record batches |
//! | `import.rs` | imports Arrow data: reads it without the GIL, and checks it |
//! | `iterated.rs` | a reader whose batches an object of Python makes |

pub(crate) mod capsule;
pub(crate) mod export;
pub(crate) mod frames;
pub(crate) mod import;
pub(crate) mod iterated;
pub(crate) mod reader;
