//! Estimates the selectivity of a condition on a column, using a sample.

/// The number of rows per side in a sample. If columns differ by only a few percent, the sample may
/// not identify the better one.
const SAMPLE: usize = 1 << 11;

/// Returns a sample of evenly spaced rows from a side.
pub(crate) fn sample(rows: usize) -> std::iter::StepBy<std::ops::Range<usize>> {
    (0..rows).step_by(rows.div_ceil(SAMPLE).max(1))
}

/// Returns the number of values in `right` that are within a left row's range, summed over all left
/// rows. A range is empty if its smallest value exceeds its largest value.
pub(crate) fn pairs(left: impl Iterator<Item = (i64, i64)>, mut right: Vec<i64>) -> usize {
    right.sort_unstable();
    let within = |(low, high): (i64, i64)| {
        let upto = right.partition_point(|&value| value <= high);
        upto.saturating_sub(right.partition_point(|&value| value < low))
    };
    left.map(within).sum()
}
