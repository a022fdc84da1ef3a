//! How far the windows of both sides extend, and which rows leave them.

use std::ops::Range;

use super::interval;
use super::log::Log;
use crate::incremental::{Reach, Results, Side};
use crate::matches::How;

/// How long rows stay in the windows of the left and the right side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// So long.
    Time(i64, i64),
    /// Until so many more rows of their side have come.
    Rows(usize, usize),
}

#[derive(Debug)]
pub(crate) enum Extent {
    Time(Reach),
    Rows([u64; 2]),
}

impl Extent {
    pub(crate) fn new(windows: Windows) -> Self {
        match windows {
            Windows::Time(left, right) => Extent::Time(Reach::new(&interval(left, right))),
            Windows::Rows(left, right) => Extent::Rows([left as u64, right as u64]),
        }
    }

    /// For each row of an epoch, the places of the other side's rows that are in its window when the row comes.
    pub(crate) fn windows(&self, logs: &[Log; 2], ts: &[i64], sides: &[Side], places: &[u32]) -> Vec<Range<u32>> {
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
                    *start += logs[other].ts()[*start as usize..end as usize].partition_point(|&ts| ts < first) as u32;
                }
                Extent::Rows(counts) => {
                    *start = u64::from(end).saturating_sub(counts[other]) as u32;
                }
            }
            *start..end
        };
        ts.iter().zip(sides).zip(places).map(window).collect()
    }

    /// Adds the rows that leave their window without a match before the results of a row that comes. Where windows are
    /// long, rows leave at their last matchable time; it is enough to look when a row `has_matches`.
    #[expect(clippy::too_many_arguments, reason = "what is known of a row")]
    pub(crate) fn leave(
        &self,
        logs: &mut [Log; 2],
        how: How,
        side: Side,
        place: u32,
        ts: i64,
        has_matches: bool,
        results: &mut Results,
    ) {
        match self {
            Extent::Time(reach) if has_matches => results.add_unmatched(logs, reach, how, Some(ts)),
            Extent::Time(_) => {}
            Extent::Rows(counts) => {
                let log = &mut logs[side as usize];
                let came = log.first() + u64::from(place) + 1;
                while let Some(place) = log.unmatched_before(came.saturating_sub(counts[side as usize])) {
                    results.alone(how, side, place);
                }
            }
        }
    }

    /// Adds all rows that have had no match and can have none from `now` on.
    pub(crate) fn unmatched(&self, logs: &mut [Log; 2], how: How, now: Option<i64>, results: &mut Results) {
        match (self, now) {
            (Extent::Time(reach), _) => results.add_unmatched(logs, reach, how, now),
            // They have left already.
            (Extent::Rows(_), Some(_)) => {}
            (Extent::Rows(_), None) => loop {
                let heads = [Side::Left, Side::Right].map(|side| logs[side as usize].next_unmatched(u64::MAX));
                let side = match heads {
                    [None, None] => break,
                    [Some((left, _)), Some((right, _))] if right < left => Side::Right,
                    [Some(_), _] => Side::Left,
                    [None, Some(_)] => Side::Right,
                };
                if let Some(place) = logs[side as usize].unmatched_before(u64::MAX) {
                    results.alone(how, side, place);
                }
            },
        }
    }

    /// Lets go of the rows of a side that no row at `now` or later can match.
    pub(crate) fn purge(&self, log: &mut Log, side: Side, now: Option<i64>) {
        match (self, now) {
            (Extent::Time(reach), _) => log.purge(reach, now),
            (Extent::Rows(_), None) => log.purge_before(u64::MAX),
            (Extent::Rows(counts), Some(_)) => log.purge_before(log.end().saturating_sub(counts[side as usize])),
        }
    }
}
