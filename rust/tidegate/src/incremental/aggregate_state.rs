//! Snapshots of an incremental aggregation.
//!
//! A snapshot holds the states of slices that windows still need, their keys, the rows that functions have chosen, rows
//! that are not ready, those that were late, and results that were not handed out. Keys and rows are numbered anew in an
//! order that follows from the data, so that nothing in it depends on threads or polls.

use std::collections::HashMap;
use std::fmt::Write;

use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::aggregate::Saved;

use super::aggregate::{AggregateOptions, OnlineAggregation};
use super::lock;
use super::snapshot::{Reader, Writer};
use super::source::columns;
use crate::aggregate::{Aggregation, Function};
use crate::{Error, Result};

/// What decides the results, a line each: what a snapshot must be of.
pub(super) fn describe(query: &Aggregation, schema: &Schema, options: &AggregateOptions) -> String {
    let mut text = String::from("operator: aggregate\n");
    let mut line = |name: &str, value: String| writeln!(text, "{name}: {value}").expect("a string takes all text");
    line("stream", columns(schema));
    line("on", format!("{:?}", query.on));
    line("windows", format!("{:?}", query.windows));
    line("by", format!("{:?}", query.by));
    for aggregate in &query.aggregates {
        let condition = aggregate.predicate.as_ref().map(ToString::to_string);
        let (function, column) = (aggregate.function.name(), &aggregate.column);
        let whose = if matches!(aggregate.function, Function::User(_)) { "user's " } else { "" };
        line("agg", format!("{:?} {whose}{function} {column:?} {condition:?}", aggregate.name));
    }
    line("where", format!("{:?}", query.predicate.as_ref().map(ToString::to_string)));
    line("sources", format!("{:?}", options.sources));
    line("lateness", format!("{:?}", options.lateness));
    text
}

impl OnlineAggregation {
    /// The state as bytes, from which [`restore`](Self::restore) goes on as if nothing had happened. All that is ready
    /// is aggregated first; its results are in the snapshot until they are polled.
    pub fn snapshot(&mut self) -> Result<Vec<u8>> {
        self.catch_up()?;
        let mut writer = Writer::new(&self.query);
        self.intake.write(&mut writer)?;
        self.intake.shared.late.write(&mut writer)?;
        self.windows.arrange(self.groups.order());
        self.gather_chosen()?;
        self.ordered.settle(&mut *self.windows);
        let tables = self.ordered.tables()?;
        let saved = self.windows.save();
        // 1. Keys, by their order.
        let used = self.windows.is_used();
        let is_used = |&number: &u32| used.get(number as usize).copied().unwrap_or(false);
        let numbers: Vec<u32> = self.groups.order().keys.iter().copied().filter(is_used).collect();
        let ranks: HashMap<u32, u64> = numbers.iter().copied().zip(0..).collect();
        if !self.by.is_empty() {
            writer.table(&self.groups.table(&numbers)?)?;
        }
        // 2. Values of which the smallest or the largest is chosen, by their order.
        for values in &tables {
            writer.table(values)?;
        }
        // 3. Sessions, or slices; and states.
        writer.number(saved.sessions.len() as u64);
        for &(start, last, key) in &saved.sessions {
            writer.time(start);
            writer.time(last);
            writer.number(ranks[&key]);
        }
        writer.time(saved.closed);
        writer.time(saved.next);
        let slice = |writer: &mut Writer, (slice, keys): &(i64, Vec<u32>)| {
            writer.time(*slice);
            writer.number(keys.len() as u64);
            keys.iter().for_each(|key| writer.number(ranks[key]));
        };
        writer.number(saved.open.len() as u64);
        for open in &saved.open {
            writer.flag(open.is_some());
            open.iter().for_each(|open| slice(&mut writer, open));
        }
        writer.number(saved.kept.len() as u64);
        saved.kept.iter().for_each(|kept| slice(&mut writer, kept));
        writer.number(saved.words.len() as u64);
        saved.words.iter().for_each(|&word| writer.number(word));
        // 4. Rows that functions have chosen, by the order of states.
        if !self.rows.is_needless() {
            let all: Vec<u32> = (0..self.rows.len() as u32).collect();
            writer.table(&self.rows.table(&all)?)?;
        }
        // 5. Results that were not handed out, batch by batch, as polls will give them.
        writer.number(self.rows_out);
        writer.number(self.ready.len() as u64);
        self.ready.iter().try_for_each(|batch| writer.table(batch))?;
        Ok(writer.finish())
    }

    /// Goes on from a snapshot of the same query; this aggregation must not have been used. When this fails, make a new
    /// aggregation.
    pub fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        let sources = self.intake.stats();
        let is_used = |source: &super::SourceStats| source.rows_in > 0 || source.watermark.is_some() || source.closed;
        if self.rows_out > 0 || !self.ready.is_empty() || sources.iter().any(is_used) {
            return Err(Error::state(
                "a snapshot can only be restored into an aggregation that was not used; make a new one",
            ));
        }
        let mut reader = Reader::new(snapshot, &self.query)?;
        self.intake.restore(&mut reader)?;
        let schemas: Vec<SchemaRef> = self.intake.sources.iter().map(|source| lock(source).schema().clone()).collect();
        let schema = |source: u16| schemas[usize::from(source)].clone();
        self.intake.shared.late.read(&mut reader, &self.intake.shared.memory, schema)?;
        let numbers = if self.by.is_empty() {
            vec![0]
        } else {
            self.groups.of(&[reader.table(self.groups.schema())?], &self.alone)?
        };
        self.ordered.restore(|schema| reader.table(schema), &self.alone)?;
        let saved = read_saved(&mut reader, &numbers)?;
        if !self.windows.restore(saved) {
            return Err(Error::state("the snapshot is damaged: its states are not those of its slices"));
        }
        if !self.rows.is_needless() {
            self.rows.keep(reader.table(self.rows.schema())?);
        }
        self.rows_out = reader.number()?;
        for _ in 0..reader.number()? {
            self.ready.push_back(reader.table(&self.plan.schema)?);
        }
        self.charge_state();
        Ok(())
    }
}

fn read_saved(reader: &mut Reader<'_>, numbers: &[u32]) -> Result<Saved> {
    let key = |reader: &mut Reader<'_>| {
        let damaged = || Error::state("the snapshot is damaged: a slice or a session has a key that is none");
        numbers.get(reader.number()? as usize).copied().ok_or_else(damaged)
    };
    let slice = |reader: &mut Reader<'_>| {
        let slice = reader.time()?;
        let count = reader.number()?;
        Ok::<_, Error>((slice, (0..count).map(|_| key(reader)).collect::<Result<Vec<u32>>>()?))
    };
    let mut saved = Saved::default();
    for _ in 0..reader.number()? {
        saved.sessions.push((reader.time()?, reader.time()?, key(reader)?));
    }
    saved.closed = reader.time()?;
    saved.next = reader.time()?;
    for _ in 0..reader.number()? {
        let open = if reader.flag()? { Some(slice(reader)?) } else { None };
        saved.open.push(open);
    }
    for _ in 0..reader.number()? {
        saved.kept.push(slice(reader)?);
    }
    let words = reader.number()?;
    saved.words = (0..words).map(|_| reader.number()).collect::<Result<_>>()?;
    Ok(saved)
}
