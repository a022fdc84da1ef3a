//! Finds places in a sorted column: it computes a place that is nearly right, and searches from
//! there.
//!
//! The range of values is cut into stretches of one length, as many as there are values. The first
//! place of each stretch is noted. So a value's place lies between the place of its stretch and the
//! place of the next. For rows in no order this is faster than sorting them: lookups of several
//! rows wait for memory together.

use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;
use tidegate_structures::simd::wide::{Work, wide};

use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::Run;
use crate::rows::interval::LeftReach;

/// Rows that are looked up together. With half or twice as many it takes half as long again.
const BLOCK: usize = 8;

/// Values of a cache line.
const LINE: usize = 8;

/// The first place of each stretch of a sorted column.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    sorted: &'a [i64],
    shift: u32,
    /// Last, the place after all values.
    starts: Pages<u32>,
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
        let mut starts = Pages::unwritten(count + 1);
        starts[count].set(sorted.len() as u32);
        let mut rest = &mut starts[..count];
        let mut work = Vec::new();
        for part in ranges(count, driver.parts(count, PART_ROWS)) {
            let (head, tail) = rest.split_at_mut(part.len());
            work.push((part.start, head));
            rest = tail;
        }
        driver.map(work, |(from, starts): (usize, &mut [Slot<u32>])| {
            let begin = |stretch: usize| {
                let value = first.saturating_add_unsigned((stretch as u64) << shift);
                sorted.partition_point(|&other| other < value)
            };
            // A stretch starts after the last value of those before: each value says so, and the
            // last one's word stays.
            let (own, values) = (begin(from), begin(from + starts.len() - 1));
            let starts = Slot::fill(starts, own as u32);
            for (after, value) in (own + 1..).zip(&sorted[own..values]) {
                starts[(value.abs_diff(first) >> shift) as usize - from + 1] = after as u32;
            }
            // Without values, it starts where the one before does.
            let mut latest = 0;
            for start in starts {
                latest = latest.max(*start);
                *start = latest;
            }
        })?;
        Ok(Some(Directory { sorted, shift, starts: starts.written() }))
    }

    /// The runs of left rows from number `first` on, which have these times.
    pub(super) fn find<R: LeftReach>(
        &self,
        reach: &R,
        first: usize,
        ts: &[i64],
        runs: &mut [Slot<Run>],
    ) {
        wide(Find {
            sorted: self.sorted,
            shift: self.shift,
            starts: &self.starts,
            reach,
            first,
            ts,
            runs,
        });
    }
}

/// What [`Directory::find`] does.
struct Find<'a, R> {
    sorted: &'a [i64],
    shift: u32,
    starts: &'a [u32],
    reach: &'a R,
    first: usize,
    ts: &'a [i64],
    runs: &'a mut [Slot<Run>],
}

/// The first place of a stretch, and that of the next one: never 0, since the first value lies in
/// the first stretch.
type Places = (u32, u32);

/// Left rows on their way: the first and the last value of each one's run, the stretches of both,
/// and the places of these.
#[derive(Clone, Copy, Default)]
struct Block {
    values: [[i64; 2]; BLOCK],
    stretches: [[usize; 2]; BLOCK],
    places: [[Places; 2]; BLOCK],
}

impl<R: LeftReach> Work for Find<'_, R> {
    type Output = ();

    /// In three steps, each of which asks for the memory that the next one reads. While that of one
    /// block of rows comes, other blocks have their steps.
    #[inline(always)]
    fn run(mut self) {
        let mut blocks = [Block::default(); 3];
        let count = self.ts.len().div_ceil(BLOCK);
        for at in 0..count + 2 {
            if at < count {
                self.ask_for_starts(at * BLOCK, &mut blocks[at % 3]);
            }
            if (1..=count).contains(&at) {
                self.ask_for_values(&mut blocks[(at - 1) % 3]);
            }
            if at >= 2 {
                self.compare((at - 2) * BLOCK, &blocks[(at - 2) % 3]);
            }
        }
    }
}

