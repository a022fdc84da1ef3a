//! Finds matches within row-based windows: the earlier row of a pair must be among the last n rows
//! on its own side that precede the later row.
//!
//! The rows on both sides are in one merged order: by time, then left before right, then by row
//! number. In merged order, the matches of a left row are adjacent among the right rows. They are
//! the last `right` right rows before the left row, and all right rows between it and the `left`-th
//! left row after it.
//!
//! ```text
//!   merged order   r r l r l l r r l       windows of 2 rows
//!   of the 2nd l   ──●──●──┼──●─            the last 2 r before it, and those before 2 more l
//! ```
//!
//! If times are replaced with positions in merged order, the join becomes an interval join with a
//! separate interval for each left row. The join costs as much as a sort and a merge, and takes 8
//! bytes of memory per row.

use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use crate::driver::{Driver, Stopped};
use crate::interval::sweep;
use crate::matches::{MAX_ROWS, Matches};
use crate::order::time_order;
use crate::order::{Groups, JoinColumns};
use crate::rows::interval::LeftReach;

/// The number of rows in a window, for each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// The number of left rows, at least 1.
    pub left: usize,
    /// The number of right rows, at least 1.
    pub right: usize,
}

/// For each left row, the position of the first matching right row, and the position after the last
/// matching right row. Positions are in time order.
#[derive(Debug)]
pub struct Ends(Pages<[u32; 2]>);

impl Ends {
    /// Returns the positions, in time order, of the first and last right rows that match a left
    /// row.
    #[inline]
    pub(crate) fn of(&self, row: usize) -> Option<(i64, i64)> {
        let [first, end] = self.0[row];
        (first < end).then(|| (first.into(), i64::from(end) - 1))
    }
}

impl LeftReach for Ends {
    fn at(&self, row: usize, _ts: i64) -> Option<(i64, i64)> {
        self.of(row)
    }
}

/// Returns the right rows that match each left row, as positions in time order. Also returns the
/// position of each right row.
///
/// # Panics
///
/// Panics if a side has [`MAX_ROWS`] rows or more.
pub fn meetings(
    left: &[i64],
    right: &[i64],
    counts: Counts,
    driver: &Driver,
) -> Result<(Ends, Pages<i64>), Stopped> {
    assert!(left.len() < MAX_ROWS && right.len() < MAX_ROWS, "row numbers fit in 32 bits");
    let (left_order, right_order) = (time_order(left, driver)?, time_order(right, driver)?);
    let ends = ends(left, right, left_order.as_deref(), right_order.as_deref(), counts);
    let places = match &right_order {
        None => Pages::collect((0..right.len()).map(|nth| nth as i64)),
        Some(order) => {
            let mut places = Pages::unwritten(right.len());
            order.iter().zip(0..).for_each(|(&row, nth)| places[row as usize].set(nth));
            places.written()
        }
    };
    Ok((ends, places))
}

/// Finds the matches of every left row.
///
/// `key_count` must be greater than every key on both sides. Windows count rows regardless of their
/// keys.
///
/// In this example, a left row matches the last two right rows, and a right row matches the last
/// left row:
///
/// ```
/// use std::sync::Arc;
///
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::matches::Output;
/// use tidegate_operators::order::JoinColumns;
/// use tidegate_operators::rows::How;
/// use tidegate_operators::window::counts::{Counts, count_window_join};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let left = JoinColumns { ts: &[5, 6], keys: None };
/// let right = JoinColumns { ts: &[1, 2, 3, 7], keys: None };
/// let counts = Counts { left: 1, right: 2 };
/// let matches = Arc::new(count_window_join(left, right, 1, counts, &driver)?);
/// let pairs = Output::new(matches, How::Inner, &driver)?;
/// pairs.list(0..pairs.rows(), |pairs| {
///     assert_eq!(pairs.left(), [0, 0, 1, 1, 1]);
///     assert_eq!(pairs.right(), [1, 2, 1, 2, 3]); // the right row at 1 is too old for both
/// });
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if a side has [`MAX_ROWS`] rows or more, columns differ in length, or a key is out of
/// bounds.
pub fn count_window_join(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    counts: Counts,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    let (ends, places) = meetings(left.ts, right.ts, counts, driver)?;
    let groups = Groups::new(JoinColumns { ts: &places, keys: right.keys }, key_count, driver)?;
    let runs = sweep(left, &groups, key_count, &ends, driver)?;
    let ascending = groups.ascending();
    Ok(Matches::new(runs, groups.into_numbers(), ascending, right.ts.len()))
}

