//! W5: merging k sorted streams of (ts int64, value int64) into one ordered ready stream for n readers.
//!
//! One thread feeds all sources in turns, one thread a reader; a time is from the first push until
//! the last reader has seen the last row. A row counts once however many readers see it. Every
//! system's output is compared with the sorted input before anything is timed.
//!
//! | name | what is measured |
//! | --- | --- |
//! | rows | `ScaleGate`: each row pushed, read and its value added |
//! | shared | T-Gate: two readers share the rows of `ScaleGate` |
//! | blocks | `BlockGate`: runs of 8 192 rows pushed, blocks read, a row's source and value looked up |
//! | blocks_merge | the same, blocks read and not looked into: the merge alone |
//! | blocks_helped | the same with one reader, and the feeding thread merging when it has fed |
//! | mutex_heap | a binary heap behind a mutex, with the same readiness rule |
//! | skip_list | crossbeam's skip list, readiness checked over all sources |
//! | binary_heap | sequential merge of whole columns, `std`'s heap |
//! | loser_tree | sequential merge of whole columns, tree of losers |
//! | sort | all rows concatenated and sorted, as a peer without a merge does |

use std::collections::{BTreeSet, BinaryHeap};
use std::hint::black_box;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_skiplist::SkipSet;
use tidegate_structures::gate::{BlockGate, BlockReader, Next, Rejected, RowId, Run, ScaleGate};

/// Rows of one measurement.
const ROWS: usize = 10_000_000;

/// Rows of one measurement of systems that take a lock or a node for each.
const SLOW_ROWS: usize = 2_000_000;

/// Rows that a source pushes before it is the next one's turn.
const RUN: usize = 8192;

/// Rows in a turn where rows are pushed one by one.
const TURN: usize = 16;

/// A run as W5 has it: times and values, cut out of columns that stay where they are.
struct Slice {
    ts: &'static [i64],
    values: &'static [i64],
}

impl Run for Slice {
    fn ts(&self) -> &[i64] {
        self.ts
    }
}

struct Columns {
    ts: Vec<&'static [i64]>,
    values: Vec<&'static [i64]>,
    rows: usize,
}

impl Columns {
    /// `k` columns of random times within 1 000 s and as many values.
    fn new(k: usize, rows: usize) -> Self {
        let mut state = 42u64;
        let mut random = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^ mixed >> 27
        };
        let mut column = |sorted: bool| -> &'static [i64] {
            let mut column: Vec<i64> = (0..rows / k).map(|_| (random() % 1_000_000_000) as i64).collect();
            if sorted {
                column.sort_unstable();
            }
            column.leak()
        };
        let ts = (0..k).map(|_| column(true)).collect();
        let values = (0..k).map(|_| column(false)).collect();
        Columns { ts, values, rows: rows / k * k }
    }

    fn sum(&self) -> i64 {
        self.values.iter().flat_map(|values| values.iter()).fold(0, |sum, value| sum.wrapping_add(*value))
    }
}

fn row_gate(columns: &Columns, readers: usize, shared: bool) -> Duration {
    let (mut sources, mut gate) = ScaleGate::with_memory_limit::<i64>(columns.ts.len(), readers, 8 << 20).unwrap();
    let group = shared.then(|| gate.pop().unwrap().share());
    let started = Instant::now();
    thread::scope(|scope| {
        let mut reading = Vec::new();
        for reader in 0..readers {
            let mut shared = group.as_ref().map(|group| group.fork());
            let mut alone = if shared.is_none() { gate.pop() } else { None };
            let _ = reader;
            reading.push(scope.spawn(move || {
                let mut sum = 0i64;
                loop {
                    let next = match (&mut shared, &mut alone) {
                        (Some(reader), _) => reader.next_ready(),
                        (None, Some(reader)) => reader.next_ready(),
                        (None, None) => unreachable!("each thread has a reader"),
                    };
                    match next {
                        Next::Ready(row) => sum = sum.wrapping_add(*row.payload),
                        Next::NotYet => thread::yield_now(),
                        Next::End => return sum,
                    }
                }
            }));
        }
        drop((group, gate));
        scope.spawn(move || {
            let longest = columns.ts[0].len();
            for turn in (0..longest).step_by(TURN) {
                for ((source, ts), values) in sources.iter_mut().zip(&columns.ts).zip(&columns.values) {
                    for at in turn..(turn + TURN).min(longest) {
                        let mut value = values[at];
                        while let Err(rejected) = source.push(ts[at], value) {
                            assert!(matches!(rejected, Rejected::Full { .. }));
                            value = rejected.into_inner();
                            thread::yield_now();
                        }
                    }
                }
            }
        });
        let sums: Vec<i64> = reading.into_iter().map(|reader| reader.join().unwrap()).collect();
        let sum = columns.sum();
        if shared {
            assert_eq!(sums.into_iter().fold(0, i64::wrapping_add), sum);
        } else {
            assert!(sums.into_iter().all(|found| found == sum));
        }
    });
    started.elapsed()
}

