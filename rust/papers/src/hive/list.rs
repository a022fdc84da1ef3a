//! The list of winsets, which is sorted by start and has shortcuts. Winsets can be inserted
//! anywhere, but are taken only from the front.
//!
//! All of the list's unsafe code is in this file. The numbers in brackets are the invariants of
//! README.md.

use std::collections::VecDeque;
use std::ptr;

use tidegate_sync::Stack;
use tidegate_sync::atomic::{AtomicPtr, Ordering, RaceCell};

/// The number of levels in the list. Each level has a quarter as many nodes as the level below it.
/// A writer that is a few hundred winsets behind another writer therefore finds its position in a
/// few steps.
const LEVELS: usize = if cfg!(any(loom, tidegate_stress)) { 2 } else { 4 };

/// A winset in the list.
pub(super) struct Node<T> {
    start: i64,
    /// The value, until it is taken.
    value: RaceCell<Option<T>>,
    /// For each of this node's levels, the next node on that level.
    next: Box<[AtomicPtr<Node<T>>]>,
}

impl<T> Node<T> {
    fn new(start: i64, value: Option<T>, height: usize) -> Box<Self> {
        let next = (0..height).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Box::new(Node { start, value: RaceCell::new(value), next })
    }

    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// The value has not been taken yet, and must not be taken while it is borrowed.
    #[inline]
    unsafe fn value(&self) -> &T {
        // SAFETY: the value was written before the node was linked (L1), and the caller guarantees
        // that it has not been taken.
        let value = self.value.with(|value| unsafe { (*value).as_ref() });
        debug_assert!(value.is_some(), "a winset is not updated after it has been returned");
        // SAFETY: the value is there until it is taken.
        unsafe { value.unwrap_unchecked() }
    }

    /// Takes the value out of the node.
    ///
    /// # Safety
    ///
    /// No other thread accesses the value any more, and the value has not been taken yet.
    pub(super) unsafe fn take(&self) -> T {
        // SAFETY: the caller guarantees exclusive access.
        let value = self.value.with_mut(|value| unsafe { (*value).take() });
        debug_assert!(value.is_some(), "a winset is handed out only once");
        // SAFETY: the caller guarantees that the value has not been taken.
        unsafe { value.unwrap_unchecked() }
    }

    /// Returns the next node on a level.
    #[inline]
    fn next(&self, level: usize) -> *mut Node<T> {
        // Acquire: pairs with the Release of `insert`, so the node is seen completely initialized.
        self.next[level].load(Ordering::Acquire)
    }
}

/// The list. The reader's [`Garbage`] owns the nodes that were handed out, and the list owns all
/// others.
pub(super) struct List<T> {
    /// The node that precedes all winsets on every level.
    head: Box<Node<T>>,
    /// Nodes that the reader left behind without freeing them.
    left: Stack<VecDeque<OwnedNode<T>>>,
}

/// A boxed node. The owner of this value frees the node.
struct OwnedNode<T>(*mut Node<T>);

// SAFETY: nodes contain values, which are passed between threads and shared.
unsafe impl<T: Send + Sync> Send for OwnedNode<T> {}
// SAFETY: as for `OwnedNode`; everything else is atomic.
unsafe impl<T: Send + Sync> Send for List<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync> Sync for List<T> {}

impl<T> List<T> {
    pub(super) fn new() -> Self {
        List { head: Node::new(i64::MIN, None, LEVELS), left: Stack::default() }
    }

    /// Returns a cursor that is positioned before all winsets.
    pub(super) fn start(&self) -> Cursor<T> {
        let head = ptr::from_ref(&*self.head).cast_mut();
        Cursor { at: [head; LEVELS] }
    }

