//! Joins of sources that are pushed to: all but the finding of pairs.
//!
//! ```text
//! sources ─▶ gate ─▶ ready rows of both sides ─▶ the engine finds which belong together ─▶ result batches ─▶ poll
//!                      └─▶ stores, until no later row can match them ────────────────────────┘
//! ```
//!
//! | file | what is in it |
//! | --- | --- |
//! | `interval.rs`, `window.rs`, `band.rs` | the engines that find the pairs of three of them |
//! | `engine.rs` | what an engine is |
//! | `maker.rs`, `late.rs` | result batches; late rows |
//! | `state.rs` | snapshots |

mod band;
mod engine;
mod interval;
mod late;
mod maker;
mod state;
#[cfg(test)]
mod tests;
mod window;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{How, Progress, Results, Side};
use tidegate_structures::gate::Planned;
use tidegate_structures::memory;
use tidegate_sync::Stop;

use super::explanation::Explanation;
use super::intake::Intake;
use super::intake::latency::Latency;
use super::intake::news::News;
use super::intake::ready::{ReadyRun, ReadyRuns, Rest, plan};
use super::intake::source::{ROW_BYTES, Source, SourceRun, SourceStats, Stream, gather_batch};
use super::memory::Memory;
use super::state::store::Store;
use super::{Operator, Step};
use crate::background::lasting;
use crate::columns::time::{self, Bound, Unit};
use crate::query::options::{JoinOptions, JoinPlan};
use crate::results::gather::concat_rows;
use crate::results::interleave::{NO_PLACE, Place};
use crate::{Error, Result};
pub use engine::Figure;
use engine::{Engine, KeptRows, Rows};
pub(super) use maker::record_bytes;
use maker::{Maker, cuts, long_columns};

/// Rows of an epoch, at most, about: enough to share out among threads, few enough that their
/// results come soon.
const EPOCH_ROWS: usize = 1 << 17;

/// Pairs that may be compared, or rows that may come out, in work that is done at once: some
/// milliseconds' worth.
const LITTLE: u64 = 1 << 20;

/// What an incremental join is asked for, beside the query.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The number of left and of right sources.
    pub sources: (usize, usize),
    /// How far the rows of a left and of a right source may be out of order.
    pub lateness: (Option<Bound>, Option<Bound>),
    /// Bytes that may be held; no limit if none is said.
    pub memory_limit: Option<usize>,
    /// Whether results come in the contract's order, or in any.
    pub ordered: bool,
    /// Whether each thread stays on a processor of its own.
    pub pin: bool,
}

/// A query as a join of streams sees it.
#[derive(Debug)]
pub(super) struct Query<'a> {
    pub(super) operator: &'static str,
    /// What decides the pairs, beside the options: names and values, for snapshots to be told apart
    /// by.
    pub(super) relation: Vec<(&'static str, String)>,
    pub(super) options: &'a JoinOptions,
    /// The time column of each side.
    pub(super) times: (usize, usize),
    pub(super) unit: Unit,
    pub(super) plan: JoinPlan,
    /// What the join does, for people.
    pub(super) explanation: Explanation,
}

/// A join whose rows come in batches, from several sources a side.
#[derive(Debug)]
pub struct StreamJoin {
    /// What decides the results, as snapshots say it.
    query: String,
    explanation: Explanation,
    times: (usize, usize),
    unit: Unit,
    plan: JoinPlan,
    how: How,
    left_sources: usize,
    intake: Intake,
    stores: [Store; 2],
    engine: Box<dyn Engine>,
    /// Rows taken from the gate that are the next epoch, and how their reading ended.
    pending: Vec<Planned<SourceRun>>,
    rest: Rest,
    /// The last time of the epoch that is being joined, until its rows are let go of.
    epoch: Option<i64>,
    /// Whether the engine gives what it holds back, to be filled again then.
    releasing: bool,
    /// The watermark up to which rows have been settled without any that followed.
    settled: Option<i64>,
    ready: VecDeque<RecordBatch>,
    driver: Driver,
    latency: Latency,
    rows_out: u64,
    /// Why the join cannot go on.
    failed: Option<Error>,
}

