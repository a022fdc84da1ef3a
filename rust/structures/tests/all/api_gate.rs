//! Tests which operations the block gate's handles allow, and how they reject invalid input. Other
//! files test races and the order of rows.
//!
//! The tests do not push after a close, because `close` consumes the source.

use std::sync::Arc;
use std::thread;

use tidegate_structures::gate::{
    BlockGate, BlockReader, BlockSource, MAX_SOURCES, Next, Rejection, Tier, TooManySources,
};

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
    assert_send_and_not_sync!(BlockSource<Vec<i64>>, BlockReader<Vec<i64>>);
}

#[test]
fn a_gate_without_sources_has_ended() {
    let (_, mut readers) = BlockGate::new::<Vec<i64>>(0, 1).unwrap();
    assert!(matches!(readers[0].next_block(), Next::End));
}

#[test]
fn sources_are_numbered_up_to_a_limit() {
    assert_eq!(BlockGate::new::<Vec<i64>>(MAX_SOURCES + 1, 0).unwrap_err(), TooManySources);
    let (mut sources, _) = BlockGate::new::<Vec<i64>>(MAX_SOURCES, 0).unwrap();
    assert_eq!(sources[MAX_SOURCES - 1].number(), u16::MAX);
    assert_eq!(sources[0].fork().unwrap_err(), TooManySources);
}

#[test]
fn sources_of_the_first_tier_come_first_whatever_their_numbers() {
    let tiers = [Tier::Last, Tier::First];
    let (mut sources, mut readers) = BlockGate::tiered(tiers.into_iter(), 1).unwrap();
    sources[0].push(vec![1, 1]).unwrap();
    let mut added = sources[0].fork_at(Tier::First, 2).unwrap();
    sources[0].push(vec![2]).unwrap();
    sources[1].push(vec![1, 2]).unwrap();
    added.push(vec![2]).unwrap();
    drop((sources, added));
    let Next::Ready(block) = readers[0].next_block() else { panic!("rows are ready") };
    let rows: Vec<_> = block.ts().iter().zip(block.ids()).collect();
    let rows: Vec<_> = rows.iter().map(|(ts, id)| (**ts, id.source())).collect();
    assert_eq!(rows, [(1, 1), (1, 0), (1, 0), (2, 1), (2, 2), (2, 0)]);
}

#[test]
#[should_panic(expected = "begins at 1 could push rows before")]
fn a_source_that_could_bring_rows_before_those_given_does_not_begin() {
    let (mut sources, _) = BlockGate::tiered::<Vec<i64>>([Tier::Last].into_iter(), 1).unwrap();
    sources[0].advance(1);
    assert_eq!(sources[0].fork_at(Tier::Last, 1).unwrap().promised(), 1);
    let _ = sources[0].fork_at(Tier::First, 1);
}

#[test]
fn ten_thousand_sources_are_merged() {
    const SOURCES: usize = 10_000;
    let (mut sources, mut readers) = BlockGate::new::<Vec<i64>>(SOURCES, 1).unwrap();
    for at in 0..3 {
        for (number, source) in sources.iter_mut().enumerate() {
            let ts = at * 100 + (number as i64 * 37) % 100;
            source.push(vec![ts, ts]).unwrap();
        }
    }
    drop(sources);
    let mut merged = Vec::new();
    while let Next::Ready(block) = readers[0].next_block() {
        merged.extend(block.ts().iter().copied().zip(block.ids().iter().copied()));
    }
    assert_eq!(merged.len(), 6 * SOURCES);
    assert!(merged.is_sorted_by(|a, b| a < b));
}

#[test]
fn time_has_two_ends() {
    let (mut sources, mut readers) = BlockGate::new::<Vec<i64>>(2, 1).unwrap();
    sources[1].push(vec![i64::MIN, 0, i64::MAX, i64::MAX]).unwrap();
    sources[0].push(vec![i64::MIN, i64::MAX]).unwrap();
    drop(sources);
    let mut ts = Vec::new();
    while let Next::Ready(block) = readers[0].next_block() {
        ts.extend_from_slice(block.ts());
    }
    assert_eq!(ts, [i64::MIN, i64::MIN, 0, i64::MAX, i64::MAX, i64::MAX]);
}

