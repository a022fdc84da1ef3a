//! Computes one function over rows that arrive epoch by epoch. States are kept between epochs.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `open.rs` | the slices that can still receive rows, and those that close |
//! | `lane.rs` | the states of a function: of partials, of cells, and of windows |
//! | `add.rs` | adds rows to partials, for a function and its input |
//! | `epoch.rs` | a trait for other ways to turn the rows in an epoch into partials |

pub(in crate::aggregate) mod add;
pub(in crate::aggregate) mod epoch;
pub(in crate::aggregate) mod lane;
pub(in crate::aggregate) mod open;
