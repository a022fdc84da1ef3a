//! The list of winsets: sorted by start, with shortcuts, inserted into anywhere and taken from the
//! front.
//!
//! All of the list's unsafe code is here. The numbers in brackets are the invariants of README.md.

use std::collections::VecDeque;
use std::ptr;

use tidegate_sync::Stack;
use tidegate_sync::atomic::{AtomicPtr, Ordering, RaceCell};

/// Levels of the list. With a quarter of the nodes on each next level, a writer that is some
/// hundred winsets behind another finds its place in a few steps.
const LEVELS: usize = if cfg!(any(loom, tidegate_stress)) { 2 } else { 4 };

/// A winset in the list.
pub(super) struct Node<T> {
    start: i64,
    /// Until it is taken.
    value: RaceCell<Option<T>>,
    /// The next node on each level that the node is on.
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

    /// The value.
    ///
    /// # Safety
    ///
    /// It is not taken, nor will it be while it is borrowed.
    #[inline]
    unsafe fn value(&self) -> &T {
        // SAFETY: written before the node was linked (L1); the caller's promise.
        let value = self.value.with(|value| unsafe { (*value).as_ref() });
        debug_assert!(value.is_some(), "a winset is updated that was given out");
        // SAFETY: it is there until it is taken.
        unsafe { value.unwrap_unchecked() }
    }

    /// Takes the value out.
    ///
    /// # Safety
    ///
    /// Nobody looks at it any more, and it was not taken before.
    pub(super) unsafe fn take(&self) -> T {
        // SAFETY: the caller's promise.
        let value = self.value.with_mut(|value| unsafe { (*value).take() });
        debug_assert!(value.is_some(), "a winset is given out twice");
        // SAFETY: likewise.
        unsafe { value.unwrap_unchecked() }
    }

    /// The next node on a level.
    #[inline]
    fn next(&self, level: usize) -> *mut Node<T> {
        // Acquire: pairs with the Release of `insert`; the node that is found is seen whole.
        self.next[level].load(Ordering::Acquire)
    }
}

/// The list. Nodes that were given out belong to the reader's [`Garbage`], all others to the list.
pub(super) struct List<T> {
    /// Before all winsets, on all levels.
    head: Box<Node<T>>,
    /// Nodes that the reader has left behind.
    left: Stack<VecDeque<OwnedNode<T>>>,
}

/// A node that was boxed. The owner of this frees it.
struct OwnedNode<T>(*mut Node<T>);

// SAFETY: nodes hold values, which are handed from thread to thread, and are shared.
unsafe impl<T: Send + Sync> Send for OwnedNode<T> {}
// SAFETY: as for `OwnedNode`; everything else is atomic.
unsafe impl<T: Send + Sync> Send for List<T> {}
// SAFETY: likewise.
unsafe impl<T: Send + Sync> Sync for List<T> {}

impl<T> List<T> {
    pub(super) fn new() -> Self {
        List { head: Node::new(i64::MIN, None, LEVELS), left: Stack::default() }
    }

    /// A place before all winsets.
    pub(super) fn start(&self) -> Cursor<T> {
        let head = ptr::from_ref(&*self.head).cast_mut();
        Cursor { at: [head; LEVELS] }
    }

    /// Keeps what the reader has not freed for the end.
    pub(super) fn leave(&self, garbage: &mut Garbage<T>) {
        self.left.push(std::mem::take(&mut garbage.nodes));
    }
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        let mut given_out: Vec<OwnedNode<T>> = self.left.take_all().into_iter().flatten().collect();
        // The list goes on from where the reader stood; links to earlier nodes may lead nowhere.
        let last = given_out.last().map_or(ptr::from_ref(&*self.head), |owned| owned.0);
        // SAFETY: the head, or a node of the reader's that was not freed.
        let mut next = unsafe { (*last).next(0) };
        while !next.is_null() {
            given_out.push(OwnedNode(next));
            // SAFETY: a node that was not given out was not freed (H2).
            next = unsafe { (*next).next(0) };
        }
        for owned in given_out {
            // SAFETY: boxed by `Cursor::insert`; all handles are gone, so nobody looks at it (H1).
            drop(unsafe { Box::from_raw(owned.0) });
        }
    }
}

/// A place in the list: on each level a node that begins before all that its owner will look for.
pub(super) struct Cursor<T> {
    at: [*mut Node<T>; LEVELS],
}

impl<T> Cursor<T> {
    /// The value of the node that begins at `start`; `new` makes it if there is none.
    ///
    /// # Safety
    ///
    /// The cursor's nodes begin before `start`, and neither they nor later ones are freed during
    /// the call (H1). The value is not taken while it is borrowed.
    #[inline]
    pub(super) unsafe fn find(&mut self, start: i64, new: fn() -> T) -> &T {
        // SAFETY: the caller's promise.
        let next = unsafe { (*self.at[0]).next(0) };
        // SAFETY: as above; links lead forward (L2).
        let node = match unsafe { next.as_ref() } {
            // Most often the next winset is it.
            Some(node) if node.start == start => node,
            // SAFETY: as above.
            _ => unsafe { &*self.find_from_top(start, new) },
        };
        // SAFETY: the caller's promise.
        unsafe { node.value() }
    }

