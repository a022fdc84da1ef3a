//! The tactic for operators whose results are computed by the code for tables.
//!
//! ```text
//! sources ─▶ gate ─▶ ready rows ─▶ kept rows ─▶ the code for tables ─▶ final results ─▶ poll
//!                                      ▲                  │
//!                                      └─ rows that later results need
//! ```
//!
//! Rows are kept until all results that need them are final. The code for tables then computes
//! these results from the kept rows. Therefore, the results are identical, bit for bit, to those
//! for tables. A [`TableJob`] determines which rows to keep, which results are final, and which
//! rows are no longer needed.
//!
//! # Trade-offs
//!
//! No state is computed in advance. If a step has final results, it takes time proportional to the
//! number of kept rows. An epoch has at least as many rows as are kept. The cost per row therefore
//! remains constant if rows arrive faster than the operator is polled. Many small polls, each of
//! which processes many kept rows, cost more than updating states incrementally.

use std::fmt::Debug;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;

use super::intake::RestoredIntake;
use super::intake::ready::{ReadyRuns, Rest};
use super::outcome::{Figure, Step};
use super::readers::ResultBatch;
use super::state::snapshot::{Reader, Writer};
use super::tactic::{Admit, Common, Effort, Tactic};
use crate::{Error, Result};

/// A step with more rows than this is deferred, because it would take several milliseconds.
pub(super) const MANY_ROWS: usize = 1 << 15;

/// The time before which no more rows can arrive, or `None` if no more rows can arrive at all.
pub(super) type Watermark = Option<i64>;

/// The rows that an operator keeps, and the code for tables that computes results from these rows.
///
/// A time `now` is a [`Watermark`]. `settled` is the time for which results were last computed.
pub(super) trait TableJob: Debug + Send {
    /// The approximate minimum number of rows in an epoch, if that many rows are available.
    const EPOCH_ROWS: usize;

    /// Specifies which rows are no longer needed after the results have been computed.
    type LeavingRows;

    /// Returns the number of kept rows.
    fn rows(&self) -> usize;

    /// Returns the number of bytes kept in addition to the rows.
    fn bytes(&self) -> usize;

    /// Returns whether a step with this number of new rows may take longer than a few milliseconds.
    fn is_long(&self, rows: usize) -> bool;

    /// Stores ready rows.
    fn take_in(&mut self, common: &Common, ready: ReadyRuns) -> Result<()>;

    /// Computes the final results. The call keeps all rows, so the computation can be repeated.
    fn settle(
        &self,
        common: &Common,
        settled: Option<Watermark>,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<Self::LeavingRows>>;

    /// Drops the rows that no later result needs.
    fn let_go(&mut self, common: &Common, leaving: Self::LeavingRows, now: Watermark)
    -> Result<()>;

    /// Releases unneeded memory if memory is short and there are no results to compute.
    fn spare(&mut self, common: &Common, now: Watermark) -> Result<()>;

    /// Returns whether the operator supports adding sources.
    fn takes_sources(&self) -> bool;

    /// Returns the kept late rows (see [`Tactic::late`]).
    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)>;

    /// Returns whether rows are kept or results have been computed (see [`Tactic::has_rows`]).
    fn has_rows(&self, settled: Option<Watermark>) -> bool;

    /// See [`Tactic::batch_rows`].
    fn batch_rows(&self) -> Option<usize>;

    /// Writes the kept rows.
    fn write(
        &mut self,
        common: &Common,
        settled: Option<Watermark>,
        writer: &mut Writer,
    ) -> Result<()>;

    /// Reads the output of [`write`](Self::write), as [`Tactic::restore`] does. Returns the
    /// watermark for which results were last computed, if the snapshot contains it.
    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<Option<Watermark>>;

    /// Drops all rows.
    fn clear(&mut self);
}

/// The final results, and the rows that are no longer needed once these results have been returned.
#[derive(Debug)]
pub(super) struct FinalResults<L> {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) leaving: L,
}

/// Keeps rows until their results are final, and then computes the results with the code for
/// tables.
#[derive(Debug)]
pub(super) struct Recomputation<J> {
    job: J,
    /// The watermark after the last epoch, or `None` once the results for this watermark have been
    /// computed.
    due: Option<Watermark>,
    /// The watermark for which results were last computed.
    settled: Option<Watermark>,
    /// True while some rows have left the gate but have not yet been stored.
    is_taking: bool,
    /// True if results have been emitted but the corresponding rows have not been dropped yet.
    is_half_done: bool,
}

