//! Aggregates over sliding windows of rows that come epoch by epoch.
//!
//! ```text
//!             ┌ open: per source and key ┐   ┌ kept: per slice and key ┐
//! rows ──add──▶ partials of slices that  ──▶ cells of the slices that  ──▶ suffixes and prefixes ──▶ pages
//!             └ may get more rows        ┘   └ later windows have      ┘
//! ```
//!
//! The steps, and the order in which floats are added, are the same as in [`super::aggregate`] for
//! whole tables. But states are kept from one epoch to the next. So the results have the same bits,
//! wherever epochs are cut.
//!
//! 1. *Open* (`folds/epochs/open.rs`): the partial of each row, by source, slice and key. Sources
//!    are numbered side by side.
//! 2. *Add* (`add.rs` and `lane.rs` beside it): rows are added to the states of partials: each
//!    function and source is a thread's work.
//! 3. *Close*: once no row of a slice can come, the partials of all sources are combined to its
//!    cells.
//! 4. *Slide* (`position.rs`): cells become suffixes and prefixes of windows, function by function.
//!
//! Another way from rows to partials can stand in for the first two steps (`folds/epochs/epoch.rs`).
//!
//! # Trade-offs
//!
//! Beside a state for each partial and for each cell of two windows' slices, there are 4 bytes for
//! each source and key. A source that is alone is numbered by one thread.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `windows.rs` | windows of rows that come, whichever windows they are |
//! | `aggregate.rs` | windows of time |
//! | `position.rs` | which windows come next, and their steps |
//! | `sessions.rs` | windows that rows keep open |
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
