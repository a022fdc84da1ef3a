//! One function of whole tables: rows to cells, and cells to windows.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `part.rs` | a part of the time, and its cells |
//! | `cells.rs`, `dense.rs` | the cells of rows; the same for few keys |
//! | `add.rs`, `in_order.rs` | the states of cells; of functions that need merged order |
//! | `cell_states.rs` | the same, by the input of a function |
//! | `slide.rs` | from cells to windows |
//! | `fold.rs` | these steps, for a function and its input |

mod add;
pub(in crate::aggregate) mod cell_states;
pub(in crate::aggregate) mod cells;
mod dense;
pub(in crate::aggregate) mod fold;
mod in_order;
pub(in crate::aggregate) mod part;
pub(in crate::aggregate) mod slide;
