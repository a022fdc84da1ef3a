//! Tests which operations the row gate's handles allow, and how they reject invalid input. Other
//! files test races and the order of rows.
//!
//! No test pushes after a close, because `close` consumes the source.

use std::sync::Arc;
use std::thread;

use tidegate_papers::row_gate::{KeyedReader, Reader, Row, ScaleGate, SharedReader, Source};
use tidegate_structures::gate::{MAX_SOURCES, Next, Rejection, TooManySources};

/// Fails to compile if `T` is `Sync`, because both implementations then apply and the call is
/// ambiguous.
macro_rules! assert_send_and_not_sync {
    ($($handle:ty),*) => {$({
        fn is_send<T: Send>() {}
        is_send::<$handle>();
        trait Ambiguous<A> { fn call() {} }
        impl<T: ?Sized> Ambiguous<()> for T {}
        impl<T: ?Sized + Sync> Ambiguous<u8> for T {}
        <$handle as Ambiguous<_>>::call();
    })*};
}

#[test]
fn handles_go_to_other_threads_and_are_not_shared() {
    type Hash = fn(&Row<'_, i64>) -> u64;
    assert_send_and_not_sync!(
        Source<i64>,
        Reader<i64>,
        SharedReader<i64>,
        KeyedReader<i64, Hash>
    );
}

#[test]
fn a_gate_without_sources_has_ended() {
    let (_, mut readers) = ScaleGate::new::<()>(0, 1).unwrap();
    assert_eq!(readers[0].next_ready(), Next::End);
}

#[test]
fn sources_are_numbered_up_to_a_limit() {
    assert_eq!(ScaleGate::new::<()>(MAX_SOURCES + 1, 0).unwrap_err(), TooManySources);
    let (mut sources, _) = ScaleGate::new::<()>(MAX_SOURCES, 0).unwrap();
    assert_eq!(sources[0].fork().unwrap_err(), TooManySources);
}

#[test]
fn ten_thousand_sources_are_merged() {
    const SOURCES: usize = 10_000;
    let (mut sources, mut readers) = ScaleGate::new::<()>(SOURCES, 1).unwrap();
    for at in 0..3 {
        for (number, source) in sources.iter_mut().enumerate() {
            source.push(at * 100 + (number as i64 * 37) % 100, ()).unwrap();
        }
    }
    drop(sources);
    let mut last = None;
    for _ in 0..3 * SOURCES {
        let row = readers[0].next_ready().ready().map(|row| (row.ts, row.id));
        assert!(row > last);
        last = row;
    }
    assert_eq!(readers[0].next_ready(), Next::End);
}

#[test]
fn time_has_two_ends() {
    let (mut sources, mut readers) = ScaleGate::new::<&str>(2, 1).unwrap();
    sources[1].push(i64::MIN, "first").unwrap();
    assert_eq!(readers[0].next_ready(), Next::NotYet, "source 0 may push the same time");
    sources[0].advance(i64::MAX);
    assert_eq!(readers[0].next_ready().ready().map(|row| *row.payload), Some("first"));
    sources[1].push(i64::MAX, "last of 1").unwrap();
    assert_eq!(readers[0].next_ready(), Next::NotYet);
    sources[0].push(i64::MAX, "last of 0").unwrap();
    assert_eq!(readers[0].next_ready().ready().map(|row| *row.payload), Some("last of 0"));
    assert_eq!(readers[0].next_ready(), Next::NotYet, "source 0 is open");
    drop(sources);
    assert_eq!(readers[0].next_ready().ready().map(|row| *row.payload), Some("last of 1"));
    assert_eq!(readers[0].next_ready(), Next::End);
}

#[test]
fn what_is_out_of_order_comes_back() {
    let (mut sources, mut readers) = ScaleGate::new::<&str>(1, 1).unwrap();
    sources[0].push(5, "a").unwrap();
    let rejected = sources[0].push(4, "b").unwrap_err();
    assert_eq!(
        rejected.to_string(),
        "ts 4 is below 5, the lower bound that the source has promised"
    );
    assert_eq!(rejected.into_inner(), "b");
    sources[0].advance(3);
    assert_eq!(sources[0].promised(), 5, "a promise is kept");
    sources[0].push(5, "c").unwrap();
    assert_eq!(readers[0].next_ready().ready().map(|row| *row.payload), Some("a"));
    assert_eq!(
        readers[0].next_ready().ready().map(|row| (*row.payload, row.id.position())),
        Some(("c", 1))
    );
}

/// A reader does not read. The source receives an error before any memory is allocated, and it can
/// continue later.
#[test]
fn a_silent_reader_fills_the_gate_and_no_more() {
    const LIMIT: usize = 64 << 10;
    let (mut sources, mut readers) = ScaleGate::with_memory_limit::<u64>(1, 1, LIMIT).unwrap();
    let mut pushed = 0;
    let rejected = loop {
        match sources[0].push(pushed as i64, pushed) {
            Ok(()) => pushed += 1,
            Err(rejected) => break rejected,
        }
    };
    assert!(
        matches!(rejected, Rejection::Full { overrun, .. } if overrun.limit == LIMIT),
        "{rejected}"
    );
    assert!(
        readers[0].memory() <= LIMIT && pushed > 500,
        "{pushed} rows in {} bytes",
        readers[0].memory()
    );
    // Once the reader reads, the source continues in the existing memory.
    let mut read = 0;
    while pushed < 100_000 {
        match sources[0].push(pushed as i64, pushed) {
            Ok(()) => pushed += 1,
            Err(_) => {
                let before = read;
                while let Next::Ready(row) = readers[0].next_ready() {
                    assert_eq!(*row.payload, read);
                    read += 1;
                }
                assert!(read > before, "all rows are read and the gate is full");
            }
        }
        assert!(readers[0].memory() <= LIMIT);
    }
    drop(readers);
    for at in 0..10_000 {
        sources[0].push(200_000 + at, 0).expect("without a reader no row is kept");
    }
}

/// Memory is freed while the gate is running, even if sources only make promises or only a reader
/// is left.
#[test]
fn the_passed_prefix_is_given_back() {
    let payload = Arc::new(());
    let (mut sources, mut readers) = ScaleGate::new::<Arc<()>>(3, 2).unwrap();
    for ts in 0..20_000i64 {
        sources[0].push(ts, payload.clone()).unwrap();
        sources[1].advance(ts);
        if ts % 1000 == 0 {
            sources[2].push(ts, payload.clone()).unwrap();
        }
        sources[2].advance(ts);
        for reader in &mut readers {
            while reader.next_ready().ready().is_some() {}
        }
        assert!(
            Arc::strong_count(&payload) < 10_000,
            "{} payloads at {ts}",
            Arc::strong_count(&payload)
        );
    }
    drop(sources);
    for reader in &mut readers {
        while reader.next_ready().ready().is_some() {}
        assert_eq!(reader.next_ready(), Next::End);
    }
    drop(readers);
    assert_eq!(Arc::strong_count(&payload), 1);
}

#[test]
fn handles_dropped_in_the_middle_leave_the_others_right() {
    let (mut sources, mut readers) = ScaleGate::new::<String>(2, 2).unwrap();
    for ts in 0..10 {
        sources[0].push(ts, format!("a{ts}")).unwrap();
        sources[1].push(ts, format!("b{ts}")).unwrap();
    }
    assert_eq!(readers[1].next_ready().ready().map(|row| row.payload.as_str()), Some("a0"));
    drop(readers.pop());
    drop(sources.pop());
    let pushed = thread::spawn(move || sources[0].push(20, "a20".into()).is_ok()).join().unwrap();
    assert!(pushed);
    let mut rows = Vec::new();
    while let Next::Ready(row) = readers[0].next_ready() {
        rows.push(row.payload.clone());
    }
    assert_eq!(rows.len(), 21);
    assert_eq!(rows.last().map(String::as_str), Some("a20"));
    assert_eq!(readers[0].next_ready(), Next::End);
}

/// Rows with the same key stay together and in order, whichever part they belong to (see also
/// `oracle_gate.rs`).
#[test]
#[should_panic(expected = "part 2 of 2 does not exist")]
fn a_part_that_does_not_exist_is_refused() {
    let (_, mut readers) = ScaleGate::new::<u64>(1, 1).unwrap();
    let _ = readers.pop().unwrap().keyed(2, 2, |row| *row.payload);
}

/// A payload that counts how often payloads are dropped. One of the payloads panics when it is
/// dropped.
#[derive(Debug)]
struct CountedPayload {
    row: usize,
    drops: Arc<Vec<tidegate_sync::Counter>>,
}

impl Drop for CountedPayload {
    fn drop(&mut self) {
        assert!(self.drops[self.row].add(1) > 0 || self.row != 700, "the payload's drop failed");
    }
}

#[test]
fn a_payload_whose_drop_panics_is_dropped_once() {
    const ROWS: usize = 20_000;
    let drops = Arc::new((0..ROWS).map(|_| tidegate_sync::Counter::new(0)).collect::<Vec<_>>());
    let (mut sources, mut readers) = ScaleGate::new(1, 1).unwrap();
    let mut panics = 0;
    let mut call = |work: &mut dyn FnMut()| {
        panics +=
            usize::from(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
    };
    for row in 0..ROWS {
        call(&mut || {
            sources[0]
                .push(row as i64, CountedPayload { row, drops: drops.clone() })
                .expect("there is room");
        });
        call(&mut || while let Next::Ready(_) = readers[0].next_ready() {});
    }
    call(&mut || sources.clear());
    call(&mut || readers.clear());
    assert_eq!(panics, 1);
    assert!(drops.iter().all(|drops| drops.get() <= 1), "no payload is dropped twice");
    // The payloads of the same segment are leaked.
    assert!(drops.iter().filter(|drops| drops.get() == 0).count() < 256);
}
