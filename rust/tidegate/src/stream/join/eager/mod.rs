//! Joins whose pairs come as soon as both of their rows have been pushed.
//!
//! ```text
//! sources ─▶ rows as they are pushed ─▶ the engine finds which belong together ─▶ result batches ─▶ poll
//!                └─▶ stores, until promises say that no row to come can match them ─┘
//! ```
//!
//! | file | what is in it |
//! | --- | --- |
//! | `state.rs` | snapshots |

mod state;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;
use tidegate_operators::rows::{How, Progress, Results, RowJoin, Side, SideWatermarks};

use super::{
    EPOCH_ROWS, Engine, JoinPlan, KeptRows, LITTLE, Prepare, Query, StreamOptions, long_columns,
};
use crate::columns::time::Unit;
use crate::results::gather::concat_rows;
use crate::stream::intake::rows::SourceRun;
use crate::stream::intake::{Order, RestoredIntake};
use crate::stream::memory::Charge;
use crate::stream::operator::{Figure, Operator, Step};
use crate::stream::sides::late::LateSides;
use crate::stream::sides::maker::Maker;
use crate::stream::sides::{JoinRequest, Sides};
use crate::stream::state::snapshot::{Reader, Writer};
use crate::stream::state::store::Store;
use crate::stream::tactic::{Admit, Common, Effort, Tactic};
use crate::stream::times::ResultTimes;
use crate::{Error, Result};

/// Bytes that are kept of a row beside what every join keeps: its time and key, its place in time
/// order, and when it may come out alone.
pub(super) const ROW_BYTES: usize = 48;

/// The words of an explanation on rows that are found by key and time: the algorithm, the index.
pub(super) const BY_TIME: (&str, &str) = (
    "eager: a row meets all rows of its key that are kept and within reach, earlier and later ones; any thread looks for \
     any row",
    "the rows of each key and side that rows to come may match, in time order",
);

/// The operator whose pairs `engine` finds among rows of these schemas, in the order of arrival.
pub(super) fn operator<P: Prepare>(
    query: Query<'_>,
    engine: Engine<P>,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    let Query {
        identity,
        options: asked,
        times,
        unit,
        plan,
        explanation,
        widths,
        within,
        faults,
        ..
    } = query;
    let of_pairs = ResultTimes::of_pairs(within.as_ref(), &plan, times, unit, asked.how);
    let longs = match engine.prepare.scatters() {
        true => [long_columns(&plan, Side::Left, &left), long_columns(&plan, Side::Right, &right)],
        false => Default::default(),
    };
    let common = Sides { left: &left, right: &right, times, unit }.common(
        JoinRequest {
            identity,
            schema: plan.schema.clone(),
            times: of_pairs,
            explanation,
            threads: asked.threads,
            widths,
            order: Order::Arrival,
            faults,
        },
        options,
        engine.prepare.row_bytes(),
    )?;
    let tactic = EagerTactic {
        times,
        unit,
        plan,
        how: asked.how,
        stores: [Store::new(left, &longs[0]), Store::new(right, &longs[1])],
        engine,
        pending: VecDeque::new(),
        joining: false,
        promised: START,
        settled: Some(START),
    };
    Ok(Operator::new(common, Box::new(tactic)))
}

/// What is promised before any source has promised anything.
const START: SideWatermarks = [Some(i64::MIN); 2];

/// Neighbouring rows of a push that wait for their epoch.
#[derive(Debug)]
struct Piece {
    side: Side,
    ts: ScalarBuffer<i64>,
    rows: RecordBatch,
    /// The bytes that these rows take of the charge of their push.
    bytes: usize,
    charge: Arc<Charge>,
    pushed: Instant,
}

impl Piece {
    fn new(side: Side, run: SourceRun) -> Self {
        let SourceRun { ts, batch, pushed, charge } = run;
        Piece { side, ts, rows: batch, bytes: charge.bytes(), charge, pushed }
    }

    /// The first `rows` rows; the others stay.
    fn split(&mut self, rows: usize) -> Piece {
        let each = self.bytes.div_ceil(self.ts.len().max(1));
        let first = Piece {
            side: self.side,
            ts: self.ts.slice(0, rows),
            rows: self.rows.slice(0, rows),
            bytes: each * rows,
            charge: self.charge.clone(),
            pushed: self.pushed,
        };
        let left = self.ts.len() - rows;
        (self.ts, self.rows) = (self.ts.slice(rows, left), self.rows.slice(rows, left));
        self.bytes = each * left;
        first
    }
}

