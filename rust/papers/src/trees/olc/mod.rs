//! A concurrent B+-tree with optimistic lock coupling.
//!
//! Leis, Haubenschild and Neumann, "Optimistic Lock Coupling: A Scalable and Efficient
//! General-Purpose Synchronization Method" (IEEE Data Engineering Bulletin 42.1, 2019); Leis,
//! Scheibner, Kemper and Neumann, "The ART of Practical Synchronization" (DaMoN 2016).
//!
//! ```text
//!  version of parent ──▶ child's number ──▶ version of child ──▶ is the parent's still the same?
//!                                                                 yes: the child is the parent
//!                                                                 no:  start again at the root
//! ```
//!
//! A thread descends without writing anything. The thread locks only the nodes that it changes.
//! This is usually just the leaf. If a node is full or nearly empty, its parent and possibly a
//! neighbour are locked too.

mod arena;
mod node;

use tidegate_sync::atomic::{AtomicU32, Ordering};
use tidegate_sync::{CachePadded, Exclusive, Version};

use arena::Arena;
use node::{FEW, Inner, Leaf, NONE, Node, Rank, pause};
use tidegate_structures::index::{Probe, WindowIndex};

/// The bit that is set in the number of every leaf.
const LEAF: u32 = 1 << 31;

/// A B+-tree of rows, ordered by value. Any number of threads can insert, remove and search for
/// rows at the same time. A thread waits only while another thread is writing to a node.
///
/// ```
/// use tidegate_structures::index::Probe;
/// use tidegate_papers::trees::OlcTree;
///
/// let tree = OlcTree::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| tree.insert(7, 0));
///     scope.spawn(|| tree.insert(3, 1));
/// });
/// tree.remove(7, 0);
///
/// let mut found = Vec::new();
/// tree.find(&Probe { low: 0, high: 9, from: 0, to: 2 }, &mut found);
/// assert_eq!(found, [1]);
/// ```
#[derive(Debug)]
pub struct OlcTree {
    /// The number of the root. A thread that changes the root holds the lock of the old root.
    root: CachePadded<AtomicU32>,
    leaves: Arena<Leaf>,
    inners: Arena<Inner>,
}

/// A node that a thread has reached, and the version of the node when it was reached.
#[derive(Debug)]
struct NodeView<'a, N> {
    number: u32,
    node: &'a N,
    version: Version,
}

impl<N> Clone for NodeView<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for NodeView<'_, N> {}

/// An inner node, and the position of the child with which the descent continues.
type Parent<'a> = (NodeView<'a, Inner>, usize);

#[derive(Clone, Copy)]
enum Any<'a> {
    Leaf(NodeView<'a, Leaf>),
    Inner(NodeView<'a, Inner>),
}

/// A kind of node. The kind determines where nodes are stored, and how their numbers differ from
/// the other kind's numbers.
trait NodeKind: Node + 'static {
    const TAG: u32;

    fn arena(tree: &OlcTree) -> &Arena<Self>;
}

impl NodeKind for Leaf {
    const TAG: u32 = LEAF;

    #[inline]
    fn arena(tree: &OlcTree) -> &Arena<Self> {
        &tree.leaves
    }
}

impl NodeKind for Inner {
    const TAG: u32 = 0;

    #[inline]
    fn arena(tree: &OlcTree) -> &Arena<Self> {
        &tree.inners
    }
}

/// Signals that another thread has changed a node, so this thread needs to start again at the root.
#[derive(Debug)]
struct Restart;

type Attempt<T> = Result<T, Restart>;

/// Repeats an attempt until no other thread interferes.
#[inline]
fn until_done<T>(mut attempt: impl FnMut() -> Attempt<T>) -> T {
    loop {
        if let Ok(done) = attempt() {
            return done;
        }
    }
}

impl Default for OlcTree {
    fn default() -> Self {
        Self::new()
    }
}

impl OlcTree {
    /// Creates a tree without rows.
    pub fn new() -> Self {
        let leaves = Arena::<Leaf>::default();
        let root = leaves.take() | LEAF;
        OlcTree { root: CachePadded::new(AtomicU32::new(root)), leaves, inners: Arena::default() }
    }

    /// Inserts a row. The row must not already be in the tree.
    pub fn insert(&self, key: i64, row: u32) {
        until_done(|| self.try_insert((key, row)));
    }

    /// Removes a row and returns whether it was in the tree.
    pub fn remove(&self, key: i64, row: u32) -> bool {
        until_done(|| self.try_remove((key, row)))
    }

