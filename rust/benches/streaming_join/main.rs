//! Finding the pairs of the online interval join, without Arrow: the modes of PPOIJ, and the rivals
//! of its paper.
//!
//! A million rows a side, keys uniform, 4 matches a left row, in epochs of 20,000 rows; as workload
//! W1s, without payload.
//!
//! ```text
//! cargo bench -p tidegate-benches --bench streaming_join
//! ```

mod rivals;
mod workload;

use std::time::{Duration, Instant};

use tidegate_operators::driver::Driver;
use tidegate_operators::interval::streaming::{Parallelism, StreamingJoin};
use tidegate_operators::rows::{Closed, How, Interval, Progress, RowJoin};
use tidegate_sync::Stop;
use workload::{Epoch, Workload};

const THREADS: usize = 2;
const RUNS: usize = 7;

/// Takes in an epoch; the pairs that it brought.
type System = Box<dyn FnMut(&Epoch) -> usize>;

/// The join of this crate, its pairs in order.
fn ours(parallelism: Parallelism, reach: i64, driver: &Driver) -> System {
    let interval = Interval { lower: Some(-reach), upper: Some(reach), closed: Closed::Both };
    let mut join = StreamingJoin::new(&interval, How::Inner, parallelism, driver.threads(), true);
    let driver = driver.clone();
    Box::new(move |epoch| {
        let [left, right] = &epoch.keys;
        driver.clone().within(|| {
            join.begin(&driver, epoch.ts.clone(), epoch.sides.clone(), [left, right]);
            let mut pairs = 0;
            while !join.is_done() {
                match join.advance(&driver, None).expect("nothing stops it") {
                    Progress::Results(results) => pairs += results.left.len(),
                    Progress::Pieces(pieces) => {
                        let made = driver.map(pieces, |rows| join.assemble(rows).left.len());
                        pairs += made.expect("nothing stops it").into_iter().sum::<usize>();
                    }
                }
            }
            join.purge(epoch.ts.last().copied());
            pairs
        })
    })
}

fn measure(system: impl Fn() -> System, workload: &Workload) -> (usize, Duration) {
    let runs = (0..RUNS).map(|_| {
        let mut system = system();
        let started = Instant::now();
        let pairs = workload.epochs.iter().map(&mut system).sum();
        (pairs, started.elapsed())
    });
    runs.min_by_key(|&(_, taken)| taken).expect("there are runs")
}

fn main() {
    let driver = Driver::lasting(THREADS, Stop::default(), true).expect("threads can be started");
    println!("M rows/s, {THREADS} threads, the best of {RUNS} runs");
    for keys in [1, 10, 50, 1_000] {
        let workload = Workload::new(keys);
        let reach = workload.reach;
        let mode = |parallelism| measure(|| ours(parallelism, reach, &driver), &workload);
        let systems = [
            ("key", mode(Parallelism::Key)),
            ("hybrid", mode(Parallelism::Hybrid)),
            ("data", mode(Parallelism::Data)),
            ("SplitJoin", measure(|| rivals::split_join(keys as usize, reach, &driver), &workload)),
            (
                "shared buffers",
                measure(|| rivals::shared_buffers(keys as usize, reach, &driver), &workload),
            ),
        ];
        for (name, (pairs, taken)) in systems {
            assert_eq!(pairs, systems[0].1.0, "{name} finds the pairs of the others");
            println!(
                "{keys:5} keys  {name:15} {:6.1}",
                workload.rows() as f64 / taken.as_secs_f64() / 1e6
            );
        }
    }
}
