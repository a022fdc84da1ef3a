//! The data structures of tidegate: memory for columns, gates that merge sorted sources into one
//! stream, and window indexes. This crate also contains the unsafe code that makes these structures
//! fast.
//!
//! ```text
//!  memory ──▶ simd ──▶ gate    sources that threads push into ──▶ one stream in merged order
//!                 └──▶ index   rows in a window ──▶ the rows with values in a range
//!  instructions: the instructions that all of these use
//! ```
//!
//! ```
//! use tidegate_structures::gate::{BlockGate, Next};
//!
//! let (mut sources, mut readers) = BlockGate::new(2, 1)?;
//! sources[0].push(vec![3, 7, 9]).unwrap();
//! sources[1].push(vec![4, 8]).unwrap();
//!
//! // Row 9 is not ready, because the second source may still push another 8.
//! let Next::Ready(block) = readers[0].next_block() else { unreachable!() };
//! assert_eq!(block.ts(), [3, 4, 7, 8]);
//! # Ok::<(), tidegate_structures::gate::TooManySources>(())
//! ```
//!
//! `examples/merge_sources.rs` uses one thread per source.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod gate;
pub mod index;
pub mod instructions;
pub mod memory;
pub mod simd;
