//! A share of the rows in the windows, and the pairs that one thread finds among these rows.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_sync::Stop;

use super::MatchedRow;
use super::epoch::Epoch;
use crate::driver::Driver;
use crate::predicate::{Index, News, Ranges, ScanColumns, Term};
use crate::rows::Side;

/// A window is first rebuilt once it has more than twice this many rows. After that, the window is
/// rebuilt each time it doubles in size.
const LEAST_ROWS: usize = if cfg!(test) { 8 } else { 1 << 12 };

/// The rows on both sides that one thread keeps.
#[derive(Debug)]
pub(super) struct Share([Half; 2]);

/// The rows on one side.
#[derive(Debug)]
struct Half {
    /// The low bits of the row numbers, in ascending order. The list may begin with the numbers of
    /// dropped rows.
    numbers: Vec<u32>,
    gone: usize,
    window: ScanColumns,
    /// The number of rows in the window when it was last rebuilt.
    made_with: usize,
    /// `true` if rows may be looked up by value when that is cheaper than comparing them.
    may_look_up: bool,
    /// The index used to look up rows, if any.
    index: Option<Index>,
}

/// The matches of some rows.
#[derive(Debug, Default)]
pub(super) struct MatchOffsets {
    /// The end of each row's matches.
    ends: Vec<usize>,
    offsets: Vec<u32>,
    pub(super) compared: u64,
}

impl Share {
    /// Creates a share without rows. `may_look_up` specifies whether rows may be looked up by
    /// value.
    pub(super) fn new(terms: &[Term], may_look_up: bool) -> Self {
        let half = |side| Half {
            numbers: Vec::new(),
            gone: 0,
            window: ScanColumns::new(terms, side, None, 0)
                .expect("an empty window can always be created"),
            made_with: 0,
            may_look_up,
            index: None,
        };
        Share([half(Side::Left), half(Side::Right)])
    }

    pub(super) fn memory(&self) -> usize {
        let of_index = |half: &Half| half.index.as_ref().map_or(0, Index::memory);
        let of_half = |half: &Half| {
            half.window.memory() + half.numbers.capacity() * size_of::<u32>() + of_index(half)
        };
        self.0.iter().map(of_half).sum()
    }

    pub(super) fn compared_by(&self) -> &'static str {
        self.0[0].window.compared_by()
    }

    /// Removes all rows. `terms` must not contain any rows.
    pub(super) fn clear(&mut self, terms: &[Term]) {
        *self = Share::new(terms, self.0[0].may_look_up);
    }

    /// Drops the terms. From then on, every pair matches.
    pub(super) fn forget_terms(&mut self) {
        for (half, side) in self.0.iter_mut().zip([Side::Left, Side::Right]) {
            half.window = ScanColumns::new(&[], side, None, half.numbers.len())
                .expect("a window without columns can always be created");
            half.index = None;
        }
    }

    /// Adds the rows at the given offsets. The terms begin with the numbers of `gone` dropped rows.
    /// `firsts` contains, for each side, the number of the row at offset 0.
    pub(super) fn store(
        &mut self,
        terms: &[Term],
        gone: [usize; 2],
        firsts: [u64; 2],
        rows: [Vec<u32>; 2],
    ) {
        for ((half, rows), side) in self.0.iter_mut().zip(rows).zip([Side::Left, Side::Right]) {
            half.store(terms, side, gone, firsts[side as usize] as u32, rows);
        }
    }

    /// On each side, drops the rows whose numbers are less than the number in `firsts`.
    pub(super) fn drop_before(&mut self, firsts: [u64; 2]) {
        for (half, first) in self.0.iter_mut().zip(firsts) {
            let first = first as u32;
            // Numbers wrap around; the numbers of dropped rows are less than half of all possible
            // numbers behind.
            half.gone += half.numbers[half.gone..]
                .partition_point(|number| number.wrapping_sub(first) > u32::MAX / 2);
        }
    }

    /// Compares rows in the epoch with the part of each window that is in this share, or with one
    /// `piece` of that part.
    pub(super) fn compare(
        &self,
        terms: &[Term],
        gone: [usize; 2],
        firsts: [u32; 2],
        epoch: &Epoch,
        rows: Range<usize>,
        piece: Option<(usize, usize)>,
    ) -> MatchOffsets {
        let mut of_rows = memory::filled(rows.len(), Vec::new());
        let mut compared = 0;
        for side in [Side::Left, Side::Right] {
            let half = &self.0[side.other() as usize];
            let other_first = firsts[side.other() as usize];
            let mut own: Vec<usize> = memory::vec(rows.len());
            own.extend(rows.clone().filter(|&row| epoch.sides[row] == side));
            let run = |&row: &usize| {
                let of_window = &epoch.windows[row];
                let offset = |number: &u32| number.wrapping_sub(other_first);
                let kept = &half.numbers[half.gone..];
                let start = kept.partition_point(|number| offset(number) < of_window.start);
                let end =
                    start + kept[start..].partition_point(|number| offset(number) < of_window.end);
                let (start, end) = match piece {
                    None => (start, end),
                    Some((nth, pieces)) => {
                        let cut = |nth: usize| start + (end - start) * nth / pieces;
                        (cut(nth), cut(nth + 1))
                    }
                };
                (half.gone + start) as u32..(half.gone + end) as u32
            };
            let runs: Vec<Range<u32>> = memory::collect(own.iter().map(run));
            let numbers = own.iter().map(|&row| gone[side as usize] + epoch.offsets[row] as usize);
            let ranges = Ranges::new(&half.window, terms, side, numbers);
            let mut found = memory::filled(own.len(), Vec::new());
            compared += match &half.index {
                Some(index) => index.find(&half.window, &ranges, &runs, &mut found),
                None => {
                    half.window.find(&ranges, &runs, &mut found);
                    runs.iter().map(|run| run.len() as u64).sum()
                }
            };
            for (row, mut found) in own.into_iter().zip(found) {
                found
                    .iter_mut()
                    .for_each(|at| *at = half.numbers[*at as usize].wrapping_sub(other_first));
                of_rows[row - rows.start] = found;
            }
        }
        let mut end = 0;
        let ends = of_rows.iter().map(|offsets| {
            end += offsets.len();
            end
        });
        let ends = memory::collect(ends);
        let mut offsets = memory::vec(end);
        of_rows.iter().for_each(|found| offsets.extend_from_slice(found));
        MatchOffsets { ends, offsets, compared }
    }
}

