//! The operator for rolling windows.
//!
//! ```text
//! sources ─▶ gate ─▶ rows with results │ rows without results ─▶ windows of these rows ─▶ poll
//!                          ▲                                            │
//!                          └────────── rows that later windows need ────┘
//! ```
//!
//! A row's result is final as soon as no more rows can fall into its window. The code for tables
//! then aggregates the windows. Results are in merged order.
//!
//! The tactic is a `Recomputation`, whose cost is described in `stream/recomputation.rs`.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{How, Interval};
use tidegate_structures::memory;

use super::aggregate::{AggregateOptions, streams};
use super::explanation::Explanation;
use super::intake::late::late_schema;
use super::intake::latency::Latency;
use super::intake::ready::{ReadyRun, ReadyRuns, Rest};
use super::intake::rows::ROW_BYTES;
use super::intake::stream::Stream;
use super::intake::{Intake, Order, RestoredIntake};
use super::memory::Memory;
use super::numbered_rows::NumberedRows;
use super::operator::{Operator, with_room};
use super::recomputation::{FinalResults, MANY_ROWS, Recomputation, TableJob, Watermark};
use super::sides::maker::BATCH_ROWS;
use super::sides::rows::side_rows;
use super::state::snapshot::{Reader, Writer};
use super::tactic::{Admit, Common};
use super::times::ResultTimes;
use crate::aggregate::groups::number_groups;
use crate::background::lasting;
use crate::batch::rolling::RolledRows;
use crate::columns::faults::Faults;
use crate::columns::keys::KeyColumn;
use crate::query::aggregate::with_aggregate;
use crate::query::partners::PartnerAggregation;
use crate::query::rolling::TABLE;
use crate::{Error, Result};

/// Creates an operator that aggregates the window of each row, for sources with this schema.
///
/// ```
/// # use std::sync::Arc;
/// #
/// # use arrow_array::cast::AsArray;
/// # use arrow_array::types::Int64Type;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use tidegate::query::aggregate::{Aggregate, Function};
/// use tidegate::stream::{AggregateOptions, Poll, lock, rolling};
/// use tidegate::{Closed, How, JoinOptions, PartnerAggregation, PartnerJoin};
/// use tidegate::{RollingWindows, RollingSize, Stop};
///
/// let column = Arc::new(Int64Array::from(vec![1, 4, 5, 12])) as ArrayRef;
/// let rows = RecordBatch::try_from_iter([("ts", column)])?;
/// let windows = RollingWindows {
///     on: "ts".to_owned(),
///     size: RollingSize::Rows(3),
///     closed: Closed::Right,
///     options: JoinOptions {
///         by: Vec::new(),
///         predicate: None,
///         how: How::Semi,
///         suffix: String::new(),
///         columns: None,
///         threads: 1,
///         max_rows: None,
///         batch_rows: None,
///     },
/// };
/// let (name, columns) = ("first".to_owned(), vec!["ts".to_owned()]);
/// let first = Aggregate { name, function: Function::First, columns, predicate: None, interval: None };
/// let query = PartnerAggregation::new(PartnerJoin::Rolling(windows), vec![first], How::Left)?;
/// let options = AggregateOptions { sources: 1, lateness: None.into(), memory_limit: None };
/// let mut operator = rolling(&query, rows.schema(), &options)?;
/// lock(&operator.sources()[0]).push(&rows.schema(), vec![rows], &Stop::default())?;
/// let Poll::Batch(found) = operator.poll()? else { unreachable!() };
/// assert_eq!(found["first"].as_primitive::<Int64Type>().values(), &[1, 1, 1, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rolling(
    query: &PartnerAggregation,
    schema: SchemaRef,
    options: &AggregateOptions,
) -> Result<Operator> {
    with_room([schema], |[schema]| operator(query, schema, options))
}

