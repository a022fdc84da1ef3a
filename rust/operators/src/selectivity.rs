//! The selectivity of a condition on a column, by a sample.

/// Rows of a side in a sample: a column that is better by a few percent may be missed.
const SAMPLE: usize = 1 << 11;

/// The rows of a side that are in its sample, evenly spread.
pub(crate) fn sample(rows: usize) -> std::iter::StepBy<std::ops::Range<usize>> {
    (0..rows).step_by(rows.div_ceil(SAMPLE).max(1))
}

/// How many of `right` are in the range of each left row, in all. An empty range has its least
/// value above its greatest.
pub(crate) fn pairs(left: impl Iterator<Item = (i64, i64)>, mut right: Vec<i64>) -> usize {
    right.sort_unstable();
    let within = |(low, high): (i64, i64)| {
        let upto = right.partition_point(|&value| value <= high);
        upto.saturating_sub(right.partition_point(|&value| value < low))
    };
    left.map(within).sum()
}