/// Numbers that describe an incremental join so far.
#[derive(Clone, Debug)]
pub struct StreamJoinStats {
    /// Its sources, left ones first.
    pub sources: Vec<SourceStats>,
    /// Result rows handed out.
    pub rows_out: u64,
    /// No row that was not joined yet is below it; none before all sources have made a promise, and
    /// at the end.
    pub watermark: Option<i64>,
    /// Left and right rows kept for later ones.
    pub state_rows: (usize, usize),
    /// Bytes of the state beside those rows.
    pub state_bytes: usize,
    /// Bytes that count towards the memory limit.
    pub memory: usize,
    /// Bytes that may be held; no limit if there is none.
    pub memory_limit: Option<usize>,
    /// Candidate pairs that each replica has looked at.
    pub comparisons: Vec<u64>,
    /// Seconds from the push of a row until its results were made: median, 99th percentile,
    /// greatest.
    pub latency: Option<(f64, f64, f64)>,
    /// What else there is to say, with names.
    pub figures: Vec<(&'static str, Figure)>,
}

impl StreamJoin {
    /// A join of rows of these schemas, whose pairs `engine` finds.
    pub(super) fn new(
        query: Query<'_>,
        engine: Box<dyn Engine>,
        left: SchemaRef,
        right: SchemaRef,
        options: &StreamOptions,
    ) -> Result<Self> {
        let text = state::describe(&query, &left, &right, options);
        let Query {
            options: JoinOptions { threads, how, .. }, times, unit, plan, explanation, ..
        } = query;
        let stream = |schema: &SchemaRef, on, lateness| {
            Ok::<_, Error>(Stream {
                schema: schema.clone(),
                on,
                unit,
                lateness: time::lateness(lateness, unit)?,
            })
        };
        let left_stream = stream(&left, times.0, options.lateness.0)?;
        let right_stream = stream(&right, times.1, options.lateness.1)?;
        let of_side = |side: &str, sources: usize, stream: Stream| -> Vec<(String, Stream)> {
            (0..sources).map(|number| (format!("{side} source {number}"), stream.clone())).collect()
        };
        let mut streams = of_side("left", options.sources.0, left_stream);
        streams.extend(of_side("right", options.sources.1, right_stream));
        let memory = Memory::new(options.memory_limit, streams.len(), false);
        let longs = match engine.scatters() {
            true => {
                [long_columns(&plan, Side::Left, &left), long_columns(&plan, Side::Right, &right)]
            }
            false => Default::default(),
        };
        Ok(StreamJoin {
            query: text,
            explanation,
            times,
            unit,
            plan,
            how: *how,
            left_sources: options.sources.0,
            intake: Intake::new(streams, memory, ROW_BYTES + engine.row_bytes())?,
            stores: [Store::new(left, &longs[0]), Store::new(right, &longs[1])],
            engine,
            pending: Vec::new(),
            rest: Rest::NotYet,
            epoch: None,
            releasing: false,
            settled: None,
            ready: VecDeque::new(),
            driver: lasting(*threads, options.pin)?,
            latency: Latency::default(),
            rows_out: 0,
            failed: None,
        })
    }

    /// The schema of the results.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.schema
    }

    /// What the join does, for people.
    pub fn explain(&self) -> String {
        self.explanation.text(&self.intake.shared.memory)
    }

    /// What is held, and how much may be.
    pub fn memory(&self) -> Memory {
        self.intake.shared.memory.clone()
    }

    /// The sources, left ones first.
    pub fn sources(&self) -> &[Arc<Mutex<Source>>] {
        &self.intake.sources
    }

    /// How many of the sources are left ones.
    pub fn left_sources(&self) -> usize {
        self.left_sources
    }

    /// What wakes whoever waits for a source.
    pub fn news(&self) -> Arc<News> {
        self.intake.shared.news.clone()
    }

