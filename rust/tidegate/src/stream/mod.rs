//! Operators with push sources. Results are returned as soon as they are final.
//!
//! ```text
//! source 0 ── push ──▶ reorder ──▶ ┌──────┐
//! source 1 ── push ──▶ reorder ──▶ │ gate │ ──▶ ready rows in merged order ──▶ the operator ──▶ poll
//! source 2 ── push ──▶ reorder ──▶ └──────┘
//! ```
//!
//! Each source can receive its rows from a separate thread. All other work is done by the thread
//! that polls the operator and by the operator's worker threads. Regardless of the number of
//! threads, a poll returns the rows that earlier pushes have made final.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `operator/` | the operator: its main loop, polls and snapshots |
//! | `tactic.rs`, `explanation.rs` | one step of a kind of operator; its explanation |
//! | `recomputation.rs` | the tactic that keeps rows, and computes results with the code for tables |
//! | `numbered_rows.rs` | kept rows, some of which are numbered within their keys |
//! | `rolling.rs` | the operator for rolling windows |
//! | `options.rs` | the options of joins |
//! | `memory.rs` | the memory limit, and the bytes that count toward it |
//! | `times.rs` | the times of results, for an operator that processes them further |
//! | `readers.rs` | several readers of the results, each of which receives all rows |
//! | `outcome.rs` | the outcome of a poll or a step, and the statistics of an operator |
//! | `lateness.rs` | the lateness of each source |
//! | `intake/` | the path of rows from a source through the gate |
//! | `sides/` | the parts that operators with two sides share |
//! | `join/`, `partners/`, `aggregate/`, `merge/` | the operators |
//! | `state/` | the rows and keys that are kept, and an operator's state as bytes |

mod aggregate;
mod explanation;
mod intake;
mod join;
mod lateness;
mod memory;
mod merge;
mod numbered_rows;
mod operator;
mod options;
mod outcome;
mod partners;
mod readers;
mod recomputation;
mod rolling;
mod sides;
mod state;
mod tactic;
mod times;

pub use aggregate::{AggregateOptions, aggregate, open_windows};
pub use intake::news::{DriverWork, News};
pub use intake::source::{Source, SourceStats, lock};
pub use join::{
    Parallelism, asof_join, band_join, band_self_join, interval_join, overlap_join, window_join,
};
pub use lateness::Lateness;
pub use memory::Memory;
pub use merge::streams::{MergeInput, MergeStreams};
pub use merge::tables::{merge_tables, merged_schema};
pub use merge::{MergeOptions, merge};
pub use operator::Operator;
pub use options::StreamOptions;
pub use outcome::{Figure, Poll, Stats, Step, WaitingRows};
pub use partners::partner_aggregates;
pub use readers::ResultReader;
pub use rolling::rolling;
pub use times::{ResultTime, ResultTimes};

pub use tidegate_operators::rows::Side;
