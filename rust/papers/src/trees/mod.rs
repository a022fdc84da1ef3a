//! Tree indexes for the rows in a sliding window. All of them are
//! [`WindowIndex`](tidegate_structures::index::WindowIndex)es and return the same rows:
//!
//! - [`RoundRobin`]: several [`BPlusTree`](tidegate_structures::index::BPlusTree)s. Rows are
//!   assigned to the trees in turn.
//! - [`ChainedIndex`]: one index per section of the window. When its last row has left the
//!   window, the oldest index is dropped.
//! - [`ImTree`]: new rows are in a B+-tree, and older rows are in an immutable tree ([`CssTree`]).
//!   The two trees are merged periodically.
//! - [`PimTree`]: an `ImTree` with one B+-tree for each node at a certain depth in the immutable
//!   tree. [`SharedPimTree`] is a variant that threads share.
//! - [`OlcTree`]: a B+-tree that threads share and whose readers do not acquire locks. The code of
//!   this tree is in the folder `olc/`.
//!
//! All trees except `OlcTree` are from Shahvarani and Jacobsen, "Parallel Index-based Stream Join
//! on a Multicore CPU" (SIGMOD 2020), sections 2 and 3. `OlcTree` is the kind of general-purpose
//! tree with which the paper compares its own trees.
#![doc = include_str!("README.md")]

mod chained;
mod css;
mod im_tree;
mod olc;
mod pim_tree;
mod round_robin;
mod shared_pim_tree;

pub use chained::{Archive, ChainedIndex};
pub use css::CssTree;
pub use im_tree::ImTree;
pub use olc::OlcTree;
pub use pim_tree::PimTree;
pub use round_robin::RoundRobin;
pub use shared_pim_tree::{PimPlace, SharedPimTree};