    /// Takes over the nodes that the reader has not freed, and keeps them until the list is
    /// dropped.
    pub(super) fn leave(&self, garbage: &mut Garbage<T>) {
        self.left.push(std::mem::take(&mut garbage.nodes));
    }
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        let mut given_out: Vec<OwnedNode<T>> = self.left.take_all().into_iter().flatten().collect();
        // The list continues from the reader's position. Links to earlier nodes may be dangling.
        let last = given_out.last().map_or(ptr::from_ref(&*self.head), |owned| owned.0);
        // SAFETY: this is the head, or a node of the reader's that has not been freed.
        let mut next = unsafe { (*last).next(0) };
        while !next.is_null() {
            given_out.push(OwnedNode(next));
            // SAFETY: a node that was not handed out has not been freed (H2).
            next = unsafe { (*next).next(0) };
        }
        for owned in given_out {
            // SAFETY: `Cursor::insert` boxed the node. All handles are gone, so no thread accesses
            // it (H1).
            drop(unsafe { Box::from_raw(owned.0) });
        }
    }
}

/// A position in the list. On each level, the cursor refers to a node that begins before every
/// start that the owner will look up.
pub(super) struct Cursor<T> {
    at: [*mut Node<T>; LEVELS],
}

impl<T> Cursor<T> {
    /// Returns the value of the node that begins at `start`. If there is no such node, a node is
    /// inserted with a value created by `new`.
    ///
    /// # Safety
    ///
    /// The cursor's nodes begin before `start`, and neither they nor later nodes are freed during
    /// the call (H1). The value is not taken while it is borrowed.
    #[inline]
    pub(super) unsafe fn find(&mut self, start: i64, new: fn() -> T) -> &T {
        // SAFETY: the caller guarantees that the cursor's nodes exist.
        let next = unsafe { (*self.at[0]).next(0) };
        // SAFETY: as above, and links lead forward (L2).
        let node = match unsafe { next.as_ref() } {
            // In most cases, this is the next winset.
            Some(node) if node.start == start => node,
            // SAFETY: as above.
            _ => unsafe { &*self.find_from_top(start, new) },
        };
        // SAFETY: the caller guarantees that the value is not taken.
        unsafe { node.value() }
    }

    /// Does the same as [`find`](Self::find), but starts at the highest level.
    unsafe fn find_from_top(&self, start: i64, new: fn() -> T) -> *mut Node<T> {
        let mut before = self.at;
        for level in (0..LEVELS).rev() {
            if level + 1 < LEVELS {
                // SAFETY: the caller of `find` guarantees that the cursor's nodes and later ones
                // exist.
                let (above, own) = unsafe { ((*before[level + 1]).start, (*before[level]).start) };
                before[level] = if above > own { before[level + 1] } else { before[level] };
            }
            // SAFETY: as above; a node found on a level is on all lower levels.
            let (last, next) = unsafe { last_before(before[level], level, start) };
            // SAFETY: as above.
            if unsafe { next.as_ref() }.is_some_and(|next| next.start == start) {
                return next;
            }
            before[level] = last;
        }
        // SAFETY: as above.
        unsafe { insert(&before, Node::new(start, Some(new()), height(start))) }
    }

    /// Moves, on each level, to the last node that begins before `start`. Returns the start of the
    /// first node that the cursor may access.
    ///
    /// # Safety
    ///
    /// The requirements are the same as for [`find`](Self::find).
    pub(super) unsafe fn advance(&mut self, start: i64) -> i64 {
        for level in (0..LEVELS).rev() {
            // SAFETY: the caller guarantees that the cursor's nodes exist.
            self.at[level] = unsafe { last_before(self.at[level], level, start) }.0;
        }
        // SAFETY: as above. The highest level has the fewest nodes, so its position comes first.
        self.at.iter().map(|&node| unsafe { (*node).start }).min().unwrap_or(i64::MIN)
    }

    /// Moves to the next node if it begins before `start`.
    ///
    /// # Safety
    ///
    /// The cursor's node on the lowest level is not freed. Later nodes are not freed while the
    /// result is borrowed.
    pub(super) unsafe fn next_before<'a>(&mut self, start: i64) -> Option<&'a Node<T>> {
        // SAFETY: the caller guarantees that the cursor's node exists.
        let next = unsafe { (*self.at[0]).next(0) };
        // SAFETY: as above.
        let node = unsafe { next.as_ref() }.filter(|node| node.start < start)?;
        self.at[0] = next;
        Some(node)
    }
}

