//! The time from a row's push until its results are made.

use std::time::Instant;

use hdrhistogram::Histogram;

/// Microseconds, to two digits.
#[derive(Debug)]
pub(crate) struct Latency {
    histogram: Histogram<u64>,
    /// The rows at work: when they were pushed, and how many.
    pending: Vec<(Instant, u64)>,
    /// The rows that are or were at work.
    begun: u64,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, 86_400_000_000, 2).expect("a day in microseconds");
        Latency { histogram, pending: Vec::new(), begun: 0 }
    }
}

impl Latency {
    /// Rows are at work: when some were pushed, and how many.
    pub(crate) fn begin(&mut self, rows: impl Iterator<Item = (Instant, u64)>) {
        let first = self.pending.len();
        self.pending.extend(rows);
        self.begun += self.pending[first..].iter().map(|(_, rows)| rows).sum::<u64>();
    }

    /// The rows that are or were at work.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Goes on from a snapshot, before which so many rows were at work.
    pub(crate) fn restore(&mut self, begun: u64) {
        self.begun = begun;
    }

    /// The results of the rows at work have been made.
    pub(crate) fn settle(&mut self) {
        for (pushed, rows) in self.pending.drain(..) {
            let microseconds =
                pushed.elapsed().as_micros().min(u128::from(self.histogram.high())) as u64;
            self.histogram.record_n(microseconds.max(1), rows).expect("it is within the bounds");
        }
    }

    /// Median, 99th percentile and maximum in seconds; none before the first row.
    pub(crate) fn summary(&self) -> Option<(f64, f64, f64)> {
        let seconds = |microseconds: u64| microseconds as f64 / 1e6;
        let at = |quantile| seconds(self.histogram.value_at_quantile(quantile));
        (!self.histogram.is_empty()).then(|| (at(0.5), at(0.99), seconds(self.histogram.max())))
    }
}
