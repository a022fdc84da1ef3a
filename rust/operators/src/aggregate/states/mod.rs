//! Functions as states: how to add a row, how to combine two states, and how to compute the result.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `functions.rs` | the functions |
//! | `whole.rs` | the mean of integers, rounded to an integer |
//! | `timed.rs` | means whose weights depend on the times of rows |
//! | `words.rs` | their states as words, for snapshots and for other ways to add rows |

pub(super) mod functions;
pub(super) mod timed;
pub(super) mod whole;
pub(super) mod words;
