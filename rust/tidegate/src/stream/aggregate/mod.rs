//! Aggregates over sliding windows of sources that are pushed to.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `rows.rs`, `groups.rs` | the rows of an epoch; their keys in order |
//! | `chosen.rs` | the rows that functions have chosen |
//! | `ordered.rs` | text and decimals as numbers in their order |
//! | `state.rs` | the state as bytes |

mod chosen;
mod groups;
mod ordered;
mod rows;
mod state;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use parking_lot::Mutex;
use tidegate_operators::aggregate::{Bounds, OnlineAggregate, OnlineSessions, OnlineWindows, Page};
use tidegate_operators::driver::Driver;
use tidegate_structures::gate::Planned;
use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;
use tidegate_sync::Stop;

use super::explanation::Explanation;
use super::intake::Intake;
use super::intake::late::late_schema;
use super::intake::latency::Latency;
use super::intake::news::News;
use super::intake::ready::{Rest, plan};
use super::intake::source::{ROW_BYTES, Source, SourceRun, SourceStats, Stream};
use super::memory::{Charge, Memory};
use super::{Operator, Step};
use crate::aggregate::columns::{Columns, Extent};
use crate::aggregate::output::Output;
use crate::aggregate::streams::Streams;
use crate::background::lasting;
use crate::columns::table::Table;
use crate::columns::time::{self, Bound, Int64s};
use crate::query::aggregate::plan::{Plan, Span, design};
use crate::query::aggregate::{Aggregation, Design};
use crate::{Error, Result};
use chosen::Rows;
use groups::{GROUP_BYTES, Groups};
use ordered::OrderedColumns;
use state::describe;

/// Rows of an epoch, at most, about: enough to share out among threads, few enough that their
/// results come soon.
const EPOCH_ROWS: usize = 1 << 18;

/// Rows, and bytes of state, of which the work is not done at once: it takes some milliseconds.
const MANY_ROWS: usize = 1 << 15;
const MUCH_STATE: usize = 1 << 24;

/// Bytes of a state that is not worth making anew.
const LEAST_COMPACTED: usize = 1 << 16;

/// Pages of results that are made at a time: those of a long row of windows should not all be held
/// at once.
const PAGES: usize = 8;

/// What an incremental aggregation is asked for, beside the query.
#[derive(Clone, Debug)]
pub struct AggregateOptions {
    /// The number of sources.
    pub sources: usize,
    /// How far the rows of a source may be out of order.
    pub lateness: Option<Bound>,
    /// Bytes that may be held; no limit if none is said.
    pub memory_limit: Option<usize>,
}

/// Aggregates of rows that come in batches, from several sources.
#[derive(Debug)]
pub struct OnlineAggregation {
    /// Of the columns that are read.
    pub(super) plan: Plan,
    /// What decides the results, as snapshots say it.
    pub(super) query: String,
    explanation: Explanation,
    pub(super) stream: Stream,
    /// The columns of the stream that are read.
    pub(super) read: Vec<usize>,
    /// Those of `plan.read` that are keys.
    pub(super) by: Vec<usize>,
    pub(super) intake: Intake,
    pub(super) groups: Groups,
    pub(super) rows: Rows,
    /// For each aggregate that chooses a row, its column among those of `rows`.
    chosen: Vec<Option<usize>>,
    /// The columns of which the smallest or the largest value is chosen, and that are no numbers.
    pub(super) ordered: OrderedColumns,
    pub(super) windows: Box<dyn OnlineWindows>,
    algorithm: Design,
    /// Rows taken from the gate and not aggregated yet.
    pending: Vec<Planned<SourceRun>>,
    /// How their reading ended.
    rest: Rest,
    pub(super) ready: VecDeque<RecordBatch>,
    /// What the state has been charged.
    pub(super) charge: Option<Charge>,
    driver: Driver,
    /// For what is done once.
    pub(super) alone: Driver,
    pub(super) rows_out: u64,
    latency: Latency,
    /// Why the aggregation cannot go on.
    pub(super) failed: Option<Error>,
}

