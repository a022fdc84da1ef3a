//! Loops with the widest instructions that the processor has.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `wide.rs` | runs a loop as compiled for AVX2, where the processor has it |
//! | `scan.rs` | places where columns are in given ranges, with the widest instructions there are |
//! | `scan/neon.rs` | the loop of `scan.rs` for ARM |
//! | `bitmaps.rs` | the same by a bitmap for each of a few buckets of values |

pub mod bitmaps;
pub mod scan;
pub mod wide;
