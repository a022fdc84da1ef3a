//! The source side of the row gate: `addTuple`.

use std::fmt;
use std::marker::PhantomData;

use tidegate_sync::OnceLink;
use tidegate_sync::atomic::Arc;

use super::node::{ChainEnd, Hold, LEVELS, Node, NodePtr, PassedNodes, Segment};
use super::reclaim::GateState;
use tidegate_structures::gate::promise::{Fork, PromiseCell};
use tidegate_structures::gate::{Key, MAX_SOURCES, NotSync, Rank, RowId};
use tidegate_structures::gate::{Rejection, TooManySources};

/// In deciding when to check for memory that can be freed, a dropped source counts as this many
/// nodes. The number is large enough for the source's rows to be freed eventually. The number is
/// small enough that dropping 60 000 sources does not cause 60 000 checks of every source.
const NODES_OF_A_SOURCE: usize = 16;

/// The position of a source in the list.
pub(super) struct ListPlace<T> {
    /// The time that the source has promised.
    promised: i64,
    /// The number of levels on which the source has a finger.
    levels: usize,
    /// On each level, the last node found that sorts before the source's next row: the paper's
    /// `update`. Fingers on lower levels are at the same or later positions.
    fingers: [Finger<T>; LEVELS],
}

impl<T> ListPlace<T> {
    /// Creates a position at the head of the list.
    pub(super) fn at(head: NodePtr<T>) -> Self {
        ListPlace { promised: i64::MIN, levels: LEVELS, fingers: [Finger::at(head); LEVELS] }
    }

    fn top(&self) -> NodePtr<T> {
        self.fingers[self.levels - 1].node
    }
}

/// A position on one level, together with the values that searches need most often.
struct Finger<T> {
    node: NodePtr<T>,
    key: Key,
    /// The key of the next node at the time the finger was set, or `FIRST` if there was none. Other
    /// nodes may have been inserted in between since then.
    next: Key,
}

impl<T> Finger<T> {
    /// Creates a finger at the head of the list, or at another node whose successor is unknown.
    fn at(node: NodePtr<T>) -> Self {
        Finger { node, key: Key::FIRST, next: Key::FIRST }
    }
}

impl<T> Clone for Finger<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Finger<T> {}

impl<T> Clone for ListPlace<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ListPlace<T> {}

/// A feeder of the gate. Dropping a source closes it.
///
/// A source can be moved to another thread. However, it has a single position in the list, so two
/// threads cannot use it at the same time.
pub struct Source<T: Send + Sync> {
    shared: Arc<GateState<T>>,
    number: u16,
    position: u64,
    place: ListPlace<T>,
    /// The hold, which is at `held`.
    hold: Arc<Hold<T>>,
    /// The topmost finger's position at the end of the last `find`.
    held: NodePtr<T>,
    cell: Arc<PromiseCell>,
    last_fork: Option<Arc<Fork>>,
    /// Created with the first row.
    chain: Option<ChainEnd<T>>,
    heights: Heights,
    not_sync: NotSync,
}

// SAFETY: a source is a position in a list of payloads that other threads read and drop.
unsafe impl<T: Send + Sync> Send for Source<T> {}

impl<T: Send + Sync> Source<T> {
    pub(super) fn new(
        shared: &Arc<GateState<T>>,
        number: u16,
        cell: Arc<PromiseCell>,
        place: ListPlace<T>,
    ) -> Self {
        let hold = shared.hold(place.top(), PassedNodes::none());
        Source {
            shared: shared.clone(),
            number,
            position: 0,
            place,
            hold,
            held: place.top(),
            cell,
            last_fork: None,
            chain: None,
            heights: Heights::of(number),
            not_sync: PhantomData,
        }
    }

    /// Returns the number of the source. Rows with equal `ts` are sorted by this number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the time that the source has promised. No subsequent row may have an earlier time.
    pub fn promised(&self) -> i64 {
        self.place.promised
    }

