//! Streaming aggregation over sliding windows, with push sources.
//!
//! An epoch has about 262,144 rows at most (`EPOCH_ROWS`).
//!
//! | file | what is in it |
//! | --- | --- |
//! | `rows.rs`, `groups.rs` | the rows in an epoch; their keys in order |
//! | `chosen.rs` | the rows that functions have chosen |
//! | `ordered.rs` | strings and decimals as numbers with the same order |
//! | `state.rs` | the state as bytes |
//! | `filled.rs` | windows without rows |
//! | `counted.rs` | row-based windows |
//! | `open.rs` | windows that are not complete yet |
//! | `whole.rs` | windows whose rows are kept, for functions that need all values |

mod chosen;
mod counted;
mod filled;
mod groups;
mod open;
mod ordered;
mod rows;
mod state;
mod whole;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use tidegate_operators::aggregate::{
    Page, StateBounds, StreamingAggregate, StreamingSessions, StreamingWindows,
};
use tidegate_operators::driver::Driver;
use tidegate_structures::gate::PlannedBlock;
use tidegate_structures::memory::pages::Pages;
use tidegate_sync::Stop;

use super::explanation::Explanation;
use super::intake::late::late_schema;
use super::intake::latency::Latency;
use super::intake::ready::Rest;
use super::intake::rows::ROW_BYTES;
use super::intake::stream::{CountedWindows, Stream};
use super::intake::{Intake, Order, RestoredIntake};
use super::lateness::Lateness;
use super::memory::{Charge, Memory};
use super::operator::{Operator, with_room};
use super::outcome::{Figure, Step};
use super::state::snapshot::{Reader, Writer};
use super::tactic::{Admit, Common, Effort, Tactic};
use super::times::ResultTimes;
use crate::aggregate::columns::{Columns, Extent};
use crate::aggregate::output::Output;
use crate::aggregate::streams::Streams;
use crate::aggregate::values::FunctionValues;
use crate::background::lasting;
use crate::columns::faults::Faults;
use crate::columns::table::Table;
use crate::columns::time::Int64s;
use crate::query::aggregate::plan::{AggregatePlan, WindowSpan, design};
use crate::query::aggregate::session_gaps::SessionGap;
use crate::query::aggregate::{Aggregation, Design};
use crate::query::published::{multiway_design, streaming_aggregate_by};
use crate::{Error, Result};
use chosen::ChosenRows;
use groups::{GROUP_BYTES, StreamGroups};
pub use open::open_windows;
use ordered::OrderedColumns;

/// The approximate maximum number of rows in an epoch. An epoch should be large enough to divide
/// among threads, yet small enough to produce results quickly.
const EPOCH_ROWS: usize = 1 << 18;

/// Work on more rows than this, or on more bytes of state, is deferred, because it would take
/// several milliseconds.
const MANY_ROWS: usize = 1 << 15;
const MUCH_STATE: usize = 1 << 24;

/// The state size, in bytes, below which compaction is not worthwhile.
const LEAST_COMPACTED: usize = 1 << 16;

/// The number of result pages that are built at a time. A long series of windows has too many pages
/// to hold in memory at the same time.
const PAGES: usize = 8;

/// The options of a streaming aggregation, in addition to its query.
#[derive(Clone, Debug)]
pub struct AggregateOptions {
    /// The number of sources.
    pub sources: usize,
    /// The maximum time by which rows from a source can be out of order.
    pub lateness: Lateness,
    /// The maximum number of bytes to hold, or `None` for no limit.
    pub memory_limit: Option<usize>,
}

/// Aggregates ready rows one epoch at a time, and keeps the states of windows.
#[derive(Debug)]
struct AggregateTactic {
    /// The plan for the columns that are read.
    plan: AggregatePlan,
    stream: Stream,
    /// The columns of the stream that are read.
    read: Vec<usize>,
    /// The positions of the key columns in `plan.functions.read`.
    by: Vec<usize>,
    sources: usize,
    groups: StreamGroups,
    rows: ChosenRows,
    /// For each aggregate that chooses a row, the position of its column in `rows`.
    chosen: Vec<Option<usize>>,
    /// The non-numeric columns whose minimum or maximum is computed.
    ordered: OrderedColumns,
    windows: Box<dyn StreamingWindows>,
    algorithm: Design,
    /// Counts the state towards the memory limit.
    charge: Option<Charge>,
    /// A single-threaded driver, for work that is done only once.
    alone: Driver,
    /// True while a failure would lose the results for some rows.
    is_half_done: bool,
}

