//! Finds partners among the right rows of an index.

use tidegate_structures::memory::pages::{Pages, Slot};

use super::{AsOf, Toward, grouped};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::{MAX_ROWS, Matches, Run};
use crate::order::{Groups, JoinColumns, Search, SideIndex, is_searched, search};
use crate::rows::NO_KEY;

/// The number of left rows whose partners are searched for together, in each direction.
const BLOCK: usize = 16;

/// Finds the partner of every left row, like [`asof_join`](super::asof_join), among the rows of an
/// index. A left row's key is its number in the index.
///
/// Left times, and the tolerance, have a unit that is `factor` times as fine as that of the index.
///
/// ```
/// use tidegate_operators::asof::{AsOf, Strategy, asof_join_in};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::order::{JoinColumns, SideIndex};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let index = SideIndex::new(JoinColumns { ts: &[8, 9, 30], keys: None }, 1, &driver)?;
/// let left = JoinColumns { ts: &[10, 20], keys: None };
/// let last = AsOf { strategy: Strategy::Backward, exact: true, tolerance: Some(5) };
/// let matches = asof_join_in(left, &index, &last, 1, &driver)?;
/// assert_eq!(matches.partners().collect::<Vec<_>>(), [Some(1), None]);
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if the left side has [`MAX_ROWS`] rows or more, columns differ in length, a key is out of
/// bounds, or `factor` is not positive.
pub fn asof_join_in(
    left: JoinColumns<'_>,
    right: &SideIndex,
    asof: &AsOf,
    factor: i64,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    assert!(left.ts.len() < MAX_ROWS, "row numbers fit in 32 bits");
    assert!(left.keys.is_none_or(|keys| keys.len() == left.ts.len()), "a key a time");
    assert!(factor > 0, "a factor");
    let groups = right.groups();
    let runs = if factor == 1 && !is_searched(left.ts.len(), right) {
        grouped::partners(left, &groups, right.key_count(), asof, driver)?
    } else {
        searched(left, &groups, asof, factor, driver)?
    };
    Ok(Matches::of_partners(runs, right.rows()))
}

/// Searches for the partner of each left row.
fn searched(
    left: JoinColumns<'_>,
    right: &Groups<'_>,
    asof: &AsOf,
    factor: i64,
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    let mut found = Pages::<Run>::unwritten(left.ts.len());
    let rows = left.ts.len().div_ceil(driver.parts(left.ts.len(), PART_ROWS)).max(1);
    let tasks = found.chunks_mut(rows).enumerate().collect();
    driver.fit(left.ts.len()).map(tasks, |(task, found): (usize, &mut [Slot<Run>])| {
        let first = task * rows;
        for (block, found) in found.chunks_mut(BLOCK).enumerate() {
            let first = first + block * BLOCK;
            let rows = first..first + found.len();
            let keys = left.keys.map(|keys| &keys[rows.clone()]);
            let block = Block { right, asof, factor, ts: &left.ts[rows], keys };
            block.partners(found);
        }
    })?;
    Ok(found.written())
}

/// Some left rows.
struct Block<'a> {
    right: &'a Groups<'a>,
    asof: &'a AsOf,
    factor: i64,
    ts: &'a [i64],
    keys: Option<&'a [u32]>,
}

impl Block<'_> {
    /// Writes the partner of each row.
    fn partners(&self, found: &mut [Slot<Run>]) {
        let mut nearest = [None::<(u128, u32)>; BLOCK];
        for &toward in self.asof.sides() {
            let places = self.places(toward);
            for ((nearest, place), &ts) in nearest.iter_mut().zip(places).zip(self.ts) {
                let Some(place) = place else { continue };
                let time = i128::from(self.right.ts()[place as usize]) * i128::from(self.factor);
                let distance = time.abs_diff(i128::from(ts));
                let admits =
                    self.asof.tolerance.is_none_or(|most| distance <= most.unsigned_abs().into());
                // The first direction wins ties.
                if admits && nearest.is_none_or(|(least, _)| distance < least) {
                    *nearest = Some((distance, place));
                }
            }
        }
        let numbers = self.right.numbers();
        for (found, nearest) in found.iter_mut().zip(nearest) {
            found.set(nearest.map_or_else(Run::default, |(_, place)| {
                Run::of_partner(numbers.map_or(place, |numbers| numbers[place as usize]))
            }));
        }
    }

    /// Returns the position of the first row found when moving in one direction from each row.
    fn places(&self, toward: Toward) -> [Option<u32>; BLOCK] {
        let mut searches = [Search::default(); BLOCK];
        let mut starts = [0; BLOCK];
        for (at, &ts) in self.ts.iter().enumerate() {
            let key = self.keys.map_or(0, |keys| keys[at]);
            if key == NO_KEY {
                continue;
            }
            let (start, end) =
                (self.right.starts[key as usize], self.right.starts[key as usize + 1]);
            let whole = ts.div_euclid(self.factor);
            let is_later = match toward {
                // The row at this time belongs to the rows before the result.
                Toward::Past => self.asof.exact || ts.rem_euclid(self.factor) != 0,
                Toward::Future => !self.asof.exact || ts.rem_euclid(self.factor) != 0,
            };
            let limit = if is_later { whole.checked_add(1) } else { Some(whole) };
            starts[at] = start;
            searches[at] = match limit {
                Some(limit) => Search { low: start, len: end - start, limit },
                None => Search { low: end, len: 0, limit: 0 },
            };
        }
        search(self.right.ts(), &mut searches[..self.ts.len()]);
        let mut places = [None; BLOCK];
        for (at, place) in places.iter_mut().enumerate().take(self.ts.len()) {
            let key = self.keys.map_or(0, |keys| keys[at]);
            if key == NO_KEY {
                continue;
            }
            let low = searches[at].low;
            *place = match toward {
                Toward::Past => (low > starts[at]).then(|| low - 1),
                Toward::Future => (low < self.right.starts[key as usize + 1]).then_some(low),
            };
        }
        places
    }
}