/// Merges the sides and finds the ends of each left row's matches.
fn ends(
    left: &[i64],
    right: &[i64],
    left_order: Option<&[u32]>,
    right_order: Option<&[u32]>,
    counts: Counts,
) -> Ends {
    let row = |order: Option<&[u32]>, nth: usize| order.map_or(nth, |order| order[nth] as usize);
    // 1. Find the number of right rows before each left row, in time order.
    let mut before = memory::vec(left.len());
    let mut passed = 0;
    for nth in 0..left.len() {
        let ts = left[row(left_order, nth)];
        while passed < right.len() && right[row(right_order, passed)] < ts {
            passed += 1;
        }
        before.push(passed as u32);
    }
    // 2. A left row matches right rows until `counts.left` more left rows have arrived.
    let mut ends = Pages::unwritten(left.len());
    for nth in 0..left.len() {
        let first = before[nth].saturating_sub(u32::try_from(counts.right).unwrap_or(u32::MAX));
        let end = nth.checked_add(counts.left).and_then(|last| before.get(last)).copied();
        ends[row(left_order, nth)].set([first, end.unwrap_or(right.len() as u32)]);
    }
    Ends(ends.written())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use tidegate_sync::Stop;

    use super::*;
    use crate::matches::Output;
    use crate::rows::How;

    /// Executes Kang's three-step procedure. For each row in merged order, the procedure first
    /// scans the window of the other side. The row is then added to its own side's window. If that
    /// window then has too many rows, its oldest row is removed.
    fn three_steps(left: &[(i64, u32)], right: &[(i64, u32)], counts: Counts) -> Vec<(u32, u32)> {
        let rows = |side: usize, rows: &[(i64, u32)]| -> Vec<(i64, usize, u32, u32)> {
            rows.iter().zip(0..).map(|(&(ts, key), row)| (ts, side, row, key)).collect()
        };
        let mut merged = [rows(0, left), rows(1, right)].concat();
        merged.sort_unstable();
        let (mut windows, most) = ([Vec::new(), Vec::new()], [counts.left, counts.right]);
        let mut pairs = Vec::new();
        for (_, side, row, key) in merged {
            for &(other, other_key) in &windows[1 - side] {
                if key == other_key {
                    pairs.push(if side == 0 { (row, other) } else { (other, row) });
                }
            }
            windows[side].push((row, key));
            if windows[side].len() > most[side] {
                windows[side].remove(0);
            }
        }
        pairs.sort_unstable();
        pairs
    }

    proptest! {
        #[test]
        fn oracle_three_steps(
            left in prop::collection::vec((0_i64..12, 0_u32..3), 0..40),
            right in prop::collection::vec((0_i64..12, 0_u32..3), 0..40),
            (of_left, of_right) in (1_usize..9, 1_usize..9),
            sorted in any::<bool>(),
            threads in 1_usize..4,
        ) {
            let mut sides = [left, right];
            if sorted {
                sides.iter_mut().for_each(|side| side.sort_by_key(|row| row.0));
            }
            let counts = Counts { left: of_left, right: of_right };
            let [left, right] = sides.map(|side| side.into_iter().unzip::<_, _, Vec<_>, Vec<_>>());
            let driver = Driver::new(threads, Stop::default());
            for with_keys in [true, false] {
                let side = |(ts, keys): &'_ (Vec<i64>, Vec<u32>)| -> (Vec<i64>, Vec<u32>) {
                    (ts.clone(), if with_keys { keys.clone() } else { vec![0; keys.len()] })
                };
                let (l, r) = (side(&left), side(&right));
                let rows = |(ts, keys): &(Vec<i64>, Vec<u32>)| ts.iter().copied().zip(keys.iter().copied()).collect::<Vec<_>>();
                let keys = |keys| with_keys.then_some(keys);
                let matches = count_window_join(
                    JoinColumns { ts: &l.0, keys: keys(&l.1[..]) },
                    JoinColumns { ts: &r.0, keys: keys(&r.1[..]) },
                    3,
                    counts,
                    &driver,
                ).unwrap();
                let output = Output::new(Arc::new(matches), How::Inner, &driver).unwrap();
                let found = output.list(0..output.rows(), |pairs| {
                    pairs.left().iter().copied().zip(pairs.right().iter().copied()).collect::<Vec<_>>()
                });
                prop_assert_eq!(found, three_steps(&rows(&l), &rows(&r), counts));
            }
        }
    }
}
