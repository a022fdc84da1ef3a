//! Measures the rows per second of each variant.

use std::sync::Arc;
use std::time::Instant;

use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Results, Retention};
use tidegate_papers::handshake::{
    BandPredicate, Columns, HandshakeAlgorithm, HandshakeJoin, NumberRows,
};
use tidegate_sync::Stop;

use crate::option;
use crate::workload::{Rows, Test};

/// The number of rows per epoch.
const EPOCH: usize = 4096;

/// A variant: its name, condition and algorithm, and a flag for ordered results. Ordered
/// results require punctuations.
pub(crate) type Form = (&'static str, Test, HandshakeAlgorithm, bool);

pub(crate) const FORMS: [Form; 7] = [
    ("handshake", Test::Scan, HandshakeAlgorithm::Original, false),
    ("handshake, in order", Test::Scan, HandshakeAlgorithm::Original, true),
    ("low latency", Test::Scan, HandshakeAlgorithm::LowLatency, false),
    ("low latency, in order", Test::Scan, HandshakeAlgorithm::LowLatency, true),
    ("low latency, ordered index", Test::Ordered, HandshakeAlgorithm::LowLatency, true),
    ("low latency, equal x", Test::EqualScan, HandshakeAlgorithm::LowLatency, true),
    ("low latency, equal x, hash index", Test::Hash, HandshakeAlgorithm::LowLatency, true),
];

/// A join and its input rows.
struct Run {
    join: HandshakeJoin<BandPredicate<u32>>,
    driver: Driver,
    rows: Rows,
    fed: usize,
}

impl Run {
    fn new((_, test, algorithm, ordered): Form, window: u64, nodes: usize, rows: Rows) -> Self {
        let window = Retention::Rows { left: window, right: window };
        let join =
            HandshakeJoin::new(Arc::new(test.predicate()), window, algorithm, nodes, ordered, true)
                .expect("threads can be started");
        let driver = Driver::new(1, Stop::default());
        Run { join, driver, rows, fed: 0 }
    }

    /// Feeds the next rows from both sides to the join.
    fn feed(&mut self, rows: usize, mut each: impl FnMut([u64; 2], Results)) {
        let upto = self.fed + rows;
        while self.fed < upto {
            let next = self.fed..upto.min(self.fed + EPOCH);
            self.fed = next.end;
            let ts = next.clone().map(|row| row as i64).collect();
            let (mut left, mut right) = (NumberRows::default(), NumberRows::default());
            // The sides alternate.
            left.push_rows(&self.rows.left, next.start / 2..next.end / 2);
            right.push_rows(&self.rows.right, next.start / 2..next.end / 2);
            self.join.begin(ts, self.rows.sides[next.clone()].to_vec(), left, right);
            self.drain(&mut each);
            self.join.purge(Some(next.end as i64 - 1));
        }
    }

    fn drain(&mut self, each: &mut impl FnMut([u64; 2], Results)) {
        use tidegate_operators::rows::Side::{Left, Right};
        while !self.join.is_done() {
            let firsts = [self.join.first(Left), self.join.first(Right)];
            each(firsts, self.join.advance(&self.driver).expect("the driver is not stopped"));
        }
    }
}

/// Compares the results of a condition's variants with the results of a nested loop.
pub(crate) fn check(pairs: usize) {
    for form in FORMS {
        let window = pairs as u64 / 4;
        let rows = Rows::new(pairs, 100, form.1);
        let mut expected = Vec::new();
        for later in 0..2 * pairs {
            let (number, is_left) = (later / 2, later % 2 == 0);
            let others = if is_left { number } else { number + 1 };
            for earlier in others.saturating_sub(window as usize)..others {
                let (l, r) = if is_left { (number, earlier) } else { (earlier, number) };
                expected.extend(rows.matches(l, r, form.1).then_some((l as u64, r as u64)));
            }
        }
        let mut run = Run::new(form, window, 3, rows);
        let mut found = Vec::new();
        let mut take = |[left, right]: [u64; 2], results: Results| {
            let numbers = results.left.iter().zip(&results.right);
            found.extend(numbers.map(|(&l, &r)| (left + u64::from(l), right + u64::from(r))));
        };
        run.feed(2 * pairs, &mut take);
        run.join.end();
        run.drain(&mut take);
        if !form.3 {
            found.sort_unstable();
            expected.sort_unstable();
        }
        assert_eq!(found, expected, "{}", form.0);
    }
}

/// The figures measured for a variant with full windows.
pub(crate) struct Rate {
    /// The number of rows per second, counting both sides.
    pub(crate) rows: f64,
    /// The number of comparisons per second.
    pub(crate) comparisons: f64,
    /// The least busy node's work divided by the busiest node's work.
    pub(crate) balance: f64,
    pub(crate) most_waiting: usize,
}

/// Measures a variant.
pub(crate) fn measure(form: Form, window: u64, nodes: usize, rows: usize) -> Rate {
    // An index takes far less time per row, so more rows are measured.
    let measured = if matches!(form.1, Test::Ordered | Test::Hash) { rows * 8 } else { rows };
    let fill = 2 * window as usize;
    let mut run = Run::new(form, window, nodes, Rows::new((fill + measured) / 2, 10_000, form.1));
    let mut pairs = 0;
    run.feed(fill, |_, results| pairs += results.left.len());
    let before = run.join.comparisons();
    let begin = Instant::now();
    run.feed(measured, |_, results| pairs += results.left.len());
    let seconds = begin.elapsed().as_secs_f64();
    let work: Vec<u64> =
        run.join.comparisons().iter().zip(before).map(|(now, before)| now - before).collect();
    let [least, most] =
        [work.iter().min(), work.iter().max()].map(|of| *of.expect("there are nodes") as f64);
    Rate {
        rows: measured as f64 / seconds,
        comparisons: work.iter().sum::<u64>() as f64 / seconds,
        balance: least / most,
        most_waiting: run.join.most_buffered(),
    }
}

/// Measures and prints a table.
pub(crate) fn print() {
    let window: u64 = option("--window", 1 << 16);
    let nodes: usize = option("--nodes", 2);
    let rows: usize = option("--rows", 1 << 17);
    println!("Windows of {window} rows, {nodes} nodes, 2 threads.\n");
    println!("| form | rows/s | comparisons/s | work, least / most | most waiting results |");
    println!("| --- | --: | --: | --: | --: |");
    for form in FORMS {
        let Rate { rows, comparisons, balance, most_waiting } = measure(form, window, nodes, rows);
        println!(
            "| {} | {rows:.0} | {:.2} G | {balance:.3} | {most_waiting} |",
            form.0,
            comparisons / 1e9
        );
    }
}
