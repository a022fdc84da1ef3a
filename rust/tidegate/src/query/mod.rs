//! What is asked: which columns are read, which rows match, what the result is called. Nothing here
//! runs.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `interval.rs`, `window/`, `band/` | the joins, with their algorithms by name |
//! | `options.rs` | what any join may be asked for |
//! | `aggregate/` | the aggregation: its functions, also those that users bring, and its plan |
//! | `output.rs` | names and types of the result |
//! | `plan.rs` | the plan of a join, as Python sees it |

pub mod aggregate;
pub(crate) mod band;
pub(crate) mod interval;
pub(crate) mod options;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod window;