/// Numbers that describe an incremental aggregation so far.
#[derive(Clone, Debug)]
pub struct AggregateStats {
    /// Its sources.
    pub sources: Vec<SourceStats>,
    /// Result rows handed out.
    pub rows_out: u64,
    /// No row that was not aggregated yet is below it; none before all sources have made a promise,
    /// and at the end.
    pub watermark: Option<i64>,
    /// Seconds from a row's push until it was aggregated, and what was final then was made: median,
    /// 99th percentile and maximum; none before the first row.
    pub latency: Option<(f64, f64, f64)>,
    /// Keys that the state knows.
    pub state_keys: usize,
    /// States of each aggregate: one for each key and slice, and for each source where more rows
    /// may come.
    pub state_cells: usize,
    /// Bytes of the state.
    pub state_bytes: usize,
    /// Bytes that count towards the memory limit.
    pub memory: usize,
    /// Bytes that may be held; no limit if there is none.
    pub memory_limit: Option<usize>,
}

/// Windows without rows, of so many sources of this schema.
fn empty(
    plan: &Plan,
    schema: &Schema,
    sources: usize,
    algorithm: Design,
) -> Result<Box<dyn OnlineWindows>> {
    let alone = Driver::new(1, Stop::default());
    let none = Table::from(schema);
    let none = (0..sources).map(|_| (none.clone(), Int64s::Own(Pages::default())));
    let streams = Streams::alike(none.collect(), plan, &alone)?;
    let codes = vec![None; plan.outputs.len()];
    let columns = Columns::new(&streams, plan, Extent::Stream(&codes), &alone)?;
    Ok(online(&plan.span, sources, &columns.aggregates(), algorithm))
}

impl OnlineAggregation {
    /// An aggregation of rows of this schema.
    pub fn new(query: &Aggregation, schema: SchemaRef, options: &AggregateOptions) -> Result<Self> {
        let of_schema = |schema: &Schema| Plan::new(query, &[("stream".to_owned(), schema)]);
        let whole = of_schema(&schema)?;
        let read = whole.tables[0].every();
        let stream = Stream {
            on: whole.tables[0].time,
            unit: whole.unit,
            lateness: time::lateness(options.lateness, whole.unit)?,
            schema: schema.clone(),
        };
        let plan = of_schema(&schema.project(&read)?)?;
        let streams = (0..options.sources)
            .map(|number| (format!("source {number}"), stream.clone()))
            .collect();
        let alone = Driver::new(1, Stop::default());
        let windows = empty(
            &plan,
            &schema.project(&read)?,
            options.sources,
            query.algorithm.unwrap_or_default(),
        )?;
        let ordered = OrderedColumns::new(&plan)?;
        // What a row may add to the state is charged with the row, so that the state always has
        // room for it.
        let row_bytes = ROW_BYTES + windows.row_bytes() + GROUP_BYTES + ordered.row_bytes();
        let (chosen, rows) = chosen(&plan)?;
        let by: Vec<usize> = plan.by.iter().map(|key| key.right).collect();
        Ok(OnlineAggregation {
            query: describe(query, &schema, options),
            explanation: explain(query, &plan, options, row_bytes),
            intake: Intake::new(
                streams,
                Memory::new(options.memory_limit, options.sources, true),
                row_bytes,
            )?,
            groups: Groups::new(Arc::new(plan.read.project(&by)?))?,
            algorithm: query.algorithm.unwrap_or_default(),
            rows: Rows::new(rows),
            chosen,
            ordered,
            windows,
            pending: Vec::new(),
            rest: Rest::More,
            ready: VecDeque::new(),
            charge: None,
            driver: lasting(query.threads, false)?,
            alone,
            rows_out: 0,
            latency: Latency::default(),
            failed: None,
            stream,
            read,
            by,
            plan,
        })
    }

