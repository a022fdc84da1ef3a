//! Changes to a source. Every operation that can fail is performed while a change is being
//! prepared, so applying the change cannot fail.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_select::take::take_record_batch;
use tidegate_operators::rows::{Draft, LateRow, PushedRows, ReleasedRows, Reorder};
use tidegate_structures::memory;

use super::Source;
use crate::Result;
use crate::columns::table::batch_bytes;
use crate::results::interleave::in_pieces;
use crate::stream::intake::late::Late;
use crate::stream::intake::rows::{SourceRun, gather_timed};
use crate::stream::memory::Charge;

/// Rows, as they were pushed.
#[derive(Clone, Debug)]
pub(super) struct Push {
    pub(super) ts: ScalarBuffer<i64>,
    pub(super) batch: RecordBatch,
    pub(super) pushed: Instant,
}

impl PushedRows for Push {
    fn ts(&self) -> &[i64] {
        &self.ts
    }
}

impl Push {
    /// Returns a push that contains only these rows.
    pub(super) fn rows(&self, rows: &UInt32Array) -> Result<Push> {
        let ts = memory::collect(rows.values().iter().map(|&row| self.ts[row as usize]));
        Ok(Push { ts: ts.into(), batch: take_rows(&self.batch, rows)?, pushed: self.pushed })
    }
}

/// A change to a source, prepared in advance. All memory that the change needs is allocated before
/// it is applied.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) draft: Draft<Push>,
    /// Rows for the gate, or for the arrivals that replace the gate, in order.
    pub(super) runs: Vec<Push>,
    pub(super) late: Vec<Aside>,
}

impl Change {
    /// Creates an empty change.
    pub(super) fn of(reorder: &Reorder<Push>) -> Self {
        Change { draft: reorder.draft(), runs: Vec::new(), late: Vec::new() }
    }
}

/// The rows in a batch that are set aside because they are late or because their intervals are too
/// wide.
#[derive(Debug)]
pub(super) struct Aside {
    rows: RecordBatch,
    positions: Vec<u64>,
    watermarks: Vec<i64>,
    /// The number of bytes that are charged for these rows.
    bytes: usize,
}

/// Sets aside some of the rows in a batch. `first` is the position of the batch's first row among
/// the rows from its source.
pub(super) fn aside(
    batch: &RecordBatch,
    late: &[LateRow],
    first: u64,
    bytes: usize,
) -> Result<Aside> {
    let rows: UInt32Array = memory::collect(late.iter().map(|late| late.row)).into();
    Ok(Aside {
        rows: take_rows(batch, &rows)?,
        positions: memory::collect(late.iter().map(|late| first + u64::from(late.row))),
        watermarks: memory::collect(late.iter().map(|late| late.watermark)),
        bytes,
    })
}

/// Selects rows from a batch, each at most once.
fn take_rows(batch: &RecordBatch, rows: &UInt32Array) -> Result<RecordBatch> {
    memory::demand(batch_bytes(batch));
    Ok(take_record_batch(batch, rows)?)
}

/// Returns a push's rows without the late ones.
pub(super) fn without(push: Push, late: &[LateRow]) -> Result<Push> {
    if late.is_empty() {
        return Ok(push);
    }
    let mut late = late.iter().map(|late| late.row).peekable();
    let is_used = |row: &u32| late.next_if_eq(row).is_none();
    let mut used = memory::vec(push.ts.len());
    used.extend((0..push.ts.len() as u32).filter(is_used));
    push.rows(&used.into())
}

impl Source {
    pub(super) fn hold(&mut self, charge: Charge) {
        match &mut self.held {
            None => self.held = Some(charge),
            Some(held) => held.merge(charge),
        }
    }

    /// Splits `bytes` bytes off the charge.
    fn let_go(&mut self, bytes: usize) -> Charge {
        self.held.as_mut().expect("rows were charged before they were taken").split(bytes)
    }

    /// Releases all rows that no future row can precede, in order.
    pub(super) fn release(&self, change: &mut Change) -> Result<()> {
        let released = self.reorder.release(&mut change.draft);
        self.put_in_order(change, released)
    }

    pub(super) fn put_in_order(
        &self,
        change: &mut Change,
        released: Vec<ReleasedRows<Push>>,
    ) -> Result<()> {
        for released in released {
            self.in_order(released, &mut change.runs)?;
        }
        Ok(())
    }

    /// Appends released rows to `runs`, in order. There are several runs if a single array cannot
    /// hold all values of a column.
    fn in_order(&self, released: ReleasedRows<Push>, runs: &mut Vec<Push>) -> Result<()> {
        match released {
            ReleasedRows::Slice(push, Range { start, end }) => runs.push(Push {
                ts: push.ts.slice(start, end - start),
                batch: push.batch.slice(start, end - start),
                pushed: push.pushed,
            }),
            ReleasedRows::Rows { ts, payloads, places } => {
                let pushed = payloads.last().expect("rows are of a push").pushed;
                let batches: Vec<&RecordBatch> = payloads.iter().map(|push| &push.batch).collect();
                let ts = ScalarBuffer::from(ts);
                in_pieces(0..places.len(), &mut |rows: Range<usize>| {
                    let ts = ts.slice(rows.start, rows.len());
                    let batch = gather_timed(&self.stream, &ts, &batches, &places[rows])?;
                    runs.push(Push { ts, batch, pushed });
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Applies a prepared change and publishes the promise. Applying a change cannot fail.
    pub(super) fn make(&mut self, change: Change) {
        self.told = Instant::now();
        if !self.is_idle {
            self.shared.watermarks.rise(self.number, change.draft.watermark());
        }
        self.pass(change);
    }

    /// Does the same as [`make`](Self::make), but without publishing the promise to other sources.
    pub(super) fn pass(&mut self, change: Change) {
        let Change { draft, runs, late } = change;
        self.reorder.commit(draft);
        for Aside { rows, positions, watermarks, bytes } in late {
            self.rows_late += positions.len() as u64;
            let charge = self.let_go(bytes);
            let late = Late { source: self.number, rows, positions, watermarks, charge };
            self.shared.late.add(late);
        }
        runs.into_iter().for_each(|run| self.feed(run));
        if self.reorder.is_empty() {
            self.held = None;
        }
        let watermark = self.reorder.watermark();
        if let Some(arrivals) = &self.shared.arrivals {
            arrivals.promise(self.number, Some(watermark));
        }
        let gate = self.gate.as_mut().expect("rows are released while the source is open");
        gate.advance(watermark);
        gate.let_go();
    }

    fn feed(&mut self, push: Push) {
        let run = self.charged(push);
        if let Some(arrivals) = &self.shared.arrivals {
            return arrivals.push(self.number, run);
        }
        let gate = self.gate.as_mut().expect("rows are fed while the source is open");
        gate.push(run).expect("released rows are in order and at or above the promised time");
    }

    /// Returns the rows together with their memory charge.
    pub(super) fn charged(&mut self, push: Push) -> SourceRun {
        let Push { ts, batch, pushed } = push;
        let bytes = batch_bytes(&batch) + ts.len() * self.shared.row_bytes;
        SourceRun { charge: Arc::new(self.let_go(bytes)), ts, batch, pushed }
    }
}
