//! Groups the right rows and finds matches for the left rows, in a single pass over both sides in
//! time order ([`Writer::merge`]).
//!
//! Threads process consecutive parts of the left rows. Part `p` inserts the right rows between the
//! last matches of part `p - 1` and its own last matches. These ranges, called tiles, cover the
//! whole right side. First, the rows before each tile are counted by key. For each part, the number
//! of rows that are too early is then computed from the counts at the nearest tile.

use std::ops::Range;
use std::sync::Arc;

use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::partition::{
    Buckets, LeavingRows, Part, Rows, Target, TimedRows, Writer, ranges, writers,
};

use super::JoinColumns;
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::{Matches, Run};
use crate::rows::interval::LeftReach;

/// The number of parts per thread. With several parts per thread, all threads finish at about the
/// same time even if parts differ.
const PARTS_A_THREAD: usize = 4;

/// Returns the bounds of the reach if they are the same for all left rows, and if counting every
/// key in every part costs less than processing the rows.
pub(super) fn distances(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    reach: &impl LeftReach,
    driver: &Driver,
) -> Option<(i64, i64)> {
    let counted = key_count.saturating_mul(driver.parts(left.ts.len(), PART_ROWS));
    let ([first, ..], [.., last]) = (left.ts, left.ts) else { return None };
    reach.distances(*first, *last).filter(|_| counted <= left.ts.len() + right.ts.len())
}

/// Returns the matches of all left rows, and the start of each key's right rows. The times of
/// both sides must be in nondecreasing order.
pub(super) fn merge(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    (early, late): (i64, i64),
    driver: &Driver,
) -> Result<(Matches, Vec<u32>), Stopped> {
    let (left, right) = (timed(left), timed(right));
    // 1. Determine the parts, and the right rows that each of them inserts.
    let affordable = ((left.ts.len() + right.ts.len()) / key_count.max(1)).max(1);
    let most = if driver.threads() == 1 { 1 } else { driver.threads() * PARTS_A_THREAD };
    let parts = ranges(left.ts.len(), (left.ts.len() / PART_ROWS).clamp(1, most.min(affordable)));
    let before =
        |row: usize, distance: i64| right.ts.partition_point(|&ts| ts <= left.ts[row] + distance);
    let mut cuts = vec![0];
    cuts.extend(parts[1..].iter().map(|part| before(part.start - 1, late)));
    cuts.push(right.ts.len());
    let tiles = || cuts.windows(2).map(|cut| cut[0]..cut[1]);
    // 2. Count the rows of each key before each tile.
    let rows = Rows { keys: right.keys, ts: None, numbers: None, first: 0 };
    let buckets = Buckets { first: 0, shift: 0, count: key_count };
    let counted = driver.map(tiles().collect(), |tile| Part::count(rows.slice(tile), buckets))?;
    let mut numbers = Pages::unwritten(right.ts.len());
    let target = Target { keys: None, ts: None, numbers: Some(&mut numbers) };
    let (starts, writers) = writers(counted, target);
    let early_rows = |part: &Range<usize>| {
        let end = before(part.start, early);
        let tile = (0..parts.len()).min_by_key(|&tile| cuts[tile].abs_diff(end)).expect("a tile");
        EarlyRows { end, counted: cuts[tile], places: writers[tile].next().to_vec() }
    };
    let early_rows: Vec<_> = parts.iter().map(early_rows).collect();
    // 3. Process all parts in parallel.
    let mut runs = Pages::<Run>::unwritten(left.ts.len());
    let mut rest = &mut runs[..];
    let items = parts.into_iter().zip(tiles()).zip(writers).zip(early_rows).map(
        |(((part, tile), writer), early_rows)| {
            let (runs, others) = std::mem::take(&mut rest).split_at_mut(part.len());
            rest = others;
            (slice(left, part), &right.ts[tile], writer, early_rows, runs)
        },
    );
    driver.map(
        items.collect(),
        |(left, ts, writer, early_rows, runs): (
            _,
            &[i64],
            Writer<'_>,
            EarlyRows,
            &mut [Slot<Run>],
        )| {
            let leaving = early_rows.leave(right, early);
            writer.merge(ts, late, leaving, left, Slot::cast(runs));
        },
    )?;
    // Rows without a key have no position.
    let numbers = numbers.written_upto(starts.last().map_or(0, |&end| end as usize));
    Ok((Matches::new(runs.written(), Some(Arc::new(numbers)), true, right.ts.len()), starts))
}

/// The right rows that are too early for all left rows in a part.
struct EarlyRows {
    end: usize,
    /// A row near the end of the early rows, and the position that each key has reached before that
    /// row.
    counted: usize,
    places: Vec<u32>,
}

impl EarlyRows {
    /// Removes the early rows. The rows in between are counted individually.
    fn leave(self, right: TimedRows<'_>, early: i64) -> LeavingRows<'_> {
        let EarlyRows { end, counted, places: mut first } = self;
        let without_key = first.len() - 1;
        let group = |key: u32| (key as usize).min(without_key);
        right
            .keys
            .get(counted..end)
            .unwrap_or_default()
            .iter()
            .for_each(|&key| first[group(key)] += 1);
        right
            .keys
            .get(end..counted)
            .unwrap_or_default()
            .iter()
            .for_each(|&key| first[group(key)] -= 1);
        LeavingRows { rows: slice(right, end..right.ts.len()), first, early }
    }
}

fn timed(side: JoinColumns<'_>) -> TimedRows<'_> {
    TimedRows { ts: side.ts, keys: side.keys.expect("a key column") }
}

fn slice(rows: TimedRows<'_>, range: Range<usize>) -> TimedRows<'_> {
    TimedRows { ts: &rows.ts[range.clone()], keys: &rows.keys[range] }
}
