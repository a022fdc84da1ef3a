//! A source checks the rows that are pushed, puts them in time order as far as the lateness asks
//! for, and feeds the gate.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `push.rs` | checks pushed rows, charges their memory, sets late ones aside |
//! | `change.rs` | prepares a change to a source, and applies it, which cannot fail |
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
    /// Bytes that are charged for a row beside the row.
    pub(crate) row_bytes: usize,
    /// Why nothing more becomes final: the first source that was abandoned, or the failure of the
    /// operator.
    pub(crate) broken: Arc<OnceLock<Error>>,
    /// The reason the operator rejects rows, if it is halted or has failed.
    pub(crate) standing: Arc<Mutex<Option<Error>>>,
    /// The watermarks of all sources.
    pub(crate) watermarks: Watermarks,
    /// The way of rows that are wanted as they are pushed; others go through the gate.
    pub(crate) arrivals: Option<Arrivals>,
}

/// A feeder of an operator.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    stream: Stream,
    shared: IntakeState,
    /// Until it is closed.
    gate: Option<BlockSource<SourceRun>>,
    number: u16,
    reorder: Reorder<Push>,
    /// The charge of the rows held back.
    held: Option<Charge>,
    rows_in: u64,
    rows_late: u64,
    /// Why no more rows come, though it was not closed.
    abandoned: Option<String>,
    /// Whether the last push was refused for lack of room that there may be later.
    is_full: bool,
    /// Whether a push was refused since rows were taken last.
    was_refused: bool,
    /// Whether the others go on without it until rows come.
    is_idle: bool,
    /// When rows or a promise came last.
    told: Instant,
    /// The operator whose results are pushed, if one's are.
    lead: Option<Lead>,
}

/// Numbers that describe a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceStats {
    /// The name of the source in messages.
    pub name: Arc<str>,
    /// Rows pushed.
    pub rows_in: u64,
    /// Rows of them that were set aside: late ones, and rows whose intervals are too wide.
    pub rows_late: u64,
    /// No row below it is taken any more; none before the first promise.
    pub watermark: Option<i64>,
    /// Whether there are no more rows.
    pub closed: bool,
    /// Whether the others go on without it until rows come.
    pub idle: bool,
    /// Why no more rows come, though the source was not closed.
    pub abandoned: Option<String>,
    /// Bytes that are held of its rows.
    pub memory: usize,
    /// Seconds since rows or a promise came.
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

    /// The schema that pushed rows must have.
    pub fn schema(&self) -> &SchemaRef {
        self.stream.given()
    }

    /// Returns the schema of the stored rows.
    pub(crate) fn kept_schema(&self) -> &SchemaRef {
        &self.stream.schema
    }

    /// Switches to accepting rows with the schema of another source, which differs only in its
    /// dictionary indices.
    pub(crate) fn take_rows_of(&mut self, other: &Source) {
        self.stream.given = Some(other.stream.schema.clone());
    }

    /// The time column's field; times and promises are steps of its unit.
    pub fn time_field(&self) -> &Field {
        self.stream.schema.field(self.stream.on)
    }

    /// Returns the source's number, which orders rows with equal times on the same side.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// How far rows may be out of order, in steps of the stream's unit.
    pub(crate) fn lateness(&self) -> Option<i64> {
        self.stream.lateness
    }

    /// The signal that wakes a caller who waits for the operator's sources.
    pub fn news(&self) -> Arc<News> {
        self.shared.news.clone()
    }

    /// Whether the last push was refused by the memory limit, and may fit once polls have let go of
    /// rows.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Numbers that describe the source.
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

    /// Refuses a source that is closed or abandoned.
    fn check_open(&self) -> Result<()> {
        if let Some(reason) = &self.abandoned {
            return Err(Error::closed(format!(
                "{} was abandoned ({reason}); make a new operator, and restore a snapshot into it",
                self.name
            )));
        }
        if self.gate.is_none() {
            return Err(Error::closed(format!(
                "{} is closed: rows cannot follow its end; make a new operator for more",
                self.name
            )));
        }
        Ok(())
    }

    /// Rejects rows while the operator is halted or has failed, because they would only pile up.
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

    /// Rows that were set aside so far.
    pub fn rows_late(&self) -> u64 {
        self.rows_late
    }

    /// Rows that wait until their source can bring none before them.
    pub fn rows_held(&self) -> usize {
        self.reorder.rows()
    }
}

/// A source, which stays whole if a call panics.
pub fn lock(source: &Mutex<Source>) -> MutexGuard<'_, Source> {
    source.lock()
}
