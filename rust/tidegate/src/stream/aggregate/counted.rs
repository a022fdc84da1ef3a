//! Row-based windows over the rows of each key.
//!
//! A window is complete once its last row is ready. The code for tables then aggregates it. Complete
//! windows are emitted in the merged order of their last rows. When the stream ends, the incomplete
//! windows follow in the same order.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use tidegate_operators::driver::Driver;

use super::super::explanation::Explanation;
use super::super::intake::late::late_schema;
use super::super::intake::latency::Latency;
use super::super::intake::ready::{ReadyRun, ReadyRuns, Rest};
use super::super::intake::rows::ROW_BYTES;
use super::super::intake::stream::Stream;
use super::super::intake::{Intake, Order, RestoredIntake};
use super::super::memory::Memory;
use super::super::numbered_rows::NumberedRows;
use super::super::operator::Operator;
use super::super::recomputation::{FinalResults, MANY_ROWS, Recomputation, TableJob, Watermark};
use super::super::sides::rows::side_rows;
use super::super::state::snapshot::{Reader, Writer};
use super::super::tactic::{Admit, Common};
use super::super::times::ResultTimes;
use super::whole::counted;
use super::{AggregateOptions, streams};
use crate::Result;
use crate::background::lasting;
use crate::batch::row_windows::{EarlierRows, RowProgress, RowWindows};
use crate::columns::expression::Predicate;
use crate::columns::faults::Faults;
use crate::query::aggregate::Aggregation;
use crate::query::aggregate::plan::AggregatePlan;
use crate::results::gather::concat_rows;

/// Creates the operator for a query that keeps a stream's `read` columns.
pub(super) fn operator(
    query: &Aggregation,
    plan: AggregatePlan,
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
        faults,
    };
    let on = plan.tables[0].time;
    let schema: SchemaRef = Arc::new(stream.schema.project(&read)?);
    let job = RowWindowJob {
        // Rows are excluded before they are stored.
        query: Aggregation { predicate: None, ..query.clone() },
        predicate: plan.tables.into_iter().next().and_then(|table| table.rows),
        on,
        rows: NumberedRows::new(schema),
        needed: Vec::new(),
        has_ended: false,
        stream,
        read,
    };
    Ok(Operator::new(common, Box::new(Recomputation::new(job))))
}

fn explain(query: &Aggregation, plan: &AggregatePlan, options: &AggregateOptions) -> Explanation {
    let mut lines = plan.describe(query);
    lines.extend([
        format!("  sources    {}", options.sources),
        "  algorithm  the aggregation of tables, for complete windows; rows are kept until then"
            .to_owned(),
        "  cost       a poll with new rows processes all kept rows".to_owned(),
        format!("  threads    {}", query.threads),
        format!(
            "  memory     the rows of incomplete windows, at least one for each key, plus \
             {ROW_BYTES} bytes per row"
        ),
    ]);
    lines.extend(plan.functions.explain_all_values(false));
    let columns = plan.schema.fields().len();
    let output = format!(
        "  output     {columns} columns, by the last row of the window, once the window is \
         complete; incomplete windows at the end"
    );
    Explanation { lines, output }
}

/// Keeps rows until their windows are complete.
#[derive(Debug)]
struct RowWindowJob {
    /// The query without its `where` condition.
    query: Aggregation,
    predicate: Option<Predicate>,
    /// The time column of the kept rows.
    on: usize,
    /// The kept rows. Complete windows that end with a processed row have been emitted.
    rows: NumberedRows,
    /// The processed rows that later windows need.
    needed: Vec<u32>,
    /// True once incomplete windows have been emitted, too.
    has_ended: bool,
    stream: Stream,
    /// The columns of the stream that are kept.
    read: Vec<usize>,
}

impl TableJob for RowWindowJob {
    const EPOCH_ROWS: usize = super::EPOCH_ROWS;

    /// The windows that were built, without their batches.
    type LeavingRows = Option<RowWindows>;

