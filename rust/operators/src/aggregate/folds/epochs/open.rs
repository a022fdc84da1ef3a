//! The slices that can still receive rows, stored as partials by source, slice and key.

use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::slices::partials::{NOWHERE, SourceRun, clear, number_from, number_rows};
use crate::aggregate::slices::windows::{Slice, Windows};

/// One source's partials in a slice: their keys, followed by each function's states in turn.
pub type SlicePartials = (Slice, Vec<(u32, Vec<u64>)>);

/// The partials of each source, by slice.
pub type OpenPartials = Vec<Vec<SlicePartials>>;

/// The partials of one source, without their states.
#[derive(Debug)]
pub(in crate::aggregate) struct SourcePartials {
    /// The last partial of each key.
    slots: Vec<u32>,
    /// The key of each partial. The first partial is a placeholder.
    pub(in crate::aggregate) keys: Vec<u32>,
    /// The partials of each slice, in time order. Between epochs, there is at most one run.
    pub(in crate::aggregate) runs: Vec<SourceRun>,
    /// The partial of each row in the epoch.
    pub(in crate::aggregate) partial_of: Vec<u32>,
}

impl Default for SourcePartials {
    fn default() -> Self {
        SourcePartials {
            slots: Vec::new(),
            keys: vec![0],
            runs: Vec::new(),
            partial_of: Vec::new(),
        }
    }
}

impl SourcePartials {
    /// Assigns the rows in an epoch to partials. Keys must be less than `keys`.
    pub(in crate::aggregate) fn number(
        &mut self,
        source: usize,
        rows: Stream<'_>,
        windows: &Windows,
        keys: usize,
    ) {
        self.slots.resize(keys.max(self.slots.len()), NOWHERE);
        self.partial_of.resize(rows.ts.len(), NOWHERE);
        let SourcePartials { slots, keys: known, runs, partial_of } = self;
        number_rows(rows, source, windows, slots, known, runs, partial_of);
    }

    /// Drops the partials of slices before `upto`, and returns how many partials were dropped.
    pub(in crate::aggregate) fn forget(&mut self, upto: Slice) -> usize {
        let closed = self.runs.iter().take_while(|run| run.slice < upto).count();
        let Some(last) = self.runs[..closed].last() else { return 0 };
        let count = last.partials.end - 1;
        clear(&mut self.slots, &self.keys[1..=count]);
        self.keys.drain(1..=count);
        self.runs.drain(..closed);
        for run in &mut self.runs {
            run.partials = run.partials.start - count..run.partials.end - count;
        }
        for (partial, key) in (0..).zip(&self.keys).skip(1) {
            self.slots[*key as usize] = partial;
        }
        count
    }

    /// Replaces all partials. Keys must be less than `keys`.
    pub(in crate::aggregate) fn load(
        &mut self,
        source: usize,
        slices: &[SlicePartials],
        keys: usize,
    ) {
        clear(&mut self.slots, &self.keys[1..]);
        self.slots.resize(keys.max(self.slots.len()), NOWHERE);
        self.keys.truncate(1);
        self.runs.clear();
        for (slice, partials) in slices {
            let first = self.keys.len();
            for (key, _) in partials {
                self.slots[*key as usize] = self.keys.len() as u32;
                self.keys.push(*key);
            }
            self.runs.push(SourceRun { slice: *slice, source, partials: first..self.keys.len() });
        }
    }

    /// Sorts the partials by key, and returns their former positions. All partials must belong to
    /// one slice.
    pub(in crate::aggregate) fn arrange(&mut self, ranks: &[u32]) -> Vec<usize> {
        debug_assert!(self.runs.len() <= 1, "between epochs, all partials belong to one slice");
        let was = arrange(&mut self.keys[1..], ranks);
        for (partial, key) in (0..).zip(&self.keys).skip(1) {
            self.slots[*key as usize] = partial;
        }
        was
    }

    pub(in crate::aggregate) fn bytes(&self) -> usize {
        (self.slots.len() + self.keys.len()) * size_of::<u32>()
    }
}

/// Sorts keys by rank, and returns their former positions. Ranks must be distinct.
pub(in crate::aggregate) fn arrange(keys: &mut [u32], ranks: &[u32]) -> Vec<usize> {
    let rank = |key: u32| ranks[key as usize];
    let mut was: Vec<usize> = (0..keys.len()).collect();
    was.sort_unstable_by_key(|&at| rank(keys[at]));
    keys.sort_unstable_by_key(|&key| rank(key));
    was
}

/// A slice that can no longer receive rows.
#[derive(Debug)]
pub(in crate::aggregate) struct ClosingSlice {
    pub(in crate::aggregate) slice: Slice,
    /// The runs of partials, in source order.
    pub(in crate::aggregate) runs: Vec<SourceRun>,
    /// The key of each cell.
    pub(in crate::aggregate) keys: Vec<u32>,
    /// The cell of each partial, run after run. `None` if there is only one run, because each
    /// partial is then a cell.
    pub(in crate::aggregate) cell_of: Option<Vec<u32>>,
}

/// A closed slice.
#[derive(Debug)]
pub(in crate::aggregate) struct ClosedSlice {
    pub(in crate::aggregate) slice: Slice,
    /// The key of each cell.
    pub(in crate::aggregate) keys: Vec<u32>,
}

/// Derives a slice's cells from the partials of its runs. `slots` must have one slot per key. The
/// contents of `slots` are restored before the function returns.
pub(in crate::aggregate) fn close(
    runs: &[SourceRun],
    open: &[SourcePartials],
    slots: &mut Vec<u32>,
) -> ClosingSlice {
    let keys_of = |run: &SourceRun| &open[run.source].keys[run.partials.clone()];
    let slice = runs[0].slice;
    if let [run] = runs {
        return ClosingSlice {
            slice,
            runs: vec![run.clone()],
            keys: keys_of(run).to_vec(),
            cell_of: None,
        };
    }
    let most = runs.iter().map(|run| open[run.source].slots.len()).max().unwrap_or(0);
    slots.resize(most.max(slots.len()), NOWHERE);
    // Cells are numbered from 1, since 0 marks an empty slot.
    let (mut keys, mut cell_of) =
        (vec![0], vec![0; runs.iter().map(|run| run.partials.len()).sum()]);
    let mut out = &mut cell_of[..];
    for run in runs {
        let (here, rest) = std::mem::take(&mut out).split_at_mut(run.partials.len());
        number_from(1, keys_of(run), slots, &mut keys, here);
        out = rest;
    }
    clear(slots, &keys[1..]);
    keys.remove(0);
    ClosingSlice { slice, runs: runs.to_vec(), keys, cell_of: Some(cell_of) }
}
