//! Lists of rows sorted by time, one list per key. One thread adds rows while any number of threads
//! read the lists.
//!
//! This is Scale-OIJ's time-travel data structure, in which each key has a skip list of its rows,
//! newest first. The structure is from Zhang, Zeng, Zhang, Liu, Lu and Zheng, "Scalable Online
//! Interval Join on Modern Multicore Processors in OpenMLDB" (ICDE 2023).
//!
//! ```text
//!         level 1   head ───────────────▶ 19 ──────────────▶ ·
//!  key 7             ▼                     ▼
//!         level 0   head ──▶ 23 ──▶ 21 ──▶ 19 ──▶ 18 ──▶ 12 ──▶ ·
//!
//!  rows of key 7 from 20 back to 15:  19, 18
//! ```
//!
//! # Protocol
//!
//! All fields that readers access are atomics, and there is only one writer. No step needs a lock
//! or a compare-and-swap.
//!
//! - T1. A node is completely written before it is linked. The store that links the node is a
//!   release operation, and the load that finds the node is an acquire operation. A reader
//!   therefore sees each node's time, row and successor.
//! - T2. The writer links a row first at level 0 and then at the higher levels, so every downward
//!   path ends at an existing row. A new highest level is linked to the level below before the head
//!   of the list refers to it.
//! - T3. Each level is sorted by time at every moment. A new row is inserted before all rows with
//!   the same time. Readers that have already passed the new row's position do not see the row, but
//!   all other readers do.
//! - T4. Rows that were cut off remain unchanged and linked to each other until
//!   [`recycle`](TimeTravel::recycle) is called, when there are no readers. So a reader that is at
//!   such a row continues to the end of the list.
//!
//! If a row is in its list when a search starts and is not cut off during the search, it is found
//! exactly once and in order. A row that is inserted during the search is found at most once. The
//! searching thread must use the row numbers to select the rows that it needs.
//!
//! # Departures
//!
//! 1. Keys are dense numbers, so a table of heads replaces a skip list of keys.
//!
//! 2. In the published code, a search can skip matching rows if a row is inserted in the meantime,
//!    as a comment in that code explains. In this implementation, each search step depends only on
//!    the link that the step reads.
//!
//! # Trade-offs
//!
//! A row needs 16 bytes, plus a third of that for the higher levels. A key's rows are scattered
//! across the writer's memory, so each step is likely to wait for memory.

use tidegate_sync::atomic::{AtomicI64, AtomicU32, Ordering};

use super::pieces::Pieces;

/// Used in place of a node's number if there is no node.
const NONE: u32 = u32::MAX;

/// On average, one row in this many is also on the next higher level. The number is a power of two.
const BRANCHING: u32 = if cfg!(any(test, loom)) { 2 } else { 4 };

/// The maximum number of levels in a list.
const LEVELS: usize = if cfg!(loom) { 2 } else { 12 };

/// The rows of one thread, by key and time (see [`split`](Self::split)).
///
/// ```
/// use tidegate_papers::time_travel::TimeTravel;
///
/// let mut rows = TimeTravel::default();
/// let (mut writer, reader) = rows.split();
/// for (row, ts) in [12, 18, 19, 21].into_iter().enumerate() {
///     writer.insert(7, ts, row as u32);
/// }
/// let mut seen = Vec::new();
/// reader.look_back(7, 20, 15, |ts, row| seen.push((ts, row)));
/// assert_eq!(seen, [(19, 2), (18, 1)]);
///
/// assert!(writer.cut(7, 18)); // removes the row at 12; other rows remain
/// rows.recycle(); // no reader is left
/// ```
#[derive(Debug, Default)]
pub struct TimeTravel {
    shared: ListState,
    own: Own,
}

/// Adds rows and cuts off old ones. A [`TimeTravel`] has one writer at a time.
#[derive(Debug)]
pub struct ListWriter<'a> {
    shared: &'a ListState,
    own: &'a mut Own,
}

/// Reads rows while the writer adds others.
#[derive(Clone, Copy, Debug)]
pub struct ListReader<'a>(&'a ListState);

