//! The interval join of sources that are pushed to.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_array::new_null_array;
use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, UInt16Array, UInt64Array,
};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::interleave::interleave as interleave_arrays;
use tidegate_operators::driver::Driver;
use tidegate_operators::matches::How;
use tidegate_operators::online_join::{Failed, OnlineJoin, Parallelism, Progress, Results, SMALL_EPOCH, Side};
use tidegate_sync::Stop;

use super::Polled;
use super::explanation::explain;
use super::intake::Intake;
use super::interval_join_state::describe;
use super::keys::KeyNumbers;
use super::late::Late;
use super::latency::Latency;
use super::news::News;
use super::ready::{Ready, Rest};
use super::source::{Source, SourceStats, Stream, gather_batch};
use super::store::Store;
use crate::expression::{self, Predicate};
use crate::interleave::{NO_PLACE, Place};
use crate::interval_join::{IntervalJoin, Plan};
use crate::schema::{OutputColumn, Shape};
use crate::time::{self, Bound, Unit};
use crate::{Error, Result};

/// Rows of an epoch, at most, about: enough to share out among threads, few enough that their results come soon.
const EPOCH_ROWS: usize = 1 << 17;

/// Rows of a result batch: a thread's piece of an epoch's results. Where results are cut depends on nothing else.
const BATCH_ROWS: usize = 1 << 14;

/// What an incremental interval join is asked for, beside the query.
#[derive(Clone, Debug)]
pub struct OnlineOptions {
    /// The number of left and of right sources.
    pub sources: (usize, usize),
    /// How far the rows of a left and of a right source may be out of order.
    pub lateness: (Option<Bound>, Option<Bound>),
    /// How keys are assigned to threads.
    pub parallelism: Parallelism,
    /// Bytes that may be held; no limit if none is said.
    pub memory_limit: Option<usize>,
    /// Whether results come in the contract's order, or in any.
    pub ordered: bool,
    /// Whether each thread stays on a processor of its own.
    pub pin: bool,
}

/// An interval join whose rows come in batches, from several sources a side.
#[derive(Debug)]
pub struct OnlineIntervalJoin {
    pub(super) plan: Plan,
    /// What decides the results, as snapshots say it.
    pub(super) query: String,
    explanation: String,
    pub(super) left_sources: usize,
    pub(super) intake: Intake,
    pub(super) keys: KeyNumbers,
    pub(super) stores: [Store; 2],
    pub(super) join: OnlineJoin,
    /// The last time of the epoch that is being joined, until its rows are let go of.
    epoch: Option<i64>,
    pub(super) ready: VecDeque<RecordBatch>,
    driver: Driver,
    /// For work that is not worth waking other threads.
    alone: Driver,
    latency: Latency,
    pub(super) rows_out: u64,
    /// Why the join cannot go on.
    failed: Option<Error>,
}

/// Numbers that describe an incremental interval join so far.
#[derive(Clone, Debug)]
pub struct OnlineStats {
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
    /// Keys on more than one replica.
    pub split_keys: usize,
    /// Seconds from the push of a row until its results were made: median, 99th percentile, greatest.
    pub latency: Option<(f64, f64, f64)>,
}

