//! Nodes that threads read while another thread writes to them.
//!
//! All fields of a node are atomic and are read with relaxed ordering. The version of a node shows
//! whether the values that a thread has read from the node are consistent. Once a node is in the
//! tree, only the thread that holds the node's lock may call methods that write to it.

use tidegate_sync::OptimisticLock;
use tidegate_sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};

/// The maximum number of entries per leaf, and of children per inner node.
pub(super) const FANOUT: usize = if cfg!(any(test, loom)) { 4 } else { 32 };

/// A node with fewer entries or children takes some from a neighbour, or the two nodes are merged.
pub(super) const FEW: usize = if cfg!(any(test, loom)) { 2 } else { FANOUT / 4 };

/// Two neighbours are merged if together they have at most this many entries or children.
const MERGED: usize = 3 * FANOUT / 4;

/// In tests, occasionally yields to other threads between two steps within a node. With only a few
/// processors, threads would rarely be interrupted there.
#[inline]
pub(super) fn pause() {
    #[cfg(all(test, not(loom)))]
    super::tests::yield_sometimes();
}

/// The key and the number of a row. No two rows have the same rank, so rows are totally ordered.
pub(super) type Rank = (i64, u32);

/// Represents no leaf.
pub(super) const NONE: u32 = u32::MAX;

/// Ascending ranks.
#[derive(Debug)]
struct Ranks {
    keys: [AtomicI64; FANOUT],
    rows: [AtomicU32; FANOUT],
}

