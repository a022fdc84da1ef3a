//! A tactic that adds windows without rows to the results of another tactic.
//!
//! Windows without rows are emitted in order with all other windows: before the next window with
//! rows, or as soon as the watermark has passed their end.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::super::intake::RestoredIntake;
use super::super::intake::ready::Rest;
use super::super::outcome::{Figure, Step};
use super::super::readers::ResultBatch;
use super::super::state::snapshot::{Reader, Writer, damaged};
use super::super::tactic::{Admit, Common, Effort, Tactic};
use crate::aggregate::fill::WindowFiller;
use crate::query::aggregate::fill::FillPlan;
use crate::query::aggregate::plan::AggregatePlan;
use crate::{Error, Result};

/// Adds windows without rows.
#[derive(Debug)]
pub(super) struct FilledWindows {
    inner: Box<dyn Tactic>,
    filler: WindowFiller,
    /// True while results of the inner tactic have not been filled yet.
    is_half_done: bool,
}

/// Returns the code that adds windows without rows to the results of a plan, if they contain any.
pub(super) fn filler(plan: &AggregatePlan) -> Result<Option<WindowFiller>> {
    plan.fill.iter().try_for_each(FillPlan::check_stream)?;
    WindowFiller::of_plan(plan)
}

/// Returns a tactic that also emits windows without rows, if there is a filler.
pub(super) fn with_empty_windows(
    inner: Box<dyn Tactic>,
    filler: Option<WindowFiller>,
) -> Box<dyn Tactic> {
    match filler {
        None => inner,
        Some(filler) => Box::new(FilledWindows { inner, filler, is_half_done: false }),
    }
}

impl Tactic for FilledWindows {
    fn step(&mut self, common: &mut Common) -> Result<Step> {
        let before = common.ready.len();
        let mut step = self.inner.step(common)?;
        self.is_half_done = true;
        let found: Vec<RecordBatch> =
            common.ready.drain(before..).map(|found| found.batch).collect();
        let mut filled = Vec::new();
        if !found.is_empty() {
            filled = self.filler.push(&found)?;
        }
        if step != Step::Went {
            // All windows that end before the watermark have been emitted.
            let upto = match common.rest {
                Rest::End => None,
                _ => common.intake.watermark(),
            };
            if common.rest == Rest::End || upto.is_some() {
                let more = self.filler.advance(upto)?;
                if !more.is_empty() {
                    step = Step::Went;
                }
                filled.extend(more);
            }
        }
        common.ready.extend(filled.into_iter().map(ResultBatch::from));
        self.is_half_done = false;
        Ok(step)
    }

    fn prepare(&self, common: &mut Common) -> Effort {
        self.inner.prepare(common)
    }

    fn survives(&self, error: &Error) -> bool {
        !self.is_half_done && self.inner.survives(error)
    }

    fn takes_sources(&self) -> bool {
        self.inner.takes_sources()
    }

    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        self.inner.late(common)
    }

    fn figures(&self) -> Vec<(&'static str, Figure)> {
        self.inner.figures()
    }

    fn promise(&self, common: &Common) -> Option<i64> {
        self.inner.promise(common)
    }

    fn reached(&self) -> Option<i64> {
        self.inner.reached()
    }

    fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    fn release(&mut self) {
        self.inner.release();
    }

    fn is_working(&self) -> bool {
        self.inner.is_working()
    }

    fn has_rows(&self) -> bool {
        self.filler.has_rows() || self.inner.has_rows()
    }

    fn batch_rows(&self) -> Option<usize> {
        self.inner.batch_rows()
    }

    fn write(&mut self, common: &Common, writer: &mut Writer) -> Result<()> {
        let (rows, next) = self.filler.state();
        writer.table(rows)?;
        writer.time(next);
        self.inner.write(common, writer)
    }

    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        let rows = reader.table(self.filler.schema())?;
        let next = reader.time()?;
        let mut filler = self.filler.clone();
        if !filler.restore(rows, next)? {
            return Err(damaged("the last rows of its keys do not fit its windows"));
        }
        self.inner.restore(intake, reader, row_bytes, admit)?;
        self.filler = filler;
        Ok(())
    }

    fn close(&mut self) {
        self.filler.clear();
        self.inner.close();
    }
}
