//! Matches that are found piece by piece: threads take neighbouring left rows, and list their right
//! rows.

use std::ops::Range;

use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::split_buckets;

use super::{Matches, Run};
use crate::driver::{Driver, Stopped};

/// Candidates of a task: enough to amortise it, few enough that a stop is seen soon and threads
/// finish together.
const TASK_CANDIDATES: usize = 1 << 16;

/// Some neighbouring left rows.
#[derive(Debug, Default)]
pub(crate) struct RowLists {
    /// How many right rows each of them has.
    pub(crate) lengths: Vec<u32>,
    /// The right rows, left row by left row.
    pub(crate) rows: Vec<u32>,
}

/// Cuts left rows such that each piece, but one of a single row, has a bounded number of
/// candidates.
pub(crate) fn cut(left: Range<usize>, candidates: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut work) = (left.start, 0);
    for row in left.clone() {
        // A row costs something also if it has no candidate.
        work += candidates(row) + 4;
        if work >= TASK_CANDIDATES {
            pieces.push(start..row + 1);
            (start, work) = (row + 1, 0);
        }
    }
    pieces.push(start..left.end);
    pieces
}

impl Matches {
    /// The matches of the left rows from `first_left` on, of which there are `left_rows`. The right
    /// rows of each come in row order.
    pub(crate) fn of_pieces(
        pieces: Vec<RowLists>,
        first_left: u32,
        left_rows: usize,
        right_rows: usize,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        let mut runs = Pages::unwritten(left_rows);
        let mut rows = Pages::unwritten(pieces.iter().map(|piece| piece.rows.len()).sum());
        let mut before = [vec![0], vec![0]];
        for piece in &pieces {
            for (before, length) in before.iter_mut().zip([piece.lengths.len(), piece.rows.len()]) {
                before.push(before[before.len() - 1] + length as u32);
            }
        }
        let [left_before, rows_before] = before;
        let of_left = split_buckets(&mut runs, &left_before);
        let of_right = split_buckets(&mut rows, &rows_before);
        let slots = of_left.into_iter().zip(of_right);
        let work = pieces.into_iter().zip(rows_before).zip(slots).collect();
        driver.map(work, |((piece, first), (runs, rows))| {
            let RowLists { lengths, rows: found } = piece;
            Slot::copy(rows, &found);
            let mut start = first;
            for (run, length) in runs.iter_mut().zip(lengths) {
                run.set(Run { start, end: start + length });
                start += length;
            }
        })?;
        Ok(Matches {
            runs: runs.written(),
            first_left,
            rows: Some(rows.written()),
            ascending: true,
            right_rows,
            are_partners: false,
        })
    }
}
