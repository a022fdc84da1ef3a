//! The times and keys of two tables, and the rows that satisfy a condition.

use std::ops::Range;

use tidegate_operators::driver::Driver;
use tidegate_operators::matches::BitSet;
use tidegate_operators::order::JoinColumns;
use tidegate_operators::rows::NO_KEY;
use tidegate_structures::memory::pages::Pages;

use crate::Result;
use crate::aggregate::streams::mask;
use crate::columns::expression::{Origin, Predicate};
use crate::columns::keys::Keys;
use crate::columns::table::Table;
use crate::columns::time::Int64s;
use crate::query::options::JoinPlan;

/// Returns the two tables' keys, given the number of rows in each table. If there are no key
/// columns, all rows get the same key.
pub(super) fn some_keys(
    keys: &mut Option<Keys>,
    (left_rows, right_rows): (usize, usize),
) -> &mut Keys {
    keys.get_or_insert_with(|| Keys {
        left: Pages::filled(left_rows, 0),
        right: Pages::filled(right_rows, 0),
        count: 1,
        smallest: None,
        method: "none",
    })
}

/// If each part of a condition reads only one table, returns the rows in each table that satisfy
/// the condition. The condition is then removed from the plan.
pub(super) fn take_one_sided(
    plan: &mut JoinPlan,
    (left, right): (&Table, &Table),
    driver: &Driver,
) -> Result<Option<[Option<BitSet>; 2]>> {
    let by_side = match &plan.predicate {
        None => Some([None, None]),
        Some(predicate) => predicate.by_side(),
    };
    let Some([of_left, of_right]) = by_side else { return Ok(None) };
    plan.predicate = None;
    let rows = |table: &Table, predicate: Option<Predicate>, side| {
        let every: Vec<usize> = (0..table.schema().fields().len()).collect();
        predicate.map(|predicate| mask(table, &every, &predicate, side, driver)).transpose()
    };
    Ok(Some([rows(left, of_left, Origin::Left)?, rows(right, of_right, Origin::Right)?]))
}

/// The columns of one table whose rows match other rows of the same table.
#[derive(Debug)]
pub(super) struct OneTable {
    /// The times, or other numbers by which the rows of a key are sorted.
    pub(super) ts: Int64s,
    pub(super) keys: Option<Pages<u32>>,
    pub(super) key_count: usize,
    /// The rows that have results.
    pub(super) left: Range<usize>,
}

impl OneTable {
    /// Returns the columns of the rows that have results, and those of all rows.
    pub(super) fn columns(&self) -> (JoinColumns<'_>, JoinColumns<'_>) {
        let of = |rows: Range<usize>| JoinColumns {
            ts: &self.ts[rows.clone()],
            keys: self.keys.as_ref().map(|keys| &keys[rows]),
        };
        (of(self.left.clone()), of(0..self.ts.len()))
    }
}

/// The columns of two tables that determine which rows match.
#[derive(Debug)]
pub(super) struct TableSides {
    pub(super) left: Int64s,
    pub(super) right: Int64s,
    pub(super) keys: Option<Keys>,
}

impl TableSides {
    /// Returns each side's columns.
    pub(super) fn columns(&self) -> (JoinColumns<'_>, JoinColumns<'_>) {
        let keys = self.keys.as_ref();
        (
            JoinColumns { ts: &self.left, keys: keys.map(|keys| &*keys.left) },
            JoinColumns { ts: &self.right, keys: keys.map(|keys| &*keys.right) },
        )
    }

    /// Removes the keys of rows that are not kept on their side, so that these rows match nothing.
    pub(super) fn keep(&mut self, kept: &[Option<BitSet>; 2]) {
        let rows = (self.left.len(), self.right.len());
        for (side, kept) in kept.iter().enumerate() {
            let Some(kept) = kept else { continue };
            let keys = some_keys(&mut self.keys, rows);
            let keys = if side == 0 { &mut keys.left } else { &mut keys.right };
            kept.missing().for_each(|row| keys[row] = NO_KEY);
        }
    }

    /// Removes the keys of left rows that are not in `kept`, so these rows match nothing.
    pub(super) fn keep_left(&mut self, kept: &BitSet) {
        let keys = some_keys(&mut self.keys, (self.left.len(), self.right.len()));
        kept.missing().for_each(|row| keys.left[row] = NO_KEY);
    }

    pub(super) fn key_count(&self) -> usize {
        self.keys.as_ref().map_or(1, |keys| keys.count)
    }

    /// The method by which keys were numbered.
    pub(super) fn key_method(&self) -> &'static str {
        self.keys.as_ref().map_or("none", |keys| keys.method)
    }
}
