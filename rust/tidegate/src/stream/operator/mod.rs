//! The operator, which receives rows from sources and is polled by a caller. The operator works in
//! steps, and can pause between any two steps.
//!
//! This module contains the main loop that all operators share. A [`Tactic`] computes results from
//! the ready rows and decides which part of its state a snapshot contains.
//!
//! `snapshot.rs` saves an operator's state as bytes, and restores it.
//!
//! # Interrupted calls
//!
//! An interrupted call asks the current step to pause. Long steps check for such requests at points
//! from which they can resume later. All other steps run to completion. If interrupted steps were
//! undone, their work would be lost, and every engine would have to support undoing them. Finishing
//! a step in the background could take minutes, during which the operator could do nothing else.
//!
//! # Failures
//!
//! A step cannot be undone. Therefore, no row may cause a step to fail. If a condition or a sum
//! cannot be computed for some rows, these rows are recorded (`columns/faults.rs`), and the step
//! finishes without them. A step can fail only if a memory request is refused. [`Tactic::survives`]
//! then reports whether the operator can continue without losing rows that have left the gate.

mod snapshot;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::rows::Side;
use tidegate_structures::memory;
use tidegate_sync::Stop;

use super::intake::news::News;
use super::intake::source::Source;
use super::memory::Memory;
use super::outcome::{Figure, Poll, Stats, Step, WaitingRows};
use super::readers::{Readers, ResultBatch, ResultReader};
use super::state::snapshot::DIGESTED;
use super::tactic::{Common, Effort, Tactic};
use super::times::ResultTimes;
use crate::columns::roomy::{roomy, with_indices};
use crate::columns::time::Bound;
use crate::{Digest, Error, Result};

/// Receives rows from sources and is polled for results: a join, an aggregation or a merge.
///
/// A poll does the work, with the help of the operator's threads, and returns final results.
/// Between any two steps, the operator is in a consistent state, so paused work can resume where it
/// stopped. An operator that fails during a step cannot recover, because later results would lack
/// rows.
#[derive(Debug)]
pub struct Operator {
    common: Common,
    tactic: Box<dyn Tactic>,
    rows_out: u64,
    /// The position below which all results have been built.
    settled: Option<i64>,
    /// The digest of the results returned so far, if a digest was requested.
    digest: Option<Digest>,
    /// The readers that receive the results if the operator itself is not polled.
    readers: Readers,
    /// The reason why the operator can no longer continue.
    failed: Option<Error>,
    /// The results that the last step was unable to compute. The operator remains halted until the
    /// user continues without these results.
    standing: Option<Halt>,
    /// The number of notifications from sources that had arrived when the last step began.
    seen: u64,
    /// The schemas with which results and late rows are emitted, if the operator stores wider
    /// dictionary indices.
    handed: Option<[SchemaRef; 2]>,
}

/// The state of an operator that has halted because something could not be computed.
#[derive(Debug)]
struct Halt {
    error: Error,
    /// The step's results, except for those that could not be computed.
    results: VecDeque<ResultBatch>,
}

/// Advice on how to continue after an operator has halted.
const SKIP: &str = "; no rows are lost, and skip() continues without this result";

/// Builds the operator for streams with these schemas. Internally, the operator uses wider
/// dictionary indices so that rows from different batches can be combined.
pub(super) fn with_room<const N: usize>(
    schemas: [SchemaRef; N],
    make: impl Fn([SchemaRef; N]) -> Result<Operator>,
) -> Result<Operator> {
    let roomy = schemas.each_ref().map(roomy);
    let asked = make(schemas.clone())?;
    if roomy == schemas {
        return Ok(asked);
    }
    let mut operator = make(roomy)?;
    let (_, late) = asked.late()?;
    operator.handed = Some([asked.common.schema.clone(), late]);
    operator.common.intake.take_rows_of(&asked.common.intake);
    operator.common.query = asked.common.query;
    operator.common.explanation = asked.common.explanation;
    Ok(operator)
}

impl Operator {
    pub(super) fn new(common: Common, tactic: Box<dyn Tactic>) -> Self {
        let readers = Readers::default();
        Operator {
            common,
            tactic,
            rows_out: 0,
            settled: None,
            digest: None,
            readers,
            failed: None,
            standing: None,
            seen: 0,
            handed: None,
        }
    }

