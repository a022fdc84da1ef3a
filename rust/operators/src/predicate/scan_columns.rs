//! The columns of a window, and a scan that finds the rows that match new rows.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::simd::bitmaps::BLOCK_ROWS;
use tidegate_structures::simd::scan::{Span, scan, scan_two};

use super::Term;
use super::codes::{Codes, Form, Values};
use super::column::{RankColumn, Ranks};
use super::ranges::Ranges;
use crate::rows::Side;

/// The number of new rows compared with each part of a window while that part is in a cache.
const GROUP: usize = 512;

/// The number of new rows compared with each tile while the tile is in registers.
const TOGETHER: usize = 4;

/// The number of new rows compared with a block of bitmaps before the candidates are tested.
const AHEAD: usize = 16;

/// The size, in bytes, of the part of a window that stays in the first-level cache while it is
/// compared with a group of new rows.
const PART_BYTES: usize = 32 << 10;

/// The sample with which search methods are tried: the number of new rows, and the number of window
/// rows per new row.
const SAMPLE: (usize, usize) = (64, 1 << 10);

/// The cost of comparing one byte of a column, in picoseconds. This cost corresponds to 70 G
/// pairs/s for two columns of one byte on an Intel Xeon with AVX-512.
const BYTE_COST: f64 = 7.0;
/// The cost per row of a bitmap, in picoseconds. This cost corresponds to 120 G pairs/s for two
/// columns on an AMD EPYC with AVX2.
const BITMAP_COST: f64 = 4.0;

/// A window has bitmaps only if it has at least this many rows. Even the bitmaps of a single block
/// use the memory for that many rows.
const LEAST_IN_BITMAPS: usize = if cfg!(test) { 1 << 10 } else { BLOCK_ROWS };

/// The cost of revisiting a tile that has pairs left, and the number of pairs per tile.
const LOOK: (f64, f64) = (40_000.0, 64.0);
/// The corresponding cost and number of pairs for bitmaps.
const LOOK_IN_BITMAPS: (f64, f64) = (10_000.0, 512.0);
/// The cost of testing a pair exactly after its codes have passed the test.
const TEST_COST: f64 = 2_000.0;

/// The rows in a window as columns. There is one column per term of the condition.
#[derive(Debug)]
pub struct ScanColumns {
    rows: usize,
    /// The columns, starting with the most selective ones.
    columns: Vec<RankColumn>,
    /// The codes of the first columns, if they are used in searches.
    codes: Vec<Codes>,
}

impl ScanColumns {
    /// Creates a window from the rows of `side`, either in the given `order` or in their own order.
    /// Returns `None` if a column uses every 64-bit value and also has rows without a value. No
    /// rank is then left for these rows.
    pub fn new(terms: &[Term], side: Side, order: Option<&[u32]>, rows: usize) -> Option<Self> {
        let at = |nth: usize| order.map_or(nth, |order| order[nth] as usize);
        let column = |(number, term)| RankColumn::new(number, term, side, &at, rows);
        let columns = terms.iter().enumerate().map(column).collect::<Option<_>>()?;
        Some(ScanColumns { rows, columns, codes: Vec::new() })
    }

    /// Appends rows, given their positions among the numbers of the terms. If this method returns
    /// `false`, the window can no longer be used and has to be rebuilt.
    pub fn append(&mut self, terms: &[Term], side: Side, rows: &[u32]) -> bool {
        self.rows += rows.len();
        for (codes, column) in self.codes.iter_mut().zip(&self.columns) {
            codes.append(terms[column.term].operand(side), rows);
        }
        self.columns.iter_mut().all(|column| column.append(terms[column.term].operand(side), rows))
    }

