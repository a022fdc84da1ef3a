//! Functions as states: how a row is added, how two states are combined, and how the result is
//! computed.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `functions.rs` | the functions |
//! | `words.rs` | their states as words, for snapshots and for other ways to add rows |

pub(super) mod functions;
pub(super) mod words;
