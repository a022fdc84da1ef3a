//! The functions that a caller can name. Each function has a kind, which the [folds](super::folds)
//! use.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `aggregate.rs` | the functions by name, each with its input |
//! | `user.rs` | user-defined functions |
//! | `kind.rs` | a function of any type, with its input |

pub(super) mod aggregate;
pub(super) mod kind;
pub(super) mod user;
