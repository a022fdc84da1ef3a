//! Aggregations of tables and of streams share this part. It makes one table of the rows of all
//! inputs, keys, values, and results.
//!
//! ```text
//! inputs ──streams.rs──▶ one table, sources in order ──groups.rs──▶ keys as ranks
//!                         │                                          │
//!                         └──columns.rs──▶ plain numbers, masks ─────┴─operators─▶ pages ──output.rs──▶
//! ```
//!
//! `values.rs` makes arrays of the values of functions.

pub(crate) mod columns;
pub(crate) mod groups;
pub(crate) mod output;
pub(crate) mod streams;
pub(crate) mod values;
