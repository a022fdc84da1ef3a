//! tidegate's operators, which work on plain columns of times, dense keys and row numbers. This
//! crate does not depend on Arrow or Python.
//!
//! A join of tables takes a column of times and a column of keys for each side. The join returns
//! the numbers of the matching rows. A streaming join takes the same columns, epoch by epoch. An
//! aggregation takes times, keys and values, and returns values.
//!
//! ```text
//!  left  times, keys ──▶ ┌──────────┐
//!                        │ interval │    matches:         pairs of
//!                        │ window   │──▶ a run of right ──▶ row numbers
//!                        │ band     │    rows per left row
//!                        │ as-of    │
//!  right times, keys ──▶ └──────────┘
//! ```
//!
//! ```
//! use std::sync::Arc;
//!
//! use tidegate_operators::driver::Driver;
//! use tidegate_operators::interval::interval_join;
//! use tidegate_operators::matches::Output;
//! use tidegate_operators::order::JoinColumns;
//! use tidegate_operators::rows::{Closed, How, Interval};
//! use tidegate_sync::Stop;
//!
//! let driver = Driver::new(2, Stop::default());
//! let trades = JoinColumns { ts: &[10, 20, 30], keys: Some(&[0, 1, 0]) };
//! let quotes = JoinColumns { ts: &[8, 19, 29], keys: Some(&[0, 0, 0]) };
//! let before = Interval { lower: Some(-2), upper: Some(0), closed: Closed::Both };
//!
//! let matches = Arc::new(interval_join(trades, quotes, 2, &before, &driver)?);
//! let pairs = Output::new(matches, How::Inner, &driver)?;
//! pairs.list(0..pairs.rows(), |pairs| {
//!     assert_eq!(pairs.left(), [0, 2]);
//!     assert_eq!(pairs.right(), [0, 2]);
//! });
//! # Ok::<(), tidegate_operators::driver::Stopped>(())
//! ```
//!
//! `examples/join_vectors.rs` contains this example as a program.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![forbid(unsafe_code)]

pub mod aggregate;
pub mod asof;
pub mod band;
pub mod driver;
pub mod eager;
pub mod interval;
pub mod matches;
pub mod order;
pub mod overlap;
pub mod predicate;
pub mod rows;
mod selectivity;
pub mod window;
