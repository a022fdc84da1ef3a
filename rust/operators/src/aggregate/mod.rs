//! Aggregates many sorted streams by key, over sliding windows.
//!
//! 1. *Cells* (`folds/tables/cells.rs`): time is divided into slices that all windows share
//!    ([`Windows`]). The rows of one key in one slice form a cell. The sources are not merged: each
//!    source has its own partials. The partials of different sources are first combined in the
//!    cells. If there are few keys, cells are addressed directly by key (`dense.rs` in the same
//!    folder).
//! 2. *Fold* (`folds/tables/add.rs`): for each function, rows are added to partials, and partials
//!    are combined into cells in source order. One part is processed at a time, so that its cell
//!    numbers stay in a cache.
//! 3. *Slide* (`folds/tables/slide.rs`): cells are combined into windows, with one combination per
//!    result.
//!
//! Each function reads a row only once, regardless of how many windows contain the row. The work is
//! O(rows + results). Each stage is divided by time, and each piece of its output is written by a
//! single thread.
//!
//! Floating-point results do not depend on the number of threads or on how the work is divided.
//! Within a slice, each source's rows are added in time order. Partials are combined in source
//! order. Slice numbers determine the order in which slices are combined.
//!
//! # Trade-offs
//!
//! In addition to its inputs, the operator stores one state per function and cell (4 to 24 bytes).
//! A single thread processes all rows of a slice. If there are fewer slices than threads, some
//! threads stay idle.
//!
//! The operator is described, for streams that have ended, in section 2 of Cederman, Gulisano,
//! Nikolakopoulos, Papatriantafilou and Tsigas, "Efficient data streaming multiway aggregation
//! through concurrent algorithmic designs and new abstract data types". The idea of adding a row to
//! one slice, and not to each of its windows, is from Li, Maier, Tufte, Papadimos and Tucker, "No
//! pane, no gain" (2005). The slices are the paired windows of Krishnamurthy, Wu and Franklin,
//! "On-the-fly sharing for streamed aggregation" (2006).
//!
//! # Modules
//!
//! The modules are listed from the bottom up. Each module uses only those above it.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `held.rs` | values that hold until the next row |
//! | `output.rs` | pages of results |
//! | `states/` | the functions as states that can be combined; their states as words |
//! | `inputs/` | the rows of sources, and the values that they add |
//! | `slices/` | slices of time: rows by slice and key, and the steps from window to window |
//! | `folds/` | how one function processes tables, epochs, and partners |
//! | `catalog/` | the functions by name; only this module defines the kind of an [`Aggregate`] |
//! | `tables.rs` | windows of whole tables |
//! | `sessions.rs` | sessions of whole tables, which stay open as long as rows extend them |
//! | `streaming/` | windows and sessions of rows that arrive epoch by epoch |
//! | `partners/` | functions over a row's partners in a join |
//! | `all_values/` | functions that need all values of a window, or of a row's partners |
//!
//! ARCHITECTURE.md lists the steps for adding a function. Once the function's state, its fold over
//! partners and its inputs are defined, all folds and all other ways to add rows
//! (`folds/epochs/epoch.rs`) support the function.

mod all_values;
mod catalog;
mod folds;
mod held;
mod inputs;
mod output;
mod partners;
mod sessions;
mod slices;
mod states;
mod streaming;
mod tables;

pub use all_values::{
    AllValues, Interpolation, PartnerValues, Quantile, RowList, WindowRows, WindowValues,
    all_values_of_matches, float_of, order_of,
};
pub use catalog::aggregate::Aggregate;
pub use catalog::user::{UserAggregate, UserFunction};
pub use folds::epochs::epoch::{AddEpoch, Adder, Epoch};
pub use folds::epochs::open::{OpenPartials, SlicePartials};
pub use held::HeldValues;
pub use inputs::columns::{Column, ColumnPairs, Mask, NumberColumns, Stream, first_rows};
pub use output::{OutputColumn, OutputValue, OutputValues, Page, Window};
pub use partners::{FoldedInterval, PartnerAggregates, aggregate_matches, fold_intervals};
pub use sessions::{SessionGaps, aggregate_sessions};
pub use slices::calendar::{Calendar, CalendarUnit, ZoneOffsets};
pub use slices::panes::WindowStep;
pub use slices::windows::{Slice, Windows};
pub use states::functions::RowOrder;
pub use states::words::{MAX_WORDS, STATE_WORDS, StateBounds, StateWords};
pub use streaming::{
    KeyOrder, StreamingAggregate, StreamingSessions, StreamingWindows, WindowsState,
};
pub use tables::aggregate;
