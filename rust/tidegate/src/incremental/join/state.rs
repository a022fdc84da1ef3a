//! Snapshots of an incremental join.
//!
//! A snapshot holds the rows that later ones may match and what the engine knows of them, those that are not ready,
//! those that were late, and results that were not handed out. Nothing in it depends on threads: rows are written in
//! merged order, and keys as the columns they are.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use tidegate_operators::incremental::Side;

use super::engine::RestoredRows;
use super::maker::BATCH_ROWS;
use super::{Query, StreamJoin, StreamOptions, first};
use crate::incremental::lock;
use crate::incremental::memory::Holder;
use crate::incremental::snapshot::{Reader, Writer};
use crate::incremental::source::{batch_bytes, columns};
use crate::join::JoinOptions;
use crate::table::Table;
use crate::time;
use crate::{Error, Result};

/// What decides the results, a line each: what a snapshot must be of.
pub(super) fn describe(query: &Query<'_>, left: &Schema, right: &Schema, options: &StreamOptions) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| writeln!(text, "{name}: {value}").expect("a string takes all text");
    line("operator", query.operator);
    line("left", &columns(left));
    line("right", &columns(right));
    query.relation.iter().for_each(|(name, value)| line(name, value));
    let JoinOptions { by, predicate, how, suffix, columns, .. } = query.options;
    line("by", &format!("{by:?}"));
    let predicate = predicate.as_ref().map(|predicate| format!("{:?}", predicate.to_string()));
    line("where", predicate.as_deref().unwrap_or("none"));
    line("how", &format!("{how:?}"));
    line("suffix", &format!("{suffix:?}"));
    line("columns", &format!("{columns:?}"));
    line("sources", &format!("{:?}", options.sources));
    line("lateness", &format!("{:?}", options.lateness));
    text
}

impl StreamJoin {
    /// The state as bytes, from which [`restore`](Self::restore) goes on as if nothing had happened. All that is ready
    /// is joined first; its results are in the snapshot until they are polled.
    pub fn snapshot(&mut self) -> Result<Vec<u8>> {
        self.catch_up()?;
        self.whole(Self::release)?;
        let mut writer = Writer::new(&self.query);
        self.intake.write(&mut writer)?;
        self.intake.shared.late.write(&mut writer)?;
        self.stores.iter().try_for_each(|store| writer.table(&store.rows()?))?;
        self.engine.write(&mut writer);
        writer.number(self.rows_out);
        self.ready = self.recut()?;
        writer.number(self.ready.len() as u64);
        self.ready.iter().try_for_each(|batch| writer.table(batch))?;
        Ok(writer.finish())
    }

    /// Gives what the engine holds back, since what that is may depend on threads.
    pub(super) fn release(&mut self) -> Result<()> {
        if self.engine.holds_back() {
            self.flush()?;
            self.settle(self.intake.watermark())?;
            let [left, right] = [self.stores[0].rows()?, self.stores[1].rows()?];
            self.engine.refill([&left, &right])?;
        }
        Ok(())
    }

    /// The results that were not handed out, cut such that it depends on nothing but their number: threads show in where
    /// long results are cut. Both who goes on and who restores hand them out so.
    fn recut(&self) -> Result<VecDeque<RecordBatch>> {
        let rows = self.ready.iter().map(RecordBatch::num_rows).sum::<usize>();
        let cut = |from: usize| {
            let to = rows.min(from + BATCH_ROWS);
            let mut start = 0;
            let parts = self.ready.iter().filter_map(|batch| {
                let (first, end) = (start, start + batch.num_rows());
                start = end;
                let part = from.max(first)..to.min(end);
                (part.start < part.end).then(|| batch.slice(part.start - first, part.len()))
            });
            Ok(concat_batches(&self.plan.schema, &parts.collect::<Vec<_>>())?)
        };
        (0..rows).step_by(BATCH_ROWS).map(cut).collect()
    }

    /// Goes on from a snapshot of the same query; this join must not have been used. When this fails, make a new join.
    pub fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        if self.is_used() {
            return Err(Error::state("a snapshot can only be restored into a join that was not used; make a new one"));
        }
        let mut reader = Reader::new(snapshot, &self.query)?;
        self.intake.restore(&mut reader)?;
        let schemas: Vec<SchemaRef> = self.intake.sources.iter().map(|source| lock(source).schema().clone()).collect();
        let schema = |source: u16| schemas[usize::from(source)].clone();
        self.intake.shared.late.read(&mut reader, &self.intake.shared.memory, schema)?;
        // 1. The rows that later ones may match.
        let rows = [self.restored(Side::Left, &mut reader)?, self.restored(Side::Right, &mut reader)?];
        self.engine.restore(rows, &mut reader)?;
        // 2. Results that were not handed out.
        self.rows_out = reader.number()?;
        for _ in 0..reader.number()? {
            self.ready.push_back(reader.table(&self.plan.schema)?);
        }
        Ok(())
    }

    fn is_used(&self) -> bool {
        let [left, right] = first(&*self.engine);
        self.rows_out > 0
            || left + right > 0
            || self.engine.rows(Side::Left) + self.engine.rows(Side::Right) > 0
            || self
                .intake
                .stats()
                .iter()
                .any(|source| source.rows_in > 0 || source.watermark.is_some() || source.closed)
    }

    /// Takes the rows of a side into their store.
    fn restored(&mut self, side: Side, reader: &mut Reader<'_>) -> Result<RestoredRows> {
        let store = &mut self.stores[side as usize];
        let batch = reader.table(store.schema())?;
        let on = [self.times.0, self.times.1][side as usize];
        let ts = time::times(&Table::trusted("the snapshot", batch.clone()), on, self.unit)?;
        let bytes = batch_bytes(&batch) + batch.num_rows() * self.intake.shared.row_bytes;
        let charge = self.intake.shared.memory.charge_restored(Holder::State, bytes);
        let charge = charge.map_err(|refused| Error::memory(refused.say("the snapshot's rows")))?;
        store.push(batch.clone(), vec![(bytes, Arc::new(charge))])?;
        Ok(RestoredRows { ts: ts.to_vec(), batch })
    }
}
