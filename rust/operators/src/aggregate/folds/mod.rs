//! Folds: the ways in which a function of any type processes rows.
//!
//! Each folder has a trait with the steps of its pass.
//! [`WithInput`](super::inputs::values::WithInput), which combines a function with its input,
//! implements all of these traits. The loops of `WithInput` are compiled for each combination.
//!
//! | folder | rows of |
//! | --- | --- |
//! | `tables/` | whole tables: the cells of slices, and windows of cells |
//! | `epochs/` | streams, epoch by epoch: states that are kept between epochs |
//! | `partners/` | the other side of a join: the partners of each left row |

pub(super) mod epochs;
pub(super) mod partners;
pub(super) mod tables;
