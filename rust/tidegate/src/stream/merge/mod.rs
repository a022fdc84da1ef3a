//! Merges the rows from many sources into one stream, in merged order. `streams.rs` merges streams
//! while reading them, and `tables.rs` merges entire tables.

pub(crate) mod streams;
pub(crate) mod tables;

use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use tidegate_operators::driver::Driver;
use tidegate_structures::gate::{BlockReader, Filler, PlannedBlock};

use super::explanation::Explanation;
use super::intake::late::late_schema;
use super::intake::latency::Latency;
use super::intake::ready::{ReadyRun, ReadyRuns, Rest, plan};
use super::intake::rows::{ROW_BYTES, SourceRun};
use super::intake::stream::Stream;
use super::intake::{Intake, Order, RestoredIntake};
use super::lateness::{Lateness, describe};
use super::memory::Memory;
use super::operator::{Operator, with_room};
use super::outcome::{Figure, Step};
use super::readers::ResultBatch;
use super::state::snapshot::{Reader, Writer};
use super::tactic::{Admit, Common, Effort, Tactic};
use super::times::ResultTimes;
use crate::background::lasting;
use crate::columns::faults::Faults;
use crate::columns::table::column;
use crate::columns::time::{self, Bound, Unit};
use crate::query::identity::Identity;
use crate::results::interleave::in_pieces;
use crate::results::weave::weave;
use crate::{Error, Result};

/// The approximate number of rows in a batch. A batch is one thread's share of the work in a poll.
const BATCH_ROWS: usize = 1 << 15;

/// The maximum number of batches that a poll builds. The number is high enough to make the cost of
/// waking threads negligible.
const POLL_BATCHES: usize = 8;

/// The options of a merge.
#[derive(Clone, Debug)]
pub struct MergeOptions {
    /// The time column.
    pub on: String,
    /// The number of sources.
    pub sources: usize,
    /// The maximum time by which a source's rows can be out of order.
    pub lateness: Lateness,
    /// The maximum number of bytes to hold, or `None` for no limit.
    pub memory_limit: Option<usize>,
    /// The number of threads.
    pub threads: usize,
}

/// Creates the operator that merges sources with this schema into one stream. The rows in the
/// stream are sorted by time, then source, then position.
///
/// A row is emitted once no source can deliver a row that sorts before it.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{Int64Array, RecordBatch};
/// use tidegate::Stop;
/// use tidegate::stream::{MergeOptions, Poll, lock, merge};
///
/// let rows = |ts: Vec<i64>| {
///     RecordBatch::try_from_iter([("ts", Arc::new(Int64Array::from(ts)) as _)])
/// };
/// let (first, second) = (rows(vec![3, 7, 9])?, rows(vec![4, 8])?);
/// let options = MergeOptions {
///     on: "ts".to_owned(),
///     sources: 2,
///     lateness: None.into(),
///     memory_limit: None,
///     threads: 1,
/// };
/// let mut operator = merge(first.schema(), &options)?;
/// for (source, rows) in operator.sources().iter().zip([first, second]) {
///     lock(source).push(&rows.schema(), vec![rows], &Stop::default())?;
/// }
/// // 9 waits, because the second source may still deliver another 8.
/// let Poll::Batch(merged) = operator.poll()? else { unreachable!() };
/// assert_eq!(merged, rows(vec![3, 4, 7, 8])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn merge(schema: SchemaRef, options: &MergeOptions) -> Result<Operator> {
    with_room([schema], |[schema]| merge_of(schema, options, |number| format!("source {number}")))
}

