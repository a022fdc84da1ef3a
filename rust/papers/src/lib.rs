//! Joins, aggregations and structures as papers have published them, to compare with those of
//! tidegate. No call enters them without an `algorithm`.
//!
//! ```text
//!  structures             row_gate   hive     time_travel   trees
//!                            │        │            │          │
//!                            ▼        ▼            ▼          ▼
//!  joins, aggregations    scale_gates │        scale_oij   index_tasks   handshake
//!                          aggregate_designs               index_kind    split_join
//!                                                                        tree_partitions
//!  threads: tasks that take turns, threads that go on between calls
//! ```
//!
//! They are made of the traits of `tidegate_operators`: a
//! [`RowJoin`](tidegate_operators::rows::RowJoin), a
//! [`Find`](tidegate_operators::band::index::Find), a
//! [`WindowIndex`](tidegate_structures::index::WindowIndex). So a caller has one join, whoever does
//! the work.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`row_gate`] | the gate row by row: ScaleGate |
//! | [`scale_gates`] | ScaleJoin between two such gates |
//! | [`baselines`] | what ScaleJoin is compared with: three-step procedure, CellJoin |
//! | [`handshake`] | a chain of nodes through which windows flow: handshake joins |
//! | [`split_join`] | SplitJoin between two trees |
//! | [`trees`] | indexes of sliding windows, PIM-Tree among them |
//! | [`index_kind`] | these indexes by name |
//! | [`index_tasks`] | threads take tasks of a few rows, and share a tree a side |
//! | [`tree_partitions`] | threads have trees of their own |
//! | [`time_travel`] | lists that are read while they grow |
//! | [`scale_oij`] | Scale-OIJ: the interval join of threads that read each other's lists |
//! | [`hive`] | windows that threads update together |
//! | [`aggregate_designs`] | multiway aggregation: who merges the rows, who updates what |
//! | `pieces` | memory that grows while other threads read it |
//! | `stages` | stages that run concurrently, each on the output of another |
//! | [`threads`] | tasks that take turns; threads that go on between calls |
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
