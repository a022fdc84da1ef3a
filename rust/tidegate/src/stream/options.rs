//! The options of joins of streams.

use super::lateness::Lateness;

/// The options of a streaming join, in addition to its query.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The number of left sources and the number of right sources. A stream that is joined with
    /// itself has no right sources.
    pub sources: (usize, usize),
    /// The maximum time by which rows of left and of right sources can be out of order.
    pub lateness: (Lateness, Lateness),
    /// The maximum number of bytes to hold, or `None` for no limit.
    pub memory_limit: Option<usize>,
    /// True if results are emitted in the specified order, and false if any order is acceptable.
    pub ordered: bool,
    /// True if each helper thread that the operator starts is pinned to one processor. An operator
    /// that calls user functions does not pin threads, because any thread that such a function
    /// starts would also be pinned.
    pub pin: bool,
}
