//! A gate merges sorted sources into one stream, and hands out a row as soon as no source can push
//! an earlier one.
//!
//! ```text
//! source 0 ── 3 ── 7 ── 9 ─┐                          ready ┊ not yet
//!                          ├─▶  3 ── 4 ── 7 ── 8 ── 9   3 4 7 8 ┊ 9
//! source 1 ── 4 ── 8 ──────┘                                ┊
//! ```
//!
//! Row 8 is ready although it is the last row of source 1. Source 0 has moved past time 8, and the
//! next row of source 1 cannot sort before row 8. Row 9 is not ready, because source 1 may still
//! push another row with time 8.
//!
//! [`BlockGate`] is such a gate: sources push sorted column runs, and readers receive blocks of
//! rows. Another gate can fulfil the same contract and return the same stream row by row. Such a
//! gate can use the keys defined in this module and the promises defined in [`promise`].
//!
//! The folder `block/` contains the block gate.
//!
//! # Trade-offs
//!
//! - **An idle source holds back all rows** until it pushes rows, calls `advance`, or is closed. A
//!   gate never reads a clock.
//! - **An idle reader keeps memory in use**, because rows are kept for the slowest reader. If a
//!   memory limit is reached, the gate rejects further rows and returns an error to the source.
//! - **Polling**: a reader that receives "not yet" tries again later. Waiting is up to the caller.
//!
//! # When to use something else
//!
//! If all rows are available, sort or merge tables instead, because this is faster than any stream.
//! Use a channel for sources whose order does not matter. Sort rows that arrive out of order before
//! you push them.
#![doc = include_str!("README.md")]

mod block;
mod key;
pub mod promise;

use std::fmt;

pub use block::{
    Block, BlockGate, BlockReader, BlockSource, Filler, PlannedBlock, PushedRun, Run, Slabs,
};
pub use key::{Key, MAX_SOURCES, NotSync, Rank, RowId, Tier};
use tidegate_sync::Overrun;

/// The sources and readers of a new gate.
pub type Handles<S, R> = Result<(Vec<S>, Vec<R>), TooManySources>;

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<R> {
    /// The next item of the stream.
    Ready(R),
    /// Nothing is ready, but more items may follow.
    NotYet,
    /// All sources have closed, and all rows have been handed out.
    End,
}

impl<R> Next<R> {
    /// Returns the item that is ready, if there is one.
    pub fn ready(self) -> Option<R> {
        match self {
            Next::Ready(found) => Some(found),
            Next::NotYet | Next::End => None,
        }
    }
}

/// The reason for rejecting a source's row or run. The row or run is returned, and the gate is
/// unchanged.
#[derive(Clone, PartialEq, Eq)]
pub enum Rejection<R> {
    /// The row, or the first row in the run, is before the promised time.
    Late {
        /// The smallest event time of the row or run.
        ts: i64,
        /// The time that the source has promised.
        promised: i64,
        /// The rejected row or run.
        row: R,
    },
    /// Pushing the row or run would exceed the memory limit.
    Full {
        /// The number of bytes requested and the number available.
        overrun: Overrun,
        /// The rejected row or run.
        row: R,
    },
}

impl<R> Rejection<R> {
    /// Returns the rejected row or run.
    pub fn into_inner(self) -> R {
        match self {
            Rejection::Late { row, .. } | Rejection::Full { row, .. } => row,
        }
    }
}

impl<R> fmt::Display for Rejection<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Late { ts, promised, .. } => {
                write!(
                    f,
                    "ts {ts} is below {promised}, the lower bound that the source has promised"
                )
            }
            Rejection::Full { overrun: Overrun { asked, used, limit }, .. } => {
                write!(
                    f,
                    "{asked} more bytes do not fit, since {used} of at most {limit} are held; \
                     continue reading, or drop the slowest reader"
                )
            }
        }
    }
}

impl<R> fmt::Debug for Rejection<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rejection({self})")
    }
}

impl<R> std::error::Error for Rejection<R> {}

/// The error for a gate that would have more than 65 536 sources during its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySources;

impl fmt::Display for TooManySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a gate can have at most {MAX_SOURCES} sources during its lifetime")
    }
}

impl std::error::Error for TooManySources {}
