//! The last right row for each key. A last row remains valid until the next one arrives.

use tidegate_operators::driver::Driver;
use tidegate_operators::rows::NO_KEY;
use tidegate_structures::memory::bits::BitSet;

use crate::Result;
use crate::columns::keys::{KeyColumn, encode};
use crate::columns::table::Table;
use crate::stream::state::timed_rows::TimedRows;

/// Returns the rows at or after the time `from` and, for each key, the last earlier row. Rows
/// without a key, and rows that are not in `counted`, are omitted.
pub(in crate::stream) fn with_standing(
    rows: &TimedRows,
    left: &TimedRows,
    keys: &[KeyColumn],
    counted: Option<&BitSet>,
    from: i64,
    driver: &Driver,
) -> Result<BitSet> {
    let keys = match keys {
        [] => None,
        columns => {
            let none = Table::from(&**left.schema());
            Some(encode(&none, &rows.table("right", rows.len())?, columns, driver)?)
        }
    };
    let key = |row: usize| keys.as_ref().map_or(0, |keys| keys.right[row]);
    let counts =
        |row: &usize| key(*row) != NO_KEY && counted.is_none_or(|counted| counted.contains(*row));
    let mut needed = BitSet::new(rows.len());
    let before = rows.before(from);
    (before..rows.len()).filter(counts).for_each(|row| needed.insert(row));
    let mut has_one = vec![false; keys.as_ref().map_or(1, |keys| keys.count)];
    for row in (0..before).rev().filter(counts) {
        if !std::mem::replace(&mut has_one[key(row) as usize], true) {
            needed.insert(row);
        }
    }
    Ok(needed)
}
