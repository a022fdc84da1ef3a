//! Joins of push sources. Each of these joins returns one row per left row, which contains
//! aggregates of the left row's partners or its as-of partner.
//!
//! ```text
//! sources ─▶ gate ─▶ ready rows ─▶ left rows, until they are final ──┐
//!                                └▶ right rows within reach ─────────┴─▶ the join of tables ─▶ poll
//! ```
//!
//! A left row waits until no further row can become its partner. The code that joins tables then
//! joins the final left rows with the kept right rows. The results are therefore bit-for-bit
//! identical to those for tables. Results are sorted by the time at which their left rows became
//! final, and results with equal times are in merged order. The order of the results depends only
//! on the rows.
//!
//! The tactic is a `Recomputation`, whose cost is described in `stream/recomputation.rs`.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `kind.rs` | the parts in which aggregates and as-of joins (`stream/join/asof.rs`) differ |
//! | `aggregates.rs` | aggregates of partners |
//! | `standing.rs` | the last right row of each key |
//! | `state.rs` | snapshots |

mod aggregates;
pub(super) mod kind;
pub(super) mod standing;
mod state;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::Side;

use super::explanation::Explanation;
use super::intake::RestoredIntake;
use super::intake::ready::{ReadyRun, ReadyRuns};
use super::intake::rows::ROW_BYTES;
use super::operator::Operator;
use super::options::StreamOptions;
use super::recomputation::{FinalResults, MANY_ROWS, Recomputation, TableJob, Watermark};
use super::sides::late::LateSides;
use super::sides::maker::BATCH_ROWS;
use super::sides::rows::{left_first, side_rows};
use super::sides::{JoinRequest, Sides};
use super::state::snapshot::{Reader, Writer};
use super::state::timed_rows::TimedRows;
use super::tactic::{Admit, Common};
use crate::Result;
use crate::columns::keys::KeyColumn;
use crate::columns::time::Unit;
pub use aggregates::partner_aggregates;
use kind::{FinalRows, PartnerKind};

/// If more pairs than this have to be compared, the work is deferred because it would take several
/// milliseconds.
const MANY_PAIRS: u64 = 1 << 20;

/// Unneeded right rows are searched for once `right.len() > 2 * needed + SPARE_ROWS`.
const SPARE_ROWS: usize = 1 << 10;

/// When memory is short, unneeded right rows are searched for once `right.len() > needed + needed /
/// SPARE`.
const SPARE: usize = 8;

/// A join query, in the form that the operator requires.
pub(super) struct PartnerQuery<'a> {
    pub(super) kind: Box<dyn PartnerKind>,
    pub(super) request: JoinRequest,
    pub(super) sides: Sides<'a>,
    pub(super) keys: Vec<KeyColumn>,
}

/// Creates the operator for a query.
pub(super) fn operator(query: PartnerQuery<'_>, options: &StreamOptions) -> Result<Operator> {
    let PartnerQuery { kind, request, sides, keys } = query;
    let common = sides.common(request, options, 0)?;
    let job = PartnerJob {
        kind,
        times: sides.times,
        unit: sides.unit,
        keys,
        left: TimedRows::new(sides.left.clone()),
        right: TimedRows::new(sides.right.clone()),
        gone: 0,
        needed: 0,
    };
    Ok(Operator::new(common, Box::new(Recomputation::new(job))))
}

/// Left rows that are not final, the right rows that they may need, and the join of tables.
#[derive(Debug)]
struct PartnerJob {
    kind: Box<dyn PartnerKind>,
    times: (usize, usize),
    unit: Unit,
    keys: Vec<KeyColumn>,
    /// The left rows that are not yet final.
    left: TimedRows,
    /// The right rows that a left row may need.
    right: TimedRows,
    /// The number of left rows that have become final so far.
    gone: u64,
    /// The number of right rows that the last search found to be needed.
    needed: usize,
}

impl TableJob for PartnerJob {
    const EPOCH_ROWS: usize = 1 << 17;

    type LeavingRows = FinalRows;

    fn rows(&self) -> usize {
        self.left.len() + self.right.len()
    }

    fn bytes(&self) -> usize {
        self.left.memory() + self.right.memory()
    }

    fn is_long(&self, rows: usize) -> bool {
        let (left, right) = (self.left.len() + rows, self.right.len() + rows);
        left + right > MANY_ROWS
            || (self.kind.looks_at_pairs() && left as u64 * right as u64 > MANY_PAIRS)
    }

    fn take_in(&mut self, common: &Common, ready: ReadyRuns) -> Result<()> {
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

    fn settle(
        &self,
        _: &Common,
        _: Option<Watermark>,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<FinalRows>> {
        self.kind.settle(&self.left, &self.right, self.gone, now, driver)
    }

    fn let_go(&mut self, common: &Common, leaving: FinalRows, now: Watermark) -> Result<()> {
        let before = self.left.len();
        match leaving {
            FinalRows::First(rows) => self.left.drop_first(rows),
            FinalRows::AllBut(staying) => {
                let charge = |bytes| common.intake.shared.memory.charge_state(bytes);
                self.left.keep(&staying, common.intake.shared.row_bytes, charge)?;
            }
        }
        self.gone += (before - self.left.len()) as u64;
        self.release(common, now)
    }

    fn spare(&mut self, common: &Common, now: Watermark) -> Result<()> {
        self.release(common, now)
    }

    fn takes_sources(&self) -> bool {
        true
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

    fn has_rows(&self, _: Option<Watermark>) -> bool {
        self.gone > 0 || self.rows() > 0
    }

    fn batch_rows(&self) -> Option<usize> {
        Some(BATCH_ROWS)
    }

    fn write(
        &mut self,
        common: &Common,
        settled: Option<Watermark>,
        writer: &mut Writer,
    ) -> Result<()> {
        self.write_state(common, settled, writer)
    }

    fn restore(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<Option<Watermark>> {
        self.restore_state(intake, reader, row_bytes, admit)?;
        Ok(None)
    }

    fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
    }
}

impl PartnerJob {
    /// Drops the right rows that left rows no longer need.
    fn release(&mut self, common: &Common, now: Watermark) -> Result<()> {
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

    /// Keeps only the right rows that left rows may need, given that no more rows before `now` will
    /// arrive.
    fn look_through(&mut self, common: &Common, now: i64) -> Result<()> {
        let driver = common.driver.fit(self.left.len() + self.right.len());
        let needed = self.kind.needed(&self.left, &self.right, now, &driver)?;
        if needed.len() < self.right.len() {
            // This happens before the rows are dropped so that no source takes up the free memory
            // in the meantime.
            let charge = |bytes| common.intake.shared.memory.charge_state(bytes);
            self.right.keep(&needed, common.intake.shared.row_bytes, charge)?;
        }
        self.needed = needed.len();
        Ok(())
    }
}

/// Explains a join that returns one row per left row. `lines` describes the result rows, `keeping`
/// describes how long right rows are kept, and `place` describes the position at which a left row
/// is emitted.
pub(super) fn explain(
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
        "  algorithm  the join of tables, applied to final left rows and kept right rows"
            .to_owned(),
        "  cost       a poll with final rows costs as much as the join of tables over all right \
         rows that are kept"
            .to_owned(),
        format!("  threads    {threads}{pinned}"),
        format!(
            "  memory     left rows until they are final, {keeping}, plus {ROW_BYTES} bytes per \
             row; while rows are being joined, up to 80 more bytes per row"
        ),
    ]);
    let any = if options.ordered { "" } else { ", also with ordered=False" };
    Explanation { lines, output: format!("  output     {columns} columns, {place}{any}") }
}
