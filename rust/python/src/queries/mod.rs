//! The queries: one file has the functions of a kind over tables, and its class of operator, since
//! both take the same arguments.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `plan.rs` | the columns that a query reads, and the columns of its result |
//! | `tables.rs` | joins of tables, once their arguments have been read |
//! | `bounded.rs` | calls with a `memory_limit`, whose batches `tidegate.bounded` makes |
//! | `join.rs` | the options that all joins have, and the macros that declare them |
//! | `interval_join.rs`, `window_join.rs`, `band_join.rs`, `asof_join.rs` | the functions and the class of a join |
//! | `overlap_join.rs` | the functions of a join of tables |
//! | `merge.rs` | the functions of `merge`, and the classes `Merge` and `MergeReader` |
//! | `aggregate.rs` | the functions of `aggregate`, and the class `Aggregate` |

pub(crate) mod aggregate;
pub(crate) mod asof_join;
pub(crate) mod band_join;
pub(crate) mod bounded;
pub(crate) mod interval_join;
pub(crate) mod join;
pub(crate) mod merge;
pub(crate) mod overlap_join;
pub(crate) mod plan;
pub(crate) mod tables;
pub(crate) mod window_join;
