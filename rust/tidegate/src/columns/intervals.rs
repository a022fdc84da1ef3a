//! The intervals of rows that have a start and an end.

use std::ops::Range;

use tidegate_operators::driver::Driver;
use tidegate_operators::matches::BitSet;
use tidegate_operators::overlap::IntervalColumns;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::ranges;

use crate::Result;
use crate::columns::row_ends::ends_early;
use crate::columns::time::{Int64s, Unit};

/// The number of rows that a thread checks at a time.
const PART_ROWS: usize = 1 << 16;

/// Returns the times, after replacing those of the given rows with `time`.
fn replaced(times: Int64s, rows: &[u32], time: i64) -> Int64s {
    if rows.is_empty() {
        return times;
    }
    let mut own = Pages::collect(times.iter().copied());
    rows.iter().for_each(|&row| own[row as usize] = time);
    Int64s::Own(own)
}

/// The intervals of a table's rows.
pub(crate) struct Intervals {
    pub(crate) starts: Int64s,
    /// For each row, the latest time at which another row can start and still overlap this row.
    /// `None` means that this time is the start of the row itself.
    pub(crate) ends: Option<Int64s>,
    /// The rows that overlap nothing because they are too short or because their start or end is
    /// missing.
    pub(crate) without: Vec<u32>,
}

impl Intervals {
    /// Returns the intervals, given the times in both columns, in `unit`, and the rows that lack a
    /// time. Intervals overlap if they have `least` steps in common. If `are_open` is true, intervals
    /// without a start or an end are infinitely long.
    pub(crate) fn of(
        (table, names): (&str, (&str, &str)),
        [(mut starts, no_starts), (mut ends, no_ends)]: [(Int64s, Vec<u32>); 2],
        (least, are_open, unit): (i64, bool, Unit),
        driver: &Driver,
    ) -> Result<Self> {
        let rows = starts.len();
        let mut missing = BitSet::new(rows);
        no_starts.iter().chain(&no_ends).for_each(|&row| missing.insert(row as usize));
        let has_missing = !no_starts.is_empty() || !no_ends.is_empty();
        let steps = least.cast_unsigned();
        let mut last = Pages::unwritten(if least > 0 { rows } else { 0 });
        let mut rest = &mut last[..];
        let parts = ranges(rows, rows.div_ceil(PART_ROWS).max(1));
        let parts = parts.into_iter().map(|part| {
            let (head, tail) =
                std::mem::take(&mut rest).split_at_mut(if least > 0 { part.len() } else { 0 });
            rest = tail;
            (part, head)
        });
        let found =
            driver.map(parts.collect(), |(part, last): (Range<usize>, &mut [Slot<i64>])| {
                let mut without = Vec::new();
                let rows = starts[part.clone()].iter().zip(&ends[part.clone()]);
                let is_long = |(start, end): (&i64, &i64)| {
                    (end >= start) & (end.wrapping_sub(*start).cast_unsigned() >= steps)
                };
                // Usually, every row is long enough to overlap another row. This check needs no
                // branch per row.
                let all_overlap = !has_missing && rows.fold(true, |all, row| all & is_long(row));
                for row in if all_overlap { part.end..part.end } else { part.clone() } {
                    let (start, end) = (starts[row], ends[row]);
                    let is_missing = has_missing && missing.contains(row);
                    let is_short = || end.checked_sub(least).is_none_or(|last| last < start);
                    if (is_missing && !are_open) || (!is_missing && is_short()) {
                        if !is_missing && end < start {
                            return Err(row);
                        }
                        without.push(row as u32);
                    }
                }
                for (last, end) in last.iter_mut().zip(&ends[part]) {
                    last.set(end.wrapping_sub(least));
                }
                Ok(without)
            })?;
        let without = found.into_iter().collect::<std::result::Result<Vec<_>, usize>>();
        let without = without.map_err(|row| {
            let after = i128::from(starts[row]) - i128::from(ends[row]);
            ends_early(row as u64, after, names, unit).within(table)
        })?;
        if least > 0 {
            ends = Int64s::Own(last.written());
        }
        if are_open {
            starts = replaced(starts, &no_starts, i64::MIN);
            ends = replaced(ends, &no_ends, i64::MAX);
        }
        Ok(Intervals { starts, ends: Some(ends), without: without.concat() })
    }

    /// Returns the columns, with the key of each row.
    pub(crate) fn columns<'a>(&'a self, keys: Option<&'a [u32]>) -> IntervalColumns<'a> {
        let ends = self.ends.as_ref().unwrap_or(&self.starts);
        IntervalColumns { starts: &self.starts, ends, keys }
    }
}