fn block_gate(columns: &Columns, readers: usize, look_up: bool, help: bool) -> Duration {
    let (mut sources, gate) = BlockGate::with_memory_limit::<Slice>(columns.ts.len(), readers, 64 << 20).unwrap();
    let mut helper = help.then(|| gate[0].fork());
    let started = Instant::now();
    thread::scope(|scope| {
        for mut reader in gate {
            scope.spawn(move || {
                let (mut rows, mut sum) = (0, 0i64);
                loop {
                    match reader.next_block() {
                        Next::Ready(block) => {
                            rows += block.len();
                            if look_up {
                                for id in block.ids() {
                                    let value = columns.values[usize::from(id.source())][id.position() as usize];
                                    sum = sum.wrapping_add(value);
                                }
                            }
                        }
                        Next::NotYet => thread::yield_now(),
                        Next::End => break,
                    }
                }
                assert_eq!(rows, columns.rows);
                assert!(!look_up || sum == columns.sum());
            });
        }
        scope.spawn(move || {
            let longest = columns.ts[0].len();
            for turn in (0..longest).step_by(RUN) {
                let rows = turn..(turn + RUN).min(longest);
                for ((source, ts), values) in sources.iter_mut().zip(&columns.ts).zip(&columns.values) {
                    let mut run = Slice { ts: &ts[rows.clone()], values: &values[rows.clone()] };
                    while let Err(rejected) = source.push(run) {
                        run = rejected.into_inner();
                        help_out(&mut helper);
                        thread::yield_now();
                    }
                }
                help_out(&mut helper);
            }
        });
    });
    started.elapsed()
}

/// Takes part in the merging of what is ready.
fn help_out(helper: &mut Option<BlockReader<Slice>>) {
    if let Some(helper) = helper {
        while let Next::Ready(_) = helper.next_block() {}
    }
}

/// A binary heap behind a mutex, and every source's last time, under the same lock.
fn mutex_heap(columns: &Columns) -> Duration {
    struct State {
        heap: BinaryHeap<std::cmp::Reverse<(i64, u64, i64)>>,
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
                let ready = guard
                    .heap
                    .peek()
                    .filter(|row| bound.is_none_or(|(ts, source)| (row.0.0, (row.0.1 >> 48) as usize) <= (ts, source)));
                if ready.is_some() {
                    sum = sum.wrapping_add(guard.heap.pop().unwrap().0.2);
                    left -= 1;
                } else {
                    drop(guard);
                    thread::yield_now();
                }
            }
            assert_eq!(sum, columns.sum());
        });
        let longest = columns.ts[0].len();
        for turn in (0..longest).step_by(TURN) {
            for source in 0..k {
                for at in turn..(turn + TURN).min(longest) {
                    let (ts, value) = (columns.ts[source][at], columns.values[source][at]);
                    let mut guard = state.lock().unwrap();
                    guard.heap.push(std::cmp::Reverse((ts, RowId::new(source as u16, at as u64).to_bits(), value)));
                    let before = std::mem::replace(&mut guard.promised[source], ts);
                    guard.frontier.remove(&(before, source));
                    guard.frontier.insert((ts, source));
                }
            }
        }
        state.lock().unwrap().frontier.clear();
    });
    started.elapsed()
}

/// crossbeam's skip list; a row is ready when all sources' last times say so.
fn skip_list(columns: &Columns) -> Duration {
    use tidegate_sync::atomic::{AtomicI64, Ordering};
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
                let bound = (0..k).map(|source| (promised[source].load(Ordering::Acquire), source)).min().unwrap();
                match set.front() {
                    Some(row) if (row.value().0, (row.value().1 >> 48) as usize) <= bound => {
                        sum = sum.wrapping_add(row.value().2);
                        row.remove();
                        left -= 1;
                    }
                    _ => thread::yield_now(),
                }
            }
            assert_eq!(sum, columns.sum());
        });
        let longest = columns.ts[0].len();
        for turn in (0..longest).step_by(TURN) {
            for (source, promised) in promised.iter().enumerate() {
                for at in turn..(turn + TURN).min(longest) {
                    let (ts, value) = (columns.ts[source][at], columns.values[source][at]);
                    set.insert((ts, RowId::new(source as u16, at as u64).to_bits(), value));
                    promised.store(ts, Ordering::Release);
                }
            }
        }
        promised.iter().for_each(|promised| promised.store(i64::MAX, Ordering::Release));
    });
    started.elapsed()
}