    /// Goes one step on. What fails once stays so: rows would be missing in what follows.
    fn step_on(&mut self) -> Result<Step> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        // Nothing has been begun yet, so a poll that finds no memory here may be tried again.
        memory::ready()?;
        self.whole(Self::try_step)
    }

    /// Does work that is of no use unless it is done as a whole.
    fn whole<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        match Error::catch_unwound(|| work(self)) {
            Ok(done) => done.inspect_err(|error| self.failed = Some(error.clone())),
            Err(error) => Err(self.failed.insert(error.of_operator()).clone()),
        }
    }

    fn try_step(&mut self) -> Result<Step> {
        // 1. An epoch is joined until all of its results are made.
        if self.is_joining() {
            self.within(self.engine.epoch_rows(), Self::go_on)?;
            return Ok(Step::Went);
        }
        if std::mem::take(&mut self.releasing) {
            self.settle(self.intake.watermark())?;
            let [left, right] = [self.stores[0].rows()?, self.stores[1].rows()?];
            self.engine.refill([&left, &right])?;
            return Ok(Step::Went);
        }
        // 2. The next epoch is what is ready now.
        self.look_ahead();
        let blocks = std::mem::take(&mut self.pending);
        if !blocks.is_empty() {
            let rows = blocks.iter().map(Planned::len).sum();
            self.settled = None;
            self.within(rows, |join| {
                let ready = ReadyRuns::new(&blocks, &join.driver.fit(rows))?;
                drop(blocks);
                join.begin(ready)?;
                join.go_on()
            })?;
            return Ok(Step::Went);
        }
        // 3. At the end, what was held back.
        if self.rest == Rest::End && self.engine.holds_back() {
            self.engine.flush();
            return Ok(Step::Went);
        }
        // 4. Rows that only results held back are kept for, where a source finds no room.
        let memory = &self.intake.shared.memory;
        if self.rest == Rest::NotYet && self.engine.holds_back() && memory.take_refused() {
            self.release();
            return Ok(Step::Went);
        }
        // 5. Promises alone may settle that rows remain without a match, and little memory that
        //    stores are made smaller.
        let now = if self.rest == Rest::End { None } else { self.intake.watermark() };
        if now.is_none() || now != self.settled || memory.is_short() {
            self.settle(now)?;
            self.settled = now;
        }
        Ok(if self.rest == Rest::End { Step::End } else { Step::NotYet })
    }

    /// Has the engine give what it holds back in the next steps, and go on as if it had not.
    pub(super) fn release(&mut self) {
        self.engine.flush();
        self.releasing = true;
    }

    /// Whether an epoch, or what the engine held back, is being joined.
    fn is_joining(&self) -> bool {
        self.epoch.is_some() || !self.engine.is_done()
    }

    /// Takes what is ready now from the gate, unless there is something already.
    fn look_ahead(&mut self) {
        if self.pending.is_empty() {
            (self.pending, self.rest) = self
                .intake
                .reader()
                .map_or((Vec::new(), Rest::End), |reader| plan(reader, EPOCH_ROWS));
        }
    }

    /// Does the work of so many rows: on the caller's thread, or on one of those that last, near
    /// the others.
    fn within(
        &mut self,
        rows: usize,
        work: impl FnOnce(&mut Self) -> Result<()> + Send,
    ) -> Result<()> {
        self.driver.fit(rows).within(|| work(self))
    }

    /// Takes ready rows into the stores and begins to join them.
    fn begin(&mut self, ready: ReadyRuns) -> Result<()> {
        self.latency.begin(ready.runs.iter().map(|run| (run.pushed(), run.len() as u64)));
        self.epoch = ready.ts.last().copied();
        let ReadyRuns { ts, sources, runs } = ready;
        let left_sources = self.left_sources;
        let side_of =
            |source: u16| if usize::from(source) < left_sources { Side::Left } else { Side::Right };
        let [left, right] = &self.stores;
        let (left_runs, right_runs) =
            runs.split_at(runs.partition_point(|run| side_of(run.source) == Side::Left));
        let left_rows = || side_rows(left.schema(), left_runs, &sources);
        let right_rows = || side_rows(right.schema(), right_runs, &sources);
        let driver = self.driver.fit(ts.len());
        let is_little = left_runs.len() <= 1 && right_runs.len() <= 1;
        let (left_rows, right_rows) = if is_little {
            (left_rows(), right_rows())
        } else {
            driver.both(left_rows, right_rows)
        };
        let batches = [left_rows?, right_rows?];
        let sides = sources.iter().map(|&source| side_of(source)).collect();
        let (engine, stores) = (&mut self.engine, &mut self.stores);
        let store = || {
            for ((store, rows), runs) in
                stores.iter_mut().zip(&batches).zip([left_runs, right_runs])
            {
                store.push(rows.clone(), runs.iter().map(ReadyRun::charge).collect())?;
            }
            Ok::<_, Error>(())
        };
        let rows = Rows { ts, sides, batches: &batches };
        let (begun, stored) = driver.both(|| engine.begin(&driver, rows), store);
        begun.and(stored)
    }

    /// Joins more of the epoch. When all of its results are made, rows are let go of that no later
    /// row can match.
    fn go_on(&mut self) -> Result<()> {
        self.advance()?;
        if self.engine.is_done()
            && let Some(last) = self.epoch.take()
        {
            self.settle(Some(last))?;
            self.latency.settle();
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        let kept = KeptRows::new(&self.plan, &self.stores, first(&*self.engine));
        match self.engine.advance(&self.driver, &kept)? {
            Progress::Results(results) => self.make(&results),
            Progress::Pieces(pieces) => {
                let (engine, maker) = (&*self.engine, self.maker());
                let work = |rows| maker.batches(&engine.assemble(rows));
                let made = self.driver.fit(engine.epoch_rows()).map(pieces, work)?;
                self.keep(made)
            }
        }
    }

    /// Makes the rows whose time is over, and lets go of all that no row at `now` or later can
    /// match.
    fn settle(&mut self, now: Option<i64>) -> Result<()> {
        let results = self.engine.unmatched(now);
        self.make(&results)?;
        self.engine.purge(now);
        for side in [Side::Left, Side::Right] {
            let store = &mut self.stores[side as usize];
            store.drop_before(self.engine.first(side));
            if self.intake.shared.memory.is_short() {
                store.shrink()?;
            }
        }
        Ok(())
    }

    /// Makes the batches of results.
    fn make(&mut self, results: &Results) -> Result<()> {
        if results.left.is_empty() {
            return Ok(());
        }
        let maker = self.maker();
        let made = self
            .driver
            .fit(results.left.len())
            .map(cuts(results), |rows| maker.batch(results, rows).map(|batch| vec![batch]))?;
        self.keep(made)
    }

    fn maker(&self) -> Maker {
        Maker::new(&self.plan, self.how, &self.stores)
    }

    fn keep(&mut self, made: Vec<Result<Vec<RecordBatch>>>) -> Result<()> {
        for batches in made {
            self.ready.extend(batches?);
        }
        Ok(())
    }

    /// Numbers that describe the join so far.
    pub fn stats(&self) -> StreamJoinStats {
        StreamJoinStats {
            sources: self.intake.stats(),
            rows_out: self.rows_out,
            watermark: self.intake.watermark().filter(|&watermark| watermark > i64::MIN),
            state_rows: (self.engine.rows(Side::Left), self.engine.rows(Side::Right)),
            state_bytes: self.engine.memory()
                + self.stores.iter().map(Store::record_memory).sum::<usize>(),
            memory: self.intake.shared.memory.held(),
            memory_limit: self.intake.shared.memory.limit(),
            comparisons: self.engine.comparisons(),
            latency: self.latency.summary(),
            figures: self.engine.figures(),
        }
    }

    /// Drops what is held; sources and polls fail from now on. A second call does nothing.
    pub fn close(&mut self) {
        self.failed = Some(Error::closed("the join is closed"));
        self.intake.close();
        self.pending.clear();
        self.ready.clear();
        self.stores.iter_mut().for_each(|store| store.drop_before(u64::MAX));
    }
}

