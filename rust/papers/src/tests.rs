//! Compares published joins with the oracles of the operators' own joins: the index-based joins,
//! and the joins of sliding windows.

mod bands;
mod windows;
