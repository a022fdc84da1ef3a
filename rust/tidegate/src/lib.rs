//! Deterministic, multicore joins of event streams, Arrow in and Arrow out.
//!
//! This crate is the boundary to Arrow: it brings columns into the plain form that
//! [`tidegate_operators`] joins, and gathers the rows of the result.
//!
//! ```text
//!                    ┌─▶ batch  ─▶┐
//! columns ─▶ query ──┤            ├──▶ results
//! (Arrow in)         └─▶ stream ─▶┘   (Arrow out)
//! ```

#![forbid(unsafe_code)]

mod aggregate;
mod background;
mod batch;
pub mod columns;
mod error;
pub mod query;
mod results;
pub mod stream;

pub use background::{in_background, in_background_of};
pub use batch::batches::Batches;
pub use batch::join::{Join, Stats};
pub use columns::distance::{Distance, Within};
pub use columns::duration::parse_duration;
pub use columns::table::Table;
pub use columns::time::Bound;
pub use error::{Error, Result};
pub use query::band::{BandAlgorithm, BandJoin, Sliding};
pub use query::interval::IntervalJoin;
pub use query::options::JoinOptions;
pub use query::window::{Algorithm, Window, WindowJoin};
pub use results::Next;
pub use tidegate_operators::band::index::IndexKind;
pub use tidegate_operators::driver::{Driver, MAX_THREADS, default_threads};
pub use tidegate_operators::rows::{Closed, How};
pub use tidegate_structures::memory::Allocator;
pub use tidegate_sync::Stop;
