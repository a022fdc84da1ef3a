//! A window's rows by value, so that those in the range of a new row are looked up instead of compared with it.
//!
//! ```text
//!   places      0 1 2 3 4 5 6 7 | 8 9 10 ..       a run: ──┤          ├──
//!   by value    5 0 3 1 7 6 2 4 | 9 8 ..          each block is looked up, and places outside of the run dropped
//! ```
//!
//! Runs of places are cut out of the order of time, ranges out of the order of values. So places are put into the order of
//! their values block by block: a block of about the length of the runs has few candidates that are in no run, and a run
//! touches few blocks. Candidates are neighbours: their places and their values in a second column are scanned. Where a
//! row's range turns out to have too many of them, it is compared after all.

use std::ops::Range;

use tidegate_structures::pages::Pages;
use tidegate_structures::partition::ranges as cut;
use tidegate_structures::scan::{Span, scan, scan_two};

use super::window::{Ranks, half};
use super::{Ranges, Term, Window};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::incremental::Side;
use crate::interval_join::{gallop, sort_groups};

/// What it costs to look a range up in a block, to look at a candidate, and to put a place into order, in picoseconds as
/// the window's own costs are: as measured on an Intel Xeon, on blocks of 2^16 places.
const LOOKUP_COST: f64 = if cfg!(test) { 100.0 } else { 150_000.0 };
const CANDIDATE_COST: f64 = if cfg!(test) { 60.0 } else { 300.0 };
const ORDER_COST: f64 = 40_000.0;

/// Pairs below which nothing is gained that is worth a sample.
const FEW_PAIRS: u64 = 1 << 22;

/// New rows, and places of the run of each, on which costs are estimated.
const SAMPLE: (usize, usize) = (256, 1 << 10);

/// The smallest block, in bits of places: with as many places a lookup costs as much as comparing.
const LEAST_SHIFT: u32 = 11;

/// The first column of a window in blocks, each in the order of its ranks.
#[derive(Debug)]
pub struct Index {
    /// A block has 2^shift places.
    shift: u32,
    /// Ranks with the first bit turned round, so that they are in the order of signed numbers.
    ranks: Pages<i64>,
    places: Pages<u32>,
    /// The second column in the same order, if there is one.
    second: Option<Ranks>,
}

/// A rank as it is sorted.
fn signed(rank: u64) -> i64 {
    (rank ^ 1 << 63).cast_signed()
}

impl Index {
    /// The index of a window that makes finding rows of `side` cheapest, given their runs; `None` where comparing is.
    ///
    /// It does not change what is found.
    pub fn choose(
        window: &Window,
        terms: &[Term],
        side: Side,
        runs: &[Range<u32>],
        driver: &Driver,
    ) -> Result<Option<Self>, Stopped> {
        let pairs: u64 = runs.iter().map(|run| run.len() as u64).sum();
        if pairs < FEW_PAIRS || window.columns().is_empty() {
            return Ok(None);
        }
        let step = runs.len().div_ceil(SAMPLE.0).max(1);
        let rows: Vec<usize> = (0..runs.len()).step_by(step).collect();
        let ranges = Ranges::new(window, terms, side, rows.iter().copied());
        let sampled: Vec<(f64, f64)> =
            rows.iter().enumerate().map(|(nth, &row)| sample(window, &ranges, nth, &runs[row])).collect();
        let each_pair = window.pair_cost();
        let compared: f64 = sampled.iter().map(|(length, _)| length * each_pair).sum();
        let looked_up = |shift: u32| {
            let block = f64::from(shift).exp2();
            let row = |&(length, part): &(f64, f64)| {
                let candidates = part * (length + 2.0 * block).min(window.rows() as f64);
                let lookups = (length / block).floor() + 2.0;
                (lookups * LOOKUP_COST + candidates * CANDIDATE_COST).min(length * each_pair)
            };
            sampled.iter().map(row).sum::<f64>()
        };
        let largest = usize::BITS - (window.rows() - 1).leading_zeros();
        let shifts = LEAST_SHIFT.min(largest)..=largest;
        let costs = shifts.map(|shift| (looked_up(shift), shift));
        let (cost, shift) = costs.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a block size");
        let order = window.rows() as f64 * ORDER_COST / step as f64;
        if cost + order < compared { Self::new(window, shift, driver).map(Some) } else { Ok(None) }
    }