/// Returns each source's name and stream.
pub(super) fn streams(
    stream: &Stream,
    options: &AggregateOptions,
) -> Result<Vec<(String, Stream)>> {
    let lateness = options.lateness.steps("sources", options.sources, stream.unit)?;
    let of_source = |(number, lateness): (usize, i64)| {
        (format!("source {number}"), Stream { lateness: Some(lateness), ..stream.clone() })
    };
    Ok(lateness.into_iter().enumerate().map(of_source).collect())
}

/// Creates empty windows for sources with this schema.
fn empty(
    plan: &AggregatePlan,
    schema: &Schema,
    sources: usize,
    algorithm: Design,
) -> Result<Box<dyn StreamingWindows>> {
    let alone = Driver::new(1, Stop::default());
    let none = Table::from(schema);
    let none = (0..sources).map(|_| (none.clone(), Int64s::Own(Pages::default())));
    let streams = Streams::alike(none.collect(), plan, &alone)?;
    let codes = vec![None; plan.functions.outputs.len()];
    let columns = Columns::new(&streams, &plan.functions, Extent::Stream(&codes), &alone)?;
    streaming_windows(&plan.span, sources, &columns.aggregates(), algorithm)
}

/// Creates the operator that aggregates rows with this schema.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{Int64Array, RecordBatch};
/// use tidegate::query::aggregate::{Aggregate, Aggregation, Function, Windows};
/// use tidegate::stream::{AggregateOptions, Poll, aggregate, lock};
/// use tidegate::{Bound, Stop};
///
/// let column = Arc::new(Int64Array::from(vec![1, 4, 5, 12])) as _;
/// let rows = RecordBatch::try_from_iter([("ts", column)])?;
/// let query = Aggregation {
///     on: "ts".to_owned(),
///     windows: Windows::of_lengths(Bound::Steps(10), Bound::Steps(10)),
///     empty: None,
///     by: Vec::new(),
///     aggregates: vec![Aggregate {
///         name: "rows".to_owned(),
///         function: Function::Count,
///         columns: Vec::new(),
///         predicate: None,
///         interval: None,
///     }],
///     predicate: None,
///     algorithm: None,
///     threads: 1,
///     max_rows: None,
/// };
/// let options = AggregateOptions { sources: 1, lateness: None.into(), memory_limit: None };
/// let mut operator = aggregate(&query, rows.schema(), &options)?;
/// lock(&operator.sources()[0]).push(&rows.schema(), vec![rows], &Stop::default())?;
/// // The row at 12 ends the window that begins at 0.
/// let Poll::Batch(windows) = operator.poll()? else { unreachable!() };
/// assert_eq!(windows.num_rows(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn aggregate(
    query: &Aggregation,
    schema: SchemaRef,
    options: &AggregateOptions,
) -> Result<Operator> {
    with_room([schema], |[schema]| aggregation(query, schema, options))
}

#[expect(
    clippy::too_many_lines,
    reason = "a sequence of steps, each of which uses the previous result"
)]
fn aggregation(
    query: &Aggregation,
    schema: SchemaRef,
    options: &AggregateOptions,
) -> Result<Operator> {
    let of_schema = |schema: &Schema| AggregatePlan::new(query, &[("stream".to_owned(), schema)]);
    let whole = of_schema(&schema)?;
    let read = whole.tables[0].every();
    let filler = filled::filler(&whole)?;
    let stream = Stream {
        on: whole.tables[0].time,
        unit: whole.unit,
        lateness: Some(0),
        schema: schema.clone(),
        given: None,
        width: None,
        counted: Some(CountedWindows::new(whole)),
    };
    let faults = Faults::default();
    let plan = of_schema(&schema.project(&read)?)?.noting(&faults);
    if matches!(plan.span, WindowSpan::Rows(_)) {
        return counted::operator(query, plan, stream, read, faults, options);
    }
    let keeps_rows = matches!(plan.span, WindowSpan::Listed(_))
        || query.aggregates.iter().any(|one| one.function.is_of_all_values());
    if keeps_rows {
        return whole::operator(query, plan, filler, stream, read, faults, options);
    }
    let streams = streams(&stream, options)?;
    let algorithm = query.algorithm.unwrap_or_default();
    let windows = empty(&plan, &schema.project(&read)?, options.sources, algorithm)?;
    let ordered = OrderedColumns::new(&plan)?;
    // The memory that a row may add to the state is charged with the row so that there is always
    // enough memory for the state.
    let row_bytes = ROW_BYTES + windows.row_bytes() + GROUP_BYTES + ordered.row_bytes();
    let (chosen, rows) = chosen(&plan)?;
    let by: Vec<usize> = plan.by.iter().map(|key| key.right).collect();
    let memory = Memory::new(options.memory_limit, options.sources, true);
    let common = Common {
        name: "aggregation",
        schema: plan.schema.clone(),
        times: ResultTimes::of_windows(&plan.span, plan.unit),
        query: query.identity(&schema, &plan).sources(options.sources, &options.lateness),
        explanation: explain(query, &plan, options, row_bytes),
        intake: Intake::new(streams, memory, row_bytes, Order::Merged, None)?,
        pending: Vec::new(),
        rest: Rest::NotYet,
        ready: Default::default(),
        charges_results: false,
        recalls: false,
        driver: lasting(query.threads, false)?,
        latency: Latency::default(),
        faults,
    };
    let tactic = AggregateTactic {
        groups: StreamGroups::new(Arc::new(plan.functions.read.project(&by)?))?,
        algorithm,
        sources: options.sources,
        rows: ChosenRows::new(rows),
        chosen,
        ordered,
        windows,
        charge: None,
        alone: Driver::new(1, Stop::default()),
        is_half_done: false,
        stream,
        read,
        by,
        plan,
    };
    Ok(Operator::new(common, filled::with_empty_windows(Box::new(tactic), filler)))
}

