//! The operators of tidegate over plain columns: times, dense keys and row numbers. Nothing here
//! knows of Arrow or Python.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod band;
pub mod driver;
pub mod interval;
pub mod matches;
pub mod order;
pub mod papers;
pub mod predicate;
pub mod rows;
mod selectivity;
pub mod window;
