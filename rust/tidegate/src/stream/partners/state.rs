//! The part of a snapshot that a left-row join writes. This part contains the left rows that are
//! not final and the right rows that current or future left rows may need.
//!
//! The content does not depend on the number of threads or on when rows were dropped, because
//! unneeded right rows are removed before the snapshot is written.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::PartnerJob;
use crate::Result;
use crate::columns::table::Table;
use crate::columns::table::batch_bytes;
use crate::columns::time;
use crate::stream::intake::RestoredIntake;
use crate::stream::recomputation::Watermark;
use crate::stream::state::snapshot::{Reader, Writer, damaged};
use crate::stream::state::timed_rows::TimedRows;
use crate::stream::tactic::{Admit, Common};

impl PartnerJob {
    /// Writes the kept rows.
    pub(super) fn write_state(
        &mut self,
        common: &Common,
        settled: Option<Watermark>,
        writer: &mut Writer,
    ) -> Result<()> {
        if let (Some(Some(now)), true) = (settled, self.kind.picks()) {
            self.look_through(common, now)?;
        }
        writer.number(self.gone);
        writer.table(&self.left.batch()?)?;
        writer.table(&self.right.batch()?)
    }

    /// Restores the state from the output of [`write_state`](Self::write_state).
    pub(super) fn restore_state(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        // 1. Everything is read and checked before anything is changed.
        let gone = reader.rows()?;
        let left = reader.table(self.left.schema())?;
        let right = reader.table(self.right.schema())?;
        let of_left = self.times(&left, self.times.0)?;
        let of_right = self.times(&right, self.times.1)?;
        let kept = (of_left.len() + of_right.len()) as u64;
        if gone.saturating_add(kept) > intake.rows() {
            return Err(damaged("it keeps more rows than have arrived"));
        }
        let last = of_left.last().max(of_right.last());
        if last.is_some_and(|&last| intake.next().is_some_and(|next| next < last)) {
            return Err(damaged("joined rows follow rows that have not been joined"));
        }
        let bytes = |batch: &RecordBatch| batch_bytes(batch) + batch.num_rows() * row_bytes;
        let bytes = [bytes(&left), bytes(&right)];
        // 2. The state is restored.
        let mut charge = admit(reader, bytes[0] + bytes[1])?;
        let mut push = |side: &mut TimedRows, ts, rows, bytes| {
            side.push(ts, rows, vec![(bytes, Arc::new(charge.split(bytes)))])
        };
        push(&mut self.left, of_left, left, bytes[0])?;
        push(&mut self.right, of_right, right, bytes[1])?;
        self.gone = gone;
        self.needed = self.right.len();
        Ok(())
    }

    /// Returns the times of the kept rows in the snapshot.
    fn times(&self, batch: &RecordBatch, on: usize) -> Result<Vec<i64>> {
        let ts = time::times(&Table::trusted("the snapshot", batch.clone()), on, self.unit);
        let ts = ts.map_err(|error| damaged(error.message()))?.to_vec();
        if !ts.is_sorted() {
            return Err(damaged("joined rows are out of order"));
        }
        Ok(ts)
    }
}
