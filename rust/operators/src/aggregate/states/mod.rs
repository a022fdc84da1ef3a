//! Functions as states: how to add a row, how to combine two states, and how to compute the result.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `functions.rs` | the functions |
//! | `words.rs` | their states as words, for snapshots and for other ways to add rows |

pub(super) mod functions;
pub(super) mod words;
