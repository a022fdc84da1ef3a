//! A node's own thread.

use std::sync::Arc;

use tidegate_structures::memory;
use tidegate_sync::{Lock, atomic};

use super::entry::{FeedEntry, NodeFigures};
use super::node::Node;
use super::predicate::Predicate;
use crate::threads::{Crew, Patience, Turn};

/// A thread reports its figures after this many steps.
const TURN: u64 = if cfg!(any(test, loom)) { 2 } else { 64 };

/// A node that waits for its thread, and the entry of the node's chain.
#[derive(Debug)]
pub(super) struct WaitingNode<P: Predicate> {
    pub(super) node: Node<P>,
    pub(super) entry: atomic::Arc<Lock<FeedEntry<P>>>,
}

/// The slot in which a thread's next node waits.
pub(super) type Next<P> = atomic::Arc<Lock<Option<WaitingNode<P>>>>;

/// A thread's seat in the chain. If the chain is replaced, the thread continues with the node at
/// the same position in the new chain.
#[derive(Debug)]
pub struct Seat<P: Predicate> {
    pub(super) number: usize,
    pub(super) next: Next<P>,
    pub(super) figures: Arc<Vec<NodeFigures>>,
    pub(super) crew: atomic::Arc<Crew>,
}

impl<P: Predicate> Seat<P> {
    /// Steps the node until the crew ends.
    pub fn run(self) {
        self.crew.work(|| self.work());
    }

    fn work(&self) {
        let bell = self.crew.call(self.number);
        let mut patience = Patience::default();
        let (mut steps, mut compared, mut found) = (0_u64, 0, 0);
        let figures = &self.figures[self.number];
        let tell = |node: &Node<P>, compared: &mut u64| {
            figures.compared.add((node.comparisons() - *compared) as usize);
            figures.memory.set(node.memory());
            *compared = node.comparisons();
        };
        let Some(WaitingNode { mut node, mut entry }) = self.next.with(Option::take) else {
            panic!("a thread starts with a node")
        };
        while !self.crew.is_over() {
            let turn = node.step();
            if node.sent() > found {
                figures.found.add((node.sent() - found) as usize);
                found = node.sent();
            }
            // Messages have left the chain, so there is room for others.
            if node.take_arrived() && entry.with(FeedEntry::go_on) {
                self.crew.told().ring();
            }
            if turn == Turn::Worked {
                patience.renew();
                steps += 1;
                if steps.is_multiple_of(TURN) {
                    tell(&node, &mut compared);
                    memory::check();
                }
                continue;
            }
            if !patience.wait(bell) {
                continue;
            }
            tell(&node, &mut compared);
            if node.is_held_up() {
                // The caller needs to take the node's results.
                self.crew.told().ring();
            } else if let Some(next) = self.next.with(Option::take) {
                // A chain is replaced only when nothing is in flight.
                WaitingNode { node, entry } = next;
                (compared, found) = (0, 0);
                patience.renew();
            }
        }
    }
}
