//! Other ways to merge sorted sources: under a lock, in a concurrent ordered set, and on one
//! thread.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap};
use std::hint::black_box;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_skiplist::SkipSet;
use tidegate_structures::gate::RowId;
use tidegate_sync::atomic::{AtomicI64, Ordering};

use crate::workload::Columns;

/// A binary heap behind a mutex. The same lock protects the last time of every source.
pub(crate) fn mutex_heap(columns: &Columns) -> Duration {
    struct State {
        heap: BinaryHeap<Reverse<(i64, u64, i64)>>,
        promised: Vec<i64>,
        frontier: BTreeSet<(i64, usize)>,
    }
    let k = columns.ts.len();
    let state = State {
        heap: BinaryHeap::new(),
        promised: vec![i64::MIN; k],
        frontier: (0..k).map(|source| (i64::MIN, source)).collect(),
    };
    let state = Mutex::new(state);
    let started = Instant::now();
    thread::scope(|scope| {
        let state = &state;
        scope.spawn(move || {
            let mut left = columns.rows;
            let mut sum = 0i64;
            while left > 0 {
                let mut guard = state.lock().unwrap();
                let bound = guard.frontier.first().copied();
                let ready = guard.heap.peek().filter(|row| {
                    bound.is_none_or(|(ts, source)| {
                        (row.0.0, (row.0.1 >> 48) as usize) <= (ts, source)
                    })
                });
                if ready.is_some() {
                    sum = sum.wrapping_add(guard.heap.pop().unwrap().0.2);
                    left -= 1;
                } else {
                    drop(guard);
                    thread::yield_now();
                }
            }
            assert_eq!(sum, columns.sum);
        });
        let mut pushed = vec![0; k];
        columns.feed(|source, ts, value| {
            let mut guard = state.lock().unwrap();
            guard.heap.push(Reverse((
                ts,
                RowId::new(source as u16, pushed[source]).to_bits(),
                value,
            )));
            pushed[source] += 1;
            let before = std::mem::replace(&mut guard.promised[source], ts);
            guard.frontier.remove(&(before, source));
            guard.frontier.insert((ts, source));
        });
        state.lock().unwrap().frontier.clear();
    });
    started.elapsed()
}

/// Merges with crossbeam's skip list. A row is ready once no source can still push an earlier row.
pub(crate) fn skip_list(columns: &Columns) -> Duration {
    let k = columns.ts.len();
    let set = SkipSet::<(i64, u64, i64)>::new();
    let promised: Vec<AtomicI64> = (0..k).map(|_| AtomicI64::new(i64::MIN)).collect();
    let started = Instant::now();
    thread::scope(|scope| {
        let (set, promised) = (&set, &promised);
        scope.spawn(move || {
            let mut left = columns.rows;
            let mut sum = 0i64;
            while left > 0 {
                let bound = (0..k)
                    .map(|source| (promised[source].load(Ordering::Acquire), source))
                    .min()
                    .unwrap();
                match set.front() {
                    Some(row) if (row.value().0, (row.value().1 >> 48) as usize) <= bound => {
                        sum = sum.wrapping_add(row.value().2);
                        row.remove();
                        left -= 1;
                    }
                    _ => thread::yield_now(),
                }
            }
            assert_eq!(sum, columns.sum);
        });
        let mut pushed = vec![0; k];
        columns.feed(|source, ts, value| {
            set.insert((ts, RowId::new(source as u16, pushed[source]).to_bits(), value));
            pushed[source] += 1;
            promised[source].store(ts, Ordering::Release);
        });
        promised.iter().for_each(|promised| promised.store(i64::MAX, Ordering::Release));
    });
    started.elapsed()
}

/// Merges whole columns with `std`'s heap.
pub(crate) fn binary_heap(columns: &Columns) -> Duration {
    let started = Instant::now();
    let first = |source: usize| Reverse((columns.ts[source][0], source, 0));
    let mut heap: BinaryHeap<_> = (0..columns.ts.len()).map(first).collect();
    let mut merged = Vec::with_capacity(columns.rows);
    while let Some(mut top) = heap.peek_mut() {
        let Reverse((ts, source, at)) = *top;
        merged.push((ts, RowId::new(source as u16, at as u64)));
        match columns.ts[source].get(at + 1) {
            Some(&next) => *top = Reverse((next, source, at + 1)),
            None => drop(PeekMut::pop(top)),
        }
    }
    let took = started.elapsed();
    assert_eq!(black_box(merged).len(), columns.rows);
    took
}

/// Merges whole columns with a loser tree.
pub(crate) fn loser_tree(columns: &Columns) -> Duration {
    let started = Instant::now();
    let k = columns.ts.len();
    let width = k.next_power_of_two();
    let mut at = vec![0usize; width];
    let key = |source: usize, at: usize| match columns.ts.get(source).and_then(|ts| ts.get(at)) {
        Some(&ts) => (ts, source),
        None => (i64::MAX, usize::MAX),
    };
    // The losers are in the inner nodes, and the winner is in node 0.
    let mut tree = vec![(i64::MIN, usize::MAX); width];
    let mut winners: Vec<_> = (0..2 * width)
        .map(|node| if node < width { (0, 0) } else { key(node - width, 0) })
        .collect();
    for node in (1..width).rev() {
        let (a, b) = (winners[2 * node], winners[2 * node + 1]);
        (winners[node], tree[node]) = if a <= b { (a, b) } else { (b, a) };
    }
    let mut winner = winners[1];
    let mut merged = Vec::with_capacity(columns.rows);
    while winner.1 != usize::MAX {
        let (ts, source) = winner;
        merged.push((ts, RowId::new(source as u16, at[source] as u64)));
        at[source] += 1;
        winner = key(source, at[source]);
        let mut node = (width + source) / 2;
        while node > 0 {
            if tree[node] < winner {
                std::mem::swap(&mut tree[node], &mut winner);
            }
            node /= 2;
        }
    }
    let took = started.elapsed();
    assert_eq!(black_box(merged).len(), columns.rows);
    took
}

/// Concatenates and sorts all rows.
pub(crate) fn sort(columns: &Columns) -> Duration {
    let started = Instant::now();
    let mut rows = Vec::with_capacity(columns.rows);
    for (source, ts) in columns.ts.iter().enumerate() {
        rows.extend(
            ts.iter().enumerate().map(|(at, &ts)| (ts, RowId::new(source as u16, at as u64))),
        );
    }
    rows.sort_unstable();
    let took = started.elapsed();
    assert_eq!(black_box(rows).len(), columns.rows);
    took
}
