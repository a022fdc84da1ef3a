//! Cells for small numbers of keys. Every key has a state, and a row is added to the state at the
//! index given by its key.
//!
//! If a slice contains about as many rows per source as there are keys, or more, there is no
//! advantage in numbering the keys that occur ([`cells`](super::cells)). All sources' rows in a
//! slice are added, one source after another. The states to which they are added stay in the
//! first-level cache. The states of the keys that occur become the slice's cells.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::bits::BitSet;
use tidegate_structures::memory::gather::prefetch_range;

use super::part::{SliceCells, TimePart};
use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::inputs::values::FunctionInput;
use crate::aggregate::slices::partials::slice_runs;
use crate::aggregate::slices::windows::Windows;
use crate::aggregate::states::functions::{Function, RowOrder};

/// The maximum number of keys whose states stay in a fast cache.
const MOST_KEYS: usize = 1 << 13;

/// The acceptable number of unneeded combinations per row. A combination is unneeded if its key is
/// absent. A combination takes a tenth of the time needed to add a row.
const KEYS_A_ROW: usize = 4;

/// The rows in a part, sorted by slice and then by source.
#[derive(Debug)]
pub(in crate::aggregate) struct Dense {
    /// One more than the largest key.
    pub(in crate::aggregate) key_count: usize,
    /// The rows from each source in a slice.
    runs: Vec<RowRun>,
    /// The runs of each slice.
    slices: Vec<Range<usize>>,
    /// The number of rows in each cell.
    pub(in crate::aggregate) rows: Vec<u64>,
}

#[derive(Debug)]
struct RowRun {
    slice: i64,
    source: usize,
    rows: Range<usize>,
}

impl Dense {
    /// Returns the cells of each source's rows, if looking up cells by key is the best method.
    pub(in crate::aggregate) fn new(
        streams: &[Stream<'_>],
        rows: &[Range<usize>],
        key_count: usize,
        windows: &Windows,
    ) -> Option<(TimePart, Dense)> {
        let row_count: usize = rows.iter().map(ExactSizeIterator::len).sum();
        let enough = |runs: usize| runs.saturating_mul(key_count) <= KEYS_A_ROW * row_count;
        if key_count > MOST_KEYS || !enough(1) {
            return None;
        }
        let mut runs = Vec::new();
        for (source, (stream, rows)) in streams.iter().zip(rows).enumerate() {
            for (slice, run) in slice_runs(&stream.ts[rows.clone()], windows) {
                let rows = rows.start + run.start..rows.start + run.end;
                runs.extend((!windows.is_gap(slice)).then_some(RowRun { slice, source, rows }));
            }
        }
        if !enough(runs.len()) {
            return None;
        }
        // The runs of each source are in time order, so this sort merges one sorted sequence per
        // source.
        runs.sort_by_key(|run| run.slice);
        let mut part = TimePart { keys: Vec::new(), slices: Vec::new() };
        let mut slices = Vec::new();
        let mut counts = memory::filled(key_count, 0_u64);
        let (mut rows_of, mut done) = (Vec::new(), 0);
        for of_slice in runs.chunk_by(|a, b| a.slice == b.slice) {
            for run in of_slice {
                done += 1;
                match streams[run.source].keys {
                    Some(keys) => {
                        // The next run is from another source, so the processor cannot prefetch it
                        // on its own.
                        if let Some(next) = runs.get(done)
                            && let Some(keys) = streams[next.source].keys
                        {
                            prefetch_range(keys, &next.rows);
                        }
                        keys[run.rows.clone()].iter().for_each(|key| counts[*key as usize] += 1);
                    }
                    None => counts[0] += run.rows.len() as u64,
                }
            }
            let first = part.keys.len();
            for (key, count) in (0..).zip(&mut counts).filter(|(_, count)| **count > 0) {
                part.keys.push(key);
                rows_of.push(std::mem::take(count));
            }
            part.slices
                .push(SliceCells { slice: of_slice[0].slice, cells: first..part.keys.len() });
            slices.push(done - of_slice.len()..done);
        }
        Some((part, Dense { key_count, runs, slices, rows: rows_of }))
    }

    /// Returns the rows in each slice, source by source.
    pub(in crate::aggregate) fn runs(
        &self,
    ) -> impl Iterator<Item = impl Iterator<Item = (usize, Range<usize>)>> {
        self.slices
            .iter()
            .map(|runs| self.runs[runs.clone()].iter().map(|run| (run.source, run.rows.clone())))
    }

    /// Computes the states of the part's cells.
    pub(in crate::aggregate) fn fold<F: Function, G: FunctionInput<F>>(
        &self,
        input: &G,
        part: &TimePart,
        streams: &[Stream<'_>],
    ) -> Vec<F::State> {
        let mut states = memory::vec(part.keys.len());
        // The state for excluded rows follows the states of the keys.
        let mut cells = memory::filled(self.key_count + 1, F::EMPTY);
        let mut partials = cells.clone();
        for (slice, runs) in part.slices.iter().zip(&self.slices) {
            for at in runs.clone() {
                if let Some(next) = self.runs.get(at + 1) {
                    input.announce(next.source, &next.rows);
                }
                let run = &self.runs[at];
                let values = || input.values(run.source, run.rows.clone());
                let mask = input.mask(run.source);
                let keys = streams[run.source].keys.map(|keys| &keys[run.rows.clone()]);
                if F::ORDER == RowOrder::Any || runs.len() == 1 {
                    self.add::<F>(&mut cells, keys, mask, run.rows.start, values());
                    continue;
                }
                self.add::<F>(&mut partials, keys, mask, run.rows.start, values());
                for (cell, partial) in cells.iter_mut().zip(&mut partials) {
                    *cell = F::combine(*cell, std::mem::replace(partial, F::EMPTY));
                }
            }
            let taken = part.keys[slice.cells.clone()].iter();
            states.extend(taken.map(|key| std::mem::replace(&mut cells[*key as usize], F::EMPTY)));
            cells[self.key_count] = F::EMPTY;
        }
        states
    }

    #[inline]
    fn add<F: Function>(
        &self,
        states: &mut [F::State],
        keys: Option<&[u32]>,
        mask: Option<&BitSet>,
        first: usize,
        values: impl Iterator<Item = F::Input>,
    ) {
        let counts = |row: usize| mask.is_none_or(|mask| mask.contains(first + row));
        match (keys, mask) {
            (Some(keys), None) => {
                keys.iter()
                    .zip(values)
                    .for_each(|(key, value)| F::add(&mut states[*key as usize], value));
            }
            (Some(keys), Some(_)) => {
                for (row, (key, value)) in keys.iter().zip(values).enumerate() {
                    let place = if counts(row) { *key as usize } else { self.key_count };
                    F::add(&mut states[place], value);
                }
            }
            (None, _) => {
                // A single state stays in registers.
                let mut state = states[0];
                for (_, value) in values.enumerate().filter(|(row, _)| counts(*row)) {
                    F::add(&mut state, value);
                }
                states[0] = state;
            }
        }
    }
}
