//! Rows that came below their source's watermark, kept until they are asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_sync::{Budget, Charge};

use super::snapshot::{Reader, Writer};
use super::source::batch_bytes;
use crate::{Error, Result};

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

    /// Writes those that were not taken.
    pub(super) fn write(&self, writer: &mut Writer) -> Result<()> {
        let mut late: Vec<&Late> = Vec::new();
        let kept = self.lock();
        late.extend(kept.iter());
        late.sort_by_key(|late| late.source);
        writer.number(late.len() as u64);
        for Late { source, rows, positions, watermarks, .. } in late {
            writer.number(u64::from(*source));
            writer.table(rows)?;
            positions.iter().for_each(|&position| writer.number(position));
            watermarks.iter().for_each(|&watermark| writer.time(watermark));
        }
        Ok(())
    }

    /// Reads what [`write`](Self::write) wrote; `schema` tells a source's.
    pub(super) fn read(
        &self,
        reader: &mut Reader<'_>,
        budget: &Budget,
        schema: impl Fn(u16) -> SchemaRef,
    ) -> Result<()> {
        for _ in 0..reader.number()? {
            let source = reader.number()? as u16;
            let rows = reader.table(&schema(source))?;
            let positions = (0..rows.num_rows()).map(|_| reader.number()).collect::<Result<_>>()?;
            let watermarks = (0..rows.num_rows()).map(|_| reader.time()).collect::<Result<_>>()?;
            let charge = budget.charge(batch_bytes(&rows)).map_err(|exceeded| {
                Error::memory(format!(
                    "the snapshot's late rows need {} bytes, but {} of memory_limit = {} are held; raise the limit",
                    exceeded.asked, exceeded.used, exceeded.limit
                ))
            })?;
            self.add(Late { source, rows, positions, watermarks, _charge: charge });
        }
        Ok(())
    }

    /// All that have come since they were last taken, by source and in each as they came: the order in which sources
    /// were fed does not show.
    pub(super) fn take(&self) -> Vec<Late> {
        let mut late = std::mem::take(&mut *self.lock());
        late.sort_by_key(|late| late.source);
        late
    }
}
