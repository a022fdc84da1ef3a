//! Keeps rows until their windows are complete, for functions that need all values in a window at
//! the same time.
//!
//! Once windows are complete, the code that aggregates tables computes their results from the kept
//! rows. The results are therefore bit-for-bit identical to those for tables.
//!
//! # Trade-offs
//!
//! A poll that completes a window takes time proportional to the number of kept rows, in addition
//! to the time for the window itself. Each epoch contains at least as many rows as are kept. For
//! sessions, all rows since the start of the oldest open session are kept, regardless of their
//! keys. If that session is longer than the gap, or if gaps are read from a column, each advance of
//! the watermark takes time proportional to the number of kept rows.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use tidegate_operators::aggregate::Page;
use tidegate_operators::driver::Driver;
use tidegate_structures::memory;
use tidegate_structures::memory::bits::BitSet;

use super::super::explanation::Explanation;
use super::super::intake::late::late_schema;
use super::super::intake::latency::Latency;
use super::super::intake::ready::{ReadyRuns, Rest};
use super::super::intake::rows::ROW_BYTES;
use super::super::intake::stream::Stream;
use super::super::intake::{Intake, Order, RestoredIntake};
use super::super::memory::Memory;
use super::super::operator::Operator;
use super::super::recomputation::{FinalResults, MANY_ROWS, Recomputation, TableJob, Watermark};
use super::super::state::snapshot::{Reader, Writer, damaged};
use super::super::state::timed_rows::TimedRows;
use super::super::tactic::{Admit, Common};
use super::super::times::ResultTimes;
use super::filled::with_empty_windows;
use super::{AggregateOptions, streams};
use crate::aggregate::fill::WindowFiller;
use crate::aggregate::streams::mask;
use crate::background::lasting;
use crate::batch::aggregate::Ends;
use crate::columns::dictionary::concat_batches;
use crate::columns::expression::{Origin, Predicate};
use crate::columns::faults::Faults;
use crate::columns::table::Table;
use crate::columns::table::batch_bytes;
use crate::columns::time::{self, Unit};
use crate::query::aggregate::plan::{AggregatePlan, WindowSpan};
use crate::query::aggregate::{Aggregation, stream_names};
use crate::results::gather::concat_rows;
use crate::{Error, Result};

/// Creates the operator for a query that keeps a stream's `read` columns.
pub(super) fn operator(
    query: &Aggregation,
    plan: AggregatePlan,
    filler: Option<WindowFiller>,
    stream: Stream,
    read: Vec<usize>,
    faults: Faults,
    options: &AggregateOptions,
) -> Result<Operator> {
    let streams = streams(&stream, options)?;
    let memory = Memory::new(options.memory_limit, options.sources, false);
    let common = Common {
        name: "aggregation",
        schema: plan.schema.clone(),
        times: ResultTimes::of_windows(&plan.span, plan.unit),
        query: query.identity(&stream.schema, &plan).sources(options.sources, &options.lateness),
        explanation: explain(query, &plan, options),
        intake: Intake::new(streams, memory, ROW_BYTES, Order::Merged, None)?,
        pending: Vec::new(),
        rest: Rest::NotYet,
        ready: Default::default(),
        charges_results: false,
        recalls: false,
        driver: lasting(query.threads, false)?,
        latency: Latency::default(),
        faults: faults.clone(),
    };
    let on = plan.tables[0].time;
    let schema: SchemaRef = Arc::new(stream.schema.project(&read)?);
    let predicate = plan.tables.into_iter().next().and_then(|table| table.rows);
    let job = WindowJob {
        // Rows are excluded before they are stored.
        query: Aggregation { predicate: None, ..query.clone() },
        predicate,
        span: plan.span,
        unit: plan.unit,
        on,
        sources: (0..options.sources).map(|_| TimedRows::new(schema.clone())).collect(),
        stream,
        read,
    };
    let tactic = Box::new(Recomputation::new(job));
    Ok(Operator::new(common, with_empty_windows(tactic, filler)))
}

