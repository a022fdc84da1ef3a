//! Joins of push sources. This module does everything except find the pairs.
//!
//! ```text
//! sources ─▶ gate ─▶ ready rows on both sides ─▶ the engine finds pairs ─▶ result batches ─▶ poll
//!                      └─▶ stores, until no later row can match them ────────────┘
//! ```
//!
//! With `ordered=False`, most joins process rows in arrival order, without the gate. Each row is
//! then compared with earlier and later rows, and promises determine when no more rows can match
//! it.
//!
//! An epoch has about 131,072 rows at most (`EPOCH_ROWS`).
//!
//! | file | what is in it |
//! | --- | --- |
//! | `engine.rs` | finds pairs: a `RowJoin`, and a `Prepare` that computes values for it |
//! | `interval.rs`, `window.rs`, `band.rs` | how three kinds of joins prepare values |
//! | `overlap.rs`, `spans.rs` | the overlap join: an interval join that tests starts and ends |
//! | `asof.rs` | the as-of join, which matches each left row with one right row (`stream/partners/`) |
//! | `epoch.rs` | the rows in an epoch |
//! | `arrival.rs` | rows in arrival order |
//! | `state.rs` | snapshots |

mod arrival;
mod asof;
mod band;
mod engine;
mod epoch;
mod interval;
mod overlap;
mod spans;
mod state;
#[cfg(test)]
mod tests;
mod window;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{How, Interval, Progress, Results, RowJoin, Side, SideWatermarks};

use super::explanation::Explanation;
use super::intake::ready::{ReadyRuns, Rest};
use super::intake::{Order, RestoredIntake};
use super::operator::Operator;
use super::options::StreamOptions;
use super::outcome::{Figure, Step};
use super::sides::late::LateSides;
use super::sides::maker::{BATCH_ROWS, Maker, long_columns};
use super::sides::{JoinRequest, Sides};
use super::state::snapshot::{Reader, Writer};
use super::state::store::Store;
use super::tactic::{Admit, Common, Effort, Tactic};
use super::times::ResultTimes;
use crate::columns::faults::Faults;
use crate::columns::row_ends::Width;
use crate::columns::time::Unit;
use crate::query::identity::Identity;
use crate::query::options::{JoinOptions, JoinPlan};
use crate::{Error, Result};
use arrival::ArrivalQueue;
pub use asof::asof_join;
pub use band::{band_join, band_self_join};
use engine::{Engine, KeptRows, Prepare};
use epoch::Epoch;
pub use interval::{Parallelism, interval_join};
pub use overlap::overlap_join;
pub use window::window_join;

/// The approximate maximum number of rows in an epoch. An epoch should be large enough to divide
/// among threads, yet small enough to produce results quickly.
const EPOCH_ROWS: usize = 1 << 17;

/// Comparing this many pairs or emitting this many rows takes only a few milliseconds, so the work
/// is done immediately.
const LITTLE: u64 = 1 << 20;

/// A query in the form that a streaming join requires.
#[derive(Debug)]
pub(super) struct Query<'a> {
    /// The text that determines the results. This text distinguishes the snapshots of different
    /// queries.
    pub(super) identity: Identity,
    pub(super) options: &'a JoinOptions,
    /// The time column of each side.
    pub(super) times: (usize, usize),
    pub(super) unit: Unit,
    pub(super) plan: JoinPlan,
    /// The explanation of the join, as shown to users.
    pub(super) explanation: Explanation,
    /// On each side, the maximum distance between a computed end and the time of its row.
    pub(super) widths: [Option<Width>; 2],
    /// The range of time differences between paired rows, if it depends only on times.
    pub(super) within: Option<Interval>,
    /// The record of pairs for which the condition cannot be evaluated.
    pub(super) faults: Faults,
    /// True if the right rows come from the left sources.
    pub(super) of_one_stream: bool,
    /// The order in which the engine processes rows.
    pub(super) order: Order,
}

