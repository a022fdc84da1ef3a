//! Which earlier rows of the other side a row may match.

use super::log::Log;
use crate::rows::{Side, Window};

impl Window {
    /// How long rows of a side stay: for so much time, or while so many come after.
    pub(super) fn length(&self, side: Side) -> u64 {
        match (*self, side) {
            (Window::Time { left, .. } | Window::Rows { left, .. }, Side::Left) => left,
            (Window::Time { right, .. } | Window::Rows { right, .. }, Side::Right) => right,
        }
    }
}

/// The oldest row of a side that is in its window, which only rises.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edge(pub(super) u64);

impl Edge {
    /// Moves up to the oldest row of `log` that a row at `now` may match when the side's next row
    /// is `next`.
    #[inline]
    pub(super) fn advance(
        &mut self,
        window: Window,
        side: Side,
        log: &Log,
        next: u64,
        now: i64,
    ) -> u64 {
        let length = window.length(side);
        match window {
            Window::Rows { .. } => self.0 = self.0.max(next.saturating_sub(length)),
            Window::Time { .. } => {
                let has_left = |ts: i64| ts < now && now.abs_diff(ts) > length;
                while self.0 < next && log.ts(self.0).is_some_and(has_left) {
                    self.0 += 1;
                }
            }
        }
        self.0
    }
}