fn explain(query: &Aggregation, plan: &AggregatePlan, options: &AggregateOptions) -> Explanation {
    let order = match plan.span {
        WindowSpan::Windows(_) => "by window, then key, once no more rows can fall into the window",
        WindowSpan::Listed(_) => {
            "by the end of the window, its start, then key, once no more rows can fall into the \
             window"
        }
        WindowSpan::Sessions(_) => {
            "by the end of the session, then key, once no row can extend the session"
        }
        WindowSpan::Rows(_) => "by the last row of the window",
    };
    let mut lines = plan.describe(query);
    lines.extend([
        format!("  sources    {}", options.sources),
        "  algorithm  the aggregation of tables, for complete windows; rows are kept until then"
            .to_owned(),
        "  cost       a poll that completes a window processes all kept rows".to_owned(),
        format!("  threads    {}", query.threads),
        format!(
            "  memory     rows until their windows are complete, plus {ROW_BYTES} bytes per row"
        ),
    ]);
    lines.extend(plan.functions.explain_all_values(false));
    let columns = plan.schema.fields().len();
    Explanation { lines, output: format!("  output     {columns} columns, {order}") }
}

/// Keeps rows until their windows are complete, and then aggregates them like the rows in a table.
#[derive(Debug)]
struct WindowJob {
    /// The query without its `where` condition.
    query: Aggregation,
    predicate: Option<Predicate>,
    span: WindowSpan,
    unit: Unit,
    /// The time column of the kept rows.
    on: usize,
    /// The rows from each source that windows may still need.
    sources: Vec<TimedRows>,
    stream: Stream,
    /// The columns of the stream that are kept.
    read: Vec<usize>,
}

impl TableJob for WindowJob {
    const EPOCH_ROWS: usize = super::EPOCH_ROWS;

    /// For sessions, the start of the first incomplete session, if any results have been built.
    type LeavingRows = Option<i64>;

    fn rows(&self) -> usize {
        self.sources.iter().map(TimedRows::len).sum()
    }

    fn bytes(&self) -> usize {
        self.sources.iter().map(TimedRows::memory).sum()
    }

    fn is_long(&self, rows: usize) -> bool {
        rows + self.rows() > MANY_ROWS
    }

    /// Checks the rows' times, and keeps the rows that satisfy the condition.
    fn take_in(&mut self, common: &Common, ready: ReadyRuns) -> Result<()> {
        for runs in ready.runs.chunk_by(|a, b| a.source == b.source) {
            let (mut batches, mut times, mut charges) = (Vec::new(), Vec::new(), Vec::new());
            for run in runs {
                let batch = self.counted(run.rows().project(&self.read)?, &common.driver)?;
                if batch.num_rows() == 0 {
                    continue;
                }
                times.extend(self.times_of(&batch)?);
                let (bytes, charge) = run.charge();
                charges.push((bytes / run.len().max(1) * batch.num_rows(), charge));
                batches.push(batch);
            }
            if !self.span.fits_all(&times)
                && let Some(ts) = times.iter().find(|ts| !self.span.fits(**ts))
            {
                return Err(Error::data(format!(
                    "the time {ts} ({}) falls in a window that begins or ends outside the 64-bit \
                     range; exclude such rows, or choose smaller windows",
                    self.unit.name()
                )));
            }
            let kept = &mut self.sources[usize::from(runs[0].source)];
            let rows = concat_rows(kept.schema(), &batches)?;
            kept.push(times, rows, charges)?;
        }
        Ok(())
    }

