//! The parts that all joins of rows that come share, and the words that all joins have for rows.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `side.rs`, `how.rs` | the two sides, and how far each has come; which rows are wanted |
//! | `interval.rs`, `retention.rs` | which times match, with bounds that never wrap; how long rows stay |
//! | `reach.rs`, `extent.rs` | how far rows reach for each other; for how long a row may be matched |
//! | `log.rs`, `kept_column.rs` | the rows of a side that are kept, and which have had a match |
//! | `arrival.rs` | the same of rows that come in any order of time |
//! | `join.rs`, `step.rs` | the trait of such a join; the outcome of a call to it |
//! | `reorder.rs` | a source's rows in order |
//! | `results.rs` | from matches to result rows |

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
