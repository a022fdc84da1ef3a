//! Ready rows that are joined together.

use crate::incremental::Side;

/// Rows in merged order.
#[derive(Clone, Debug, Default)]
pub(super) struct Epoch {
    pub(super) ts: Vec<i64>,
    pub(super) sides: Vec<Side>,
    /// Each row's key, or [`NO_KEY`](crate::interval_join::NO_KEY).
    pub(super) keys: Vec<u32>,
    /// The low bits of each row's number among the rows of its side.
    pub(super) numbers: Vec<u32>,
    /// The replica that has each row's key, as the assignment says.
    pub(super) routes: Vec<u16>,
}

impl Epoch {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ts.len()
    }

    pub(super) fn clear(&mut self) {
        self.ts.clear();
        self.sides.clear();
        self.keys.clear();
        self.numbers.clear();
        self.routes.clear();
    }
}
