//! Pushes rows into a source after all rows have been checked and their memory has been charged.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::Schema;
use tidegate_operators::driver::{Driver, Stopped};
use tidegate_operators::rows::LateRow;
use tidegate_structures::memory;
use tidegate_sync::Stop;

use super::change::{Change, Push, aside, without};
use super::{IntakeState, Source};
use crate::columns::fit::{Extra, fit};
use crate::columns::roomy::with_indices;
use crate::columns::table::Table;
use crate::columns::time;
use crate::stream::intake::late::TOO_WIDE;
use crate::stream::memory::Charge;
use crate::{Error, Result};

impl Source {
    /// Adds rows. The call accepts either all rows or none. No rows are accepted if the call fails,
    /// or if `stop` is requested before the first row has been accepted.
    ///
    /// The columns can be in a different order, and their types can differ as long as they
    /// represent the same values.
    pub fn push(&mut self, schema: &Schema, batches: Vec<RecordBatch>, stop: &Stop) -> Result<()> {
        self.push_fitting(schema, batches, Extra::Refuse, stop)
    }

    /// Does the same as [`push`](Self::push), but ignores additional columns.
    pub fn push_fitting(
        &mut self,
        schema: &Schema,
        batches: Vec<RecordBatch>,
        extra: Extra,
        stop: &Stop,
    ) -> Result<()> {
        self.is_full = false;
        self.check_open()?;
        self.check_goes_on()?;
        // 1. Find all errors in the rows before counting the first row. Values are converted once
        //    they are known to be well formed.
        let driver = Driver::new(1, stop.clone());
        let given = Table::new(self.name.clone(), Arc::new(schema.clone()), batches, &driver)?;
        let batches = given.batches().to_vec();
        let given = self.stream.given();
        let mut batches = fit(&self.name, given, schema, batches, self.rows_in, extra)?;
        if self.stream.given.is_some() {
            for batch in &mut batches {
                *batch = with_indices(batch, &self.stream.schema)?;
            }
        }
        let table = Table::of_valid(self.name.clone(), self.stream.schema.clone(), batches)?;
        let mut first = self.rows_in;
        let mut times = Vec::with_capacity(table.batches().len());
        for batch in table.batches() {
            let column = batch.column(self.stream.on);
            let ts =
                time::chunk_times(&self.name, self.time_field(), column, self.stream.unit, first)?;
            self.stream.check_windows(&self.name, batch, &ts, first)?;
            let wide = match &self.stream.width {
                None => Vec::new(),
                Some(width) => {
                    width.too_wide(batch, &ts, first).map_err(|error| error.within(&self.name))?
                }
            };
            times.push((ts, wide));
            first += batch.num_rows() as u64;
        }
        if stop.is_requested() {
            return Err(Stopped.into());
        }
        // 2. Check that the memory stays within the limit.
        let bytes = table.bytes() + table.rows() * self.shared.row_bytes;
        let charge = self.charge(table.rows(), bytes)?;
        // 3. Prepare the change before modifying anything, because memory may run out.
        let resumed =
            (self.is_idle && table.rows() > 0).then(|| self.shared.watermarks.resume(self.number));
        let row_bytes = bytes / table.rows().max(1);
        let made = Error::catch(|| {
            self.push_of(table.batches(), times, row_bytes, resumed.map(|resumed| resumed.floor))
        });
        let change = made.inspect_err(|_| {
            if let Some(resumed) = resumed {
                self.shared.watermarks.take_back(self.number, resumed);
            }
        })?;
        // 4. Nothing can fail from here on.
        self.is_idle &= resumed.is_none();
        self.hold(charge);
        self.rows_in += table.rows() as u64;
        self.make(change);
        self.shared.news.tell();
        Ok(())
    }