    fn settle(
        &self,
        common: &Common,
        settled: Option<Watermark>,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<Option<i64>>> {
        match self.completes(settled, now) {
            false => Ok(FinalResults { batches: Vec::new(), leaving: None }),
            true => self.make(common, settled, now, driver),
        }
    }

    fn let_go(&mut self, _: &Common, open_from: Option<i64>, now: Watermark) -> Result<()> {
        match (now, &self.span) {
            (None, _) => self.clear(),
            (Some(now), WindowSpan::Windows(windows)) => {
                let behind = windows.behind();
                let first = windows.first_time_of_open(now.saturating_sub(behind));
                self.drop_before(first.saturating_add(behind));
            }
            (Some(now), WindowSpan::Listed(windows)) => {
                self.drop_before(windows.first_time_of_open(now));
            }
            (Some(_), WindowSpan::Sessions(_) | WindowSpan::Rows(_)) => {
                if let Some(first) = open_from {
                    self.drop_before(first);
                }
            }
        }
        Ok(())
    }

    fn spare(&mut self, _: &Common, _: Watermark) -> Result<()> {
        self.sources.iter_mut().try_for_each(TimedRows::shrink)
    }

    fn takes_sources(&self) -> bool {
        false
    }

    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        Ok((common.intake.shared.late.batches(&self.stream)?, late_schema(&self.stream)))
    }

    fn has_rows(&self, settled: Option<Watermark>) -> bool {
        self.rows() > 0 || settled.is_some_and(|now| now != Some(i64::MIN))
    }

    fn batch_rows(&self) -> Option<usize> {
        None
    }

    fn write(&mut self, _: &Common, settled: Option<Watermark>, writer: &mut Writer) -> Result<()> {
        writer.flag(settled == Some(None));
        writer.time(settled.flatten().unwrap_or(i64::MIN));
        self.sources.iter().try_for_each(|rows| writer.table(&rows.batch()?))
    }

    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<Option<Watermark>> {
        // 1. Everything is read and checked before anything is changed.
        let has_ended = reader.flag()?;
        let settled = reader.time()?;
        if intake.next().is_some_and(|next| has_ended || settled > next) {
            return Err(damaged("windows were built from rows that have not arrived"));
        }
        let mut kept = Vec::with_capacity(self.sources.len());
        for rows in &self.sources {
            let batch = reader.table(rows.schema())?;
            let ts = self.times(&batch)?;
            let is_early = |last: &i64| intake.next().is_some_and(|next| next < *last);
            if ts.last().is_some_and(is_early) {
                return Err(damaged("processed rows follow unprocessed rows"));
            }
            if !self.span.fits_all(&ts) {
                return Err(damaged("a row's windows begin or end outside the 64-bit range"));
            }
            kept.push((ts, batch));
        }
        let rows = kept.iter().map(|(ts, _)| ts.len() as u64).fold(0, u64::saturating_add);
        if rows > intake.rows() || (has_ended && rows > 0) {
            return Err(damaged("it keeps more rows than it can"));
        }
        let bytes = |batch: &RecordBatch| batch_bytes(batch) + batch.num_rows() * row_bytes;
        // 2. The state is restored.
        let mut charge = admit(reader, kept.iter().map(|(_, batch)| bytes(batch)).sum())?;
        for (rows, (ts, batch)) in self.sources.iter_mut().zip(kept) {
            let bytes = bytes(&batch);
            rows.push(ts, batch, vec![(bytes, Arc::new(charge.split(bytes)))])?;
        }
        Ok(Some((!has_ended).then_some(settled)))
    }

    fn clear(&mut self) {
        self.sources.iter_mut().for_each(TimedRows::clear);
    }
}

impl WindowJob {
    /// Returns the times of the rows in a snapshot.
    fn times(&self, batch: &RecordBatch) -> Result<Vec<i64>> {
        let ts = self.times_of(batch).map_err(|error| damaged(error.message()))?;
        match ts.is_sorted() {
            true => Ok(ts),
            false => Err(damaged("processed rows are out of order")),
        }
    }

    /// Returns the rows that satisfy the query's condition.
    fn counted(&self, rows: RecordBatch, driver: &Driver) -> Result<RecordBatch> {
        let Some(predicate) = &self.predicate else { return Ok(rows) };
        let counted = counted(predicate, &rows, driver)?;
        let counted: BooleanArray =
            (0..rows.num_rows()).map(|row| Some(counted.contains(row))).collect();
        Ok(filter_record_batch(&rows, &counted)?)
    }

