//! Snapshots of an incremental interval join.
//!
//! A snapshot holds the rows that later ones may match, those that are not ready, those that were late, and results that
//! were not handed out. Nothing in it depends on threads: rows are written in merged order, and keys as the columns they
//! are.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::online_join::{Kept, Side};

use super::interval_join::{OnlineIntervalJoin, OnlineOptions};
use super::lock;
use super::snapshot::{Reader, Writer};
use super::source::{batch_bytes, columns};
use crate::interval_join::IntervalJoin;
use crate::table::Table;
use crate::time;
use crate::{Error, Result};

const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// What decides the results, a line each: what a snapshot must be of.
pub(super) fn describe(query: &IntervalJoin, left: &Schema, right: &Schema, options: &OnlineOptions) -> String {
    let mut text = String::from("operator: interval_join\n");
    let mut line = |name: &str, value: String| writeln!(text, "{name}: {value}").expect("a string takes all text");
    line("left", columns(left));
    line("right", columns(right));
    line("on", format!("{:?}", query.on));
    line("by", format!("{:?}", query.options.by));
    line("lower", format!("{:?}", query.lower));
    line("upper", format!("{:?}", query.upper));
    line("closed", format!("{:?}", query.closed));
    line(
        "where",
        query.options.predicate.as_ref().map_or("none".to_owned(), |predicate| format!("{:?}", predicate.to_string())),
    );
    line("how", format!("{:?}", query.options.how));
    line("suffix", format!("{:?}", query.options.suffix));
    line("columns", format!("{:?}", query.options.columns));
    line("sources", format!("{:?}", options.sources));
    line("lateness", format!("{:?}", options.lateness));
    text
}

impl OnlineIntervalJoin {
    /// The state as bytes, from which [`restore`](Self::restore) goes on as if nothing had happened. All that is ready
    /// is joined first; its results are in the snapshot until they are polled.
    pub fn snapshot(&mut self) -> Result<Vec<u8>> {
        self.catch_up()?;
        let mut writer = Writer::new(&self.query);
        self.intake.write(&mut writer)?;
        self.intake.shared.late.write(&mut writer)?;
        for side in SIDES {
            let (matched, settled) = self.join.matched(side);
            writer.bytes(&matched.iter().map(|&matched| u8::from(matched)).collect::<Vec<_>>());
            writer.number(settled as u64);
            writer.table(&self.stores[side as usize].rows_from(self.join.first(side))?)?;
        }
        writer.number(self.rows_out);
        // Batch by batch, so that the polls of whoever goes on give what they would have given.
        writer.number(self.ready.len() as u64);
        self.ready.iter().try_for_each(|batch| writer.table(batch))?;
        Ok(writer.finish())
    }

    /// Goes on from a snapshot of the same query; this join must not have been used. When this fails, make a new join.
    pub fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        let is_used = self.rows_out > 0
            || self.join.first(Side::Left) + self.join.first(Side::Right) > 0
            || self.join.rows(Side::Left) + self.join.rows(Side::Right) > 0
            || self
                .intake
                .stats()
                .iter()
                .any(|source| source.rows_in > 0 || source.watermark.is_some() || source.closed);
        if is_used {
            return Err(Error::state("a snapshot can only be restored into a join that was not used; make a new one"));
        }
        let mut reader = Reader::new(snapshot, &self.query)?;
        self.intake.restore(&mut reader)?;
        let schemas: Vec<SchemaRef> = self.intake.sources.iter().map(|source| lock(source).schema().clone()).collect();
        let schema = |source: u16| schemas[usize::from(source)].clone();
        self.intake.shared.late.read(&mut reader, &self.intake.shared.budget, schema)?;
        // 1. The rows that later ones may match.
        let mut sides = Vec::new();
        for side in SIDES {
            let matched: Vec<bool> = reader.bytes()?.iter().map(|&byte| byte != 0).collect();
            let settled = reader.number()? as usize;
            let schema = self.stores[side as usize].schema().clone();
            let rows = reader.table(&schema)?;
            let keys = self.keys.of(side, &rows)?;
            let on = [self.plan.times.0, self.plan.times.1][side as usize];
            let ts = time::times(&Table::trusted("the snapshot", rows.clone()), on, self.plan.unit)?.into_buffer();
            self.keep_restored(side, rows)?;
            sides.push((ts, keys, matched, settled));
        }
        let kept = |at: usize| {
            let (ts, keys, matched, settled) = &sides[at];
            Kept { ts, keys, matched, settled: *settled }
        };
        self.join.restore([kept(0), kept(1)]);
        // 2. Results that were not handed out.
        self.rows_out = reader.number()?;
        for _ in 0..reader.number()? {
            self.ready.push_back(reader.table(&self.plan.join.schema)?);
        }
        Ok(())
    }

    fn keep_restored(&mut self, side: Side, rows: RecordBatch) -> Result<()> {
        let charge = self.intake.shared.budget.charge(batch_bytes(&rows)).map_err(|exceeded| {
            Error::memory(format!(
                "the snapshot's rows need {} bytes, but {} of memory_limit = {} are held; raise the limit",
                exceeded.asked, exceeded.used, exceeded.limit
            ))
        })?;
        self.stores[side as usize].push(rows, vec![Arc::new(charge)])
    }
}