    /// Prepares a change that adds pushed batches. Each batch is accompanied by its times and by
    /// the rows whose intervals are too wide.
    fn push_of(
        &self,
        batches: &[RecordBatch],
        times: Vec<(ScalarBuffer<i64>, Vec<u32>)>,
        row_bytes: usize,
        floor: Option<i64>,
    ) -> Result<Change> {
        memory::check();
        let mut change = Change::of(&self.reorder);
        floor.into_iter().for_each(|floor| change.draft.advance(floor));
        let mut first = self.rows_in;
        let pushed = Instant::now();
        for (batch, (ts, wide)) in batches.iter().zip(times) {
            let push = Push { ts, batch: batch.clone(), pushed };
            let late = self.take_in(&mut change, push, &wide)?;
            if !late.is_empty() {
                change.late.push(aside(batch, &late, first, late.len() * row_bytes)?);
            }
            first += batch.num_rows() as u64;
        }
        self.release(&mut change)?;
        Ok(change)
    }

    /// Adds rows to the change. Late rows, and rows whose intervals are too wide (`wide`), are
    /// excluded. Returns the excluded rows.
    fn take_in(&self, change: &mut Change, push: Push, wide: &[u32]) -> Result<Vec<LateRow>> {
        if wide.is_empty() {
            return self.take_all_in(change, push);
        }
        let mut is_kept = memory::filled(push.ts.len(), true);
        wide.iter().for_each(|&row| is_kept[row as usize] = false);
        let mut kept = memory::vec(push.ts.len());
        kept.extend((0..push.ts.len() as u32).filter(|&row| is_kept[row as usize]));
        let kept = UInt32Array::from(kept);
        let mut aside: Vec<LateRow> = memory::vec(push.ts.len());
        aside.extend(wide.iter().map(|&row| LateRow { row, watermark: TOO_WIDE }));
        if !kept.is_empty() {
            let late = self.take_all_in(change, push.rows(&kept)?)?;
            let in_batch = |late: LateRow| LateRow { row: kept.value(late.row as usize), ..late };
            aside.extend(late.into_iter().map(in_batch));
            aside.sort_unstable_by_key(|aside| aside.row);
        }
        Ok(aside)
    }

    /// Adds rows to the change. The rows either are sorted first or bypass the gate. Returns the
    /// late rows.
    fn take_all_in(&self, change: &mut Change, push: Push) -> Result<Vec<LateRow>> {
        if self.shared.arrivals.is_none() {
            return Ok(change.draft.push(push));
        }
        let late = change.draft.pass(&push.ts);
        if late.len() < push.ts.len() {
            change.runs.push(without(push, &late)?);
        }
        Ok(late)
    }

    /// Charges memory for rows, if the limit permits it.
    fn charge(&mut self, rows: usize, bytes: usize) -> Result<Charge> {
        let IntakeState { news, memory, broken, late, watermarks, .. } = &self.shared;
        // 1. Check this before requesting memory. From then on, the operator releases nothing until
        //    there is a notification, unless there are late rows that its driver fetches.
        let is_fetched = news.driven().is_some_and(|driven| driven.fetches_late);
        let is_settled =
            self.was_refused && news.is_settled() && (!is_fetched || late.bytes() == 0);
        let refused = match memory.charge(self.number, bytes) {
            Ok(charge) => {
                self.was_refused = false;
                return Ok(charge);
            }
            Err(refused) => refused,
        };
        if let Some(error) = broken.get() {
            return Err(error.clone());
        }
        let rows = format!("{}: {rows} rows", self.name);
        if news.is_left() {
            return Err(Error::memory(refused.say_left(&rows)));
        }
        // 2. Late rows stay until they are fetched.
        let late = if is_fetched { 0 } else { late.bytes() };
        if is_settled && news.is_settled() && watermarks.wait_for(self.number) {
            return Err(Error::memory(refused.say_for_ever(&rows, late)));
        }
        // 3. The operator checks whether it can drop rows that it keeps. It is settled afterwards.
        if !std::mem::replace(&mut self.was_refused, true) {
            news.tell();
        }
        self.is_full = refused.asked.saturating_add(late) <= refused.most;
        Err(Error::memory(refused.say(&rows)))
    }
}
