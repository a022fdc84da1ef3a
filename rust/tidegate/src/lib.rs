//! Deterministic, multicore joins of event streams, Arrow in and Arrow out.
//!
//! This crate is the boundary to Arrow: it brings columns into the plain form that [`tidegate_operators`] joins, and
//! gathers the rows of the result.

#![forbid(unsafe_code)]

pub mod aggregate;
mod background;
mod band_join;
mod batches;
mod condition;
mod duration;
mod error;
pub mod expression;
mod gather;
pub mod incremental;
mod interleave;
mod interval_join;
mod join;
mod keys;
mod schema;
mod table;
mod time;
mod window_join;

pub use background::{in_background, in_background_of};
pub use band_join::{BandAlgorithm, BandJoin, Distance, Sliding, Within};
pub use batches::{Batches, Next};
pub use duration::parse_duration;
pub use error::{Error, Result};
pub use interval_join::IntervalJoin;
pub use join::{Join, JoinOptions, Stats};
pub use table::Table;
pub use tidegate_operators::band::index::IndexKind;
pub use tidegate_operators::driver::{Driver, MAX_THREADS, default_threads};
pub use tidegate_operators::rows::{Closed, How};
pub use tidegate_structures::memory::Allocator;
pub use tidegate_sync::Stop;
pub use time::Bound;
pub use window_join::{Algorithm, Window, WindowJoin};
