//! Partials: the rows from one source that have the same key and are in the same slice.

use std::ops::Range;

use tidegate_structures::memory::bits::BitSet;

use super::windows::{Slice, Windows};
use crate::aggregate::inputs::columns::Stream;

/// The number of rows that are skipped at a time if they are all in the same slice.
const STEP_ROWS: usize = 32;

/// The number that represents a missing partial or cell. Excluded rows have this number.
pub(in crate::aggregate) const NOWHERE: u32 = 0;

/// The partials of one source in one slice.
#[derive(Clone, Debug)]
pub(in crate::aggregate) struct SourceRun {
    pub(in crate::aggregate) slice: Slice,
    pub(in crate::aggregate) source: usize,
    pub(in crate::aggregate) partials: Range<usize>,
}

/// Clears the slots of the given keys.
pub(in crate::aggregate) fn clear(slots: &mut [u32], keys: &[u32]) {
    if keys.len() < slots.len() {
        keys.iter().for_each(|&key| slots[key as usize] = NOWHERE);
    } else {
        slots.fill(NOWHERE);
    }
}

/// Numbers the partials of a source's new rows, after the existing ones. `known` contains the keys
/// of the existing partials, and `runs` contains their slices. If the last run is from this source
/// and the first rows are in its slice, these rows extend the run.
pub(in crate::aggregate) fn number_rows(
    rows: Stream<'_>,
    source: usize,
    windows: &Windows,
    slots: &mut [u32],
    known: &mut Vec<u32>,
    runs: &mut Vec<SourceRun>,
    out: &mut [u32],
) {
    let Stream { ts, keys } = rows;
    for (slice, rows) in slice_runs(ts, windows) {
        let out = &mut out[rows.clone()];
        if windows.is_gap(slice) {
            out.fill(NOWHERE);
            continue;
        }
        if runs.last().is_none_or(|run| (run.slice, run.source) != (slice, source)) {
            runs.push(SourceRun { slice, source, partials: known.len()..known.len() });
        }
        let run = &mut runs.last_mut().expect("it is there").partials;
        match keys {
            Some(keys) => number_from(run.start, &keys[rows], slots, known, out),
            None => {
                out.fill(run.start as u32);
                known.resize(run.start + 1, 0);
            }
        }
        run.end = known.len();
    }
}

/// Returns the slices of rows in time order, with the range of rows in each slice.
pub(in crate::aggregate) fn slice_runs(
    ts: &[i64],
    windows: &Windows,
) -> impl Iterator<Item = (Slice, Range<usize>)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let slice = windows.slice_of(*ts.get(start)?);
        let last = windows.last_time(slice);
        let mut end = start;
        while ts.get(end + STEP_ROWS - 1).is_some_and(|ts| *ts <= last) {
            end += STEP_ROWS;
        }
        end += ts[end..].iter().take_while(|ts| **ts <= last).count();
        Some((slice, std::mem::replace(&mut start, end)..end))
    })
}

/// Numbers the keys of a run. A key is new to the run if its number is less than `first`. Each new
/// key receives the next number.
#[inline]
pub(in crate::aggregate) fn number_from(
    first: usize,
    keys: &[u32],
    slots: &mut [u32],
    known: &mut Vec<u32>,
    out: &mut [u32],
) {
    let first = first as u32;
    let mut count = known.len();
    known.resize(count + keys.len(), 0);
    // No branch depends on whether a key is new, because such a branch would be unpredictable. The
    // entry of a key that is not new is overwritten.
    for (&key, out) in keys.iter().zip(out) {
        let slot = &mut slots[key as usize];
        let is_new = *slot < first;
        known[count] = key;
        *slot = if is_new { count as u32 } else { *slot };
        count += usize::from(is_new);
        *out = *slot;
    }
    known.truncate(count);
}

/// Calls `add` with the partial and the value of each included row. Excluded rows are added to
/// [`NOWHERE`].
#[inline]
pub(in crate::aggregate) fn each<T>(
    mask: Option<&BitSet>,
    first: usize,
    partial_of: &[u32],
    values: impl Iterator<Item = T>,
    mut add: impl FnMut(usize, T),
) {
    let rows = partial_of.iter().zip(values);
    match mask {
        None => rows.for_each(|(partial, value)| add(*partial as usize, value)),
        Some(mask) => rows.enumerate().for_each(|(row, (partial, value))| {
            let partial = if mask.contains(first + row) { *partial } else { NOWHERE };
            add(partial as usize, value);
        }),
    }
}
