//! Finds partners among the right rows of an index.

use tidegate_structures::memory::pages::{Pages, Slot};

use super::{AsOf, Rounds, Toward, grouped};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::interval::interval_join_in;
use crate::matches::{MAX_ROWS, Matches, Run};
use crate::order::{IndexedRows, JoinColumns, Search, SearchedPart};
use crate::rows::Interval;

/// The number of left rows whose partners are searched for together, in each direction.
const BLOCK: usize = 16;

/// Finds the partner of every left row, like [`asof_join`](super::asof_join), among the rows of an
/// index.
///
/// Left times, and the tolerance, have a unit that is `factor` times as fine as that of the index.
///
/// Returns `None` if the index has several parts, and there are so many left rows that it takes
/// less time to visit all right rows.
///
/// ```
/// use tidegate_operators::asof::{AsOf, Strategy, asof_join_in};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::order::{IndexPart, IndexedRows, JoinColumns, SideIndex};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let rows = &SideIndex::new(JoinColumns { ts: &[9, 8, 30], keys: None }, 1, &driver)?;
/// let part = IndexPart { rows, expired: 0, earliest: i64::MIN, left_keys: None };
/// let last = AsOf { strategy: Strategy::Backward, exact: true, tolerance: Some(5) };
/// let found = asof_join_in(&[10, 20], &IndexedRows::new([part]), &last, 1, &driver)?;
/// let matches = found.expect("there is only one part");
/// assert_eq!(matches.partners().collect::<Vec<_>>(), [Some(0), None]);
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if the left side has [`MAX_ROWS`] rows or more, a left row has no key, a key is out of
/// bounds, or `factor` is not positive.
pub fn asof_join_in(
    left: &[i64],
    right: &IndexedRows<'_>,
    asof: &AsOf,
    factor: i64,
    driver: &Driver,
) -> Result<Option<Matches>, Stopped> {
    assert!(left.len() < MAX_ROWS, "row numbers fit in 32 bits");
    assert!(factor > 0, "a factor");
    right.check(left.len());
    let are_searched = right.are_searched(left.len()) || factor != 1;
    let runs = match right.whole() {
        Some(part) if !are_searched => {
            let left = JoinColumns { ts: left, keys: part.left_keys };
            grouped::partners(left, &part.groups, part.key_count, asof, driver)?
        }
        None if !are_searched => return Ok(None),
        _ => searched(left, right, asof, factor, driver)?,
    };
    Ok(Some(Matches::of_partners(runs, right.rows())))
}

/// Returns the candidates of every left row, like [`candidates`](super::candidates), among the rows
/// of an index. Returns `None` in the same cases as [`asof_join_in`], and also if the index has
/// several parts.
///
/// # Panics
///
/// Panics under the same conditions as [`asof_join_in`].
pub fn candidates_in(
    left: &[i64],
    right: &IndexedRows<'_>,
    asof: &AsOf,
    factor: i64,
    driver: &Driver,
) -> Result<Option<Vec<Rounds>>, Stopped> {
    if right.whole().is_none() {
        return Ok(None);
    }
    let rounds = |&toward: &Toward| {
        let runs = interval_join_in(left, right, &asof.interval(toward), factor, driver)?;
        Ok(runs.map(|runs| Rounds::new(runs, toward)))
    };
    asof.sides().iter().map(rounds).collect()
}

/// Finds the matches of every left row, like [`interval_join_in`]. The matches of each left row are
/// in time order. Returns `None` in the same cases as [`candidates_in`].
///
/// # Panics
///
/// Panics under the same conditions as [`interval_join_in`].
pub fn interval_candidates_in(
    left: &[i64],
    right: &IndexedRows<'_>,
    interval: &Interval,
    factor: i64,
    driver: &Driver,
) -> Result<Option<Matches>, Stopped> {
    match right.whole() {
        Some(_) => interval_join_in(left, right, interval, factor, driver),
        None => Ok(None),
    }
}

/// Searches for the partner of each left row.
fn searched(
    left: &[i64],
    right: &IndexedRows<'_>,
    asof: &AsOf,
    factor: i64,
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    let mut found = Pages::<Run>::unwritten(left.len());
    let rows = left.len().div_ceil(driver.parts(left.len(), PART_ROWS)).max(1);
    let tasks = found.chunks_mut(rows).enumerate().collect();
    driver.fit(left.len()).map(tasks, |(task, found): (usize, &mut [Slot<Run>])| {
        for (block, found) in found.chunks_mut(BLOCK).enumerate() {
            let first = task * rows + block * BLOCK;
            let ts = &left[first..first + found.len()];
            Block { right, asof, factor, first, ts }.partners(found);
        }
    })?;
    Ok(found.written())
}

/// Adjacent left rows.
struct Block<'a> {
    right: &'a IndexedRows<'a>,
    asof: &'a AsOf,
    factor: i64,
    /// The number of the first row.
    first: usize,
    ts: &'a [i64],
}

impl Block<'_> {
    /// Writes the partner of each row.
    fn partners(&self, found: &mut [Slot<Run>]) {
        let mut nearest = [None::<(u128, u32)>; BLOCK];
        for &toward in self.asof.sides() {
            // The first candidate wins ties: the direction that comes first, and then the rows of
            // the part that is first in this direction.
            match toward {
                Toward::Past => {
                    let parts = self.right.parts().iter().rev();
                    parts.for_each(|part| self.compare(part, toward, &mut nearest));
                }
                Toward::Future => {
                    let parts = self.right.parts().iter();
                    parts.for_each(|part| self.compare(part, toward, &mut nearest));
                }
            }
        }
        for (found, nearest) in found.iter_mut().zip(nearest) {
            found.set(nearest.map_or_else(Run::default, |(_, row)| Run::of_partner(row)));
        }
    }

    /// Replaces the partners for which a part contains a nearer one.
    fn compare(
        &self,
        part: &SearchedPart<'_>,
        toward: Toward,
        nearest: &mut [Option<(u128, u32)>; BLOCK],
    ) {
        let places = self.places(part, toward);
        for ((nearest, place), &ts) in nearest.iter_mut().zip(places).zip(self.ts) {
            let Some(place) = place else { continue };
            let time = i128::from(part.groups.ts()[place as usize]) * i128::from(self.factor);
            let distance = time.abs_diff(i128::from(ts));
            let admits =
                self.asof.tolerance.is_none_or(|most| distance <= most.unsigned_abs().into());
            if admits && nearest.is_none_or(|(least, _)| distance < least) {
                *nearest = Some((distance, part.row(place)));
            }
        }
    }

    /// Returns the position of the first row found when moving in one direction from each row.
    fn places(&self, part: &SearchedPart<'_>, toward: Toward) -> [Option<u32>; BLOCK] {
        let mut searches = [Search::default(); BLOCK];
        for (at, &ts) in self.ts.iter().enumerate() {
            let whole = ts.div_euclid(self.factor);
            let is_later = match toward {
                // The row at this time belongs to the rows before the result.
                Toward::Past => self.asof.exact || ts.rem_euclid(self.factor) != 0,
                Toward::Future => !self.asof.exact || ts.rem_euclid(self.factor) != 0,
            };
            let limit = if is_later { whole.checked_add(1) } else { Some(whole) };
            searches[at] = part.search(self.first + at, limit);
        }
        part.find(&mut searches[..self.ts.len()]);
        let mut places = [None; BLOCK];
        for (at, place) in places.iter_mut().enumerate().take(self.ts.len()) {
            *place = match toward {
                Toward::Past => part.before(self.first + at, searches[at]),
                Toward::Future => part.at(self.first + at, searches[at]),
            };
        }
        places
    }
}