    /// Appends the numbers of the rows that match the probe to `found`, ordered by key and then by
    /// number. The result includes all rows that are in the tree during the whole search. Rows that
    /// are inserted or removed during the search may also be included.
    pub fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        let mut from = (probe.low, 0);
        if probe.low <= probe.high {
            until_done(|| self.try_find(&mut from, probe, found));
        }
    }

    /// Returns the number of bytes in use.
    pub fn memory(&self) -> usize {
        self.leaves.memory() + self.inners.memory()
    }

    fn set_root(&self, number: u32) {
        // Release: publishes the node.
        self.root.store(number, Ordering::Release);
    }

    /// Returns a node of the given kind in its current state. The node may be the wrong one (O1).
    #[inline]
    fn see<N: NodeKind>(&self, number: u32) -> Attempt<NodeView<'_, N>> {
        let node = N::arena(self).get(number & !LEAF).ok_or(Restart)?;
        pause();
        Ok(NodeView { number, node, version: node.lock().read() })
    }

    /// Returns a node in its current state. The node may be the wrong one (O1).
    #[inline]
    fn look(&self, number: u32) -> Attempt<Any<'_>> {
        Ok(match number & LEAF {
            0 => Any::Inner(self.see(number)?),
            _ => Any::Leaf(self.see(number)?),
        })
    }

    #[inline]
    fn root(&self) -> Attempt<Any<'_>> {
        // Acquire: pairs with the Release of `set_root`.
        let number = self.root.load(Ordering::Acquire);
        let root = self.look(number)?;
        if self.root.load(Ordering::Acquire) == number { Ok(root) } else { Err(Restart) }
    }

    /// Returns a child of a node, and its position in that node. The child was at this position at
    /// some moment during the call (O2).
    #[inline]
    fn child<'a>(&'a self, parent: NodeView<'a, Inner>, rank: Rank) -> Attempt<(Any<'a>, usize)> {
        let at = parent.node.place(rank);
        let child = self.look(parent.node.child(at))?;
        parent.check()?;
        Ok((child, at))
    }

    /// Returns the leaf to which a rank belongs.
    #[inline]
    fn leaf(&self, rank: Rank) -> Attempt<NodeView<'_, Leaf>> {
        let mut any = self.root()?;
        loop {
            match any {
                Any::Inner(inner) => any = self.child(inner, rank)?.0,
                Any::Leaf(leaf) => return Ok(leaf),
            }
        }
    }

    fn try_insert(&self, rank: Rank) -> Attempt<()> {
        let (mut parent, mut any) = (None, self.root()?);
        loop {
            match any {
                // A full node is split on the way down, so that its parent has room for another
                // child.
                Any::Inner(inner) if inner.node.is_full() => {
                    self.split(parent, inner)?;
                    return Err(Restart);
                }
                Any::Leaf(leaf) if leaf.node.is_full() => {
                    self.split(parent, leaf)?;
                    return Err(Restart);
                }
                Any::Inner(inner) => {
                    let (child, at) = self.child(inner, rank)?;
                    (parent, any) = (Some((inner, at)), child);
                }
                Any::Leaf(leaf) => {
                    let _held = leaf.lock()?;
                    leaf.node.insert(rank);
                    return Ok(());
                }
            }
        }
    }

    /// Splits a full node. A node without a parent is the root, so a new root is created above it.
    #[cold]
    fn split<N: NodeKind>(&self, parent: Option<Parent<'_>>, full: NodeView<'_, N>) -> Attempt<()> {
        full.check()?;
        // This happens before anything is locked, because the allocation may fail.
        let number = N::arena(self).take();
        let above = parent.is_none().then(|| self.inners.take());
        let done = self.split_into(parent, full, number | N::TAG, above);
        if done.is_err() {
            N::arena(self).give_back(number);
            above.inspect(|&above| self.inners.give_back(above));
        }
        done
    }

    fn split_into<N: NodeKind>(
        &self,
        parent: Option<Parent<'_>>,
        full: NodeView<'_, N>,
        number: u32,
        above: Option<u32>,
    ) -> Attempt<()> {
        let right: NodeView<'_, N> = self.see(number)?;
        let root = above.map(|above| self.see::<Inner>(above)).transpose()?;
        let _parent = parent.map(|(parent, _)| parent.lock()).transpose()?;
        let _full = full.lock()?;
        let separator = full.node.split(right.node, number);
        if let Some((parent, at)) = parent {
            parent.node.insert(at, separator, number);
        }
        // The node without a parent was the root at its version, and remains the root until it is
        // unlocked.
        if let Some(root) = root {
            root.node.fill(&[separator], &[full.number, number]);
            self.set_root(root.number);
        }
        Ok(())
    }

    fn try_remove(&self, rank: Rank) -> Attempt<bool> {
        let (mut parent, mut any) = (None::<Parent<'_>>, self.root()?);
        loop {
            match any {
                Any::Inner(root) if parent.is_none() && root.node.len() == 1 => {
                    self.lower_root(root)?;
                    return Err(Restart);
                }
                Any::Inner(inner) => {
                    if let Some(parent) = parent.filter(|_| inner.node.len() < FEW) {
                        self.even_out(parent, inner)?;
                        return Err(Restart);
                    }
                    let (child, at) = self.child(inner, rank)?;
                    (parent, any) = (Some((inner, at)), child);
                }
                Any::Leaf(leaf) => {
                    if let Some(parent) = parent.filter(|_| leaf.node.len() < FEW) {
                        self.even_out(parent, leaf)?;
                        return Err(Restart);
                    }
                    let _held = leaf.lock()?;
                    return Ok(leaf.node.remove(rank));
                }
            }
        }
    }

    /// Makes the root's only child the new root.
    #[cold]
    fn lower_root(&self, root: NodeView<'_, Inner>) -> Attempt<()> {
        let held = root.lock()?;
        pause();
        self.set_root(root.node.child(0));
        drop(held);
        self.inners.give_back(root.number);
        Ok(())
    }

    /// Balances a nearly empty node with its neighbour, or merges the two nodes.
    #[cold]
    fn even_out<N: NodeKind>(&self, (parent, at): Parent<'_>, few: NodeView<'_, N>) -> Attempt<()> {
        // 1. The neighbour to the right, or the one to the left of the last child. It is read
        //    before anything is locked, because the thread may have to wait for it (O4). If the
        //    parent was split in the meantime, the child may be behind the last one.
        let is_last = at + 1 >= parent.node.len();
        let other_at = if is_last { at.checked_sub(1) } else { Some(at + 1) };
        let other_number = parent.node.child(other_at.ok_or(Restart)?);
        parent.check()?;
        let other: NodeView<'_, N> = self.see(other_number)?;
        // 2. Lock all three nodes at the versions at which they belong together.
        let held = (parent.lock()?, few.lock()?, other.lock()?);
        let (at, left, right) = if is_last { (at - 1, other, few) } else { (at, few, other) };
        let separator = left.node.even_out(right.node, parent.node.separator(at));
        if let Some(separator) = separator {
            parent.node.set_separator(at, separator);
            return Ok(());
        }
        // 3. The right node was merged into the left one.
        parent.node.remove_behind(at);
        drop(held);
        N::arena(self).give_back(right.number & !LEAF);
        Ok(())
    }

    /// Continues a search at rank `from` and raises `from` as rows are found.
    fn try_find(&self, from: &mut Rank, probe: &Probe, found: &mut Vec<u32>) -> Attempt<()> {
        let mut leaf = self.leaf(*from)?;
        loop {
            // 1. Read the rows of a leaf. They count only if the leaf has not changed in the
            //    meantime.
            let (before, len) = (found.len(), leaf.node.len());
            let (mut last, mut is_end) = (None, false);
            for at in leaf.node.lower(*from)..len {
                let rank = leaf.node.get(at);
                if rank.0 > probe.high {
                    is_end = true;
                    break;
                }
                last = Some(rank);
                if probe.takes(rank.1) {
                    found.push(rank.1);
                }
            }
            // 2. The leaf to the right, at a moment at which it was there (O2).
            let next = match leaf.node.next() {
                next if is_end || next == NONE => None,
                next => Some(self.see(next)),
            };
            if leaf.check().is_err() {
                found.truncate(before);
                return Err(Restart);
            }
            // 3. The search continues after these rows, even if another thread interferes from now
            //    on.
            match last.map(|(key, row)| (key, row.checked_add(1))) {
                Some((key, Some(row))) => *from = (key, row),
                Some((key, None)) => match key.checked_add(1) {
                    Some(key) => *from = (key, 0),
                    None => return Ok(()),
                },
                None => {}
            }
            match next {
                Some(next) => leaf = next?,
                None => return Ok(()),
            }
        }
    }

    /// Counts the rows. No row may be inserted or removed during the call.
    fn count(&self) -> Attempt<usize> {
        let (mut leaf, mut rows) = (self.leaf((i64::MIN, 0))?, 0);
        loop {
            rows += leaf.node.len();
            match leaf.node.next() {
                NONE => return Ok(rows),
                next => leaf = self.see(next)?,
            }
        }
    }
}

impl WindowIndex for OlcTree {
    fn insert(&mut self, key: i64, row: u32) {
        OlcTree::insert(self, key, row);
    }

    fn remove(&mut self, key: i64, row: u32) {
        assert!(OlcTree::remove(self, key, row), "a removed row was in the tree");
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        OlcTree::find(self, probe, found);
    }

    fn len(&self) -> usize {
        until_done(|| self.count())
    }

    fn memory(&self) -> usize {
        OlcTree::memory(self)
    }

    fn clear(&mut self) {
        *self = Self::new();
    }
}

impl<'a, N: Node> NodeView<'a, N> {
    /// Returns whether the node is unchanged since its version was read. If the node is unchanged,
    /// all values read since then are consistent.
    #[inline]
    fn check(&self) -> Attempt<()> {
        if self.node.lock().is_valid(self.version) { Ok(()) } else { Err(Restart) }
    }

    /// Acquires the node's lock if the node has not changed since its version was read.
    fn lock(&self) -> Attempt<Exclusive<'a>> {
        self.node.lock().try_lock(self.version).ok_or(Restart)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
