//! Computes one function over whole tables: rows are folded into cells, and cells into windows.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `part.rs` | a time range and its cells |
//! | `cells.rs`, `dense.rs` | assigns rows to cells; a variant for small numbers of keys |
//! | `add.rs`, `in_order.rs` | computes the states of cells; does the same in merged order |
//! | `cell_states.rs` | chooses how to compute the states of cells from a function's input |
//! | `slide.rs` | turns cells into windows |
//! | `fold.rs` | runs these steps for a function and its input |

mod add;
pub(in crate::aggregate) mod cell_states;
pub(in crate::aggregate) mod cells;
mod dense;
pub(in crate::aggregate) mod fold;
mod in_order;
pub(in crate::aggregate) mod part;
pub(in crate::aggregate) mod slide;
