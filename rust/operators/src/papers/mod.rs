//! Operators as published, to compare with. No call enters them without an `algorithm`.

pub mod aggregate_designs;
pub mod handshake;
pub mod index_tasks;
pub mod scale_gates;
pub mod scale_oij;
pub mod split_join;
mod stages;
pub mod tree_partitions;