    /// As [`find`](Self::find).
    unsafe fn find_from_top(&self, start: i64, new: fn() -> T) -> *mut Node<T> {
        let mut before = self.at;
        for level in (0..LEVELS).rev() {
            if level + 1 < LEVELS {
                // SAFETY: the caller of `find` has promised that the cursor's nodes and later ones
                // are there.
                let (above, own) = unsafe { ((*before[level + 1]).start, (*before[level]).start) };
                before[level] = if above > own { before[level + 1] } else { before[level] };
            }
            // SAFETY: likewise; a node that was come by on a level is on all below.
            let (last, next) = unsafe { last_before(before[level], level, start) };
            // SAFETY: likewise.
            if unsafe { next.as_ref() }.is_some_and(|next| next.start == start) {
                return next;
            }
            before[level] = last;
        }
        // SAFETY: likewise.
        unsafe { insert(&before, Node::new(start, Some(new()), height(start))) }
    }

    /// Moves on to the last nodes that begin before `start`; the start of the first that the cursor
    /// may look at.
    ///
    /// # Safety
    ///
    /// As for [`find`](Self::find).
    pub(super) unsafe fn advance(&mut self, start: i64) -> i64 {
        for level in (0..LEVELS).rev() {
            // SAFETY: the caller's promise.
            self.at[level] = unsafe { last_before(self.at[level], level, start) }.0;
        }
        // SAFETY: likewise. The highest level has the fewest nodes: its place is the first.
        self.at.iter().map(|&node| unsafe { (*node).start }).min().unwrap_or(i64::MIN)
    }

    /// Moves on to the next node, if it begins before `start`.
    ///
    /// # Safety
    ///
    /// The cursor's node on the lowest level is not freed, nor are later ones while the result is
    /// borrowed.
    pub(super) unsafe fn next_before<'a>(&mut self, start: i64) -> Option<&'a Node<T>> {
        // SAFETY: the caller's promise.
        let next = unsafe { (*self.at[0]).next(0) };
        // SAFETY: likewise.
        let node = unsafe { next.as_ref() }.filter(|node| node.start < start)?;
        self.at[0] = next;
        Some(node)
    }
}

/// The last node on a level, from `node` on, that begins before `start`, and what its link led to
/// when that was seen.
///
/// # Safety
///
/// `node` is on the level and begins before `start`, and neither it nor later ones are freed during
/// the call.
#[inline]
unsafe fn last_before<T>(
    mut node: *mut Node<T>,
    level: usize,
    start: i64,
) -> (*mut Node<T>, *mut Node<T>) {
    loop {
        // SAFETY: the caller's promise.
        let next = unsafe { (*node).next(level) };
        // SAFETY: links lead forward (L2), to nodes that are there if earlier ones are.
        match unsafe { next.as_ref() } {
            Some(found) if found.start < start => node = next,
            _ => return (node, next),
        }
    }
}

/// Links `node` behind those before it, level by level from the lowest; or finds that another
/// thread was faster.
///
/// # Safety
///
/// As for [`Cursor::find`]; `before` has for each level a node on it that begins before `node`.
unsafe fn insert<T>(before: &[*mut Node<T>; LEVELS], node: Box<Node<T>>) -> *mut Node<T> {
    let (start, height) = (node.start, node.next.len());
    let node = Box::into_raw(node);
    for (level, &from) in before.iter().enumerate().take(height) {
        let mut from = from;
        loop {
            // SAFETY: the caller's promise.
            let (last, next) = unsafe { last_before(from, level, start) };
            from = last;
            // SAFETY: links lead forward to nodes that are there.
            let twin = unsafe { next.as_ref() }.is_some_and(|next| next.start == start);
            if twin {
                // Two nodes of one start meet on the lowest level, before either is on another
                // (L3).
                debug_assert_eq!(level, 0);
                // SAFETY: it was not linked, so it is this thread's still.
                drop(unsafe { Box::from_raw(node) });
                return next;
            }
            // SAFETY: not freed while this thread has not promised to be past it. Relaxed:
            // published by the Release below.
            unsafe { (&(*node).next)[level].store(next, Ordering::Relaxed) };
            // Release: publishes the node's start, value and links up to this level to the Acquire
            // of `next`. Relaxed on failure: the link is read again before it is followed. From
            // what was seen, and not from what the link leads to by now: that may begin earlier.
            // SAFETY: as for `last_before`.
            let link = unsafe { &(&(*from).next)[level] };
            if link.compare_exchange(next, node, Ordering::Release, Ordering::Relaxed).is_ok() {
                break;
            }
        }
    }
    node
}

/// The levels that a winset is on: a quarter of them on each next one. Chosen by its start, so that
/// nothing is random.
fn height(start: i64) -> usize {
    let mixed = (start as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (1 + (mixed >> 32).trailing_zeros() as usize / 2).min(LEVELS)
}

/// Nodes that were given out, in their order, until nobody looks at them any more.
pub(super) struct Garbage<T> {
    nodes: VecDeque<OwnedNode<T>>,
}

impl<T> Default for Garbage<T> {
    fn default() -> Self {
        Garbage { nodes: VecDeque::new() }
    }
}

impl<T> Garbage<T> {
    /// Adds the node at which the reader stands now.
    pub(super) fn add(&mut self, node: &Node<T>) {
        self.nodes.push_back(OwnedNode(ptr::from_ref(node).cast_mut()));
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Frees nodes that begin before `low`, but for the last, at which the reader stands.
    ///
    /// # Safety
    ///
    /// No writer looks at nodes that begin before `low` any more.
    pub(super) unsafe fn free_before(&mut self, low: i64) {
        while self.nodes.len() > 1 {
            let first = self.nodes[0].0;
            // SAFETY: not freed, since it is here.
            if unsafe { (*first).start } >= low {
                return;
            }
            self.nodes.pop_front();
            // SAFETY: boxed by `insert`'s caller; the caller's promise, and the reader is past it.
            drop(unsafe { Box::from_raw(first) });
        }
    }
}