/// State that the writer writes and all threads read.
#[derive(Debug, Default)]
struct ListState {
    heads: Pieces<KeyHead>,
    nodes: Pieces<Node>,
}

/// State that only the writer uses.
#[derive(Debug)]
struct Own {
    /// The state of the random number generator for row heights.
    random: u64,
    /// Nodes from this number onwards have never been used.
    next: u32,
    /// Nodes that are not linked.
    spare: Vec<u32>,
    /// Nodes that have been cut off but that readers may still be reading.
    cut: Vec<u32>,
}

/// The node before a key's first row, at its highest level. A key that has never had a row has
/// no such node.
#[derive(Debug)]
struct KeyHead(AtomicU32);

/// A row at one level of its list, or the head node before the first row at that level.
#[derive(Debug)]
struct Node {
    /// The time of the row. For a head node, the number of levels below it.
    ts: AtomicI64,
    /// The next node: an older row, or one with the same time that was inserted earlier.
    older: AtomicU32,
    /// The same row at the level below. At level 0, the number of the row.
    below: AtomicU32,
}

impl Default for KeyHead {
    fn default() -> Self {
        KeyHead(AtomicU32::new(NONE))
    }
}

impl Default for Node {
    fn default() -> Self {
        Node { ts: AtomicI64::new(0), older: AtomicU32::new(NONE), below: AtomicU32::new(NONE) }
    }
}

impl Default for Own {
    fn default() -> Self {
        Own { random: 0x9e37_79b9_7f4a_7c15, next: 0, spare: Vec::new(), cut: Vec::new() }
    }
}

impl Node {
    // Relaxed, for both methods: the Acquire of the load that led here orders them (T1).
    #[inline]
    fn ts(&self) -> i64 {
        self.ts.load(Ordering::Relaxed)
    }

    #[inline]
    fn below(&self) -> u32 {
        self.below.load(Ordering::Relaxed)
    }

    /// Returns the next node, which is completely written.
    #[inline]
    fn older(&self) -> u32 {
        // Acquire: pairs with the Release of the writer that linked the node.
        self.older.load(Ordering::Acquire)
    }

    /// Links a node that is completely written.
    fn link(&self, older: u32) {
        // Release: publishes the node's contents.
        self.older.store(older, Ordering::Release);
    }

    /// Writes a node that is not linked yet.
    fn write(&self, ts: i64, older: u32, below: u32) {
        // Relaxed: the store that links the node releases these.
        self.ts.store(ts, Ordering::Relaxed);
        self.older.store(older, Ordering::Relaxed);
        self.below.store(below, Ordering::Relaxed);
    }
}

impl ListState {
    /// Returns the first node of a key at its highest level.
    #[inline]
    fn top(&self, key: u32) -> Option<u32> {
        // Acquire: pairs with the Release of the writer that created the level.
        let top = self.heads.get(key)?.0.load(Ordering::Acquire);
        (top != NONE).then_some(top)
    }

    fn set_top(&self, key: u32, top: u32) {
        // Release: publishes the node.
        self.heads.get_or_make(key).0.store(top, Ordering::Release);
    }

    #[inline]
    fn node(&self, number: u32) -> &Node {
        self.nodes.get(number).expect("a linked node exists")
    }

    /// Descends from a key's highest level past all rows for which `passes` returns `true`. These
    /// rows must be newer than all other rows. At each level, reports the last node passed and its
    /// successor.
    #[inline]
    fn go_down(
        &self,
        top: u32,
        passes: impl Fn(i64) -> bool,
        mut tell: impl FnMut(usize, u32, u32),
    ) {
        let mut at = top;
        for level in (0..=self.node(top).ts() as usize).rev() {
            let mut behind = self.node(at).older();
            while behind != NONE && passes(self.node(behind).ts()) {
                at = behind;
                behind = self.node(at).older();
            }
            tell(level, at, behind);
            at = self.node(at).below();
        }
    }
}

impl TimeTravel {
    /// Returns the writer, and a reader that can be copied.
    pub fn split(&mut self) -> (ListWriter<'_>, ListReader<'_>) {
        (ListWriter { shared: &self.shared, own: &mut self.own }, ListReader(&self.shared))
    }

