//! The times and keys of two tables.

use tidegate_operators::matches::BitSet;
use tidegate_operators::order::JoinColumns;
use tidegate_operators::rows::NO_KEY;
use tidegate_structures::memory::pages::Pages;

use crate::columns::keys::Keys;
use crate::columns::time::Int64s;

/// Takes the keys from the rows `without` of the left and of the right table, so that they match
/// nothing. Where there are no keys, all other rows get one.
pub(super) fn keys_of_some(
    keys: &mut Option<Keys>,
    (left_rows, right_rows): (usize, usize),
    without: [&[u32]; 2],
) {
    if without.iter().all(|rows| rows.is_empty()) {
        return;
    }
    let keys = keys.get_or_insert_with(|| Keys {
        left: Pages::filled(left_rows, 0),
        right: Pages::filled(right_rows, 0),
        count: 1,
        smallest: None,
        method: "none",
    });
    for (keys, rows) in [&mut keys.left, &mut keys.right].into_iter().zip(without) {
        rows.iter().for_each(|&row| keys[row as usize] = NO_KEY);
    }
}

/// The columns of two tables that decide who matches whom.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) left: Int64s,
    pub(super) right: Int64s,
    pub(super) keys: Option<Keys>,
}

impl Sides {
    /// The columns of the left and of the right side.
    pub(super) fn columns(&self) -> (JoinColumns<'_>, JoinColumns<'_>) {
        let keys = self.keys.as_ref();
        (
            JoinColumns { ts: &self.left, keys: keys.map(|keys| &*keys.left) },
            JoinColumns { ts: &self.right, keys: keys.map(|keys| &*keys.right) },
        )
    }

    /// Takes the keys from the left rows that are not in `kept`, so that they match nothing.
    pub(super) fn keep_left(&mut self, kept: &BitSet) {
        let rows = (self.left.len(), self.right.len());
        let without: Vec<u32> = kept.missing().map(|row| row as u32).collect();
        keys_of_some(&mut self.keys, rows, [&without, &[]]);
    }

    pub(super) fn key_count(&self) -> usize {
        self.keys.as_ref().map_or(1, |keys| keys.count)
    }

    /// How keys were numbered.
    pub(super) fn key_method(&self) -> &'static str {
        self.keys.as_ref().map_or("none", |keys| keys.method)
    }
}
