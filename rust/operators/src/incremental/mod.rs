//! What every incremental operator is made of.

mod reorder;

pub use reorder::{LateRow, Released, Reorder, Timed};