/// Creates the operator for a join. `engine` finds pairs among rows with these schemas.
pub(super) fn operator<P: Prepare>(
    query: Query<'_>,
    engine: Engine<P>,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    let Query {
        identity,
        options: query,
        times,
        unit,
        plan,
        explanation,
        widths,
        within,
        faults,
        of_one_stream,
        order,
    } = query;
    if of_one_stream != (options.sources.1 == 0) {
        return Err(Error::argument(match of_one_stream {
            true => "sources: a join of one stream with itself has no right sources; pass 0",
            false => "sources: expected at least one right source",
        }));
    }
    let of_pairs = ResultTimes::of_pairs(within.as_ref(), &plan, times, unit, query.how);
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
            // Otherwise, the threads of both would be pinned to the same processors.
            threads: if engine.join.has_threads() { 1 } else { query.threads },
            widths,
            order,
            faults,
        },
        options,
        engine.prepare.row_bytes(),
    )?;
    let tactic = JoinTactic {
        times,
        unit,
        plan,
        how: query.how,
        within,
        stores: [Store::new(left, &longs[0]), Store::new(right, &longs[1])],
        of_one_stream,
        engine,
        arriving: matches!(order, Order::Arrival).then(ArrivalQueue::new),
        epoch: None,
        has_new: false,
        releasing: false,
        settled: None,
        reached: None,
        is_half_done: false,
    };
    Ok(Operator::new(common, Box::new(tactic)))
}

/// Joins rows one epoch at a time, and keeps the rows that later ones can match.
#[derive(Debug)]
pub(super) struct JoinTactic<P: Prepare> {
    times: (usize, usize),
    unit: Unit,
    plan: JoinPlan,
    how: How,
    /// The range of time differences between paired rows, if it depends only on times.
    within: Option<Interval>,
    stores: [Store; 2],
    /// True if the right rows of results are stored on the left side; the right side is then empty.
    of_one_stream: bool,
    engine: Engine<P>,
    /// The rows that are still waiting, if rows are processed in arrival order.
    arriving: Option<ArrivalQueue>,
    /// The last time in the epoch that is being joined, or `None` once the join has dropped rows.
    epoch: Option<i64>,
    /// True if rows have arrived since the engine last released the results that it had held back.
    has_new: bool,
    /// True while the engine releases the results that it has held back. The engine is refilled
    /// afterwards.
    releasing: bool,
    /// The watermarks up to which rows were last settled, or `None` if rows have arrived since
    /// then.
    settled: Option<SideWatermarks>,
    /// The time up to which all results have been produced.
    reached: Option<i64>,
    /// True while a failure would lose the results for some rows.
    is_half_done: bool,
}

impl<P: Prepare> Tactic for JoinTactic<P> {
    fn step(&mut self, common: &mut Common) -> Result<Step> {
        self.is_half_done = true;
        // 1. An epoch is joined until all of its results have been produced, or further rows are
        //    taken.
        if self.is_joining() && self.take_further(common) == 0 {
            let driver = common.driver.fit(self.engine.join.epoch_rows());
            driver.within(|| self.go_on(common))?;
            return Ok(Step::Went);
        }
        if std::mem::take(&mut self.releasing) {
            let now = self.now(common);
            self.settle(common, now)?;
            let [left, right] = [self.stores[0].rows()?, self.stores[1].rows()?];
            self.engine.refill([&left, &right])?;
            return Ok(Step::Went);
        }
        // 2. Rows whose pairs were already emitted are stored, but not joined again.
        if common.recalls && !self.has_rows() && self.arriving.is_none() {
            let rows = common.take_ready(usize::MAX);
            if rows > 0 {
                common.driver.fit(rows).within(|| self.recall(common))?;
                return Ok(Step::Went);
            }
        }
        // 3. The rows that are ready now, or have arrived, form the next epoch.
        let rows = self.take(common)?;
        if rows > 0 {
            self.settled = None;
            // The lasting threads stay awake meanwhile, because waking one takes longer than many
            // parts of the work.
            common.driver.fit(rows).within(|| {
                self.begin(common, rows)?;
                self.go_on(common)
            })?;
            return Ok(Step::Went);
        }
        // 4. At the end, emit the results that were held back.
        if common.rest == Rest::End && self.engine.join.holds_back() {
            self.engine.join.flush();
            return Ok(Step::Went);
        }
        // 5. If there is no memory for a source's rows, release the rows that are kept only for
        //    results that are held back. Rows are released only once after new rows have arrived.
        //    Otherwise, this would be repeated whenever a source retries and is refused.
        let memory = &common.intake.shared.memory;
        if common.rest == Rest::NotYet
            && self.engine.join.holds_back()
            && memory.take_refused()
            && self.has_new
        {
            self.release();
            return Ok(Step::Went);
        }
        // 6. A promise alone may determine that rows remain unmatched. If memory is short, the
        //    stores are shrunk.
        self.settle_anew(common)?;
        Ok(if common.rest == Rest::End { Step::End } else { Step::NotYet })
    }

