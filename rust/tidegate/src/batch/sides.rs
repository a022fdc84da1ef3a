//! The times and keys of two tables.

use tidegate_operators::matches::BitSet;
use tidegate_operators::order::JoinColumns;
use tidegate_operators::rows::NO_KEY;
use tidegate_structures::memory::pages::Pages;

use crate::columns::keys::Keys;
use crate::columns::time::Int64s;

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
        let keys = self.keys.get_or_insert_with(|| Keys {
            left: Pages::filled(self.left.len(), 0),
            right: Pages::filled(self.right.len(), 0),
            count: 1,
            smallest: None,
            method: "none",
        });
        kept.missing().for_each(|row| keys.left[row] = NO_KEY);
    }

    pub(super) fn key_count(&self) -> usize {
        self.keys.as_ref().map_or(1, |keys| keys.count)
    }

    /// How keys were numbered.
    pub(super) fn key_method(&self) -> &'static str {
        self.keys.as_ref().map_or("none", |keys| keys.method)
    }
}
