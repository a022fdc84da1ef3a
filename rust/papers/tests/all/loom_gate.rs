//! Explores all interleavings that loom can model in small cases of the row gate. The structures
//! crate's `loom_gate.rs` describes which errors the models can and cannot detect.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use tidegate_papers::row_gate::{Reader, ScaleGate, SharedReader, Source};
use tidegate_structures::gate::{Next, Rejection};

use crate::loom_payloads::{CountedPayload, check};

fn gate(
    alive: &Arc<AtomicUsize>,
    sources: usize,
) -> (Vec<Source<CountedPayload>>, Reader<CountedPayload>) {
    let _ = alive;
    let (sources, mut readers) = ScaleGate::new(sources, 1).unwrap();
    (sources, readers.pop().unwrap())
}

fn push(source: &mut Source<CountedPayload>, alive: &Arc<AtomicUsize>, ts: i64) {
    assert!(source.push(ts, CountedPayload::new(alive)).is_ok());
}

/// Reads all ready rows and appends them to `rows`.
fn read(reader: &mut Reader<CountedPayload>, rows: &mut Vec<(i64, u16)>) -> bool {
    loop {
        match reader.next_ready() {
            Next::Ready(row) => {
                assert!(row.payload.0.load(Ordering::Relaxed) > 0, "a returned row is alive");
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

/// Two sources run in their own threads, alongside a reader. At every moment, the rows that have
/// been read are a prefix of the merged order.
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
                    b.push(2, CountedPayload::new(&alive)),
                    Err(Rejection::Late { promised: 3, .. })
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

/// A reader joins and leaves while rows are being pushed, read and freed.
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

/// A reader is created from another reader, which is then dropped. In the meantime, a third reader
/// frees the rows that it believes all readers have passed.
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

/// A source frees memory while a reader is running, and a reader frees memory while a source is
/// running.
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

/// Memory is short, so sources drop their upper fingers and start again on all levels.
#[test]
fn loom_short_of_memory() {
    // The memory of one row is measured with a gate outside the models' threads.
    check(2, |alive| {
        let (mut sources, readers) = ScaleGate::new::<CountedPayload>(1, 1).unwrap();
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

fn read_shared(reader: &mut SharedReader<CountedPayload>) -> Vec<i64> {
    std::iter::from_fn(|| reader.next_ready().ready().map(|row| row.ts)).collect()
}

/// A reader finds that its group has moved on to a later row. This row was pushed in the meantime,
/// and another reader claimed it.
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
