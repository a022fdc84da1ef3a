//! Columns that are stored row by row, for results whose rows are scattered. Reading a row then
//! touches one cache line instead of one per column.

use std::sync::Arc;

use tidegate_operators::driver::{Driver, Stopped};
use tidegate_structures::memory::gather::Store;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::records::{COLUMNS, Out, Record, RecordLog, gather, interleave};

use super::column::Column;

/// The number of rows per task.
const PART_ROWS: usize = 1 << 15;

/// The maximum size of records in a table join, in bytes per row on either side. A table join
/// should use at most 40 bytes per row in addition to its inputs and its result. Some of these
/// bytes are needed for the pairs.
const ROW_BYTES: usize = 24;

/// Several columns that are stored row by row.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    /// Two columns.
    Two(Arc<RecordLog<[u64; 2]>>),
    /// Three or four columns.
    Four(Arc<RecordLog<[u64; 4]>>),
}

impl Rows {
    /// Creates an empty log with this number of columns.
    pub(crate) fn new(columns: usize) -> Self {
        debug_assert!(
            (2..=COLUMNS).contains(&columns),
            "a single column gains nothing from being stored row by row"
        );
        if columns == 2 { Rows::Two(Arc::default()) } else { Rows::Four(Arc::default()) }
    }

    /// Returns the size in bytes of a row with this number of columns.
    pub(crate) fn row_bytes(columns: usize) -> usize {
        columns.next_power_of_two() * size_of::<u64>()
    }

    /// Appends the values of columns, which all have the same length.
    fn of_columns(
        columns: &[(usize, Arc<Column>)],
        rows: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        Ok(match columns.len() {
            2 => Rows::Two(Arc::new(lay_out(columns, rows, driver)?.into())),
            _ => Rows::Four(Arc::new(lay_out(columns, rows, driver)?.into())),
        })
    }

    /// Adds rows. The caller ensures that no rows are being gathered at the same time.
    pub(crate) fn push(&mut self, columns: &[&[u64]]) {
        match self {
            Rows::Two(log) => owned(log).push(columns),
            Rows::Four(log) => owned(log).push(columns),
        }
    }

    /// Returns the number of bytes held.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Rows::Two(log) => log.memory(),
            Rows::Four(log) => log.memory(),
        }
    }

    /// Drops the oldest rows. The caller ensures that no rows are being gathered at the same time.
    pub(crate) fn drop_front(&mut self, rows: usize) {
        match self {
            Rows::Two(log) => owned(log).drop_front(rows),
            Rows::Four(log) => owned(log).drop_front(rows),
        }
    }
}

fn owned<R: Record>(log: &mut Arc<RecordLog<R>>) -> &mut RecordLog<R> {
    Arc::get_mut(log).expect("no thread gathers rows while rows are being added or removed")
}

fn lay_out<R: Record>(
    columns: &[(usize, Arc<Column>)],
    rows: usize,
    driver: &Driver,
) -> Result<Pages<R>, Stopped> {
    let mut values = Pages::unwritten(rows);
    let parts = values.chunks_mut(PART_ROWS).zip((0..).step_by(PART_ROWS)).collect();
    driver.map(parts, |(records, start): (&mut [Slot<R>], usize)| {
        let longs: Vec<_> =
            columns.iter().map(|(_, column)| column.longs(start..start + records.len())).collect();
        interleave(&longs.iter().map(|longs| &longs[..]).collect::<Vec<_>>(), records);
    })?;
    Ok(values.written())
}

/// Columns of a result that are stored row by row.
#[derive(Debug)]
pub(crate) struct Records {
    /// The positions of these columns in the result.
    pub(crate) columns: Vec<usize>,
    pub(crate) rows: Rows,
}

impl Records {
    /// Returns whether a column can be stored row by row.
    pub(crate) fn takes(column: &Column) -> bool {
        matches!(column.width, Some(4 | 8))
    }

    /// Stores as many of `columns` row by row as the row counts of both sides permit. Each column
    /// is paired with its position in the result.
    pub(crate) fn lay_out(
        columns: &[(usize, Arc<Column>)],
        (left_rows, right_rows): (usize, usize),
        driver: &Driver,
    ) -> Result<Vec<Self>, Stopped> {
        let mut affordable = (left_rows + right_rows) * ROW_BYTES / right_rows.max(1);
        // Storing a single column row by row has no advantage. The same is true of two narrow
        // columns, because a cache holds more of their values if they are stored by column.
        let width = |group: &[(usize, Arc<Column>)]| {
            group.iter().filter_map(|(_, column)| column.width).sum::<usize>()
        };
        let groups = columns
            .chunks(COLUMNS)
            .filter(|group| width(group) > size_of::<u64>())
            .take_while(|group| {
                let bytes = Rows::row_bytes(group.len());
                let is_affordable = bytes <= affordable;
                affordable = affordable.saturating_sub(bytes);
                is_affordable
            });
        let records = |group: &[(usize, Arc<Column>)]| {
            let columns = group.iter().map(|(place, _)| *place).collect();
            Ok(Records { columns, rows: Rows::of_columns(group, right_rows, driver)? })
        };
        groups.map(records).collect()
    }

    /// Writes the rows to these columns' memory ranges in `out`, and removes the ranges from `out`.
    /// If the rows are `optional`, some of them may be missing, and zeros are written for the
    /// missing ones.
    pub(crate) fn gather(
        &self,
        rows: &[u32],
        optional: bool,
        out: &mut [&mut [Slot<u8>]],
        store: Store,
    ) {
        let of_column = |&column: &usize| {
            let out = std::mem::take(&mut out[column]);
            match out.len() == size_of_val(rows) {
                true => Out::Words(Slot::cast(out)),
                false => Out::Longs(Slot::cast(out)),
            }
        };
        let mut out: Vec<Out<'_>> = self.columns.iter().map(of_column).collect();
        match &self.rows {
            Rows::Two(log) => gather_rows(log, rows, optional, &mut out, store),
            Rows::Four(log) => gather_rows(log, rows, optional, &mut out, store),
        }
    }
}

fn gather_rows<R: Record>(
    records: &[R],
    rows: &[u32],
    optional: bool,
    out: &mut [Out<'_>],
    store: Store,
) {
    if !optional {
        return gather(records, rows, out, store);
    }
    for (at, &row) in rows.iter().enumerate() {
        let record = records.get(row as usize).copied().unwrap_or_default();
        out.iter_mut().zip(record.as_ref()).for_each(|(column, value)| column.set(at, *value));
    }
}