    /// Returns the memory held, in bytes.
    pub fn memory(&self) -> usize {
        let of_columns = self.rows * self.columns.iter().map(RankColumn::bytes).sum::<usize>();
        of_columns + self.codes.iter().map(Codes::memory).sum::<usize>()
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the cost of comparing a pair, in picoseconds. The work on the remaining pairs is not
    /// included.
    pub(super) fn pair_cost(&self) -> f64 {
        match self.codes.first().map(|codes| &codes.values) {
            None => self.column_bytes() as f64 * BYTE_COST,
            Some(Values::Bitmaps(_)) => self.codes.len() as f64 * BITMAP_COST,
            Some(Values::Words(_)) => (2 * self.codes.len()) as f64 * BYTE_COST,
        }
    }

    pub(super) fn columns(&self) -> &[RankColumn] {
        &self.columns
    }

    pub(super) fn codes(&self) -> &[Codes] {
        &self.codes
    }

    /// Returns a readable description of the data used to compare pairs: bitmaps, codes or numbers,
    /// with their width in bits.
    pub fn compared_by(&self) -> &'static str {
        match (
            self.codes.first().map(|codes| &codes.values),
            self.columns.first().map(RankColumn::bytes),
        ) {
            (Some(Values::Bitmaps(_)), _) => "bitmaps",
            (Some(Values::Words(_)), _) => "16-bit codes",
            (None, Some(4)) => "32-bit numbers",
            (None, Some(_)) => "64-bit numbers",
            (None, None) => "nothing",
        }
    }

    /// Chooses the column order, and decides whether to search by codes. The choice is based on a
    /// sample of the `new_rows` new rows, which are on the opposite side.
    ///
    /// The choice does not change the results.
    pub fn tune(&mut self, terms: &[Term], side: Side, order: Option<&[u32]>, new_rows: usize) {
        if self.rows == 0 || new_rows == 0 || self.columns.is_empty() {
            return;
        }
        let (news, of_window) = (SAMPLE.0.min(new_rows), SAMPLE.1.min(self.rows));
        let start = |nth: usize| (self.rows - of_window) * nth / news;
        let new_row = |nth: usize| nth * new_rows / news;
        // For a long window, only the rows of the sample are read.
        let is_long = self.rows > news * of_window;
        let places = |nth: usize| start(nth)..start(nth) + of_window;
        let row = |place: usize| order.map_or(place as u32, |order| order[place]);
        let rows: Vec<u32> = match is_long {
            true => (0..news).flat_map(places).map(row).collect(),
            false => (0..self.rows).map(row).collect(),
        };
        let run =
            |nth: usize| if is_long { nth * of_window..(nth + 1) * of_window } else { places(nth) };
        let mut sample = ScanColumns::new(terms, side, Some(&rows), rows.len())
            .expect("a sample of the window's rows fits");
        // 1. Put the most selective columns first.
        let ranges = Ranges::new(&sample, terms, side.other(), (0..news).map(new_row));
        let left = |column: usize| -> usize {
            let of_row = |nth: usize| {
                let span = ranges.of(nth)[column];
                let places = run(nth).filter(|&place| sample.columns[column].within(place, span));
                if ranges.is_empty(nth) { 0 } else { places.count() }
            };
            (0..news).map(of_row).sum()
        };
        let mut by_left: Vec<_> =
            (0..self.columns.len()).map(|column| (left(column), column)).collect();
        by_left.sort_unstable();
        let nth = |column: &RankColumn| by_left.iter().position(|(_, at)| *at == column.term);
        // Up to this point, columns are in the order of terms.
        self.columns.sort_by_key(nth);
        sample.columns.sort_by_key(nth);
        // 2. Choose the method that costs least per pair.
        let mut least = (f64::INFINITY, None);
        let bitmaps = (self.rows >= LEAST_IN_BITMAPS).then_some(Some(Form::Bitmaps));
        for form in [None, Some(Form::Words)].into_iter().chain(bitmaps) {
            sample.codes = sample.coded(terms, side, Some(&rows), form);
            let ((look, tile), test) = match form {
                None => (LOOK, 0.0),
                Some(Form::Bitmaps) => (LOOK_IN_BITMAPS, TEST_COST),
                Some(Form::Words) => (LOOK, TEST_COST),
            };
            let ranges = Ranges::new(&sample, terms, side.other(), (0..news).map(new_row));
            let mut found = [Vec::new()];
            for nth in (0..news).filter(|&nth| !ranges.is_empty(nth)) {
                sample.candidates(&ranges, [nth], run(nth), &mut found);
            }
            let left = found[0].len() as f64 / (news * of_window) as f64;
            let cost = sample.pair_cost() + look * left.min(1.0 / tile) + test * left;
            if cost < least.0 {
                least = (cost, form);
            }
        }
        self.codes = self.coded(terms, side, order, least.1);
    }