impl Tactic for AggregateTactic {
    fn step(&mut self, common: &mut Common) -> Result<Step> {
        // 1. Emit the windows that are complete.
        if self.make(common)? {
            return Ok(Step::Went);
        }
        common.latency.settle();
        // 2. The rows that are ready now form the next epoch.
        let rows = common.take_ready(EPOCH_ROWS);
        let rest = common.rest;
        if rows > 0 {
            let driver = common.driver.fit(rows);
            driver.within(|| {
                self.take_in(common, &driver)?;
                self.make(common)
            })?;
            return Ok(Step::Went);
        }
        // 3. A promise alone can complete windows.
        self.is_half_done = true;
        match (rest, common.intake.watermark()) {
            (Rest::End, _) => self.windows.finish(&common.driver)?,
            (_, Some(watermark)) => {
                let watermark = watermark.saturating_sub(self.plan.span.behind());
                self.windows.advance(watermark, &common.driver)?;
            }
            (_, None) => {}
        }
        self.is_half_done = false;
        if self.make(common)? {
            return Ok(Step::Went);
        }
        if common.intake.shared.memory.is_short() {
            self.compact(common)?;
        }
        Ok(if rest == Rest::End { Step::End } else { Step::NotYet })
    }

    fn takes_sources(&self) -> bool {
        false
    }

    fn prepare(&self, common: &mut Common) -> Effort {
        let rows = common.take_ready(EPOCH_ROWS);
        Effort::long_if(rows > MANY_ROWS || self.state_bytes() > MUCH_STATE)
    }

    /// Returns whether the failed step can be repeated. A step can be repeated if the states
    /// already contain the rows that have left the gate, or if the step only emits complete
    /// windows.
    fn survives(&self, _: &Error) -> bool {
        !self.is_half_done
    }

    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        Ok((common.intake.shared.late.batches(&self.stream)?, late_schema(&self.stream)))
    }

    /// `state_keys`: the number of keys in the state. `state_cells`: the number of states per
    /// aggregate. There is one state per key and slice. Slices that can still receive rows have one
    /// state per key and source. `state_bytes`: the size of the state in bytes.
    fn figures(&self) -> Vec<(&'static str, Figure)> {
        let number = |number: usize| Figure::Number(number as u64);
        vec![
            ("state_keys", number(self.groups.len())),
            ("state_cells", number(self.windows.cells())),
            ("state_bytes", number(self.state_bytes())),
        ]
    }

    fn has_rows(&self) -> bool {
        self.windows.cells() > 0
    }

    fn write(&mut self, _: &Common, writer: &mut Writer) -> Result<()> {
        self.write_state(writer)
    }

    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        _: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        self.restore_state(intake, reader, admit)
    }

    fn close(&mut self) {
        self.charge = None;
    }
}