fn operator(
    query: &PartnerAggregation,
    schema: SchemaRef,
    options: &AggregateOptions,
) -> Result<Operator> {
    let windows = query.rolling().ok_or_else(|| Error::bug("the query has no rolling windows"))?;
    let plan = windows.plan(&schema)?;
    let results = query.plan(&plan.join.schema, (&schema, &schema))?.schema;
    let counts_rows = windows.counts_rows();
    let stream = Stream {
        schema: schema.clone(),
        given: None,
        on: plan.time,
        unit: plan.unit,
        lateness: Some(0),
        width: None,
        counted: None,
    };
    let identity = query.aggregates.iter().fold(windows.identity(&schema), with_aggregate);
    let mut lines = windows.describe(&plan);
    lines.extend(query.describe());
    let columns = results.fields().len();
    let within = match counts_rows {
        true => Interval { lower: None, upper: Some(0), closed: plan.interval.closed },
        false => plan.interval,
    };
    let on = (plan.time, plan.time);
    let times = ResultTimes::of_pairs(Some(&within), &plan.join, on, plan.unit, How::Left);
    let faults = Faults::default();
    let common = Common {
        name: "aggregation",
        schema: results,
        times,
        query: identity.sources(options.sources, &options.lateness),
        explanation: explain(lines, counts_rows, columns, query.options().threads, options),
        intake: Intake::new(
            streams(&stream, options)?,
            Memory::new(options.memory_limit, options.sources, false),
            ROW_BYTES,
            Order::Merged,
            None,
        )?,
        pending: Vec::new(),
        rest: Rest::NotYet,
        ready: Default::default(),
        charges_results: false,
        recalls: false,
        driver: lasting(query.options().threads, false)?,
        latency: Latency::default(),
        faults: faults.clone(),
    };
    let job = RollingJob {
        query: query.clone(),
        interval: plan.interval,
        counts_rows,
        keys: plan.join.keys,
        rows: NumberedRows::new(schema),
        stream,
        faults,
    };
    Ok(Operator::new(common, Box::new(Recomputation::new(job))))
}

fn explain(
    mut lines: Vec<String>,
    counts_rows: bool,
    columns: usize,
    threads: usize,
    options: &AggregateOptions,
) -> Explanation {
    let kept = match counts_rows {
        true => "the last rows of each key that a window can contain",
        false => "rows until no later window contains them",
    };
    lines.extend([
        format!("  sources    {}", options.sources),
        "  algorithm  the rolling windows of tables, for rows whose windows are complete"
            .to_owned(),
        "  cost       a poll with results processes all kept rows".to_owned(),
        format!("  threads    {threads}"),
        format!("  memory     {kept}, plus {ROW_BYTES} bytes per row"),
    ]);
    let output = format!(
        "  output     {columns} columns, in merged order, as soon as no more rows can fall into a \
         row's window"
    );
    Explanation { lines, output }
}

/// The rows that windows may still need. Processed rows already have results.
#[derive(Debug)]
struct RollingJob {
    query: PartnerAggregation,
    /// The positions of a window's rows relative to the row at its end.
    interval: Interval,
    /// True if positions are numbers of rows instead of times.
    counts_rows: bool,
    keys: Vec<KeyColumn>,
    rows: NumberedRows,
    stream: Stream,
    faults: Faults,
}

/// The first kept rows, which now have results.
struct DoneRows {
    rows: usize,
    /// For each kept row, the number of earlier rows with the same key, if it was computed.
    ordinals: Option<Vec<i64>>,
}

impl TableJob for RollingJob {
    const EPOCH_ROWS: usize = 1 << 17;

    type LeavingRows = DoneRows;

