//! The steps with which a node of the original handshake join handles a message.
//!
//! Each node keeps the rows in its share of the window and passes rows on when newer rows arrive.
//! At any time, the rows in each side's window are divided evenly among the nodes, and the oldest
//! rows have moved farthest. An expired row leaves at the end of the chain. By then, the row has
//! passed all rows on the other side that it can match.

use std::sync::Arc;

use super::message::Message;
use super::node::Core;
use super::predicate::Predicate;
use super::window::Span;

/// The state of a node, except for its rows.
#[derive(Debug, Default)]
pub(super) struct Original {
    /// The rows on each side that are still in the window, as reported by the last message.
    spans: [Span; 2],
    /// Left rows that precede this position in merged order have left the chain at this node.
    gone: u64,
}

impl Original {
    /// Handles left rows that move to this node. Also handles an update about which right rows are
    /// still in the window.
    pub(super) fn handle_left<P: Predicate>(
        &mut self,
        core: &mut Core<P>,
        message: Message<P::Left>,
    ) {
        let Message { rows, seq, passed, opposite } = message;
        core.acknowledge(passed);
        self.spans[1] = opposite;
        if let Some(chunk) = rows {
            core.finder.left_meets(&chunk, &mut core.right_window);
            core.meet_forwarded(&chunk);
            core.left_window.insert(&chunk, |_| &[]);
        }
        // Left rows rest at node 0 first.
        let moving = self.spans[0].oldest(core.nodes - 1 - core.number, core.nodes);
        if core.is_last() {
            if let Some(last) = core.left_window.expire(moving, |_| &[]) {
                self.gone = last.seq() + 1;
            }
            core.then.arrive[0] = Some(seq);
            core.then.gone = self.gone;
        } else {
            let rows = core.left_window.take(moving).map(Arc::new);
            core.then.send_right =
                Some(Message { rows, seq, passed: core.right_arrived, opposite });
        }
    }

    /// Handles right rows that move to this node. Also handles an update about which left rows are
    /// still in the window.
    pub(super) fn handle_right<P: Predicate>(
        &mut self,
        core: &mut Core<P>,
        message: Message<P::Right>,
    ) {
        let Message { rows, seq, passed, opposite } = message;
        self.spans[0] = opposite;
        if let Some(chunk) = rows {
            core.finder.right_meets(&chunk, &mut core.left_window, u64::MAX);
            core.right_arrived = chunk.end();
            core.right_window.insert(&chunk, |_| &[]);
        }
        let moving = self.spans[1].oldest(core.number, core.nodes);
        if core.is_first() {
            core.right_window.expire(moving, |_| &[]);
            core.then.arrive[1] = Some(seq);
        } else {
            let rows = core.right_window.take(moving).map(Arc::new);
            core.forwarded.extend(rows.clone());
            core.then.send_left = Some(Message { rows, seq, passed, opposite });
        }
    }
}
