//! Operators that sources push rows into. Results are handed out as soon as they are final.
//!
//! ```text
//! source 0 ── push ──▶ reorder ──▶ ┌──────┐
//! source 1 ── push ──▶ reorder ──▶ │ gate │ ──▶ ready rows in merged order ──▶ the operator ──▶ poll
//! source 2 ── push ──▶ reorder ──▶ └──────┘
//! ```
//!
//! Each source may be fed by a thread of its own. All other work is done by the thread that polls,
//! with the operator's threads. A poll hands out the rows that the pushes before it have made
//! final, for any number of threads.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `operator/` | the operator: its loop of steps, polls, snapshots |
//! | `tactic.rs`, `explanation.rs` | the step of one kind of operator; its explanation |
//! | `recomputation.rs` | the tactic that keeps rows and lets the code for tables make results |
//! | `options.rs` | the options of joins |
//! | `memory.rs` | the limit, and whose memory it is |
//! | `times.rs` | the times of results, by which another operator takes them |
//! | `readers.rs` | several readers of the results, each of which gets all |
//! | `outcome.rs` | what a poll or a step came to, and the numbers that describe an operator |
//! | `lateness.rs` | the lateness of each source |
//! | `intake/` | from a source's rows to the rows that the gate gives |
//! | `sides/` | what operators with a left and a right side share |
//! | `join/`, `partners/`, `aggregate/`, `merge/` | the operators |
//! | `state/` | rows and keys that are kept, and all of an operator as bytes |

mod aggregate;
mod explanation;
mod intake;
mod join;
mod lateness;
mod memory;
mod merge;
mod operator;
mod options;
mod outcome;
mod partners;
mod readers;
mod recomputation;
mod sides;
mod state;
mod tactic;
mod times;

pub use aggregate::{AggregateOptions, aggregate};
pub use intake::news::{DriverWork, News};
pub use intake::source::{Source, SourceStats, lock};
pub use join::{Parallelism, asof_join, band_join, band_self_join, interval_join, window_join};
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
pub use times::{ResultTime, ResultTimes};

pub use tidegate_operators::rows::Side;
