//! Measures the latency of pairs: the time from the arrival of a pair's later row until the pair is
//! returned. Rows arrive at a steady rate.

use std::sync::Arc;
use std::time::Instant;

use tidegate_operators::driver::Driver;
use tidegate_operators::rows::Retention;
use tidegate_papers::handshake::{Burst, Chain, HandshakeAlgorithm, ResultPair};
use tidegate_papers::threads::{Turn, take_turns};
use tidegate_sync::Stop;

use crate::option;
use crate::workload::{Rows, Test};

/// The maximum number of rows that are fed together.
const BURST: usize = 64;

/// The parameters of a measurement.
struct Plan {
    /// The number of rows per second, counting both sides.
    rate: f64,
    /// The length of both windows, in seconds.
    window: f64,
    /// The time span, in seconds, of the rows fed before the measurement. These rows fill the
    /// windows and make them slide.
    past: f64,
    /// The duration of the measurement, in seconds.
    seconds: f64,
    nodes: usize,
}

impl Plan {
    /// Returns a row's time in nanoseconds since the measurement began.
    fn ts(&self, row: usize) -> i64 {
        ((row as f64 / self.rate - self.past) * 1e9) as i64
    }

    fn rows(&self) -> usize {
        ((self.past + self.seconds) * self.rate) as usize / 2 * 2
    }
}

/// Returns the sorted latencies in nanoseconds, and the maximum number of results that were waiting
/// at once.
fn measure(
    plan: &Plan,
    algorithm: HandshakeAlgorithm,
    ordered: bool,
    rows: &Rows,
) -> (Vec<i64>, usize) {
    let length = (plan.window * 1e9) as u64;
    let window = Retention::Time { left: length, right: length };
    let mut chain =
        Chain::new(Arc::new(Test::Scan.predicate()), window, algorithm, plan.nodes, ordered);
    let driver = Driver::lasting(2, Stop::default(), true).expect("threads can be started");
    let ts: Vec<i64> = (0..plan.rows()).map(|row| plan.ts(row)).collect();
    let past = ts.partition_point(|&ts| ts < 0) / 2 * 2;
    let (feed, collector) = (&mut chain.feed, &mut chain.collector);
    let (mut fed, mut punctuated) = (0, true);
    let mut found: Vec<ResultPair> = Vec::new();
    let mut latencies = Vec::new();
    // Set when the earlier rows have been processed.
    let mut begin: Option<Instant> = None;
    let mut ends = || {
        let now = begin.map(|begin| begin.elapsed().as_nanos() as i64);
        let due = match now {
            Some(now) => fed + ts[fed..].partition_point(|&ts| ts <= now),
            None => past,
        };
        let mut worked = false;
        if feed.has_room() && fed < due {
            // Sides alternate, so a burst begins with a left row.
            let next = fed..(due - due % 2).min(fed + BURST);
            let of_side = next.start / 2..next.end / 2;
            if !next.is_empty() {
                (fed, punctuated, worked) = (next.end, false, true);
                let (ts, sides) = (&ts[next.clone()], &rows.sides[next]);
                let (left, right) = (&rows.left, &rows.right);
                feed.feed(&Burst {
                    ts,
                    sides,
                    left,
                    left_rows: of_side.clone(),
                    right,
                    right_rows: of_side,
                });
            }
        } else if feed.has_room() && !punctuated && ordered {
            punctuated = true;
            feed.punctuate();
        }
        collector.collect(&mut found);
        match begin {
            None if fed == past && feed.is_through() => begin = Some(Instant::now()),
            None => {}
            Some(begin) => {
                let now = begin.elapsed().as_nanos() as i64;
                latencies.extend(found.iter().map(|found| now - ts[found.seq as usize]));
                if now as f64 > plan.seconds * 1e9 {
                    return Turn::Finished;
                }
            }
        }
        found.clear();
        if worked { Turn::Worked } else { Turn::Waiting }
    };
    let mut steps: Vec<_> = chain.nodes.iter_mut().map(|node| || node.step()).collect();
    let mut tasks: Vec<&mut (dyn FnMut() -> Turn + Send)> = vec![&mut ends];
    tasks.extend(steps.iter_mut().map(|step| step as &mut (dyn FnMut() -> Turn + Send)));
    take_turns(&driver, tasks).expect("the driver is not stopped");
    latencies.sort_unstable();
    (latencies, chain.collector.most_buffered())
}

/// The variants: a name, the algorithm, and a flag for ordered results.
pub(crate) const FORMS: [(&str, HandshakeAlgorithm, bool); 4] = [
    ("handshake", HandshakeAlgorithm::Original, false),
    ("handshake, in order", HandshakeAlgorithm::Original, true),
    ("low latency", HandshakeAlgorithm::LowLatency, false),
    ("low latency, in order", HandshakeAlgorithm::LowLatency, true),
];

/// Latencies in milliseconds.
pub(crate) struct Latency {
    pub(crate) pairs: usize,
    pub(crate) mean: f64,
    /// The median, the 99th percentile and the maximum.
    pub(crate) quantiles: [f64; 3],
    pub(crate) most_waiting: usize,
}

/// Measures a variant at the given rate, in rows per second, counting both sides. Command-line
/// options set the length of the windows and the duration.
pub(crate) fn latency(
    (_, algorithm, ordered): (&str, HandshakeAlgorithm, bool),
    rate: f64,
    nodes: usize,
) -> Latency {
    let window = option("--window", 8.0);
    let plan = Plan { rate, window, past: window, seconds: option("--seconds", 2.0), nodes };
    let rows = Rows::new(plan.rows() / 2, 10_000, Test::Scan);
    let (latencies, most_waiting) = measure(&plan, algorithm, ordered, &rows);
    let quantile =
        |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize] as f64 / 1e6;
    let mean = latencies.iter().sum::<i64>() as f64 / latencies.len() as f64 / 1e6;
    Latency {
        pairs: latencies.len(),
        mean,
        quantiles: [0.5, 0.99, 1.0].map(quantile),
        most_waiting,
    }
}

/// Measures and prints a table.
pub(crate) fn print() {
    let (nodes, rate) = (option("--nodes", 2), 2.0 * option("--rate", 10_000.0));
    println!(
        "{rate} rows per second, windows of {} s, {nodes} nodes, 2 threads.\n",
        option("--window", 8.0)
    );
    println!(
        "| form | pairs | mean, ms | median, ms | p99, ms | maximum, ms | most waiting results |"
    );
    println!("| --- | --: | --: | --: | --: | --: | --: |");
    let chosen: String = option("--form", String::new());
    for form in FORMS.into_iter().filter(|form| chosen.is_empty() || chosen == form.0) {
        let Latency { pairs, mean, quantiles: [median, p99, most], most_waiting } =
            latency(form, rate, nodes);
        println!(
            "| {} | {pairs} | {mean:.3} | {median:.3} | {p99:.3} | {most:.3} | {most_waiting} |",
            form.0
        );
    }
}
