//! ScaleGate as published, for comparison: Algorithm 2 of ScaleJoin, line by line.
//!
//! Only times are compared. `written` contains each source's last row, which is held back until
//! that source pushes another. Nothing is freed before the end, because the paper relies on a
//! garbage collector.

use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_sync::CachePadded;
use tidegate_sync::atomic::{AtomicPtr, Ordering};

use crate::workload::Columns;

/// The number of levels, the same as in tidegate's row gate.
const LEVELS: usize = 6;

struct Node {
    ts: i64,
    source: usize,
    value: i64,
    next: [AtomicPtr<Node>; LEVELS],
}

impl Node {
    /// Allocates a node that is freed together with the gate.
    fn allocate(ts: i64, source: usize, value: i64) -> *mut Node {
        let next = [(); LEVELS].map(|()| AtomicPtr::new(ptr::null_mut()));
        Box::into_raw(Box::new(Node { ts, source, value, next }))
    }
}

struct Gate {
    head: *mut Node,
    written: Vec<CachePadded<AtomicPtr<Node>>>,
}

// SAFETY: nodes are only changed through atomics, and live as long as the gate.
unsafe impl Sync for Gate {}

struct Source<'a> {
    gate: &'a Gate,
    number: usize,
    update: [*mut Node; LEVELS],
    random: u64,
}

// SAFETY: the targets of its pointers live as long as the gate, and are only changed through
// atomics.
unsafe impl Send for Source<'_> {}

impl Gate {
    fn new(sources: usize) -> Self {
        let written =
            (0..sources).map(|_| CachePadded::new(AtomicPtr::new(ptr::null_mut()))).collect();
        Gate { head: Node::allocate(i64::MIN, 0, 0), written }
    }

    fn source(&self, number: usize) -> Source<'_> {
        let random = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Source { gate: self, number, update: [self.head; LEVELS], random }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let mut node = self.head;
        while !node.is_null() {
            // SAFETY: level 0 contains every node once, and no other thread has the gate.
            let owned = unsafe { Box::from_raw(node) };
            node = owned.next[0].load(Ordering::Relaxed);
        }
    }
}

/// Lines 38 to 44: returns the row after `head` if its source has written another row since then.
fn get_next_ready_tuple(gate: &Gate, head: &mut *mut Node) -> Option<i64> {
    // SAFETY: nodes live as long as the gate.
    let next = unsafe { &**head }.next[0].load(Ordering::Acquire);
    // SAFETY: as above.
    let node = unsafe { next.as_ref() }?;
    if gate.written[node.source].load(Ordering::Acquire) == next {
        return None;
    }
    *head = next;
    Some(node.value)
}

impl Source<'_> {
    /// Lines 46 to 59.
    fn add_tuple(&mut self, ts: i64, value: i64) {
        let levels = self.level_height();
        let node = Node::allocate(ts, self.number, value);
        let mut current = self.update[LEVELS - 1];
        for level in (0..LEVELS).rev() {
            while let Some(next) =
                // SAFETY: nodes live as long as the gate.
                unsafe { (*current).next[level].load(Ordering::Acquire).as_ref() }
            {
                if next.ts >= ts {
                    break;
                }
                current = ptr::from_ref(next).cast_mut();
            }
            self.update[level] = current;
        }
        for level in 0..levels {
            level_insert(self.update[level], node, ts, level);
        }
        self.gate.written[self.number].store(node, Ordering::Release);
    }

    fn level_height(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (1 + self.random.trailing_zeros() as usize / 2).min(LEVELS)
    }
}

/// Lines 61 to 67.
fn level_insert(mut from: *mut Node, node: *mut Node, ts: i64, level: usize) {
    loop {
        // SAFETY: nodes live as long as the gate.
        let next = unsafe { (*from).next[level].load(Ordering::Acquire) };
        // SAFETY: as above.
        if unsafe { next.as_ref() }.is_some_and(|next| next.ts <= ts) {
            from = next;
            continue;
        }
        // SAFETY: as above.
        let (link, own) = unsafe { (&(*from).next[level], &(*node).next[level]) };
        own.store(next, Ordering::Relaxed);
        if link.compare_exchange(next, node, Ordering::Release, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// Pushes and reads every row, and adds up the values. Each source pushes one additional row at the
/// beginning and one at the end. As a result, no other row can overtake the source's first real
/// row, and the source's last real row is not held back.
pub(crate) fn scale_gate(columns: &Columns, readers: usize) -> Duration {
    let gate = Gate::new(columns.ts.len());
    let mut sources: Vec<_> = (0..columns.ts.len()).map(|number| gate.source(number)).collect();
    sources.iter_mut().for_each(|source| source.add_tuple(i64::MIN, 0));
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..readers {
            let gate = &gate;
            scope.spawn(move || {
                let (mut head, mut sum) = (gate.head, 0i64);
                let mut left = columns.rows + columns.ts.len();
                while left > 0 {
                    match get_next_ready_tuple(gate, &mut head) {
                        Some(value) => (sum, left) = (sum.wrapping_add(value), left - 1),
                        None => thread::yield_now(),
                    }
                }
                assert_eq!(sum, columns.sum);
            });
        }
        columns.feed(|source, ts, value| sources[source].add_tuple(ts, value));
        sources.iter_mut().for_each(|source| source.add_tuple(i64::MAX, 0));
    });
    started.elapsed()
}
