//! Joins of sources that are pushed to, which give each left row one row: aggregates of its
//! partners, or its one partner as of its time.
//!
//! ```text
//! sources ─▶ gate ─▶ ready rows ─▶ left rows, until they are final ──┐
//!                                └▶ right rows within reach ─────────┴─▶ the join of tables ─▶ poll
//! ```
//!
//! A left row waits until no row can come that is its partner. Then the join of tables joins the
//! left rows that are final with the right rows that are kept, so that the rows are equal to those
//! of tables, bit for bit. The order of the results is that of the times at which left rows became
//! final, then merged order. Both are functions of the rows.
//!
//! # Trade-offs
//!
//! No state is computed ahead: a step with final rows costs as much as all right rows that are kept
//! and the new rows. An epoch is at least as large as the rows that are kept, so that the cost of a
//! row stays constant where rows come faster than they are polled. Many small polls over many kept
//! rows cost more than states that are kept up to date would.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `kind.rs` | the part that aggregates and as-of joins have each to itself |
//! | `aggregates.rs` | aggregates of partners |
//! | `asof.rs` | the as-of join |
//! | `standing.rs` | the last right row of each key |
//! | `state.rs` | snapshots |

mod aggregates;
mod asof;
mod kind;
mod standing;
mod state;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::rows::Side;

use super::explanation::Explanation;
use super::intake::RestoredIntake;
use super::intake::ready::{ReadyRun, ReadyRuns, Rest};
use super::intake::rows::ROW_BYTES;
use super::join::{Asked, BATCH_ROWS, LateSides, Sides, left_first, side_rows};
use super::operator::{Figure, Operator, Step};
use super::options::StreamOptions;
use super::readers::Made;
use super::state::snapshot::{Reader, Writer};
use super::state::timed_rows::TimedRows;
use super::tactic::{Admit, Common, Tactic};
use crate::columns::keys::KeyColumn;
use crate::columns::time::Unit;
use crate::{Error, Result};
pub use aggregates::partner_aggregates;
pub use asof::asof_join;
use kind::{Kind, Leaving};

/// Rows of an epoch, at least, about, if there are as many.
const EPOCH_ROWS: usize = 1 << 17;

/// Rows, and pairs that may be looked at, of which the work is not done at once: it takes some
/// milliseconds.
const MANY_ROWS: usize = 1 << 15;
const MANY_PAIRS: u64 = 1 << 20;

/// Right rows that may be kept beyond twice the rows that are needed.
const SPARE_ROWS: usize = 1 << 10;

/// Where memory is short, right rows are looked through once they are this part more than those
/// that were needed last.
const SPARE: usize = 8;

/// The query of a join, as the operator needs it.
struct Query<'a> {
    kind: Box<dyn Kind>,
    asked: Asked,
    sides: Sides<'a>,
    keys: Vec<KeyColumn>,
}

/// The operator of a query.
fn operator(query: Query<'_>, options: &StreamOptions) -> Result<Operator> {
    let Query { kind, asked, sides, keys } = query;
    let common = sides.common(asked, options, 0)?;
    let tactic = PartnerTactic {
        kind,
        times: sides.times,
        unit: sides.unit,
        keys,
        left: TimedRows::new(sides.left.clone()),
        right: TimedRows::new(sides.right.clone()),
        gone: 0,
        due: None,
        settled: None,
        needed: 0,
        is_taking: false,
        is_half_done: false,
    };
    Ok(Operator::new(common, Box::new(tactic)))
}

/// Keeps rows until left rows are final, and lets the join of tables join these.
#[derive(Debug)]
struct PartnerTactic {
    kind: Box<dyn Kind>,
    times: (usize, usize),
    unit: Unit,
    keys: Vec<KeyColumn>,
    /// Left rows that are not final.
    left: TimedRows,
    /// Right rows that a left row may need.
    right: TimedRows,
    /// Left rows that were final.
    gone: u64,
    /// Up to where all rows have come that an epoch brought, until its left rows are looked at:
    /// no row is below it, and none comes at all if there is none.
    due: Option<Option<i64>>,
    /// The same, as of the last time that left rows were looked at.
    settled: Option<Option<i64>>,
    /// The right rows that were needed when they were looked through last.
    needed: usize,
    /// Whether some rows have left the gate but have not been stored yet.
    is_taking: bool,
    /// Whether results have been handed on of left rows that have not left.
    is_half_done: bool,
}