impl Half {
    fn store(&mut self, terms: &[Term], side: Side, gone: [usize; 2], first: u32, rows: Vec<u32>) {
        if rows.is_empty() {
            return;
        }
        memory::reserve(&mut self.numbers, rows.len());
        self.numbers.extend(rows.iter().map(|offset| first.wrapping_add(*offset)));
        let at = |offset: u32| (gone[side as usize] + offset as usize) as u32;
        let more: Vec<u32> = memory::collect(rows.into_iter().map(at));
        let grown = self.numbers.len() > 2 * self.made_with.max(LEAST_ROWS);
        if !grown && self.window.append(terms, side, &more) {
            self.index.iter_mut().for_each(|index| index.grow(&self.window));
            return;
        }
        self.numbers.drain(..self.gone);
        self.gone = 0;
        let numbers = self.numbers.iter().map(|number| at(number.wrapping_sub(first)));
        let order: Vec<u32> = memory::collect(numbers);
        self.window = ScanColumns::new(terms, side, Some(&order), order.len())
            .expect("there is room next to the numbers");
        self.made_with = order.len();
        self.index = None;
        if let Some(term) = terms.first() {
            let news = News {
                side: side.other(),
                rows: term.operand(side.other()).rows(),
                is_growing: true,
            };
            self.window.tune(terms, side, Some(&order), news.rows);
            if self.may_look_up {
                let (run, driver) = (|_| 0..order.len() as u32, Driver::new(1, Stop::default()));
                let index = Index::choose(&self.window, terms, news, run, &driver);
                self.index = index.expect("no stop is requested");
            }
        }
    }
}

impl MatchOffsets {
    pub(super) fn pairs(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the offsets of all matches on the other side.
    pub(super) fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Returns the matches of a row, earliest first.
    pub(super) fn of(&self, nth: usize) -> &[u32] {
        let start = if nth == 0 { 0 } else { self.ends[nth - 1] };
        &self.offsets[start..self.ends[nth]]
    }

    /// Merges the pairs that several threads found for the same rows. The matches of each row are
    /// in order.
    pub(super) fn merge(mut parts: Vec<MatchOffsets>, rows: usize) -> MatchOffsets {
        if let [_] = parts[..] {
            return parts.remove(0);
        }
        let mut merged = MatchOffsets::default();
        for nth in 0..rows {
            let start = merged.offsets.len();
            parts.iter().for_each(|part| merged.offsets.extend_from_slice(part.of(nth)));
            merged.offsets[start..].sort_unstable();
            merged.ends.push(merged.offsets.len());
        }
        merged
    }

    /// Combines the pairs that were found row by row for `rows`.
    pub(super) fn of_rows(matches: Vec<MatchedRow>, rows: Range<usize>) -> MatchOffsets {
        let mut found = MatchOffsets::default();
        let mut matches = matches.into_iter().peekable();
        for row in rows {
            let start = found.offsets.len();
            while let Some(more) = matches.next_if(|more| more.row == row) {
                found.offsets.extend(more.offsets);
            }
            found.offsets[start..].sort_unstable();
            found.ends.push(found.offsets.len());
        }
        debug_assert!(matches.peek().is_none(), "matches are in row order");
        found
    }

    /// Converts the matches to offsets on the other side.
    pub(super) fn into_offsets(self) -> Vec<u32> {
        self.offsets
    }

    /// Concatenates the pairs of consecutive rows.
    pub(super) fn concat(mut parts: Vec<MatchOffsets>) -> MatchOffsets {
        if let [_] = parts[..] {
            return parts.remove(0);
        }
        let mut whole = MatchOffsets::default();
        for MatchOffsets { ends, offsets, .. } in parts {
            let before = whole.offsets.len();
            whole.ends.extend(ends.iter().map(|end| before + end));
            whole.offsets.extend(offsets);
        }
        whole
    }

    /// Keeps only the pairs for which `kept` is `true`.
    pub(super) fn retain(self, kept: &[bool]) -> MatchOffsets {
        let mut left = MatchOffsets { compared: self.compared, ..MatchOffsets::default() };
        let mut start = 0;
        for end in self.ends {
            let of_row = self.offsets[start..end].iter().zip(&kept[start..end]);
            left.offsets.extend(of_row.filter(|(_, kept)| **kept).map(|(offset, _)| *offset));
            left.ends.push(left.offsets.len());
            start = end;
        }
        left
    }
}
