//! Options for joins of streams.

use super::lateness::Lateness;

/// The options of a streaming join that are not part of its query.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The number of left sources and the number of right sources. If a stream is joined with
    /// itself, there are no right sources.
    pub sources: (usize, usize),
    /// The maximum time by which rows can be out of order, for left sources and for right sources.
    pub lateness: (Lateness, Lateness),
    /// The maximum number of bytes to hold, or `None` for no limit.
    pub memory_limit: Option<usize>,
    /// True if results are emitted in the specified order; false if any order is acceptable.
    pub ordered: bool,
    /// True if each helper thread that the operator starts is pinned to a processor. Threads are
    /// not pinned if the operator calls user functions, because any threads that such a function
    /// starts would also be pinned.
    pub pin: bool,
}