    fn coded(
        &self,
        terms: &[Term],
        side: Side,
        order: Option<&[u32]>,
        form: Option<Form>,
    ) -> Vec<Codes> {
        let at = |nth: usize| order.map_or(nth, |order| order[nth] as usize);
        let codes = |form| {
            let of = |column: &RankColumn| {
                Codes::new(terms[column.term].operand(side), &at, self.rows, form)
            };
            self.columns.iter().take(2).map(of).collect()
        };
        form.map_or_else(Vec::new, codes)
    }

    /// For each new row, finds the matching rows in its run and appends their positions to `found`
    /// in ascending order.
    pub fn find(&self, ranges: &Ranges, runs: &[Range<u32>], found: &mut [Vec<u32>]) {
        for first in (0..runs.len()).step_by(GROUP) {
            let group = first..runs.len().min(first + GROUP);
            let rows: Vec<usize> =
                group.filter(|&row| !runs[row].is_empty() && !ranges.is_empty(row)).collect();
            let start = rows.iter().map(|&row| runs[row].start).min().unwrap_or(0);
            let end = rows.iter().map(|&row| runs[row].end).max().unwrap_or(0);
            let pairs: u64 = rows.iter().map(|&row| runs[row].len() as u64).sum();
            if pairs >= 2 * u64::from(end - start) {
                self.find_together(ranges, &rows, runs, start..end, found);
            } else {
                rows.iter().for_each(|&row| self.find_in(ranges, [row], runs[row].clone(), found));
            }
        }
    }

    /// Searches overlapping runs together, one part of the window at a time.
    fn find_together(
        &self,
        ranges: &Ranges,
        rows: &[usize],
        runs: &[Range<u32>],
        places: Range<u32>,
        found: &mut [Vec<u32>],
    ) {
        let part_rows = self.part_rows() as u32;
        for start in
            (places.start - places.start % part_rows..places.end).step_by(part_rows as usize)
        {
            let end = places.end.min(start.saturating_add(part_rows));
            let in_part = |row: usize| {
                let start = runs[row].start.max(start);
                start..runs[row].end.min(end).max(start)
            };
            if self.has_bitmaps() {
                rows.chunks(AHEAD)
                    .for_each(|rows| self.find_by_bitmaps(ranges, rows, in_part, found));
                continue;
            }
            let mut chunks = rows.chunks_exact(TOGETHER);
            for four in &mut chunks {
                let four = <[usize; TOGETHER]>::try_from(four).expect("a chunk has TOGETHER rows");
                let of_each = four.map(in_part);
                let first = of_each.iter().map(|run| run.start).max().unwrap_or(start);
                let last = of_each.iter().map(|run| run.end).min().unwrap_or(start);
                if first >= last {
                    four.into_iter()
                        .zip(of_each)
                        .for_each(|(row, run)| self.find_in(ranges, [row], run, found));
                    continue;
                }
                // Positions that are not in all four runs are at the ends of the runs.
                four.iter()
                    .zip(&of_each)
                    .for_each(|(&row, run)| self.find_in(ranges, [row], run.start..first, found));
                self.find_in(ranges, four, first..last, found);
                four.iter()
                    .zip(&of_each)
                    .for_each(|(&row, run)| self.find_in(ranges, [row], last..run.end, found));
            }
            chunks
                .remainder()
                .iter()
                .for_each(|&row| self.find_in(ranges, [row], in_part(row), found));
        }
    }

