//! How far the windows of both sides extend, and which rows leave them.

use std::ops::Range;

use super::interval;
use super::log::Log;
use crate::rows::{Reach, Retention, Side};

#[derive(Debug)]
pub(crate) enum Extent {
    Time(Reach),
    Rows([u64; 2]),
}

impl Extent {
    pub(crate) fn new(retention: Retention) -> Self {
        match retention {
            Retention::Time { left, right } => Extent::Time(Reach::new(&interval(left, right))),
            Retention::Rows { left, right } => Extent::Rows([left, right]),
        }
    }

    /// For each row of an epoch, the places of the other side's rows that are in its window when
    /// the row comes.
    pub(crate) fn windows(
        &self,
        logs: &[Log; 2],
        ts: &[i64],
        sides: &[Side],
        places: &[u32],
    ) -> Vec<Range<u32>> {
        // The rows that have come of each side: those before the epoch, and more with each row.
        let came = |side: Side| {
            let of_epoch = sides.iter().filter(|&&other| other == side).count();
            (logs[side as usize].len() - of_epoch) as u32
        };
        let mut ends = [came(Side::Left), came(Side::Right)];
        let mut starts = [0_u32; 2];
        let window = |((&ts, &side), &place): ((&i64, &Side), &u32)| {
            ends[side as usize] = place + 1;
            let other = side.other() as usize;
            let (start, end) = (&mut starts[other], ends[other]);
            match self {
                Extent::Time(reach) => {
                    let first = reach.first(side, ts);
                    // It only rises while rows come in merged order.
                    *start += logs[other].ts()[*start as usize..end as usize]
                        .partition_point(|&ts| ts < first) as u32;
                }
                Extent::Rows(counts) => {
                    *start = u64::from(end).saturating_sub(counts[other]) as u32;
                }
            }
            *start..end
        };
        ts.iter().zip(sides).zip(places).map(window).collect()
    }

    /// The last time at which a row of the other side may match a row of `log`; `None` if that is
    /// never or not yet known.
    pub(crate) fn last_matchable(&self, log: &Log, place: usize) -> Option<i64> {
        match self {
            Extent::Time(reach) => reach.last_matchable(log.side(), *log.ts().get(place)?),
            // The row that takes its place in the window.
            Extent::Rows(counts) => {
                let next = place.checked_add(usize::try_from(counts[log.side() as usize]).ok()?)?;
                log.ts().get(next).copied()
            }
        }
    }

    /// Lets go of the rows of a side that no row at `now` or later can match.
    pub(crate) fn purge(&self, log: &mut Log, side: Side, now: Option<i64>) {
        match (self, now) {
            (Extent::Time(reach), _) => log.purge(reach, now),
            (Extent::Rows(_), None) => log.purge_before(u64::MAX),
            (Extent::Rows(counts), Some(_)) => {
                log.purge_before(log.end().saturating_sub(counts[side as usize]))
            }
        }
    }
}