/// Joins rows as they arrive, and keeps each row while a row to come may match it.
#[derive(Debug)]
struct EagerTactic<P: Prepare> {
    times: (usize, usize),
    unit: Unit,
    plan: JoinPlan,
    how: How,
    stores: [Store; 2],
    engine: Engine<P>,
    /// Rows that have been taken from the sources.
    pending: VecDeque<Piece>,
    /// Whether an epoch is being joined.
    joining: bool,
    /// The promises that followed the rows that have been taken.
    promised: SideWatermarks,
    /// Those up to which rows have been let go of, unless rows have come since.
    settled: Option<SideWatermarks>,
}

impl<P: Prepare> Tactic for EagerTactic<P> {
    fn step(&mut self, common: &mut Common) -> Result<Step> {
        // 1. An epoch is joined until all of its pairs are made.
        if self.joining {
            let driver = common.driver.fit(self.engine.join.epoch_rows());
            driver.within(|| self.go_on(common))?;
            return Ok(Step::Went);
        }
        // 2. The next epoch is of rows that have been taken, then of those that have come since.
        if self.pending.is_empty() {
            // Rows that were taken are all joined, so the promises behind them hold.
            if self.settled != Some(self.promised) || common.intake.shared.memory.is_short() {
                self.settle(common)?;
            }
            self.look(common);
        }
        if !self.pending.is_empty() {
            let epoch = self.epoch();
            let rows = epoch.iter().map(|piece| piece.ts.len()).sum();
            common.driver.fit(rows).within(|| {
                self.begin(common, epoch)?;
                self.go_on(common)
            })?;
            return Ok(Step::Went);
        }
        // 3. Promises alone may settle that rows remain without a match.
        if self.settled != Some(self.promised) {
            self.settle(common)?;
        }
        Ok(if self.promised == [None; 2] { Step::End } else { Step::NotYet })
    }

    fn prepare(&self, common: &mut Common) -> Effort {
        let kept = self.engine.rows() as u64;
        let waiting = self.pending.iter().map(|piece| piece.ts.len()).sum::<usize>()
            + common.intake.shared.arrivals.as_ref().map_or(0, |arrivals| arrivals.rows())
            + if self.joining { self.engine.join.epoch_rows() } else { 0 };
        let compared = self.engine.comparisons_for(waiting, self.plan.predicate.is_some());
        Effort::long_if((self.how != How::Inner && kept > LITTLE) || compared > LITTLE)
    }

    fn late(&self, common: &Common) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        let sides = LateSides {
            schemas: [self.stores[0].schema(), self.stores[1].schema()],
            times: self.times,
            unit: self.unit,
            keys: &self.plan.keys,
            of_sources: &common.intake.sides,
        };
        sides.batches(&common.intake.shared.late)
    }

    fn figures(&self) -> Vec<(&'static str, Figure)> {
        let records = self.stores.iter().map(Store::record_memory).sum::<usize>();
        let mut figures = vec![
            ("state_rows", Figure::Number(self.engine.rows() as u64)),
            ("state_bytes", Figure::Number((self.engine.memory() + records) as u64)),
            ("comparisons", Figure::Numbers(self.engine.join.comparisons())),
        ];
        figures.extend(self.engine.prepare.figures(&self.engine.join));
        figures
    }

    fn promise(&self, _: &Common) -> Option<i64> {
        self.promised.iter().flatten().min().copied()
    }

    fn is_working(&self) -> bool {
        self.joining || !self.pending.is_empty()
    }

    fn has_rows(&self) -> bool {
        self.engine.first() != [0, 0] || self.engine.rows() > 0
    }

    fn write(&mut self, _: &Common, writer: &mut Writer) -> Result<()> {
        self.write_state(writer)
    }

    fn restore(
        &mut self,
        _: &RestoredIntake,
        reader: &mut Reader<'_>,
        row_bytes: usize,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        self.restore_state(reader, row_bytes, admit)
    }

    fn close(&mut self) {
        self.pending.clear();
        self.stores.iter_mut().for_each(|store| store.drop_before(u64::MAX));
    }
}

impl<P: Prepare> EagerTactic<P> {
    /// Takes what sources have brought.
    fn look(&mut self, common: &Common) {
        let Some(arrivals) = &common.intake.shared.arrivals else { return };
        let arrived = arrivals.take();
        let sides = common.intake.sides();
        let pieces = arrived.runs.into_iter();
        let pieces = pieces.map(|(source, run)| Piece::new(sides.of(source), run));
        self.pending.extend(pieces);
        let least = |side: Side| {
            let of_all = (0..).zip(&arrived.promises);
            let own = of_all.filter(|&(source, _)| sides.of(source) == side);
            own.filter_map(|(_, promise)| *promise).min()
        };
        self.promised = [least(Side::Left), least(Side::Right)];
    }

