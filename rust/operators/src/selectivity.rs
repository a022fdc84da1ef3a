//! Estimates the selectivity of a condition on a column from a sample.

/// The number of rows per side in a sample. If columns differ by only a few percent, the sample may
/// not identify the better one.
const SAMPLE: usize = 1 << 11;

/// Returns the rows of a side that are in its sample, evenly distributed.
pub(crate) fn sample(rows: usize) -> std::iter::StepBy<std::ops::Range<usize>> {
    (0..rows).step_by(rows.div_ceil(SAMPLE).max(1))
}

/// Returns the total number of rows in `right` that are in the ranges of the left rows. A range is
/// empty if its smallest value is above its greatest.
pub(crate) fn pairs(left: impl Iterator<Item = (i64, i64)>, mut right: Vec<i64>) -> usize {
    right.sort_unstable();
    let within = |(low, high): (i64, i64)| {
        let upto = right.partition_point(|&value| value <= high);
        upto.saturating_sub(right.partition_point(|&value| value < low))
    };
    left.map(within).sum()
}
