//! A tactic is the part of an operator that one kind has to itself; `Common` is the part of all
//! kinds.

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

/// How one kind of operator makes results of the rows that are ready.
pub(super) trait Tactic: Debug + Send {
    /// Goes one step on, and keeps the results in `common`.
    fn step(&mut self, common: &mut Common) -> Result<Step>;

    /// Takes the rows that the next step needs from the gate, and tells how long the step may take.
    fn prepare(&self, common: &mut Common) -> Effort;

    /// Whether the operator can go on after a step has failed so.
    fn survives(&self, _: &Error) -> bool {
        false
    }

    /// Whether sources can be added.
    fn takes_sources(&self) -> bool {
        true
    }

    /// The late rows that are kept, by source and position, a batch for each push that had any.
    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)>;

    /// The figures beside the ones that all operators tell, with names.
    fn figures(&self) -> Vec<(&'static str, Figure)>;

    /// No row that the last step has not seen is below it, if that step found nothing to do.
    fn promise(&self, common: &Common) -> Option<i64> {
        // As of the last reading of the gate.
        common.intake.watermark()
    }

    /// No result that steps so far have not made is below it, whatever there is to do.
    fn reached(&self) -> Option<i64> {
        None
    }

    /// Whether results are held back whose places are below the watermark.
    fn holds_back(&self) -> bool {
        false
    }

    /// Lets the next steps make the results that are held back, if that depends on threads.
    fn release(&mut self) {}

    /// Whether steps are under way that a snapshot would cut in two.
    fn is_working(&self) -> bool {
        false
    }

    /// Whether rows are kept.
    fn has_rows(&self) -> bool;

    /// The rows of a batch where threads decide how results are cut: a snapshot cuts them anew.
    fn batch_rows(&self) -> Option<usize> {
        None
    }

    /// Writes the rows and the states that are kept.
    fn write(&mut self, common: &Common, writer: &mut Writer) -> Result<()>;

    /// Reads what [`write`](Self::write) wrote and checks it; then calls `admit` with the bytes
    /// that it takes, and takes it in. Nothing is changed before `admit` returns.
    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()>;

    /// Drops what is kept.
    fn close(&mut self);
}

/// How long a step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Some milliseconds.
    Short,
    /// Perhaps longer than a caller should wait who has other things to notice.
    Long,
}

impl Effort {
    pub(super) fn long_if(is_long: bool) -> Self {
        if is_long { Effort::Long } else { Effort::Short }
    }
}

/// Checks the rest of a snapshot and takes the bytes for the kept state.
pub(super) type Admit<'a> = dyn FnMut(&mut Reader<'_>, usize) -> Result<Charge> + 'a;

/// The parts that all operators have.
#[derive(Debug)]
pub(super) struct Common {
    /// The operator's name in messages.
    pub(super) name: &'static str,
    /// Of the results.
    pub(super) schema: SchemaRef,
    pub(super) times: ResultTimes,
    /// The text that decides the results, as snapshots have it.
    pub(super) query: String,
    pub(super) explanation: Explanation,
    pub(super) intake: Intake,
    /// Rows taken from the gate that are the next epoch, and how their reading ended.
    pub(super) pending: Vec<PlannedBlock<SourceRun>>,
    pub(super) rest: Rest,
    /// The batches that are made.
    pub(super) ready: VecDeque<ResultBatch>,
    /// Whether results are charged until they are read.
    pub(super) charges_results: bool,
    /// Whether results are discarded because they have already been emitted. If so, tactics do not
    /// have to build them.
    pub(super) recalls: bool,
    pub(super) driver: Driver,
    pub(super) latency: Latency,
    /// The conditions and sums that the current step could not compute.
    pub(super) faults: Faults,
}

impl Common {
    /// Takes some `rows` rows that are ready now from the gate, unless there are some already.
    /// Returns how many there are.
    pub(super) fn take_ready(&mut self, rows: usize) -> usize {
        if self.pending.is_empty() {
            (self.pending, self.rest) = match self.intake.reader() {
                Some(reader) => plan(reader, rows),
                None => (Vec::new(), Rest::End),
            };
        }
        self.pending.iter().map(PlannedBlock::len).sum()
    }

    /// Keeps batches of results, in order.
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