    fn rows(&self) -> usize {
        self.rows.rows.len()
    }

    fn bytes(&self) -> usize {
        self.rows.bytes() + self.needed.capacity() * size_of::<u32>()
    }

    fn is_long(&self, rows: usize) -> bool {
        rows + self.rows() > MANY_ROWS
    }

    /// Keeps the rows that satisfy the condition.
    fn take_in(&mut self, common: &Common, ready: ReadyRuns) -> Result<()> {
        let ReadyRuns { ts, sources, runs } = ready;
        let rows =
            side_rows(&self.stream.schema, &runs, &sources, |_| true)?.project(&self.read)?;
        let charges: Vec<_> = runs.iter().map(ReadyRun::charge).collect();
        let Some(predicate) = &self.predicate else {
            return self.rows.rows.push(ts, rows, charges);
        };
        let counted = counted(predicate, &rows, &common.driver)?;
        let counts: BooleanArray =
            (0..rows.num_rows()).map(|row| Some(counted.contains(row))).collect();
        let of_row = |bytes: usize| bytes / rows.num_rows().max(1) * counts.true_count();
        let charges = charges.into_iter().map(|(bytes, charge)| (of_row(bytes), charge)).collect();
        let kept = filter_record_batch(&rows, &counts)?;
        let ts = ts.into_iter().enumerate().filter(|(row, _)| counted.contains(*row));
        let schema = self.rows.rows.schema().clone();
        self.rows.rows.push(ts.map(|(_, ts)| ts), concat_rows(&schema, &[kept])?, charges)
    }

    fn settle(
        &self,
        common: &Common,
        _: Option<Watermark>,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<Option<RowWindows>>> {
        let NumberedRows { rows, done, ordinals, .. } = &self.rows;
        let has_ended = now.is_none();
        if *done == rows.len() && (!has_ended || self.has_ended) {
            return Ok(FinalResults { batches: Vec::new(), leaving: None });
        }
        let tables = vec![rows.table("stream", rows.len())?];
        let progress = RowProgress { ordinals, has_ended };
        let faults = Some(&common.faults);
        let mut found =
            self.query.run_on_rows(driver, tables, EarlierRows::OfStream(progress), faults)?;
        let batches = std::mem::take(&mut found.batches);
        Ok(FinalResults { batches, leaving: Some(found) })
    }

    fn let_go(&mut self, common: &Common, found: Option<RowWindows>, now: Watermark) -> Result<()> {
        if let Some(found) = found {
            self.rows.process(found.ordinals.len(), Some(found.ordinals));
            self.needed = found.needed;
        }
        if now.is_none() {
            self.has_ended = true;
            self.clear();
            return Ok(());
        }
        self.spare(common, now)
    }

    fn spare(&mut self, common: &Common, _: Watermark) -> Result<()> {
        let is_short = common.intake.shared.memory.is_short();
        if self.rows.has_many(is_short) {
            self.drop_unneeded(common)?;
        }
        if is_short {
            self.rows.rows.shrink()?;
        }
        Ok(())
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

    fn write(&mut self, common: &Common, _: Option<Watermark>, writer: &mut Writer) -> Result<()> {
        // The content must not depend on when rows were dropped.
        self.drop_unneeded(common)?;
        writer.flag(self.has_ended);
        self.rows.write(writer)
    }

    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<Option<Watermark>> {
        self.has_ended = reader.flag()?;
        let on = (self.on, self.stream.unit);
        self.rows.restore(on, true, intake, reader, row_bytes, admit)?;
        self.needed = (0..self.rows.done as u32).collect();
        Ok(None)
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.needed.clear();
    }
}

impl RowWindowJob {
    /// Drops the processed rows that no later window needs.
    fn drop_unneeded(&mut self, common: &Common) -> Result<()> {
        self.rows.keep(&self.needed, common)?;
        self.needed = (0..self.rows.done as u32).collect();
        Ok(())
    }
}