impl<R: LeftReach> Find<'_, R> {
    /// The stretch of a value, or the nearest one.
    #[inline(always)]
    fn stretch(&self, value: i64) -> usize {
        let first = self.sorted[0];
        let stretch = if value <= first { 0 } else { value.abs_diff(first) >> self.shift };
        stretch.min(self.starts.len() as u64 - 2) as usize
    }

    #[inline(always)]
    fn ask_for_starts(&self, from: usize, block: &mut Block) {
        let rows = self.ts[from..].iter().zip(self.first + from..);
        for ((values, stretches), (&ts, row)) in
            block.values.iter_mut().zip(&mut block.stretches).zip(rows)
        {
            // No value is above the last and below the first.
            *values =
                self.reach.at(row, ts).map_or([i64::MAX, i64::MIN], |(low, high)| [low, high]);
            *stretches = values.map(|value| self.stretch(value));
        }
        for stretch in block.stretches.as_flattened() {
            prefetch(self.starts, *stretch);
        }
    }

    #[inline(always)]
    fn ask_for_values(&self, block: &mut Block) {
        for (stretch, places) in
            block.stretches.as_flattened().iter().zip(block.places.as_flattened_mut())
        {
            *places = (self.starts[*stretch], self.starts[stretch + 1]);
        }
        for (from, to) in block.places.as_flattened() {
            prefetch(self.sorted, *from as usize);
            prefetch(self.sorted, *to as usize - 1);
        }
    }

    #[inline(always)]
    fn compare(&mut self, from: usize, block: &Block) {
        let sorted = self.sorted;
        for ((run, [low, high]), [low_in, high_in]) in
            self.runs[from..].iter_mut().zip(block.values).zip(block.places)
        {
            let start = place::<false>(sorted, low_in, low);
            run.set(Run { start, end: place::<true>(sorted, high_in, high).max(start) });
        }
    }
}

/// The first place from `from` to `to` whose value is above `value`, or equal to it unless
/// `WITH_EQUAL`; `to` if there is none before. All values before `from` are below, and all from
/// `to` on above.
#[inline(always)]
fn place<const WITH_EQUAL: bool>(sorted: &[i64], (from, to): Places, value: i64) -> u32 {
    let passes = |other: i64| if WITH_EQUAL { other <= value } else { other < value };
    let first = from as usize / LINE;
    let last = ((to as usize - 1) / LINE).max(first);
    // They are in one line or two but where values crowd. Those are compared whole: no branch
    // depends on the place.
    let (lines, _) = sorted.as_chunks::<LINE>();
    if last - first <= 1
        && let (Some(one), Some(other)) = (lines.get(first), lines.get(last))
    {
        let count =
            |line: &[i64; LINE]| line.iter().map(|&other| u32::from(passes(other))).sum::<u32>();
        return (first * LINE) as u32 + count(one) + (last - first) as u32 * count(other);
    }
    from + sorted[from as usize..to as usize].partition_point(|&other| passes(other)) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_sync::Stop;

    use super::*;
    use crate::rows::{Closed, Interval};

    proptest! {
        #[test]
        fn oracle_binary_search(
            mut sorted in prop::collection::vec(prop_oneof![0..40_i64, -9000..9000_i64, any::<i64>()], 1..300),
            near in prop::collection::vec((any::<prop::sample::Index>(), -3..4_i64), 0..50),
            (lower, upper) in (prop::option::of(-50..50_i64), prop::option::of(-50..5000_i64)),
            spread in any::<bool>(),
        ) {
            if !spread {
                // These lie close, with many equal ones.
                sorted.iter_mut().for_each(|value| *value %= 200);
            }
            sorted.sort_unstable();
            let ts: Vec<i64> = near.iter().map(|(at, off)| at.get(&sorted).saturating_add(*off)).collect();
            let interval = Interval { lower, upper, closed: Closed::Both };
            let directory = Directory::new(&sorted, &Driver::new(2, Stop::default())).unwrap().unwrap();
            let mut runs = vec![Run::default(); ts.len()];
            directory.find(&interval, 7, &ts, Slot::of(&mut runs));
            for (run, ts) in runs.into_iter().zip(ts) {
                let expected = interval.at(ts).map_or(0..0, |(low, high)| {
                    sorted.partition_point(|&value| value < low)..sorted.partition_point(|&value| value <= high)
                });
                let found = run.start as usize..run.end as usize;
                prop_assert!(found == expected || found.is_empty() && expected.is_empty(), "{:?} {:?}", found, expected);
            }
        }
    }
}