    fn has_bitmaps(&self) -> bool {
        self.codes.first().is_some_and(|codes| matches!(codes.values, Values::Bitmaps(_)))
    }

    /// Returns the number of bytes per row in the columns that are searched.
    fn column_bytes(&self) -> usize {
        self.columns.iter().take(2).map(RankColumn::bytes).sum()
    }

    /// Returns how many window rows stay in a cache while they are compared with a group of new
    /// rows.
    fn part_rows(&self) -> usize {
        match self.codes.first().map(|codes| &codes.values) {
            None => PART_BYTES / self.column_bytes().max(1),
            Some(Values::Bitmaps(_)) => BLOCK_ROWS,
            Some(Values::Words(_)) => PART_BYTES / size_of::<u16>() / self.codes.len(),
        }
    }

    /// Searches a run of positions for rows that match the given new rows.
    fn find_in<const N: usize>(
        &self,
        ranges: &Ranges,
        rows: [usize; N],
        run: Range<u32>,
        found: &mut [Vec<u32>],
    ) {
        if run.is_empty() {
            return;
        }
        // The list of matching rows grows gradually, so check here whether memory has run out.
        memory::check();
        let mut of_rows = rows.map(|row| std::mem::take(&mut found[row]));
        let before: [usize; N] = std::array::from_fn(|nth| of_rows[nth].len());
        self.candidates(ranges, rows, run.start as usize..run.end as usize, &mut of_rows);
        for ((row, mut places), before) in rows.into_iter().zip(of_rows).zip(before) {
            self.test_rest(self.searched(), ranges.of(row), before, &mut places);
            found[row] = places;
        }
    }

    /// Returns the number of leading columns that the search itself tests.
    fn searched(&self) -> usize {
        if self.codes.is_empty() { 2 } else { 0 }
    }

    /// Removes the positions that are out of range in an untested column. The first `tested`
    /// columns have already been tested. The first `before` positions are always kept.
    pub(super) fn test_rest(
        &self,
        tested: usize,
        spans: &[Span<u64>],
        before: usize,
        places: &mut Vec<u32>,
    ) {
        if tested >= self.columns.len() {
            return;
        }
        let rest = self.columns[tested..].iter().zip(&spans[tested..]);
        let mut kept = before;
        for at in before..places.len() {
            let place = places[at];
            places[kept] = place;
            kept += usize::from(
                rest.clone().all(|(column, span)| column.within(place as usize, *span)),
            );
        }
        places.truncate(kept);
    }

    /// Prefetches the data that a bitmap search of a run reads first.
    fn announce(&self, ranges: &Ranges, row: usize, run: Range<u32>) {
        for (nth, codes) in self.codes.iter().enumerate() {
            if let Values::Bitmaps(bitmaps) = &codes.values
                && !run.is_empty()
            {
                let span = buckets(ranges.code(row, self.codes.len(), nth));
                bitmaps.announce(span, &(run.start as usize..run.end as usize));
            }
        }
    }

    /// Searches the runs of the given rows within a block of bitmaps.
    fn find_by_bitmaps(
        &self,
        ranges: &Ranges,
        rows: &[usize],
        run: impl Fn(usize) -> Range<u32>,
        found: &mut [Vec<u32>],
    ) {
        // 1. Find the candidates, whose numbers are not in a near cache.
        let mut before = [0; AHEAD];
        for (nth, (&row, before)) in rows.iter().zip(&mut before).enumerate() {
            if let Some(&next) = rows.get(nth + 1) {
                self.announce(ranges, next, run(next));
            }
            let run = run(row);
            memory::check();
            let mut places = [std::mem::take(&mut found[row])];
            *before = places[0].len();
            self.candidates(ranges, [row], run.start as usize..run.end as usize, &mut places);
            [found[row]] = places;
            found[row][*before..]
                .iter()
                .for_each(|&place| self.columns[0].prefetch(place as usize));
        }
        // 2. Determine which of them match.
        for (&row, before) in rows.iter().zip(before) {
            self.test_rest(self.searched(), ranges.of(row), before, &mut found[row]);
        }
    }

