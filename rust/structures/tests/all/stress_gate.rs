//! Tests the block gate with more threads than cores. The rows that each reader receives are
//! compared with the sorted rows, and payloads are counted.
//!
//! `.github/scripts/stress.sh` runs this file, `linearizable_gate.rs`, and the corresponding tests
//! of the row gate (`rust/papers/tests`) in three ways. The script runs these tests unmodified,
//! under AddressSanitizer, and under ThreadSanitizer. The script also runs the tests with
//! `--cfg tidegate_stress`. With this option, segments have one node, blocks have two rows, and
//! memory is reclaimed at every step. Seeds are printed on failure.
//!
//! The tests detect errors that are frequent enough to occur among many rows under this machine's
//! memory model. x86-64 reorders less than the language allows. So an ordering that is too weak is
//! detected only if the compiler takes advantage of it. AddressSanitizer detects leaks and uses of
//! freed memory. On any processor, ThreadSanitizer detects pairs of accesses to plain memory that
//! are not ordered by atomic operations, provided that the code is executed. ThreadSanitizer does
//! not recognize the reference counts in `Arc`, because their fences are in the standard library,
//! which is not instrumented. Only the row gate's tests run under ThreadSanitizer, because the
//! block gate uses reference counts to pass memory from block to block. `thread_sanitizer.txt`
//! suppresses reports about reference counts. `loom_gate.rs` and AddressSanitizer check that
//! reference counts keep memory alive. Helgrind and DRD are not used, because they report errors in
//! correct code.

use std::sync::Arc;
use std::thread;

use tidegate_structures::gate::{BlockGate, Next, Rejection, Run};
use tidegate_sync::Counter;

use crate::payloads::{CountedPayload, Row, rise};
use crate::random::Random;

/// A run that counts itself.
struct CountedRun(Vec<i64>, #[allow(dead_code, reason = "counts by being dropped")] CountedPayload);

impl Run for CountedRun {
    fn ts(&self) -> &[i64] {
        &self.0
    }
}

#[test]
#[ignore = "takes seconds"]
fn stress_blocks() {
    for seed in 0..100 {
        let alive = Arc::new(Counter::new(0));
        let (sources, readers) = BlockGate::with_memory_limit::<CountedRun>(5, 4, 4 << 20).unwrap();
        let (mut pushed, read) = thread::scope(|scope| {
            let alive = &alive;
            let mut feeders = Vec::new();
            for mut source in sources {
                feeders.push(scope.spawn(move || {
                    let mut random = Random::new(seed * 100 + u64::from(source.number()));
                    let mut handles = [(source.fork().unwrap(), 0i64, 0u64), (source, 0, 0)];
                    let mut pushed = Vec::new();
                    for _ in 0..300 {
                        let at = random.below(2) as usize;
                        let (source, ts, position) = &mut handles[at];
                        let mut run = Vec::new();
                        for _ in 0..random.below(40) {
                            *ts += rise(&mut random);
                            run.push(*ts);
                            pushed.push((*ts, source.number(), *position));
                            *position += 1;
                        }
                        let mut run = CountedRun(run, CountedPayload::new((0, 0, 0), alive));
                        while let Err(rejected) = source.push(run) {
                            assert!(matches!(rejected, Rejection::Full { .. }), "{rejected}");
                            run = rejected.into_inner();
                            thread::yield_now();
                        }
                        if random.below(20) == 0 {
                            *ts += rise(&mut random);
                            source.advance(*ts);
                        }
                    }
                    pushed
                }));
            }
            let mut consumers = Vec::new();
            for (at, mut reader) in readers.into_iter().enumerate() {
                consumers.push(scope.spawn(move || {
                    let mut random = Random::new(seed * 100 + 50 + at as u64);
                    let mut rows = Vec::new();
                    loop {
                        match reader.next_block() {
                            Next::Ready(block) => {
                                let ids = block.ids().iter();
                                rows.extend(
                                    block
                                        .ts()
                                        .iter()
                                        .zip(ids)
                                        .map(|(ts, id)| (*ts, id.source(), id.position())),
                                );
                            }
                            Next::NotYet => thread::yield_now(),
                            Next::End => return rows,
                        }
                        match random.below(20) {
                            0 => reader = reader.fork(),
                            1 => thread::yield_now(),
                            _ => {}
                        }
                    }
                }));
            }
            let pushed: Vec<Row> =
                feeders.into_iter().flat_map(|feeder| feeder.join().unwrap()).collect();
            let read: Vec<Vec<Row>> =
                consumers.into_iter().map(|reader| reader.join().unwrap()).collect();
            (pushed, read)
        });
        pushed.sort_unstable();
        for rows in read {
            assert!(rows == pushed, "seed {seed}: {} rows read of {}", rows.len(), pushed.len());
        }
        assert_eq!(alive.get(), 0, "seed {seed}: runs alive after the gate was dropped");
    }
}