    /// The index of a window with blocks of 2^shift places.
    pub(super) fn new(window: &Window, shift: u32, driver: &Driver) -> Result<Self, Stopped> {
        let rows = window.rows();
        let (mut ranks, mut places) = (Pages::<i64>::new(rows), Pages::<u32>::new(rows));
        let (mut ranks_left, mut places_left) = (&mut ranks[..], &mut places[..]);
        let mut work = Vec::new();
        for part in cut(rows, driver.parts(rows, PART_ROWS)) {
            let (ranks, others) = std::mem::take(&mut ranks_left).split_at_mut(part.len());
            ranks_left = others;
            let (places, others) = std::mem::take(&mut places_left).split_at_mut(part.len());
            places_left = others;
            work.push((part, ranks, places));
        }
        let column = &window.columns()[0];
        driver.map(work, |(part, ranks, places): (Range<usize>, &mut [i64], &mut [u32])| {
            for ((place, rank), number) in part.zip(ranks).zip(places) {
                (*rank, *number) = (signed(column.rank(place)), place as u32);
            }
        })?;
        let starts: Vec<u32> = (0..rows).step_by(1 << shift).chain([rows]).map(|place| place as u32).collect();
        sort_groups(&starts, &mut ranks, &mut places, driver)?;
        let second = window.columns().get(1).map(|column| column.ranks_at(&places));
        Ok(Index { shift, ranks, places, second })
    }

    /// As [`Window::find`], of the window that the index is of.
    pub fn find(&self, window: &Window, ranges: &Ranges, runs: &[Range<u32>], found: &mut [Vec<u32>]) {
        let mut compared = runs.to_vec();
        let mut stretches = Vec::new();
        for (row, run) in runs.iter().enumerate() {
            let blocks = if run.is_empty() { 0..0 } else { run.start >> self.shift..((run.end - 1) >> self.shift) + 1 };
            let cost = f64::from(run.end - run.start) * window.pair_cost();
            if ranges.is_empty(row) || blocks.len() as f64 * LOOKUP_COST >= cost {
                continue;
            }
            stretches.clear();
            stretches.extend(blocks.map(|block| self.look_up(block as usize, ranges.of(row)[0])));
            let candidates: usize = stretches.iter().map(Range::len).sum();
            if candidates as f64 * CANDIDATE_COST >= cost {
                continue;
            }
            for stretch in &stretches {
                self.stay(window, ranges, row, (run, stretch.clone()), &mut found[row]);
            }
            compared[row] = 0..0;
        }
        window.find(ranges, &compared, found);
    }

    /// Adds the places of a stretch that are in the run and match the new row in the other columns, ascending.
    fn stay(
        &self,
        window: &Window,
        ranges: &Ranges,
        row: usize,
        (run, stretch): (&Range<u32>, Range<usize>),
        found: &mut Vec<u32>,
    ) {
        let before = found.len();
        let (spans, places) = (ranges.of(row), &self.places[stretch.clone()]);
        let in_run = [Span { low: run.start, width: run.end - run.start - 1 }];
        let mut of_row = [std::mem::take(found)];
        match &self.second {
            None => scan(places, &in_run, 0, &mut of_row),
            Some(Ranks::U32(second)) => {
                scan_two(places, &second[stretch.clone()], &in_run, &[half(spans[1])], 0, &mut of_row);
            }
            Some(Ranks::U64(second)) => {
                scan_two(places, &second[stretch.clone()], &in_run, &[spans[1]], 0, &mut of_row);
            }
        }
        [*found] = of_row;
        found[before..].iter_mut().for_each(|place| *place = places[*place as usize]);
        window.test_rest(2, spans, before, found);
        found[before..].sort_unstable();
    }

    /// Where the places of a block are whose ranks are in a range.
    fn look_up(&self, block: usize, span: Span<u64>) -> Range<usize> {
        let start = block << self.shift;
        let ranks = &self.ranks[start..self.ranks.len().min(start + (1 << self.shift))];
        let first = ranks.partition_point(|&rank| rank < signed(span.low));
        let last = signed(span.low + span.width);
        start + first..start + gallop(ranks, first as u32, |rank| rank <= last) as usize
    }
}

/// The length of the run of a new row, and the part of it that is in its range.
fn sample(window: &Window, ranges: &Ranges, row: usize, run: &Range<u32>) -> (f64, f64) {
    if run.is_empty() || ranges.is_empty(row) {
        return (0.0, 0.0);
    }
    let (column, span) = (&window.columns()[0], ranges.of(row)[0]);
    let places = run.clone().step_by(run.len().div_ceil(SAMPLE.1));
    let all = places.len() as f64;
    (run.len() as f64, places.filter(|&place| column.within(place as usize, span)).count() as f64 / all)
}