impl OnlineIntervalJoin {
    /// A join of rows of these schemas.
    pub fn new(query: &IntervalJoin, left: SchemaRef, right: SchemaRef, options: &OnlineOptions) -> Result<Self> {
        let plan = query.plan(&left, &right)?;
        let stream = |schema: &SchemaRef, on, lateness| {
            Ok::<_, Error>(Stream {
                schema: schema.clone(),
                on,
                unit: plan.unit,
                lateness: time::lateness(lateness, plan.unit)?,
            })
        };
        let left_stream = stream(&left, plan.times.0, options.lateness.0)?;
        let right_stream = stream(&right, plan.times.1, options.lateness.1)?;
        let of_side = |side: &str, sources: usize, stream: Stream| -> Vec<(String, Stream)> {
            (0..sources).map(|number| (format!("{side} source {number}"), stream.clone())).collect()
        };
        let mut streams = of_side("left", options.sources.0, left_stream);
        streams.extend(of_side("right", options.sources.1, right_stream));
        Ok(OnlineIntervalJoin {
            query: describe(query, &left, &right, options),
            explanation: explain(query, &plan, options),
            left_sources: options.sources.0,
            intake: Intake::new(streams, options.memory_limit)?,
            keys: KeyNumbers::new(plan.join.keys.clone()),
            stores: [Store::new(left), Store::new(right)],
            join: OnlineJoin::new(
                &plan.interval,
                query.options.how,
                options.parallelism,
                query.options.threads,
                options.ordered,
            ),
            epoch: None,
            ready: VecDeque::new(),
            driver: Driver::lasting(query.options.threads, Stop::default(), options.pin)
                .map_err(|error| Error::memory(format!("a thread could not be started: {error}")))?,
            alone: Driver::new(1, Stop::default()),
            latency: Latency::default(),
            rows_out: 0,
            failed: None,
            plan,
        })
    }

