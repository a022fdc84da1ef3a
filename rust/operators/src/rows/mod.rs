//! The code shared by all streaming joins, and the basic row types of all joins.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `side.rs`, `how.rs` | the two sides and their watermarks; the types of joins |
//! | `interval.rs`, `retention.rs` | which times match (without wrapping); how long rows are kept |
//! | `reach.rs`, `extent.rs` | which times of the other side match; how long a row can be matched |
//! | `log.rs`, `kept_column.rs` | the kept rows on a side, and which of them are matched |
//! | `arrival.rs` | what the log adds for rows in arrival order |
//! | `join.rs`, `step.rs` | the trait of streaming joins; the outcome of a call to one |
//! | `reorder.rs` | puts the rows of a source in order |
//! | `results.rs` | turns matches into result rows |

mod arrival;
mod extent;
mod how;
pub(crate) mod interval;
mod join;
mod kept_column;
mod log;
mod reach;
mod reorder;
mod results;
mod retention;
mod side;
mod step;

pub use extent::Extent;
pub use how::How;
pub use interval::{Closed, Interval, RowEnds};
pub use join::RowJoin;
pub use kept_column::{KeptColumn, KeptColumns};
pub use log::{RowLog, SavedRows};
pub use reach::Reach;
pub use reorder::{Draft, LateRow, PushedRows, ReleasedRows, Reorder};
pub use results::{NO_ROW, Results};
pub use retention::Retention;
pub use side::{Side, SideWatermarks};
pub use step::{Filter, FilterError, JoinError, Progress};
pub use tidegate_structures::memory::partition::NO_KEY;
