//! Structures as published, to compare with. No call enters them without an `algorithm`.

pub mod hive;
mod pieces;
pub mod row_gate;
pub mod time_travel;
pub mod trees;
