//! W5: merging k sorted streams of (ts int64, value int64) into one ordered stream of ready rows
//! for n readers.
//!
//! One thread feeds the sources in turn, and each reader has its own thread. The time is measured
//! from the first push until the last reader has seen the last row. A row counts once, regardless
//! of how many readers see it. A system's time is used only after its output, or the sum of its
//! output, has been compared with the sorted input.
//!
//! | name | measurement |
//! | --- | --- |
//! | rows/n | `ScaleGate`, n readers: each row is pushed and read, and its value is added |
//! | shared/2 | T-Gate: two readers share the rows of `ScaleGate` |
//! | blocks/n | `BlockGate`, n readers: runs of 8 192 rows are pushed, and blocks are read; measures only the merge |
//! | blocks_looked_up/n | like `blocks/n`, but each row's value is looked up by its id and added |
//! | blocks_helped/1 | like `blocks/1`, but the feeding thread merges after it has fed all rows |
//! | published/n | ScaleGate as published in its paper |
//! | mutex_heap | a binary heap behind a mutex, with the same readiness rule; one reader, which removes the rows |
//! | skip_list | crossbeam's skip list, where readiness is checked over all sources; one reader, which removes the rows |
//! | binary_heap | sequential merge of whole columns with `std`'s heap |
//! | loser_tree | sequential merge of whole columns with a loser tree |
//! | sort | all rows are concatenated and sorted, as in a system without a merge |
//!
//! `cargo bench -p tidegate-benches --bench w5_gate -- latency` prints the table of `latency.rs`
//! instead.

mod gates;
mod latency;
mod published;
mod rivals;
mod workload;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};

use gates::{Blocks, Rows, block_gate, row_gate};
use published::scale_gate;
use workload::Columns;

/// The number of rows per measurement.
const ROWS: usize = 10_000_000;

/// The number of rows per measurement for systems that need a lock or a node per row.
const SLOW_ROWS: usize = 2_000_000;

fn w5(criterion: &mut Criterion) {
    type System = (&'static str, fn(&Columns) -> Duration);
    let fast: &[System] = &[
        ("blocks/1", |columns| block_gate(columns, 1, Blocks::Merged)),
        ("blocks/2", |columns| block_gate(columns, 2, Blocks::Merged)),
        ("blocks_looked_up/1", |columns| block_gate(columns, 1, Blocks::LookedUp)),
        ("blocks_looked_up/2", |columns| block_gate(columns, 2, Blocks::LookedUp)),
        ("blocks_helped/1", |columns| block_gate(columns, 1, Blocks::Helped)),
        ("loser_tree", rivals::loser_tree),
        ("binary_heap", rivals::binary_heap),
        ("sort", rivals::sort),
    ];
    let slow: &[System] = &[
        ("rows/1", |columns| row_gate(columns, 1, Rows::All)),
        ("rows/2", |columns| row_gate(columns, 2, Rows::All)),
        ("shared/2", |columns| row_gate(columns, 2, Rows::Shared)),
        ("published/1", |columns| scale_gate(columns, 1)),
        ("published/2", |columns| scale_gate(columns, 2)),
        ("mutex_heap", rivals::mutex_heap),
        ("skip_list", rivals::skip_list),
    ];
    for (rows, systems) in [(ROWS, fast), (SLOW_ROWS, slow)] {
        for k in [2, 20] {
            let columns = Columns::new(k, rows);
            gates::check(&Columns::new(k, rows / 10));
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

fn main() {
    if std::env::args().any(|argument| argument == "latency") {
        return latency::print();
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