    fn prepare(&self, common: &mut Common) -> Effort {
        let kept = self.engine.rows() as u64;
        let is_begun = self.is_joining() || self.releasing;
        let is_flushing = self.epoch.is_none() && is_begun;
        let begun = if is_begun { self.engine.join.epoch_rows() } else { 0 };
        let rows = begun
            + match &self.arriving {
                Some(arriving) => arriving.rows() + arrived(common),
                None if is_begun => self.take_further(common),
                None => common.take_ready(EPOCH_ROWS),
            };
        // All kept rows may be emitted unmatched; rows that are held back have not been compared
        // with all others.
        let settles = self.how != How::Inner
            && (rows > 0 || self.arriving.is_some() || self.settled != Some(self.now(common)));
        let flushes = is_flushing || (self.engine.join.holds_back() && rows == 0);
        let rows = if flushes { kept as usize } else { rows };
        let has_condition = self.plan.predicate.is_some();
        Effort::long_if(
            (settles && kept > LITTLE) || self.engine.comparisons_for(rows, has_condition) > LITTLE,
        )
    }

    /// Returns true if the failed step can be repeated, which is possible until its rows have left
    /// the gate.
    fn survives(&self, _: &Error) -> bool {
        !self.is_half_done
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
        let rows = self.engine.rows();
        let records = self.stores.iter().map(Store::record_memory).sum::<usize>();
        let mut figures = vec![
            ("state_rows", Figure::Number(rows as u64)),
            ("state_bytes", Figure::Number((self.engine.memory() + records) as u64)),
            ("comparisons", Figure::Numbers(self.engine.join.comparisons())),
        ];
        figures.extend(self.engine.prepare.figures(&self.engine.join));
        figures
    }

    fn promise(&self, common: &Common) -> Option<i64> {
        self.now(common).into_iter().flatten().min()
    }

    fn reached(&self) -> Option<i64> {
        self.reached
    }

    fn holds_back(&self) -> bool {
        self.engine.join.holds_back()
    }

    fn release(&mut self) {
        if self.engine.join.holds_back() {
            self.engine.join.flush();
            self.has_new = false;
            self.releasing = true;
        }
    }

    fn is_working(&self) -> bool {
        self.is_joining()
            || self.releasing
            || self.arriving.as_ref().is_some_and(|it| !it.is_empty())
    }

    fn has_rows(&self) -> bool {
        self.engine.first() != [0, 0] || self.engine.rows() > 0
    }

    fn batch_rows(&self) -> Option<usize> {
        self.arriving.is_none().then_some(BATCH_ROWS)
    }

    fn write(&mut self, common: &Common, writer: &mut Writer) -> Result<()> {
        self.write_state(self.now(common), writer)
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
        self.engine.join.close();
        self.arriving.iter_mut().for_each(ArrivalQueue::clear);
        self.stores.iter_mut().for_each(|store| store.drop_before(u64::MAX));
    }
}

impl<P: Prepare> JoinTactic<P> {
    /// Returns whether an epoch is still being joined or the engine is still producing results that
    /// it held back.
    fn is_joining(&self) -> bool {
        self.epoch.is_some() || !self.engine.join.is_done()
    }

    /// Takes the ready rows that the join can accept while it is still joining earlier rows.
    /// Returns the number of rows.
    fn take_further(&self, common: &mut Common) -> usize {
        let join = &self.engine.join;
        let takes_more = self.is_joining() && join.has_threads() && join.takes_rows();
        if takes_more { common.take_ready(EPOCH_ROWS) } else { 0 }
    }

