//! Numbers the rows of each key in time order.

use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use super::{Groups, JoinColumns, are_sorted};
use crate::driver::{Driver, Stopped};

/// Returns each row's position among the rows with the same key, counted from 0. The rows of a key
/// are sorted by time, and rows with equal times by row number.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::order::{JoinColumns, ordinals};
/// use tidegate_sync::Stop;
///
/// let rows = JoinColumns { ts: &[20, 10, 30, 15], keys: Some(&[0, 0, 0, 1]) };
/// let found = ordinals(rows, 2, &Driver::new(1, Stop::default()))?;
/// assert_eq!(found[..], [1, 0, 2, 0]);
/// # Ok::<(), Stopped>(())
/// ```
///
/// # Panics
///
/// Panics if a row has no key.
pub fn ordinals(
    rows: JoinColumns<'_>,
    key_count: usize,
    driver: &Driver,
) -> Result<Pages<i64>, Stopped> {
    if are_sorted(&[rows.ts], driver)? {
        let mut next = memory::filled(key_count, 0_i64);
        let mut following = |key: usize| {
            next[key] += 1;
            next[key] - 1
        };
        return Ok(match rows.keys {
            None => Pages::collect((0..rows.ts.len()).map(|row| row as i64)),
            Some(keys) => Pages::collect(keys.iter().map(|&key| following(key as usize))),
        });
    }
    let groups = Groups::new(rows, key_count, driver)?;
    let mut found = Pages::filled(rows.ts.len(), 0);
    for (start, end) in groups.starts.iter().zip(&groups.starts[1..]) {
        for (place, ordinal) in (*start..*end).zip(0..) {
            let row = groups.numbers().map_or(place, |numbers| numbers[place as usize]);
            found[row as usize] = ordinal;
        }
    }
    Ok(found)
}
