//! Many sources as one stream in merged order; `streams.rs` merges streams that are read.

pub(crate) mod streams;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_cast::display::array_value_to_string;
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use tidegate_operators::driver::Driver;
use tidegate_structures::gate::{BlockReader, Filler, Planned};
use tidegate_structures::memory;
use tidegate_sync::Stop;

use super::intake::Intake;
use super::intake::late::late_schema;
use super::intake::news::News;
use super::intake::ready::{Ready, Rest, plan};
use super::intake::source::{ROW_BYTES, Source, SourceRun, SourceStats, Stream, gather_timed};
use super::memory::Memory;
use super::{Operator, Step};
use crate::background::lasting;
use crate::columns::table::column;
use crate::columns::time::{self, Bound, Unit};
use crate::{Error, Result};

/// Rows of a batch, about: a thread's piece of a poll's work.
const BATCH_ROWS: usize = 1 << 15;

/// The most batches that a poll makes: enough that waking threads weighs little.
const POLL_BATCHES: usize = 8;

/// What a merge is asked for.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// The time column.
    pub on: String,
    /// The number of sources.
    pub sources: usize,
    /// How far the rows of a source may be out of order.
    pub lateness: Option<Bound>,
    /// Bytes that may be held; no limit if none is said.
    pub memory_limit: Option<usize>,
    /// The number of threads.
    pub threads: usize,
}

/// Merges sources into one stream in merged order: by time, then source, then position.
///
/// Each row comes out once no source can bring one that sorts before it.
#[derive(Debug)]
pub struct Merge {
    stream: Stream,
    intake: Intake,
    ready: VecDeque<RecordBatch>,
    driver: Driver,
    rows_out: u64,
    /// Why the merge cannot go on.
    failed: Option<Error>,
}

/// Numbers that describe a merge so far.
#[derive(Clone, Debug)]
pub struct MergeStats {
    /// Its sources.
    pub sources: Vec<SourceStats>,
    /// Rows handed out.
    pub rows_out: u64,
    /// No row that is not handed out yet is below it; none before all sources have made a promise,
    /// and at the end.
    pub watermark: Option<i64>,
    /// Bytes that count towards the memory limit.
    pub memory: usize,
    /// Bytes that may be held; no limit if there is none.
    pub memory_limit: Option<usize>,
}

impl Merge {
    /// A merge of rows of `schema`.
    pub fn new(schema: SchemaRef, options: &MergeOptions) -> Result<Self> {
        Merge::of(schema, options, |number| format!("source {number}"))
    }

    /// A merge whose sources are called so in messages.
    pub(super) fn of(
        schema: SchemaRef,
        options: &MergeOptions,
        name: impl Fn(usize) -> String,
    ) -> Result<Self> {
        let on = column("streams", &schema, &options.on, "on")?;
        let unit = Unit::of("streams", schema.field(on))?;
        let lateness = time::lateness(options.lateness, unit)?;
        let stream = Stream { schema, on, unit, lateness };
        let streams = (0..options.sources).map(|number| (name(number), stream.clone())).collect();
        Ok(Merge {
            intake: Intake::new(
                streams,
                Memory::new(options.memory_limit, options.sources, false),
                ROW_BYTES,
            )?,
            stream,
            ready: VecDeque::new(),
            driver: lasting(options.threads, false)?,
            rows_out: 0,
            failed: None,
        })
    }

    /// The schema of the sources and of the merged rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.stream.schema
    }

    /// The sources, by number.
    pub fn sources(&self) -> &[Arc<Mutex<Source>>] {
        &self.intake.sources
    }

    /// What wakes whoever waits for a source.
    pub fn news(&self) -> Arc<News> {
        self.intake.shared.news.clone()
    }

    /// What is held, and how much may be.
    pub fn memory(&self) -> Memory {
        self.intake.shared.memory.clone()
    }

    /// The number, the time and the missed watermark of the first late row, the times as they are
    /// written.
    pub(super) fn first_late(&self) -> Option<(u64, String, String)> {
        let (late, _) = self.late().ok()?;
        let first = late.first()?;
        let written = |column: usize| array_value_to_string(first.column(column), 0).ok();
        let position = first.column(1).as_primitive::<UInt64Type>().value(0);
        Some((position, written(3 + self.stream.on)?, written(2)?))
    }

    /// The name of the time column.
    pub(super) fn time_name(&self) -> &str {
        self.stream.schema.field(self.stream.on).name()
    }

    /// Numbers that describe the merge so far.
    pub fn stats(&self) -> MergeStats {
        MergeStats {
            sources: self.intake.stats(),
            rows_out: self.rows_out,
            watermark: self.intake.watermark().filter(|&watermark| watermark > i64::MIN),
            memory: self.intake.shared.memory.held(),
            memory_limit: self.intake.shared.memory.limit(),
        }
    }

    /// Drops what is held; sources and polls fail from now on. A second call does nothing.
    pub fn close(&mut self) {
        self.intake.close();
        self.ready.clear();
    }
}