    /// Returns the watermarks that apply after all rows taken so far have been joined.
    fn now(&self, common: &Common) -> SideWatermarks {
        match &self.arriving {
            Some(arriving) => arriving.promised(),
            None if common.rest == Rest::End => [None; 2],
            None => [common.intake.watermark(); 2],
        }
    }

    /// Takes rows for the next epoch, and returns the approximate number of rows in that epoch.
    fn take(&mut self, common: &mut Common) -> Result<usize> {
        if self.arriving.as_ref().is_some_and(ArrivalQueue::is_empty) {
            // All rows that were taken have been joined, so the promises that followed them hold.
            self.settle_anew(common)?;
        }
        let Some(arriving) = &mut self.arriving else { return Ok(common.take_ready(EPOCH_ROWS)) };
        if arriving.is_empty() {
            arriving.look(common);
        }
        Ok(arriving.rows().min(EPOCH_ROWS))
    }

    /// Moves an epoch of about `rows` rows into the stores and starts joining them.
    fn begin(&mut self, common: &mut Common, rows: usize) -> Result<()> {
        let schemas = [self.stores[0].schema(), self.stores[1].schema()];
        let epoch = match &mut self.arriving {
            Some(arriving) => arriving.epoch(common, schemas)?,
            None => {
                self.is_half_done = false;
                let ready = ReadyRuns::new(&common.pending, &common.driver.fit(rows))?;
                self.is_half_done = true;
                common.pending.clear();
                Epoch::merged(ready, common, schemas)?
            }
        };
        self.epoch = epoch.ts.last().copied();
        self.has_new = true;
        self.enter(common, epoch, |engine, driver, ts, sides, batches| {
            engine.begin(driver, ts, sides, batches)
        })
    }

    /// Stores ready rows whose pairs have already been emitted. If a row can still be emitted as
    /// unmatched, the engine looks for a match again.
    fn recall(&mut self, common: &mut Common) -> Result<()> {
        let ready = ReadyRuns::new(&common.pending, &common.driver)?;
        common.pending.clear();
        let since = self.unsettled_since(common.intake.watermark());
        self.reached = ready.ts.last().copied();
        self.epoch = self.reached.filter(|&last| last >= since);
        let schemas = [self.stores[0].schema(), self.stores[1].schema()];
        let epoch = Epoch::merged(ready, common, schemas)?;
        self.enter(common, epoch, |engine, driver, ts, sides, batches| {
            let settled = ts.partition_point(|&ts| ts < since);
            engine.recall(driver, (ts, sides), batches, settled)
        })?;
        if self.epoch.is_none() {
            common.latency.settle();
        }
        Ok(())
    }

    /// Returns the earliest time of a row that may still find its first match. That match would be
    /// a row at or after `now`.
    fn unsettled_since(&self, now: Option<i64>) -> i64 {
        let (lower, upper) = match &self.within {
            Some(Interval { lower, upper, .. }) => (*lower, *upper),
            None => (None, None),
        };
        let lasting = [(Side::Left, upper), (Side::Right, lower.map(i64::saturating_neg))];
        let since = |lasting: Option<i64>| match (now, lasting) {
            (None, _) => i64::MAX,
            (Some(_), None) => i64::MIN,
            (Some(now), Some(lasting)) => now.saturating_sub(lasting.max(0)),
        };
        let marked = lasting.iter().filter(|(side, _)| self.how.marks(*side));
        marked.map(|(_, lasting)| since(*lasting)).min().unwrap_or(i64::MAX)
    }

    /// Moves rows into the stores, and calls `take` to pass them to the engine.
    fn enter(
        &mut self,
        common: &Common,
        epoch: Epoch,
        take: impl FnOnce(&mut Engine<P>, &Driver, Vec<i64>, Vec<Side>, &[RecordBatch; 2]) -> Result<()>
        + Send,
    ) -> Result<()> {
        let Epoch { ts, sides, batches, charges } = epoch;
        let driver = common.driver.fit(ts.len());
        let (engine, stores) = (&mut self.engine, &mut self.stores);
        let store = || {
            let mut stores = stores.iter_mut().zip(&batches).zip(charges);
            stores.try_for_each(|((store, rows), charges)| store.push(rows.clone(), charges))
        };
        let take = || take(engine, &driver, ts, sides, &batches);
        let (taken, stored) = driver.both(take, store);
        taken.and(stored)
    }