    /// Tests the codes of a run's positions, or the first two columns if there are no codes.
    /// Appends the positions that pass the test.
    fn candidates<const N: usize>(
        &self,
        ranges: &Ranges,
        rows: [usize; N],
        run: Range<usize>,
        found: &mut [Vec<u32>; N],
    ) {
        let base = run.start as u32;
        let code = |column: usize| rows.map(|row| ranges.code(row, self.codes.len(), column));
        match &self.codes[..] {
            [] => self.exact(ranges, rows, run, found),
            [one] => match &one.values {
                Values::Bitmaps(bitmaps) => {
                    let spans = code(0).map(buckets);
                    spans
                        .into_iter()
                        .zip(found)
                        .for_each(|(span, found)| bitmaps.scan(span, run.clone(), found));
                }
                Values::Words(values) => scan(&values[run], &code(0), base, found),
            },
            [one, two, ..] => match (&one.values, &two.values) {
                (Values::Bitmaps(a), Values::Bitmaps(b)) => {
                    let spans = code(0).map(buckets).into_iter().zip(code(1).map(buckets));
                    spans.zip(found).for_each(|((of_a, of_b), found)| {
                        a.scan_two(b, [of_a, of_b], run.clone(), found)
                    });
                }
                (Values::Words(a), Values::Words(b)) => {
                    scan_two(&a[run.clone()], &b[run], &code(0), &code(1), base, found);
                }
                _ => panic!("all codes of a window have one form"),
            },
        }
    }

    fn exact<const N: usize>(
        &self,
        ranges: &Ranges,
        rows: [usize; N],
        run: Range<usize>,
        found: &mut [Vec<u32>; N],
    ) {
        let base = run.start as u32;
        let span = |column: usize| rows.map(|row| ranges.of(row)[column]);
        match &self.columns[..] {
            [] => found.iter_mut().for_each(|found| found.extend(run.start as u32..run.end as u32)),
            [one] => match &one.ranks {
                Ranks::U32(ranks) => scan(&ranks[run], &span(0).map(half), base, found),
                Ranks::U64(ranks) => scan(&ranks[run], &span(0), base, found),
            },
            [one, two, ..] => match (&one.ranks, &two.ranks) {
                (Ranks::U32(a), Ranks::U32(b)) => {
                    scan_two(
                        &a[run.clone()],
                        &b[run],
                        &span(0).map(half),
                        &span(1).map(half),
                        base,
                        found,
                    );
                }
                (Ranks::U32(a), Ranks::U64(b)) => {
                    scan_two(&a[run.clone()], &b[run], &span(0).map(half), &span(1), base, found);
                }
                (Ranks::U64(a), Ranks::U32(b)) => {
                    scan_two(&b[run.clone()], &a[run], &span(1).map(half), &span(0), base, found);
                }
                (Ranks::U64(a), Ranks::U64(b)) => {
                    scan_two(&a[run.clone()], &b[run], &span(0), &span(1), base, found)
                }
            },
        }
    }
}

/// Converts a range to 32-bit ranks.
pub(super) fn half(span: Span<u64>) -> Span<u32> {
    Span { low: span.low as u32, width: span.width as u32 }
}

/// Converts a range of codes to buckets.
fn buckets(span: Span<u16>) -> Span<u8> {
    Span { low: span.low as u8, width: span.width as u8 }
}
