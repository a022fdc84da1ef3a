//! Joins, aggregations and data structures as published in papers, for comparison with tidegate's
//! own. This crate is used only by calls that specify an `algorithm`.
//!
//! ```text
//!  structures             row_gate   hive     time_travel   trees
//!                            │        │            │          │
//!                            ▼        ▼            ▼          ▼
//!  joins, aggregations    scale_gates │        scale_oij   index_tasks   handshake
//!                          aggregate_designs               index_kind    split_join
//!                                                                        tree_partitions
//!  threads: tasks that take turns, threads that run between calls
//! ```
//!
//! The algorithms implement the traits of `tidegate_operators`:
//! [`RowJoin`](tidegate_operators::rows::RowJoin), [`Find`](tidegate_operators::band::index::Find)
//! and [`WindowIndex`](tidegate_structures::index::WindowIndex). A caller can therefore use the
//! same join with every algorithm.
//!
//! | module | contents |
//! | --- | --- |
//! | [`row_gate`] | ScaleGate, a gate that hands out rows one at a time |
//! | [`scale_gates`] | ScaleJoin between two such gates |
//! | [`baselines`] | the joins that ScaleJoin is compared with: three-step procedure, CellJoin |
//! | [`handshake`] | handshake joins: a chain of nodes through which windows flow |
//! | [`split_join`] | SplitJoin between two trees |
//! | [`trees`] | indexes of sliding windows, including the PIM-Tree |
//! | [`index_kind`] | these indexes by name |
//! | [`index_tasks`] | threads that take tasks of a few rows and share one tree per side |
//! | [`tree_partitions`] | threads that each have their own trees |
//! | [`time_travel`] | lists that are read while they grow |
//! | [`scale_oij`] | Scale-OIJ, an interval join whose threads read each other's lists |
//! | [`hive`] | windows that threads update together |
//! | [`aggregate_designs`] | multiway aggregation, with several ways to merge rows and update windows |
//! | `pieces` | memory that grows while other threads read it |
//! | `stages` | stages that run concurrently, each processing the output of another |
//! | [`threads`] | tasks that take turns, and threads that keep running between calls |
//!
//! ```
//! use tidegate_papers::trees::PimTree;
//! use tidegate_structures::index::{Probe, WindowIndex};
//!
//! let mut tree = PimTree::new(0.25, None);
//! tree.insert(70, 0);
//! tree.insert(75, 1);
//! let mut found = Vec::new();
//! tree.find(&Probe { low: 74, high: 80, from: 0, to: 2 }, &mut found);
//! assert_eq!(found, [1]);
//! ```

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod aggregate_designs;
pub mod baselines;
pub mod handshake;
pub mod hive;
pub mod index_kind;
pub mod index_tasks;
mod pieces;
pub mod row_gate;
pub mod scale_gates;
pub mod scale_oij;
pub mod split_join;
mod stages;
pub mod threads;
pub mod time_travel;
pub mod tree_partitions;
pub mod trees;

#[cfg(all(test, not(loom)))]
mod tests;
