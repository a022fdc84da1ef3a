//! The starts and ends of the rows that an overlap join keeps.

use arrow_array::RecordBatch;
use tidegate_operators::rows::{KeptColumn, Side};

use super::engine::KeptRows;
use crate::Result;
use crate::columns::expression::Origin;
use crate::columns::row_ends::RowEnd;
use crate::columns::table::Table;
use crate::columns::time::{self, Unit};

/// The number of bytes that a row's span takes up.
pub(super) const SPAN_BYTES: usize = size_of::<RowSpan>();

/// A row in time. Two rows overlap if neither starts after the other's `last`.
#[derive(Clone, Copy, Debug)]
struct RowSpan {
    start: i64,
    /// The last time at which another row can start and still overlap the row.
    last: i64,
}

impl RowSpan {
    /// The span of a row that overlaps nothing. No row is long enough to cover all times.
    const NONE: Self = RowSpan { start: i64::MAX, last: i64::MIN };

    #[inline]
    fn overlaps(&self, other: &RowSpan) -> bool {
        (self.start <= other.last) & (other.start <= self.last)
    }
}

/// The spans of kept rows, by offset.
#[derive(Debug)]
pub(super) struct KeptSpans {
    /// The start column and the end of each side.
    columns: [(usize, RowEnd); 2],
    unit: Unit,
    kept: [KeptColumn<RowSpan>; 2],
}

impl KeptSpans {
    /// Creates an empty list, given the start column and the end of each side.
    pub(super) fn new(columns: [(usize, RowEnd); 2], unit: Unit) -> Self {
        KeptSpans { columns, unit, kept: Default::default() }
    }

    /// Adds the spans of further rows on both sides.
    pub(super) fn push(&mut self, batches: [&RecordBatch; 2]) -> Result<()> {
        let sides = [("left", Origin::Left), ("right", Origin::Right)];
        let mut spans: [Vec<RowSpan>; 2] = Default::default();
        for (side, (name, origin)) in sides.into_iter().enumerate() {
            let (start, end) = &self.columns[side];
            let table = Table::trusted(name, batches[side].clone());
            let starts = time::times(&table, *start, self.unit)?;
            let lasts = end.times(origin, batches[side], &starts, None)?;
            let span = |(&start, last): (&i64, Option<i64>)| {
                last.map_or(RowSpan::NONE, |last| RowSpan { start, last })
            };
            spans[side].extend(starts.iter().zip(lasts).map(span));
        }
        self.kept.iter_mut().zip(spans).for_each(|(kept, spans)| kept.extend(spans));
        Ok(())
    }

    /// Returns which pairs overlap and satisfy the join's condition. The pairs are given by the low
    /// bits of their left and right row numbers. `firsts` contains those of the rows at offset 0.
    pub(super) fn keep(
        &self,
        kept: &KeptRows<'_>,
        firsts: [u32; 2],
        left: &[u32],
        right: &[u32],
    ) -> Result<Vec<bool>> {
        let [lefts, rights] = self.kept.each_ref().map(KeptColumn::as_slice);
        let offset = |number: u32, side: Side| number.wrapping_sub(firsts[side as usize]) as usize;
        let overlaps = |(&l, &r): (&u32, &u32)| {
            lefts[offset(l, Side::Left)].overlaps(&rights[offset(r, Side::Right)])
        };
        let overlap: Vec<bool> = left.iter().zip(right).map(overlaps).collect();
        match kept.condition() {
            None => Ok(overlap),
            Some(condition) => kept.keep_candidates(condition, overlap, left, right),
        }
    }

    /// Drops the first spans on each side until only the given number remains.
    pub(super) fn keep_last(&mut self, rows: [usize; 2]) {
        for (kept, rows) in self.kept.iter_mut().zip(rows) {
            kept.drop_front(kept.len() - rows);
        }
    }

    /// On each side, keeps only the spans at these offsets.
    pub(super) fn retain(&mut self, offsets: [&[u32]; 2]) {
        self.kept.iter_mut().zip(offsets).for_each(|(kept, offsets)| kept.retain(offsets));
    }

    /// Returns the number of bytes held.
    pub(super) fn memory(&self) -> usize {
        self.kept.iter().map(KeptColumn::memory).sum()
    }
}
