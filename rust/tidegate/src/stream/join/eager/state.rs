//! The part of a snapshot that an eager join has: the rows that rows to come may match, in the order
//! of their arrival, and which of them have been matched.

use std::sync::Arc;

use arrow_array::RecordBatch;
use tidegate_operators::rows::{Kept, RowJoin, Side};

use super::{EagerTactic, Prepare};
use crate::Result;
use crate::columns::table::Table;
use crate::columns::table::batch_bytes;
use crate::columns::time;
use crate::stream::state::snapshot::{Reader, Writer, damaged};
use crate::stream::tactic::Admit;

const SIDES: [Side; 2] = [Side::Left, Side::Right];

impl<P: Prepare> EagerTactic<P> {
    /// Writes the rows that are of use, and which of them have been matched.
    pub(super) fn write_state(&mut self, writer: &mut Writer) -> Result<()> {
        // Which others are still here depends on when this was polled.
        self.pack(true)?;
        self.stores.iter().try_for_each(|store| writer.table(&store.rows()?))?;
        SIDES.iter().for_each(|&side| writer.matched(&self.engine.join.matched(side)));
        Ok(())
    }

    /// Takes in what [`write_state`](Self::write_state) wrote.
    pub(super) fn restore_state(
        &mut self,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        // 1. All is read and checked before any of it is taken.
        let batches =
            [reader.table(self.stores[0].schema())?, reader.table(self.stores[1].schema())?];
        let times = |side: Side| -> Result<Vec<i64>> {
            let on = [self.times.0, self.times.1][side as usize];
            let table = Table::trusted("the snapshot", batches[side as usize].clone());
            let ts = time::times(&table, on, self.unit);
            Ok(ts.map_err(|error| damaged(error.message()))?.to_vec())
        };
        let mut kept: [Kept; 2] = Default::default();
        for side in SIDES {
            let ts = times(side)?;
            let (matched, settled) = reader.matched(ts.len(), self.how.marks(side))?;
            if settled > 0 {
                return Err(damaged("rows of an eager join leave when they are settled"));
            }
            kept[side as usize] = Kept { ts, matched, settled };
        }
        let bytes = |batch: &RecordBatch| batch_bytes(batch) + batch.num_rows() * row_bytes;
        let bytes = batches.each_ref().map(bytes);
        // 2. It is taken.
        let mut charge = admit(reader, bytes[0] + bytes[1])?;
        for ((store, batch), bytes) in self.stores.iter_mut().zip(&batches).zip(bytes) {
            store.push(batch.clone(), vec![(bytes, Arc::new(charge.split(bytes)))])?;
        }
        self.engine.restore(&kept, batches.each_ref())
    }
}
