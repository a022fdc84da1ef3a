//! The row gate's memory: nodes, their segments, and the links between them.
//!
//! This file contains all pointer arithmetic and most of the gate's unsafe code. A node is kept
//! alive by a [`Hold`], which is a pointer that the reclaimer can see. The owner of the hold
//! promises not to access any nodes before it. The numbers in brackets are the invariants of
//! README.md.

use std::mem::MaybeUninit;
use std::ptr;

use tidegate_sync::atomic::{AtomicPtr, AtomicUsize, Ordering, RaceCell};
use tidegate_sync::{CachePadded, Charge};

use tidegate_structures::gate::Key;

/// The number of levels of the list. Each level has a quarter as many nodes as the level below it,
/// so each step on the top level skips 4^5 = 1 024 rows on average. A source keeps the memory from
/// its position on the top level onwards, so additional levels would keep more memory.
pub(super) const LEVELS: usize = if cfg!(any(loom, tidegate_stress)) { 2 } else { 6 };

/// The number of nodes in a source's first segment, and the maximum number in a segment. Even
/// 10 000 sources with one row each should use little memory, and busy sources should rarely
/// allocate.
const FIRST_SEGMENT: usize = if cfg!(any(loom, tidegate_stress)) { 1 } else { 8 };
const LARGEST_SEGMENT: usize = if cfg!(any(loom, tidegate_stress)) { 1 } else { 256 };

/// A row in the list.
pub(super) struct Node<T> {
    /// The key, which is written before the node is linked. With the checked cell, loom detects
    /// nodes that are linked before they are written or read after they are freed.
    key: RaceCell<Key>,
    /// The payload, which is written before the node is linked, and dropped by the thread that
    /// frees the segment. The head has no payload.
    payload: RaceCell<MaybeUninit<T>>,
    /// The number of levels that this node has, from 1 to `LEVELS`.
    height: u8,
    /// The next node on level 0. The sources write this link. Once the link is set, it only ever
    /// changes to an earlier node.
    next: Link<T>,
    /// The links of levels `1..height`, in the same segment.
    tower: *const Link<T>,
}

type Link<T> = AtomicPtr<Node<T>>;

/// A pointer that is kept from one call to the next. The node that it points to may have been
/// freed.
pub(super) struct NodePtr<T>(*const Node<T>);

impl<T> Clone for NodePtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for NodePtr<T> {}

impl<T> NodePtr<T> {
    pub(super) fn of(node: &Node<T>) -> Self {
        NodePtr(node)
    }

    /// Returns the node.
    ///
    /// # Safety
    ///
    /// Throughout `'a`, a hold at or before this node must be visible to the gate's reclaimer.
    #[inline]
    pub(super) unsafe fn get<'a>(self) -> &'a Node<T> {
        debug_assert!(!self.0.is_null());
        // SAFETY: a node at or after a hold is not freed (H1). The thread obtained the pointer
        // through an Acquire load, so the node is seen completely initialized.
        unsafe { &*self.0 }
    }

