//! The operators of tidegate over plain columns: times, dense keys and row numbers. Nothing here knows of Arrow or Python.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod band_join;
pub mod count_window;
pub mod driver;
pub mod handshake;
pub mod index_join;
pub mod interval_join;
pub mod matches;
pub mod online_join;
pub mod order;
pub mod predicate;
pub mod rows;
pub mod scale_join;
mod selectivity;
pub mod sliding;