impl Operator for Merge {
    fn driver(&self) -> Driver {
        self.driver.clone()
    }

    fn ready(&mut self) -> &mut VecDeque<RecordBatch> {
        &mut self.ready
    }

    fn rows_out(&mut self) -> &mut u64 {
        &mut self.rows_out
    }

    fn late(&self) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        Ok((self.intake.shared.late.batches(&self.stream)?, late_schema(&self.stream)))
    }

    fn forget_late(&mut self, batches: usize) {
        self.intake.shared.late.forget(batches);
    }

    fn is_long(&mut self) -> bool {
        // A step makes a few batches, whatever there is.
        false
    }

    fn pause_by(&mut self, pause: &Stop) {
        self.driver = self.driver.pausing(pause);
    }

    fn step(&mut self) -> Result<Step> {
        let Some(reader) = self.intake.reader() else {
            return Err(Error::closed("the merge is closed"));
        };
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        memory::ready()?;
        let planning = Planning::new(reader);
        if planning.blocks.is_empty() {
            return Ok(if planning.rest == Rest::End { Step::End } else { Step::NotYet });
        }
        // The rows have left the gate: what fails now would be missing in what follows.
        let made = Error::catch_unwound(|| make(&self.stream, planning, &self.driver)).flatten();
        self.ready = made.map_err(|error| self.failed.insert(error.of_operator()).clone())?;
        Ok(Step::Went)
    }
}

/// What a poll makes batches of, planned in order, one batch before it is asked for.
struct Planning<'a> {
    reader: &'a mut BlockReader<SourceRun>,
    blocks: Vec<Planned<SourceRun>>,
    rest: Rest,
    taken: usize,
}

impl<'a> Planning<'a> {
    fn new(reader: &'a mut BlockReader<SourceRun>) -> Self {
        let (blocks, rest) = plan(reader, BATCH_ROWS);
        Planning { reader, blocks, rest, taken: 0 }
    }

    /// The blocks of the next batch, and its number.
    fn next(&mut self) -> Option<(usize, Vec<Planned<SourceRun>>)> {
        let blocks = std::mem::take(&mut self.blocks);
        self.taken += 1;
        if self.rest == Rest::More && self.taken < POLL_BATCHES {
            (self.blocks, self.rest) = plan(self.reader, BATCH_ROWS);
        }
        (!blocks.is_empty()).then_some((self.taken, blocks))
    }
}

/// Makes the batches: while one thread plans, others merge and gather.
fn make(stream: &Stream, planning: Planning<'_>, driver: &Driver) -> Result<VecDeque<RecordBatch>> {
    let threads = if planning.rest == Rest::More { driver.threads().min(POLL_BATCHES) } else { 1 };
    let planning = Mutex::new(planning);
    let next = || planning.lock().next();
    let made = driver.map_with(vec![(); threads], Filler::default, |filler, ()| {
        std::iter::from_fn(next)
            .map(|(number, blocks)| (number, batch(stream, blocks, filler)))
            .collect::<Vec<_>>()
    })?;
    let mut made: Vec<_> = made.into_iter().flatten().collect();
    made.sort_unstable_by_key(|&(number, _)| number);
    made.into_iter().map(|(_, batch)| batch).collect()
}

/// A batch of the rows of blocks.
fn batch(
    stream: &Stream,
    blocks: Vec<Planned<SourceRun>>,
    filler: &mut Filler,
) -> Result<RecordBatch> {
    let Ready { ts, places, batches, .. } = Ready::new(blocks, filler);
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    gather_timed(stream, &ts.into(), &batches, &places)
}
