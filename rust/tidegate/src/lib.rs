//! Deterministic, multicore joins of event streams, with Arrow data as input and output.
//!
//! This crate connects [`tidegate_operators`] to Arrow. Columns are converted to the plain form
//! that the operators join, and the result rows are gathered.
//!
//! ```text
//!                    ┌─▶ batch  ─▶┐
//! columns ─▶ query ──┤            ├──▶ results
//! (Arrow in)         └─▶ stream ─▶┘   (Arrow out)
//! ```
//!
//! For example, this joins two Arrow tables:
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{Int64Array, RecordBatch};
//! use tidegate::{Bound, Closed, Driver, How, IntervalJoin, JoinOptions, Stop, Table};
//!
//! let rows = |ts: Vec<i64>| RecordBatch::try_from_iter([("ts", Arc::new(Int64Array::from(ts)) as _)]);
//! let driver = Driver::new(2, Stop::default());
//! let table = |name: &str, rows: RecordBatch| {
//!     Table::new(name.to_owned(), rows.schema(), vec![rows], &driver)
//! };
//! let left = table("left", rows(vec![10, 20, 30])?)?;
//! let right = table("right", rows(vec![8, 19, 29])?)?;
//! let join = IntervalJoin {
//!     on: ("ts".to_owned(), "ts".to_owned()),
//!     lower: Some(Bound::Steps(-2).into()),
//!     upper: Some(Bound::Steps(0).into()),
//!     closed: Closed::Both,
//!     open_ends: false,
//!     limit: None,
//!     options: JoinOptions {
//!         by: Vec::new(),
//!         predicate: None,
//!         how: How::Inner,
//!         suffix: "_right".to_owned(),
//!         columns: None,
//!         threads: 2,
//!         max_rows: None,
//!         batch_rows: None,
//!     },
//! };
//! let pairs = join.start(&left, &right, Stop::default())?.read_all()?;
//! assert_eq!(pairs.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/streaming_join.rs` joins batches as they arrive and resumes from a snapshot.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

mod aggregate;
mod background;
mod batch;
pub mod columns;
mod digest;
mod error;
pub mod query;
mod results;
pub mod stream;

pub use background::{check_call, in_background, in_background_of, prepare_thread};
pub use batch::batches::Batches;
pub use batch::computed::computed;
pub use batch::join::{Join, JoinStats};
pub use columns::distance::{Distance, Within};
pub use columns::duration::{CalendarLength, parse_duration};
pub use columns::fit::Extra;
pub use columns::index::open_index;
pub use columns::metadata::without_index;
pub use columns::roomy::with_room;
pub use columns::row_ends::End;
pub use columns::table::Table;
pub use columns::time::{Bound, Length, instants_of};
pub use columns::type_name::{TypeName, with_type_names};
pub use digest::Digest;
pub use error::{Error, Result, shown};
pub use query::asof::AsofJoin;
pub use query::band::{BandAlgorithm, BandJoin, Sliding};
pub use query::interval::{IntervalJoin, PairLimit};
pub use query::lookups::{Lookups, Offset};
pub use query::options::JoinOptions;
pub use query::overlap::OverlapJoin;
pub use query::partners::{PartnerAggregation, PartnerJoin};
pub use query::plan::{AggregationPlan, Difference, QueryPlan, Reach};
pub use query::published::{IndexKind, MergeOptions, TaskIndex, TaskOptions};
pub use query::result_windows::ResultWindows;
pub use query::rolling::{RollingSize, RollingWindows};
pub use query::window::{Algorithm, Window, WindowJoin};
pub use results::Next;
pub use tidegate_operators::asof::{Preference, Strategy};
pub use tidegate_operators::driver::{
    Driver, MAX_THREADS, WorkOf, default_threads, is_in_pool, with_threads,
};
pub use tidegate_operators::rows::{Closed, How};
pub use tidegate_structures::instructions::{Instructions, chosen as chosen_instructions};
#[cfg(debug_assertions)]
pub use tidegate_structures::memory::refusal;
pub use tidegate_structures::memory::{
    Allocator, keep_at_most as keep_memory_at_most, release as release_memory,
};
pub use tidegate_sync::{Door, Latest, Stop};
