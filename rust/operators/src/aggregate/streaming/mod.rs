//! Aggregates over sliding windows of rows that arrive epoch by epoch.
//!
//! ```text
//!             ┌ open: per source and key ┐   ┌ kept: per slice and key ┐
//! rows ──add──▶ partials of slices that  ──▶ cells of the slices that  ──▶ suffixes and prefixes ──▶ pages
//!             └ may get more rows        ┘   └ later windows need      ┘
//! ```
//!
//! The steps, and the order in which floats are added, are the same as for whole tables in
//! [`super::aggregate`]. However, states are kept from one epoch to the next. The results are
//! therefore bit-identical, no matter where one epoch ends and the next begins.
//!
//! 1. *Open* (`folds/epochs/open.rs`): finds the partial of each row by source, slice and key. The
//!    rows from different sources are numbered in parallel.
//! 2. *Add* (`add.rs` and `lane.rs` in the same folder): adds rows to the states of partials. Each
//!    combination of a function and a source is one task.
//! 3. *Close*: once no more rows in a slice can arrive, combines the partials of all sources into
//!    the cells of the slice.
//! 4. *Slide* (`position.rs`): turns cells into suffixes and prefixes of windows, function by
//!    function.
//!
//! The first two steps can be replaced by another way of turning rows into partials
//! (`folds/epochs/epoch.rs`).
//!
//! # Trade-offs
//!
//! The aggregate holds one state per partial, and one per cell in the slices of two windows. The
//! aggregate also holds 4 bytes per source and key. If there is only one source, its rows are
//! numbered by a single thread.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `windows.rs` | the trait that all streaming windows implement |
//! | `aggregate.rs` | time-based windows |
//! | `position.rs` | the next windows, and the steps to compute them |
//! | `sessions.rs` | session windows, which stay open as long as rows extend them |
//! | `saved.rs` | the state as plain numbers |

mod aggregate;
mod position;
mod saved;
mod sessions;
mod windows;

pub use aggregate::StreamingAggregate;
pub use saved::WindowsState;
pub use sessions::StreamingSessions;
pub use windows::{KeyOrder, StreamingWindows};
