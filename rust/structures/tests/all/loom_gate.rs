//! Every interleaving that loom models of small cases of both gates.
//!
//! `make loom` runs these and `loom_sync.rs`.
//!
//! Under loom a segment has one node, a block two rows, a list two levels, and memory is looked
//! after at every step, so that the rare paths are taken all the time. What the models catch:
//! orderings that are too weak (a row read before it is written, memory freed while it is read:
//! both are accesses to a checked cell that race), lost and doubled rows, rows given too early,
//! leaks of counted payloads. What they cannot: more than three threads, long histories, and
//! machines weaker than loom's model, which does not reorder loads. Preemptions are bounded by 2 or
//! 3: the full search would take hours. Debug assertions are on, as the profile has them: they read
//! keys, which are checked cells as well.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use tidegate_structures::gate::{BlockGate, BlockReader, BlockSource, Next, Rejected, Tier};
use tidegate_structures::papers::row_gate::{Reader, ScaleGate, SharedReader, Source};
use tidegate_sync::explore;

/// A payload that counts those alive.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Explores `model`; every payload that it makes must be dropped at its end.
fn check(preemptions: usize, model: impl Fn(&Arc<AtomicUsize>) + Send + Sync + 'static) {
    explore(Some(preemptions), move || {
        let alive = Arc::new(AtomicUsize::new(0));
        model(&alive);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "payloads alive after the gate is gone");
    });
}

fn gate(alive: &Arc<AtomicUsize>, sources: usize) -> (Vec<Source<Counted>>, Reader<Counted>) {
    let _ = alive;
    let (sources, mut readers) = ScaleGate::new(sources, 1).unwrap();
    (sources, readers.pop().unwrap())
}

fn push(source: &mut Source<Counted>, alive: &Arc<AtomicUsize>, ts: i64) {
    assert!(source.push(ts, Counted::new(alive)).is_ok());
}

/// Reads what is ready, in order after `rows`.
fn read(reader: &mut Reader<Counted>, rows: &mut Vec<(i64, u16)>) -> bool {
    loop {
        match reader.next_ready() {
            Next::Ready(row) => {
                assert!(row.payload.0.load(Ordering::Relaxed) > 0, "a row given is alive");
                rows.push((row.ts, row.id.source()));
            }
            Next::NotYet => return false,
            Next::End => return true,
        }
    }
}

#[test]
fn loom_push_push() {
    check(3, |alive| {
        let (mut sources, mut reader) = gate(alive, 2);
        let (mut b, mut a) = (sources.pop().unwrap(), sources.pop().unwrap());
        let other = {
            let alive = alive.clone();
            thread::spawn(move || {
                push(&mut b, &alive, 1);
                push(&mut b, &alive, 2);
            })
        };
        push(&mut a, alive, 1);
        push(&mut a, alive, 3);
        other.join().unwrap();
        drop(a);
        let mut rows = Vec::new();
        assert!(read(&mut reader, &mut rows));
        assert_eq!(rows, [(1, 0), (1, 1), (2, 1), (3, 0)]);
    });
}

#[test]
fn loom_push_read() {
    check(3, |alive| {
        let (mut sources, mut reader) = gate(alive, 2);
        let (mut b, mut a) = (sources.pop().unwrap(), sources.pop().unwrap());
        let pusher = {
            let alive = alive.clone();
            thread::spawn(move || {
                push(&mut a, &alive, 1);
                push(&mut b, &alive, 1);
                push(&mut a, &alive, 2);
                push(&mut b, &alive, 3);
            })
        };
        let mut rows = Vec::new();
        read(&mut reader, &mut rows);
        pusher.join().unwrap();
        assert!(read(&mut reader, &mut rows));
        assert_eq!(rows, [(1, 0), (1, 1), (2, 0), (3, 1)]);
    });
}

/// Two sources in threads of their own and a reader: what is read is a prefix of the merged order
/// at every moment, so no row is given before one that sorts earlier is there.
#[test]
fn loom_push_push_read() {
    check(2, |alive| {
        let (mut sources, mut reader) = gate(alive, 2);
        let pushers: Vec<_> = [vec![2], vec![1, 2]]
            .into_iter()
            .map(|times| {
                let mut source = sources.remove(0);
                let alive = alive.clone();
                thread::spawn(move || {
                    times.into_iter().for_each(|ts| push(&mut source, &alive, ts))
                })
            })
            .collect();
        let merged = [(1, 1), (2, 0), (2, 1)];
        let mut rows = Vec::new();
        read(&mut reader, &mut rows);
        assert!(merged.starts_with(&rows));
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        assert!(read(&mut reader, &mut rows));
        assert_eq!(rows, merged);
    });
}

