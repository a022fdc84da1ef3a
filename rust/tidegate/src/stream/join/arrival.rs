//! The rows of a join that processes rows in arrival order. A pair is emitted as soon as both of
//! its rows have been pushed.
//!
//! ```text
//! sources ─▶ rows as they are pushed ─▶ epochs ─▶ the engine
//!                └─▶ promises: how long to keep rows ─┘
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;
use tidegate_operators::rows::{Side, SideWatermarks};

use super::EPOCH_ROWS;
use super::epoch::Epoch;
use crate::results::gather::concat_rows;
use crate::stream::intake::ready::Rest;
use crate::stream::intake::rows::SourceRun;
use crate::stream::memory::Charge;
use crate::stream::tactic::Common;
use crate::{Error, Result};

/// The number of bytes kept per row in addition to those that every join keeps. These bytes store
/// the row's time, its key, its position in time order, and the time at which it can be emitted
/// unmatched.
pub(super) const ROW_BYTES: usize = 48;

/// The algorithm and the index that explanations show for joins that find rows by key and time.
pub(super) const BY_TIME: (&str, &str) = (
    "eager: each row is compared with all kept rows of its key within reach, earlier or later; any thread can search \
     for any row",
    "for each key and side, the rows that later rows may match, in time order",
);

/// Rejects a `parallelism` that assigns keys to threads, because it would have no effect in arrival
/// order.
pub(super) fn check_shares(is_auto: bool) -> Result<()> {
    if is_auto {
        return Ok(());
    }
    Err(Error::argument(
        "parallelism: with ordered=False, any thread can search for any row, regardless of its \
         key; leave it out, or write ordered=True",
    ))
}

/// Rows that are waiting for their epoch, and the promises of the sources.
#[derive(Debug)]
pub(super) struct ArrivalQueue {
    /// Rows taken from the sources.
    pending: VecDeque<ArrivalPiece>,
    /// The promises that were made after these rows were pushed.
    promised: SideWatermarks,
}

/// Consecutive rows of a push.
#[derive(Debug)]
struct ArrivalPiece {
    side: Side,
    ts: ScalarBuffer<i64>,
    rows: RecordBatch,
    /// The part of the push's charge that accounts for these rows, in bytes.
    bytes: usize,
    charge: Arc<Charge>,
    pushed: Instant,
}

impl ArrivalPiece {
    fn new(side: Side, run: SourceRun) -> Self {
        let SourceRun { ts, batch, pushed, charge } = run;
        ArrivalPiece { side, ts, rows: batch, bytes: charge.bytes(), charge, pushed }
    }

    /// Splits off the first `rows` rows, and keeps the others.
    fn split(&mut self, rows: usize) -> ArrivalPiece {
        let each = self.bytes.div_ceil(self.ts.len().max(1));
        let first = ArrivalPiece {
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

impl ArrivalQueue {
    pub(super) fn new() -> Self {
        ArrivalQueue { pending: VecDeque::new(), promised: [Some(i64::MIN); 2] }
    }

    /// Returns the promises that hold after all rows taken from the sources have been joined.
    pub(super) fn promised(&self) -> SideWatermarks {
        self.promised
    }

    /// Returns whether no rows are waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the number of waiting rows.
    pub(super) fn rows(&self) -> usize {
        self.pending.iter().map(|piece| piece.ts.len()).sum()
    }

    /// Takes the rows and promises that have arrived from the sources.
    pub(super) fn look(&mut self, common: &mut Common) {
        let Some(arrivals) = &common.intake.shared.arrivals else { return };
        let arrived = arrivals.take();
        let sides = common.intake.sides();
        let pieces = arrived.runs.into_iter();
        let pieces = pieces.map(|(source, run)| ArrivalPiece::new(sides.of(source), run));
        self.pending.extend(pieces);
        let least = |side: Side| {
            let of_all = (0..).zip(&arrived.promises);
            let own = of_all.filter(|&(source, _)| sides.of(source) == side);
            own.filter_map(|(_, promise)| *promise).min()
        };
        self.promised = [least(Side::Left), least(Side::Right)];
        common.rest = if self.promised == [None; 2] { Rest::End } else { Rest::NotYet };
    }

    /// Returns the next epoch, with at most `EPOCH_ROWS` rows.
    pub(super) fn epoch(&mut self, common: &mut Common, schemas: [&SchemaRef; 2]) -> Result<Epoch> {
        let pieces = self.take();
        common.latency.begin(pieces.iter().map(|piece| (piece.pushed, piece.ts.len() as u64)));
        let of_side = |side: Side| -> Result<(Vec<&[i64]>, RecordBatch)> {
            let own = || pieces.iter().filter(|piece| piece.side == side);
            let batches: Vec<_> = own().map(|piece| piece.rows.clone()).collect();
            let rows = match &batches[..] {
                [rows] => rows.clone(),
                batches => concat_rows(schemas[side as usize], batches)?,
            };
            Ok((own().map(|piece| &piece.ts[..]).collect(), rows))
        };
        let ((left, left_rows), (right, right_rows)) =
            (of_side(Side::Left)?, of_side(Side::Right)?);
        let ts = [left, right].concat().concat();
        let mut sides = vec![Side::Left; left_rows.num_rows()];
        sides.resize(ts.len(), Side::Right);
        let mut charges: [Vec<(usize, Arc<Charge>)>; 2] = Default::default();
        for piece in pieces {
            charges[piece.side as usize].push((piece.bytes, piece.charge));
        }
        Ok(Epoch { ts, sides, batches: [left_rows, right_rows], charges })
    }

    fn take(&mut self) -> Vec<ArrivalPiece> {
        let (mut taken, mut rows) = (Vec::new(), 0);
        while rows < EPOCH_ROWS
            && let Some(mut piece) = self.pending.pop_front()
        {
            if piece.ts.len() > EPOCH_ROWS - rows {
                let first = piece.split(EPOCH_ROWS - rows);
                self.pending.push_front(piece);
                piece = first;
            }
            rows += piece.ts.len();
            taken.push(piece);
        }
        taken
    }

    /// Drops the rows.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }
}