impl Tactic for PartnerTactic {
    fn step(&mut self, common: &mut Common) -> Result<Step> {
        // 1. An epoch whose left rows have not been looked at, since a rest was asked for.
        if let Some(now) = self.due {
            self.settle(common, now)?;
            return Ok(Step::Went);
        }
        // 2. The next epoch is what is ready now.
        let rows = common.look_ahead(self.epoch_rows());
        if rows > 0 {
            let driver = common.driver.fit(rows);
            let ready = driver.within(|| ReadyRuns::new(&common.pending, &driver))?;
            common.pending.clear();
            let last = ready.ts.last().copied();
            self.is_taking = true;
            self.take_in(common, ready)?;
            self.is_taking = false;
            let now = match common.rest {
                // Rows that are ready may be below the watermark.
                Rest::More => last,
                Rest::NotYet => common.intake.watermark(),
                Rest::End => None,
            };
            self.due = Some(now);
            self.settle(common, now)?;
            return Ok(Step::Went);
        }
        // 3. Promises alone may make left rows final.
        let now = if common.rest == Rest::End { None } else { common.intake.watermark() };
        if self.settled != Some(now) {
            self.due = Some(now);
            self.settle(common, now)?;
            if self.due.is_some() {
                return Ok(Step::Went);
            }
        } else if common.intake.shared.memory.is_short() {
            self.release(common, now)?;
        }
        Ok(if common.rest == Rest::End { Step::End } else { Step::NotYet })
    }

    fn is_long(&self, common: &mut Common) -> bool {
        let rows = common.look_ahead(self.epoch_rows());
        if rows == 0 && self.due.is_none() && self.settled == Some(common.intake.watermark()) {
            return false;
        }
        let (left, right) = (self.left.len() + rows, self.right.len() + rows);
        left + right > MANY_ROWS
            || (self.kind.looks_at_pairs() && left as u64 * right as u64 > MANY_PAIRS)
    }

    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        let sides = LateSides {
            schemas: [self.left.schema(), self.right.schema()],
            times: self.times,
            unit: self.unit,
            keys: &self.keys,
            of_sources: &common.intake.sides,
        };
        sides.batches(&common.intake.shared.late)
    }

    /// `state_rows`: rows that are kept. `state_bytes`: bytes that are kept beside the rows.
    fn figures(&self) -> Vec<(&'static str, Figure)> {
        let number = |number: usize| Figure::Number(number as u64);
        vec![
            ("state_rows", number(self.left.len() + self.right.len())),
            ("state_bytes", number(self.left.memory() + self.right.memory())),
        ]
    }

    fn is_working(&self) -> bool {
        self.due.is_some()
    }

    /// Left rows stay until they have results, which can be made again: a function of one's own may
    /// have failed.
    fn survives(&self, _: &Error) -> bool {
        !self.is_taking && !self.is_half_done
    }

    fn has_rows(&self) -> bool {
        self.gone > 0 || self.left.len() + self.right.len() > 0
    }

    fn batch_rows(&self) -> Option<usize> {
        Some(BATCH_ROWS)
    }

    fn write(&mut self, common: &Common, writer: &mut Writer) -> Result<()> {
        self.write_state(common, writer)
    }

    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        self.restore_state(intake, reader, row_bytes, admit)
    }

    fn close(&mut self) {
        self.left.clear();
        self.right.clear();
    }
}

impl PartnerTactic {
    /// The rows of the next epoch, about.
    fn epoch_rows(&self) -> usize {
        EPOCH_ROWS.max(self.left.len() + self.right.len())
    }

    /// Keeps ready rows.
    fn take_in(&mut self, common: &mut Common, ready: ReadyRuns) -> Result<()> {
        common.latency.begin(ready.runs.iter().map(|run| (run.pushed(), run.len() as u64)));
        let ReadyRuns { ts, sources, mut runs } = ready;
        let of_sources = common.intake.sides();
        let is_left = |source: u16| of_sources.of(source) == Side::Left;
        let of_left = left_first(&mut runs, of_sources);
        let sides = [(&mut self.left, &runs[..of_left]), (&mut self.right, &runs[of_left..])];
        for (at, (side, runs)) in sides.into_iter().enumerate() {
            let of_side = |source: u16| is_left(source) == (at == 0);
            let rows = side_rows(side.schema(), runs, &sources, of_side)?;
            let times = ts.iter().zip(&sources).filter(|&(_, &source)| of_side(source));
            let charges = runs.iter().map(ReadyRun::charge).collect();
            side.push(times.map(|(&ts, _)| ts), rows, charges)?;
        }
        Ok(())
    }

