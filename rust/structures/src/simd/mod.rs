//! Loops that use the widest instructions that the processor supports.
//!
//! | file | contents |
//! | --- | --- |
//! | `wide.rs` | runs a loop compiled for AVX2 if the processor has it |
//! | `scan.rs` | finds rows whose columns are in given ranges, with the widest instructions available |
//! | `scan/neon.rs` | the loop of `scan.rs` for ARM |
//! | `bitmaps.rs` | finds such rows with one bitmap for each of a few buckets of values |

pub mod bitmaps;
pub mod scan;
pub mod wide;
