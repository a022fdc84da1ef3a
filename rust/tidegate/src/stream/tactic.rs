//! A tactic is the part of an operator that differs between kinds of operators. `Common` is the
//! part that all kinds share.

use std::collections::VecDeque;
use std::fmt::Debug;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_structures::gate::PlannedBlock;

use super::explanation::Explanation;
use super::intake::latency::Latency;
use super::intake::ready::{Rest, plan};
use super::intake::rows::SourceRun;
use super::intake::{Intake, RestoredIntake};
use super::memory::Charge;
use super::outcome::{Figure, Step};
use super::readers::ResultBatch;
use super::state::snapshot::{Reader, Writer};
use super::times::ResultTimes;
use crate::columns::faults::Faults;
use crate::{Error, Result};

/// Defines how one kind of operator computes results from ready rows.
pub(super) trait Tactic: Debug + Send {
    /// Takes one step, and stores the results in `common`.
    fn step(&mut self, common: &mut Common) -> Result<Step>;

    /// Takes the rows for the next step from the gate, and returns how long the step is expected to
    /// take.
    fn prepare(&self, common: &mut Common) -> Effort;

    /// Returns whether the operator can continue after a step has failed with the given error.
    fn survives(&self, _: &Error) -> bool {
        false
    }

    /// Returns whether sources can be added.
    fn takes_sources(&self) -> bool {
        true
    }

    /// Returns the kept late rows, sorted by source and position. Each push with late rows has its
    /// own batch.
    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)>;

    /// Returns statistics by name, in addition to those that all operators report.
    fn figures(&self) -> Vec<(&'static str, Figure)>;

    /// If the last step found nothing to do, returns the time before which that step had seen all
    /// rows.
    fn promise(&self, common: &Common) -> Option<i64> {
        // The watermark as of the last read of the gate.
        common.intake.watermark()
    }

    /// Returns the position below which the steps taken so far have produced all results,
    /// regardless of pending work.
    fn reached(&self) -> Option<i64> {
        None
    }

    /// Returns whether any results below the watermark are held back.
    fn holds_back(&self) -> bool {
        false
    }

    /// If the number of threads affects which results are held back, makes the next steps produce
    /// the results that are currently held back.
    fn release(&mut self) {}

    /// Returns whether a snapshot would interrupt work that is in progress.
    fn is_working(&self) -> bool {
        false
    }

    /// Returns whether rows are kept.
    fn has_rows(&self) -> bool;

    /// Returns the number of rows per batch if the number of threads affects how results are
    /// divided into batches. In that case, a snapshot divides the results again.
    fn batch_rows(&self) -> Option<usize> {
        None
    }

    /// Writes the kept rows and the states.
    fn write(&mut self, common: &Common, writer: &mut Writer) -> Result<()>;

    /// Reads and checks the output of [`write`](Self::write), calls `admit` with the number of
    /// bytes that the state needs, and then restores the state. Nothing changes before `admit` has
    /// returned.
    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()>;

    /// Drops all kept rows and all states.
    fn close(&mut self);
}

/// The expected duration of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// A few milliseconds.
    Short,
    /// The step may take too long for a caller that has other work to do.
    Long,
}

impl Effort {
    pub(super) fn long_if(is_long: bool) -> Self {
        if is_long { Effort::Long } else { Effort::Short }
    }
}

/// Checks the rest of a snapshot and charges the bytes of the kept state.
pub(super) type Admit<'a> = dyn FnMut(&mut Reader<'_>, usize) -> Result<Charge> + 'a;

/// The parts that all operators share.
#[derive(Debug)]
pub(super) struct Common {
    /// The operator's name in messages.
    pub(super) name: &'static str,
    /// The schema of the results.
    pub(super) schema: SchemaRef,
    pub(super) times: ResultTimes,
    /// The text that identifies the query's results, as stored in snapshots.
    pub(super) query: String,
    pub(super) explanation: Explanation,
    pub(super) intake: Intake,
    /// The rows in the next epoch, which have been taken from the gate. `rest` is the state of the
    /// gate after the rows were taken.
    pub(super) pending: Vec<PlannedBlock<SourceRun>>,
    pub(super) rest: Rest,
    /// The result batches that have been built.
    pub(super) ready: VecDeque<ResultBatch>,
    /// True if memory is charged for results until they are read.
    pub(super) charges_results: bool,
    /// True if results are discarded because they have already been emitted. Tactics do not have to
    /// build discarded results.
    pub(super) recalls: bool,
    pub(super) driver: Driver,
    pub(super) latency: Latency,
    /// The conditions and sums that could not be computed in the current step.
    pub(super) faults: Faults,
}

impl Common {
    /// Takes about `rows` ready rows from the gate, unless rows are already pending. Returns the
    /// number of rows.
    pub(super) fn take_ready(&mut self, rows: usize) -> usize {
        if self.pending.is_empty() {
            (self.pending, self.rest) = match self.intake.reader() {
                Some(reader) => plan(reader, rows),
                None => (Vec::new(), Rest::End),
            };
        }
        self.pending.iter().map(PlannedBlock::len).sum()
    }

    /// Adds batches of results, in order.
    pub(super) fn keep(
        &mut self,
        made: impl IntoIterator<Item = Result<RecordBatch>>,
    ) -> Result<()> {
        made.into_iter().try_for_each(|batch| {
            self.ready.push_back(ResultBatch::from(batch?));
            Ok(())
        })
    }
}