#[test]
fn loom_read_read() {
    check(3, |alive| {
        let (mut sources, mut reader) = gate(alive, 1);
        let mut a = sources.pop().unwrap();
        push(&mut a, alive, 1);
        let mut other = reader.fork();
        let thread = thread::spawn(move || {
            let mut rows = Vec::new();
            read(&mut other, &mut rows);
            rows
        });
        push(&mut a, alive, 2);
        let mut rows = Vec::new();
        read(&mut reader, &mut rows);
        assert_eq!(rows, [(1, 0), (2, 0)]);
        let others = thread.join().unwrap();
        assert!(rows.starts_with(&others) && !others.is_empty());
    });
}

#[test]
fn loom_advance() {
    check(3, |alive| {
        let (mut sources, mut reader) = gate(alive, 2);
        let (mut b, mut a) = (sources.pop().unwrap(), sources.pop().unwrap());
        push(&mut a, alive, 1);
        push(&mut a, alive, 5);
        let pusher = {
            let alive = alive.clone();
            thread::spawn(move || {
                b.advance(3);
                assert!(matches!(
                    b.push(2, Counted::new(&alive)),
                    Err(Rejected::Late { promised: 3, .. })
                ));
                push(&mut b, &alive, 4);
            })
        };
        let mut rows = Vec::new();
        assert!(!read(&mut reader, &mut rows));
        assert!([(1, 0), (4, 1), (5, 0)].starts_with(&rows));
        pusher.join().unwrap();
        drop(a);
        assert!(read(&mut reader, &mut rows));
        assert_eq!(rows, [(1, 0), (4, 1), (5, 0)]);
    });
}

#[test]
fn loom_close_at_the_end_of_time() {
    check(3, |alive| {
        let (mut sources, mut reader) = gate(alive, 2);
        let (mut b, mut a) = (sources.pop().unwrap(), sources.pop().unwrap());
        push(&mut b, alive, i64::MAX);
        let closer = {
            let alive = alive.clone();
            thread::spawn(move || {
                push(&mut a, &alive, i64::MAX);
                a.close();
            })
        };
        let mut rows = Vec::new();
        assert!(!read(&mut reader, &mut rows), "b is open");
        closer.join().unwrap();
        drop(b);
        assert!(read(&mut reader, &mut rows));
        assert_eq!(rows, [(i64::MAX, 0), (i64::MAX, 1)]);
    });
}

#[test]
fn loom_source_joins_and_leaves() {
    check(2, |alive| {
        let (mut sources, mut reader) = gate(alive, 1);
        let mut a = sources.pop().unwrap();
        push(&mut a, alive, 1);
        let pusher = {
            let alive = alive.clone();
            thread::spawn(move || {
                let mut b = a.fork().unwrap();
                push(&mut a, &alive, 3);
                push(&mut b, &alive, 2);
                drop(a);
                push(&mut b, &alive, 4);
            })
        };
        let merged = [(1, 0), (2, 1), (3, 0), (4, 1)];
        let mut rows = Vec::new();
        read(&mut reader, &mut rows);
        assert!(merged.starts_with(&rows));
        pusher.join().unwrap();
        assert!(read(&mut reader, &mut rows));
        assert_eq!(rows, merged);
    });
}

/// A reader joins and leaves while rows are pushed, read and freed.
#[test]
fn loom_reader_joins_and_leaves() {
    check(2, |alive| {
        let (mut sources, mut reader) = gate(alive, 1);
        let mut a = sources.pop().unwrap();
        push(&mut a, alive, 1);
        let thread = thread::spawn(move || {
            let mut first = Vec::new();
            read(&mut reader, &mut first);
            let mut fork = reader.fork();
            drop(reader);
            let mut rows = Vec::new();
            read(&mut fork, &mut rows);
            first.extend(rows);
            first
        });
        push(&mut a, alive, 2);
        push(&mut a, alive, 3);
        let rows = thread.join().unwrap();
        assert!([(1, 0), (2, 0), (3, 0)].starts_with(&rows));
    });
}

