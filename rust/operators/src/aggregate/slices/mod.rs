//! Time slices: windows consist of adjacent slices, and rows are numbered by slice and key.
//!
//! Slices are used for whole tables and for epochs. Each function reads a row once, regardless of
//! how many windows contain the row.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `calendar.rs` | days and months as numbers |
//! | `panes.rs` | windows that grow step by step |
//! | `windows.rs` | the slices that windows share |
//! | `partials.rs` | the rows of a source by slice and key |
//! | `steps.rs` | the slices and keys that change from one window to the next |
//! | `suffix_prefix.rs` | the two states that form a window |

pub(super) mod calendar;
pub(super) mod panes;
pub(super) mod partials;
pub(super) mod steps;
pub(super) mod suffix_prefix;
pub(super) mod windows;
