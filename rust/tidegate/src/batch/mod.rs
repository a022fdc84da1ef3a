//! Joins and aggregates whole tables: from a query and its tables to the batches of the result.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `join.rs` | the steps that all joins of tables share, from matches to record batches |
//! | `pairs.rs` | the pairs of a join, page by page |
//! | `interval.rs`, `asof.rs`, `window.rs`, `band/`, `overlap.rs` | find the pairs of each join |
//! | `lookups.rs` | the result rows of as-of joins with several lookups per left row |
//! | `index.rs` | tables whose rows have been prepared for many joins |
//! | `row_ends.rs` | the pairs of interval joins whose ends differ from row to row |
//! | `listed_windows.rs` | windows that are listed in a table |
//! | `row_windows.rs` | row-based windows |
//! | `sides.rs` | the times and keys of two tables |
//! | `sliding.rs` | the pairs of a window join, found by algorithms for sliding windows |
//! | `partners.rs` | aggregates of each left row's partners |
//! | `rolling.rs` | the rows in rolling windows |
//! | `computed.rs` | columns that are computed before a query runs |
//! | `condition.rs` | the `where` in a join of tables |
//! | `aggregate.rs` | aggregates of tables |
//! | `batches.rs` | the batches of a result, which are built before the reader requests them |

pub(crate) mod aggregate;
pub(crate) mod asof;
mod band;
pub(crate) mod batches;
pub(crate) mod computed;
mod condition;
pub(crate) mod index;
mod interval;
pub(crate) mod join;
mod listed_windows;
mod lookups;
mod overlap;
mod pairs;
mod partners;
pub(crate) mod rolling;
mod row_ends;
pub(crate) mod row_windows;
mod sides;
mod sliding;
mod window;