    /// Returns the times of rows.
    fn times_of(&self, batch: &RecordBatch) -> Result<Vec<i64>> {
        let table = Table::trusted("rows", batch.clone());
        Ok(time::times(&table, self.on, self.unit)?.to_vec())
    }

    /// Returns whether a window may have become complete.
    fn completes(&self, settled: Option<Watermark>, now: Watermark) -> bool {
        let first = self.sources.iter().filter_map(TimedRows::first_ts).min();
        match (first, now, &self.span) {
            (None, ..) => false,
            (_, None, _) => true,
            (Some(first), Some(now), WindowSpan::Sessions(gap)) => {
                first.saturating_add(gap.least()) <= now
            }
            (Some(_), Some(_), WindowSpan::Rows(_)) => false,
            (Some(first), Some(now), WindowSpan::Listed(windows)) => {
                let after = settled.flatten().map_or(first, |settled| settled.max(first));
                windows.end_between(after, now)
            }
            (Some(first), Some(now), WindowSpan::Windows(windows)) => {
                // The windows up to the last check have been emitted.
                let after = settled.flatten().map_or(first, |settled| settled.max(first));
                let passed = |ts: i64| ts.saturating_sub(windows.behind());
                windows.end_between(passed(after), passed(now))
            }
        }
    }

    /// Builds the results of the windows that have become complete. Also returns the start of the
    /// first incomplete window, or the latest possible time if all windows are complete.
    fn make(
        &self,
        common: &Common,
        settled: Option<Watermark>,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<Option<i64>>> {
        let names = stream_names(self.sources.len());
        let tables =
            names.iter().zip(&self.sources).map(|(name, rows)| rows.table(name, rows.len()));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let passed = |now: i64| now.saturating_sub(self.span.behind());
        let ends = Ends { after: settled.flatten().map(passed), upto: now.map(passed) };
        let is_session = matches!(self.span, WindowSpan::Sessions(_));
        let note = |page: &Page| if is_session { ends_and_keys(page) } else { Vec::new() };
        let parts = self.query.run_on(driver, tables, ends, Some(&common.faults), note)?;
        let open_from = parts.iter().filter_map(|part| part.open_from).min();
        let batches = parts.iter().map(|part| &part.batch).filter(|batch| batch.num_rows() > 0);
        if !is_session {
            return Ok(FinalResults { batches: batches.cloned().collect(), leaving: open_from });
        }
        // Sessions are sorted by their ends, then by their keys.
        let all = concat_batches(&common.schema, batches)?;
        let mut batches = Vec::new();
        if all.num_rows() > 0 {
            let mut order: Vec<(i64, u32)> = memory::vec(all.num_rows());
            order.extend(parts.iter().flat_map(|part| part.noted.iter().copied()));
            let mut rows: Vec<u32> = memory::collect(0..all.num_rows() as u32);
            rows.sort_unstable_by_key(|&row| (order[row as usize], row));
            batches.push(take_record_batch(&all, &UInt32Array::from(rows))?);
        }
        Ok(FinalResults { batches, leaving: Some(open_from.unwrap_or(i64::MAX)) })
    }

    /// Drops rows before a time.
    fn drop_before(&mut self, ts: i64) {
        for rows in &mut self.sources {
            rows.drop_first(rows.before(ts));
        }
    }
}

/// Returns the rows that satisfy a query's condition.
pub(super) fn counted(
    predicate: &Predicate,
    rows: &RecordBatch,
    driver: &Driver,
) -> Result<BitSet> {
    let every: Vec<usize> = (0..rows.num_columns()).collect();
    let table = Table::trusted("rows", rows.clone());
    mask(&table, &every, predicate, Origin::Left, driver)
}

/// For each row, returns the end of its window and the rank of its key.
fn ends_and_keys(page: &Page) -> Vec<(i64, u32)> {
    let mut found = Vec::with_capacity(page.rows);
    let keys = &mut page.keys[..page.rows].iter();
    for window in &page.windows {
        found.extend(keys.take(window.rows).map(|&key| (window.end, key)));
    }
    found
}
