//! Checks pushed rows, sorts them by time within the limits of `lateness`, and feeds the gate.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `push.rs` | checks pushed rows, charges their memory, and sets late rows aside |
//! | `change.rs` | prepares a change to a source; applying the change cannot fail |
//! | `life.rs` | promises, idle sources, and the ways in which a source ends |
//! | `follow.rs` | a source whose rows are the results of another operator |
//! | `snapshot.rs` | a source in a snapshot |

mod change;
mod follow;
mod life;
mod push;
mod snapshot;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arrow_schema::{Field, SchemaRef};
use parking_lot::{Mutex, MutexGuard};
use tidegate_operators::rows::Reorder;
use tidegate_structures::gate::BlockSource;

use super::arrivals::Arrivals;
use super::late::LateRows;
use super::news::News;
use super::rows::SourceRun;
use super::stream::Stream;
use super::watermarks::Watermarks;
use crate::stream::memory::{Charge, Memory};
use crate::stream::times::Lead;
use crate::{Error, Result};
use change::Push;
pub(crate) use snapshot::RestoredSource;

/// The parts that all sources of an operator share.
#[derive(Clone, Debug)]
pub(crate) struct IntakeState {
    pub(crate) late: LateRows,
    pub(crate) news: Arc<News>,
    pub(crate) memory: Memory,
    /// The number of bytes charged for each row in addition to the row itself.
    pub(crate) row_bytes: usize,
    /// The reason why no more rows become final: either the first abandoned source or an operator
    /// failure.
    pub(crate) broken: Arc<OnceLock<Error>>,
    /// The reason why the operator rejects rows, if it is halted or has failed.
    pub(crate) standing: Arc<Mutex<Option<Error>>>,
    /// The watermarks of all sources.
    pub(crate) watermarks: Watermarks,
    /// Receives the rows for an operator that processes them in arrival order. Otherwise, the rows
    /// pass through the gate.
    pub(crate) arrivals: Option<Arrivals>,
}

/// An object into which rows for an operator are pushed.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    stream: Stream,
    shared: IntakeState,
    /// The source's handle to the gate, or `None` once the source has been closed.
    gate: Option<BlockSource<SourceRun>>,
    number: u16,
    reorder: Reorder<Push>,
    /// The memory charge for rows that are held back.
    held: Option<Charge>,
    rows_in: u64,
    rows_late: u64,
    /// The reason why no more rows arrive even though the source has not been closed.
    abandoned: Option<String>,
    /// True if the last push was refused because of a memory shortage that may be temporary.
    is_full: bool,
    /// True if a push has been refused since the source last accepted rows.
    was_refused: bool,
    /// True while the source is idle: the other sources proceed without it until it receives rows.
    is_idle: bool,
    /// The time at which rows or a promise last arrived.
    told: Instant,
    /// The operator whose results are pushed, if the source follows one.
    lead: Option<Lead>,
}

/// The statistics of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceStats {
    /// The source's name, as shown in messages.
    pub name: Arc<str>,
    /// The number of rows that have been pushed.
    pub rows_in: u64,
    /// The number of rows that were set aside because they were late or because their intervals
    /// were too wide.
    pub rows_late: u64,
    /// The time before which rows are no longer accepted, or `None` before the first promise.
    pub watermark: Option<i64>,
    /// True if no more rows will arrive.
    pub closed: bool,
    /// True while the source is idle: the other sources proceed without it until it receives rows.
    pub idle: bool,
    /// The reason why no more rows arrive even though the source has not been closed.
    pub abandoned: Option<String>,
    /// The number of bytes held for the source's rows.
    pub memory: usize,
    /// The number of seconds since rows or a promise last arrived.
    pub silent: f64,
}

impl Source {
    pub(crate) fn new(
        name: String,
        stream: Stream,
        shared: IntakeState,
        gate: BlockSource<SourceRun>,
    ) -> Self {
        Source {
            name: name.into(),
            number: gate.number(),
            reorder: Reorder::new(stream.lateness),
            stream,
            shared,
            gate: Some(gate),
            held: None,
            rows_in: 0,
            rows_late: 0,
            abandoned: None,
            is_full: false,
            was_refused: false,
            is_idle: false,
            told: Instant::now(),
            lead: None,
        }
    }

    /// Returns the schema that pushed rows are required to have.
    pub fn schema(&self) -> &SchemaRef {
        self.stream.given()
    }

    /// Returns the schema of the stored rows.
    pub(crate) fn kept_schema(&self) -> &SchemaRef {
        &self.stream.schema
    }

    /// From now on, accepts rows with the schema of another source. The schemas differ only in the
    /// types of their dictionary indices.
    pub(crate) fn take_rows_of(&mut self, other: &Source) {
        self.stream.given = Some(other.stream.schema.clone());
    }

    /// Returns the field of the time column, whose unit applies to times and promises.
    pub fn time_field(&self) -> &Field {
        self.stream.schema.field(self.stream.on)
    }

    /// Returns the source's number, which determines the order of rows with equal times on the same
    /// side.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the maximum time by which rows can be out of order, in steps of the stream's unit.
    pub(crate) fn lateness(&self) -> Option<i64> {
        self.stream.lateness
    }

    /// Returns the signal that wakes a caller who is waiting for the operator's sources.
    pub fn news(&self) -> Arc<News> {
        self.shared.news.clone()
    }

    /// Returns whether the last push was refused because of the memory limit, and may succeed after
    /// polls have released rows.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns statistics about the source.
    pub fn stats(&self) -> SourceStats {
        SourceStats {
            name: self.name.clone(),
            rows_in: self.rows_in,
            rows_late: self.rows_late,
            watermark: Some(self.reorder.watermark()).filter(|&watermark| watermark > i64::MIN),
            closed: self.gate.is_none(),
            idle: self.is_idle && self.gate.is_some(),
            abandoned: self.abandoned.clone(),
            memory: self.shared.memory.held_by(self.number),
            silent: self.told.elapsed().as_secs_f64(),
        }
    }

    /// Returns an error if the source is closed or abandoned.
    fn check_open(&self) -> Result<()> {
        if let Some(reason) = &self.abandoned {
            return Err(Error::closed(format!(
                "{} was abandoned ({reason}); create a new operator, and restore a snapshot into \
                 it",
                self.name
            )));
        }
        if self.gate.is_none() {
            return Err(Error::closed(format!(
                "{} is closed: rows cannot follow its end; create a new operator for more rows",
                self.name
            )));
        }
        Ok(())
    }

    /// Rejects rows while the operator is halted or has failed, because these rows would only
    /// accumulate.
    fn check_goes_on(&self) -> Result<()> {
        let standing = self.shared.standing.lock().clone();
        match standing {
            None => Ok(()),
            Some(error) => Err(error.within(&format!(
                "{}: no rows are accepted while the operator is halted",
                self.name
            ))),
        }
    }

    /// Returns the number of rows that have been set aside so far.
    pub fn rows_late(&self) -> u64 {
        self.rows_late
    }

    /// Returns the number of rows that are held back because the source may still receive earlier
    /// ones.
    pub fn rows_held(&self) -> usize {
        self.reorder.rows()
    }
}

/// Locks a source. The source remains consistent even if a call panics.
pub fn lock(source: &Mutex<Source>) -> MutexGuard<'_, Source> {
    source.lock()
}