/// The number of the row of each side that has place 0.
fn first(engine: &dyn Engine) -> [u64; 2] {
    [engine.first(Side::Left), engine.first(Side::Right)]
}

impl Operator for StreamJoin {
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
        self.late_batches()
    }

    fn forget_late(&mut self, batches: usize) {
        self.intake.shared.late.forget(batches);
    }

    fn is_long(&mut self) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let kept = (self.engine.rows(Side::Left) + self.engine.rows(Side::Right)) as u64;
        let is_flushing = self.epoch.is_none() && (self.is_joining() || self.releasing);
        let rows = if self.is_joining() || self.releasing {
            self.engine.epoch_rows()
        } else {
            self.look_ahead();
            self.pending.iter().map(Planned::len).sum()
        };
        // All rows that are kept may come out without a match; those held back have not met all
        // others.
        let settles =
            self.how != How::Inner && (rows > 0 || self.settled != self.intake.watermark());
        let flushes = is_flushing || (self.engine.holds_back() && rows == 0);
        let rows = if flushes { kept as usize } else { rows };
        (settles && kept > LITTLE)
            || self.engine.comparisons_for(rows, self.plan.predicate.is_some()) > LITTLE
    }

    fn pause_by(&mut self, pause: &Stop) {
        self.driver = self.driver.pausing(pause);
    }

    fn step(&mut self) -> Result<Step> {
        self.step_on()
    }
}

/// The rows of a side in merged order, of its sources' runs; `sources` are those of all rows of
/// both sides.
fn side_rows(schema: &SchemaRef, runs: &[ReadyRun], sources: &[u16]) -> Result<RecordBatch> {
    let batches: Vec<RecordBatch> = runs.iter().map(ReadyRun::rows).collect();
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return Ok(RecordBatch::new_empty(schema.clone()));
    };
    if let [rows] = &batches[..] {
        return Ok(rows.clone());
    }
    if first.source == last.source {
        return Ok(concat_rows(schema, &batches)?);
    }
    // Where the next row of each source lies.
    let mut next: Vec<Place> = vec![NO_PLACE; usize::from(last.source - first.source) + 1];
    for (number, run) in runs.iter().enumerate().rev() {
        next[usize::from(run.source - first.source)] = (number as u32, 0);
    }
    let of_side = sources.iter().filter(|&source| (first.source..=last.source).contains(source));
    let places = of_side.map(|source| {
        let next = &mut next[usize::from(source - first.source)];
        let place = *next;
        let is_last = place.1 as usize + 1 == runs[place.0 as usize].len();
        *next = if is_last { (place.0 + 1, 0) } else { (place.0, place.1 + 1) };
        place
    });
    let places: Vec<Place> = places.collect();
    gather_batch(schema, &batches.iter().collect::<Vec<_>>(), &places)
}