/// Searches a level from `node` onwards, and returns the last node that begins before `start`. Also
/// returns the target that this node's link had when the node was found.
///
/// # Safety
///
/// `node` is on the level and begins before `start`. Neither `node` nor later nodes are freed
/// during the call.
#[inline]
unsafe fn last_before<T>(
    mut node: *mut Node<T>,
    level: usize,
    start: i64,
) -> (*mut Node<T>, *mut Node<T>) {
    loop {
        // SAFETY: the caller guarantees that `node` and later nodes exist.
        let next = unsafe { (*node).next(level) };
        // SAFETY: links lead forward (L2), to nodes that exist if earlier ones do.
        match unsafe { next.as_ref() } {
            Some(found) if found.start < start => node = next,
            _ => return (node, next),
        }
    }
}

/// Links `node` behind its predecessors, level by level, starting with the lowest. Does nothing if
/// another thread has already linked a node with the same start.
///
/// # Safety
///
/// The requirements are the same as for [`Cursor::find`]. For each level, `before` contains a node
/// on that level that begins before `node`.
unsafe fn insert<T>(before: &[*mut Node<T>; LEVELS], node: Box<Node<T>>) -> *mut Node<T> {
    let (start, height) = (node.start, node.next.len());
    let node = Box::into_raw(node);
    for (level, &from) in before.iter().enumerate().take(height) {
        let mut from = from;
        loop {
            // SAFETY: the caller guarantees that the nodes exist.
            let (last, next) = unsafe { last_before(from, level, start) };
            from = last;
            // SAFETY: links lead forward to nodes that exist.
            let twin = unsafe { next.as_ref() }.is_some_and(|next| next.start == start);
            if twin {
                // Two nodes with the same start meet on the lowest level, before either is on
                // another level (L3).
                debug_assert_eq!(level, 0);
                // SAFETY: the node was not linked, so it still belongs to this thread.
                drop(unsafe { Box::from_raw(node) });
                return next;
            }
            // SAFETY: the node is not freed before this thread has made a promise above its start.
            // Relaxed: published by the Release below.
            unsafe { (&(*node).next)[level].store(next, Ordering::Relaxed) };
            // Release: publishes the node's start, value and links up to this level to the Acquire
            // of `next`. Relaxed on failure: the link is read again before it is followed. The
            // expected value is the one that was seen; the link's current target may begin earlier.
            // SAFETY: as for `last_before`.
            let link = unsafe { &(&(*from).next)[level] };
            if link.compare_exchange(next, node, Ordering::Release, Ordering::Relaxed).is_ok() {
                break;
            }
        }
    }
    node
}

/// Returns the number of levels for a winset. Each level has a quarter as many winsets as the level
/// below it. The number of levels depends only on the start, so it is not random.
fn height(start: i64) -> usize {
    let mixed = (start as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (1 + (mixed >> 32).trailing_zeros() as usize / 2).min(LEVELS)
}

/// Nodes that were handed out, in order. Each node is kept until no thread accesses it any more.
pub(super) struct Garbage<T> {
    nodes: VecDeque<OwnedNode<T>>,
}

impl<T> Default for Garbage<T> {
    fn default() -> Self {
        Garbage { nodes: VecDeque::new() }
    }
}

impl<T> Garbage<T> {
    /// Adds the node at the reader's new position.
    pub(super) fn add(&mut self, node: &Node<T>) {
        self.nodes.push_back(OwnedNode(ptr::from_ref(node).cast_mut()));
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Frees nodes that begin before `low`, except the last one, which is the reader's position.
    ///
    /// # Safety
    ///
    /// No writer accesses nodes that begin before `low` any more.
    pub(super) unsafe fn free_before(&mut self, low: i64) {
        while self.nodes.len() > 1 {
            let first = self.nodes[0].0;
            // SAFETY: the node is still in this collection, so it has not been freed.
            if unsafe { (*first).start } >= low {
                return;
            }
            self.nodes.pop_front();
            // SAFETY: the caller of `insert` boxed the node. The caller of this method guarantees
            // that no writer accesses it, and the reader has passed it.
            drop(unsafe { Box::from_raw(first) });
        }
    }
}
