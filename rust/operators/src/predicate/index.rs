//! An index of a window's rows by value. The rows within a new row's range are looked up instead of
//! being compared one by one.
//!
//! ```text
//!   positions   0 1 2 3 4 5 6 7 | 8 9 10 ..       a run: ──┤          ├──
//!   by value    5 0 3 1 7 6 2 4 | 9 8 ..          looked up by block; others than the run dropped
//! ```
//!
//! A run is a range in time order, whereas the matching values form a range in value order.
//! Positions are therefore sorted by value within each block. Blocks are about as long as runs. A
//! block then has few candidates outside the run, and a run touches few blocks. The candidates in a
//! block are adjacent, so their positions and second-column values can be scanned. If a row's range
//! has too many candidates, the row is compared with the whole run instead. In a growing window,
//! positions that do not yet fill a block are also compared.

use std::ops::Range;

use tidegate_structures::simd::scan::{Span, scan, scan_two};
use tidegate_sync::Stop;

use super::column::Ranks;
use super::scan_columns::half;
use super::{Ranges, ScanColumns, Term};
use crate::driver::{Driver, Stopped};
use crate::order::{gallop, sort_groups};
use crate::rows::Side;

/// The costs of looking up a range in a block, reading a candidate, and sorting a position. Like
/// the costs of comparing pairs, these costs are in picoseconds. All costs were measured on an
/// Intel Xeon with blocks of 2^16 positions.
const LOOKUP_COST: f64 = if cfg!(test) { 100.0 } else { 150_000.0 };
const CANDIDATE_COST: f64 = if cfg!(test) { 60.0 } else { 300.0 };
const ORDER_COST: f64 = if cfg!(test) { 0.0 } else { 40_000.0 };

/// If there are fewer pairs than this, an index does not save enough to justify the cost of a
/// sample.
const FEW_PAIRS: f64 = if cfg!(test) { 1.0 } else { (1_u64 << 22) as f64 };

/// The size of the sample from which costs are estimated: the number of new rows, and the number of
/// positions in each row's run.
const SAMPLE: (usize, usize) = (256, 1 << 10);

/// The binary logarithm of the smallest block size, which is a number of positions. In a block of
/// this size, a lookup costs as much as comparing all positions.
const LEAST_SHIFT: u32 = if cfg!(test) { 2 } else { 11 };

/// The first column of a window, divided into blocks that are each sorted by rank.
#[derive(Debug)]
pub struct Index {
    /// A block has 2^shift positions.
    shift: u32,
    /// Ranks with the highest bit inverted, so that they sort correctly as signed numbers.
    ranks: Vec<i64>,
    places: Vec<u32>,
    /// The second column in the same order, if there is one.
    second: Option<Ranks>,
}

/// Converts a rank to the form in which ranks are sorted.
fn signed(rank: u64) -> i64 {
    (rank ^ 1 << 63).cast_signed()
}

/// Information about the new rows whose matches are searched for in the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    pub(crate) side: Side,
    pub(crate) rows: usize,
    /// `true` if the window grows with these rows. In a growing window, the last positions may not
    /// fill a block.
    pub(crate) is_growing: bool,
}

impl Index {
    /// Returns the index that makes searching a window cheapest, or `None` if comparing all pairs
    /// is cheaper. `run` returns the run of each row.
    ///
    /// The choice does not change the results.
    pub(crate) fn choose(
        window: &ScanColumns,
        terms: &[Term],
        news: News,
        run: impl Fn(usize) -> Range<u32>,
        driver: &Driver,
    ) -> Result<Option<Self>, Stopped> {
        if window.columns().is_empty() || window.rows() == 0 {
            return Ok(None);
        }
        let step = news.rows.div_ceil(SAMPLE.0).max(1);
        let rows: Vec<usize> = (0..news.rows).step_by(step).collect();
        let ranges = Ranges::new(window, terms, news.side, rows.iter().copied());
        let sampled: Vec<(f64, f64)> = rows
            .iter()
            .enumerate()
            .map(|(nth, &row)| sample(window, &ranges, nth, &run(row)))
            .collect();
        let pairs: f64 = sampled.iter().map(|(length, _)| length).sum();
        if pairs * (step as f64) < FEW_PAIRS {
            return Ok(None);
        }
        // 1. If the window is growing, it is sorted once more by the time it has doubled, after as
        //    many new rows.
        let all = window.rows() as f64;
        let ordered = if news.is_growing { 2.0 * rows.len() as f64 } else { all / step as f64 };
        // 2. Find the cheapest block size.
        let each_pair = window.pair_cost();
        let cost = |shift: u32| -> f64 {
            let block = f64::from(shift).exp2();
            let row = |&(length, part): &(f64, f64)| {
                let tail = if news.is_growing { length.min(block / 2.0) } else { 0.0 };
                let lookups = (length / block).floor() + 2.0;
                let candidates = part * (length + 2.0 * block).min(all);
                let looked_up =
                    lookups * LOOKUP_COST + candidates * CANDIDATE_COST + tail * each_pair;
                looked_up.min(length * each_pair)
            };
            sampled.iter().map(row).sum()
        };
        let largest = usize::BITS - (window.rows() - 1).leading_zeros();
        let costs = (LEAST_SHIFT.min(largest)..=largest).map(|shift| (cost(shift), shift));
        let (cost, shift) = costs.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a block size");
        if cost + ordered * ORDER_COST >= pairs * each_pair {
            return Ok(None);
        }
        let mut index = Index::new(window, shift);
        match news.is_growing {
            true => index.grow(window),
            false => index.extend(window, window.rows(), driver)?,
        }
        Ok(Some(index))
    }

