//! Measures the index-based window join, both with tasks and with rows that are inserted into the
//! indexes ahead of time.

use std::time::Instant;

use tidegate_operators::band::index::{Ahead, Bands, Find, IndexJoin};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{How, Progress, Retention, RowJoin, Side};
use tidegate_papers::index_kind::IndexKind;
use tidegate_papers::index_tasks::{MergeOptions, TaskIndex, TaskJoin, TaskOptions};
use tidegate_structures::index::{BucketIndex, WindowIndex};
use tidegate_sync::Stop;

use crate::Point;

const WINDOW: usize = 1 << 16;
const ROWS: usize = 1 << 18;

/// The number of rows that arrive together, counting both sides.
const MANY: usize = 1 << 14;

type Join = IndexJoin<Box<dyn Find>>;

/// A join whose windows slide over values in no particular order.
struct Load {
    join: Join,
    driver: Driver,
    came: i64,
}

impl Load {
    fn new(join: Join, threads: usize) -> Self {
        let driver = Driver::lasting(threads, Stop::default(), true).expect("threads start");
        let mut load = Load { join, driver, came: 0 };
        load.run(2 * WINDOW + 2 * MANY, MANY);
        load
    }

    /// Joins `rows` rows in total from both sides, `together` of them at a time. Returns the time
    /// in seconds.
    fn run(&mut self, rows: usize, together: usize) -> f64 {
        let pieces: Vec<_> = (0..rows / together).map(|_| self.piece(together)).collect();
        let start = Instant::now();
        for (ts, sides, left, right) in pieces {
            let last = ts.last().copied();
            let (left, right) = ([left.bands()], [right.bands()]);
            self.join.begin(&self.driver, ts, sides, [&left, &right]);
            let (join, driver) = (&mut self.join, &self.driver);
            driver.within(|| {
                while !join.is_done() {
                    let Ok(Progress::Pieces(pieces)) = join.advance(driver, None) else {
                        unreachable!("an inner join returns pieces unless it is stopped")
                    };
                    for piece in pieces {
                        std::hint::black_box(join.assemble(piece));
                    }
                }
            });
            self.join.purge([last; 2]);
        }
        start.elapsed().as_secs_f64()
    }

    /// Returns alternating rows of R and S, as times, sides, and the bands of both sides.
    fn piece(&mut self, rows: usize) -> (Vec<i64>, Vec<Side>, Codes, Codes) {
        let ts: Vec<i64> = (self.came..self.came + rows as i64).collect();
        self.came += rows as i64;
        // The band around each value contains two values of a window.
        let within = u64::MAX / WINDOW as u64;
        let value = |ts: &i64| {
            ts.cast_unsigned()
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        let codes = |side: i64| {
            let codes: Vec<i64> =
                ts.iter().filter(|&ts| ts % 2 == side).map(|ts| value(ts).cast_signed()).collect();
            let low = codes.iter().map(|code| code.saturating_sub_unsigned(within)).collect();
            let high = codes.iter().map(|code| code.saturating_add_unsigned(within)).collect();
            Codes { codes, low, high }
        };
        let (left, right) = (codes(0), codes(1));
        let sides =
            ts.iter().map(|ts| if ts % 2 == 0 { Side::Left } else { Side::Right }).collect();
        (ts, sides, left, right)
    }
}

struct Codes {
    codes: Vec<i64>,
    low: Vec<i64>,
    high: Vec<i64>,
}

impl Codes {
    fn bands(&self) -> Bands<'_> {
        Bands { codes: &self.codes, low: &self.low, high: &self.high }
    }
}

fn join(finder: impl Find + 'static) -> Join {
    let window = Retention::Rows { left: WINDOW as u64, right: WINDOW as u64 };
    IndexJoin::of_two_streams(window, How::Inner, 1, true, Box::new(finder))
}

fn ahead(index: impl Fn() -> Box<dyn WindowIndex>) -> Join {
    join(Ahead::new(2, index))
}

/// Measures rates for different numbers of rows per task. Also measures latencies for task sizes
/// that leave each thread with one task. Then measures both kinds of merge with different numbers
/// of threads.
pub(crate) fn tasks() {
    let by_tasks = |options: TaskOptions| join(TaskJoin::new(2, options));
    for threads in [1, 2] {
        for rows in [1, 2, 4, 8, 16, 32, 64] {
            let mut load =
                Load::new(by_tasks(TaskOptions { rows, ..TaskOptions::default() }), threads);
            let rate = ROWS as f64 / load.run(ROWS, MANY) / 1e6;
            let together = rows * threads;
            let pieces = 2_000;
            let latency = load.run(pieces * together, together) / pieces as f64 * 1e6;
            let series = format!("{threads} thread{}", if threads == 1 { "" } else { "s" });
            let measured = [("M rows/s", rate), ("us", latency)];
            Point { figure: "task-size", series: &series, x: rows as f64, measured: &measured }
                .print();
        }
        let over = |index| by_tasks(TaskOptions { index, ..TaskOptions::default() });
        let blocking = MergeOptions { is_blocking: true, ..MergeOptions::default() };
        let joins = [
            ("IBWJ", by_tasks(TaskOptions::default())),
            ("IBWJ, blocking merge", over(TaskIndex::PimTree(blocking))),
            ("IBWJ, OLC B+-tree", over(TaskIndex::BPlusTree)),
            ("PIM-Tree ahead", ahead(|| IndexKind::PIM_TREE.index())),
            ("buckets ahead", ahead(|| Box::new(BucketIndex::new()))),
        ];
        for (series, join) in joins {
            let rate = ROWS as f64 / Load::new(join, threads).run(ROWS, MANY) / 1e6;
            Point { figure: "threads", series, x: threads as f64, measured: &[("M rows/s", rate)] }
                .print();
        }
    }
}
