//! Looks up rows in a node's window by value. A hash table is used for equalities, and an ordered
//! index for bands.
//!
//! Rows are appended at the end and removed from the front. Each row has a name: the number of rows
//! that were added before it. The name does not change when earlier rows are dropped.

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::RandomState;
use tidegate_structures::index::{BucketIndex, Entry, Probe, WindowIndex};

use super::predicate::SearchStructure;

/// Represents no row.
const NONE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Index {
    /// The name of the row at position 0 in the window.
    base: u64,
    /// The name of the oldest row that has not been removed.
    first: u64,
    /// The name of the next row.
    next: u64,
    rows: IndexRows,
}

#[derive(Debug)]
enum IndexRows {
    Hash {
        /// The last row with each value.
        last: HashMap<i64, u64, RandomState>,
        /// For the row at each position, the previous row with the same value. The previous row may
        /// have been removed.
        before: Vec<u64>,
    },
    /// An ordered index, in which rows are numbered by name, modulo 2^32.
    Ordered(Box<BucketIndex>),
}

impl Index {
    /// Creates an index for a window whose first `gone` rows have been removed. A hash table must
    /// be built before any row is removed.
    pub(super) fn new(kind: SearchStructure, gone: usize) -> Self {
        debug_assert!(
            kind == SearchStructure::Ordered || gone == 0,
            "a hash table has a value for each place"
        );
        let rows = match kind {
            SearchStructure::Hash => {
                IndexRows::Hash { last: HashMap::default(), before: Vec::new() }
            }
            SearchStructure::Ordered => IndexRows::Ordered(Box::default()),
        };
        Index { base: 0, first: gone as u64, next: gone as u64, rows }
    }

    /// Returns the number of bytes known to be in use.
    pub(super) fn memory(&self) -> usize {
        match &self.rows {
            IndexRows::Hash { last, before } => last.capacity() * 17 + before.capacity() * 8,
            IndexRows::Ordered(rows) => rows.memory(),
        }
    }

    /// Adds rows with these values.
    pub(super) fn insert(&mut self, values: &[i64]) {
        match &mut self.rows {
            IndexRows::Hash { last, before } => {
                let rows = values.iter().zip(self.next..);
                before.extend(rows.map(|(&value, name)| last.insert(value, name).unwrap_or(NONE)));
            }
            IndexRows::Ordered(rows) => rows.insert_all(&entries(values, self.next)),
        }
        self.next += values.len() as u64;
    }

    /// Removes the oldest rows, whose values are given.
    pub(super) fn drop_first(&mut self, values: &[i64]) {
        match &mut self.rows {
            IndexRows::Hash { last, .. } => {
                for (value, name) in values.iter().zip(self.first..) {
                    // If a newer row has the same value, the link to this row remains, but searches
                    // stop before reaching it.
                    if last.get(value) == Some(&name) {
                        last.remove(value);
                    }
                }
            }
            IndexRows::Ordered(rows) => rows.remove_all(&entries(values, self.first)),
        }
        self.first += values.len() as u64;
    }

    /// Drops the first `places` positions of the window. The remaining positions are counted from 0
    /// again.
    pub(super) fn forget(&mut self, places: usize) {
        self.base += places as u64;
        debug_assert!(self.base <= self.first, "only removed rows are dropped");
        if let IndexRows::Hash { last, before } = &mut self.rows {
            before.drain(..places);
            before.shrink_to(2 * before.len());
            last.shrink_to(2 * last.len());
        }
    }

    /// Calls `each` for every row in `places` that has a value within one of the reaches. The
    /// arguments are the number of the reach and the row's position.
    pub(super) fn find(
        &self,
        reaches: impl Iterator<Item = Option<(i64, i64)>>,
        places: Range<usize>,
        mut each: impl FnMut(u32, u32),
    ) {
        let (from, upto) = (self.base + places.start as u64, self.base + places.end as u64);
        match &self.rows {
            IndexRows::Hash { last, before } => {
                for (nth, reach) in reaches.enumerate() {
                    let Some((value, greatest)) = reach else { continue };
                    debug_assert_eq!(value, greatest, "a hash table looks up one value");
                    let mut name = last.get(&value).copied().unwrap_or(NONE);
                    while name != NONE && name >= from {
                        if name < upto {
                            each(nth as u32, (name - self.base) as u32);
                        }
                        name = before[(name - self.base) as usize];
                    }
                }
            }
            IndexRows::Ordered(rows) => {
                let probe = |reach: Option<(i64, i64)>| {
                    let (low, high) = reach.unwrap_or((0, -1));
                    Probe { low, high, from: from as u32, to: upto as u32 }
                };
                let probes: Vec<Probe> = reaches.map(probe).collect();
                let (mut found, mut ends) = (Vec::new(), Vec::with_capacity(probes.len()));
                rows.find_all(&probes, &mut found, &mut ends);
                let mut start = 0;
                for (nth, end) in (0..).zip(ends) {
                    for name in &found[start..end as usize] {
                        each(nth, name.wrapping_sub(self.base as u32));
                    }
                    start = end as usize;
                }
            }
        }
    }
}

/// Returns entries with these values. The first entry's name is `first`.
fn entries(values: &[i64], first: u64) -> Vec<Entry> {
    values.iter().zip(first..).map(|(&key, name)| Entry { key, row: name as u32 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_find_the_rows_that_are_left() {
        let values: Vec<i64> = (0..100).map(|n| n * 7 % 10).collect();
        for kind in [SearchStructure::Hash, SearchStructure::Ordered] {
            let mut index = Index::new(kind, 0);
            index.insert(&values[..60]);
            index.drop_first(&values[..30]);
            index.forget(20);
            index.insert(&values[60..]);
            for value in -1..11 {
                for places in [10..80, 20..50, 79..80, 15..15] {
                    let mut found = Vec::new();
                    index.find([Some((value, value))].into_iter(), places.clone(), |_, place| {
                        found.push(place as usize)
                    });
                    found.sort_unstable();
                    let expected: Vec<_> =
                        places.filter(|place| values[20 + place] == value).collect();
                    assert_eq!(found, expected, "{kind:?} {value}");
                }
            }
            index.drop_first(&values[30..]);
            index.forget(80);
            index.find([Some((3, 3))].into_iter(), 0..0, |_, _| panic!("no rows are left"));
        }
    }

    #[test]
    fn an_ordered_index_finds_what_lies_between() {
        let mut index = Index::new(SearchStructure::Ordered, 0);
        index.insert(&[i64::MAX, 5, i64::MIN, -5, 0]);
        let reaches = [Some((-5, 5)), None, Some((i64::MIN, i64::MAX)), Some((1, -1))];
        let mut found = Vec::new();
        index.find(reaches.into_iter(), 0..5, |nth, place| found.push((nth, place)));
        found.sort_unstable();
        assert_eq!(found, [(0, 1), (0, 3), (0, 4), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]);
    }
}