    /// Creates an index on a window, with blocks of 2^shift positions. The index contains no
    /// positions yet.
    pub(super) fn new(window: &ScanColumns, shift: u32) -> Self {
        let second = window.columns().get(1).map(|column| column.ranks_at(&[]));
        Index { shift, ranks: Vec::new(), places: Vec::new(), second }
    }

    /// Adds the positions of the window that fill complete blocks.
    pub(crate) fn grow(&mut self, window: &ScanColumns) {
        let upto = window.rows() >> self.shift << self.shift;
        let driver = Driver::new(1, Stop::default());
        self.extend(window, upto, &driver).expect("no stop is requested");
    }

    /// Adds the positions of the window before `upto`. The last block may be incomplete only if no
    /// more positions follow.
    pub(super) fn extend(
        &mut self,
        window: &ScanColumns,
        upto: usize,
        driver: &Driver,
    ) -> Result<(), Stopped> {
        let places = self.places.len()..upto;
        if places.is_empty() {
            return Ok(());
        }
        let column = &window.columns()[0];
        self.ranks.extend(places.clone().map(|place| signed(column.rank(place))));
        self.places.extend(places.clone().map(|place| place as u32));
        let starts = (0..places.len()).step_by(1 << self.shift).chain([places.len()]);
        let starts: Vec<u32> = starts.map(|start| start as u32).collect();
        sort_groups(
            &starts,
            &mut self.ranks[places.clone()],
            Some(&mut self.places[places.clone()]),
            driver,
        )?;
        if let (Some(second), Some(column)) = (&mut self.second, window.columns().get(1)) {
            second.append(column.ranks_at(&self.places[places]));
        }
        Ok(())
    }

    /// Returns the memory held, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let of_second = self.second.as_ref().map_or(0, Ranks::memory);
        self.ranks.capacity() * size_of::<i64>()
            + self.places.capacity() * size_of::<u32>()
            + of_second
    }

    /// Like [`ScanColumns::find`], but finds rows in the indexed window. Returns the number of
    /// positions read.
    pub(crate) fn find(
        &self,
        window: &ScanColumns,
        ranges: &Ranges,
        runs: &[Range<u32>],
        found: &mut [Vec<u32>],
    ) -> u64 {
        let mut compared = runs.to_vec();
        let mut stretches = Vec::new();
        let mut looked_at = 0;
        let indexed = self.places.len() as u32;
        for (row, run) in runs.iter().enumerate() {
            let in_blocks = run.start.min(indexed)..run.end.min(indexed);
            let cost = in_blocks.len() as f64 * window.pair_cost();
            if ranges.is_empty(row) || in_blocks.is_empty() {
                continue;
            }
            let blocks = in_blocks.start >> self.shift..((in_blocks.end - 1) >> self.shift) + 1;
            if blocks.len() as f64 * LOOKUP_COST >= cost {
                continue;
            }
            stretches.clear();
            stretches.extend(blocks.map(|block| self.look_up(block as usize, ranges.of(row)[0])));
            let candidates: usize = stretches.iter().map(Range::len).sum();
            if candidates as f64 * CANDIDATE_COST >= cost {
                continue;
            }
            looked_at += candidates as u64;
            for stretch in &stretches {
                self.stay(window, ranges, row, (&in_blocks, stretch.clone()), &mut found[row]);
            }
            compared[row] = in_blocks.end..run.end;
        }
        looked_at += compared.iter().map(|run| run.len() as u64).sum::<u64>();
        window.find(ranges, &compared, found);
        looked_at
    }

    /// Appends the positions in a stretch that are in the run, provided that their rows match the
    /// new row in the other columns. The positions are appended in ascending order.
    fn stay(
        &self,
        window: &ScanColumns,
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
                scan_two(
                    places,
                    &second[stretch.clone()],
                    &in_run,
                    &[half(spans[1])],
                    0,
                    &mut of_row,
                );
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

    /// Returns the range of a block's entries whose ranks are in `span`.
    fn look_up(&self, block: usize, span: Span<u64>) -> Range<usize> {
        let start = block << self.shift;
        let ranks = &self.ranks[start..self.ranks.len().min(start + (1 << self.shift))];
        let first = ranks.partition_point(|&rank| rank < signed(span.low));
        let last = signed(span.low + span.width);
        start + first..start + gallop(ranks, first as u32, |rank| rank <= last) as usize
    }
}

/// Returns the length of a new row's run. Also estimates what share of the run is in the row's
/// range.
fn sample(window: &ScanColumns, ranges: &Ranges, row: usize, run: &Range<u32>) -> (f64, f64) {
    if run.is_empty() || ranges.is_empty(row) {
        return (0.0, 0.0);
    }
    let (column, span) = (&window.columns()[0], ranges.of(row)[0]);
    let places = run.clone().step_by(run.len().div_ceil(SAMPLE.1));
    let all = places.len() as f64;
    (
        run.len() as f64,
        places.filter(|&place| column.within(place as usize, span)).count() as f64 / all,
    )
}
