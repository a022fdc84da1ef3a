//! Measures latency in W5 at half of each gate's peak rate. The latency is the time from the push
//! of a row until a reader receives it.
//!
//! First, each gate is fed as fast as it accepts rows, which determines its peak rate. Then one
//! thread feeds rows on schedule, and another thread reads them. If the feeding thread is behind
//! schedule, it does not wait. Sources take turns. The sources push single rows to the row gate and
//! runs of 1 024 rows to the block gate. The latency of a row therefore includes the time until the
//! other sources have passed the row's time. The benchmark needs two idle cores.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_papers::row_gate::{Reader, ScaleGate, Source};
use tidegate_structures::gate::{Block, BlockGate, BlockReader, BlockSource, Next, Rejection, Run};

use crate::workload::Columns;

/// The numbers of rows measured with the row gate and with the block gate.
const ROWS: usize = 4_000_000;
const BLOCK_ROWS: usize = 40_000_000;

/// The number of rows per run.
const RUN: usize = 1024;

/// For each source, one row in this many is measured.
const SAMPLED: usize = 16;

/// The memory limit of the gates.
const LIMIT: usize = 64 << 20;

/// A clock, in nanoseconds, that both threads read, and the rate at which rows are fed.
#[derive(Clone, Copy)]
struct Pace {
    begin: Instant,
    nanoseconds_a_row: f64,
}

impl Pace {
    fn at(rows_per_second: f64) -> Self {
        Pace { begin: Instant::now(), nanoseconds_a_row: 1e9 / rows_per_second }
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Waits until row `row` is due.
    fn wait(&self, row: usize) {
        let due = (row as f64 * self.nanoseconds_a_row) as u64;
        while self.now() < due {
            std::hint::spin_loop();
        }
    }
}

/// Retries the push of `row` until there is room.
fn insist<R>(mut row: R, mut push: impl FnMut(R) -> Result<(), Rejection<R>>) {
    while let Err(rejected) = push(row) {
        assert!(matches!(rejected, Rejection::Full { .. }), "W5's rows are sorted");
        row = rejected.into_inner();
        thread::yield_now();
    }
}

/// Pushes rows whose payload is the time of the push, or 0 if a row is not measured.
fn feed_rows(columns: &Columns, mut sources: Vec<Source<u64>>, pace: Pace) {
    for at in 0..columns.ts[0].len() {
        pace.wait(at * sources.len());
        for (source, ts) in sources.iter_mut().zip(&columns.ts) {
            let pushed = if at % SAMPLED == 0 { pace.now() } else { 0 };
            insist(pushed, |pushed| source.push(ts[at], pushed));
        }
    }
}

fn read_rows(mut reader: Reader<u64>, pace: Pace) -> Vec<u64> {
    let mut latencies = Vec::with_capacity(ROWS / SAMPLED + 1);
    loop {
        match reader.next_ready() {
            Next::Ready(row) if *row.payload > 0 => latencies.push(pace.now() - row.payload),
            Next::Ready(_) => {}
            Next::NotYet => std::hint::spin_loop(),
            Next::End => return latencies,
        }
    }
}

/// A run and the time at which it was pushed.
struct StampedRun {
    ts: &'static [i64],
    pushed: u64,
}

impl Run for StampedRun {
    fn ts(&self) -> &[i64] {
        self.ts
    }
}

fn feed_blocks(columns: &Columns, mut sources: Vec<BlockSource<StampedRun>>, pace: Pace) {
    let longest = columns.ts[0].len();
    for turn in (0..longest).step_by(RUN) {
        for (number, ts) in columns.ts.iter().enumerate() {
            pace.wait(turn * columns.ts.len() + number * RUN);
            let run = StampedRun { ts: &ts[turn..(turn + RUN).min(longest)], pushed: pace.now() };
            insist(run, |run| sources[number].push(run));
        }
    }
}

fn read_blocks(mut reader: BlockReader<StampedRun>, pace: Pace) -> Vec<u64> {
    let mut latencies = Vec::with_capacity(BLOCK_ROWS / SAMPLED);
    loop {
        match reader.next_block() {
            Next::Ready(block) => {
                let now = pace.now();
                latencies.extend(pushes(block).map(|pushed| now - pushed));
            }
            Next::NotYet => std::hint::spin_loop(),
            Next::End => return latencies,
        }
    }
}

/// Returns the push times of the sampled rows.
fn pushes(block: &Block<StampedRun>) -> impl Iterator<Item = u64> {
    let runs: Vec<_> = block.runs().map(|run| (run.first, run.run.pushed)).collect();
    let ids = block.ids().iter().step_by(SAMPLED);
    ids.map(move |id| runs[runs.partition_point(|(first, _)| first <= id) - 1].1)
}

/// The rows per second, and the latencies.
type RateAndLatencies = (f64, Vec<u64>);

fn rows(columns: &Columns, rate: f64) -> RateAndLatencies {
    let (sources, mut readers) =
        ScaleGate::with_memory_limit(columns.ts.len(), 1, LIMIT).expect("few sources");
    let reader = readers.pop().expect("there is one");
    both(columns, rate, |pace| feed_rows(columns, sources, pace), |pace| read_rows(reader, pace))
}

fn blocks(columns: &Columns, rate: f64) -> RateAndLatencies {
    let (sources, mut readers) =
        BlockGate::with_memory_limit(columns.ts.len(), 1, LIMIT).expect("few sources");
    let reader = readers.pop().expect("there is one");
    both(
        columns,
        rate,
        |pace| feed_blocks(columns, sources, pace),
        |pace| read_blocks(reader, pace),
    )
}

fn both(
    columns: &Columns,
    rate: f64,
    feed: impl FnOnce(Pace) + Send,
    read: impl FnOnce(Pace) -> Vec<u64>,
) -> RateAndLatencies {
    let pace = Pace::at(rate);
    let latencies = thread::scope(|scope| {
        scope.spawn(move || feed(pace));
        read(pace)
    });
    let took = Duration::from_nanos(pace.now());
    (columns.rows as f64 / took.as_secs_f64(), latencies)
}

/// Measures and prints a table.
pub(crate) fn print() {
    println!("| gate | k | peak, M rows/s | fed, M rows/s | median, us | p99, us | most, us |");
    println!("| --- | --: | --: | --: | --: | --: | --: |");
    type Gate = (&'static str, usize, fn(&Columns, f64) -> RateAndLatencies);
    let gates: [Gate; 2] = [("rows", ROWS, rows), ("blocks", BLOCK_ROWS, blocks)];
    for (name, rows, gate) in gates {
        for k in [2, 20] {
            let columns = Columns::new(k, rows);
            let (peak, _) = gate(&columns, f64::INFINITY);
            let (fed, mut latencies) = gate(&columns, peak / 2.0);
            latencies.sort_unstable();
            let quantile = |share: f64| {
                latencies[((latencies.len() - 1) as f64 * share) as usize] as f64 / 1e3
            };
            let [median, p99, most] = [0.5, 0.99, 1.0].map(quantile);
            println!(
                "| {name} | {k} | {:.1} | {:.1} | {median:.1} | {p99:.1} | {most:.1} |",
                peak / 1e6,
                fed / 1e6
            );
        }
    }
}
