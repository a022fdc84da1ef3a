//! The row gate hands out rows one at a time from a lock-free list, with the lowest latency. The
//! readers of a row gate can also share the stream, as in the T-Gate.
//!
//! The row gate fulfils the contract of [`gate`](tidegate_structures::gate): it returns exactly the
//! same rows as [`BlockGate`](tidegate_structures::gate::BlockGate), in the same order.
//!
//! ```
//! use tidegate_structures::gate::Next;
//! use tidegate_papers::row_gate::ScaleGate;
//!
//! let (mut sources, mut readers) = ScaleGate::new::<&str>(2, 1)?;
//! sources[0].push(3, "a").unwrap();
//! sources[1].push(4, "b").unwrap();
//! sources[0].push(7, "c").unwrap();
//!
//! let reader = &mut readers[0];
//! let mut ready = Vec::new();
//! while let Next::Ready(row) = reader.next_ready() {
//!     ready.push((row.ts, *row.payload));
//! }
//! assert_eq!(ready, [(3, "a"), (4, "b")]); // source 1 may still push a 5
//!
//! sources.pop().unwrap().close();
//! assert!(matches!(reader.next_ready(), Next::Ready(row) if *row.payload == "c"));
//! assert_eq!(reader.next_ready(), Next::NotYet);
//! drop(sources);
//! assert_eq!(reader.next_ready(), Next::End);
//! # Ok::<(), tidegate_structures::gate::TooManySources>(())
//! ```
#![doc = include_str!("README.md")]

mod list;
mod node;
mod reader;
mod reclaim;
mod shared;
mod source;

pub use list::{Row, ScaleGate};
pub use reader::Reader;
pub use shared::{KeyedReader, SharedReader};
pub use source::Source;