fn binary_heap(columns: &Columns) -> Duration {
    let started = Instant::now();
    let first = |source: usize| std::cmp::Reverse((columns.ts[source][0], source, 0));
    let mut heap: BinaryHeap<_> = (0..columns.ts.len()).map(first).collect();
    let mut merged = Vec::with_capacity(columns.rows);
    while let Some(mut top) = heap.peek_mut() {
        let std::cmp::Reverse((ts, source, at)) = *top;
        merged.push((ts, RowId::new(source as u16, at as u64)));
        match columns.ts[source].get(at + 1) {
            Some(&next) => *top = std::cmp::Reverse((next, source, at + 1)),
            None => drop(std::collections::binary_heap::PeekMut::pop(top)),
        }
    }
    let took = started.elapsed();
    assert_eq!(black_box(merged).len(), columns.rows);
    took
}

fn loser_tree(columns: &Columns) -> Duration {
    let started = Instant::now();
    let k = columns.ts.len();
    let width = k.next_power_of_two();
    let mut at = vec![0usize; width];
    let key = |source: usize, at: usize| match columns.ts.get(source).and_then(|ts| ts.get(at)) {
        Some(&ts) => (ts, source),
        None => (i64::MAX, usize::MAX),
    };
    // Losers in the inner nodes, the winner in node 0.
    let mut tree = vec![(i64::MIN, usize::MAX); width];
    let mut winners: Vec<_> =
        (0..2 * width).map(|node| if node < width { (0, 0) } else { key(node - width, 0) }).collect();
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

fn sort(columns: &Columns) -> Duration {
    let started = Instant::now();
    let mut rows = Vec::with_capacity(columns.rows);
    for (source, ts) in columns.ts.iter().enumerate() {
        rows.extend(ts.iter().enumerate().map(|(at, &ts)| (ts, RowId::new(source as u16, at as u64))));
    }
    rows.sort_unstable();
    let took = started.elapsed();
    assert_eq!(black_box(rows).len(), columns.rows);
    took
}

/// Both gates give the sorted rows.
fn check(columns: &Columns) {
    let mut expected: Vec<_> = columns
        .ts
        .iter()
        .enumerate()
        .flat_map(|(source, ts)| ts.iter().enumerate().map(move |(at, &ts)| (ts, RowId::new(source as u16, at as u64))))
        .collect();
    expected.sort_unstable();
    let (mut sources, mut readers) = BlockGate::new::<Slice>(columns.ts.len(), 1).unwrap();
    let (mut row_sources, mut row_readers) = ScaleGate::new::<i64>(columns.ts.len(), 1).unwrap();
    for (source, (ts, values)) in columns.ts.iter().zip(&columns.values).enumerate() {
        for (ts, values) in ts.chunks(RUN).zip(values.chunks(RUN)) {
            sources[source].push(Slice { ts, values }).unwrap();
        }
        for (ts, value) in ts.iter().zip(*values) {
            row_sources[source].push(*ts, *value).unwrap();
        }
    }
    drop((sources, row_sources));
    let mut merged = Vec::new();
    while let Next::Ready(block) = readers[0].next_block() {
        for run in block.runs() {
            assert_eq!(run.run.ts.len(), run.run.values.len());
        }
        merged.extend(block.ts().iter().copied().zip(block.ids().iter().copied()));
    }
    assert!(merged == expected, "the block gate's rows are the sorted rows");
    merged.clear();
    while let Next::Ready(row) = row_readers[0].next_ready() {
        merged.push((row.ts, row.id));
    }
    assert!(merged == expected, "the row gate's rows are the sorted rows");
}

fn w5(criterion: &mut Criterion) {
    type System = (&'static str, fn(&Columns) -> Duration);
    let fast: &[System] = &[
        ("blocks/1", |columns| block_gate(columns, 1, true, false)),
        ("blocks/2", |columns| block_gate(columns, 2, true, false)),
        ("blocks_merge/1", |columns| block_gate(columns, 1, false, false)),
        ("blocks_merge/2", |columns| block_gate(columns, 2, false, false)),
        ("blocks_helped/1", |columns| block_gate(columns, 1, false, true)),
        ("loser_tree", loser_tree),
        ("binary_heap", binary_heap),
        ("sort", sort),
    ];
    let slow: &[System] = &[
        ("rows/1", |columns| row_gate(columns, 1, false)),
        ("rows/2", |columns| row_gate(columns, 2, false)),
        ("shared/2", |columns| row_gate(columns, 2, true)),
        ("mutex_heap", mutex_heap),
        ("skip_list", skip_list),
    ];
    for (rows, systems) in [(ROWS, fast), (SLOW_ROWS, slow)] {
        for k in [2, 20] {
            let columns = Columns::new(k, rows);
            check(&Columns::new(k, rows / 10));
            let mut group = criterion.benchmark_group(format!("w5/k={k}"));
            group.throughput(Throughput::Elements(columns.rows as u64)).sample_size(10);
            group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(2));
            for (name, system) in systems {
                group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                    bencher.iter_custom(|times| (0..times).map(|_| system(&columns)).sum());
                });
            }
        }
    }
}

criterion_group!(benches, w5);
criterion_main!(benches);
