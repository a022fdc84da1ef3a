//! A node in the chain, with everything that both algorithms share.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_sync::{HighWater, Sender};

use super::finder::{Finder, ResultPair};
use super::local::{Chunk, LocalWindow};
use super::low_latency::LowLatency;
use super::message::{ArrivalMarks, Message, Station};
use super::original::Original;
use super::predicate::{Columns, Predicate};
use super::{HandshakeAlgorithm, MOST_WAITING};
use crate::threads::Turn;

/// A node in the chain, which is stepped by only one thread at a time.
#[derive(Debug)]
pub struct Node<P: Predicate> {
    pub(super) core: Core<P>,
    behaviour: Behaviour,
}

#[derive(Debug)]
enum Behaviour {
    LowLatency(LowLatency),
    Original(Original),
}

/// A node in the chain, with its position, its rows and its results.
#[derive(Debug)]
pub(super) struct Core<P: Predicate> {
    /// The number of the node, counted from the left.
    pub(super) number: usize,
    pub(super) nodes: usize,
    rightward: Station<P::Left>,
    leftward: Station<P::Right>,
    /// The marks for left and right messages. The last node raises the marks for left messages, and
    /// the first node raises those for right messages.
    arrived: [Arc<ArrivalMarks>; 2],
    outlet: Outlet,
    /// True if a message has ended at this node.
    has_arrived: bool,
    pub(super) finder: Finder<P>,
    pub(super) left_window: LocalWindow<P::Left>,
    pub(super) right_window: LocalWindow<P::Right>,
    /// Right rows that were passed on but may not have arrived at the left neighbour yet.
    pub(super) forwarded: VecDeque<Arc<Chunk<P::Right>>>,
    /// All right rows numbered below this have arrived at this node.
    pub(super) right_arrived: u64,
    /// The work to do after the results found so far have been sent.
    pub(super) then: Then<P::Left, P::Right>,
}

/// The work to do after the results of a message have been sent.
#[derive(Debug)]
pub(super) struct Then<L, R> {
    pub(super) send_right: Option<Message<L>>,
    pub(super) send_left: Option<Message<R>>,
    /// For each side, the merged-order position of the first row in a message that ends at this
    /// node.
    pub(super) arrive: [Option<u64>; 2],
    /// In the original algorithm, left rows before this position have left the chain.
    pub(super) gone: u64,
}

/// The connection from the node to the collector.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) to: Sender<Vec<ResultPair>>,
    /// The number of results sent.
    pub(super) sent: u64,
    /// The number of results taken. The collector raises this mark.
    pub(super) taken: Arc<HighWater>,
}

impl Outlet {
    /// Sends results, or returns them if too many are waiting.
    fn send(&mut self, found: Vec<ResultPair>) -> Result<(), Vec<ResultPair>> {
        let results = found.len() as u64;
        if self.sent - self.taken.get() >= MOST_WAITING {
            return Err(found);
        }
        self.to.send(found)?;
        self.sent += results;
        Ok(())
    }
}

impl<P: Predicate> Node<P> {
    pub(super) fn new(
        algorithm: HandshakeAlgorithm,
        (number, nodes): (usize, usize),
        predicate: Arc<P>,
        (rightward, leftward): (Station<P::Left>, Station<P::Right>),
        arrived: [Arc<ArrivalMarks>; 2],
        outlet: Outlet,
    ) -> Self {
        let kind = match algorithm {
            HandshakeAlgorithm::LowLatency => predicate.lookup().map(|lookup| lookup.kind()),
            // In this algorithm, rows would leave an index shortly after they were inserted.
            HandshakeAlgorithm::Original => None,
        };
        let core = Core {
            number,
            nodes,
            rightward,
            leftward,
            arrived,
            outlet,
            has_arrived: false,
            finder: Finder::new(predicate),
            left_window: LocalWindow::new(kind),
            right_window: LocalWindow::new(kind),
            forwarded: VecDeque::new(),
            right_arrived: 0,
            then: Then { send_right: None, send_left: None, arrive: [None; 2], gone: 0 },
        };
        let behaviour = match algorithm {
            HandshakeAlgorithm::LowLatency => Behaviour::LowLatency(LowLatency::default()),
            HandshakeAlgorithm::Original => Behaviour::Original(Original::default()),
        };
        Node { core, behaviour }
    }

