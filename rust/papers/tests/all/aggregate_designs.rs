//! Compares the designs from the multiway aggregation paper with aggregations of whole tables,
//! epoch by epoch. An operator that resumes from a saved state may use a different design, or the
//! slice-based algorithm.

#[path = "../../../operators/tests/all/aggregate/cases.rs"]
mod cases;
#[path = "../../../operators/tests/all/aggregate/user.rs"]
mod user;

use cases::{
    Between, ResultRow, Row, Shape, epochs, go_streaming, many, run, run_streaming, shapes, sources,
};
use proptest::prelude::*;
use tidegate_operators::aggregate::{Aggregate, StreamingAggregate, Windows};
use tidegate_papers::aggregate_designs::{MultiwayDesign, streaming_aggregate_by};

const DESIGNS: [MultiwayDesign; 5] = [
    MultiwayDesign::MultiQueue,
    MultiwayDesign::LockFreeMultiQueue,
    MultiwayDesign::MergedSingleConsumer,
    MultiwayDesign::MergedMultipleConsumer,
    MultiwayDesign::WindowMerged,
];

/// Several designs, where `None` means the slice-based algorithm.
fn designs() -> impl Strategy<Value = Vec<Option<MultiwayDesign>>> {
    let design = prop::option::weighted(0.8, prop::sample::select(&DESIGNS[..]));
    prop::collection::vec(design, 1..4)
}

/// Like [`run_streaming`], but alternates between designs.
fn run_by(
    designs: &[Option<MultiwayDesign>],
    sources: &[Vec<Row>],
    shape: Shape,
    threads: usize,
    epochs: &[(usize, Between)],
) -> Vec<ResultRow> {
    let windows = Windows::new(shape.size, shape.advance, shape.offset);
    let mut designs = designs.iter().copied().cycle();
    let new = |aggregates: &[Aggregate]| match designs.next().expect("there is one") {
        None => StreamingAggregate::new(windows.clone(), sources.len(), aggregates),
        Some(design) => streaming_aggregate_by(design, windows.clone(), sources.len(), aggregates),
    };
    go_streaming(sources, new, threads, epochs).into_iter().map(|(_, found)| found).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn epochs_do_not_show(
        sources in sources(30, 60), shape in shapes(), threads in 1_usize..4, epochs in epochs(),
        designs in designs(),
    ) {
        let found = run_by(&designs, &sources, shape, threads, &epochs);
        prop_assert_eq!(found, run(&sources, shape, 1));
    }

    #[test]
    fn sparse_times(
        sources in sources(6, 4000), shape in shapes(), epochs in epochs(), designs in designs(),
    ) {
        let found = run_by(&designs, &sources, shape, 2, &epochs);
        prop_assert_eq!(found, run(&sources, shape, 1));
    }
}

#[test]
fn many_rows() {
    let sources = many(25_000, 3);
    for (size, advance) in [(1000, 100), (1000, 300), (10, 70), (100_000, 500)] {
        let shape = Shape { size, advance, offset: 3 };
        let epochs = [(10_000, Between::Pages), (30_000, Between::Nothing)];
        let whole = run(&sources, shape, 1);
        for design in DESIGNS {
            let found = run_by(&[Some(design)], &sources, shape, 3, &epochs);
            assert_eq!(found, whole, "{shape:?} {design:?}");
        }
    }
}

/// More threads than cores and small epochs are used, so that rare cases occur often enough.
#[test]
#[ignore = "takes some ten seconds"]
fn stress_on_up_to_sixteen_threads() {
    for (turn, threads) in [2, 3, 8, 16].into_iter().cycle().take(24).enumerate() {
        let sources = many(2_000, 1 + turn as u64 % 5);
        let shape = Shape { size: 100 + 7 * turn as i64, advance: 30, offset: 3 };
        let epochs = [(50 << (turn % 6), Between::Pages), (300 + turn, Between::Restore)];
        let whole = run(&sources, shape, 1);
        assert!(run_streaming(&sources, shape, threads, &epochs) == whole, "{shape:?} slices");
        for design in DESIGNS {
            let found = run_by(&[Some(design)], &sources, shape, threads, &epochs);
            assert!(found == whole, "{shape:?} {design:?} {threads} threads");
        }
    }
}
