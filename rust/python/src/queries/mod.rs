//! The queries. Each kind of query is in the same file as its operator class, because the two take
//! the same arguments.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `plan.rs` | the columns that a query reads, and the columns of its result |
//! | `tables.rs` | joins of tables, once their arguments have been read |
//! | `query.rs` | the class `JoinQuery` |
//! | `join.rs` | the options that all joins accept, and the macros that declare them |
//! | `interval_join.rs`, `window_join.rs`, `band_join.rs`, `asof_join.rs` | the query and the class of a join |
//! | `overlap_join.rs` | the query for a join of tables |
//! | `rolling.rs` | the query and the class for rolling windows |
//! | `merge.rs` | the functions of `merge`, and the classes `Merge` and `MergeReader` |
//! | `aggregate.rs` | the classes `AggregationQuery` and `Aggregate` |

pub(crate) mod aggregate;
pub(crate) mod asof_join;
pub(crate) mod band_join;
pub(crate) mod interval_join;
pub(crate) mod join;
pub(crate) mod merge;
pub(crate) mod overlap_join;
pub(crate) mod plan;
pub(crate) mod query;
pub(crate) mod rolling;
pub(crate) mod tables;
pub(crate) mod window_join;
