//! Looks for the matches of new rows in the indexes.

use std::ops::Range;

use tidegate_structures::index::{Probe, WindowIndex};

use super::log::Log;
use super::{Epoch, IndexJoin};
use crate::incremental::{Filter, Side};

/// Rows that are looked for together: the first ones, before it is known how many matches they have, and at most.
const FIRST_ROWS: usize = if cfg!(test) { 3 } else { 16 };
const MOST_ROWS: usize = if cfg!(test) { 8 } else { 256 };

/// Matches of rows that are looked for together, about: what stays in a core's cache.
const MATCHES: usize = 1 << 14;

/// Matches after which a piece is given up for the rest of its rows to come later.
pub(super) const MOST_MATCHES: usize = if cfg!(test) { 20 } else { 1 << 18 };

/// The matches of some neighbouring rows of the epoch.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The rows that were looked at.
    pub(super) rows: Range<usize>,
    /// The low bits of the numbers of their matches, row by row.
    pub(super) numbers: Vec<u32>,
    /// For each row, where its matches end.
    pub(super) ends: Vec<u32>,
    /// Candidates that the index gave.
    pub(super) comparisons: u64,
}

impl Found {
    /// The matches of each of some rows.
    pub(super) fn matches(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, &[u32])> {
        let skipped = rows.start - self.rows.start;
        let begin = skipped.checked_sub(1).map_or(0, |before| self.ends[before]);
        rows.zip(&self.ends[skipped..]).scan(begin as usize, |begin, (row, &end)| {
            let matches = &self.numbers[std::mem::replace(begin, end as usize)..end as usize];
            Some((row, matches))
        })
    }
}

impl<I: WindowIndex> IndexJoin<I> {
    /// Looks for the matches of rows of the epoch, or as many of them as have the most matches that should be taken at once.
    pub(super) fn look<E>(&self, rows: Range<usize>, filter: Option<&Filter<'_, E>>) -> Result<Found, E> {
        let mut found = Found { rows: rows.start..rows.start, ..Found::default() };
        let mut together = FIRST_ROWS;
        let (mut candidates, mut ends) = (Vec::new(), Vec::new());
        while found.rows.end < rows.end && found.numbers.len() < MOST_MATCHES {
            let some = found.rows.end..rows.end.min(found.rows.end + together);
            found.rows.end = some.end;
            let before = found.numbers.len();
            // 1. The rows of each side probe the other's index together.
            candidates.clear();
            ends.clear();
            let probed = self.probe(some.clone(), &mut candidates, &mut ends);
            found.comparisons += candidates.len() as u64;
            // 2. Each row's candidates are brought into order, and those that fail another band dropped.
            let mut next = [0, probed];
            for row in some.clone() {
                let nth = &mut next[self.epoch.sides[row] as usize];
                let begin = nth.checked_sub(1).map_or(0, |before| ends[before] as usize);
                let end = ends[*nth] as usize;
                *nth += 1;
                let from = found.numbers.len();
                found.numbers.extend(candidates[begin..end].iter().copied().filter(|&other| self.agrees(row, other)));
                self.sort(row, &mut found.numbers[from..]);
                found.ends.push(found.numbers.len() as u32);
            }
            // 3. What is left goes through the condition.
            if let Some(filter) = filter {
                found.filter(&self.epoch, before, some.clone(), filter)?;
            }
            let matches = (candidates.len() / some.len()).max(1);
            together = (2 * together).min(MATCHES / matches).clamp(1, MOST_ROWS);
        }
        Ok(found)
    }

    /// Brings the candidates of rows into order, and drops those that fail another band or the condition.
    pub(super) fn refine<E>(&self, candidates: Found, filter: Option<&Filter<'_, E>>) -> Result<Found, E> {
        let mut found =
            Found { rows: candidates.rows.clone(), comparisons: candidates.comparisons, ..Found::default() };
        for (row, numbers) in candidates.matches(candidates.rows.clone()) {
            let from = found.numbers.len();
            found.numbers.extend(numbers.iter().copied().filter(|&other| self.agrees(row, other)));
            self.sort(row, &mut found.numbers[from..]);
            found.ends.push(found.numbers.len() as u32);
        }
        if let Some(filter) = filter {
            found.filter(&self.epoch, 0, candidates.rows, filter)?;
        }
        Ok(found)
    }

    /// Brings a row's matches into the order in which they came, if that is wanted.
    #[inline]
    fn sort(&self, row: usize, numbers: &mut [u32]) {
        if self.ordered {
            let first = self.epoch.places[row].from;
            numbers.sort_unstable_by_key(|number| number.wrapping_sub(first));
        }
    }

    /// What a row looks for; no numbers if it matches nothing.
    #[inline]
    pub(super) fn probe_of(&self, row: usize) -> Probe {
        let place = self.epoch.places[row];
        let (low, high) = self.epoch.ranges[row];
        Probe { low, high, from: place.from, to: if self.epoch.joins[row] { place.upto } else { place.from } }
    }

    /// Probes for rows of the epoch, those of the left side first; how many these are.
    fn probe(&self, rows: Range<usize>, candidates: &mut Vec<u32>, ends: &mut Vec<u32>) -> usize {
        let mut probes = [const { Probe { low: 0, high: -1, from: 0, to: 0 } }; MOST_ROWS];
        let mut of_left = 0;
        for side in [Side::Left, Side::Right] {
            let mut count = 0;
            for row in rows.clone().filter(|&row| self.epoch.sides[row] == side) {
                probes[count] = self.probe_of(row);
                count += 1;
            }
            self.indexes[self.other(side)].find_all(&probes[..count], candidates, ends);
            if side == Side::Left {
                of_left = count;
            }
        }
        of_left
    }

    /// Whether a row of the epoch and an earlier one are within the bands of the columns that are not indexed.
    #[inline]
    fn agrees(&self, row: usize, other: u32) -> bool {
        let log: &Log = &self.logs[self.other(self.epoch.sides[row])];
        let mut further = self.epoch.further.iter().enumerate();
        further.all(|(column, ranges)| {
            let (low, high) = ranges[row];
            (low..=high).contains(&log.code(column + 1, other))
        })
    }
}

impl Found {
    /// Drops the matches of the last rows that the condition does not keep.
    fn filter<E>(&mut self, epoch: &Epoch, first: usize, rows: Range<usize>, filter: &Filter<'_, E>) -> Result<(), E> {
        // 1. The pairs, whole.
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (row, earlier) in self.matches(rows.clone()) {
            let later = std::iter::repeat_n(epoch.places[row].number, earlier.len());
            match epoch.sides[row] {
                Side::Left => {
                    left.extend(later);
                    right.extend_from_slice(earlier);
                }
                Side::Right => {
                    left.extend_from_slice(earlier);
                    right.extend(later);
                }
            }
        }
        // 2. Which of them stay.
        let mut keep = Vec::with_capacity(left.len());
        for (left, right) in left.chunks(MATCHES).zip(right.chunks(MATCHES)) {
            keep.extend(filter(left, right)?);
        }
        // 3. The others go.
        let (mut at, mut kept) = (first, first);
        for end in &mut self.ends[rows.start - self.rows.start..] {
            while at < *end as usize {
                self.numbers[kept] = self.numbers[at];
                kept += usize::from(keep[at - first]);
                at += 1;
            }
            *end = kept as u32;
        }
        self.numbers.truncate(kept);
        Ok(())
    }
}
