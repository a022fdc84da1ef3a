//! Measures the window join that compares every pair, with full windows, on workload W3 without its
//! payload.
//!
//! The condition consists of two bands, each containing 21 of 10 000 numbers. Each window contains
//! the last 200 000 rows on its side. The throughput is the number of pairs compared.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate_operators::driver::Driver;
use tidegate_operators::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
use tidegate_operators::rows::{How, Retention, RowJoin, Side};
use tidegate_operators::window::scale::{ScaleAlgorithm, ScaleJoin};
use tidegate_sync::Stop;

/// The number of rows in each side's window.
const WINDOW: usize = 200_000;

/// The maximum distance between matching numbers.
const WITHIN: i64 = 10;

/// Numbers from 0 to 9 999. Every run generates the same sequence.
struct Random(u64);

impl Random {
    fn operand(&mut self, rows: usize) -> Operand {
        let mut next = || {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 33) % 10_000) as i32
        };
        Operand::new(Numbers::I32((0..rows).map(|_| next()).collect()), None)
    }
}

fn band(random: &mut Random) -> Term {
    let relation = Relation::Whole(vec![
        Constraint::Difference { order: Order::LessOrEqual, than: WITHIN },
        Constraint::Difference { order: Order::GreaterOrEqual, than: -WITHIN },
    ]);
    Term::new(random.operand(0), random.operand(0), relation)
        .expect("integers support this comparison")
}

/// Joins another `rows` rows from each side and returns the number of matching pairs.
fn push(join: &mut ScaleJoin, driver: &Driver, random: &mut Random, rows: usize) -> usize {
    let sides =
        (0..2 * rows).map(|row| if row % 2 == 0 { Side::Left } else { Side::Right }).collect();
    let numbers = [(); 2].map(|()| (random.operand(rows), random.operand(rows)));
    join.begin(driver, vec![0; 2 * rows], sides, Some(&numbers));
    let mut pairs = 0;
    while !join.is_done() {
        pairs += join
            .advance(driver, None)
            .expect("the driver is not stopped")
            .into_results()
            .left
            .len();
    }
    join.purge([Some(0); 2]);
    pairs
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("window_join");
    for (threads, rows) in [(1, 4096), (2, 4096), (1, 64), (2, 64)] {
        let driver = Driver::new(threads, Stop::default());
        let mut random = Random(42);
        let terms = vec![band(&mut random), band(&mut random)];
        let windows = Retention::Rows { left: WINDOW as u64, right: WINDOW as u64 };
        let mut join =
            ScaleJoin::new(windows, How::Inner, ScaleAlgorithm::ScaleJoin, threads, true, terms);
        while join.rows(Side::Left) < WINDOW {
            push(&mut join, &driver, &mut random, 1 << 14);
        }
        group.throughput(Throughput::Elements((2 * rows * WINDOW) as u64));
        let case = format!("{rows} rows at a time, {threads} threads, by {}", join.compared_by());
        group.bench_function(BenchmarkId::new("ScaleJoin", case), |bencher| {
            bencher.iter(|| black_box(push(&mut join, &driver, &mut random, rows)));
        });
    }
    group.finish();
}

criterion_group!(window_join, bench);
criterion_main!(window_join);
