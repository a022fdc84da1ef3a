//! Turns the matches of rows into results.

use std::ops::Range;

use tidegate_structures::memory;

use super::codes::CodeColumns;
use super::find::{Find, RowMatches};
use super::{IndexJoin, Rows};
use crate::matches::SHORT;
use crate::rows::{Extent, Results, RowLog, Side};

impl<F: Find> IndexJoin<F> {
    /// Returns the pairs in one piece of the rows whose matches were found most recently.
    pub(super) fn pairs(&self, rows: Range<usize>) -> Results {
        let found = || self.found.iter().filter(|found| rows.contains(&found.rows.start));
        debug_assert_eq!(
            found().map(|found| found.rows.len()).sum::<usize>(),
            rows.len(),
            "the piece was named"
        );
        let pairs = found().map(|found| found.numbers.len()).sum::<usize>();
        let (mut left, mut right) =
            (memory::filled(pairs + SHORT, 0), memory::filled(pairs + SHORT, 0));
        let mut done = 0;
        for found in found() {
            self.pair(found, &mut left[done..], &mut right[done..]);
            done += found.numbers.len();
        }
        left.truncate(pairs);
        right.truncate(pairs);
        Results { left, right }
    }

    /// Writes the offsets of the left and right rows in each pair. The slices must have room for a
    /// few additional offsets.
    fn pair(&self, found: &RowMatches, left: &mut [u32], right: &mut [u32]) {
        let firsts =
            [0, 1].map(|side| self.rows.logs.get(side).map_or(0, |log| log.first() as u32));
        let mut begin = 0;
        for (row, &end) in found.rows.clone().zip(&found.ends) {
            let end = end as usize;
            let side = self.rows.epoch.sides[row];
            let offset = self.rows.epoch.number(row).wrapping_sub(firsts[side as usize]);
            let first = firsts[self.rows.other(side)];
            let (own, other) = if side == Side::Left {
                (&mut *left, &mut *right)
            } else {
                (&mut *right, &mut *left)
            };
            // The maximum number of offsets is always written, because the actual number is
            // unpredictable.
            if let (true, Some(few)) =
                (end - begin <= SHORT, found.numbers[begin..].first_chunk::<SHORT>())
            {
                own[begin..begin + SHORT].copy_from_slice(&[offset; SHORT]);
                other[begin..begin + SHORT]
                    .copy_from_slice(&few.map(|number| number.wrapping_sub(first)));
            } else {
                own[begin..end].fill(offset);
                let out = other[begin..end].iter_mut().zip(&found.numbers[begin..end]);
                out.for_each(|(out, number)| *out = number.wrapping_sub(first));
            }
            begin = end;
        }
    }

    /// Returns the results for the rows whose matches were found most recently, if matches are
    /// tracked.
    pub(super) fn collect(&mut self, from: usize) -> Results {
        let mut results = Results::default();
        let firsts: Vec<u32> = self.rows.logs.iter().map(|log| log.first() as u32).collect();
        let mut offsets: Vec<u32> = Vec::new();
        let IndexJoin { found, rows, window, how, .. } = self;
        let Rows { ordered, logs, epoch } = rows;
        let extent = Extent::new(*window);
        let sides: &mut [RowLog<CodeColumns>; 2] = logs
            .as_mut_slice()
            .try_into()
            .expect("a self-join has no rows that are emitted once or unmatched");
        debug_assert_eq!(found.first().map_or(from, |found| found.rows.start), from);
        for (row, matches) in found.iter().flat_map(|found| found.matches(found.rows.clone())) {
            if matches.is_empty() {
                continue;
            }
            let side = epoch.sides[row];
            if *ordered {
                results.add_unmatched(sides, &extent, *how, [Some(epoch.ts[row]); 2]);
            }
            offsets.clear();
            offsets.extend(
                matches.iter().map(|number| number.wrapping_sub(firsts[side.other() as usize])),
            );
            let offset = epoch.number(row).wrapping_sub(firsts[side as usize]);
            results.add(sides, *how, side, offset, &offsets);
        }
        results
    }
}
