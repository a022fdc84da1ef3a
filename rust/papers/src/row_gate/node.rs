//! Memory of the row gate: nodes, the segments they lie in, and the links between them.
//!
//! All pointer arithmetic and most of the gate's unsafe code is here. A node is kept alive by a
//! [`Hold`]: a pointer, public to the reclaimer, before which its owner promises not to look. The
//! numbers in brackets are the invariants of README.md.

use std::mem::MaybeUninit;
use std::ptr;

use tidegate_sync::atomic::{AtomicPtr, AtomicUsize, Ordering, RaceCell};
use tidegate_sync::{CachePadded, Charge};

use tidegate_structures::gate::Key;

/// Levels of the list. With a quarter of the nodes on each next level, the top one is walked in
/// steps of 4^5 = 1 024 rows; and as a source holds memory back to its place on that level, more
/// levels would hold more of it.
pub(super) const LEVELS: usize = if cfg!(any(loom, tidegate_stress)) { 2 } else { 6 };

/// Nodes in a source's first segment and in its largest: 10 000 sources with a row each should cost
/// little, and a busy source should seldom ask for memory.
const FIRST_SEGMENT: usize = if cfg!(any(loom, tidegate_stress)) { 1 } else { 8 };
const LARGEST_SEGMENT: usize = if cfg!(any(loom, tidegate_stress)) { 1 } else { 256 };

/// A row in the list.
pub(super) struct Node<T> {
    /// Written before the node is linked. In a checked cell for loom's sake, which sees through it
    /// whether a node is linked before it is written, or read after it is freed.
    key: RaceCell<Key>,
    /// Written before the node is linked, and dropped by the thread that frees the segment. None in
    /// the head.
    payload: RaceCell<MaybeUninit<T>>,
    /// Levels the node is on, 1 to `LEVELS`.
    height: u8,
    /// The next node on level 0. Written by sources; once not null, only ever led to an earlier
    /// node.
    next: Link<T>,
    /// The links of levels `1..height`, in the same segment.
    tower: *const Link<T>,
}

type Link<T> = AtomicPtr<Node<T>>;

/// A node that may be gone: a pointer kept from one call to the next.
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

    /// The node.
    ///
    /// # Safety
    ///
    /// Throughout `'a` a hold of the gate, known to its reclaimer, stands at this node or before
    /// it.
    #[inline]
    pub(super) unsafe fn get<'a>(self) -> &'a Node<T> {
        debug_assert!(!self.0.is_null());
        // SAFETY: a node at or after a hold is not freed (H1), and a thread that has its pointer
        // came by it through an Acquire load, so the node is seen whole.
        unsafe { &*self.0 }
    }

    #[inline]
    pub(super) fn is(self, other: Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl<T> Node<T> {
    /// A node before all rows, on all levels, without a payload.
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
        // SAFETY: written before the node was linked (L1), and not after.
        self.key.with(|key| unsafe { *key })
    }

    #[inline]
    pub(super) fn height(&self) -> usize {
        usize::from(self.height)
    }

    /// The row's payload.
    ///
    /// # Safety
    ///
    /// The node is not the head.
    #[inline]
    pub(super) unsafe fn payload(&self) -> &T {
        // SAFETY: every node but the head was linked with its payload written (L1), and the payload
        // is dropped only when the node is freed, which `&self` excludes.
        self.payload.with(|payload| unsafe { (*payload).assume_init_ref() })
    }

    #[inline]
    fn link(&self, level: usize) -> &Link<T> {
        if level == 0 {
            return &self.next;
        }
        debug_assert!(level < self.height());
        // SAFETY: the tower holds `height - 1` links (N1), in the node's own segment.
        unsafe { &*self.tower.add(level - 1) }
    }

    /// The next node on `level`, which must be below the node's height.
    #[inline]
    pub(super) fn next(&self, level: usize) -> Option<&Node<T>> {
        // Acquire: pairs with the Release of `insert_after`; the node that is found is seen whole.
        let next = self.link(level).load(Ordering::Acquire);
        // SAFETY: links lead forward (L2), and a borrowed node stands at or after a hold, so what
        // comes after it is not freed either while it is borrowed (H1).
        let next = unsafe { next.as_ref() };
        debug_assert!(next.is_none_or(|next| self.key() <= next.key()));
        next
    }

    /// Makes `level` of this node, which is not reachable there yet, lead to `next`.
    #[inline]
    pub(super) fn prepare(&self, level: usize, next: Option<&Node<T>>) {
        // Relaxed: published by the Release of `insert_after`.
        self.link(level).store(pointer(next), Ordering::Relaxed);
    }

    /// Puts `node` after this one on `level` if `next` still follows it there.
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

/// Nodes of one source, given out from the first to the last and freed together.
pub(super) struct Segment<T> {
    nodes: Box<[RaceCell<MaybeUninit<Node<T>>>]>,
    /// Links of the nodes' towers, given out from the first to the last. When they run out, nodes
    /// are of height 1: heights only make searches short.
    tower: Box<[Link<T>]>,
    /// Nodes given out. Written by the source, read by the reclaimer once the segment is full or
    /// its source gone.
    filled: AtomicUsize,
    /// The source's next segment. Written once, by the source, when this one is full.
    next: AtomicPtr<Segment<T>>,
    _charge: Charge,
}

impl<T> Segment<T> {
    /// Bytes of a segment of `nodes` nodes.
    pub(super) fn bytes(nodes: usize) -> usize {
        size_of::<Self>()
            + nodes * size_of::<Node<T>>()
            + Self::tower_links(nodes) * size_of::<Link<T>>()
    }

    /// A quarter of the nodes have a second link, a sixteenth a third, and so on: a third in all.
    fn tower_links(nodes: usize) -> usize {
        (nodes / 2).max(LEVELS - 1)
    }

    /// How many nodes the segment after one of `nodes` nodes has; after none, the first.
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
        // Relaxed: written by the thread that asks, or published with the segment's end.
        self.filled.load(Ordering::Relaxed) == self.nodes.len()
    }

    /// The key of node `index`, which must have been given out.
    fn key(&self, index: usize) -> Key {
        // SAFETY: nodes below `filled` are written (N2).
        self.nodes[index].with(|node| unsafe { (*node).assume_init_ref().key() })
    }
}

