//! Counts the right rows that overlap each left row. The rows are not listed.
//!
//! A right row overlaps a left row unless the right row ends before the left row starts or starts
//! after the left row ends. These two cases are mutually exclusive. The count is therefore a
//! difference: the number of right rows of the key that start before the left row's end, minus the
//! number of those that end before its start:
//!
//! ```text
//!   left                ├───────────┤
//!   right starts   1   2    3     4    │ 5        4 start before its end
//!   right ends       1 │  2    3     4    5       1 ends before its start: 3 overlap
//! ```
//!
//! Row numbers are not needed. If left rows are sorted by start, or if there are only a few, they
//! are followed through each key's sorted starts and sorted ends ([`follow`]). Other left rows are
//! not sorted. Instead, both numbers are looked up ([`look_up`]), and starts and ends are sorted
//! only as far as the lookups require.
//!
//! Counting takes O((n + m) log m) time, regardless of the number of pairs. The starts and ends of
//! right rows are copied, which takes 16 bytes per row. If the left rows are unsorted, positions
//! are stored as well. These positions take up to 4 bytes per start and per end. Each left row
//! takes 8 bytes.
//!
//! # Sources
//!
//! BITS also counts with two searches: Layer, Skadron, Robins, Hall and Quinlan, "Binary Interval
//! Search: a scalable algorithm for counting interval intersections" (Bioinformatics 29, 2013).

use super::IntervalColumns;
use crate::driver::{Driver, Stopped};
use crate::matches::{Matches, Run};
use crate::order::{Directory, Follow, OrderedTimes, follow, look_up, step};
use crate::rows::RowEnds;

/// Returns the number of right rows that overlap each left row. The result is in the form of
/// matches whose runs have the correct lengths but contain arbitrary right rows. No row may end
/// before it starts.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::overlap::{IntervalColumns, count_overlaps};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let left = IntervalColumns { starts: &[10, 20], ends: &[15, 29], keys: None };
/// let right = IntervalColumns { starts: &[0, 12, 15], ends: &[99, 14, 20], keys: None };
/// let counts = count_overlaps(left, right, 1, &driver)?;
/// assert_eq!((counts.count(0), counts.count(1)), (3, 2));
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics under the same conditions as [`Overlaps::new`](super::Overlaps::new). If a row ends
/// before it starts, the counts can be wrong.
pub fn count_overlaps(
    left: IntervalColumns<'_>,
    right: IntervalColumns<'_>,
    key_count: usize,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    left.check();
    right.check();
    let runs = if Directory::pays(left.starts, right.starts.len(), driver)? {
        // A run from the first row that has not ended to the last row that has started.
        let ends = Directory::of_side(right.by_end(), key_count, driver)?;
        let starts = Directory::of_side(right.by_start(), key_count, driver)?;
        let reach = RowEnds { first: left.starts, last: left.ends };
        look_up(left.by_start(), [&ends, &starts], &reach, driver)?
    } else {
        let starts = OrderedTimes::new(right.by_start(), key_count, driver)?;
        let ends = OrderedTimes::new(right.by_end(), key_count, driver)?;
        let count = StartEndCounter {
            of_keys: &starts.starts,
            starts: starts.ts(),
            ends: ends.ts(),
            left_ends: left.ends,
        };
        follow(left.by_start(), key_count, &count, driver)?
    };
    Ok(Matches::new(runs, None, true, right.starts.len()))
}

/// Counts the right rows that end before a left row starts, and the right rows that start before it
/// ends.
struct StartEndCounter<'a> {
    /// The position at which each key's right rows start.
    of_keys: &'a [u32],
    /// The sorted starts of each key's right rows.
    starts: &'a [i64],
    /// The sorted ends of each key's right rows.
    ends: &'a [i64],
    /// The end of each left row.
    left_ends: &'a [i64],
}

impl Follow for StartEndCounter<'_> {
    /// The number of right rows that have ended, and the number that have started.
    type Place = Run;
    type Output = Run;

    fn begin(&self, key: u32) -> Run {
        let start = self.of_keys[key as usize];
        Run { start, end: start }
    }

    #[inline(always)]
    fn next(&self, place: &mut Run, key: u32, row: usize, start: i64) -> Run {
        let group = ..self.of_keys[key as usize + 1] as usize;
        let (starts, ends) = (&self.starts[group], &self.ends[group]);
        place.start = step(ends, place.start, |end| end < start);
        place.end = step(starts, place.end, |ts| ts <= start);
        Run { start: place.start, end: step(starts, place.end, |ts| ts <= self.left_ends[row]) }
    }
}
