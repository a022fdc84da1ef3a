//! What is asked: which columns are read, which rows match, what the result is called. Nothing here
//! runs.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `interval.rs`, `window/`, `band/` | the joins, with their algorithms by name |
//! | `published.rs` | the algorithms that papers have published |
//! | `options.rs` | what any join may be asked for |
//! | `aggregate/` | the aggregation: its functions, also those that users bring, and its plan |
//! | `output.rs` | names and types of the result |
//! | `plan.rs` | what a query reads and gives, as Python sees it |
//! | `identity.rs` | what decides its results, as text that snapshots keep |

pub mod aggregate;
pub(crate) mod band;
pub(crate) mod identity;
pub(crate) mod interval;
pub(crate) mod options;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod published;
pub(crate) mod window;
