//! The life cycle of a source: its promises, its idle periods and its end.

use tidegate_operators::rows::Reorder;
use tidegate_structures::gate::{BlockSource, Tier};
use tidegate_structures::memory;

use super::Source;
use super::change::Change;
use crate::columns::time;
use crate::stream::intake::rows::SourceRun;
use crate::{Error, Result, shown};

impl Source {
    /// Promises that no future row is before `ts`, in steps of the time column's unit.
    pub fn advance(&mut self, ts: i64) -> Result<()> {
        self.check_open()?;
        self.check_goes_on()?;
        memory::check();
        let scale = time::scale(self.time_field(), self.stream.unit);
        self.promise(ts.saturating_mul(scale))
    }

    /// Does the same as [`advance`](Self::advance), but accepts `ts` in steps of the stream's unit.
    pub(crate) fn promise(&mut self, ts: i64) -> Result<()> {
        let change = self.promise_of(ts)?;
        if self.is_idle {
            self.shared.watermarks.rise(self.number, ts);
        }
        self.make(change);
        self.shared.news.tell();
        Ok(())
    }

    /// Prepares a change that raises the source's promise.
    pub(super) fn promise_of(&self, ts: i64) -> Result<Change> {
        let mut change = Change::of(&self.reorder);
        change.draft.advance(ts);
        self.release(&mut change)?;
        Ok(change)
    }

    /// Marks the source as idle. Until rows are pushed into this source again, the other sources
    /// proceed without waiting for it. Rows that arrive after that are late if they are before the
    /// watermark that the other sources have reached.
    pub fn idle(&mut self) -> Result<()> {
        self.check_open()?;
        if !self.is_idle {
            self.is_idle = true;
            self.shared.watermarks.idle(self.number);
            self.shared.news.tell();
        }
        Ok(())
    }

    /// Raises the promise of an idle source to `ts`, which is the time that the other sources have
    /// reached.
    pub(crate) fn go_with(&mut self, ts: i64) -> Result<()> {
        if self.is_idle && self.gate.is_some() && ts > self.reorder.watermark() {
            let change = self.promise_of(ts)?;
            self.pass(change);
        }
        Ok(())
    }

    /// Adds a source to the gate. Rows in the new source must not be earlier than `since`. Returns
    /// `None` if the existing source is closed.
    pub(crate) fn fork(&mut self, tier: Tier, since: i64) -> Option<BlockSource<SourceRun>> {
        self.gate.as_mut()?.fork_at(tier, since).ok()
    }

    /// Records the reason why some rows are missing and will never arrive. Rows that are final even
    /// without the missing ones are still returned. After that, polling the operator is an error.
    /// Does nothing if the source has already been closed or abandoned.
    pub fn abandon(&mut self, reason: &str) {
        if self.gate.is_none() || self.abandoned.is_some() {
            return;
        }
        let reason = match reason.trim() {
            "" => "no reason was given".to_owned(),
            reason => shown(reason).into_owned(),
        };
        // If several sources are abandoned, the first one is reported.
        self.shared.broken.get_or_init(|| {
            Error::data(format!(
                "{} was abandoned before its end ({reason}): rows are missing, so no more results \
                 are final; create a new operator, and restore a snapshot into it",
                self.name
            ))
        });
        self.abandoned = Some(reason);
        self.shared.news.tell();
    }

    /// Promises that no more rows will follow. Does nothing if the source has already been closed
    /// or abandoned. If memory runs out, the call unwinds before it changes anything.
    pub fn close(&mut self) {
        if self.abandoned.is_none() {
            memory::check();
            self.end();
        }
    }

    fn end(&mut self) {
        if self.gate.is_none() {
            return;
        }
        let change = self.end_of().unwrap_or_else(|error| panic!("{error}"));
        self.pass(change);
        self.leave();
    }

    /// Removes the source from the gate. This allocates no memory.
    fn leave(&mut self) {
        self.gate = None;
        self.held = None;
        if let Some(arrivals) = &self.shared.arrivals {
            arrivals.promise(self.number, None);
        }
        self.shared.watermarks.close(self.number);
        self.shared.memory.close(self.number);
        self.shared.news.tell();
    }

    /// Prepares a change that ends the source and releases all rows that it holds back.
    fn end_of(&self) -> Result<Change> {
        let mut change = Change::of(&self.reorder);
        let released = self.reorder.release_all(&mut change.draft);
        self.put_in_order(&mut change, released)?;
        Ok(change)
    }

    /// Closes the source and drops the rows that it holds back.
    pub(crate) fn drop_rows(&mut self) {
        self.reorder = Reorder::new(Some(0));
        if self.gate.is_some() {
            self.leave();
        }
    }
}
