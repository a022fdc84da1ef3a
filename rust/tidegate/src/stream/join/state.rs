//! What a snapshot holds of a join: the rows that later ones may match, and which of them have been
//! matched.
//!
//! Nothing in it depends on threads: rows are written in merged order, and keys as the columns they
//! are.

use std::sync::Arc;

use arrow_array::RecordBatch;
use tidegate_operators::rows::Side;

use super::JoinTactic;
use super::engine::RestoredRows;
use crate::Result;
use crate::columns::table::Table;
use crate::columns::time;
use crate::stream::intake::RestoredIntake;
use crate::stream::intake::source::batch_bytes;
use crate::stream::state::snapshot::{Reader, Writer, damaged};
use crate::stream::tactic::Admit;

impl JoinTactic {
    /// Writes the rows that are kept, and which of them have been matched.
    pub(super) fn write_state(&self, writer: &mut Writer) -> Result<()> {
        self.stores.iter().try_for_each(|store| writer.table(&store.rows()?))?;
        [Side::Left, Side::Right]
            .iter()
            .for_each(|&side| writer.matched(&self.engine.matched(side)));
        Ok(())
    }

    /// Takes in what [`write_state`](Self::write_state) wrote.
    pub(super) fn restore_state(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        // 1. All is read and checked before any of it is taken.
        let batches =
            [reader.table(self.stores[0].schema())?, reader.table(self.stores[1].schema())?];
        let [left, right] = batches;
        let rows =
            [self.restored(Side::Left, left, reader)?, self.restored(Side::Right, right, reader)?];
        let last = rows.iter().filter_map(|rows| rows.ts.last()).max();
        if last.is_some_and(|&last| intake.next().is_some_and(|next| next < last)) {
            return Err(damaged("rows that were joined come after rows that were not"));
        }
        let bytes = |rows: &RestoredRows| batch_bytes(&rows.batch) + rows.ts.len() * row_bytes;
        let bytes = rows.each_ref().map(bytes);
        // 2. It is taken.
        let mut kept = admit(reader, bytes[0] + bytes[1])?;
        for ((store, rows), bytes) in self.stores.iter_mut().zip(&rows).zip(bytes) {
            store.push(rows.batch.clone(), vec![(bytes, Arc::new(kept.split(bytes)))])?;
        }
        self.engine.restore(rows)
    }

    /// The kept rows of a side, with what the snapshot says of them.
    fn restored(
        &self,
        side: Side,
        batch: RecordBatch,
        reader: &mut Reader<'_>,
    ) -> Result<RestoredRows> {
        let on = [self.times.0, self.times.1][side as usize];
        let ts = time::times(&Table::trusted("the snapshot", batch.clone()), on, self.unit);
        let ts = ts.map_err(|error| damaged(error.message()))?.to_vec();
        if !ts.is_sorted() {
            return Err(damaged("rows that were joined are out of order"));
        }
        // Of these it matters which have had a match: those that may come out without one, or once.
        let matters = match side {
            Side::Left => self.how.keeps_left() || !self.how.pairs(),
            Side::Right => self.how.keeps_right(),
        };
        let (matched, settled) = reader.matched(ts.len(), matters)?;
        Ok(RestoredRows { ts, batch, matched, settled })
    }
}
