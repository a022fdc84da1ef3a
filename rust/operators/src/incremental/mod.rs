//! What incremental operators are made of.

mod reorder;
mod results;
mod side;

pub use reorder::{LateRow, Released, Reorder, Timed};
pub(crate) use results::Matched;
pub use results::Results;
pub use side::Side;
