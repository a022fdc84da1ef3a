//! Joins of sources that are pushed to: all but the finding of pairs.
//!
//! ```text
//! sources ─▶ gate ─▶ ready rows of both sides ─▶ the engine finds which belong together ─▶ result batches ─▶ poll
//!                      └─▶ stores, until no later row can match them ────────────────────────┘
//! ```

pub(super) mod engine;
mod late;
mod maker;
mod state;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::online_join::{Progress, Results, SMALL_EPOCH, Side};
use tidegate_sync::Stop;

use super::Polled;
use super::intake::Intake;
use super::latency::Latency;
use super::news::News;
use super::ready::{Ready, Rest};
use super::source::{Source, SourceStats, Stream, gather_batch};
use super::store::Store;
use crate::interleave::{NO_PLACE, Place};
use crate::join::{JoinOptions, JoinPlan};
use crate::time::{self, Bound, Unit};
use crate::{Error, Result};
use engine::{Engine, KeptRows, Rows};
use maker::{Maker, cuts};

/// Rows of an epoch, at most, about: enough to share out among threads, few enough that their results come soon.
const EPOCH_ROWS: usize = 1 << 17;

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
    /// What decides the pairs, beside the options: names and values, for snapshots to be told apart by.
    pub(super) relation: Vec<(&'static str, String)>,
    pub(super) options: &'a JoinOptions,
    /// The time column of each side.
    pub(super) times: (usize, usize),
    pub(super) unit: Unit,
    pub(super) plan: JoinPlan,
    /// What the join does, for people.
    pub(super) explanation: String,
}