impl AggregateTactic {
    /// Adds the pending rows to the windows.
    fn take_in(&mut self, common: &mut Common, driver: &Driver) -> Result<()> {
        self.is_half_done = true;
        let pending = std::mem::take(&mut common.pending);
        let pieces = pending.iter().flat_map(PlannedBlock::pieces);
        common.latency.begin(pieces.map(|(pushed, rows)| (pushed.run.pushed, rows.len() as u64)));
        let charges: Vec<Arc<Charge>> = pending
            .iter()
            .flat_map(PlannedBlock::pieces)
            .map(|(pushed, _)| pushed.run.charge.clone())
            .collect();
        let tables = self.tables(&pending, driver)?;
        let streams = Streams::alike(tables, &self.plan, driver)?;
        drop(pending);
        streams.check_windows(&self.plan)?;
        let batches = streams.table.batches().iter().map(|batch| batch.project(&self.by));
        let keys = self.groups.of(&batches.collect::<Result<Vec<_>, _>>()?, driver)?;
        let codes = self.ordered.codes(&streams.table, &mut *self.windows, driver)?;
        let columns = Columns::new(&streams, &self.plan.functions, Extent::Stream(&codes), driver)?;
        let firsts = self.choose_from(&streams)?;
        let sources = streams.sources((!self.by.is_empty()).then_some(&keys));
        if let Some(gaps) = streams.gaps(&self.plan)? {
            self.windows.set_gaps(gaps);
        }
        self.windows.add(&sources, self.groups.count(), &firsts, &columns.aggregates(), driver)?;
        self.tidy(common, charges)
    }

    /// Drops the rows and groups that no state needs, and charges the remaining memory to the
    /// state. Until then, this memory is covered by the charges for the added rows.
    fn tidy(&mut self, common: &Common, charges: Vec<Arc<Charge>>) -> Result<()> {
        let mut added = charges;
        if !self.rows.is_needless() {
            self.rows.hold(added.drain(..));
            if self.rows.is_due() || common.intake.shared.memory.is_short() {
                self.gather_chosen()?;
            }
        }
        if self.groups.is_due() {
            self.groups.release(&self.windows.is_used());
        }
        self.ordered.tidy(&mut *self.windows);
        // This happens before the rows are dropped so that no source takes up the free memory in
        // the meantime.
        self.charge_state(common);
        drop(added);
        self.is_half_done = false;
        self.check_limit(common)
    }

    /// Returns an error if the state has outgrown the memory limit. At that point, all pushed rows
    /// have been added to the state.
    fn check_limit(&self, common: &Common) -> Result<()> {
        let memory = &common.intake.shared.memory;
        match memory.limit() {
            Some(limit) if memory.held() > limit => Err(Error::memory(format!(
                "the state has grown to {} bytes; {} bytes are held, and memory_limit = {limit}; \
                 no rows are lost: poll again, close or advance sources so that windows end, or \
                 raise the limit",
                self.state_bytes(),
                memory.held()
            ))),
            _ => Ok(()),
        }
    }

    /// Adjusts the memory charge to the current size of the state.
    fn charge_state(&mut self, common: &Common) {
        let bytes = self.state_bytes();
        let held = self.charge.as_ref().map_or(0, Charge::bytes);
        match (&mut self.charge, bytes.checked_sub(held)) {
            (Some(charge), None) => drop(charge.split(held - bytes)),
            (_, Some(0) | None) => {}
            (_, Some(more)) => {
                let more = common.intake.shared.memory.charge_state(more);
                self.hold(more);
            }
        }
    }

