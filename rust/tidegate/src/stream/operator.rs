//! What polls and snapshots of all incremental operators share: work in steps, which can rest
//! between any two.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_sync::Stop;

use crate::Result;

/// What a poll finds.
#[derive(Debug)]
pub enum Polled {
    /// Rows that are final.
    Batch(RecordBatch),
    /// Nothing is final that was not handed out; there may be more later.
    NotYet,
    /// All sources have closed and everything was handed out.
    End,
}

/// How far a step went; it may have made results whatever it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It did something; there may be more to do.
    Went,
    /// There is nothing to do until a source brings something.
    NotYet,
    /// There is nothing left to do.
    End,
}

impl Step {
    /// What a poll finds after it where it made no batch.
    fn found(self) -> Option<Polled> {
        match self {
            Step::Went => None,
            Step::NotYet => Some(Polled::NotYet),
            Step::End => Some(Polled::End),
        }
    }
}

/// An operator that sources feed. Whoever polls does its work, step by step. It is whole between
/// any two steps, so that work which was to rest goes on where it was.
pub trait Operator {
    /// The threads of the operator.
    fn driver(&self) -> Driver;

    /// The batches that are made.
    fn ready(&mut self) -> &mut VecDeque<RecordBatch>;

    /// The number of rows that were handed out.
    fn rows_out(&mut self) -> &mut u64;

    /// Late rows that were not forgotten, by source and position, a batch for each push that had
    /// any.
    fn late(&self) -> Result<(Vec<RecordBatch>, SchemaRef)>;

    /// Forgets the first so many batches of late rows.
    fn forget_late(&mut self, batches: usize);

    /// Whether the next step may take longer than a caller should wait who has other things to
    /// notice.
    fn is_long(&mut self) -> bool;

    /// Lets the steps that follow rest where they can, once `pause` is requested.
    fn pause_by(&mut self, pause: &Stop);

    /// Goes one step on, and keeps the results.
    fn step(&mut self) -> Result<Step>;

    /// The next batch, of those that are made.
    fn take(&mut self) -> Option<Polled> {
        let batch = self.ready().pop_front()?;
        *self.rows_out() += batch.num_rows() as u64;
        Some(Polled::Batch(batch))
    }

    /// Takes a batch back that was handed out last, and did not arrive.
    fn take_back(&mut self, batch: RecordBatch) {
        *self.rows_out() -= batch.num_rows() as u64;
        self.ready().push_front(batch);
    }

    /// Hands out the next results that are final.
    fn poll(&mut self) -> Result<Polled> {
        loop {
            if let Some(polled) = self.poll_shortly()? {
                return Ok(polled);
            }
            if let Some(polled) = self.work(&Stop::default())? {
                return Ok(polled);
            }
        }
    }

    /// As [`poll`](Self::poll), where that is a matter of milliseconds; `None` if there is
    /// [work](Self::work) to be done first.
    fn poll_shortly(&mut self) -> Result<Option<Polled>> {
        self.pause_by(&Stop::default());
        if let Some(polled) = self.take() {
            return Ok(Some(polled));
        }
        if self.is_long() {
            return Ok(None);
        }
        let step = self.step()?;
        Ok(self.take().or_else(|| step.found()))
    }

    /// Does what is to be done before the next batch, or rests when `pause` is requested. Returns
    /// what a poll would find, unless there is a batch, which a poll hands out, or more work.
    fn work(&mut self, pause: &Stop) -> Result<Option<Polled>> {
        self.pause_by(pause);
        while self.ready().is_empty() && !pause.is_requested() {
            let step = self.step()?;
            if self.ready().is_empty() && step != Step::Went {
                return Ok(step.found());
            }
        }
        Ok(None)
    }

    /// Does all that is to be done now, and keeps the results for later polls. When `pause` is
    /// requested this fails, and a later call goes on.
    fn catch_up(&mut self, pause: &Stop) -> Result<()> {
        self.pause_by(pause);
        while let Step::Went = self.step()? {
            if pause.is_requested() {
                return Err(Stopped.into());
            }
        }
        Ok(())
    }
}
