//! What all joins share that take rows one after the other, and what all joins say of rows.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `side.rs`, `how.rs` | the two sides; which rows are wanted |
//! | `interval.rs`, `retention.rs` | which times match, with bounds that never wrap; how long rows stay |
//! | `reach.rs` | how far rows reach for each other |
//! | `reorder.rs` | a source's rows in order |
//! | `results.rs` | from matches to result rows |
//! | `step.rs` | what a call to a join comes to |

mod how;
pub(crate) mod interval;
mod reach;
mod reorder;
mod results;
mod retention;
mod side;
mod step;

pub use how::How;
pub use interval::{Closed, Interval};
pub(crate) use reach::Reach;
pub use reorder::{LateRow, Released, Reorder, Timed};
pub(crate) use results::Matched;
pub use results::{NO_ROW, Results};
pub use retention::Retention;
pub use side::Side;
pub use step::{Failed, Filter, Progress};
pub use tidegate_structures::memory::partition::NO_KEY;

/// Removes the first `gone` values, and gives memory back that a burst has taken once it is over.
pub(crate) fn drop_front<T>(values: &mut Vec<T>, gone: usize) {
    values.drain(..gone);
    if values.len() < values.capacity() / 4 {
        values.shrink_to(values.capacity() / 2);
    }
}