    /// Rebuilds windows and groups when few of their states remain, because the memory of the
    /// removed states is still allocated.
    fn compact(&mut self, common: &Common) -> Result<()> {
        let left = self.windows.cells() * self.windows.row_bytes();
        if self.state_bytes() < LEAST_COMPACTED || self.windows.bytes() < 4 * left {
            return Ok(());
        }
        let used = self.windows.is_used();
        let is_used = |&number: &u32| used.get(number as usize).copied().unwrap_or(false);
        let former: Vec<u32> = self.groups.order().keys.iter().copied().filter(is_used).collect();
        let mut saved = self.windows.save();
        let mut compacted = None;
        if !self.by.is_empty() {
            let mut groups = StreamGroups::new(self.groups.schema().clone())?;
            let numbers = groups.of(&[self.groups.table(&former)?], &self.alone)?;
            let number: HashMap<u32, u32> = former.into_iter().zip(numbers).collect();
            saved.for_each_key(|key| *key = number[key]);
            compacted = Some(groups);
        }
        let mut windows = self.no_windows()?;
        let bounds = StateBounds { rows: u64::MAX, chosen: self.rows.len() as u32, next: None };
        if !windows.restore(saved, &bounds) {
            return Err(Error::bug("windows can be restored from their own state"));
        }
        // States refer to groups by number, so either both are replaced or neither is.
        self.windows = windows;
        if let Some(groups) = compacted {
            self.groups = groups;
        }
        self.charge_state(common);
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

    /// Returns windows without rows.
    fn no_windows(&self) -> Result<Box<dyn StreamingWindows>> {
        let schema = self.stream.schema.project(&self.read)?;
        empty(&self.plan, &schema, self.sources, self.algorithm)
    }

    /// Builds the results of the next complete windows, and returns whether there were any.
    fn make(&mut self, common: &mut Common) -> Result<bool> {
        self.is_half_done = true;
        let mut pages = self.windows.pages(PAGES, self.groups.order(), &common.driver)?;
        if pages.is_empty() {
            self.is_half_done = false;
            return Ok(false);
        }
        let rows: usize = pages.iter().map(|page| page.rows).sum();
        let columns = |at: &Option<usize>| at.iter().map(|&at| self.rows.column(at)).collect();
        let of_rows = self.chosen.iter().map(columns).collect();
        for page in &mut pages {
            self.ordered.ranks(page);
        }
        let ranked = self.ordered.values()?;
        let values = FunctionValues { functions: &self.plan.functions, ranked, of_rows };
        let output = Output { plan: &self.plan, keys: self.groups.columns()?, values };
        let made = common.driver.fit(rows).map(pages, |page: Page| output.batch(page))?;
        common.keep(made)?;
        self.is_half_done = false;
        Ok(true)
    }
}

/// Returns the number of bytes that a state takes up.
pub(super) fn state_bytes(
    windows: &dyn StreamingWindows,
    groups: &StreamGroups,
    ordered: &OrderedColumns,
    rows: &ChosenRows,
) -> usize {
    windows.bytes() + groups.memory() + ordered.memory() + rows.memory()
}

/// Creates the windows of a query.
fn streaming_windows(
    span: &WindowSpan,
    sources: usize,
    aggregates: &[tidegate_operators::aggregate::Aggregate<'_>],
    algorithm: Design,
) -> Result<Box<dyn StreamingWindows>> {
    Ok(match span {
        WindowSpan::Windows(windows) => Box::new(match multiway_design(algorithm) {
            None => StreamingAggregate::new(windows.clone(), sources, aggregates),
            Some(design) => streaming_aggregate_by(design, windows.clone(), sources, aggregates),
        }),
        WindowSpan::Sessions(gap) => {
            let fixed = match gap {
                SessionGap::Fixed(gap) => Some(*gap),
                SessionGap::OfRows(_) => None,
            };
            Box::new(StreamingSessions::new(fixed, aggregates))
        }
        WindowSpan::Rows(_) | WindowSpan::Listed(_) => {
            return Err(Error::bug("these windows keep rows instead of states"));
        }
    })
}

/// For each aggregate that chooses a row, returns its column among the candidate columns. Also
/// returns the schema of these columns.
fn chosen(plan: &AggregatePlan) -> Result<(Vec<Option<usize>>, SchemaRef)> {
    let mut columns: Vec<usize> =
        plan.functions.outputs.iter().filter_map(|output| output.chosen()).collect();
    columns.sort_unstable();
    columns.dedup();
    let place = |at: usize| columns.binary_search(&at).expect("it is one of them");
    let places = plan.functions.outputs.iter().map(|output| output.chosen().map(place)).collect();
    Ok((places, Arc::new(plan.functions.read.project(&columns)?)))
}

fn explain(
    query: &Aggregation,
    plan: &AggregatePlan,
    options: &AggregateOptions,
    row_bytes: usize,
) -> Explanation {
    let mut lines = plan.describe(query);
    let (algorithm, memory, order) = match plan.span {
        WindowSpan::Windows(_) => (
            format!("{}; a result is one combination", design(query.algorithm)),
            "8 to 32 bytes per aggregate, key and slice of two windows, 4 bytes per source and key",
            "by window, then key, once no more rows can fall into the window",
        ),
        WindowSpan::Sessions(_) | WindowSpan::Rows(_) | WindowSpan::Listed(_) => (
            "rows are assigned to sessions in merged order; O(log sessions) for each gap in the length of a session"
                .to_owned(),
            "56 bytes per open session, and 8 to 32 more bytes per aggregate",
            "by the end of the session, then key, once no row can extend the session",
        ),
    };
    lines.extend([
        format!("  sources    {}", options.sources),
        format!("  algorithm  {algorithm}"),
        format!("  threads    {}", query.threads),
        format!("  memory     {memory}, rows until they are ready, plus {row_bytes} bytes per row"),
    ]);
    Explanation {
        lines,
        output: format!("  output     {} columns, {order}", plan.schema.fields().len()),
    }
}
