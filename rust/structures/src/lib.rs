//! The data structures of tidegate. Unsafe code is written here and in `tidegate-sync`, nowhere else.

pub mod bitmaps;
pub mod bits;
pub mod gate;
pub mod gather;
pub mod hive;
pub mod index;
pub mod memory;
pub mod pages;
pub mod partition;
pub mod records;
pub mod scan;
pub mod select;
mod slots;
pub mod wide;
