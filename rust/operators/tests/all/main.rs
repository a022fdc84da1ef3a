//! All integration tests, in one executable: each more would be compiled and linked by itself.

mod aggregate;
mod asof_join;
mod band_join;
mod interval_join;
mod overlap_join;
mod tables;