    /// The rows of the next epoch.
    fn epoch(&mut self) -> Vec<Piece> {
        let (mut epoch, mut rows) = (Vec::new(), 0);
        while rows < EPOCH_ROWS
            && let Some(mut piece) = self.pending.pop_front()
        {
            if piece.ts.len() > EPOCH_ROWS - rows {
                let first = piece.split(EPOCH_ROWS - rows);
                self.pending.push_front(piece);
                piece = first;
            }
            rows += piece.ts.len();
            epoch.push(piece);
        }
        epoch
    }

    /// Takes rows into the stores and begins to join them.
    fn begin(&mut self, common: &mut Common, epoch: Vec<Piece>) -> Result<()> {
        common.latency.begin(epoch.iter().map(|piece| (piece.pushed, piece.ts.len() as u64)));
        let of_side = |side: Side, store: &Store| -> Result<(Vec<i64>, RecordBatch)> {
            let own: Vec<&Piece> = epoch.iter().filter(|piece| piece.side == side).collect();
            let ts: Vec<&[i64]> = own.iter().map(|piece| &piece.ts[..]).collect();
            let rows = match &own[..] {
                [piece] => piece.rows.clone(),
                pieces => {
                    let batches: Vec<_> = pieces.iter().map(|piece| piece.rows.clone()).collect();
                    concat_rows(store.schema(), &batches)?
                }
            };
            Ok((ts.concat(), rows))
        };
        let (left, left_rows) = of_side(Side::Left, &self.stores[0])?;
        let (right, right_rows) = of_side(Side::Right, &self.stores[1])?;
        let mut sides = vec![Side::Left; left.len()];
        sides.resize(left.len() + right.len(), Side::Right);
        let batches = [left_rows, right_rows];
        let driver = common.driver.fit(sides.len());
        self.engine.begin(&driver, [left, right].concat(), sides, &batches)?;
        let mut charges: [Vec<(usize, Arc<Charge>)>; 2] = Default::default();
        for piece in epoch {
            charges[piece.side as usize].push((piece.bytes, piece.charge));
        }
        for ((store, rows), charges) in self.stores.iter_mut().zip(batches).zip(charges) {
            store.push(rows, charges)?;
        }
        (self.joining, self.settled) = (true, None);
        Ok(())
    }

    /// Joins more of the epoch.
    fn go_on(&mut self, common: &mut Common) -> Result<()> {
        let kept = KeptRows::new(&self.plan, self.stores.each_ref(), self.engine.first());
        match self.engine.advance(&common.driver, &kept)? {
            Progress::Results(results) => self.make(common, &results)?,
            Progress::Pieces(pieces) => {
                let join = &*self.engine.join;
                let driver = common.driver.fit(join.epoch_rows());
                let found = driver.map(pieces, |rows| join.assemble(rows))?;
                found.into_iter().try_for_each(|results| self.make(common, &results))?;
            }
        }
        if self.engine.join.is_done() {
            self.joining = false;
            common.latency.settle();
        }
        Ok(())
    }

    /// Makes the rows that are certain to have no match, and lets go of all that no row to come can
    /// match.
    fn settle(&mut self, common: &mut Common) -> Result<()> {
        let alone = self.engine.join.unmatched(self.promised);
        self.make(common, &alone)?;
        self.engine.purge(self.promised);
        for (store, first) in self.stores.iter_mut().zip(self.engine.first()) {
            store.drop_before(first);
        }
        self.pack(false)?;
        if common.intake.shared.memory.is_short() {
            self.stores.iter_mut().try_for_each(Store::shrink)?;
        }
        self.settled = Some(self.promised);
        Ok(())
    }

    /// Lets go of all rows that no row to come can match, if that is worth it or `is_due`.
    fn pack(&mut self, is_due: bool) -> Result<()> {
        if let Some(kept) = self.engine.pack(self.promised, is_due) {
            let stores = self.stores.iter_mut().zip(&kept);
            stores.into_iter().try_for_each(|(store, kept)| store.retain(kept))?;
        }
        Ok(())
    }

    /// Makes the batches of results.
    fn make(&self, common: &mut Common, results: &Results) -> Result<()> {
        if results.left.is_empty() {
            return Ok(());
        }
        let maker = Maker::new(&self.plan, self.how, self.stores.each_ref());
        let driver = common.driver.fit(results.left.len());
        common.keep(maker.batches(results, &driver)?.into_iter().map(Ok))
    }
}

/// An error for a parallelism that shares keys out, which rows in any order have no use for.
pub(super) fn check_shares(is_auto: bool) -> Result<()> {
    if is_auto {
        return Ok(());
    }
    Err(Error::argument(
        "parallelism: with ordered=False any thread looks for any row, whatever its key; leave it out, \
         or ask for ordered=True",
    ))
}
