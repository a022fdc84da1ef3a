//! The rows of W5.

use tidegate_structures::gate::{RowId, Run};

/// The number of rows that a source pushes per turn.
pub(crate) const RUN: usize = 8192;

/// The number of rows per turn if rows are pushed one by one.
pub(crate) const TURN: usize = 16;

/// A run of W5. The run's times and values are slices of columns that never move in memory.
pub(crate) struct Slice {
    pub(crate) ts: &'static [i64],
    pub(crate) values: &'static [i64],
}

impl Run for Slice {
    fn ts(&self) -> &[i64] {
        self.ts
    }
}

pub(crate) struct Columns {
    pub(crate) ts: Vec<&'static [i64]>,
    pub(crate) values: Vec<&'static [i64]>,
    pub(crate) rows: usize,
    /// The sum of all values.
    pub(crate) sum: i64,
}

impl Columns {
    /// Creates `k` columns of random times within 1 000 s, with one value for each time.
    pub(crate) fn new(k: usize, rows: usize) -> Self {
        let mut state = 42u64;
        let mut random = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^ mixed >> 27
        };
        let mut column = |sorted: bool| -> &'static [i64] {
            let mut column: Vec<i64> =
                (0..rows / k).map(|_| (random() % 1_000_000_000) as i64).collect();
            if sorted {
                column.sort_unstable();
            }
            column.leak()
        };
        let ts = (0..k).map(|_| column(true)).collect();
        let values: Vec<_> = (0..k).map(|_| column(false)).collect();
        let sum = values
            .iter()
            .flat_map(|values| values.iter())
            .fold(0, |sum: i64, value| sum.wrapping_add(*value));
        Columns { ts, values, rows: rows / k * k, sum }
    }

    /// Returns all rows in merged order.
    pub(crate) fn merged(&self) -> Vec<(i64, RowId)> {
        let column = |(source, ts): (usize, &&'static [i64])| {
            ts.iter()
                .enumerate()
                .map(move |(at, &ts)| (ts, RowId::new(source as u16, at as u64)))
                .collect::<Vec<_>>()
        };
        let mut rows: Vec<_> = self.ts.iter().enumerate().flat_map(column).collect();
        rows.sort_unstable();
        rows
    }

    /// Calls `push(source, ts, value)` for every row. The sources take turns, and each pushes
    /// [`TURN`] rows per turn.
    pub(crate) fn feed(&self, mut push: impl FnMut(usize, i64, i64)) {
        let longest = self.ts[0].len();
        for turn in (0..longest).step_by(TURN) {
            for (source, (ts, values)) in self.ts.iter().zip(&self.values).enumerate() {
                let rows = turn..(turn + TURN).min(longest);
                ts[rows.clone()]
                    .iter()
                    .zip(&values[rows])
                    .for_each(|(&ts, &value)| push(source, ts, value));
            }
        }
    }
}
