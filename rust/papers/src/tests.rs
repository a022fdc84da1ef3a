//! Compares published joins with the oracles of the operators' own joins: the index-based joins and
//! the sliding-window joins.

mod bands;
mod windows;
