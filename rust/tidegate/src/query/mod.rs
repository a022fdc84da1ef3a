//! Queries, which specify the columns to read, the rows that match, and the column names in the
//! result. This module does not run queries.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `interval.rs`, `asof.rs`, `window/`, `band/`, `overlap.rs` | the joins, with their algorithms by name |
//! | `lookups.rs` | as-of joins that look up several right rows per left row |
//! | `published.rs` | algorithms from papers, by name |
//! | `options.rs` | the options that all joins have |
//! | `aggregate/` | the aggregation: its functions, including user-defined ones, and its plan |
//! | `partners.rs` | aggregates of each left row's partners in a join |
//! | `function_intervals.rs` | the intervals of functions that aggregate partners |
//! | `rolling.rs` | the window of each row in a table |
//! | `output.rs` | the names and types of the result's columns |
//! | `plan.rs` | the columns that a query reads and returns, as seen from Python |
//! | `result_windows.rs` | the windows of an aggregation, as seen from Python |
//! | `identity.rs` | the text that identifies a query's results, as stored in snapshots |

pub mod aggregate;
pub(crate) mod asof;
pub(crate) mod band;
pub(crate) mod function_intervals;
pub(crate) mod identity;
pub(crate) mod interval;
pub(crate) mod lookups;
pub(crate) mod options;
pub(crate) mod output;
pub(crate) mod overlap;
pub(crate) mod partners;
pub(crate) mod plan;
pub(crate) mod published;
pub(crate) mod result_windows;
pub(crate) mod rolling;
pub(crate) mod window;
