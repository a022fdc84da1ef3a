//! Measures only the indexes, on one thread.

use tidegate_papers::trees::{Archive, ChainedIndex, ImTree, PimTree, RoundRobin};
use tidegate_structures::index::{BPlusTree, BucketIndex, WindowIndex};

use crate::Point;
use crate::workload::{MATCHES, MERGE_RATIO, Values, Windows};

/// The number of rows per window (unless the figure varies it) and the number of measured rows.
const WINDOW: usize = 1 << 16;
const ROWS: usize = 1 << 19;

/// One index per side.
type Pair = [Box<dyn WindowIndex>; 2];

fn pair<I: WindowIndex + 'static>(make: impl Fn() -> I) -> Pair {
    [Box::new(make()), Box::new(make())]
}

/// Returns the indexes that the figures compare, with the same parameters as in `w2_index`.
fn compared() -> [(&'static str, Pair); 4] {
    [
        ("buckets", pair(BucketIndex::new)),
        ("PIM-Tree", pair(|| PimTree::new(MERGE_RATIO, None))),
        ("IM-Tree", pair(|| ImTree::new(1.0 / 8.0))),
        ("B+-tree", pair(BPlusTree::new)),
    ]
}

/// Prints an index's rate, nanoseconds per row and step, and bytes per row.
fn point(figure: &str, series: &str, x: f64, windows: &mut Windows, rows: (usize, usize)) {
    let (window, measured) = rows;
    windows.slide(measured);
    let nanoseconds = windows.took.map(|took| took.as_nanos() as f64 / measured as f64);
    let all: f64 = nanoseconds.iter().sum();
    let bytes: usize = windows.indexes.iter().map(|index| index.memory()).sum();
    let measured = [
        ("M rows/s", 1e3 / all),
        ("insert ns", nanoseconds[0]),
        ("find ns", nanoseconds[1]),
        ("remove ns", nanoseconds[2]),
        ("bytes a row", bytes as f64 / (2 * window) as f64),
    ];
    Point { figure, series, x, measured: &measured }.print();
}

fn uniform(figure: &str, series: &str, x: f64, indexes: Pair) {
    point(
        figure,
        series,
        x,
        &mut Windows::new(indexes, WINDOW, Values::Uniform, MATCHES),
        (WINDOW, ROWS),
    );
}

/// Measures several B+-trees, with rows inserted into each tree in turn.
pub(crate) fn round_robin() {
    for trees in [1, 2, 4, 8, 16] {
        uniform("round-robin", "B+-trees in turns", trees as f64, pair(|| RoundRobin::new(trees)));
    }
}

/// Measures chains of trees, with different lengths.
pub(crate) fn chain() {
    for length in [2, 4, 8, 16] {
        uniform(
            "chain",
            "B-chain",
            length as f64,
            pair(|| ChainedIndex::new(Archive::BPlus, length)),
        );
        uniform(
            "chain",
            "IB-chain",
            length as f64,
            pair(|| ChainedIndex::new(Archive::Immutable, length)),
        );
    }
}

/// Measures the PIM-Tree with insertion depths up to the depth of the tree.
pub(crate) fn depth() {
    for depth in 0..=4 {
        uniform("depth", "PIM-Tree", depth as f64, pair(|| PimTree::new(MERGE_RATIO, Some(depth))));
    }
}

/// Measures merging trees with different merge ratios.
pub(crate) fn merge_ratio() {
    for exponent in -7..=0 {
        let ratio = f64::from(exponent).exp2();
        uniform("merge-ratio", "PIM-Tree", ratio, pair(|| PimTree::new(ratio, None)));
        uniform("merge-ratio", "IM-Tree", ratio, pair(|| ImTree::new(ratio)));
    }
}

/// Measures the cost of each step.
pub(crate) fn steps() {
    for (series, indexes) in compared() {
        uniform("steps", series, 0.0, indexes);
    }
    uniform("steps", "B-chain", 0.0, pair(|| ChainedIndex::new(Archive::BPlus, 2)));
    uniform("steps", "IB-chain", 0.0, pair(|| ChainedIndex::new(Archive::Immutable, 2)));
}

/// Measures the indexes with different numbers of matches per row.
pub(crate) fn matches() {
    for exponent in (-4..=10).step_by(2) {
        let matches = f64::from(exponent).exp2();
        for (series, indexes) in compared() {
            let mut windows = Windows::new(indexes, WINDOW, Values::Uniform, matches);
            point("matches", series, matches, &mut windows, (WINDOW, ROWS / 4));
        }
    }
}

/// Measures the indexes with values whose mean moves by a fraction of the range while the window is
/// renewed.
pub(crate) fn drift() {
    for part in [0.0, 0.0125, 0.025, 0.05, 0.1] {
        for (series, indexes) in compared() {
            let values = if part == 0.0 { Values::Gaussian } else { Values::Drifting(part) };
            let mut windows = Windows::new(indexes, WINDOW, values, MATCHES);
            point("drift", series, part, &mut windows, (WINDOW, ROWS));
        }
    }
}

/// Measures the indexes with different window sizes.
pub(crate) fn window() {
    of_windows(&[12, 14, 16, 18, 20]);
}

/// Measures windows of 2^23 rows.
pub(crate) fn large() {
    of_windows(&[23]);
}

fn of_windows(exponents: &[u32]) {
    for &exponent in exponents {
        let rows = 1_usize << exponent;
        for (series, indexes) in compared() {
            let mut windows = Windows::new(indexes, rows, Values::Uniform, MATCHES);
            point("window", series, rows as f64, &mut windows, (rows, ROWS.max(rows / 2)));
        }
    }
}