/// Creates a merge; `name` returns the name of a source, for messages.
fn merge_of(
    schema: SchemaRef,
    options: &MergeOptions,
    name: impl Fn(usize) -> String,
) -> Result<Operator> {
    let stream = stream_of(schema, &options.on, None)?;
    let lateness = options.lateness.steps("sources", options.sources, stream.unit)?;
    let explanation = explain(&stream, &lateness, options);
    let of_source =
        |(number, lateness)| (name(number), Stream { lateness: Some(lateness), ..stream.clone() });
    let streams = lateness.into_iter().enumerate().map(of_source).collect();
    let memory = Memory::new(options.memory_limit, options.sources, false);
    let common = Common {
        name: "merge",
        schema: stream.schema.clone(),
        times: ResultTimes::of_rows(stream.on, stream.unit),
        query: Identity::of("merge")
            .columns("stream", &stream.schema)
            .line("on", format_args!("{:?}", options.on))
            .sources(options.sources, &options.lateness),
        explanation,
        intake: Intake::new(streams, memory, ROW_BYTES, Order::Merged, None)?,
        pending: Vec::new(),
        rest: Rest::NotYet,
        ready: Default::default(),
        charges_results: false,
        recalls: false,
        driver: lasting(options.threads, false)?,
        latency: Latency::default(),
        faults: Faults::default(),
    };
    let (planned, rest) = (Vec::new(), Rest::NotYet);
    Ok(Operator::new(common, Box::new(MergeTactic { stream, planned, rest })))
}

/// Returns the description of the stream that a merge accepts.
pub(crate) fn stream_of(schema: SchemaRef, on: &str, lateness: Option<Bound>) -> Result<Stream> {
    let on = column("streams", &schema, on, "on")?;
    let unit = Unit::of("streams", schema.field(on))?;
    let lateness = Some(time::lateness(lateness, unit)?);
    Ok(Stream { schema, given: None, on, unit, lateness, width: None, counted: None })
}

fn explain(stream: &Stream, lateness: &[i64], options: &MergeOptions) -> Explanation {
    let lateness = describe(lateness, stream.unit);
    let lines = vec![
        "merge".to_owned(),
        format!("  time       {}", options.on),
        format!("  lateness   {lateness}"),
        format!("  sources    {}", options.sources),
        "  algorithm  ScaleGate: blocks of ready rows, each merged by one thread".to_owned(),
        format!("  threads    {}", options.threads),
        format!("  memory     rows until they are ready, plus {ROW_BYTES} bytes per row"),
    ];
    let output = format!(
        "  output     {} columns, by time, then source, then position",
        stream.schema.fields().len()
    );
    Explanation { lines, output }
}

/// Merges ready rows one batch at a time, and keeps none of them.
#[derive(Debug)]
struct MergeTactic {
    stream: Stream,
    /// The blocks of the batches whose rows have left the gate. These blocks are kept until all
    /// batches have been built so that a failed step can be repeated.
    planned: Vec<Vec<PlannedBlock<SourceRun>>>,
    /// The gate's state after the last read, which shows whether more rows follow.
    rest: Rest,
}

impl Tactic for MergeTactic {
    fn step(&mut self, common: &mut Common) -> Result<Step> {
        let Some(reader) = common.intake.reader() else { return Ok(Step::End) };
        let planner = BatchPlanner::new(reader, &mut self.planned, &mut self.rest);
        if planner.planned.is_empty() {
            return Ok(if self.rest == Rest::End { Step::End } else { Step::NotYet });
        }
        let holds = common.charges_results;
        let (made, pushed) = make(&self.stream, planner, &common.driver, holds)?;
        self.planned.clear();
        common.latency.begin(pushed.into_iter());
        common.latency.settle();
        common.ready.extend(made);
        Ok(Step::Went)
    }

    fn survives(&self, _: &Error) -> bool {
        true
    }

    fn prepare(&self, _: &mut Common) -> Effort {
        // A step builds only a few batches, regardless of the number of rows.
        Effort::Short
    }

    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        Ok((common.intake.shared.late.batches(&self.stream)?, late_schema(&self.stream)))
    }

    fn figures(&self) -> Vec<(&'static str, Figure)> {
        Vec::new()
    }

    fn has_rows(&self) -> bool {
        false
    }

    fn batch_rows(&self) -> Option<usize> {
        Some(BATCH_ROWS)
    }

    fn write(&mut self, _: &Common, _: &mut Writer) -> Result<()> {
        Ok(())
    }

    fn restore(
        &mut self,
        _: &RestoredIntake,
        reader: &mut Reader<'_>,
        _: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        admit(reader, 0).map(drop)
    }

    fn close(&mut self) {
        self.planned.clear();
    }
}

/// The times at which a batch's rows were pushed, with the number of rows pushed at each time.
type PushTimes = Vec<(Instant, u64)>;