    /// Makes the results of left rows that are final where no row is below `now`, and lets go of
    /// all that no other left row needs. When a rest is asked for meanwhile, nothing is done.
    fn settle(&mut self, common: &mut Common, now: Option<i64>) -> Result<()> {
        match self.try_settle(common, now) {
            // The results are made again from the beginning.
            Err(error) if error.is_stopped() && common.driver.is_paused() => Ok(()),
            settled => settled,
        }
    }

    fn try_settle(&mut self, common: &mut Common, now: Option<i64>) -> Result<()> {
        // Once left rows have left, what remains to be done can be put off.
        let driver = common.driver.fit(self.left.len() + self.right.len());
        let settled =
            self.kind.settle(&self.left, &self.right, self.gone, now, &driver.resting())?;
        self.is_half_done = true;
        common.ready.extend(settled.batches.into_iter().map(Made::from));
        let before = self.left.len();
        match settled.leaving {
            Leaving::First(rows) => self.left.drop_first(rows),
            Leaving::AllBut(staying) => {
                let charge = |bytes| common.intake.shared.memory.charge_state(bytes);
                self.left.keep(&staying, common.intake.shared.row_bytes, charge)?;
            }
        }
        self.gone += (before - self.left.len()) as u64;
        self.release(common, now)?;
        self.is_half_done = false;
        (self.due, self.settled) = (None, Some(now));
        common.latency.settle();
        Ok(())
    }

    /// Lets go of right rows that no left row needs any more.
    fn release(&mut self, common: &Common, now: Option<i64>) -> Result<()> {
        let Some(now) = now else {
            self.right.clear();
            return Ok(());
        };
        let reach = self.kind.reach(self.left.first_ts(), now);
        self.right.drop_first(self.right.before(reach));
        self.needed = self.needed.min(self.right.len());
        let is_short = common.intake.shared.memory.is_short();
        let most = match is_short {
            true => self.needed + self.needed / SPARE,
            false => 2 * self.needed + SPARE_ROWS,
        };
        if self.kind.picks() && self.right.len() > most {
            self.look_through(common, now)?;
        }
        if is_short {
            self.left.shrink()?;
            self.right.shrink()?;
        }
        Ok(())
    }

    /// Keeps the right rows alone that a left row may need, where no row is below `now`.
    fn look_through(&mut self, common: &Common, now: i64) -> Result<()> {
        let driver = common.driver.fit(self.left.len() + self.right.len());
        let needed = self.kind.needed(&self.left, &self.right, now, &driver)?;
        if needed.len() < self.right.len() {
            // Before the rows are let go of, so that no source takes the room between.
            let charge = |bytes| common.intake.shared.memory.charge_state(bytes);
            self.right.keep(&needed, common.intake.shared.row_bytes, charge)?;
        }
        self.needed = needed.len();
        Ok(())
    }
}

/// The explanation of a join that gives each left row one row. The first lines say which rows there
/// are; `keeping` says how long right rows are kept, `place` where a left row comes.
fn explain(
    mut lines: Vec<String>,
    keeping: &str,
    place: &str,
    threads: usize,
    columns: usize,
    options: &StreamOptions,
) -> Explanation {
    let pinned = if options.pin { ", each pinned to one processor" } else { "" };
    lines.extend([
        format!("  sources    {} left, {} right", options.sources.0, options.sources.1),
        "  algorithm  the join of tables, of left rows that are final with the right rows that are \
         kept"
            .to_owned(),
        "  cost       of a poll with final rows: that of the join of tables over all right rows that \
         are kept"
            .to_owned(),
        format!("  threads    {threads}{pinned}"),
        format!(
            "  memory     left rows until they are final, {keeping}, and {ROW_BYTES} bytes each; \
             while they are joined, up to 80 more a row"
        ),
    ]);
    let any = if options.ordered { "" } else { ", also with ordered=False" };
    Explanation { lines, output: format!("  output     {columns} columns, {place}{any}") }
}
