//! A gate merges sorted sources into one stream, and hands out a row once no source can come before
//! it.
//!
//! ```text
//! source 0 ── 3 ── 7 ── 9 ─┐                          ready ┊ not yet
//!                          ├─▶  3 ── 4 ── 7 ── 8 ── 9   3 4 7 8 ┊ 9
//! source 1 ── 4 ── 8 ──────┘                                ┊
//! ```
//!
//! Row 8 is ready although it is source 1's last: source 0 has moved past it, and source 1's next
//! row cannot sort before it. Row 9 is not: source 1 may still bring another 8, or a 9 after this
//! one.
//!
//! [`BlockGate`] is such a gate: sorted column runs in, blocks of rows out. Another gate may keep
//! the same contract, row by row the same stream, with the keys of this module and the promises of
//! [`promise`].
//!
//! The folder `block/` contains this gate.
//!
//! # Trade-offs
//!
//! - **A silent source holds everything back**: until it pushes, says `advance`, or is closed. A
//!   gate never looks at a clock.
//! - **A silent reader holds memory**: rows are kept for the slowest reader. A gate with a memory
//!   limit refuses rows instead, and says so to the source.
//! - **Polling**: a reader is told "not yet" and comes again; waiting is the caller's business.
//!
//! # When to use something else
//!
//! Sort or merge complete tables: no stream is as fast. Use a channel for sources whose order does
//! not matter. Sort rows that arrive out of order before they get here.
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

/// A new gate: its sources and its readers.
pub type Handles<S, R> = Result<(Vec<S>, Vec<R>), TooManySources>;

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<R> {
    /// The next of the stream.
    Ready(R),
    /// Nothing is ready; there may be more later.
    NotYet,
    /// All sources have closed and everything was given.
    End,
}

impl<R> Next<R> {
    /// The item that is ready, if there is one.
    pub fn ready(self) -> Option<R> {
        match self {
            Next::Ready(found) => Some(found),
            Next::NotYet | Next::End => None,
        }
    }
}

/// Why a source's row or run was not taken; it comes back, and the gate is as it was.
#[derive(Clone, PartialEq, Eq)]
pub enum Rejection<R> {
    /// It begins below what the source has promised.
    Late {
        /// Its smallest event time.
        ts: i64,
        /// The time that the source has promised.
        promised: i64,
        /// The row, or the run of rows, that was pushed.
        row: R,
    },
    /// The memory limit would be exceeded.
    Full {
        /// The bytes that were asked for, and the bytes that there are.
        overrun: Overrun,
        /// The row, or the run of rows, that was pushed.
        row: R,
    },
}

impl<R> Rejection<R> {
    /// The row, or the run of rows, that was pushed.
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
                    "ts {ts} is below {promised}, but the source has promised no earlier time"
                )
            }
            Rejection::Full { overrun: Overrun { asked, used, limit }, .. } => {
                write!(
                    f,
                    "{asked} more bytes do not fit, since {used} of at most {limit} are held; read \
                     on, or drop the slowest reader"
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

/// More than 65 536 sources were asked for in the life of one gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManySources;

impl fmt::Display for TooManySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a gate has at most {MAX_SOURCES} sources in its life")
    }
}

impl std::error::Error for TooManySources {}
