//! The part of a snapshot that a join writes. This part contains the rows that later rows may
//! match, and records which of these rows have already been matched.
//!
//! The content does not depend on the number of threads, because rows are written in storage order
//! and keys are written as columns.

use std::sync::Arc;

use arrow_array::RecordBatch;
use tidegate_operators::rows::{RowJoin, SavedRows, Side, SideWatermarks};

use super::JoinTactic;
use super::engine::Prepare;
use crate::columns::table::Table;
use crate::columns::table::batch_bytes;
use crate::columns::time;
use crate::stream::intake::RestoredIntake;
use crate::stream::state::snapshot::{Reader, Writer, damaged};
use crate::stream::tactic::Admit;
use crate::{Error, Result};

/// Returns the error for kept rows that cannot occur in a merged-order join.
fn out_of_order() -> Error {
    Error::state(
        "the snapshot's rows were joined in an order other than by time: it belongs to a join with \
         ordered=False; create this join with ordered=False as well, or use an older snapshot",
    )
}

impl<P: Prepare> JoinTactic<P> {
    /// Writes the kept rows, and records which of them have been matched.
    pub(super) fn write_state(&self, now: SideWatermarks, writer: &mut Writer) -> Result<()> {
        let join = &self.engine.join;
        // In arrival order, the number of rows that are kept longer than needed depends on when the
        // operator was polled. Such rows are omitted so that the snapshot does not depend on the
        // polls.
        let needed = [Side::Left, Side::Right].map(|side| join.needed(side, now));
        for (store, needed) in self.stores.iter().zip(&needed) {
            writer.table(&match needed {
                Some(needed) => store.rows_at(needed)?,
                None => store.rows()?,
            })?;
        }
        for (side, needed) in [Side::Left, Side::Right].into_iter().zip(&needed) {
            let (matched, settled) = join.matched(side);
            let matched = match needed.as_ref().filter(|_| !matched.is_empty()) {
                Some(needed) => needed.iter().map(|&row| matched[row as usize]).collect(),
                None => matched,
            };
            writer.matched(&(matched, settled));
        }
        Ok(())
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
        let batches =
            [reader.table(self.stores[0].schema())?, reader.table(self.stores[1].schema())?];
        let [left, right] = batches.each_ref();
        let kept = [self.kept(Side::Left, left, reader)?, self.kept(Side::Right, right, reader)?];
        let in_order = kept.iter().filter(|_| self.arriving.is_none());
        let last = in_order.filter_map(|kept| kept.ts.last()).max();
        if last.is_some_and(|&last| intake.next().is_some_and(|next| next < last)) {
            return Err(out_of_order());
        }
        let bytes = |batch: &RecordBatch| batch_bytes(batch) + batch.num_rows() * row_bytes;
        let bytes = batches.each_ref().map(bytes);
        // 2. The state is restored.
        let mut charge = admit(reader, bytes[0] + bytes[1])?;
        for ((store, batch), bytes) in self.stores.iter_mut().zip(&batches).zip(bytes) {
            store.push(batch.clone(), vec![(bytes, Arc::new(charge.split(bytes)))])?;
        }
        self.engine.restore(&kept, batches.each_ref())
    }

    /// Returns a side's kept rows from the snapshot.
    fn kept(&self, side: Side, batch: &RecordBatch, reader: &mut Reader<'_>) -> Result<SavedRows> {
        let on = [self.times.0, self.times.1][side as usize];
        let ts = time::times(&Table::trusted("the snapshot", batch.clone()), on, self.unit);
        let ts = ts.map_err(|error| damaged(error.message()))?.to_vec();
        if self.arriving.is_none() && !ts.is_sorted() {
            return Err(out_of_order());
        }
        let (matched, settled) = reader.matched(ts.len(), self.how.marks(side))?;
        if self.arriving.is_some() && settled > 0 {
            return Err(damaged("rows of an eager join are dropped once they are settled"));
        }
        Ok(SavedRows { ts, matched, settled })
    }
}