    /// The schema of the results.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.schema
    }

    /// What the aggregation does, for people.
    pub fn explain(&self) -> String {
        self.explanation.text(&self.intake.shared.memory)
    }

    /// What is held, and how much may be.
    pub fn memory(&self) -> Memory {
        self.intake.shared.memory.clone()
    }

    /// The sources, by number.
    pub fn sources(&self) -> &[Arc<Mutex<Source>>] {
        &self.intake.sources
    }

    /// What wakes whoever waits for a source.
    pub fn news(&self) -> Arc<News> {
        self.intake.shared.news.clone()
    }

    /// Goes one step on. What fails once stays so, but for memory that is short: rows would be
    /// missing in what follows.
    fn step_on(&mut self) -> Result<Step> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        // Nothing has been begun yet.
        memory::ready()?;
        match Error::catch_unwound(|| self.try_step()) {
            Ok(done) => {
                done.inspect_err(|error| self.failed = (!error.is_memory()).then(|| error.clone()))
            }
            Err(error) => Err(self.failed.insert(error.of_operator()).clone()),
        }
    }

    fn try_step(&mut self) -> Result<Step> {
        // 1. The windows that are complete.
        if self.make()? {
            return Ok(Step::Went);
        }
        self.latency.settle();
        // 2. The next epoch is what is ready now.
        self.look_ahead();
        let rest = self.rest;
        if !self.pending.is_empty() {
            let rows: usize = self.pending.iter().map(Planned::len).sum();
            let driver = self.driver.fit(rows);
            driver.within(|| self.take_in(&driver).and_then(|()| self.make()))?;
            return Ok(Step::Went);
        }
        // 3. Promises alone may complete windows.
        match (rest, self.intake.watermark()) {
            (Rest::End, _) => self.windows.finish(&self.driver)?,
            (_, Some(watermark)) => self.windows.advance(watermark, &self.driver)?,
            (_, None) => {}
        }
        if self.make()? {
            return Ok(Step::Went);
        }
        if self.intake.shared.memory.is_short() {
            self.compact()?;
        }
        Ok(if rest == Rest::End { Step::End } else { Step::NotYet })
    }

    /// Takes what is ready now from the gate, unless there is something already.
    fn look_ahead(&mut self) {
        if self.pending.is_empty()
            && let Some(reader) = self.intake.reader()
        {
            (self.pending, self.rest) = plan(reader, EPOCH_ROWS);
        }
    }

    /// Adds the rows that are pending.
    fn take_in(&mut self, driver: &Driver) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let pieces = pending.iter().flat_map(Planned::pieces);
        self.latency.begin(pieces.map(|(pushed, rows)| (pushed.run.pushed, rows.len() as u64)));
        let charges: Vec<Arc<Charge>> = pending
            .iter()
            .flat_map(Planned::pieces)
            .map(|(pushed, _)| pushed.run.charge.clone())
            .collect();
        let tables = self.tables(&pending, driver)?;
        let streams = Streams::alike(tables, &self.plan, driver)?;
        drop(pending);
        streams.check_windows(&self.plan)?;
        let batches = streams.table.batches().iter().map(|batch| batch.project(&self.by));
        let keys = self.groups.of(&batches.collect::<Result<Vec<_>, _>>()?, driver)?;
        let codes = self.ordered.codes(&streams.table, &mut *self.windows, driver)?;
        let columns = Columns::new(&streams, &self.plan, Extent::Stream(&codes), driver)?;
        let firsts = self.choose_from(&streams)?;
        let sources = streams.sources((!self.by.is_empty()).then_some(&keys));
        self.windows.add(&sources, self.groups.count(), &firsts, &columns.aggregates(), driver)?;
        self.tidy(charges)
    }

    /// Lets go of rows and groups that no state needs, and charges the state what it takes; the
    /// rows that were added have been charged so far.
    fn tidy(&mut self, charges: Vec<Arc<Charge>>) -> Result<()> {
        let mut added = charges;
        if !self.rows.is_needless() {
            self.rows.hold(added.drain(..));
            if self.rows.is_due() || self.intake.shared.memory.is_short() {
                self.gather_chosen()?;
            }
        }
        if self.groups.is_due() {
            self.groups.release(&self.windows.is_used());
        }
        self.ordered.tidy(&mut *self.windows);
        // Before the rows are let go of, so that no source takes the room between.
        self.charge_state();
        drop(added);
        self.check_limit()
    }

    /// Tells that the state has outgrown the limit. All that was pushed is in it.
    fn check_limit(&self) -> Result<()> {
        let memory = &self.intake.shared.memory;
        match memory.limit() {
            Some(limit) if memory.held() > limit => Err(Error::memory(format!(
                "the state has grown to {} bytes, so that {} are held and memory_limit = {limit}; no row is lost: poll \
                 again, close or advance sources so that windows end, or raise the limit",
                self.state_bytes(),
                memory.held()
            ))),
            _ => Ok(()),
        }
    }

    /// Charges the state what it takes now.
    pub(super) fn charge_state(&mut self) {
        let bytes = self.state_bytes();
        let held = self.charge.as_ref().map_or(0, Charge::bytes);
        match (&mut self.charge, bytes.checked_sub(held)) {
            (Some(charge), None) => drop(charge.split(held - bytes)),
            (_, Some(0) | None) => {}
            (_, Some(more)) => {
                let more = self.intake.shared.memory.charge_state(more);
                self.hold(more);
            }
        }
    }

    /// Makes windows and groups anew where few of their states are left: they keep the memory of
    /// those that are gone.
    fn compact(&mut self) -> Result<()> {
        let left = self.windows.cells() * self.windows.row_bytes();
        if self.state_bytes() < LEAST_COMPACTED || self.windows.bytes() < 4 * left {
            return Ok(());
        }
        let used = self.windows.is_used();
        let is_used = |&number: &u32| used.get(number as usize).copied().unwrap_or(false);
        let former: Vec<u32> = self.groups.order().keys.iter().copied().filter(is_used).collect();
        let mut saved = self.windows.save();
        if !self.by.is_empty() {
            let mut groups = Groups::new(self.groups.schema().clone())?;
            let numbers = groups.of(&[self.groups.table(&former)?], &self.alone)?;
            let number: HashMap<u32, u32> = former.into_iter().zip(numbers).collect();
            saved.for_each_key(|key| *key = number[key]);
            self.groups = groups;
        }
        self.windows = self.no_windows()?;
        let bounds = Bounds { rows: u64::MAX, chosen: self.rows.len() as u32, next: None };
        if !self.windows.restore(saved, &bounds) {
            return Err(Error::bug("windows go on from their own state"));
        }
        self.charge_state();
        Ok(())
    }

    fn hold(&mut self, more: Charge) {
        match &mut self.charge {
            None => self.charge = Some(more),
            Some(charge) => charge.merge(more),
        }
    }

    fn state_bytes(&self) -> usize {
        state_bytes(&*self.windows, &self.groups, &self.ordered, &self.rows)
    }

    /// Windows without rows.
    pub(super) fn no_windows(&self) -> Result<Box<dyn OnlineWindows>> {
        let schema = self.stream.schema.project(&self.read)?;
        empty(&self.plan, &schema, self.intake.sources.len(), self.algorithm)
    }

    /// Makes the results of the next windows that are complete; whether there are any.
    fn make(&mut self) -> Result<bool> {
        let mut pages = self.windows.pages(PAGES, self.groups.order(), &self.driver)?;
        if pages.is_empty() {
            return Ok(false);
        }
        let rows: usize = pages.iter().map(|page| page.rows).sum();
        let of_rows = self.chosen.iter().map(|at| at.map(|at| self.rows.column(at))).collect();
        for page in &mut pages {
            self.ordered.ranks(page);
        }
        let ranked = self.ordered.values()?;
        let output = Output { plan: &self.plan, keys: self.groups.columns()?, ranked, of_rows };
        let made = self.driver.fit(rows).map(pages, |page: Page| output.batch(page))?;
        for batch in made {
            self.ready.push_back(batch?);
        }
        Ok(true)
    }

    /// Numbers that describe the aggregation so far.
    pub fn stats(&self) -> AggregateStats {
        AggregateStats {
            sources: self.intake.stats(),
            rows_out: self.rows_out,
            watermark: self.intake.watermark().filter(|&watermark| watermark > i64::MIN),
            latency: self.latency.summary(),
            state_keys: self.groups.len(),
            state_cells: self.windows.cells(),
            state_bytes: self.state_bytes(),
            memory: self.intake.shared.memory.held(),
            memory_limit: self.intake.shared.memory.limit(),
        }
    }

    /// Drops what is held; sources and polls fail from now on. A second call does nothing.
    pub fn close(&mut self) {
        self.failed = Some(Error::closed("the aggregation is closed"));
        self.pending.clear();
        self.intake.close();
        self.ready.clear();
        self.charge = None;
    }
}

