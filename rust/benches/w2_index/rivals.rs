//! Ordered sets from other crates, used in place of an index.

use std::collections::BTreeSet;

use crossbeam_skiplist::SkipSet;
use tidegate_structures::index::{Probe, WindowIndex};

/// The standard library's B-tree.
#[derive(Default)]
pub(crate) struct StdSet(BTreeSet<(i64, u32)>);

impl WindowIndex for StdSet {
    fn insert(&mut self, key: i64, row: u32) {
        self.0.insert((key, row));
    }

    fn remove(&mut self, key: i64, row: u32) {
        self.0.remove(&(key, row));
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        let rows = self.0.range((probe.low, 0)..=(probe.high, u32::MAX)).map(|&(_, row)| row);
        found.extend(rows.filter(|&row| probe.takes(row)));
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn memory(&self) -> usize {
        0
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// A concurrent skip list with epoch-based reclamation.
#[derive(Default)]
pub(crate) struct SkipList(SkipSet<(i64, u32)>);

impl WindowIndex for SkipList {
    fn insert(&mut self, key: i64, row: u32) {
        self.0.insert((key, row));
    }

    fn remove(&mut self, key: i64, row: u32) {
        self.0.remove(&(key, row));
    }

    fn find(&self, probe: &Probe, found: &mut Vec<u32>) {
        let rows =
            self.0.range((probe.low, 0)..=(probe.high, u32::MAX)).map(|entry| entry.value().1);
        found.extend(rows.filter(|&row| probe.takes(row)));
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn memory(&self) -> usize {
        0
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