    #[inline]
    pub(super) fn is(self, other: Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl<T> Node<T> {
    /// Creates a node without a payload that precedes all rows on every level.
    pub(super) fn head() -> Box<Head<T>> {
        let mut head = Box::new(Head {
            node: Node {
                key: RaceCell::new(Key::FIRST),
                payload: RaceCell::new(MaybeUninit::uninit()),
                height: LEVELS as u8,
                next: Link::new(ptr::null_mut()),
                tower: ptr::null(),
            },
            tower: (1..LEVELS).map(|_| Link::new(ptr::null_mut())).collect(),
        });
        head.node.tower = head.tower.as_ptr();
        head
    }

    #[inline]
    pub(super) fn key(&self) -> Key {
        // SAFETY: the key was written before the node was linked (L1), and not afterwards.
        self.key.with(|key| unsafe { *key })
    }

    #[inline]
    pub(super) fn height(&self) -> usize {
        usize::from(self.height)
    }

    /// Returns the row's payload.
    ///
    /// # Safety
    ///
    /// The node is not the head.
    #[inline]
    pub(super) unsafe fn payload(&self) -> &T {
        // SAFETY: every node except the head was linked after its payload had been written (L1).
        // The payload is dropped only when the node is freed, which `&self` rules out.
        self.payload.with(|payload| unsafe { (*payload).assume_init_ref() })
    }

    #[inline]
    fn link(&self, level: usize) -> &Link<T> {
        if level == 0 {
            return &self.next;
        }
        debug_assert!(level < self.height());
        // SAFETY: the tower has `height - 1` links (N1), in the node's own segment.
        unsafe { &*self.tower.add(level - 1) }
    }

    /// Returns the next node on `level`, which must be below the node's height.
    #[inline]
    pub(super) fn next(&self, level: usize) -> Option<&Node<T>> {
        // Acquire: pairs with the Release of `insert_after`, so the node is seen completely
        // initialized.
        let next = self.link(level).load(Ordering::Acquire);
        // SAFETY: links lead forward (L2). A borrowed node is at or after a hold, so later nodes
        // are not freed either while it is borrowed (H1).
        let next = unsafe { next.as_ref() };
        debug_assert!(next.is_none_or(|next| self.key() <= next.key()));
        next
    }

    /// Sets this node's link on `level` to `next`. The node must not be reachable on that level
    /// yet.
    #[inline]
    pub(super) fn prepare(&self, level: usize, next: Option<&Node<T>>) {
        // Relaxed: published by the Release of `insert_after`.
        self.link(level).store(pointer(next), Ordering::Relaxed);
    }

    /// Inserts `node` after this node on `level`, provided that `next` is still this node's
    /// successor on that level.
    #[inline]
    pub(super) fn insert_after(
        &self,
        level: usize,
        next: Option<&Node<T>>,
        node: &Node<T>,
    ) -> bool {
        debug_assert!(self.key() <= node.key() && next.is_none_or(|next| node.key() < next.key()));
        // Release: publishes the node's key, payload and links up to `level` (L1) to the Acquire of
        // `next`. Relaxed on failure: the link is read again before it is followed.
        self.link(level)
            .compare_exchange(
                pointer(next),
                pointer(Some(node)),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}

fn pointer<T>(node: Option<&Node<T>>) -> *mut Node<T> {
    node.map_or(ptr::null_mut(), |node| ptr::from_ref(node).cast_mut())
}

/// The head node with its tower.
pub(super) struct Head<T> {
    pub(super) node: Node<T>,
    tower: Box<[Link<T>]>,
}

/// The nodes of one source, handed out from first to last and freed together.
pub(super) struct Segment<T> {
    nodes: Box<[RaceCell<MaybeUninit<Node<T>>>]>,
    /// The links of the nodes' towers, handed out from first to last. If the links run out, new
    /// nodes have height 1. Taller nodes only make searches faster.
    tower: Box<[Link<T>]>,
    /// The number of nodes handed out. The source writes this number. The reclaimer reads it once
    /// the segment is full or its source has been dropped.
    filled: AtomicUsize,
    /// The source's next segment. The source sets it only once, when this segment is full.
    next: AtomicPtr<Segment<T>>,
    _charge: Charge,
}

impl<T> Segment<T> {
    /// Returns the size of a segment with `nodes` nodes, in bytes.
    pub(super) fn bytes(nodes: usize) -> usize {
        size_of::<Self>()
            + nodes * size_of::<Node<T>>()
            + Self::tower_links(nodes) * size_of::<Link<T>>()
    }

    /// Returns the number of tower links. A quarter of the nodes have a second link, a sixteenth
    /// have a third, and so on. The expected total is `nodes / 3`.
    fn tower_links(nodes: usize) -> usize {
        (nodes / 2).max(LEVELS - 1)
    }

    /// Returns the number of nodes in the segment that follows a segment with `nodes` nodes. If
    /// `nodes` is 0, returns the number for the first segment.
    pub(super) fn grown(nodes: usize) -> usize {
        (nodes * 2).clamp(FIRST_SEGMENT, LARGEST_SEGMENT)
    }

    fn allocate(nodes: usize, charge: Charge) -> *mut Self {
        Box::into_raw(Box::new(Segment {
            nodes: (0..nodes).map(|_| RaceCell::new(MaybeUninit::uninit())).collect(),
            tower: (0..Self::tower_links(nodes)).map(|_| Link::new(ptr::null_mut())).collect(),
            filled: AtomicUsize::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            _charge: charge,
        }))
    }

    fn is_full(&self) -> bool {
        // Relaxed: the calling thread has written it, or the segment's end publishes it.
        self.filled.load(Ordering::Relaxed) == self.nodes.len()
    }

    /// Returns the key of node `index`, which must have been handed out.
    fn key(&self, index: usize) -> Key {
        // SAFETY: nodes below `filled` have been written (N2).
        self.nodes[index].with(|node| unsafe { (*node).assume_init_ref().key() })
    }
}

impl<T> Drop for Segment<T> {
    fn drop(&mut self) {
        // Relaxed: the segment is held exclusively.
        let filled = self.filled.load(Ordering::Relaxed);
        for node in &self.nodes[..filled] {
            // SAFETY: nodes below `filled` have been written, with their payload (N2). No thread
            // can reach them any more (H1), so the payload is dropped only here.
            node.with_mut(|node| unsafe {
                let node = (*node).assume_init_mut();
                node.key.with_mut(|_| ());
                node.payload.with_mut(|payload| (*payload).assume_init_drop());
            });
        }
    }
}

/// The end at which a source's chain of segments hands out nodes. The source owns this end.
pub(super) struct ChainEnd<T> {
    segment: *mut Segment<T>,
    used_links: usize,
}

/// The other end of the chain, at which segments are freed. The reclaimer owns this end.
pub(super) struct PassedNodes<T> {
    oldest: *mut Segment<T>,
}

// SAFETY: this is the only end of a chain at which nodes are handed out. Their payloads are passed
// to other threads.
unsafe impl<T: Send + Sync> Send for ChainEnd<T> {}
// SAFETY: as for `ChainEnd`; the thread that owns this end drops payloads through it.
unsafe impl<T: Send + Sync> Send for PassedNodes<T> {}

impl<T> ChainEnd<T> {
    /// Creates a chain with one segment of `nodes` nodes, and returns its two ends.
    pub(super) fn new(nodes: usize, charge: Charge) -> (Self, PassedNodes<T>) {
        let segment = Segment::allocate(nodes, charge);
        (ChainEnd { segment, used_links: 0 }, PassedNodes { oldest: segment })
    }

    fn segment(&self) -> &Segment<T> {
        // SAFETY: the last segment of a chain is freed only after its source has been dropped (H2),
        // and this end is part of its source.
        unsafe { &*self.segment }
    }

    /// Returns the number of nodes in the next segment, if a segment has to be added before another
    /// node can be handed out.
    #[inline]
    pub(super) fn wants(&self) -> Option<usize> {
        let segment = self.segment();
        segment.is_full().then(|| Segment::<T>::grown(segment.nodes.len()))
    }

    /// Adds a segment of `nodes` nodes.
    pub(super) fn grow(&mut self, nodes: usize, charge: Charge) {
        debug_assert!(self.segment().is_full());
        let segment = Segment::allocate(nodes, charge);
        // Release: publishes both the full segment and the new one. Pairs with the Acquire in
        // `PassedNodes::free`.
        self.segment().next.store(segment, Ordering::Release);
        self.segment = segment;
        self.used_links = 0;
    }

    /// Hands out a node with `height` levels, or with one level if the tower's links have run out.
    ///
    /// There must be room: [`wants`](Self::wants) must have returned `None`.
    #[inline]
    pub(super) fn node<'a>(&mut self, key: Key, payload: T, height: usize) -> &'a Node<T>
    where
        T: 'a,
    {
        // SAFETY: as in `segment`; the lifetime ends with the source, before its end of the chain.
        let segment = unsafe { &*self.segment };
        // Relaxed: only this thread writes it.
        let index = segment.filled.load(Ordering::Relaxed);
        let links = &segment.tower[self.used_links..];
        let height = if height <= links.len() + 1 { height } else { 1 };
        self.used_links += height - 1;
        let node = Node {
            key: RaceCell::new(key),
            payload: RaceCell::new(MaybeUninit::new(payload)),
            height: height as u8,
            next: Link::new(ptr::null_mut()),
            tower: links.as_ptr(),
        };
        // SAFETY: nodes from `filled` onwards have not been handed out yet (N2).
        let node = segment.nodes[index].with_mut(|place| unsafe { (*place).write(node) });
        // Relaxed: published by the Release of `grow`, or of the hold that the source gives up.
        segment.filled.store(index + 1, Ordering::Relaxed);
        node
    }
}

impl<T> PassedNodes<T> {
    /// Returns the end of an empty chain, for a handle that has no nodes.
    pub(super) fn none() -> Self {
        PassedNodes { oldest: ptr::null_mut() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.oldest.is_null()
    }

    /// Frees the segments whose rows all sort before `low`. The last segment is freed only after
    /// the source has been dropped.
    ///
    /// # Safety
    ///
    /// No hold is before `low`. If `gone` is true, the source has given up its end of the chain.
    pub(super) unsafe fn free(&mut self, low: Key, gone: bool) {
        while !self.oldest.is_null() {
            // SAFETY: only this method frees the chain from `oldest` onwards.
            let segment = unsafe { &*self.oldest };
            // Acquire: pairs with the Release of `grow`.
            let next = segment.next.load(Ordering::Acquire);
            // Relaxed: published by the Release of `grow`, or by that of the hold that was given
            // up.
            let filled = if next.is_null() && !gone {
                return;
            } else {
                segment.filled.load(Ordering::Relaxed)
            };
            if filled > 0 && segment.key(filled - 1) >= low {
                return;
            }
            // The segment is unlinked before it is dropped, so a payload that panics does not leave
            // it in the chain.
            let oldest = std::mem::replace(&mut self.oldest, next);
            // SAFETY: `Segment::allocate` boxed the segment. No thread reaches it (H1, H2), and
            // neither does this chain any more.
            drop(unsafe { Box::from_raw(oldest) });
        }
    }
}

/// The position of a gate handle. The handle no longer accesses any earlier nodes.
pub(super) struct Hold<T> {
    /// The held node, or null after the handle has been dropped. Only the handle moves the hold,
    /// and only forward. The reclaimer reads the hold; a stale position only means that less memory
    /// is freed.
    at: CachePadded<AtomicPtr<Node<T>>>,
}

// SAFETY: a hold only lets the reclaimer read the key of a node.
unsafe impl<T: Send + Sync> Send for Hold<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync> Sync for Hold<T> {}

impl<T> Hold<T> {
    pub(super) fn at(node: NodePtr<T>) -> Self {
        Hold { at: CachePadded::new(AtomicPtr::new(node.0.cast_mut())) }
    }

    /// Moves the hold forward to `node`.
    #[inline]
    pub(super) fn move_to(&self, node: NodePtr<T>) {
        // Release: the owner's reads of earlier nodes happened before the nodes are freed. Pairs
        // with the Acquire of `place`.
        self.at.store(node.0.cast_mut(), Ordering::Release);
    }

    /// Holds nothing from now on.
    pub(super) fn give_up(&self) {
        // Release: as in `move_to`.
        self.at.store(ptr::null_mut(), Ordering::Release);
    }

    /// Returns the held node's key, or `None` after the handle has been dropped.
    ///
    /// # Safety
    ///
    /// The caller is currently the gate's only reclaimer.
    pub(super) unsafe fn place(&self) -> Option<Key> {
        // Acquire: pairs with the Release of `move_to` and `give_up`.
        let node = self.at.load(Ordering::Acquire);
        // SAFETY: the hold was here when it was read, it only moves forward, and only the caller
        // frees nodes. So no node at or after it has been freed (H1).
        unsafe { node.as_ref() }.map(Node::key)
    }
}

/// A position in the list that several readers move. The reader that moves the position to a row
/// wins that row.
pub(super) struct SharedPlace<T> {
    /// The row won last. The readers of the group move this position, but only forward.
    at: CachePadded<AtomicPtr<Node<T>>>,
}

// SAFETY: as for `Hold`; it only returns pointers, which are followed under a hold.
unsafe impl<T: Send + Sync> Send for SharedPlace<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync> Sync for SharedPlace<T> {}

impl<T> SharedPlace<T> {
    pub(super) fn at(node: NodePtr<T>) -> Self {
        SharedPlace { at: CachePadded::new(AtomicPtr::new(node.0.cast_mut())) }
    }

    /// Returns a position that was current at some moment during the call.
    #[inline]
    pub(super) fn get(&self) -> NodePtr<T> {
        // Acquire: pairs with the Release of `win`. The node is seen completely initialized, and is
        // never earlier than one that this thread has already seen.
        NodePtr(self.at.load(Ordering::Acquire))
    }

    /// Moves the position from `from` to `next`, unless another reader moved it first.
    #[inline]
    pub(super) fn win(&self, from: NodePtr<T>, next: &Node<T>) -> bool {
        // Release: passes on what this thread has seen of `next`. Relaxed on failure: the position
        // is read again with `get`.
        self.at
            .compare_exchange(
                from.0.cast_mut(),
                pointer(Some(next)),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }
}