impl<T> Drop for Segment<T> {
    fn drop(&mut self) {
        // Relaxed: the segment is held exclusively.
        let filled = self.filled.load(Ordering::Relaxed);
        for node in &self.nodes[..filled] {
            // SAFETY: nodes below `filled` are written, with their payload (N2), and nobody can
            // reach them any more (H1), so this is the one time that the payload is dropped.
            node.with_mut(|node| unsafe {
                let node = (*node).assume_init_mut();
                node.key.with_mut(|_| ());
                node.payload.with_mut(|payload| (*payload).assume_init_drop());
            });
        }
    }
}

/// The end of a source's chain of segments at which nodes are given out; the source has it.
pub(super) struct ChainEnd<T> {
    segment: *mut Segment<T>,
    used_links: usize,
}

/// The other end of the chain, at which segments are freed; the reclaimer has it.
pub(super) struct PassedNodes<T> {
    oldest: *mut Segment<T>,
}

// SAFETY: this is the only end of a chain at which nodes are given out; their payloads go to other
// threads.
unsafe impl<T: Send + Sync> Send for ChainEnd<T> {}
// SAFETY: as for `ChainEnd`; payloads are dropped through it on whatever thread has it.
unsafe impl<T: Send + Sync> Send for PassedNodes<T> {}

impl<T> ChainEnd<T> {
    /// A chain of one segment of `nodes` nodes, and its two ends.
    pub(super) fn new(nodes: usize, charge: Charge) -> (Self, PassedNodes<T>) {
        let segment = Segment::allocate(nodes, charge);
        (ChainEnd { segment, used_links: 0 }, PassedNodes { oldest: segment })
    }

    fn segment(&self) -> &Segment<T> {
        // SAFETY: the last segment of a chain is freed only once its source is gone (H2), and this
        // end is a part of its source.
        unsafe { &*self.segment }
    }

    /// Nodes that the next segment should have, if one is needed before the next node.
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