    /// Makes the operator compute a digest of its results. The operator must be unused.
    pub fn with_digest(mut self) -> Self {
        // The digest affects the content of a snapshot.
        self.common.query += DIGESTED;
        self.common.query += "\n";
        self.digest = Some(Digest::new(self.schema()));
        self
    }

    /// Returns the digest of the results returned so far.
    pub fn digest(&self) -> Result<&Digest> {
        self.digest.as_ref().ok_or_else(|| {
            Error::argument(format!(
                "digest: this {} does not compute a digest, which costs time; create it with \
                 digest=True",
                self.name()
            ))
        })
    }

    /// The operator's name in messages: `join`, `aggregation` or `merge`.
    pub fn name(&self) -> &'static str {
        self.common.name
    }

    /// The schema of the results.
    pub fn schema(&self) -> &SchemaRef {
        self.handed.as_ref().map_or(&self.common.schema, |[results, _]| results)
    }

    /// The times of the results.
    pub fn times(&self) -> ResultTimes {
        self.common.times
    }

    /// Returns the position below which all results have been returned. A source that receives the
    /// results can make a promise for this position. Returns `None` while some results have not
    /// been returned.
    pub fn promised(&self) -> Option<i64> {
        self.settled.filter(|_| self.common.ready.is_empty())
    }

    /// Returns the sources by number, with left sources first.
    pub fn sources(&self) -> &[Arc<Mutex<Source>>] {
        &self.common.intake.sources
    }

    /// Adds a source. If the operator is a join, `side` specifies the side. The source is treated
    /// as if it had existed from the beginning and had promised the watermark `since`, in the unit
    /// of its time column. If `since` is `None`, the source starts at the operator's watermark or
    /// at its side's watermark, whichever is later.
    pub fn add_source(
        &mut self,
        side: Option<Side>,
        since: Option<i64>,
        lateness: Option<Bound>,
    ) -> Result<Arc<Mutex<Source>>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if !self.tactic.takes_sources() {
            return Err(Error::argument(format!(
                "add_source: an {} keeps the sources with which it was created; add sources to a \
                 tidegate.Merge, and run the merge with a source of this operator as its sink",
                self.name()
            )));
        }
        match (&self.common.intake.sides, side) {
            (None, Some(_)) => Err(Error::argument(format!(
                "side: a {} has no sides; write add_source()",
                self.name()
            ))),
            (Some(_), None) => Err(Error::argument(
                "side: expected 'left' or 'right'; write add_source(side=\"left\")",
            )),
            _ => self.common.intake.add(side, since, lateness),
        }
    }

    /// Returns the side of each source. If the operator has no sides, every item is `None`.
    pub fn sides(&self) -> Vec<Option<Side>> {
        let sides = self.common.intake.sides.as_ref();
        let numbers = (0..=u16::MAX).take(self.sources().len());
        numbers.map(|number| sides.map(|sides| sides.of(number))).collect()
    }

    /// Returns a reader that receives all results that are produced from now on. While there are
    /// readers, polling the operator itself is an error.
    pub fn reader(&mut self) -> Result<ResultReader> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(self.readers.add()),
        }
    }

    /// Starts a poll, or returns an error if readers receive the results.
    fn begin_poll(&self, by: Option<&ResultReader>) -> Result<()> {
        if by.is_none() && self.failed.is_none() && !self.readers.is_empty() {
            return Err(Error::argument(format!(
                "the rows of this {} go to its readers; poll them, or close all of them first",
                self.name()
            )));
        }
        self.common.intake.shared.news.go_on();
        // Otherwise, the batch that was last returned would hold back sources whose rows are next.
        by.iter().for_each(|reader| reader.let_go());
        Ok(())
    }

    /// Returns the signal that wakes a caller who is waiting for a source.
    pub fn news(&self) -> Arc<News> {
        self.common.intake.shared.news.clone()
    }

    /// Returns the memory accounts, which contain the number of bytes held and the limit.
    pub fn memory(&self) -> Memory {
        self.common.intake.shared.memory.clone()
    }

    /// The threads of the operator.
    pub fn driver(&self) -> Driver {
        self.common.driver.clone()
    }

    /// Returns an explanation of the operator, as shown to users.
    pub fn explain(&self) -> String {
        let text = self.common.explanation.text(&self.common.intake.shared.memory);
        let split = self.tactic.figures().into_iter().find_map(|figure| match figure {
            ("split_keys", Figure::Number(keys)) if keys > 0 => {
                Some(format!("\n  split      {keys} of the keys are now on several threads"))
            }
            _ => None,
        });
        let waiting = self.waiting().as_ref().map(WaitingRows::line);
        text + &split.unwrap_or_default() + &waiting.unwrap_or_default()
    }

    fn waiting(&self) -> Option<WaitingRows> {
        WaitingRows::of(&self.common.intake.stats_by_rank(), self.common.latency.begun())
    }

    /// Returns statistics about the operator so far.
    pub fn stats(&self) -> Stats {
        let Common { intake, latency, .. } = &self.common;
        Stats {
            sources: intake.stats(),
            rows_out: self.rows_out,
            watermark: intake.watermark().filter(|&watermark| watermark > i64::MIN),
            latency: latency.summary(),
            memory: intake.shared.memory.held(),
            memory_limit: intake.shared.memory.limit(),
            waiting: self.waiting(),
            figures: self.tactic.figures(),
        }
    }

    /// Returns the late rows that have not been forgotten, by source and position. Each push with
    /// late rows has its own batch.
    pub fn late(&self) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        let (batches, schema) = self.tactic.late(&self.common)?;
        let Some([_, given]) = &self.handed else { return Ok((batches, schema)) };
        // All rows in a batch were pushed together, so they fit its dictionary indices.
        let batches = batches.iter().map(|batch| with_indices(batch, given));
        Ok((batches.collect::<Result<_>>()?, given.clone()))
    }

    /// Returns a version number. As long as the version is unchanged, [`late`](Self::late) starts
    /// with the same batches.
    pub fn late_version(&self) -> u64 {
        self.common.intake.shared.late.version()
    }

    /// Forgets the first `batches` batches of late rows.
    pub fn forget_late(&mut self, batches: usize) {
        self.common.intake.shared.late.forget(batches);
    }

    /// Lends the first `batches` batches of late rows to a function that can fail.
    pub fn lend_late(&mut self, batches: usize) {
        self.common.intake.shared.late.lend(batches);
    }

    /// Drops the lent late rows if the function has accepted them. Otherwise, puts them back.
    pub fn settle_late(&mut self, were_taken: bool) {
        self.common.intake.shared.late.settle(were_taken);
    }

    /// Returns the next final results.
    pub fn poll(&mut self) -> Result<Poll> {
        loop {
            if let Some(polled) = self.poll_shortly(None)? {
                return Ok(polled);
            }
            if let Some(polled) = self.work(&Stop::default(), None)? {
                return Ok(polled);
            }
        }
    }

    /// Does the same as [`poll`](Self::poll), but can also serve readers and takes only a few
    /// milliseconds. Returns `None` if other [work](Self::work) has to be done first.
    pub fn poll_shortly(&mut self, by: Option<&ResultReader>) -> Result<Option<Poll>> {
        self.begin_poll(by)?;
        if let Some(polled) = self.take(by)? {
            return Ok(Some(polled));
        }
        let Some(step) = self.step_shortly()? else { return Ok(None) };
        match self.take(by)? {
            Some(polled) => Ok(Some(polled)),
            None => self.found(step),
        }
    }

    /// Like [`work`](Self::work), but takes at most one step, and only if this step takes at most a
    /// few milliseconds.
    pub fn work_shortly(&mut self, by: Option<&ResultReader>) -> Result<Option<Poll>> {
        self.begin_poll(by)?;
        if self.has_ready(by) {
            return Ok(None);
        }
        match self.step_shortly()? {
            Some(step) if !self.has_ready(by) => self.found(step),
            _ => Ok(None),
        }
    }

    /// Takes one step if that step lasts only a few milliseconds.
    fn step_shortly(&mut self) -> Result<Option<Step>> {
        self.pause_by(&Stop::default());
        self.common.intake.carry_idle()?;
        let effort = match &self.failed {
            None => self.tactic.prepare(&mut self.common),
            // The step is rejected immediately.
            Some(_) => Effort::Short,
        };
        match effort {
            Effort::Short => self.step().map(Some),
            Effort::Long => Ok(None),
        }
    }

    /// Does the work that is required before the next batch can be returned, or pauses when `pause`
    /// is requested. Returns the outcome of the poll, or `None` if the poll can return a batch or
    /// if more work remains.
    pub fn work(&mut self, pause: &Stop, by: Option<&ResultReader>) -> Result<Option<Poll>> {
        self.begin_poll(by)?;
        self.pause_by(pause);
        while !self.has_ready(by) && !pause.is_requested() {
            let step = self.step()?;
            if !self.has_ready(by) && step != Step::Went {
                return self.found(step);
            }
        }
        Ok(None)
    }

    /// Returns whether a poll or a reader can return a batch immediately.
    pub fn has_ready(&self, by: Option<&ResultReader>) -> bool {
        !self.common.ready.is_empty() || by.is_some_and(ResultReader::has_next)
    }

    /// Returns the outcome of a poll after a step that built no batch.
    fn found(&self, step: Step) -> Result<Option<Poll>> {
        let shared = &self.common.intake.shared;
        if step == Step::NotYet && self.common.ready.is_empty() && !self.readers.are_apart() {
            shared.news.settle(self.seen);
        }
        match (step, shared.broken.get()) {
            // Otherwise, a caller who waits for the end would wait forever.
            (Step::NotYet, Some(error)) => Err(error.clone()),
            _ => Ok(step.found()),
        }
    }

    /// Does all work that is currently possible, and keeps the results for later polls. If `pause`
    /// is requested, this call fails, and a later call resumes the work.
    pub fn catch_up(&mut self, pause: &Stop) -> Result<()> {
        self.pause_by(pause);
        while let Step::Went = self.step()? {
            if pause.is_requested() {
                return Err(Stopped.into());
            }
        }
        Ok(())
    }

    /// Processes the rows that are ready without emitting their results. These results were already
    /// emitted by the operator that this one continues. A join searches for old pairs again only if
    /// it needs to know which rows were matched. If `pause` is requested, this call fails, and a
    /// later call resumes the work.
    pub fn recall(&mut self, pause: &Stop) -> Result<()> {
        self.common.recalls = true;
        let recalled = self.catch_up(pause);
        self.common.recalls = false;
        self.common.ready.clear();
        recalled
    }

    /// Takes back the last returned batch because it was not delivered. Nothing happens if the
    /// operator has been closed in the meantime.
    pub fn take_back(&mut self, batch: RecordBatch, by: Option<&ResultReader>) {
        if self.failed.as_ref().is_some_and(Error::is_closed) {
            return;
        }
        if let Some(reader) = by {
            return reader.take_back(batch);
        }
        self.rows_out -= batch.num_rows() as u64;
        if let Some(digest) = &mut self.digest {
            digest.take_back(&batch);
        }
        self.common.ready.push_front(batch.into());
    }

    /// Returns the next finished batch.
    fn take(&mut self, by: Option<&ResultReader>) -> Result<Option<Poll>> {
        if let Some(batch) = by.map_or(Ok(None), ResultReader::take)? {
            return Ok(Some(Poll::Batch(batch)));
        }
        let Some(batch) = self.next_made()? else { return Ok(None) };
        if let Some(digest) = &mut self.digest {
            digest.add(&batch, &self.common.driver)?;
        }
        self.rows_out += batch.num_rows() as u64;
        let charges = self.common.ready.pop_front().map(|made| made.charges).unwrap_or_default();
        let Some(reader) = by else { return Ok(Some(Poll::Batch(batch))) };
        self.readers.give(ResultBatch { batch, charges });
        Ok(reader.take()?.map(Poll::Batch))
    }

    /// Returns the next finished batch, if any, in the form in which it is emitted. A batch is
    /// split if it contains more values than its dictionary indices can address.
    fn next_made(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(made) = self.common.ready.front() else { return Ok(None) };
            // A batch that was put back already has the emitted schema.
            let rows = made.batch.num_rows();
            let schema = match &self.handed {
                Some([schema, _]) if made.batch.schema_ref() != schema => schema,
                _ => return Ok(Some(made.batch.clone())),
            };
            match with_indices(&made.batch, schema) {
                Err(error) if error.is_schema() && rows > 1 => {
                    let half = |from: usize, to: usize| ResultBatch {
                        batch: made.batch.slice(from, to - from),
                        charges: made.charges.clone(),
                    };
                    let halves = [half(0, rows / 2), half(rows / 2, rows)];
                    self.common.ready.pop_front();
                    halves.into_iter().rev().for_each(|made| self.common.ready.push_front(made));
                }
                batch => return batch.map(Some),
            }
        }
    }

    /// Lets subsequent steps pause when `pause` is requested.
    fn pause_by(&mut self, pause: &Stop) {
        self.common.driver = self.common.driver.pausing(pause);
    }

    /// Takes one step, and stores the results.
    fn step(&mut self) -> Result<Step> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if let Some(standing) = &self.standing {
            return Err(standing.error.clone());
        }
        // Nothing has started yet, so a poll that runs out of memory here can be retried.
        memory::ready()?;
        self.seen = self.common.intake.shared.news.count();
        self.common.intake.carry_idle()?;
        self.common.charges_results = !self.readers.is_empty();
        let (tactic, common) = (&mut self.tactic, &mut self.common);
        let made = common.ready.len();
        let (done, is_whole) = match Error::catch_unwound(|| tactic.step(common)) {
            Ok(Err(error)) => {
                let is_whole = self.tactic.survives(&error);
                (Err(error), is_whole)
            }
            Ok(done) => (done, true),
            // A step unwinds if memory is refused, or because of a bug.
            Err(error) => {
                let is_whole = error.is_memory() && self.tactic.survives(&error);
                (Err(error), is_whole)
            }
        };
        let done = match (done, self.common.faults.take()) {
            (Err(error), _) if !is_whole => Err(self.fail(error)),
            (Ok(_), Some(fault)) => Err(self.stand(fault, made)),
            (Err(error), Some(fault)) => {
                // The next step that succeeds reports the fault.
                self.common.faults.note(fault);
                Err(error)
            }
            (done, None) => done,
        };
        self.tell_standing(done.as_ref().err());
        let promise = match done {
            Ok(Step::NotYet) if !self.tactic.holds_back() => self.tactic.promise(&self.common),
            Ok(_) => self.tactic.reached(),
            Err(_) => None,
        };
        self.settled = self.settled.max(promise.filter(|&promise| promise > i64::MIN));
        done
    }

    /// Marks the operator as failed so that pushes no longer wait for it.
    fn fail(&mut self, error: Error) -> Error {
        let error = error.of_operator();
        self.common.intake.shared.broken.get_or_init(|| error.clone());
        self.failed.insert(error).clone()
    }

    /// Halts the operator because a step could not compute some of the values. The step has already
    /// produced all other results.
    fn stand(&mut self, fault: Error, made: usize) -> Error {
        let (error, results) = (fault.with(SKIP), self.common.ready.split_off(made));
        self.standing.insert(Halt { error, results }).error.clone()
    }

    /// Informs the sources that the operator accepts no rows because of `error`, or that it accepts
    /// rows again. A memory limit is reported only to sources whose rows do not fit.
    fn tell_standing(&self, error: Option<&Error>) {
        let has_ended = |error: &&Error| !error.is_stopped() && !error.is_memory();
        let error = error.filter(|error| self.failed.is_some() || has_ended(error));
        *self.common.intake.shared.standing.lock() = error.cloned();
    }

    /// Continues without the results that the last step could not compute. Returns whether there
    /// were any results to skip.
    ///
    /// A condition that cannot be computed for a row or a pair of rows is treated as false. A sum
    /// that overflows its type becomes null.
    pub fn skip(&mut self) -> bool {
        let Some(Halt { results, .. }) = self.standing.take() else { return false };
        self.common.ready.extend(results);
        self.tell_standing(None);
        self.common.intake.shared.news.tell();
        true
    }

    /// Drops everything that the operator holds. All later calls on sources, and all later polls,
    /// fail. A second call does nothing.
    pub fn close(&mut self) {
        self.failed =
            Some(Error::closed(format!("the {} is closed; create a new one", self.name())));
        self.common.pending.clear();
        self.common.intake.close();
        self.common.ready.clear();
        self.standing = None;
        self.readers.clear();
        self.tactic.close();
    }
}
