//! Tree indexes for the rows of a sliding window. All of them are
//! [`WindowIndex`](tidegate_structures::index::WindowIndex)es and return the same rows:
//!
//! - [`RoundRobin`]: several [`BPlusTree`](tidegate_structures::index::BPlusTree)s, to which rows
//!   are assigned in turn.
//! - [`ChainedIndex`]: one index per section of time; the oldest is dropped as a whole.
//! - [`ImTree`]: new rows are in a B+-tree, and all others in an immutable tree ([`CssTree`]). The
//!   two are merged from time to time.
//! - [`PimTree`]: an `ImTree` with one B+-tree for each node of the immutable tree at some depth.
//!   [`SharedPimTree`] is a variant that threads share.
//! - [`OlcTree`]: a B+-tree that threads share, with locks that readers do not acquire.
//!   Its code is in the folder `olc/`.
//!
//! All except `OlcTree` are from Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a
//! Multicore CPU" (SIGMOD 2020), sections 2 and 3. `OlcTree` is a general-purpose tree of the kind
//! with which the paper compares its own trees.
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
