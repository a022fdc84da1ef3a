//! One function over rows that arrive epoch by epoch, with states that are kept from one epoch to
//! the next.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `open.rs` | the slices that may get more rows, and those that close |
//! | `lane.rs` | the states of a function: of partials, of cells, and of windows |
//! | `add.rs` | rows are added to partials, for a function and its input |
//! | `epoch.rs` | another way from the rows of an epoch to partials |

pub(in crate::aggregate) mod add;
pub(in crate::aggregate) mod epoch;
pub(in crate::aggregate) mod lane;
pub(in crate::aggregate) mod open;
