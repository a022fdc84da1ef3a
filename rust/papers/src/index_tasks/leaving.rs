//! The rows in an index from which rows are removed one by one. Any thread can remove a row as soon
//! as no task searches for it.
//!
//! ```text
//! rows on a side   │ removed │ being removed │ may leave │ a task may search for them │
//!                            └ taken                     └ upto
//! ```

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_structures::index::Entry;
use tidegate_sync::{HighWater, TryLock};

/// The rows on one side that are in its index or are inserted in this epoch, oldest first.
#[derive(Debug)]
pub(super) struct LeavingRows {
    rows: VecDeque<Entry>,
    /// The number of rows that can be removed because no active or future task searches for them.
    upto: HighWater,
    /// The number of rows that have been removed or are being removed.
    taken: TryLock<usize>,
}

impl Default for LeavingRows {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl LeavingRows {
    /// Creates the list from the given rows, which are in the index.
    pub(super) fn of(rows: Vec<Entry>) -> Self {
        LeavingRows { rows: rows.into(), upto: HighWater::default(), taken: TryLock::new(0) }
    }

    /// Adds the rows in an epoch. The threads of the previous epoch must have finished.
    pub(super) fn begin(&mut self, rows: impl Iterator<Item = Entry>) {
        let removed = std::mem::take(self.taken.get_mut());
        self.rows.drain(..removed);
        self.rows.extend(rows);
        self.upto = HighWater::default();
    }

    /// Allows rows numbered below `first` to be removed. Only one thread at a time calls this
    /// method.
    pub(super) fn let_go(&self, first: u32) {
        let from = self.upto.get() as usize;
        let rows = self.rows.range(from..);
        let gone = rows.take_while(|entry| entry.row.wrapping_sub(first).cast_signed() < 0).count();
        self.upto.raise((from + gone) as u64);
    }

    /// Returns at most `most` rows for this thread to remove. Returns `None` if there are no such
    /// rows, or if another thread is taking some.
    pub(super) fn take(&self, most: usize) -> Option<Range<usize>> {
        // The mark also guarantees that the tasks which inserted the rows have finished.
        let upto = self.upto.get() as usize;
        self.taken.try_with(|taken| {
            let some = *taken..upto.min(*taken + most).max(*taken);
            *taken = some.end;
            (!some.is_empty()).then_some(some)
        })?
    }

    /// Returns the row at the given position.
    pub(super) fn row(&self, at: usize) -> Entry {
        self.rows[at]
    }

    /// Returns whether threads have taken all rows that can be removed. The result is `false` if
    /// another thread is taking some rows.
    pub(super) fn is_through(&self) -> bool {
        let upto = self.upto.get() as usize;
        self.taken.try_with(|taken| *taken >= upto).unwrap_or(false)
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<Entry>()
    }
}
