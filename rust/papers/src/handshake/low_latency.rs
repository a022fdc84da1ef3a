//! The steps with which a node of the low-latency handshake join handles a message (Figures 13 and
//! 14).
//!
//! A node passes rows on before it does anything else with them. Only a row's home node keeps the
//! row.

use std::sync::Arc;

use super::message::Message;
use super::node::Core;
use super::predicate::Predicate;

/// The state of a node, except for its rows.
#[derive(Debug, Default)]
pub(super) struct LowLatency {
    /// The expedition of left rows numbered below this has ended.
    ended: u64,
}

impl LowLatency {
    /// Figure 13: handles left rows, the left neighbour's acknowledgement, and the number below
    /// which right rows have expired.
    pub(super) fn handle_left<P: Predicate>(
        &mut self,
        core: &mut Core<P>,
        message: Message<P::Left>,
    ) {
        let Message { rows, seq, passed, opposite } = message;
        // Lines 13 and 14, before the rows of the same message are compared.
        core.acknowledge(passed);
        // Line 7. Right rows that arrive here after these left rows meet them at the next node.
        if core.is_last() {
            core.then.arrive[0] = Some(seq);
        } else {
            core.send_right(Message {
                rows: rows.clone(),
                seq,
                passed: core.right_arrived,
                opposite,
            });
        }
        if let Some(chunk) = rows {
            // Line 8.
            core.finder.left_meets(&chunk, &mut core.right_window);
            core.meet_forwarded(&chunk);
            // Lines 9 and 10.
            if chunk.home == core.number {
                let finder = &core.finder;
                core.left_window.insert(&chunk, |columns| finder.left_values(columns));
            }
            // Lines 11 and 12, immediately. README.md explains why they do not pass through the
            // queue.
            if core.is_last() {
                self.ended = chunk.end();
            }
        }
        // Lines 15 to 20.
        let finder = &core.finder;
        core.right_window.expire(opposite.first, |columns| finder.right_values(columns));
    }

    /// Figure 14: handles right rows. Also handles two numbers: left rows below the first number
    /// have ended their expedition, and left rows below the second number have expired.
    pub(super) fn handle_right<P: Predicate>(
        &mut self,
        core: &mut Core<P>,
        message: Message<P::Right>,
    ) {
        let Message { rows, seq, passed, opposite } = message;
        // Lines 15 to 20, before the rows of the same message are compared.
        self.ended = self.ended.max(passed);
        // Line 7.
        if core.is_first() {
            core.then.arrive[1] = Some(seq);
        } else {
            core.send_left(Message { rows: rows.clone(), seq, passed: self.ended, opposite });
        }
        if let Some(chunk) = rows {
            // Lines 8 and 9: a left row in expedition meets these rows later in the chain.
            core.finder.right_meets(&chunk, &mut core.left_window, self.ended);
            // Line 14: the next message to the right contains the acknowledgement.
            core.right_arrived = chunk.end();
            if chunk.home == core.number {
                // Lines 12 and 13.
                let finder = &core.finder;
                core.right_window.insert(&chunk, |columns| finder.right_values(columns));
            } else if chunk.home < core.number {
                // Lines 10 and 11: these rows are fresh.
                core.forwarded.push_back(Arc::clone(&chunk));
            }
        }
        // Lines 21 to 26.
        let finder = &core.finder;
        core.left_window.expire(opposite.first, |columns| finder.left_values(columns));
    }
}
