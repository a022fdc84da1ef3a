//! Code shared by aggregations of tables and of streams. This code combines the rows from all
//! inputs into one table, and builds keys, values and results.
//!
//! ```text
//! inputs ──streams.rs──▶ one table, sources in order ──groups.rs──▶ keys as ranks
//!                         │                                          │
//!                         └──columns.rs──▶ plain numbers, masks ─────┴─operators─▶ pages ──output.rs──▶
//! ```
//!
//! `numbers.rs` converts Arrow arrays to plain numbers. `values.rs` builds arrays from the values of
//! functions. `fill.rs` adds windows without rows.

pub(crate) mod columns;
pub(crate) mod fill;
pub(crate) mod groups;
mod numbers;
pub(crate) mod output;
pub(crate) mod streams;
pub(crate) mod values;
