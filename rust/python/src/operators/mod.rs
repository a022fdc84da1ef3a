//! The parts that the classes of all operators share. An operator receives its rows incrementally.
//!
//! Each kind of operator has its own class. The class is in the same file as the functions for the
//! corresponding query, in `queries/`.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `handle.rs` | controls concurrent use of an operator, and lets Ctrl-C end a call to it |
//! | `source.rs` | the class `Source`: rows in |
//! | `operator.rs` | the class `Operator`: rows out, snapshots |
//! | `stream_join.rs` | the class `StreamJoin`: an operator with two sides, and its options |
//! | `stats.rs` | the statistics of an operator |
//! | `digest.rs` | the class `Digest`, for rows or an operator's results; the function `digest` |

pub(crate) mod digest;
pub(crate) mod handle;
pub(crate) mod operator;
pub(crate) mod source;
pub(crate) mod stats;
pub(crate) mod stream_join;
