//! Right columns row by row, for a result whose right rows lie far apart: each then costs one cache line, not one a column.

use std::sync::Arc;

use tidegate_operators::driver::{Driver, Stopped};
use tidegate_structures::gather::Store;
use tidegate_structures::pages::Pages;
use tidegate_structures::records::{COLUMNS, Record, gather, interleave};

use super::column::Column;

/// Rows of a task.
const PART_ROWS: usize = 1 << 15;

/// What records may take for each row of both sides: a join is to take at most 40 bytes beside its inputs and its result,
/// and has the pairs in some of them.
const ROW_BYTES: usize = 24;

/// Some columns of a result, row by row.
#[derive(Debug)]
pub(crate) struct Records {
    /// The places of the columns in the result.
    columns: Vec<usize>,
    values: Pages<Record>,
}

impl Records {
    /// Lays out `columns`, which are given with their places in the result, as far as all rows of both sides afford.
    pub(crate) fn lay_out(
        mut columns: Vec<(usize, Arc<Column>)>,
        (left_rows, right_rows): (usize, usize),
        driver: &Driver,
    ) -> Result<Vec<Self>, Stopped> {
        let affordable = (left_rows + right_rows) * ROW_BYTES / (right_rows * size_of::<Record>()).max(1);
        columns.truncate(affordable * COLUMNS);
        // A column by itself is no worse off where it lies.
        let groups = columns.chunks(COLUMNS).filter(|group| group.len() > 1);
        groups.map(|group| Self::new(group, right_rows, driver)).collect()
    }

    fn new(columns: &[(usize, Arc<Column>)], rows: usize, driver: &Driver) -> Result<Self, Stopped> {
        let mut values = Pages::new(rows);
        let parts = values.chunks_mut(PART_ROWS).zip((0..).step_by(PART_ROWS)).collect();
        driver.map(parts, |(records, start): (&mut [Record], usize)| {
            let longs: Vec<_> = columns.iter().map(|(_, column)| column.longs(start..start + records.len())).collect();
            interleave(&longs.iter().map(|longs| &longs[..]).collect::<Vec<_>>(), records);
        })?;
        Ok(Records { columns: columns.iter().map(|(place, _)| *place).collect(), values })
    }

    /// Writes the rows to those of `out` that are of these columns, and takes them out of there. Rows that are not there,
    /// which only those of `optional` columns may be, are zeros.
    pub(crate) fn gather(&self, rows: &[u32], optional: bool, out: &mut [&mut [u8]], store: Store) {
        let mut out: Vec<&mut [u64]> =
            self.columns.iter().map(|&column| bytemuck::cast_slice_mut(std::mem::take(&mut out[column]))).collect();
        if !optional {
            return gather(&self.values, rows, &mut out, store);
        }
        for (at, &row) in rows.iter().enumerate() {
            let record = self.values.get(row as usize).copied().unwrap_or_default();
            out.iter_mut().zip(record).for_each(|(column, value)| column[at] = value);
        }
    }
}