    fn rows(&self) -> usize {
        self.rows.rows.len()
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    fn is_long(&self, rows: usize) -> bool {
        rows + self.rows() > MANY_ROWS
    }

    fn take_in(&mut self, _: &Common, ready: ReadyRuns) -> Result<()> {
        let ReadyRuns { ts, sources, runs } = ready;
        let kept = &mut self.rows.rows;
        let rows = side_rows(kept.schema(), &runs, &sources, |_| true)?;
        kept.push(ts, rows, runs.iter().map(ReadyRun::charge).collect())
    }

    fn settle(
        &self,
        _: &Common,
        _: Option<Watermark>,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<DoneRows>> {
        let NumberedRows { rows, done, ordinals, processed, .. } = &self.rows;
        let is_final = |ts| now.is_none_or(|now| self.last(ts) < now);
        let end = if self.counts_rows { rows.len() } else { rows.while_ts(is_final) };
        if end <= *done {
            let leaving = DoneRows { rows: *done, ordinals: None };
            return Ok(FinalResults { batches: Vec::new(), leaving });
        }
        let table = rows.table(TABLE, rows.len())?;
        let rows = RolledRows { table: &table, due: *done..end, before: *processed, ordinals };
        let found = self.query.start_rolled(&rows, &self.faults, driver.clone())?;
        let batches = found.join.of_passing_rows().read_all()?;
        Ok(FinalResults { batches, leaving: DoneRows { rows: end, ordinals: found.ordinals } })
    }

    fn let_go(&mut self, common: &Common, done: DoneRows, now: Watermark) -> Result<()> {
        self.rows.process(done.rows, done.ordinals);
        self.release(common, now)
    }

    fn spare(&mut self, common: &Common, now: Watermark) -> Result<()> {
        self.release(common, now)
    }

    fn takes_sources(&self) -> bool {
        false
    }

    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        Ok((common.intake.shared.late.batches(&self.stream)?, late_schema(&self.stream)))
    }

    fn has_rows(&self, _: Option<Watermark>) -> bool {
        self.rows.processed > 0 || self.rows() > 0
    }

    fn batch_rows(&self) -> Option<usize> {
        Some(BATCH_ROWS)
    }

    fn write(
        &mut self,
        common: &Common,
        settled: Option<Watermark>,
        writer: &mut Writer,
    ) -> Result<()> {
        // The content must not depend on when rows were dropped.
        if settled.is_some_and(|now| now.is_some()) && self.counts_rows {
            self.rows.keep(&self.needed(common)?, common)?;
        }
        self.rows.write(writer)
    }

    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<Option<Watermark>> {
        let on = (self.stream.on, self.stream.unit);
        self.rows.restore(on, self.counts_rows, intake, reader, row_bytes, admit)?;
        Ok(None)
    }

    fn clear(&mut self) {
        self.rows.clear();
    }
}

impl RollingJob {
    /// Returns the last time at which a row can fall into the window of a row at `ts`.
    fn last(&self, ts: i64) -> i64 {
        // If there is no such time, all times are after the window.
        self.interval.last(ts).unwrap_or(i64::MIN)
    }

    /// Drops rows that no later window contains.
    fn release(&mut self, common: &Common, now: Watermark) -> Result<()> {
        let Some(now) = now else {
            self.clear();
            return Ok(());
        };
        let is_short = common.intake.shared.memory.is_short();
        if !self.counts_rows {
            let NumberedRows { rows, done, .. } = &self.rows;
            let waiting = (*done < rows.len()).then(|| rows.ts(*done));
            let first = waiting.map_or(now, |waiting| waiting.min(now));
            self.rows.drop_before(self.interval.first(first).unwrap_or(i64::MAX));
        } else if self.rows.has_many(is_short) {
            self.rows.keep(&self.needed(common)?, common)?;
        }
        if is_short {
            self.rows.rows.shrink()?;
        }
        Ok(())
    }

    /// Of the rows with results, returns the last rows of each key that later windows can contain,
    /// in ascending order.
    fn needed(&self, common: &Common) -> Result<Vec<u32>> {
        // The number of rows before a row that its window can contain.
        let most = self.interval.first(0).map_or(0, i64::unsigned_abs);
        let done = self.rows.done;
        let driver = common.driver.fit(done);
        let table = self.rows.rows.table(TABLE, done)?;
        let (keys, count) = match &self.keys[..] {
            [] => (None, 1),
            keys => {
                let (numbers, count) = number_groups(&table, keys, &driver)?;
                (Some(numbers), count)
            }
        };
        let mut seen = memory::filled(count, 0_u64);
        let mut needed: Vec<u32> = Vec::new();
        for row in (0..done).rev() {
            let seen = &mut seen[keys.as_ref().map_or(0, |keys| keys[row] as usize)];
            if *seen < most {
                *seen += 1;
                memory::reserve(&mut needed, 1);
                needed.push(row as u32);
            }
        }
        needed.reverse();
        Ok(needed)
    }
}
