//! Measures W2 without its results: only the indexes on a band join's two windows.
//!
//! Rows of R and S alternate. Each row is looked up in the other side's window of `w` rows, where
//! it matches two rows on average. The row is then inserted into its own window, and the oldest row
//! is removed from that window. Up to 1,024 rows, counting both sides, are inserted into the
//! indexes together and then looked up together. The rate is the number of rows per second,
//! counting both sides, and is measured with full windows.
//!
//! ```sh
//! cargo bench -p tidegate-benches --bench w2_index -- 'w=2^20/uniform'
//! W2_ROWS=8388608 cargo bench -p tidegate-benches --bench w2_index -- 'w=2^23'
//! ```
//!
//! `w2_figures` varies the parameters of the paper's figures.

mod rivals;
mod workload;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_papers::trees::{Archive, ChainedIndex, ImTree, OlcTree, PimTree, RoundRobin};
use tidegate_structures::index::{BPlusTree, BucketIndex, WindowIndex};
use workload::{Values, Windows};

type Make = Box<dyn Fn() -> Box<dyn WindowIndex>>;

fn indexes() -> Vec<(&'static str, Make)> {
    fn index<I: WindowIndex + 'static>(make: impl Fn() -> I + 'static) -> Make {
        Box::new(move || Box::new(make()))
    }
    vec![
        ("buckets", index(BucketIndex::new)),
        ("pim_tree", index(|| PimTree::new(workload::MERGE_RATIO, None))),
        ("im_tree", index(|| ImTree::new(1.0 / 8.0))),
        ("bplus_tree", index(BPlusTree::new)),
        ("b_chain_2", index(|| ChainedIndex::new(Archive::BPlus, 2))),
        ("ib_chain_2", index(|| ChainedIndex::new(Archive::Immutable, 2))),
        ("ib_chain_8", index(|| ChainedIndex::new(Archive::Immutable, 8))),
        ("round_robin_2", index(|| RoundRobin::new(2))),
        ("round_robin_8", index(|| RoundRobin::new(8))),
        ("olc_tree", index(OlcTree::new)),
        ("std_btree_set", index(rivals::StdSet::default)),
        ("crossbeam_skip_list", index(rivals::SkipList::default)),
    ]
}

fn w2(criterion: &mut Criterion) {
    let rows =
        std::env::var("W2_ROWS").map_or(1 << 19, |rows| rows.parse().expect("W2_ROWS is a number"));
    for window in [16, 20, 23] {
        for values in [Values::Uniform, Values::Gaussian, Values::Drifting(0.1)] {
            let mut group = criterion.benchmark_group(format!("w=2^{window}/{values}"));
            group.throughput(Throughput::Elements(rows as u64)).sample_size(10);
            group.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_millis(1));
            for (name, make) in indexes() {
                group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                    // Filling the windows is not measured. The windows continue to slide from
                    // sample to sample.
                    let mut windows =
                        Windows::new([make(), make()], 1 << window, values, workload::MATCHES);
                    bencher.iter(|| windows.slide(rows));
                });
            }
        }
    }
}

criterion_group!(benches, w2);
criterion_main!(benches);
