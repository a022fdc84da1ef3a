//! Finds matches piece by piece: each thread takes adjacent left rows and lists the matching right
//! rows.

use std::ops::Range;
use std::sync::Arc;

use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::split_buckets;

use super::{Matches, Run};
use crate::driver::{Driver, Stopped};

/// The number of candidates in a task. Tasks are large enough to amortise their overhead. Tasks are
/// small enough for threads to notice a stop quickly and to finish at about the same time.
const TASK_CANDIDATES: usize = 1 << 16;

/// The right rows that match a range of left rows.
#[derive(Debug, Default)]
pub(crate) struct RowLists {
    /// The number of right rows for each left row.
    pub(crate) lengths: Vec<u32>,
    /// The right rows of all these left rows, in left row order.
    pub(crate) rows: Vec<u32>,
}

/// Divides left rows into pieces. The number of candidates per piece is bounded, unless the piece
/// consists of a single row.
pub(crate) fn cut(left: Range<usize>, candidates: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut work) = (left.start, 0);
    for row in left.clone() {
        // Even a row without candidates has a cost.
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
    /// Creates the matches of `left_rows` left rows, starting with row `first_left`. The right rows
    /// of each left row must be in row order.
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
            rows: Some(Arc::new(rows.written())),
            ascending: true,
            right_rows,
            are_partners: false,
        })
    }
}
