//! The partners of left rows, as the bounds of runs: where suffixes begin and prefixes end.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::gather::prefetch;

use crate::interval::{self, PartnerColumns, Partners};
use crate::rows::NO_ROW;

/// States are prefetched this many left rows in advance. The states of adjacent rows are far apart
/// in memory.
pub(super) const AHEAD: usize = 64;

/// A left row's partners as state indices. An index past the last state represents an empty set of
/// rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunEnds {
    /// The row that prevails before the interval.
    pub(super) before: u32,
    /// The start of the suffix.
    pub(super) suffix: u32,
    /// The end of the prefix.
    pub(super) prefix: u32,
    /// The number of partners.
    pub(super) partners: u32,
}

/// The partners of some left rows.
pub(in crate::aggregate) struct Runs<'a> {
    pub(super) ends: Vec<RunEnds>,
    pub(super) partners: &'a Partners,
    left: Range<usize>,
}

impl<'a> Runs<'a> {
    pub(in crate::aggregate) fn new(
        partners: &'a Partners,
        columns: PartnerColumns<'_>,
        left: Range<usize>,
    ) -> Self {
        let runs = &partners.runs()[left.clone()];
        let none = states(partners) as u32;
        let mut cursor = partners.pane_cursor(columns);
        let (rows, prevailing) = (partners.rows(), partners.prevailing());
        let row_at = |place: u32| rows.map_or(place, |rows| rows[place as usize]);
        let before = |row: usize| prevailing.map_or(NO_ROW, |places| places[row]);
        let of_left = runs.iter().zip(left.clone()).enumerate().map(|(at, of_left)| {
            if let (Some(rows), Some(next)) = (rows, runs.get(at + AHEAD)) {
                prefetch(rows, next.start as usize);
                prefetch(rows, (next.end as usize).wrapping_sub(1));
            }
            of_left
        });
        let mut ends = memory::vec(left.len());
        match partners.panes() {
            interval::Panes::OfPlaces(starts) => ends.extend(of_left.map(|(run, row)| {
                let before = before(row);
                let (mut suffix, mut prefix) = (none, none);
                if run.len() > 0 {
                    let last = run.end - 1;
                    let start = starts[last as usize];
                    // A run within one pane contains all rows from the start of the pane, all rows
                    // up to its end, or both.
                    (suffix, prefix) = match start > run.start {
                        true => (run.start, last),
                        false if cursor.covers_start(row, row_at(run.start)) => (none, last),
                        false => (run.start, none),
                    };
                }
                let partners = run.len() as u32 + u32::from(before != NO_ROW);
                let before = if before == NO_ROW { none } else { before };
                RunEnds { before, suffix, prefix, partners }
            })),
            interval::Panes::OfRows(borders) => {
                let mut pane = Pane { borders, rows: 0..0 };
                ends.extend(of_left.map(|(run, row)| {
                    let before = before(row);
                    let (mut suffix, mut prefix) = (none, none);
                    if run.len() > 0 {
                        let (first, last) = (row_at(run.start), row_at(run.end - 1));
                        pane.go_to(first);
                        (suffix, prefix) = match last >= pane.rows.end {
                            true => (first, last),
                            false if cursor.covers_start(row, first) => (none, last),
                            false => (first, none),
                        };
                    }
                    let partners = run.len() as u32 + u32::from(before != NO_ROW);
                    let before = if before == NO_ROW { none } else { row_at(before) };
                    RunEnds { before, suffix, prefix, partners }
                }));
            }
        }
        Runs { ends, partners, left }
    }

    /// Returns the first and last partner of each left row that has partners.
    pub(super) fn edges(&self) -> impl ExactSizeIterator<Item = Option<(u32, u32)>> {
        let run = self.partners.whole_runs();
        let rows = self.partners.rows();
        let row_at = move |place: u32| rows.map_or(place, |rows| rows[place as usize]);
        self.left.clone().map(move |row| {
            let run = run(row);
            (run.len() > 0).then(|| (row_at(run.start), row_at(run.end - 1)))
        })
    }
}

/// The pane of the most recent row. Adjacent rows are often in the same pane.
struct Pane<'a> {
    borders: &'a [u32],
    rows: Range<u32>,
}

impl Pane<'_> {
    #[inline]
    fn go_to(&mut self, row: u32) {
        if !self.rows.contains(&row) {
            let next = self.borders.partition_point(|&border| border <= row);
            self.rows = self.borders[next - 1]..self.borders[next];
        }
    }
}

/// Returns the number of right rows that have states.
pub(super) fn states(partners: &Partners) -> usize {
    match partners.panes() {
        interval::Panes::OfPlaces(starts) => starts.len(),
        interval::Panes::OfRows(_) => partners.right_rows(),
    }
}