impl<J: TableJob> Recomputation<J> {
    pub(super) fn new(job: J) -> Self {
        Recomputation { job, due: None, settled: None, is_taking: false, is_half_done: false }
    }

    /// Returns the approximate number of rows in the next epoch.
    fn epoch_rows(&self) -> usize {
        J::EPOCH_ROWS.max(self.job.rows())
    }

    /// Computes the results that are final because no more rows before `now` can arrive, and drops
    /// the rows that no other result needs. Changes nothing if a pause is requested in the
    /// meantime.
    fn settle(&mut self, common: &mut Common, now: Watermark) -> Result<()> {
        match self.try_settle(common, now) {
            // The results are computed again from the beginning.
            Err(error) if error.is_stopped() && common.driver.is_paused() => Ok(()),
            settled => settled,
        }
    }

    fn try_settle(&mut self, common: &mut Common, now: Watermark) -> Result<()> {
        let driver = common.driver.fit(self.job.rows()).resting();
        let FinalResults { batches, leaving } =
            self.job.settle(common, self.settled, now, &driver)?;
        self.is_half_done = true;
        common.ready.extend(batches.into_iter().map(ResultBatch::from));
        self.job.let_go(common, leaving, now)?;
        self.is_half_done = false;
        (self.due, self.settled) = (None, Some(now));
        common.latency.settle();
        Ok(())
    }
}

impl<J: TableJob> Tactic for Recomputation<J> {
    fn step(&mut self, common: &mut Common) -> Result<Step> {
        // 1. Compute the results of an epoch that was interrupted by a requested pause.
        if let Some(now) = self.due {
            self.settle(common, now)?;
            return Ok(Step::Went);
        }
        // 2. The rows that are ready now form the next epoch.
        let rows = common.take_ready(self.epoch_rows());
        if rows > 0 {
            let driver = common.driver.fit(rows);
            let ready = driver.within(|| ReadyRuns::new(&common.pending, &driver))?;
            common.pending.clear();
            let last = ready.ts.last().copied();
            self.is_taking = true;
            common.latency.begin(ready.runs.iter().map(|run| (run.pushed(), run.len() as u64)));
            self.job.take_in(common, ready)?;
            self.is_taking = false;
            let now = match common.rest {
                // Ready rows may be below the watermark.
                Rest::More => last,
                Rest::NotYet => common.intake.watermark(),
                Rest::End => None,
            };
            self.due = Some(now);
            self.settle(common, now)?;
            return Ok(Step::Went);
        }
        // 3. A promise alone can make results final.
        let now = if common.rest == Rest::End { None } else { common.intake.watermark() };
        if self.settled != Some(now) {
            self.due = Some(now);
            self.settle(common, now)?;
            if self.due.is_some() {
                return Ok(Step::Went);
            }
        } else if common.intake.shared.memory.is_short() {
            self.job.spare(common, now)?;
        }
        Ok(if common.rest == Rest::End { Step::End } else { Step::NotYet })
    }

    fn prepare(&self, common: &mut Common) -> Effort {
        let rows = common.take_ready(self.epoch_rows());
        let is_idle =
            rows == 0 && self.due.is_none() && self.settled == Some(common.intake.watermark());
        Effort::long_if(!is_idle && self.job.is_long(rows))
    }

    /// Returns true unless the step failed while it was storing or dropping rows. Rows are kept
    /// until their results have been computed, so a computation that fails, for example in a
    /// user-defined function, can be repeated.
    fn survives(&self, _: &Error) -> bool {
        !self.is_taking && !self.is_half_done
    }

    fn takes_sources(&self) -> bool {
        self.job.takes_sources()
    }

    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        self.job.late(common)
    }

    /// `state_rows`: the number of kept rows. `state_bytes`: the number of bytes kept in addition
    /// to the rows.
    fn figures(&self) -> Vec<(&'static str, Figure)> {
        vec![
            ("state_rows", Figure::Number(self.job.rows() as u64)),
            ("state_bytes", Figure::Number(self.job.bytes() as u64)),
        ]
    }

    fn is_working(&self) -> bool {
        self.due.is_some()
    }

    fn has_rows(&self) -> bool {
        self.job.has_rows(self.settled)
    }

    fn batch_rows(&self) -> Option<usize> {
        self.job.batch_rows()
    }

    fn write(&mut self, common: &Common, writer: &mut Writer) -> Result<()> {
        self.job.write(common, self.settled, writer)
    }

    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        let settled = self.job.restore(intake, reader, row_bytes, admit)?;
        self.settled = settled.or(self.settled);
        Ok(())
    }

    fn close(&mut self) {
        self.job.clear();
    }
}