impl Default for Ranks {
    fn default() -> Self {
        Ranks {
            keys: std::array::from_fn(|_| AtomicI64::new(0)),
            rows: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl Ranks {
    // Relaxed, for all of them: the version of the node orders the accesses.

    #[inline]
    fn get(&self, at: usize) -> Rank {
        pause();
        (self.keys[at].load(Ordering::Relaxed), self.rows[at].load(Ordering::Relaxed))
    }

    #[inline]
    fn set(&self, at: usize, (key, row): Rank) {
        pause();
        self.keys[at].store(key, Ordering::Relaxed);
        self.rows[at].store(row, Ordering::Relaxed);
    }

    /// Returns whether the rank at position `at` is below the given rank. Row numbers are compared
    /// only if the keys are equal.
    #[inline]
    fn is_below(&self, at: usize, (key, row): Rank) -> bool {
        pause();
        let own = self.keys[at].load(Ordering::Relaxed);
        own < key || own == key && self.rows[at].load(Ordering::Relaxed) < row
    }

    /// Returns how many of the first `len` ranks are below `rank`.
    #[inline]
    fn count_below(&self, len: usize, rank: Rank) -> usize {
        let (mut from, mut left) = (0, len);
        while left > 1 {
            let half = left / 2;
            // The loop has no branch, because a branch would be unpredictable.
            from += usize::from(self.is_below(from + half - 1, rank)) * half;
            left -= half;
        }
        from + usize::from(left == 1 && self.is_below(from, rank))
    }

    fn insert(&self, len: usize, at: usize, rank: Rank) {
        (at..len).rev().for_each(|from| self.set(from + 1, self.get(from)));
        self.set(at, rank);
    }

    fn remove(&self, len: usize, at: usize) {
        (at + 1..len).for_each(|from| self.set(from - 1, self.get(from)));
    }
}

/// The interface that leaves and inner nodes share.
pub(super) trait Node: Default {
    fn lock(&self) -> &OptimisticLock;

    /// Returns the number of entries or children.
    fn len(&self) -> usize;

    /// Moves the upper half into a new node, whose number is `number`. Returns the lowest rank that
    /// belongs to the new node.
    fn split(&self, right: &Self, number: u32) -> Rank;

    /// Balances two neighbours. Returns the lowest rank that belongs to the right node, or `None`
    /// if all entries are in the left one. `separator` is the lowest rank of the right node before
    /// the call.
    fn even_out(&self, right: &Self, separator: Rank) -> Option<Rank>;

    #[inline]
    fn is_full(&self) -> bool {
        self.len() == FANOUT
    }
}

/// Rows in order.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Leaf {
    lock: OptimisticLock,
    len: AtomicUsize,
    /// The leaf to the right, or [`NONE`].
    next: AtomicU32,
    ranks: Ranks,
}

impl Default for Leaf {
    fn default() -> Self {
        Leaf {
            lock: OptimisticLock::default(),
            len: AtomicUsize::new(0),
            next: AtomicU32::new(NONE),
            ranks: Ranks::default(),
        }
    }
}

impl Leaf {
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Rank {
        self.ranks.get(at)
    }

    /// Returns the position of the first rank at or above `rank`.
    #[inline]
    pub(super) fn lower(&self, rank: Rank) -> usize {
        self.ranks.count_below(self.len(), rank)
    }

    pub(super) fn insert(&self, rank: Rank) {
        let (len, at) = (self.len(), self.lower(rank));
        self.ranks.insert(len, at, rank);
        self.set_len(len + 1);
    }

    /// Removes a rank and returns whether it was in the leaf.
    pub(super) fn remove(&self, rank: Rank) -> bool {
        let (len, at) = (self.len(), self.lower(rank));
        if at == len || self.get(at) != rank {
            return false;
        }
        self.ranks.remove(len, at);
        self.set_len(len - 1);
        true
    }

    fn set_len(&self, len: usize) {
        self.len.store(len, Ordering::Relaxed);
    }

    fn set_next(&self, next: u32) {
        self.next.store(next, Ordering::Relaxed);
    }

    fn fill(&self, ranks: &[Rank]) {
        ranks.iter().enumerate().for_each(|(at, &rank)| self.ranks.set(at, rank));
        self.set_len(ranks.len());
    }
}

impl Node for Leaf {
    #[inline]
    fn lock(&self) -> &OptimisticLock {
        &self.lock
    }

    #[inline]
    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn split(&self, right: &Self, number: u32) -> Rank {
        let (half, len) = (self.len() / 2, self.len());
        (half..len).for_each(|at| right.ranks.set(at - half, self.get(at)));
        right.set_len(len - half);
        right.set_next(self.next());
        self.set_next(number);
        self.set_len(half);
        right.get(0)
    }

    fn even_out(&self, right: &Self, _: Rank) -> Option<Rank> {
        let mut all = [(0, 0); 2 * FANOUT];
        let (own, len) = (self.len(), self.len() + right.len());
        (0..own).for_each(|at| all[at] = self.get(at));
        (own..len).for_each(|at| all[at] = right.get(at - own));
        if len <= MERGED {
            self.fill(&all[..len]);
            self.set_next(right.next());
            return None;
        }
        let (low, high) = all[..len].split_at(len / 2);
        self.fill(low);
        right.fill(high);
        Some(high[0])
    }
}

/// Children in order. A separator is greater than every rank in the child before it. Ranks equal to
/// the separator belong to the child after it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Inner {
    lock: OptimisticLock,
    /// The number of children. There is one separator fewer.
    len: AtomicUsize,
    separators: Ranks,
    children: [AtomicU32; FANOUT],
}

impl Default for Inner {
    fn default() -> Self {
        Inner {
            lock: OptimisticLock::default(),
            len: AtomicUsize::new(0),
            separators: Ranks::default(),
            children: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl Inner {
    /// Returns the position of the child to which a rank belongs.
    #[inline]
    pub(super) fn place(&self, rank: Rank) -> usize {
        let separators = self.len().saturating_sub(1);
        let below = self.separators.count_below(separators, rank);
        below + usize::from(below < separators && self.separators.get(below) == rank)
    }

    #[inline]
    pub(super) fn child(&self, at: usize) -> u32 {
        pause();
        self.children[at].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn separator(&self, at: usize) -> Rank {
        self.separators.get(at)
    }

    /// Inserts a child after the one at `at`, with the separator between the two.
    pub(super) fn insert(&self, at: usize, separator: Rank, child: u32) {
        let len = self.len();
        self.separators.insert(len - 1, at, separator);
        (at + 1..len).rev().for_each(|from| self.set_child(from + 1, self.child(from)));
        self.set_child(at + 1, child);
        self.set_len(len + 1);
    }

    /// Removes the child after the one at `at`.
    pub(super) fn remove_behind(&self, at: usize) {
        let len = self.len();
        self.separators.remove(len - 1, at);
        (at + 2..len).for_each(|from| self.set_child(from - 1, self.child(from)));
        self.set_len(len - 1);
    }

    pub(super) fn set_separator(&self, at: usize, separator: Rank) {
        self.separators.set(at, separator);
    }

    /// Fills the node with these children and the separators between them.
    pub(super) fn fill(&self, separators: &[Rank], children: &[u32]) {
        separators.iter().enumerate().for_each(|(at, &rank)| self.separators.set(at, rank));
        children.iter().enumerate().for_each(|(at, &child)| self.set_child(at, child));
        self.set_len(children.len());
    }

    fn set_len(&self, len: usize) {
        self.len.store(len, Ordering::Relaxed);
    }

    fn set_child(&self, at: usize, child: u32) {
        self.children[at].store(child, Ordering::Relaxed);
    }
}

impl Node for Inner {
    #[inline]
    fn lock(&self) -> &OptimisticLock {
        &self.lock
    }

    #[inline]
    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn split(&self, right: &Self, _: u32) -> Rank {
        let (half, len) = (self.len() / 2, self.len());
        (half..len).for_each(|at| right.set_child(at - half, self.child(at)));
        (half..len - 1).for_each(|at| right.separators.set(at - half, self.separator(at)));
        right.set_len(len - half);
        self.set_len(half);
        self.separator(half - 1)
    }

    fn even_out(&self, right: &Self, separator: Rank) -> Option<Rank> {
        let (mut separators, mut children) = ([(0, 0); 2 * FANOUT], [0; 2 * FANOUT]);
        let (own, len) = (self.len(), self.len() + right.len());
        (0..own).for_each(|at| children[at] = self.child(at));
        (own..len).for_each(|at| children[at] = right.child(at - own));
        (0..own - 1).for_each(|at| separators[at] = self.separator(at));
        separators[own - 1] = separator;
        (own..len - 1).for_each(|at| separators[at] = right.separator(at - own));
        if len <= MERGED {
            self.fill(&separators[..len - 1], &children[..len]);
            return None;
        }
        let half = len / 2;
        self.fill(&separators[..half - 1], &children[..half]);
        right.fill(&separators[half..len - 1], &children[half..len]);
        Some(separators[half - 1])
    }
}