    /// Adds a row: `addTuple`.
    ///
    /// If the row is earlier than the source's promise or memory runs out, this method returns the
    /// row and leaves the gate unchanged.
    #[inline]
    pub fn push(&mut self, ts: i64, payload: T) -> Result<(), Rejection<T>> {
        if ts < self.place.promised {
            return Err(Rejection::Late { ts, promised: self.place.promised, row: payload });
        }
        if let Err(overrun) = self.make_room() {
            return Err(Rejection::Full { overrun, row: payload });
        }
        let height = if self.place.levels < LEVELS { LEVELS } else { self.heights.next() }; // L47
        let key = Key { ts, id: RowId::new(self.number, self.position) };
        let chain = self.chain.as_mut().expect("there is room for the node");
        let node = chain.node(key, payload, height); // L49
        self.find(key); // L50-56
        for level in 0..node.height() {
            self.insert(level, node); // L57-58
        }
        self.place.levels = self.place.levels.max(node.height());
        self.position += 1;
        self.promise(ts); // L59
        Ok(())
    }

    /// Promises that no later row has a `ts` below this one. If a previous promise was higher, it
    /// remains in effect.
    ///
    /// A source without new rows holds back the rows from all other sources. After this promise,
    /// rows from other sources before `ts` no longer have to wait for this source.
    pub fn advance(&mut self, ts: i64) {
        if ts > self.place.promised {
            // Rows up to `ts` can be passed from now on, so the fingers must not hold them back.
            self.find(Key { ts, id: RowId::new(self.number, self.position) });
            if self.shared.budget.is_short() {
                self.let_go();
            }
            self.promise(ts);
        }
    }

    /// Promises that no more rows will follow. Dropping the source has the same effect as this
    /// promise.
    pub fn close(self) {}

    /// Creates another source. The new source starts with this source's promise.
    ///
    /// The new source receives the gate's next unused source number. If several threads fork
    /// sources at the same time, the numbers follow the order of the calls. Fork from a single
    /// thread if rows with equal `ts` must sort the same way in every run.
    pub fn fork(&mut self) -> Result<Source<T>, TooManySources> {
        let number = self.shared.number();
        if number >= MAX_SOURCES {
            return Err(TooManySources);
        }
        let cell = Arc::new(PromiseCell::new(self.place.promised));
        let source = Source::new(&self.shared, number as u16, cell.clone(), self.place);
        let next = OnceLink::default();
        let (rank, from) = (Rank::from(number as u16), self.place.promised);
        let fork = Arc::new(Fork { rank, from, cell, next });
        let link = self.last_fork.as_ref().map_or(&self.cell.first_fork, |last| &last.next);
        link.set(fork.clone()).expect("only the source links its forks");
        self.last_fork = Some(fork);
        Ok(source)
    }

    /// Allocates memory for the next node if there is none.
    #[inline]
    fn make_room(&mut self) -> Result<(), tidegate_sync::Overrun> {
        match &self.chain {
            Some(chain) => match chain.wants() {
                None => Ok(()),
                Some(nodes) => self.grow(nodes),
            },
            None => self.grow(Segment::<T>::grown(0)),
        }
    }

    #[cold]
    fn grow(&mut self, nodes: usize) -> Result<(), tidegate_sync::Overrun> {
        self.shared.took(nodes);
        let bytes = Segment::<T>::bytes(nodes);
        let charge = self.shared.budget.charge(bytes).or_else(|_| {
            self.let_go();
            self.shared.reclaim();
            self.shared.budget.charge(bytes)
        })?;
        if let Some(chain) = &mut self.chain {
            chain.grow(nodes, charge);
            return Ok(());
        }
        let (chain, passed) = ChainEnd::new(nodes, charge);
        self.chain = Some(chain);
        // The reclaimer learns of the segments through a new hold. The old one is given up
        // afterwards.
        let hold = self.shared.hold(self.held, passed);
        std::mem::replace(&mut self.hold, hold).give_up();
        Ok(())
    }