/// A join whose rows come in batches, from several sources a side.
#[derive(Debug)]
pub struct StreamJoin {
    /// What decides the results, as snapshots say it.
    query: String,
    explanation: String,
    times: (usize, usize),
    unit: Unit,
    plan: JoinPlan,
    left_sources: usize,
    intake: Intake,
    stores: [Store; 2],
    engine: Box<dyn Engine>,
    /// The last time of the epoch that is being joined, until its rows are let go of.
    epoch: Option<i64>,
    ready: VecDeque<RecordBatch>,
    driver: Driver,
    /// For work that is not worth waking other threads.
    alone: Driver,
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
    /// No row that was not joined yet is below it; none before all sources have made a promise, and at the end.
    pub watermark: Option<i64>,
    /// Left and right rows kept for later ones.
    pub state_rows: (usize, usize),
    /// Bytes of the state beside those rows.
    pub state_bytes: usize,
    /// Bytes that count towards the memory limit.
    pub memory: usize,
    /// Candidate pairs that each replica has looked at.
    pub comparisons: Vec<u64>,
    /// Seconds from the push of a row until its results were made: median, 99th percentile, greatest.
    pub latency: Option<(f64, f64, f64)>,
    /// Further numbers, with their names.
    pub numbers: Vec<(&'static str, u64)>,
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
        let Query { options: JoinOptions { threads, .. }, times, unit, plan, explanation, .. } = query;
        let stream = |schema: &SchemaRef, on, lateness| {
            Ok::<_, Error>(Stream { schema: schema.clone(), on, unit, lateness: time::lateness(lateness, unit)? })
        };
        let left_stream = stream(&left, times.0, options.lateness.0)?;
        let right_stream = stream(&right, times.1, options.lateness.1)?;
        let of_side = |side: &str, sources: usize, stream: Stream| -> Vec<(String, Stream)> {
            (0..sources).map(|number| (format!("{side} source {number}"), stream.clone())).collect()
        };
        let mut streams = of_side("left", options.sources.0, left_stream);
        streams.extend(of_side("right", options.sources.1, right_stream));
        Ok(StreamJoin {
            query: text,
            explanation,
            times,
            unit,
            plan,
            left_sources: options.sources.0,
            intake: Intake::new(streams, options.memory_limit)?,
            stores: [Store::new(left), Store::new(right)],
            engine,
            epoch: None,
            ready: VecDeque::new(),
            driver: Driver::lasting(*threads, Stop::default(), options.pin)
                .map_err(|error| Error::memory(format!("a thread could not be started: {error}")))?,
            alone: Driver::new(1, Stop::default()),
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
    pub fn explain(&self) -> &str {
        &self.explanation
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

    /// Hands out the next results that are final.
    pub fn poll(&mut self) -> Result<Polled> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.rows_out += batch.num_rows() as u64;
                return Ok(Polled::Batch(batch));
            }
            match self.step()? {
                Step::NotYet if self.ready.is_empty() => return Ok(Polled::NotYet),
                Step::End if self.ready.is_empty() => return Ok(Polled::End),
                Step::Went | Step::NotYet | Step::End => {}
            }
        }
    }

    /// Joins all that is ready, and keeps the results for later polls.
    fn catch_up(&mut self) -> Result<()> {
        while let Step::Went = self.step()? {}
        Ok(())
    }

    /// Goes one step on. What fails once stays so: rows would be missing in what follows.
    fn step(&mut self) -> Result<Step> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.try_step().inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn try_step(&mut self) -> Result<Step> {
        // 1. An epoch is joined until all of its results are made.
        if !self.engine.is_done() {
            self.advance()?;
            return Ok(Step::Went);
        }
        // 2. Its rows, and those before it, are let go of when no later row can match them.
        if let Some(last) = self.epoch.take() {
            self.settle(Some(last))?;
            self.latency.settle();
        }
        // 3. The next epoch is what is ready now.
        let (ready, rest) = self.intake.read(EPOCH_ROWS);
        if !ready.ts.is_empty() {
            self.begin(ready)?;
            return Ok(Step::Went);
        }
        // 4. Promises alone may settle that rows remain without a match.
        self.settle(if rest == Rest::End { None } else { self.intake.watermark() })?;
        Ok(if rest == Rest::End { Step::End } else { Step::NotYet })
    }

    /// Takes ready rows into the stores and begins to join them.
    fn begin(&mut self, ready: Ready) -> Result<()> {
        let side_of = |source: u16| if usize::from(source) < self.left_sources { Side::Left } else { Side::Right };
        let mut batches = self.stores.each_ref().map(|store| RecordBatch::new_empty(store.schema().clone()));
        for side in [Side::Left, Side::Right] {
            let places = places_of(&ready, |source| side_of(source) == side);
            if places.is_empty() {
                continue;
            }
            let store = &mut self.stores[side as usize];
            // The batches of the other side have other columns.
            let (used, none) = (used_batches(&ready, &places), &batches[side as usize]);
            let of_side: Vec<&RecordBatch> =
                ready.batches.iter().zip(&used).map(|(batch, used)| if *used { batch } else { none }).collect();
            let rows = gather_batch(store.schema(), &of_side, &places)?;
            let charges = ready.charges.iter().zip(&used).filter(|(_, used)| **used);
            store.push(rows.clone(), charges.map(|(charge, _)| charge.clone()).collect())?;
            batches[side as usize] = rows;
        }
        self.latency.begin(&ready);
        self.epoch = ready.ts.last().copied();
        let sides = ready.sources.iter().map(|&source| side_of(source)).collect();
        self.engine.begin(Rows { ts: ready.ts, sides, batches: &batches })
    }

    fn advance(&mut self) -> Result<()> {
        let kept = KeptRows { plan: &self.plan, stores: &self.stores, first: first(&*self.engine) };
        match self.engine.advance(&self.driver, &kept)? {
            Progress::Results(results) => self.make(&results),
            Progress::Pieces(pieces) => {
                let (engine, maker) = (&*self.engine, Maker(self.kept()));
                let work = |rows| maker.batches(&engine.assemble(rows));
                let made = self.driver_for(engine.epoch_rows()).map(pieces, work)?;
                self.keep(made)
            }
        }
    }

    /// Makes the rows whose time is over, and lets go of all that no row at `now` or later can match.
    fn settle(&mut self, now: Option<i64>) -> Result<()> {
        let results = self.engine.unmatched(now);
        self.make(&results)?;
        self.engine.purge(now);
        for side in [Side::Left, Side::Right] {
            self.stores[side as usize].drop_before(self.engine.first(side));
        }
        Ok(())
    }

    /// Makes the batches of results.
    fn make(&mut self, results: &Results) -> Result<()> {
        let maker = Maker(self.kept());
        let made = self
            .driver_for(results.left.len())
            .map(cuts(results), |rows| maker.batch(results, rows).map(|batch| vec![batch]))?;
        self.keep(made)
    }

    /// What does the work of so many rows: the caller alone, or all threads.
    fn driver_for(&self, rows: usize) -> &Driver {
        if rows < SMALL_EPOCH { &self.alone } else { &self.driver }
    }

    fn kept(&self) -> KeptRows<'_> {
        KeptRows { plan: &self.plan, stores: &self.stores, first: first(&*self.engine) }
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
            state_bytes: self.engine.memory(),
            memory: self.intake.shared.budget.used(),
            comparisons: self.engine.comparisons(),
            latency: self.latency.summary(),
            numbers: self.engine.numbers(),
        }
    }

    /// Drops what is held; sources and polls fail from now on. A second call does nothing.
    pub fn close(&mut self) {
        self.failed = Some(Error::closed("the join is closed"));
        self.intake.close();
        self.ready.clear();
        self.stores.iter_mut().for_each(|store| store.drop_before(u64::MAX));
    }
}

/// The number of the row of each side that has place 0.
fn first(engine: &dyn Engine) -> [u64; 2] {
    [engine.first(Side::Left), engine.first(Side::Right)]
}

/// How far a step went; it may have made results whatever it says.
enum Step {
    Went,
    NotYet,
    End,
}

/// The places of the rows of some sources.
fn places_of(ready: &Ready, of: impl Fn(u16) -> bool) -> Vec<Place> {
    // Without a branch on the source, which nothing could predict: others' places are written over.
    let mut places = vec![NO_PLACE; ready.places.len() + 1];
    let mut at = 0;
    for (&place, &source) in ready.places.iter().zip(&ready.sources) {
        places[at] = place;
        at += usize::from(of(source));
    }
    places.truncate(at);
    places
}

/// Which batches have rows at these places.
fn used_batches(ready: &Ready, places: &[Place]) -> Vec<bool> {
    let mut used = vec![false; ready.batches.len()];
    places.iter().for_each(|&(batch, _)| used[batch as usize] = true);
    used
}
