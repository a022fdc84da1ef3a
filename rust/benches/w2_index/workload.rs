//! The rows of W2, and the windows that slide over them.

use std::fmt;
use std::time::{Duration, Instant};

use tidegate_structures::index::{Entry, Probe, WindowIndex};

/// The maximum number of rows, counting both sides, that are inserted together and then looked up
/// together.
const BATCH: usize = 1024;

/// The fraction of a window at which the PIM-Tree is merged.
pub(crate) const MERGE_RATIO: f64 = 0.25;

/// The average number of matches per row.
pub(crate) const MATCHES: f64 = 2.0;

/// The distribution of values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// Uniform over 32 bits.
    Uniform,
    /// Normally distributed, with a standard deviation of an eighth of the range.
    Gaussian,
    /// Gaussian with a moving mean. Each time the window is renewed, the mean moves by this
    /// fraction of the range. A tenth is the fastest drift in the paper's Figure 13.
    Drifting(f64),
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Values::Uniform => "uniform",
            Values::Gaussian => "gaussian",
            Values::Drifting(_) => "drifting",
        })
    }
}

const RANGE: f64 = (1_u64 << 32) as f64;

/// An xorshift generator, as in the tests.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number between 0 and 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a normally distributed number, using the Box-Muller method.
    fn gaussian(&mut self) -> f64 {
        (-2.0 * (1.0 - self.part()).ln()).sqrt() * (std::f64::consts::TAU * self.part()).cos()
    }
}

/// The windows of both sides.
pub(crate) struct Windows {
    pub(crate) indexes: [Box<dyn WindowIndex>; 2],
    /// The keys of each window's rows, as a ring buffer, and the number of rows that have arrived.
    keys: [Vec<i64>; 2],
    came: usize,
    /// Half the width of the band.
    within: i64,
    values: Values,
    /// The values through which the windows cycle. The values are generated in advance, so that
    /// generating them is not measured.
    made: Vec<f64>,
    found: Vec<u32>,
    ends: Vec<u32>,
    /// The time spent on inserting, finding and removing rows.
    pub(crate) took: [Duration; 3],
}

impl Windows {
    /// Creates full windows with `rows` rows each. On average, a row has `matches` matches.
    pub(crate) fn new(
        indexes: [Box<dyn WindowIndex>; 2],
        rows: usize,
        values: Values,
        matches: f64,
    ) -> Self {
        // Uniform values are `range / rows` apart. The average density of Gaussian values, weighted
        // by the density itself, is 1 / (2 sqrt(pi) sigma).
        let density = match values {
            Values::Uniform => 1.0 / RANGE,
            Values::Gaussian | Values::Drifting(_) => {
                1.0 / (2.0 * std::f64::consts::PI.sqrt() * RANGE / 8.0)
            }
        };
        let mut random = Random(42);
        let made = (0..4 * rows + 1)
            .map(|_| match values {
                Values::Uniform => random.part() * RANGE,
                Values::Gaussian | Values::Drifting(_) => (0.5 + random.gaussian() / 8.0) * RANGE,
            })
            .collect();
        let mut windows = Windows {
            indexes,
            keys: [vec![0; rows], vec![0; rows]],
            came: 0,
            within: (matches / (2.0 * density * rows as f64)) as i64,
            values,
            made,
            found: Vec::new(),
            ends: Vec::new(),
            took: Default::default(),
        };
        // Large windows are only filled, because sliding them further would take too long.
        windows.slide(if rows > 1 << 20 { 9 * rows / 4 } else { 5 * rows });
        windows.took = Default::default();
        windows
    }

    fn rows(&self) -> usize {
        self.keys[0].len()
    }

    fn key(&mut self, nth: usize) -> i64 {
        let value = self.made[nth % self.made.len()];
        let shift = match self.values {
            Values::Drifting(part) => RANGE * part / 2.0 * (nth as f64 / self.rows() as f64),
            _ => 0.0,
        };
        (value + shift) as i64
    }

    /// Slides the windows by `rows` rows in total from both sides. Returns the number of matches.
    pub(crate) fn slide(&mut self, rows: usize) -> usize {
        let mut matches = 0;
        let mut left = rows / 2;
        while left > 0 {
            let batch = left.min(BATCH / 2);
            matches += self.batch(batch);
            left -= batch;
        }
        matches
    }

    /// Slides the windows by `rows` rows per side. Each row of R precedes the row of S that has the
    /// same number.
    fn batch(&mut self, rows: usize) -> usize {
        let (window, first) = (self.rows(), self.came);
        let mut entries = [[Entry::default(); BATCH / 2]; 2];
        let mut probes = [[Probe { low: 0, high: 0, from: 0, to: 0 }; BATCH / 2]; 2];
        for nth in 0..rows {
            for side in 0..2 {
                let row = first + nth;
                let key = self.key(2 * row + side);
                entries[side][nth] = Entry { key, row: row as u32 };
                // A row of S has seen one row on the other side more than the row of R before it.
                let to = row + side;
                let from = to.saturating_sub(window);
                let (low, high) = (key - self.within, key + self.within);
                probes[side][nth] = Probe { low, high, from: from as u32, to: to as u32 };
            }
        }
        let start = Instant::now();
        for (index, entries) in self.indexes.iter_mut().zip(&entries) {
            index.insert_all(&entries[..rows]);
        }
        let inserted = Instant::now();
        self.found.clear();
        self.ends.clear();
        for (index, probes) in self.indexes.iter().rev().zip(&probes) {
            index.find_all(&probes[..rows], &mut self.found, &mut self.ends);
        }
        let found = Instant::now();
        for ((index, ring), entries) in self.indexes.iter_mut().zip(&mut self.keys).zip(&entries) {
            let mut gone = [Entry::default(); BATCH / 2];
            let mut leave = 0;
            for entry in &entries[..rows] {
                let row = entry.row as usize;
                let oldest = std::mem::replace(&mut ring[row % window], entry.key);
                if row >= window {
                    gone[leave] = Entry { key: oldest, row: (row - window) as u32 };
                    leave += 1;
                }
            }
            index.remove_all(&gone[..leave]);
        }
        self.came += rows;
        self.took[0] += inserted - start;
        self.took[1] += found - inserted;
        self.took[2] += found.elapsed();
        self.found.len()
    }
}
