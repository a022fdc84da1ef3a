//! Contains all integration tests in one executable, because each additional executable would have
//! to be compiled and linked separately.

mod aggregate;
mod asof_join;
mod band_join;
mod interval_join;
mod overlap_join;
mod tables;