    /// Gives up the fingers on the upper levels, because they prevent memory from being freed.
    ///
    /// The source's next row is linked on all levels, and all fingers restart from there.
    #[cold]
    fn let_go(&mut self) {
        self.place.levels = 1;
        self.hold_top();
    }

    /// Moves the hold to the topmost finger.
    #[inline]
    fn hold_top(&mut self) {
        let top = self.place.top();
        if !self.held.is(top) {
            self.held = top;
            self.hold.move_to(top);
        }
    }

    /// Moves the fingers to the last nodes that sort before `key`.
    #[inline]
    fn find(&mut self, key: Key) {
        // SAFETY: the source's hold is at the position of the topmost finger at the end of the last
        // `find`. Fingers only move forward, and higher ones are no later than lower ones (F1).
        let mut from: Option<&Node<T>> = None;
        for level in (0..self.place.levels).rev() {
            let finger = &mut self.place.fingers[level];
            // Use the node found above if it is later than the finger.
            let start = from.filter(|from| from.key() > finger.key);
            if level > 0 && start.is_none() && finger.next >= key {
                // Nearer nodes on this level would only make the search shorter.
                continue;
            }
            // SAFETY: as above.
            let mut at = start.unwrap_or_else(|| unsafe { finger.node.get() });
            let next = loop {
                match at.next(level) {
                    Some(next) if next.key() < key => at = next,
                    Some(next) => break next.key(),
                    None => break Key::FIRST,
                }
            };
            *finger = Finger { node: NodePtr::of(at), key: at.key(), next };
            from = Some(at);
        }
        self.hold_top();
    }

    /// Links `node` on `level`, directly after the finger or, if other threads were faster, further
    /// on: `levelinsert`.
    #[inline]
    fn insert(&mut self, level: usize, node: &Node<T>) {
        let mut follows = Key::FIRST;
        // On a level without a finger, the node has no predecessor and no successor. The levels
        // above the lowest are shortcuts and need not lead to every node that is tall enough.
        if level < self.place.levels {
            // SAFETY: as in `find`.
            let mut from = unsafe { self.place.fingers[level].node.get() };
            loop {
                match from.next(level) {
                    Some(next) if next.key() < node.key() => from = next, // L67
                    next => {
                        node.prepare(level, next); // L65
                        if from.insert_after(level, next, node) {
                            follows = next.map_or(Key::FIRST, Node::key);
                            break; // L66
                        }
                    }
                }
            }
        }
        self.place.fingers[level] =
            Finger { node: NodePtr::of(node), key: node.key(), next: follows };
    }

    /// Makes the source's promise visible to readers.
    #[inline]
    fn promise(&mut self, ts: i64) {
        if ts > self.place.promised {
            self.place.promised = ts;
            self.cell.raise(ts);
        }
    }
}

impl<T: Send + Sync> Drop for Source<T> {
    fn drop(&mut self) {
        self.cell.close();
        self.hold.give_up();
        self.shared.took(NODES_OF_A_SOURCE);
    }
}

impl<T: Send + Sync> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("number", &self.number)
            .field("position", &self.position)
            .field("promised", &self.place.promised)
            .finish_non_exhaustive()
    }
}

/// The heights of a source's nodes. Each further level is added with a probability of 1/4, and
/// every run generates the same heights.
struct Heights(u64);

impl Heights {
    /// Uses a different seed for every source. If all sources used the same heights, the tall nodes
    /// of sources with equal rates would be adjacent.
    fn of(source: u16) -> Self {
        Heights((u64::from(source) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// `getLevelHeight`, by Marsaglia's xorshift.
    #[inline]
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (1 + self.0.trailing_zeros() as usize / 2).min(LEVELS)
    }
}
