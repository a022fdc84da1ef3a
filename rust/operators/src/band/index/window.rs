//! Determines which earlier rows on the other side a row can match.

use super::codes::CodeColumns;
use crate::rows::{Retention, RowLog};

/// The oldest row in the window of a side. The edge only moves forward.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowEdge(pub(super) u64);

impl WindowEdge {
    /// Moves the edge forward to the oldest row of `log` that a row at `now` can match. `next` is
    /// the number of the side's next row.
    #[inline]
    pub(super) fn advance(
        &mut self,
        window: Retention,
        log: &RowLog<CodeColumns>,
        next: u64,
        now: i64,
    ) -> u64 {
        let length = window.length(log.side());
        match window {
            Retention::Rows { .. } => self.0 = self.0.max(next.saturating_sub(length)),
            Retention::Time { .. } => {
                let has_left = |ts: i64| ts < now && now.abs_diff(ts) > length;
                while self.0 < next && log.ts(self.0).is_some_and(has_left) {
                    self.0 += 1;
                }
            }
        }
        self.0
    }
}
