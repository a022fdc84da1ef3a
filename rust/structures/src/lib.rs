//! The data structures of tidegate. Unsafe code is written here and in `tidegate-sync`, nowhere
//! else.

pub mod gate;
pub mod index;
pub mod memory;
pub mod papers;
pub mod simd;
