//! Measures the time from the push of a row until its results have been produced.

use std::collections::VecDeque;
use std::time::Instant;

use hdrhistogram::Histogram;

/// Times are measured in microseconds, with two significant digits.
#[derive(Debug)]
pub(crate) struct Latency {
    histogram: Histogram<u64>,
    /// For each epoch in progress, the push times, the number of rows pushed at each time, and the
    /// total number of rows.
    pending: VecDeque<(Vec<(Instant, u64)>, u64)>,
    /// The total number of rows in these epochs.
    waiting: u64,
    /// The number of rows whose processing has started, including rows whose processing has
    /// finished.
    begun: u64,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, 86_400_000_000, 2)
            .expect("the bounds of the histogram are valid");
        Latency { histogram, pending: VecDeque::new(), waiting: 0, begun: 0 }
    }
}

impl Latency {
    /// Records that processing of an epoch has started. `rows` contains push times and the number
    /// of rows pushed at each time.
    pub(crate) fn begin(&mut self, rows: impl Iterator<Item = (Instant, u64)>) {
        let epoch: Vec<(Instant, u64)> = rows.collect();
        let rows = epoch.iter().map(|(_, rows)| rows).sum::<u64>();
        self.pending.push_back((epoch, rows));
        self.waiting += rows;
        self.begun += rows;
    }

    /// The number of rows whose processing has started, including rows whose processing has
    /// finished.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Restores the state from a snapshot that was taken after this number of rows had been
    /// processed.
    pub(crate) fn restore(&mut self, begun: u64) {
        self.begun = begun;
    }

    /// Records that the results of all rows that were being processed have been produced.
    pub(crate) fn settle(&mut self) {
        self.settle_but(0);
    }

    /// Records that the results of all rows that were being processed, except the last `left` rows,
    /// have been produced. All rows in an epoch are counted together.
    pub(crate) fn settle_but(&mut self, left: u64) {
        while let Some((epoch, rows)) = self.pending.front()
            && self.waiting - rows >= left
        {
            self.waiting -= rows;
            for &(pushed, rows) in epoch {
                let microseconds =
                    pushed.elapsed().as_micros().min(u128::from(self.histogram.high())) as u64;
                let recorded = self.histogram.record_n(microseconds.max(1), rows);
                recorded.expect("it is within the bounds");
            }
            self.pending.pop_front();
        }
    }

    /// Returns the median, the 99th percentile and the maximum in seconds, or `None` if no rows
    /// have been processed.
    pub(crate) fn summary(&self) -> Option<(f64, f64, f64)> {
        let seconds = |microseconds: u64| microseconds as f64 / 1e6;
        let at = |quantile| seconds(self.histogram.value_at_quantile(quantile));
        (!self.histogram.is_empty()).then(|| (at(0.5), at(0.99), seconds(self.histogram.max())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_counts_once_all_of_its_rows_have_their_results() {
        let mut latency = Latency::default();
        let now = Instant::now();
        for rows in [3, 4] {
            latency.begin([(now, 1), (now, rows)].into_iter());
        }
        for (left, counted) in [(9, 0), (6, 0), (5, 4), (1, 4), (0, 9), (0, 9)] {
            latency.settle_but(left);
            assert_eq!(latency.histogram.len(), counted, "{left} rows are left");
        }
        assert_eq!(latency.begun(), 9);
    }
}
