//! Measures how fast the batch interval join finds matches in plain columns and lists the pairs.
//!
//! The input is workload W1 without its payload: one million rows per side in time order, uniform
//! keys, and 4 matches per left row.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::interval_join;
use tidegate_operators::matches::Output;
use tidegate_operators::order::JoinColumns;
use tidegate_operators::rows::{Closed, How, Interval};
use tidegate_sync::Stop;

const ROWS: usize = 1_000_000;

/// The mean time between consecutive rows.
const STEP: u64 = 1_000;

struct Table {
    ts: Vec<i64>,
    keys: Vec<u32>,
}

impl Table {
    fn new(key_count: u64, seed: u64) -> Self {
        let mut state = seed;
        let mut random = move |below: u64| {
            // The SplitMix64 generator of Steele, Lea and Flood.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % below
        };
        let mut ts = 0;
        let step = |_| {
            ts += random(2 * STEP) as i64;
            (ts, random(key_count) as u32)
        };
        let (ts, keys) = (0..ROWS).map(step).unzip();
        Table { ts, keys }
    }

    fn side(&self) -> JoinColumns<'_> {
        JoinColumns { ts: &self.ts, keys: Some(&self.keys) }
    }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("interval_join");
    group.sample_size(20).throughput(Throughput::Elements(2 * ROWS as u64));
    for keys in [10, 1_000, 100_000] {
        let (left, right) = (Table::new(keys, 1), Table::new(keys, 2));
        let end = (2 * STEP * keys) as i64;
        let interval = Interval { lower: Some(-end), upper: Some(end), closed: Closed::Both };
        for threads in [1, 2] {
            let driver = Driver::new(threads, Stop::default());
            let join = || {
                interval_join(left.side(), right.side(), keys as usize, &interval, &driver).unwrap()
            };
            let case = format!("{keys} keys, {threads} threads");
            group.bench_function(BenchmarkId::new("match", &case), |bencher| {
                bencher.iter(|| black_box(join()))
            });
            let output = Output::new(Arc::new(join()), How::Inner, &driver).unwrap();
            group.bench_function(BenchmarkId::new("list", &case), |bencher| {
                bencher.iter(|| {
                    let listed = driver.map(output.cut(1 << 16), |rows| {
                        output
                            .list(rows, |pairs| black_box(pairs.left().len() + pairs.right().len()))
                    });
                    black_box(listed.unwrap())
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
