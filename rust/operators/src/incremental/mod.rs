//! What incremental operators are made of.

mod reach;
mod reorder;
mod results;
mod side;
mod step;

pub(crate) use reach::Reach;
pub use reorder::{LateRow, Released, Reorder, Timed};
pub(crate) use results::Matched;
pub use results::Results;
pub use side::Side;
pub use step::{Failed, Filter, Progress};

/// Removes the first `gone` values, and gives memory back that a burst has taken once it is over.
pub(crate) fn drop_front<T>(values: &mut Vec<T>, gone: usize) {
    values.drain(..gone);
    if values.len() < values.capacity() / 4 {
        values.shrink_to(values.capacity() / 2);
    }
}
