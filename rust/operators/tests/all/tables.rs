//! Small and large random tables for the join tests.

use proptest::prelude::*;
use tidegate_operators::order::JoinColumns;
use tidegate_operators::rows::NO_KEY;

/// Times, and optional keys.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) ts: Vec<i64>,
    pub(crate) keys: Option<Vec<u32>>,
}

impl Table {
    /// Returns the columns that a join takes.
    pub(crate) fn side(&self) -> JoinColumns<'_> {
        JoinColumns { ts: &self.ts, keys: self.keys.as_deref() }
    }

    /// Returns the key of a row, or 0 if there are no keys.
    pub(crate) fn key(&self, row: usize) -> u32 {
        self.keys.as_ref().map_or(0, |keys| keys[row])
    }

    /// Returns each key's rows as sorted pairs of time and row number. Keys must be below `keys`.
    pub(crate) fn groups(&self, keys: usize) -> Vec<Vec<(i64, u32)>> {
        let mut groups = vec![Vec::new(); keys];
        for (row, &ts) in self.ts.iter().enumerate() {
            if self.key(row) != NO_KEY {
                groups[self.key(row) as usize].push((ts, row as u32));
            }
        }
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups
    }
}

/// Generates up to 60 rows with few different keys. Some tables are sorted by time.
pub(crate) fn table(
    keys: bool,
    times: impl Strategy<Value = i64> + Clone,
) -> impl Strategy<Value = Table> {
    let key = prop_oneof![9 => 0_u32..4, 1 => Just(NO_KEY)];
    (prop::collection::vec((times, key), 0..60), any::<bool>()).prop_map(
        move |(mut rows, sorted)| {
            if sorted {
                rows.sort_by_key(|row| row.0);
            }
            let (ts, column) = rows.into_iter().unzip();
            Table { ts, keys: keys.then_some(column) }
        },
    )
}

/// Returns many rows. Times increase by 0 to 4 or jump. Keys are either evenly distributed or
/// mostly the same.
pub(crate) fn large(rows: usize, keys: usize, skewed: bool, sorted: bool, seed: u64) -> Table {
    let mut state = seed;
    let mut random = move |below: u64| {
        // The SplitMix64 generator of Steele, Lea and Flood.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    };
    let mut ts = 0;
    let ts = (0..rows).map(|_| {
        if sorted {
            ts += random(5) as i64;
            ts
        } else {
            random(2 * rows as u64) as i64
        }
    });
    let ts = ts.collect();
    let keys = (0..rows).map(|_| match random(10) {
        0 => NO_KEY,
        1..7 if skewed => keys as u32 / 3,
        _ => random(keys as u64) as u32,
    });
    Table { ts, keys: Some(keys.collect()) }
}