/// Plans the rows for a poll's batches in order, and stays one batch ahead of the requests.
struct BatchPlanner<'a> {
    reader: &'a mut BlockReader<SourceRun>,
    planned: &'a mut Vec<Vec<PlannedBlock<SourceRun>>>,
    rest: &'a mut Rest,
    taken: usize,
}

impl<'a> BatchPlanner<'a> {
    /// Starts with the blocks that a failed step planned, if any.
    fn new(
        reader: &'a mut BlockReader<SourceRun>,
        planned: &'a mut Vec<Vec<PlannedBlock<SourceRun>>>,
        rest: &'a mut Rest,
    ) -> Self {
        let mut planner = BatchPlanner { reader, planned, rest, taken: 0 };
        if planner.planned.is_empty() {
            planner.plan();
        }
        planner
    }

    fn plan(&mut self) {
        let (blocks, rest) = plan(self.reader, BATCH_ROWS);
        *self.rest = rest;
        self.planned.extend((!blocks.is_empty()).then_some(blocks));
    }

    /// Returns the blocks of the next batch, and its number.
    fn next(&mut self) -> Option<(usize, Vec<PlannedBlock<SourceRun>>)> {
        let blocks = self.planned.get(self.taken)?.clone();
        self.taken += 1;
        if self.taken == self.planned.len() && *self.rest == Rest::More && self.taken < POLL_BATCHES
        {
            self.plan();
        }
        Some((self.taken, blocks))
    }
}

/// Builds the batches. While one thread plans, others merge and gather.
fn make(
    stream: &Stream,
    planner: BatchPlanner<'_>,
    driver: &Driver,
    holds: bool,
) -> Result<(Vec<ResultBatch>, PushTimes)> {
    let threads = if *planner.rest == Rest::More { driver.threads().min(POLL_BATCHES) } else { 1 };
    let planner = Mutex::new(planner);
    let next = || planner.lock().next();
    let one = |filler: &mut Filler, blocks: Vec<PlannedBlock<SourceRun>>| {
        let pieces = blocks.iter().flat_map(PlannedBlock::pieces);
        let pushed: PushTimes =
            pieces.map(|(pushed, rows)| (pushed.run.pushed, rows.len() as u64)).collect();
        batches(stream, &blocks, filler, holds).map(|made| (made, pushed))
    };
    let made = driver.map_with(vec![(); threads], Filler::default, |filler, ()| {
        std::iter::from_fn(next)
            .map(|(number, blocks)| (number, one(filler, blocks)))
            .collect::<Vec<_>>()
    })?;
    let mut made: Vec<_> = made.into_iter().flatten().collect();
    made.sort_unstable_by_key(|&(number, _)| number);
    let mut all = (Vec::new(), PushTimes::new());
    for (_, one) in made {
        let (batches, pushed) = one?;
        all.0.extend(batches);
        all.1.extend(pushed);
    }
    Ok(all)
}

/// Returns the rows in the blocks as one batch. Returns several batches if a column has more than 2
/// GiB of strings, because a single array cannot hold them. If `holds` is true, each batch keeps
/// the memory charges for its rows.
fn batches(
    stream: &Stream,
    blocks: &[PlannedBlock<SourceRun>],
    filler: &mut Filler,
    holds: bool,
) -> Result<Vec<ResultBatch>> {
    let first = batch(stream, ReadyRuns::merged(blocks, filler), holds);
    if let Ok(made) = first {
        return Ok(vec![made]);
    }
    let ready = ReadyRuns::merged(blocks, filler);
    let mut made = Vec::new();
    in_pieces(0..ready.ts.len(), &mut |rows| {
        made.push(batch(stream, ready.part(rows), holds)?);
        Ok(())
    })?;
    Ok(made)
}

fn batch(stream: &Stream, ready: ReadyRuns, holds: bool) -> Result<ResultBatch> {
    let ReadyRuns { ts, sources, runs } = ready;
    let batches: Vec<_> = runs.iter().map(|run| (run.source, run.rows())).collect();
    let time = (stream.on, stream.unit);
    let batch = weave(&stream.schema, time, &batches, sources.len(), |weave| {
        weave.extend(&sources);
        ts
    })?;
    let charges =
        if holds { runs.iter().map(ReadyRun::held).collect() } else { Default::default() };
    Ok(ResultBatch { batch, charges })
}