    /// Continues joining the epoch. In merged order, rows that no later row can match are dropped
    /// after all of the epoch's results have been produced. If rows from several epochs are being
    /// joined, unneeded rows are dropped earlier.
    fn go_on(&mut self, common: &mut Common) -> Result<()> {
        self.advance(common)?;
        let join = &self.engine.join;
        let (now, left) = match join.is_done() {
            true => (self.epoch.take(), 0),
            false => (join.given(), join.epoch_rows() as u64),
        };
        let reached = if join.holds_back() { join.given() } else { now };
        if now.is_none() {
            return Ok(());
        }
        if self.arriving.is_none() {
            self.settle(common, [now; 2])?;
            self.reached = self.reached.max(reached);
        }
        common.latency.settle_but(left);
        Ok(())
    }

    fn advance(&mut self, common: &mut Common) -> Result<()> {
        let first = self.engine.first();
        let first = if self.of_one_stream { [first[0]; 2] } else { first };
        let kept = KeptRows::new(&self.plan, self.sides(), first);
        match self.engine.advance(&common.driver, &kept)? {
            Progress::Results(results) => self.make(common, &results),
            Progress::Pieces(_) if common.recalls => Ok(()),
            Progress::Pieces(pieces) => {
                let (join, maker) = (&*self.engine.join, self.maker());
                let driver = common.driver.fit(join.epoch_rows());
                let made =
                    driver.map(pieces, |rows| maker.batches(&join.assemble(rows), &driver))?;
                made.into_iter().try_for_each(|batches| common.keep(batches?.into_iter().map(Ok)))
            }
        }
    }

    /// Settles rows at the current watermarks. Does nothing if the rows have already been settled
    /// and memory is not short.
    fn settle_anew(&mut self, common: &mut Common) -> Result<()> {
        let now = self.now(common);
        let is_short = common.intake.shared.memory.is_short();
        if now == [None; 2] || self.settled != Some(now) || is_short {
            self.settle(common, now)?;
            self.settled = Some(now);
        }
        Ok(())
    }

    /// Emits the rows that can no longer match, and drops the rows that no row at `now` or later
    /// can match.
    fn settle(&mut self, common: &mut Common, now: SideWatermarks) -> Result<()> {
        let results = self.engine.join.unmatched(now);
        self.make(common, &results)?;
        self.engine.purge(now);
        for (store, first) in self.stores.iter_mut().zip(self.engine.first()) {
            store.drop_before(first);
        }
        self.pack(now)?;
        if common.intake.shared.memory.is_short() {
            self.stores.iter_mut().try_for_each(Store::shrink)?;
        }
        Ok(())
    }

    /// Drops unneeded rows between needed ones, if this is worth the cost.
    fn pack(&mut self, now: SideWatermarks) -> Result<()> {
        let Some(kept) = self.engine.pack(now) else { return Ok(()) };
        self.stores.iter_mut().zip(&kept).try_for_each(|(store, kept)| store.retain(kept))
    }

    /// Builds the batches of results.
    fn make(&self, common: &mut Common, results: &Results) -> Result<()> {
        if results.left.is_empty() || common.recalls {
            return Ok(());
        }
        let driver = common.driver.fit(results.left.len());
        common.keep(self.maker().batches(results, &driver)?.into_iter().map(Ok))
    }

    fn maker(&self) -> Maker {
        Maker::new(&self.plan, self.how, self.sides())
    }

    /// Returns the stores that contain the left and right rows of results.
    fn sides(&self) -> [&Store; 2] {
        let [left, right] = &self.stores;
        [left, if self.of_one_stream { left } else { right }]
    }
}

/// Returns the number of rows that have arrived but have not been taken.
fn arrived(common: &Common) -> usize {
    common.intake.shared.arrivals.as_ref().map_or(0, |arrivals| arrivals.rows())
}
