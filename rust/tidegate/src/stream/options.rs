//! The options of joins of streams.

use super::lateness::Lateness;

/// The options of a streaming join, beside the query.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The number of left and of right sources. A stream that is joined with itself has no right
    /// ones.
    pub sources: (usize, usize),
    /// How far the rows of a left and of a right source may be out of order.
    pub lateness: (Lateness, Lateness),
    /// Bytes that may be held; no limit if none is said.
    pub memory_limit: Option<usize>,
    /// Whether results come in the contract's order, or in any.
    pub ordered: bool,
    /// Whether each helper thread that the operator starts is pinned to one processor. An operator
    /// that calls user functions does not pin threads, because any thread that such a function
    /// starts would also be pinned.
    pub pin: bool,
}