    /// Handles one message from each side, if there is one (Figure 12).
    pub fn step(&mut self) -> Turn {
        let left = self.step_left();
        let right = self.step_right();
        if left || right { Turn::Worked } else { Turn::Waiting }
    }

    /// Handles a message from the left, if there is one. Returns whether anything was done.
    pub(super) fn step_left(&mut self) -> bool {
        if !self.core.finish() {
            return false;
        }
        let Some(message) = self.core.rightward.from.receive() else { return false };
        match &mut self.behaviour {
            Behaviour::LowLatency(low_latency) => low_latency.handle_left(&mut self.core, message),
            Behaviour::Original(original) => original.handle_left(&mut self.core, message),
        }
        self.core.finish();
        true
    }

    /// Handles a message from the right, if there is one. Returns whether anything was done.
    pub(super) fn step_right(&mut self) -> bool {
        if !self.core.finish() {
            return false;
        }
        let Some(message) = self.core.leftward.from.receive() else { return false };
        match &mut self.behaviour {
            Behaviour::LowLatency(low_latency) => low_latency.handle_right(&mut self.core, message),
            Behaviour::Original(original) => original.handle_right(&mut self.core, message),
        }
        self.core.finish();
        true
    }

    /// Returns whether any messages have ended at this node since the last call.
    pub(super) fn take_arrived(&mut self) -> bool {
        std::mem::take(&mut self.core.has_arrived)
    }

    /// Returns whether results are waiting for room.
    pub(super) fn is_held_up(&self) -> bool {
        !self.core.finder.found.is_empty()
    }

    /// Returns the number of results that the node has sent.
    pub(super) fn sent(&self) -> u64 {
        self.core.outlet.sent
    }

    /// Returns the number of candidate pairs that the node has examined.
    pub fn comparisons(&self) -> u64 {
        self.core.finder.comparisons
    }

    /// Returns the number of rows that the node keeps, counting both sides.
    pub fn rows(&self) -> usize {
        self.core.left_window.len() + self.core.right_window.len()
    }

    /// Returns the number of bytes that the node uses.
    pub fn memory(&self) -> usize {
        let forwarded =
            |chunk: &Arc<Chunk<P::Right>>| chunk.places.len() * (24 + chunk.columns.row_bytes());
        self.core.left_window.memory()
            + self.core.right_window.memory()
            + self.core.forwarded.iter().map(forwarded).sum::<usize>()
            + self.core.finder.found.capacity() * size_of::<ResultPair>()
    }
}

impl<P: Predicate> Core<P> {
    pub(super) fn is_first(&self) -> bool {
        self.number == 0
    }

    pub(super) fn is_last(&self) -> bool {
        self.number + 1 == self.nodes
    }

    /// Sends the results. Then does the work deferred until this point. Returns `false` if the
    /// results cannot be sent yet; in that case, the node handles no further messages.
    fn finish(&mut self) -> bool {
        let found = &mut self.finder.found;
        if !found.is_empty()
            && let Err(unsent) = self.outlet.send(std::mem::take(found))
        {
            *found = unsent;
            return false;
        }
        if let Some(message) = self.then.send_right.take() {
            self.send_right(message);
        }
        if let Some(message) = self.then.send_left.take() {
            self.send_left(message);
        }
        for (arrived, seq) in self.arrived.iter().zip(&mut self.then.arrive) {
            if let Some(seq) = seq.take() {
                self.has_arrived = true;
                arrived.gone.raise(self.then.gone);
                arrived.seq.raise(seq);
                arrived.messages.raise(arrived.messages.get() + 1);
            }
        }
        true
    }

    pub(super) fn send_right(&mut self, message: Message<P::Left>) {
        self.rightward.to.as_mut().expect("there is a node on the right").send(message);
    }

    pub(super) fn send_left(&mut self, message: Message<P::Right>) {
        self.leftward.to.as_mut().expect("there is a node on the left").send(message);
    }

    /// Compares new left rows with the right rows that were passed on but have not arrived yet.
    pub(super) fn meet_forwarded(&mut self, left: &Chunk<P::Left>) {
        for right in &self.forwarded {
            self.finder.chunks_meet(left, right);
        }
    }

    /// Drops the right rows numbered below `number`, which have arrived at the left neighbour.
    pub(super) fn acknowledge(&mut self, number: u64) {
        while self.forwarded.front().is_some_and(|chunk| chunk.end() <= number) {
            self.forwarded.pop_front();
        }
    }
}
