//! The rows that are being joined.

use std::ops::Range;

use tidegate_structures::memory;

use crate::rows::{Extent, Side};
use crate::window::TimeLog;

/// The rows in an epoch, in merged order.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    pub(super) ts: Vec<i64>,
    pub(super) sides: Vec<Side>,
    /// Each row's offset in its log.
    pub(super) offsets: Vec<u32>,
    /// For each row, the offsets of the rows that are in its window on the other side.
    pub(super) windows: Vec<Range<u32>>,
}

impl Epoch {
    /// Begins an epoch. The rows must be the newest rows in their logs, and their offsets must
    /// already be set.
    pub(super) fn begin(
        &mut self,
        ts: Vec<i64>,
        sides: Vec<Side>,
        extent: &Extent,
        logs: &[TimeLog; 2],
    ) {
        // The number of rows on each side so far: those before the epoch, plus more with each row.
        let came = |side: Side| {
            let of_epoch = sides.iter().filter(|&&other| other == side).count();
            (logs[side as usize].len() - of_epoch) as u32
        };
        let mut ends = [came(Side::Left), came(Side::Right)];
        let mut starts = [0_u32; 2];
        let window = |((&ts, &side), &offset): ((&i64, &Side), &u32)| {
            ends[side as usize] = offset + 1;
            let other = side.other() as usize;
            let (start, end) = (&mut starts[other], ends[other]);
            match extent {
                Extent::Time(reach) => {
                    let first = reach.first(side, ts);
                    // This value only increases while rows arrive in merged order.
                    *start += logs[other].ts()[*start as usize..end as usize]
                        .partition_point(|&ts| ts < first) as u32;
                }
                Extent::Rows(counts) => {
                    *start = u64::from(end).saturating_sub(counts[other]) as u32;
                }
            }
            *start..end
        };
        self.windows = memory::collect(ts.iter().zip(&sides).zip(&self.offsets).map(window));
        (self.ts, self.sides) = (ts, sides);
    }
}
