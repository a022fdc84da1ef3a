//! Tests the row gate with more threads than cores. The rows that each reader receives are compared
//! with the sorted rows, and payloads are counted. `stress_gate.rs` in the structures crate
//! describes how to run the test, and which errors the test can detect.

use std::sync::Arc;
use std::thread;

use tidegate_papers::row_gate::{Reader, ScaleGate, SharedReader, Source};
use tidegate_structures::gate::{Next, Rejection};
use tidegate_sync::Counter;

use crate::payloads::{CountedPayload, Row, rise};
use crate::random::Random;

/// Pushes `rows` rows, interspersed with promises and forks. Returns the pushed rows, including
/// those pushed by forks.
fn feed(
    mut source: Source<CountedPayload>,
    rows: u64,
    mut random: Random,
    alive: &Arc<Counter>,
) -> Vec<Row> {
    let mut pushed = Vec::new();
    let mut ts = source.promised().max(0);
    for position in 0..rows {
        ts += rise(&mut random);
        let row = (ts, source.number(), position);
        let mut payload = CountedPayload::new(row, alive);
        while let Err(rejected) = source.push(ts, payload) {
            assert!(matches!(rejected, Rejection::Full { .. }), "{rejected}");
            payload = rejected.into_inner();
            thread::yield_now();
        }
        pushed.push(row);
        match random.below(200) {
            0..10 => {
                ts += rise(&mut random);
                source.advance(ts);
            }
            10 if rows > 50 => {
                let (fork, seed) = (source.fork().unwrap(), random.below(1 << 40));
                pushed.extend(feed(fork, rows / 20, Random::new(seed), alive));
            }
            11..15 => thread::yield_now(),
            _ => {}
        }
    }
    pushed
}

fn seen(reader: &mut Reader<CountedPayload>, random: &mut Random) -> Vec<Row> {
    let mut rows = Vec::new();
    loop {
        match reader.next_ready() {
            Next::Ready(row) => {
                assert_eq!(*row.payload.row, (row.ts, row.id.source(), row.id.position()));
                rows.push(*row.payload.row);
                if random.below(1000) == 0 {
                    thread::yield_now();
                }
            }
            Next::NotYet => thread::yield_now(),
            Next::End => return rows,
        }
    }
}

#[test]
#[ignore = "takes seconds"]
fn stress_rows() {
    for seed in 0..30 {
        let alive = Arc::new(Counter::new(0));
        let (sources, mut readers) =
            ScaleGate::with_memory_limit::<CountedPayload>(6, 4, 4 << 20).unwrap();
        let short = readers.pop().unwrap();
        let (mut pushed, read) = thread::scope(|scope| {
            let alive = &alive;
            let number = |source: &Source<CountedPayload>| seed * 100 + u64::from(source.number());
            let feeders: Vec<_> = sources
                .into_iter()
                .map(|source| {
                    scope.spawn(move || {
                        let random = Random::new(number(&source));
                        feed(source, 3000, random, alive)
                    })
                })
                .collect();
            let readers: Vec<_> = readers
                .into_iter()
                .enumerate()
                .map(|(at, mut reader)| {
                    scope.spawn(move || {
                        seen(&mut reader, &mut Random::new(seed * 100 + 50 + at as u64))
                    })
                })
                .collect();
            // A reader that joins and leaves: it forks itself, continues reading with the fork, and
            // stops in the middle.
            let short = scope.spawn(move || {
                let (mut reader, mut rows) = (short, Vec::new());
                while rows.len() < 4000 {
                    match reader.next_ready() {
                        Next::Ready(row) => rows.push(*row.payload.row),
                        Next::NotYet => thread::yield_now(),
                        Next::End => break,
                    }
                    if rows.len() % 100 == 0 {
                        let fork = reader.fork();
                        reader = fork;
                    }
                }
                rows
            });
            let pushed: Vec<Row> =
                feeders.into_iter().flat_map(|feeder| feeder.join().unwrap()).collect();
            let mut read: Vec<Vec<Row>> =
                readers.into_iter().map(|reader| reader.join().unwrap()).collect();
            read.push(short.join().unwrap());
            (pushed, read)
        });
        pushed.sort_unstable();
        assert!(
            read[3].len() >= 4000.min(pushed.len()) && pushed.starts_with(&read[3]),
            "seed {seed}"
        );
        for rows in &read[..3] {
            assert!(*rows == pushed, "seed {seed}: {} rows read of {}", rows.len(), pushed.len());
        }
        assert_eq!(alive.get(), 0, "seed {seed}: payloads alive after the gate was dropped");
    }
}

#[test]
#[ignore = "takes seconds"]
fn stress_shared() {
    for seed in 0..30 {
        let alive = Arc::new(Counter::new(0));
        let (sources, mut readers) =
            ScaleGate::with_memory_limit::<CountedPayload>(4, 1, 4 << 20).unwrap();
        let group = readers.pop().unwrap().share();
        let (mut pushed, mut read) = thread::scope(|scope| {
            let alive = &alive;
            let feeders: Vec<_> = sources
                .into_iter()
                .map(|source| {
                    scope.spawn(move || {
                        let random = Random::new(seed * 100 + u64::from(source.number()));
                        feed(source, 3000, random, alive)
                    })
                })
                .collect();
            let forks: Vec<SharedReader<CountedPayload>> = (0..3).map(|_| group.fork()).collect();
            drop(group);
            let readers: Vec<_> = forks
                .into_iter()
                .map(|mut reader| {
                    scope.spawn(move || {
                        let mut rows = Vec::new();
                        loop {
                            match reader.next_ready() {
                                Next::Ready(row) => rows.push(*row.payload.row),
                                Next::NotYet => thread::yield_now(),
                                Next::End => return rows,
                            }
                            if rows.len() % 500 == 1 {
                                reader = reader.fork();
                            }
                        }
                    })
                })
                .collect();
            let pushed: Vec<Row> =
                feeders.into_iter().flat_map(|feeder| feeder.join().unwrap()).collect();
            let read: Vec<Vec<Row>> =
                readers.into_iter().map(|reader| reader.join().unwrap()).collect();
            (pushed, read)
        });
        assert!(read.iter().all(|rows| rows.is_sorted()), "seed {seed}");
        let mut all: Vec<Row> = read.drain(..).flatten().collect();
        all.sort_unstable();
        pushed.sort_unstable();
        assert!(all == pushed, "seed {seed}: {} rows read of {}", all.len(), pushed.len());
        assert_eq!(alive.get(), 0, "seed {seed}: payloads alive after the gate was dropped");
    }
}
