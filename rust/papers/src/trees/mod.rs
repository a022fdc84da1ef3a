//! Indexes of the rows of a sliding window as trees. All are
//! [`WindowIndex`](tidegate_structures::index::WindowIndex)es and answer alike:
//!
//! - [`RoundRobin`]: several [`BPlusTree`](tidegate_structures::index::BPlusTree)s, rows dealt out in
//!   turns.
//! - [`ChainedIndex`]: one index a stretch of time; the oldest is dropped as a whole.
//! - [`ImTree`]: new rows in a B+-tree, all others in an immutable tree ([`CssTree`]) with which
//!   they are merged at times.
//! - [`PimTree`]: the same with a B+-tree for every node of the immutable tree at some depth.
//!   [`SharedPimTree`]: one that threads share.
//! - [`OlcTree`]: a B+-tree that threads share, with locks that readers do not take.
//!   The folder `olc/` contains it.
//!
//! All but `OlcTree` are from Shahvarani and Jacobsen, "Parallel Index-based Stream Join on a
//! Multicore CPU" (SIGMOD 2020), sections 2 and 3; `OlcTree` is what they compare theirs with, a
//! tree for any use.
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
