//! Snapshots of an incremental join.
//!
//! A snapshot holds the rows that later ones may match and what the engine knows of them, those
//! that are not ready, those that were late, and results that were not handed out. Nothing in it
//! depends on threads: rows are written in merged order, and keys as the columns they are.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use arrow_select::concat::concat_batches;
use tidegate_operators::driver::Stopped;
use tidegate_operators::rows::Side;
use tidegate_sync::Stop;

use super::engine::RestoredRows;
use super::maker::BATCH_ROWS;
use super::{Query, StreamJoin, StreamOptions, first};
use crate::columns::table::Table;
use crate::columns::time;
use crate::query::options::JoinOptions;
use crate::stream::Operator;
use crate::stream::intake::source::{batch_bytes, columns};
use crate::stream::state::snapshot::{Reader, TABLE_BYTES, Writer, damaged};
use crate::{Error, Result};

/// What decides the results, a line each: what a snapshot must be of.
pub(super) fn describe(
    query: &Query<'_>,
    left: &Schema,
    right: &Schema,
    options: &StreamOptions,
) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        writeln!(text, "{name}: {value}").expect("a string takes all text")
    };
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
    /// The state as bytes, from which [`restore`](Self::restore) goes on as if nothing had
    /// happened. All that is ready is joined first; its results are in the snapshot until they are
    /// polled. When `pause` is requested this fails, and a later call goes on.
    pub fn snapshot(&mut self, pause: &Stop) -> Result<Vec<u8>> {
        self.catch_up(pause)?;
        // What the engine holds back may depend on threads.
        if self.engine.holds_back() {
            self.release();
        }
        // Rows that have come since are none of this snapshot's.
        while self.is_joining() || self.releasing {
            if pause.is_requested() {
                return Err(Stopped.into());
            }
            self.step()?;
        }
        let mut writer = Writer::new(&self.query);
        self.intake.write(&mut writer)?;
        self.intake.shared.late.write(&mut writer)?;
        self.stores.iter().try_for_each(|store| writer.table(&store.rows()?))?;
        [Side::Left, Side::Right]
            .iter()
            .for_each(|&side| writer.matched(&self.engine.matched(side)));
        writer.number(self.rows_out);
        self.ready = self.recut()?;
        writer.number(self.ready.len() as u64);
        self.ready.iter().try_for_each(|batch| writer.table(batch))?;
        Ok(writer.finish())
    }

    /// The results that were not handed out, cut such that it depends on nothing but their number:
    /// threads show in where long results are cut. Both who goes on and who restores hand them out
    /// so.
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

    /// Goes on from a snapshot of the same query; this join must not have been used. When this
    /// fails, the join is as it was before, or closed; it is as it was when `stop` is requested
    /// before all is read.
    pub fn restore(&mut self, snapshot: &[u8], stop: &Stop) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.is_used() {
            return Err(Error::state(
                "a snapshot can only be restored into a join that was not used; make a new one",
            ));
        }
        // 1. All is read and checked before any of it is taken.
        let mut reader = Reader::new(snapshot, &self.query)?;
        let intake = self.intake.read(&mut reader)?;
        let batches =
            [reader.table(self.stores[0].schema())?, reader.table(self.stores[1].schema())?];
        let [left, right] = batches;
        let rows = [
            self.restored(Side::Left, left, &mut reader)?,
            self.restored(Side::Right, right, &mut reader)?,
        ];
        let last = rows.iter().filter_map(|rows| rows.ts.last()).max();
        if last.is_some_and(|&last| intake.next().is_some_and(|next| next < last)) {
            return Err(damaged("rows that were joined come after rows that were not"));
        }
        let rows_out = reader.rows()?;
        let ready = (0..reader.count(TABLE_BYTES)?).map(|_| reader.table(&self.plan.schema));
        let ready = ready.collect::<Result<VecDeque<_>>>()?;
        if ready.iter().any(|batch| batch.num_rows() > BATCH_ROWS) {
            return Err(damaged("results are longer than they are made"));
        }
        reader.finish()?;
        if stop.is_requested() {
            return Err(Stopped.into());
        }
        // 2. There is room for all.
        let bytes = |rows: &RestoredRows| {
            batch_bytes(&rows.batch) + rows.ts.len() * self.intake.shared.row_bytes
        };
        let bytes = rows.each_ref().map(bytes);
        let charges = self.intake.charge(&intake, bytes[0] + bytes[1])?;
        // 3. It is taken.
        (self.rows_out, self.ready) = (rows_out, ready);
        let mut kept = self.intake.restore(intake, charges);
        let taken = Error::catch(|| {
            for ((store, rows), bytes) in self.stores.iter_mut().zip(&rows).zip(bytes) {
                store.push(rows.batch.clone(), vec![(bytes, Arc::new(kept.split(bytes)))])?;
            }
            self.engine.restore(rows)
        });
        taken.map_err(|error| {
            self.close();
            if error.is_data() { damaged(error.message()) } else { error }
        })
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