#[test]
fn what_is_out_of_order_comes_back() {
    let (mut sources, mut readers) = BlockGate::new::<Vec<i64>>(1, 1).unwrap();
    assert_eq!(
        sources[0].push(vec![1, 3, 2]).unwrap_err(),
        Rejection::Late { ts: 2, promised: 3, row: vec![1, 3, 2] }
    );
    sources[0].push(vec![1]).unwrap();
    assert_eq!(
        sources[0].push(vec![0]).unwrap_err(),
        Rejection::Late { ts: 0, promised: 1, row: vec![0] }
    );
    sources[0].push(Vec::new()).unwrap();
    let Next::Ready(block) = readers[0].next_block() else { panic!("the row at 1 is ready") };
    assert_eq!(block.ts(), [1]);
    assert!(matches!(readers[0].next_block(), Next::NotYet));
}

/// A reader does not read. The source receives an error before any memory is allocated, and it can
/// continue later.
#[test]
fn a_silent_reader_fills_the_gate_and_no_more() {
    const LIMIT: usize = 64 << 10;
    let (mut sources, mut readers) = BlockGate::with_memory_limit::<Vec<i64>>(1, 1, LIMIT).unwrap();
    let mut runs = 0;
    while sources[0].push(vec![runs; 100]).is_ok() {
        runs += 1;
    }
    assert_eq!(runs as usize, LIMIT / (100 * 24));
    assert!(
        matches!(sources[0].push(vec![runs; 100]), Err(Rejection::Full { row, .. }) if row.len() == 100)
    );
    let mut rows = 0;
    while let Next::Ready(block) = readers[0].next_block() {
        rows += block.len();
    }
    assert_eq!(rows, runs as usize * 100);
    assert!(sources[0].push(vec![runs; 100]).is_ok());
}

#[test]
fn handles_dropped_in_the_middle_leave_the_others_right() {
    let (mut sources, mut readers) = BlockGate::new::<Arc<[i64]>>(2, 2).unwrap();
    let runs: [Arc<[i64]>; 2] = [(0..50_000).collect(), (0..100).collect()];
    for (source, run) in sources.iter_mut().zip(&runs) {
        source.push(run.clone()).unwrap();
    }
    assert!(matches!(readers[1].next_block(), Next::Ready(block) if block.ts()[..3] == [0, 0, 1]));
    drop(readers.pop());
    drop(sources.pop());
    let pushed = thread::spawn(move || sources[0].push([60_000].into()).is_ok()).join().unwrap();
    assert!(pushed);
    let mut ts = Vec::new();
    while let Next::Ready(block) = readers[0].next_block() {
        ts.extend_from_slice(block.ts());
    }
    assert_eq!(ts.len(), 50_101);
    assert!(ts.is_sorted() && ts.last() == Some(&60_000));
    assert!(matches!(readers[0].next_block(), Next::End));
    assert!(
        runs.iter().all(|run| Arc::strong_count(run) == 1),
        "runs that all readers have passed are freed"
    );
}

#[test]
fn what_was_not_given_can_be_looked_at() {
    let (mut sources, mut readers) = BlockGate::new(2, 1).unwrap();
    let unread =
        |reader: &mut tidegate_structures::gate::BlockReader<Vec<i64>>| -> Vec<(u16, Vec<i64>)> {
            reader
                .unread()
                .map(|(pushed, rows)| (pushed.first.source(), pushed.run[rows].to_vec()))
                .collect()
        };
    sources[0].push(vec![1, 5, 9]).unwrap();
    sources[0].push(vec![9, 12]).unwrap();
    assert_eq!(unread(&mut readers[0]), [(0, vec![1, 5, 9]), (0, vec![9, 12])]);
    sources[1].push(vec![6, 7]).unwrap();
    while let Next::Ready(_) = readers[0].next_block() {}
    assert_eq!(
        unread(&mut readers[0]),
        [(0, vec![9]), (0, vec![9, 12])],
        "rows up to 7 were returned"
    );
}
