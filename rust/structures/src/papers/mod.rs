//! Structures as they were published, to compare with: none of them is on the path of a call
//! without an `algorithm`.

pub mod hive;
pub mod row_gate;
pub mod trees;
