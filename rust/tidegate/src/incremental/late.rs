//! Rows that came below their source's watermark, kept until they are asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use tidegate_sync::Charge;

/// Late rows of one push.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) source: u16,
    pub(super) rows: RecordBatch,
    /// Number of each row among all of the source.
    pub(super) positions: Vec<u64>,
    /// The source's watermark when each row came.
    pub(super) watermarks: Vec<i64>,
    pub(super) _charge: Charge,
}

/// The late rows of an operator.
#[derive(Clone, Debug, Default)]
pub(super) struct LateRows(Arc<Mutex<Vec<Late>>>);

impl LateRows {
    fn lock(&self) -> MutexGuard<'_, Vec<Late>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, late: Late) {
        self.lock().push(late);
    }

    /// All that have come since they were last taken, by source and in each as they came: the order in which sources
    /// were fed does not show.
    pub(super) fn take(&self) -> Vec<Late> {
        let mut late = std::mem::take(&mut *self.lock());
        late.sort_by_key(|late| late.source);
        late
    }
}
