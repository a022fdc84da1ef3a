//! Operators that take rows as they come and hand out results as soon as they are final.
//!
//! ```text
//! source 0 ── push ──▶ reorder ──▶ ┌──────┐
//! source 1 ── push ──▶ reorder ──▶ │ gate │ ──▶ ready rows in merged order ──▶ the operator ──▶ poll
//! source 2 ── push ──▶ reorder ──▶ └──────┘
//! ```
//!
//! Sources may be fed by threads of their own. All other work is done by whoever polls, with the operator's threads: a
//! poll hands out what is final because of the pushes before it, whatever threads there are.

mod aggregate;
mod aggregate_rows;
mod aggregate_state;
mod band_join;
mod chosen;
mod explanation;
mod groups;
mod intake;
mod interval_join;
mod join;
mod kept_keys;
mod keys;
mod late;
mod latency;
mod memory;
mod merge;
mod news;
mod operator;
mod ordered;
mod plain;
mod ready;
mod snapshot;
mod source;
mod store;
mod stored_table;
mod streams;
mod window_join;

pub use aggregate::{AggregateOptions, AggregateStats, OnlineAggregation};
pub use join::{Figure, StreamJoin, StreamJoinStats, StreamOptions};
pub use memory::Memory;
pub use merge::{Merge, MergeOptions, MergeStats};
pub use news::News;
pub use operator::{Operator, Polled, Step};
pub use source::{Source, SourceStats};
pub use streams::{MergeStreams, Reader};

use parking_lot::{Mutex, MutexGuard};
pub use tidegate_operators::interval::online::Parallelism;

/// A source, which stays whole if a call panics.
pub fn lock(source: &Mutex<Source>) -> MutexGuard<'_, Source> {
    source.lock()
}
