//! The rows of an index that are removed one by one, by any thread, once no task looks for them.
//!
//! ```text
//! rows of a side   │ removed │ being removed │ may leave │ some task may look for them │
//!                            └ taken                     └ upto
//! ```

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_structures::index::Entry;
use tidegate_sync::{HighWater, TryLock};

/// The rows of one side that are in its index or enter it in this epoch, oldest first.
#[derive(Debug)]
pub(super) struct LeavingRows {
    rows: VecDeque<Entry>,
    /// The number of rows that may leave: no task that is active or to come looks for them.
    upto: HighWater,
    /// The number of rows that threads remove, or have removed.
    taken: TryLock<usize>,
}

impl Default for LeavingRows {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl LeavingRows {
    /// These rows, which are in the index.
    pub(super) fn of(rows: Vec<Entry>) -> Self {
        LeavingRows { rows: rows.into(), upto: HighWater::default(), taken: TryLock::new(0) }
    }

    /// Adds the rows of an epoch. The threads of the one before are through.
    pub(super) fn begin(&mut self, rows: impl Iterator<Item = Entry>) {
        let removed = std::mem::take(self.taken.get_mut());
        self.rows.drain(..removed);
        self.rows.extend(rows);
        self.upto = HighWater::default();
    }

    /// Lets the rows before the one numbered `first` leave. One thread at a time says so.
    pub(super) fn let_go(&self, first: u32) {
        let from = self.upto.get() as usize;
        let rows = self.rows.range(from..);
        let gone = rows.take_while(|entry| entry.row.wrapping_sub(first).cast_signed() < 0).count();
        self.upto.raise((from + gone) as u64);
    }

    /// Some rows for this thread to remove, `most` at most; none if there are none, or another
    /// thread takes some.
    pub(super) fn take(&self, most: usize) -> Option<Range<usize>> {
        // The mark also says that the tasks are through which have inserted them.
        let upto = self.upto.get() as usize;
        self.taken.try_with(|taken| {
            let some = *taken..upto.min(*taken + most).max(*taken);
            *taken = some.end;
            (!some.is_empty()).then_some(some)
        })?
    }

    /// A row by its place.
    pub(super) fn row(&self, at: usize) -> Entry {
        self.rows[at]
    }

    /// Whether all rows that may leave were given to threads; no if another thread takes some.
    pub(super) fn is_through(&self) -> bool {
        let upto = self.upto.get() as usize;
        self.taken.try_with(|taken| *taken >= upto).unwrap_or(false)
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<Entry>()
    }
}