/// A reader is made from another, which goes, while a third frees what it thinks is passed.
#[test]
fn loom_reader_joins_while_memory_is_freed() {
    check(2, |alive| {
        let (mut sources, mut readers) = ScaleGate::new(1, 2).unwrap();
        for ts in 1..3 {
            push(&mut sources[0], alive, ts);
        }
        drop(sources);
        let first = readers.pop().unwrap();
        let thread = thread::spawn(move || {
            let mut fork = first.fork();
            drop(first);
            let mut rows = Vec::new();
            assert!(read(&mut fork, &mut rows));
            rows
        });
        let mut rows = Vec::new();
        assert!(read(&mut readers[0], &mut rows));
        assert_eq!(rows, [(1, 0), (2, 0)]);
        assert_eq!(thread.join().unwrap(), rows);
    });
}

/// Memory is freed by a source and by a reader while the other is at work.
#[test]
fn loom_reclaim() {
    check(2, |alive| {
        let (mut sources, mut reader) = gate(alive, 2);
        let (mut b, mut a) = (sources.pop().unwrap(), sources.pop().unwrap());
        push(&mut a, alive, 1);
        push(&mut a, alive, 3);
        let pusher = {
            let alive = alive.clone();
            thread::spawn(move || {
                push(&mut b, &alive, 2);
                push(&mut b, &alive, 4);
            })
        };
        let mut rows = Vec::new();
        read(&mut reader, &mut rows);
        a.advance(6);
        read(&mut reader, &mut rows);
        pusher.join().unwrap();
        drop(a);
        assert!(read(&mut reader, &mut rows));
        assert_eq!(rows, [(1, 0), (2, 1), (3, 0), (4, 1)]);
    });
}

/// Short of memory: sources let their upper fingers go, and begin again on all levels.
#[test]
fn loom_short_of_memory() {
    // What one row takes is asked of a gate outside the models' threads.
    check(2, |alive| {
        let (mut sources, readers) = ScaleGate::new::<Counted>(1, 1).unwrap();
        push(&mut sources[0], alive, 0);
        let row = readers[0].memory();
        drop((sources, readers));

        let (mut sources, mut readers) = ScaleGate::with_memory_limit(2, 1, 5 * row).unwrap();
        let mut reader = readers.pop().unwrap();
        let (mut b, mut a) = (sources.pop().unwrap(), sources.pop().unwrap());
        push(&mut a, alive, 1);
        push(&mut a, alive, 2);
        push(&mut b, alive, 1);
        let pusher = {
            let alive = alive.clone();
            thread::spawn(move || {
                b.advance(2);
                push(&mut b, &alive, 3);
            })
        };
        let mut rows = Vec::new();
        read(&mut reader, &mut rows);
        a.advance(4);
        read(&mut reader, &mut rows);
        pusher.join().unwrap();
        push(&mut a, alive, 5);
        drop(a);
        assert!(read(&mut reader, &mut rows));
        assert_eq!(rows, [(1, 0), (1, 1), (2, 0), (3, 1), (5, 0)]);
    });
}

fn read_shared(reader: &mut SharedReader<Counted>) -> Vec<i64> {
    std::iter::from_fn(|| reader.next_ready().ready().map(|row| row.ts)).collect()
}

/// A reader of a group finds the group at a row that came and was won meanwhile.
#[test]
fn loom_shared_readers() {
    check(2, |alive| {
        let (mut sources, reader) = gate(alive, 1);
        let mut a = sources.pop().unwrap();
        push(&mut a, alive, 1);
        let mut first = reader.share();
        let mut second = first.fork();
        let thread = thread::spawn(move || read_shared(&mut second));
        push(&mut a, alive, 2);
        let mut rows = read_shared(&mut first);
        assert!(rows.is_sorted());
        let others = thread.join().unwrap();
        assert!(others.is_sorted());
        rows.extend(others);
        rows.extend(read_shared(&mut first));
        rows.sort_unstable();
        assert_eq!(rows, [1, 2]);
    });
}

/// A run that counts itself.
struct CountedRun(Vec<i64>, #[allow(dead_code, reason = "counts by being dropped")] Counted);

impl tidegate_structures::gate::Run for CountedRun {
    fn ts(&self) -> &[i64] {
        &self.0
    }
}

fn push_run(source: &mut BlockSource<CountedRun>, alive: &Arc<AtomicUsize>, ts: &[i64]) {
    assert!(source.push(CountedRun(ts.to_vec(), Counted::new(alive))).is_ok());
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

/// Two readers make blocks at once, with different views of what is ready; blocks and runs are
/// freed as they go.
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
