//! Explores all interleavings that loom can model in small cases of the block gate.
//!
//! `make loom` runs these tests, the row gate's tests (`rust/papers/tests`) and `loom_sync.rs`.
//!
//! Under loom, a segment has one node, a block has two rows, and a list has two levels. Memory is
//! reclaimed at every step. So paths that are otherwise rare are taken often. The models detect
//! orderings that are too weak. With such an ordering, a row is read before it is written, or
//! memory is freed while it is being read. Loom reports both kinds of races, because the data is in
//! checked cells. The models also detect rows that are lost, duplicated or returned too early, and
//! leaks of counted payloads. The models do not cover more than three threads or long histories.
//! The models also do not cover machines with a weaker memory order than loom's model, which does
//! not reorder loads. The number of preemptions is limited to 2 or 3, because a full search would
//! take hours. The profile enables debug assertions. These assertions read keys, which are also in
//! checked cells.

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;
use tidegate_structures::gate::{BlockGate, BlockReader, BlockSource, Next, Tier};

use crate::loom_payloads::{CountedPayload, check};

/// A run that counts itself.
struct CountedRun(Vec<i64>, #[allow(dead_code, reason = "counts by being dropped")] CountedPayload);

impl tidegate_structures::gate::Run for CountedRun {
    fn ts(&self) -> &[i64] {
        &self.0
    }
}

fn push_run(source: &mut BlockSource<CountedRun>, alive: &Arc<AtomicUsize>, ts: &[i64]) {
    assert!(source.push(CountedRun(ts.to_vec(), CountedPayload::new(alive))).is_ok());
}

fn read_blocks(reader: &mut BlockReader<CountedRun>, rows: &mut Vec<(i64, u16)>) -> bool {
    loop {
        match reader.next_block() {
            Next::Ready(block) => rows
                .extend(block.ts().iter().copied().zip(block.ids().iter().map(|id| id.source()))),
            Next::NotYet => return false,
            Next::End => return true,
        }
    }
}

#[test]
fn loom_block_push_read() {
    check(3, |alive| {
        let (mut sources, mut readers) = BlockGate::new(2, 1).unwrap();
        let mut reader = readers.pop().unwrap();
        let (mut b, mut a) = (sources.pop().unwrap(), sources.pop().unwrap());
        let pusher = {
            let alive = alive.clone();
            thread::spawn(move || {
                push_run(&mut a, &alive, &[1, 3]);
                push_run(&mut b, &alive, &[1, 2]);
                b.advance(4);
            })
        };
        let merged = [(1, 0), (1, 1), (2, 1), (3, 0)];
        let mut rows = Vec::new();
        read_blocks(&mut reader, &mut rows);
        assert!(merged.starts_with(&rows));
        pusher.join().unwrap();
        assert!(read_blocks(&mut reader, &mut rows));
        assert_eq!(rows, merged);
    });
}

#[test]
fn loom_block_push_push() {
    check(3, |alive| {
        let (mut sources, mut readers) = BlockGate::new(2, 1).unwrap();
        let (mut b, mut a) = (sources.pop().unwrap(), sources.pop().unwrap());
        let other = {
            let alive = alive.clone();
            thread::spawn(move || {
                push_run(&mut b, &alive, &[1, 2]);
                push_run(&mut b, &alive, &[3]);
            })
        };
        push_run(&mut a, alive, &[2]);
        let mut rows = Vec::new();
        read_blocks(&mut readers[0], &mut rows);
        assert!([(1, 1), (2, 0)].starts_with(&rows));
        other.join().unwrap();
        drop(a);
        assert!(read_blocks(&mut readers[0], &mut rows));
        assert_eq!(rows, [(1, 1), (2, 0), (2, 1), (3, 1)]);
    });
}

/// Two readers build blocks at the same time, with different views of the ready rows. Blocks and
/// runs are freed in the meantime.
#[test]
fn loom_block_read_read() {
    check(2, |alive| {
        let (mut sources, mut readers) = BlockGate::new(1, 2).unwrap();
        let mut a = sources.pop().unwrap();
        push_run(&mut a, alive, &[1, 2, 3]);
        let (mut second, mut first) = (readers.pop().unwrap(), readers.pop().unwrap());
        let thread = thread::spawn(move || {
            let mut rows = Vec::new();
            read_blocks(&mut second, &mut rows);
            rows
        });
        let mut rows = Vec::new();
        read_blocks(&mut first, &mut rows);
        push_run(&mut a, alive, &[3, 4]);
        drop(a);
        assert!(read_blocks(&mut first, &mut rows));
        assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [1, 2, 3, 3, 4]);
        let others = thread.join().unwrap();
        assert!(rows.starts_with(&others) && others.len() >= 3);
    });
}

#[test]
fn loom_block_source_joins_and_leaves() {
    check(2, |alive| {
        let (mut sources, mut readers) = BlockGate::new(1, 1).unwrap();
        let mut a = sources.pop().unwrap();
        push_run(&mut a, alive, &[1]);
        let pusher = {
            let alive = alive.clone();
            thread::spawn(move || {
                let mut b = a.fork().unwrap();
                push_run(&mut a, &alive, &[3]);
                push_run(&mut b, &alive, &[2]);
                drop(a);
                push_run(&mut b, &alive, &[4]);
            })
        };
        let merged = [(1, 0), (2, 1), (3, 0), (4, 1)];
        let mut rows = Vec::new();
        read_blocks(&mut readers[0], &mut rows);
        assert!(merged.starts_with(&rows));
        let mut fork = readers[0].fork();
        let mut forked = rows.clone();
        pusher.join().unwrap();
        assert!(read_blocks(&mut readers[0], &mut rows));
        assert!(read_blocks(&mut fork, &mut forked));
        assert_eq!((&rows[..], &forked[..]), (&merged[..], &merged[..]));
    });
}

/// A source in the first tier is forked from a source in the last tier.
#[test]
fn loom_block_source_of_the_first_tier_joins() {
    check(2, |alive| {
        let (mut sources, mut readers) = BlockGate::tiered([Tier::Last].into_iter(), 1).unwrap();
        let mut a = sources.pop().unwrap();
        push_run(&mut a, alive, &[1]);
        let pusher = {
            let alive = alive.clone();
            thread::spawn(move || {
                let mut b = a.fork_at(Tier::First, 2).unwrap();
                push_run(&mut a, &alive, &[1, 2]);
                push_run(&mut b, &alive, &[2]);
            })
        };
        let merged = [(1, 0), (1, 0), (2, 1), (2, 0)];
        let mut rows = Vec::new();
        read_blocks(&mut readers[0], &mut rows);
        assert!(merged.starts_with(&rows));
        pusher.join().unwrap();
        assert!(read_blocks(&mut readers[0], &mut rows));
        assert_eq!(rows, merged);
    });
}
