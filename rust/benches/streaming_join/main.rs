//! Measures the online interval join without Arrow, in the modes of PPOIJ. The joins with which the
//! PPOIJ paper compares them are measured as well.
//!
//! The input is workload W1s without its payload: one million rows per side in epochs of 20,000
//! rows, uniform keys, and 4 matches per left row.
//!
//! ```text
//! cargo bench -p tidegate-benches --bench streaming_join
//! ```

mod split_join;
mod workload;

use std::time::Instant;

use split_join::split_trees;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::streaming::{KeyedJoin, Parallelism, StreamingJoin};
use tidegate_operators::rows::{Closed, How, Interval, Progress, RowJoin};
use tidegate_papers::scale_oij::ScaleOij;
use tidegate_sync::Stop;
use workload::{Epoch, Workload};

const THREADS: usize = 2;
const RUNS: usize = 7;

/// Processes an epoch and returns the number of pairs found.
type System = Box<dyn FnMut(&Epoch) -> usize>;

/// Returns the interval that matches rows at most `reach` apart.
fn near(reach: i64) -> Interval {
    Interval { lower: Some(-reach), upper: Some(reach), closed: Closed::Both }
}

/// Creates an interval join that uses a pattern of PPOIJ.
fn pattern(parallelism: Parallelism, reach: i64, driver: &Driver) -> System {
    let threads = driver.threads();
    let join = StreamingJoin::new(&near(reach), How::Inner, parallelism, threads, true);
    in_order(Box::new(join), driver)
}

/// Creates a system from a join that returns its pairs in order.
fn in_order(mut join: Box<dyn KeyedJoin>, driver: &Driver) -> System {
    let driver = driver.clone();
    Box::new(move |epoch| {
        let [left, right] = &epoch.keys;
        driver.clone().within(|| {
            join.begin(&driver, epoch.ts.clone(), epoch.sides.clone(), [left, right]);
            let pairs = rest(&mut *join, &driver, epoch);
            join.take_silent();
            pairs
        })
    })
}

/// Collects the results of an epoch that has already begun, and then drops old rows. Returns the
/// number of pairs.
fn rest<V>(join: &mut (impl RowJoin<V> + ?Sized), driver: &Driver, epoch: &Epoch) -> usize {
    let mut pairs = 0;
    while !join.is_done() {
        match join.advance(driver, None).expect("the driver is not stopped") {
            Progress::Results(results) => pairs += results.left.len(),
            Progress::Pieces(pieces) => {
                let made = driver.map(pieces, |rows| join.assemble(rows).left.len());
                pairs += made.expect("the driver is not stopped").into_iter().sum::<usize>();
            }
        }
    }
    join.purge([epoch.ts.last().copied(); 2]);
    pairs
}

/// Runs a system and returns the number of pairs and the time in seconds.
fn measure(mut system: System, workload: &Workload) -> (usize, f64) {
    let started = Instant::now();
    let pairs = workload.epochs.iter().map(&mut system).sum();
    (pairs, started.elapsed().as_secs_f64())
}

fn main() {
    let driver = Driver::lasting(THREADS, Stop::default(), true).expect("threads can be started");
    println!("M rows/s, {THREADS} threads: medians of {RUNS} runs in turns, least, most");
    for keys in [1, 10, 50, 1_000] {
        let workload = Workload::new(keys);
        let reach = workload.reach;
        let mode = |parallelism| pattern(parallelism, reach, &driver);
        let scale_oij = || {
            let join = ScaleOij::new(&near(reach), How::Inner, driver.threads());
            in_order(Box::new(join), &driver)
        };
        let systems: [(&str, &dyn Fn() -> System); 5] = [
            ("key", &|| mode(Parallelism::Key)),
            ("hybrid", &|| mode(Parallelism::Hybrid)),
            ("data", &|| mode(Parallelism::Data)),
            ("SplitJoin", &|| split_trees(reach, &driver)),
            ("Scale-OIJ", &scale_oij),
        ];
        let mut expected = None;
        let mut rates = systems.map(|_| Vec::new());
        for _ in 0..RUNS {
            for ((name, system), rates) in systems.iter().zip(&mut rates) {
                let (pairs, seconds) = measure(system(), &workload);
                let expected = *expected.get_or_insert(pairs);
                assert_eq!(pairs, expected, "{name} finds the same pairs as the others");
                rates.push(workload.rows() as f64 / seconds / 1e6);
            }
        }
        for ((name, _), mut rates) in systems.into_iter().zip(rates) {
            rates.sort_by(f64::total_cmp);
            let (median, least, most) = (rates[RUNS / 2], rates[0], rates[RUNS - 1]);
            println!("{keys:5} keys  {name:15} {median:6.1} {least:6.1} {most:6.1}");
        }
    }
}
