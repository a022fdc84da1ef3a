//! Slices of time: windows are runs of them, and rows are numbered by slice and key.
//!
//! Whole tables and epochs share this. A row is touched once a function, whatever the number of
//! windows it falls in.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `windows.rs` | the slices that windows share |
//! | `partials.rs` | the rows of a source by slice and key |
//! | `steps.rs` | from one window to the next: which slices and keys leave and come |
//! | `suffix_prefix.rs` | the two states that make a window |

pub(super) mod partials;
pub(super) mod steps;
pub(super) mod suffix_prefix;
pub(super) mod windows;