    /// The schema of the results.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.join.schema
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
    pub(super) fn catch_up(&mut self) -> Result<()> {
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
        if !self.join.is_done() {
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

    /// Takes ready rows into the state and begins to join them.
    fn begin(&mut self, ready: Ready) -> Result<()> {
        let side_of = |source: u16| if usize::from(source) < self.left_sources { Side::Left } else { Side::Right };
        let mut numbers = [Vec::new(), Vec::new()];
        for side in [Side::Left, Side::Right] {
            let places = places_of(&ready, |source| side_of(source) == side);
            if places.is_empty() {
                continue;
            }
            let store = &mut self.stores[side as usize];
            // The batches of the other side have other columns.
            let (used, none) = (used_batches(&ready, &places), RecordBatch::new_empty(store.schema().clone()));
            let batches: Vec<&RecordBatch> =
                ready.batches.iter().zip(&used).map(|(batch, used)| if *used { batch } else { &none }).collect();
            let rows = gather_batch(store.schema(), &batches, &places)?;
            numbers[side as usize] = self.keys.of(side, &rows)?;
            let charges = ready.charges.iter().zip(&used).filter(|(_, used)| **used);
            store.push(rows, charges.map(|(charge, _)| charge.clone()).collect())?;
        }
        self.latency.begin(&ready);
        self.epoch = ready.ts.last().copied();
        let sides = ready.sources.iter().map(|&source| side_of(source)).collect();
        let [left, right] = &numbers;
        self.join.begin(ready.ts, sides, [left, right]);
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        let (stores, first) = (&self.stores, [self.join.first(Side::Left), self.join.first(Side::Right)]);
        let keep = |predicate: &Predicate, left: &[u32], right: &[u32]| {
            let columns = |side: Side, of: expression::Side, numbers: &[u32]| {
                let at = side as usize;
                let offset = |&number: &u32| number.wrapping_sub(first[at] as u32);
                let places = stores[at].places(first[at], &numbers.iter().map(offset).collect::<Vec<_>>());
                let column = |&column: &usize| stores[at].column(column, &places);
                predicate.columns(of).iter().map(column).collect::<Result<Vec<_>, _>>()
            };
            let left_columns = columns(Side::Left, expression::Side::Left, left)?;
            let right_columns = columns(Side::Right, expression::Side::Right, right)?;
            Ok::<_, Error>(predicate.evaluate(&left_columns, &right_columns, left.len())?.iter().collect())
        };
        let progress = match &self.plan.join.predicate {
            None => self.join.advance::<Error>(&self.driver, None),
            Some(predicate) => self.join.advance(&self.driver, Some(&|left, right| keep(predicate, left, right))),
        };
        let progress = progress.map_err(|failed| match failed {
            Failed::Stopped(stopped) => stopped.into(),
            Failed::Filter(error) => error,
        })?;
        match progress {
            Progress::Results(results) => self.make(&results),
            Progress::Pieces(pieces) => {
                let (join, maker) = (&self.join, self.maker());
                let made =
                    self.driver_for(join.epoch_rows()).map(pieces, |rows| maker.batches(&join.assemble(rows)))?;
                self.keep(made)
            }
        }
    }

    /// Makes the rows whose time is over, and lets go of all that no row at `now` or later can match.
    fn settle(&mut self, now: Option<i64>) -> Result<()> {
        let results = self.join.unmatched(now);
        self.make(&results)?;
        self.keys.release(&self.join.purge(now));
        for side in [Side::Left, Side::Right] {
            self.stores[side as usize].drop_before(self.join.first(side));
        }
        Ok(())
    }

    /// Makes the batches of results.
    fn make(&mut self, results: &Results) -> Result<()> {
        let maker = self.maker();
        let made = self
            .driver_for(results.left.len())
            .map(cuts(results), |rows| maker.batch(results, rows).map(|batch| vec![batch]))?;
        self.keep(made)
    }

    /// What does the work of so many rows: the caller alone, or all threads.
    fn driver_for(&self, rows: usize) -> &Driver {
        if rows < SMALL_EPOCH { &self.alone } else { &self.driver }
    }

    fn maker(&self) -> Maker<'_> {
        let first = [self.join.first(Side::Left), self.join.first(Side::Right)];
        Maker { plan: &self.plan, stores: &self.stores, first }
    }

    fn keep(&mut self, made: Vec<Result<Vec<RecordBatch>>>) -> Result<()> {
        for batches in made {
            self.ready.extend(batches?);
        }
        Ok(())
    }

    /// The columns of late rows: side, source, position and missed watermark, then all columns of a full join.
    fn late_columns(&self) -> Result<(Vec<OutputColumn>, SchemaRef)> {
        let [left, right] = [self.stores[0].schema(), self.stores[1].schema()];
        let shape = Shape { how: How::Full, keys: &self.plan.join.keys, suffix: "_right", columns: None };
        let (columns, schema) = shape.output(left, right)?;
        let of_late = [
            Field::new("late_side", DataType::Utf8, false),
            Field::new("late_source", DataType::UInt16, false),
            Field::new("late_position", DataType::UInt64, false),
            Field::new("late_watermark", self.watermark_type(), true),
        ];
        let nullable = |field: &FieldRef| Arc::new(Field::clone(field).with_nullable(true));
        let fields: Vec<FieldRef> =
            of_late.into_iter().map(Arc::new).chain(schema.fields().iter().map(nullable)).collect();
        Ok((columns, Arc::new(Schema::new(fields))))
    }

    /// The type of the side with the finer unit, or `int64` for integers.
    fn watermark_type(&self) -> DataType {
        let [left, right] = [(0, self.plan.times.0), (1, self.plan.times.1)]
            .map(|(side, at)| self.stores[side].schema().field(at).clone());
        match self.plan.unit {
            Unit::Integer => DataType::Int64,
            unit if Unit::of("left", &left).is_ok_and(|of_left| of_left == unit) => left.data_type().clone(),
            _ => right.data_type().clone(),
        }
    }

    /// The late rows that were not taken yet, by source and position; the columns of the other side are null.
    pub fn late(&self) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        let (columns, schema) = self.late_columns()?;
        let batch = |late: Late| {
            let rows = late.rows.num_rows();
            let is_left = usize::from(late.source) < self.left_sources;
            let (side, before) = if is_left { ("left", 0) } else { ("right", self.left_sources as u16) };
            let mut arrays: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from(vec![side; rows])),
                Arc::new(UInt16Array::from(vec![late.source - before; rows])),
                Arc::new(UInt64Array::from(late.positions)),
                cast(&Int64Array::from(late.watermarks), schema.field(3).data_type())?,
            ];
            for (column, field) in columns.iter().zip(&schema.fields()[4..]) {
                let own = match *column {
                    OutputColumn::Left(at) | OutputColumn::Either(at, _) if is_left => Some(at),
                    OutputColumn::Right(at) | OutputColumn::Either(_, at) if !is_left => Some(at),
                    _ => None,
                };
                arrays.push(match own {
                    Some(at) => as_type(late.rows.column(at).clone(), field.data_type())?,
                    None => new_null_array(field.data_type(), rows),
                });
            }
            Ok(RecordBatch::try_new(schema.clone(), arrays)?)
        };
        let batches = self.intake.shared.late.take().into_iter().map(batch).collect::<Result<_>>()?;
        Ok((batches, schema))
    }

    /// Numbers that describe the join so far.
    pub fn stats(&self) -> OnlineStats {
        OnlineStats {
            sources: self.intake.stats(),
            rows_out: self.rows_out,
            watermark: self.intake.watermark().filter(|&watermark| watermark > i64::MIN),
            state_rows: (self.join.rows(Side::Left), self.join.rows(Side::Right)),
            state_bytes: self.join.memory(),
            memory: self.intake.shared.budget.used(),
            comparisons: self.join.comparisons(),
            split_keys: self.join.split_keys(),
            latency: self.latency.summary(),
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

/// Makes result rows of the state's.
struct Maker<'a> {
    plan: &'a Plan,
    stores: &'a [Store; 2],
    /// The number of the row of each side that has offset 0.
    first: [u64; 2],
}

impl Maker<'_> {
    fn batches(&self, results: &Results) -> Result<Vec<RecordBatch>> {
        cuts(results).into_iter().map(|rows| self.batch(results, rows)).collect()
    }

    fn batch(&self, results: &Results, rows: Range<usize>) -> Result<RecordBatch> {
        let left = &results.left[rows.clone()];
        // Results of semi and anti joins have no right rows.
        let right = results.right.get(rows).unwrap_or_default();
        let places = |side: Side, rows: &[u32]| self.stores[side as usize].places(self.first[side as usize], rows);
        let (left_places, right_places) = (places(Side::Left, left), places(Side::Right, right));
        let [left_store, right_store] = self.stores;
        let column = |(column, field): (&OutputColumn, &FieldRef)| match *column {
            OutputColumn::Left(at) => left_store.column(at, &left_places),
            OutputColumn::Right(at) => right_store.column(at, &right_places),
            OutputColumn::Either(l, r) => {
                let of_left = as_type(left_store.column(l, &left_places)?, field.data_type())?;
                let of_right = as_type(right_store.column(r, &right_places)?, field.data_type())?;
                either(&of_left, &of_right, &left_places)
            }
        };
        let columns = self.plan.join.columns.iter().zip(self.plan.join.schema.fields()).map(column);
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(left.len()));
        Ok(RecordBatch::try_new_with_options(self.plan.join.schema.clone(), columns, &options)?)
    }
}

/// The rows of each batch of results.
fn cuts(results: &Results) -> Vec<Range<usize>> {
    let rows = results.left.len();
    (0..rows).step_by(BATCH_ROWS).map(|from| from..rows.min(from + BATCH_ROWS)).collect()
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

fn as_type(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type { Ok(array) } else { cast(&array, data_type) }
}

/// The left value where there is a left row, the right one elsewhere.
fn either(left: &ArrayRef, right: &ArrayRef, left_places: &[Place]) -> Result<ArrayRef, ArrowError> {
    let place = |(at, &place): (usize, &Place)| (usize::from(place == NO_PLACE), at);
    let places: Vec<(usize, usize)> = left_places.iter().enumerate().map(place).collect();
    let arrays: [&dyn Array; 2] = [left, right];
    interleave_arrays(&arrays, &places)
}
