//! Structures as published, to compare with. No call enters them without an `algorithm`.

pub mod hive;
pub mod row_gate;
pub mod trees;