    /// Gives out a node of `height` levels, or of one if the tower's links have run out.
    ///
    /// There must be room: [`wants`](Self::wants) gave `None`.
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
        // SAFETY: nodes from `filled` on are given out to nobody yet (N2).
        let node = segment.nodes[index].with_mut(|place| unsafe { (*place).write(node) });
        // Relaxed: published by the Release of `grow`, or of the hold that the source gives up.
        segment.filled.store(index + 1, Ordering::Relaxed);
        node
    }
}

impl<T> PassedNodes<T> {
    /// Of a handle without nodes.
    pub(super) fn none() -> Self {
        PassedNodes { oldest: ptr::null_mut() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.oldest.is_null()
    }

    /// Frees the segments whose rows all sort before `low`; the last one only if the source is
    /// gone.
    ///
    /// # Safety
    ///
    /// No hold stands before `low`, and if `gone`, the source has given up its end of the chain for good.
    pub(super) unsafe fn free(&mut self, low: Key, gone: bool) {
        while !self.oldest.is_null() {
            // SAFETY: the chain from `oldest` on is freed by this method only.
            let segment = unsafe { &*self.oldest };
            // Acquire: pairs with the Release of `grow`.
            let next = segment.next.load(Ordering::Acquire);
            // Relaxed: published by the Release of `grow`, or by that of the hold given up.
            let filled = if next.is_null() && !gone {
                return;
            } else {
                segment.filled.load(Ordering::Relaxed)
            };
            if filled > 0 && segment.key(filled - 1) >= low {
                return;
            }
            // Before it is dropped: a payload that panics then must not find its segment in the
            // chain.
            let oldest = std::mem::replace(&mut self.oldest, next);
            // SAFETY: boxed by `Segment::allocate`, reached by nobody (H1, H2), and no longer by
            // this chain.
            drop(unsafe { Box::from_raw(oldest) });
        }
    }
}

/// The place before which a handle of the gate does not look any more.
pub(super) struct Hold<T> {
    /// A node, or null when the handle is gone. Written by the handle, only forward; read by the
    /// reclaimer, for which a stale place only means that it frees less.
    at: CachePadded<AtomicPtr<Node<T>>>,
}

// SAFETY: a hold gives the reclaimer the key of a node and nothing else.
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
        // Release: what the owner read of earlier nodes happened before they are freed. Pairs with
        // the Acquire of `place`.
        self.at.store(node.0.cast_mut(), Ordering::Release);
    }

    /// Holds nothing from now on.
    pub(super) fn give_up(&self) {
        // Release: as in `move_to`.
        self.at.store(ptr::null_mut(), Ordering::Release);
    }

    /// The key of the node held, or `None` when the handle is gone.
    ///
    /// # Safety
    ///
    /// The caller is the gate's only reclaimer at this time.
    pub(super) unsafe fn place(&self) -> Option<Key> {
        // Acquire: pairs with the Release of `move_to` and `give_up`.
        let node = self.at.load(Ordering::Acquire);
        // SAFETY: the hold stood here when it was read, it only moves forward, and nobody but the
        // caller frees nodes: so none at or after it was freed up to now (H1).
        unsafe { node.as_ref() }.map(Node::key)
    }
}

/// A place in the list that several readers move, each to win the row it moves to.
pub(super) struct SharedPlace<T> {
    /// The row won last. Written by the readers of the group, only forward.
    at: CachePadded<AtomicPtr<Node<T>>>,
}

// SAFETY: as for `Hold`; it gives pointers only, which are followed under a hold.
unsafe impl<T: Send + Sync> Send for SharedPlace<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync> Sync for SharedPlace<T> {}

impl<T> SharedPlace<T> {
    pub(super) fn at(node: NodePtr<T>) -> Self {
        SharedPlace { at: CachePadded::new(AtomicPtr::new(node.0.cast_mut())) }
    }

    /// The place at some moment during the call.
    #[inline]
    pub(super) fn get(&self) -> NodePtr<T> {
        // Acquire: pairs with the Release of `win`; the node is seen whole, and never an earlier
        // one than this thread saw before.
        NodePtr(self.at.load(Ordering::Acquire))
    }

    /// Moves the place from `from` to `next`, unless another reader moved it first.
    #[inline]
    pub(super) fn win(&self, from: NodePtr<T>, next: &Node<T>) -> bool {
        // Release: hands on what this thread knows of `next`. Relaxed on failure: the place is read
        // again with `get`.
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
