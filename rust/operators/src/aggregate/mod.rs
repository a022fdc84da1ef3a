//! Aggregates of many sorted streams by key over sliding windows.
//!
//! 1. *Cells* (`folds/tables/cells.rs`): time is cut into slices that all windows share
//!    ([`Windows`]), and the rows of one key in one slice are a cell. The sources are not merged:
//!    each has its own partials, which never meet before the cell. With few keys, cells are found
//!    by the keys themselves (`dense.rs` beside it).
//! 2. *Fold* (`folds/tables/add.rs`): for each function, rows are added to partials, and partials
//!    combined to cells in source order; part by part, so that where rows belong is read from a
//!    cache.
//! 3. *Slide* (`folds/tables/slide.rs`): cells are combined to windows, at one combination a
//!    result.
//!
//! A row is touched once a function, whatever the number of windows it falls in, and the work is
//! O(rows + results). Each stage is cut by time, and each piece of it is written by one thread.
//!
//! Floating-point results do not depend on threads or on how the work is cut: a source's rows are
//! added in time order within a slice, partials combined in source order, and slices as their
//! numbers say.
//!
//! # Trade-offs
//!
//! Beside the inputs there is a state for each function and cell (4 to 24 bytes). Rows of one slice
//! are one thread's work: with fewer slices than threads, some threads have none.
//!
//! The operator is that of Cederman, Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas,
//! "Efficient data streaming multiway aggregation through concurrent algorithmic designs and new
//! abstract data types", section 2, over streams that have ended. That a row is added to one slice
//! instead of to each of its windows is due to Li, Maier, Tufte, Papadimos and Tucker, "No pane, no
//! gain" (2005), and to Krishnamurthy, Wu and Franklin, "On-the-fly sharing for streamed
//! aggregation" (2006), whose paired windows the slices are.
//!
//! # Rooms
//!
//! From the bottom up; each uses those above it in this table.
//!
//! | room | what is in it |
//! | --- | --- |
//! | `output.rs` | pages of results |
//! | `states/` | the functions as states that combine; their states as words |
//! | `inputs/` | the rows of sources, and the values that they add |
//! | `slices/` | slices of time: rows by slice and key, and the steps from window to window |
//! | `folds/` | how one function goes through tables, epochs, and partners |
//! | `catalog/` | the functions by name: the only place that says which one an [`Aggregate`] is |
//! | `tables.rs` | windows of whole tables |
//! | `sessions.rs` | windows of whole tables that rows keep open |
//! | `streaming/` | both of rows that come epoch by epoch |
//! | `partners/` | functions of the partners that a row has in a join |
//! | `all_values/` | functions that need all values of a window, or of a row's partners, at once |
//!
//! To add a function, write its state in `states/functions.rs` and `states/words.rs`, and the way
//! partners fold it in `folds/partners/functions.rs`. Then add it to [`Aggregate`] in
//! `catalog/aggregate.rs`, and say there what it is given. All folds then have it, and so has each
//! other way to add rows (`folds/epochs/epoch.rs`).

mod all_values;
mod catalog;
mod folds;
mod inputs;
mod output;
mod partners;
mod sessions;
mod slices;
mod states;
mod streaming;
mod tables;

pub use all_values::{
    AllValues, Interpolation, PartnerValues, Quantile, WindowRows, WindowValues,
    all_values_of_matches, float_of, order_of,
};
pub use catalog::aggregate::Aggregate;
pub use catalog::user::{UserAggregate, UserFunction};
pub use folds::epochs::epoch::{AddEpoch, Adder, Epoch};
pub use folds::epochs::open::{OpenPartials, SlicePartials};
pub use inputs::columns::{Column, ColumnPairs, Mask, NumberColumns, Stream, first_rows};
pub use output::{OutputColumn, OutputValue, OutputValues, Page, Window};
pub use partners::{PartnerAggregates, aggregate_matches};
pub use sessions::aggregate_sessions;
pub use slices::windows::{Slice, Windows};
pub use states::functions::RowOrder;
pub use states::words::{MAX_WORDS, STATE_WORDS, StateBounds, StateWords};
pub use streaming::{
    KeyOrder, StreamingAggregate, StreamingSessions, StreamingWindows, WindowsState,
};
pub use tables::aggregate;
