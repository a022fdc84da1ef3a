//! A table whose rows have been prepared for many joins as their right side.
//!
//! The rows are grouped by key and sorted by time once. A join then looks up the keys of its left
//! rows, and searches for their positions, so its work does not depend on the number of right rows.

use std::sync::Arc;

use tidegate_operators::driver::Driver;
use tidegate_operators::order::{JoinColumns, SideIndex};
use tidegate_structures::memory::pages::Pages;

use crate::columns::keys::{KeyColumn, KeyLookup};
use crate::columns::table::{Table, column};
use crate::columns::time::{self, Unit};
use crate::{Error, Result, shown};

/// The rows of a table, grouped by key and sorted by time.
#[derive(Debug)]
pub(crate) struct TableIndex {
    on: usize,
    unit: Unit,
    keys: Option<KeyLookup>,
    pub(crate) rows: SideIndex,
}

impl Table {
    /// Returns the table with an index of its rows, by time and by keys.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use arrow_array::{Int64Array, RecordBatch};
    /// use tidegate::{Driver, Stop, Table};
    ///
    /// let column = Arc::new(Int64Array::from(vec![20, 10])) as _;
    /// let rows = RecordBatch::try_from_iter([("ts", column)])?;
    /// let driver = Driver::new(1, Stop::default());
    /// let table = Table::new("rows".to_owned(), rows.schema(), vec![rows], &driver)?;
    /// assert_eq!(table.with_index("ts", &[], &driver)?.index_bytes(), Some(32));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_index(self, on: &str, by: &[String], driver: &Driver) -> Result<Table> {
        let schema = self.schema();
        let at = column(self.name(), schema, on, "on")?;
        let unit = Unit::of(self.name(), schema.field(at))?;
        let ts = time::times(&self, at, unit)?;
        let by = by.iter().map(|name| column(self.name(), schema, name, "by"));
        let by = by.collect::<Result<Vec<_>>>()?;
        let (keys, rows) = if by.is_empty() {
            (None, SideIndex::new(JoinColumns { ts: &ts, keys: None }, 1, driver)?)
        } else {
            let (keys, numbers) = KeyLookup::new(&self, &by, driver)?;
            let side = JoinColumns { ts: &ts, keys: Some(&numbers) };
            let rows = SideIndex::new(side, keys.count(), driver)?;
            (Some(keys), rows)
        };
        let index = TableIndex { on: at, unit, keys, rows };
        Ok(self.with_prepared(Some(Arc::new(index))))
    }

    /// Returns the index of the rows, if there is one.
    pub(crate) fn index(&self) -> Option<&TableIndex> {
        self.prepared()?.downcast_ref()
    }

    /// Returns the number of bytes in the table's index, if it has one.
    pub fn index_bytes(&self) -> Option<usize> {
        Some(self.index()?.rows.bytes())
    }
}

/// An index that fits a join, with the left rows' keys.
pub(crate) struct IndexFit<'a> {
    pub(crate) rows: &'a SideIndex,
    pub(crate) left_keys: Option<Pages<u32>>,
    /// The number of units of the join's times per unit of the index.
    pub(crate) factor: i64,
}

impl TableIndex {
    /// Looks up the keys of the left table for a join on the right column `on`, whose times are
    /// compared in `unit`.
    pub(crate) fn fit(
        &self,
        (left, right): (&Table, &Table),
        (on, unit): (usize, Unit),
        keys: &[KeyColumn],
        driver: &Driver,
    ) -> Result<IndexFit<'_>> {
        let is_keyed = match &self.keys {
            None => keys.is_empty(),
            Some(own) => own.fits(keys),
        };
        if on != self.on || !is_keyed {
            return Err(self.misfit(right, on, keys));
        }
        let left_keys = match &self.keys {
            None => None,
            Some(own) => Some(own.left_numbers(left, keys, driver)?),
        };
        let factor = match (self.unit, unit) {
            (Unit::Nanoseconds(coarse), Unit::Nanoseconds(fine)) => coarse / fine,
            _ => 1,
        };
        Ok(IndexFit { rows: &self.rows, left_keys, factor })
    }

    /// Returns the error for a join that the index does not fit.
    fn misfit(&self, right: &Table, on: usize, keys: &[KeyColumn]) -> Error {
        let name = |at: usize| format!("`{}`", shown(right.schema().field(at).name()));
        let list = |columns: Vec<usize>| match &columns[..] {
            [] => "no keys".to_owned(),
            columns => columns.iter().map(|&at| name(at)).collect::<Vec<_>>().join(", "),
        };
        let own: Vec<usize> = self.keys.iter().flat_map(KeyLookup::columns).collect();
        let asked: Vec<usize> = keys.iter().map(|key| key.right).collect();
        if on == self.on && own == asked {
            return Error::schema(format!(
                "right: the index compares {} in their own types, but the left keys have others; \
                 cast the left keys to the types of the index",
                list(own)
            ));
        }
        Error::schema(format!(
            "right: the index is on {} by {}, but the join is on {} by {}; join on the columns of \
             the index, or make an index on the columns of the join",
            name(self.on),
            list(own),
            name(on),
            list(asked)
        ))
    }
}
