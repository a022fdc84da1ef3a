//! Finds places in a sorted column by computing about where they are.
//!
//! Values are cut into stretches of one length, as many as there are values, and the first place of each stretch is noted.
//! A value's place then is a few steps from that of its stretch, or, where many values lie in one, a binary search. For rows
//! in no order this is faster than sorting them: lookups of several rows wait for memory together.

use tidegate_structures::gather::prefetch;
use tidegate_structures::partition::ranges;

use super::Reach;
use super::sweep::gallop;
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::Run;

/// Rows that are looked up together.
const BLOCK: usize = 64;

/// The first place of each stretch of a sorted column.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    sorted: &'a [i64],
    shift: u32,
    starts: Vec<u32>,
}

impl<'a> Directory<'a> {
    /// `None` for a column without values.
    pub(super) fn new(sorted: &'a [i64], driver: &Driver) -> Result<Option<Self>, Stopped> {
        let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else { return Ok(None) };
        let span = last.abs_diff(first);
        // The least power of two such that stretches are no more than values.
        let mut shift = 0;
        while span >> shift >= sorted.len() as u64 {
            shift += 1;
        }
        let count = (span >> shift) as usize + 1;
        let mut starts = vec![0; count];
        let mut rest = &mut starts[..];
        let mut work = Vec::new();
        for part in ranges(count, driver.parts(count, PART_ROWS)) {
            let (head, tail) = rest.split_at_mut(part.len());
            work.push((part.start, head));
            rest = tail;
        }
        driver.map(work, |(from, starts): (usize, &mut [u32])| {
            let begin = |stretch: usize| first.saturating_add_unsigned((stretch as u64) << shift);
            let mut place = sorted.partition_point(|&value| value < begin(from));
            for (start, stretch) in starts.iter_mut().zip(from..) {
                while place < sorted.len() && sorted[place] < begin(stretch) {
                    place += 1;
                }
                *start = place as u32;
            }
        })?;
        Ok(Some(Directory { sorted, shift, starts }))
    }

    /// The stretch of a value, or the nearest one.
    #[inline]
    fn stretch(&self, value: i64) -> usize {
        let first = self.sorted[0];
        let stretch = if value <= first { 0 } else { value.abs_diff(first) >> self.shift };
        stretch.min(self.starts.len() as u64 - 1) as usize
    }

    /// The runs of left rows from number `first` on, which have these times.
    pub(super) fn find<R: Reach>(&self, reach: &R, first: usize, ts: &[i64], runs: &mut [Run]) {
        let mut ends = [None; BLOCK];
        let mut places = [[0_u32; 2]; BLOCK];
        for ((ts, runs), first) in ts.chunks(BLOCK).zip(runs.chunks_mut(BLOCK)).zip((first..).step_by(BLOCK)) {
            // 1. Where to look is computed for all of them, before any of it has come from memory.
            for ((end, &ts), row) in ends.iter_mut().zip(ts).zip(first..) {
                *end = reach.at(row, ts).map(|(low, high)| (low, high, self.stretch(low), self.stretch(high)));
                if let Some((_, _, low, high)) = *end {
                    prefetch(&self.starts, low);
                    prefetch(&self.starts, high);
                }
            }
            for (place, end) in places.iter_mut().zip(&ends[..ts.len()]) {
                if let Some((_, _, low, high)) = *end {
                    *place = [self.starts[low], self.starts[high]];
                    prefetch(self.sorted, place[0] as usize);
                    prefetch(self.sorted, place[1] as usize);
                }
            }
            // 2. From there it is a few steps.
            for ((run, end), [low_at, high_at]) in runs.iter_mut().zip(&ends).zip(places) {
                *run = end.map_or(Run::default(), |(low, high, ..)| {
                    let start = gallop(self.sorted, low_at, |ts| ts < low);
                    Run { start, end: gallop(self.sorted, high_at.max(start), |ts| ts <= high) }
                });
            }
        }
    }
}