/// The bytes of a state.
pub(super) fn state_bytes(
    windows: &dyn OnlineWindows,
    groups: &Groups,
    ordered: &OrderedColumns,
    rows: &Rows,
) -> usize {
    windows.bytes() + groups.memory() + ordered.memory() + rows.memory()
}

/// The windows of a query.
fn online(
    span: &Span,
    sources: usize,
    aggregates: &[tidegate_operators::aggregate::Aggregate<'_>],
    algorithm: Design,
) -> Box<dyn OnlineWindows> {
    match span {
        Span::Windows(windows) => {
            Box::new(OnlineAggregate::new(*windows, sources, aggregates, algorithm))
        }
        Span::Sessions(gap) => Box::new(OnlineSessions::new(*gap, aggregates)),
    }
}

impl Operator for OnlineAggregation {
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
        if self.failed.is_some() {
            return false;
        }
        self.look_ahead();
        self.pending.iter().map(Planned::len).sum::<usize>() > MANY_ROWS
            || self.state_bytes() > MUCH_STATE
    }

    fn pause_by(&mut self, pause: &Stop) {
        self.driver = self.driver.pausing(pause);
    }

    fn step(&mut self) -> Result<Step> {
        self.step_on()
    }
}

/// For each aggregate that chooses a row, its column among those to choose from, and the schema of
/// these.
fn chosen(plan: &Plan) -> Result<(Vec<Option<usize>>, SchemaRef)> {
    let mut columns: Vec<usize> =
        plan.outputs.iter().filter_map(|output| output.chosen()).collect();
    columns.sort_unstable();
    columns.dedup();
    let place = |at: usize| columns.binary_search(&at).expect("it is one of them");
    let places = plan.outputs.iter().map(|output| output.chosen().map(place)).collect();
    Ok((places, Arc::new(plan.read.project(&columns)?)))
}

fn explain(
    query: &Aggregation,
    plan: &Plan,
    options: &AggregateOptions,
    row_bytes: usize,
) -> Explanation {
    let mut lines = plan.describe(query);
    let (algorithm, memory, order) = match plan.span {
        Span::Windows(_) => (
            format!("{}; a result is one combination", design(query.algorithm)),
            "8 to 32 bytes an aggregate, key and slice of two windows, 4 bytes a source and key",
            "by window, then key, once no row can fall in it",
        ),
        Span::Sessions(_) => (
            "rows in merged order find their sessions; O(log sessions) for each gap that one lasts"
                .to_owned(),
            "56 bytes and 8 to 32 bytes an aggregate for each session that goes on",
            "by the session's end, then key, once no row can extend it",
        ),
    };
    lines.extend([
        format!("  sources    {}", options.sources),
        format!("  algorithm  {algorithm}"),
        format!("  threads    {}", query.threads),
        format!("  memory     {memory}, rows until they are ready and {row_bytes} bytes each"),
    ]);
    Explanation {
        lines,
        output: format!("  output     {} columns, {order}", plan.schema.fields().len()),
    }
}