    /// Makes the memory of rows that were cut off available to later rows.
    pub fn recycle(&mut self) {
        self.own.spare.append(&mut self.own.cut);
    }

    /// Returns the number of bytes in use.
    pub fn memory(&self) -> usize {
        let Own { spare, cut, .. } = &self.own;
        self.shared.heads.memory()
            + self.shared.nodes.memory()
            + (spare.capacity() + cut.capacity()) * size_of::<u32>()
    }
}

impl ListWriter<'_> {
    /// Adds a row, before all rows with the same time.
    pub fn insert(&mut self, key: u32, ts: i64, row: u32) {
        let height = self.own.height();
        let (top, levels) = self.top_of(key, height);
        // 1. Find the predecessor at each level.
        let mut before = [(NONE, NONE); LEVELS];
        self.shared.go_down(
            top,
            |other| other > ts,
            |level, at, behind| {
                before[level] = (at, behind);
            },
        );
        debug_assert!(height <= levels, "rows are only in levels that exist");
        // 2. Link the row from the lowest level up (T2).
        let mut below = row;
        for &(at, behind) in &before[..height] {
            let node = self.own.take(self.shared);
            self.shared.node(node).write(ts, behind, below);
            self.shared.node(at).link(node);
            below = node;
        }
    }

    /// Returns a key's first node at the highest level, and the number of levels. A key has at
    /// least `height` levels.
    fn top_of(&mut self, key: u32, height: usize) -> (u32, usize) {
        let mut top = self.shared.top(key);
        let mut levels = top.map_or(0, |top| self.shared.node(top).ts() as usize + 1);
        while levels < height {
            let node = self.own.take(self.shared);
            self.shared.node(node).write(levels as i64, NONE, top.unwrap_or(NONE));
            self.shared.set_top(key, node);
            (top, levels) = (Some(node), levels + 1);
        }
        (top.expect("a row has a level"), levels)
    }

    /// Cuts off a key's rows before `ts` and returns whether any rows remain.
    pub fn cut(&mut self, key: u32, ts: i64) -> bool {
        let Some(top) = self.shared.top(key) else { return false };
        let (shared, cut) = (self.shared, &mut self.own.cut);
        let is_kept = |other| other >= ts;
        shared.go_down(top, is_kept, |_, at, behind| {
            let mut gone = behind;
            if gone != NONE {
                shared.node(at).link(NONE);
            }
            // Nodes that were cut off are not written to (T4).
            while gone != NONE {
                cut.push(gone);
                gone = shared.node(gone).older();
            }
        });
        self.has_rows(top)
    }

    /// Returns whether the list whose highest level begins at `top` has any rows.
    fn has_rows(&self, mut top: u32) -> bool {
        while self.shared.node(top).ts() > 0 {
            top = self.shared.node(top).below();
        }
        self.shared.node(top).older() != NONE
    }
}

impl ListReader<'_> {
    /// Calls `each` with the time and number of a key's rows, from time `newest` back to time
    /// `oldest`, both inclusive.
    #[inline]
    pub fn look_back(self, key: u32, newest: i64, oldest: i64, mut each: impl FnMut(i64, u32)) {
        let Some(top) = self.0.top(key) else { return };
        let mut at = NONE;
        self.0.go_down(top, |ts| ts > newest, |_, _, behind| at = behind);
        while at != NONE {
            let node = self.0.node(at);
            let ts = node.ts();
            if ts < oldest {
                return;
            }
            each(ts, node.below());
            at = node.older();
        }
    }
}

impl Own {
    /// Returns a random number of levels for a row.
    fn height(&mut self) -> usize {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let bits = (self.random >> 32) as u32 | 1 << 31;
        (1 + (bits.trailing_zeros() / BRANCHING.ilog2()) as usize).min(LEVELS)
    }

    /// Returns the number of a node that is not linked.
    fn take(&mut self, shared: &ListState) -> u32 {
        self.spare.pop().unwrap_or_else(|| {
            let number = self.next;
            shared.nodes.get_or_make(number);
            self.next += 1;
            number
        })
    }
}
