//! The state of every cell: rows are added to partials, and the partials of a cell combined in source order. All functions
//! fold a part, one after the other, while what says where its rows belong is in the cache.

use std::any::Any;

use tidegate_structures::bits::BitSet;

use super::cells::{NOWHERE, Part};
use super::functions::{Edge, Function, NO_ROW};
use super::slide::Folded;
use super::{Column, Mask, Stream};

/// The states of one function's cells, part by part.
pub(super) struct States<F: Function>(pub(super) Vec<Vec<F::State>>);

/// The states of a function's cells in one part, whichever function it is.
pub(super) type PartStates = Box<dyn Any + Send>;

/// A function and what it is of.
pub(super) trait Fold: Sync {
    /// The states of the cells of a part, by the row's partials.
    fn fold(&self, part: &Part, partial_of: &[u32]) -> PartStates;

    /// What [`fold`](Self::fold) made of each part.
    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded>;
}

fn put_together<F: Function>(parts: Vec<PartStates>) -> Box<dyn Folded> {
    let states = |part: PartStates| *part.downcast::<Vec<F::State>>().expect("a function makes states of one type");
    Box::new(States::<F>(parts.into_iter().map(states).collect()))
}

/// Adds up the rows that count.
pub(super) struct Added<'a, F: Function>(pub(super) Vec<Column<'a, F::Input>>);

impl<F: Function> Fold for Added<'_, F> {
    fn fold(&self, part: &Part, partial_of: &[u32]) -> PartStates {
        let mut partials = vec![F::EMPTY; part.partials];
        for (source, rows, partial_of) in part.sources(partial_of) {
            let Column { values, mask } = &self.0[source];
            let values = values[rows.clone()].iter().copied();
            each(mask, rows.start, partial_of, values, |partial, value| F::add(&mut partials[partial], value));
        }
        let Some(cell_of) = &part.cell_of else { return Box::new(partials) };
        let mut cells = vec![F::EMPTY; part.cells()];
        for run in &part.runs {
            for partial in run.partials.clone() {
                let cell = &mut cells[cell_of[partial] as usize];
                *cell = F::combine(*cell, partials[partial]);
            }
        }
        Box::new(cells)
    }

    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded> {
        put_together::<F>(parts)
    }
}

/// Finds the first or the last row of every cell, in the order of time, source and position.
pub(super) struct Choice<'a, const LAST: bool> {
    pub(super) streams: &'a [Stream<'a>],
    pub(super) masks: &'a [Mask<'a>],
}

impl<const LAST: bool> Fold for Choice<'_, LAST> {
    fn fold(&self, part: &Part, partial_of: &[u32]) -> PartStates {
        let mut partials = vec![Edge::<LAST>::EMPTY; part.partials];
        for (source, rows, partial_of) in part.sources(partial_of) {
            // Numbers within the source, by which their times are found.
            let numbers = rows.start as u32..;
            each(&self.masks[source], rows.start, partial_of, numbers, |partial, row| {
                Edge::<LAST>::add(&mut partials[partial], row);
            });
        }
        let Some(cell_of) = &part.cell_of else { return Box::new(partials) };
        let starts: Vec<u32> = self
            .streams
            .iter()
            .scan(0, |first, stream| Some(std::mem::replace(first, *first + stream.ts.len() as u32)))
            .collect();
        let mut cells = vec![(0, NO_ROW); part.cells()];
        for run in &part.runs {
            let (ts, start) = (self.streams[run.source].ts, starts[run.source]);
            for partial in run.partials.clone().filter(|partial| partials[*partial] != NO_ROW) {
                let row = partials[partial];
                let (time, cell) = (ts[row as usize], &mut cells[cell_of[partial] as usize]);
                // Of equal times, that of the source with the smaller number is first. No branch depends on it.
                let better = (if LAST { time >= cell.0 } else { time < cell.0 }) | (cell.1 == NO_ROW);
                *cell = (if better { time } else { cell.0 }, if better { start + row } else { cell.1 });
            }
        }
        Box::new(cells.into_iter().map(|(_, row)| row).collect::<Vec<u32>>())
    }

    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded> {
        put_together::<Edge<LAST>>(parts)
    }
}

/// Calls `add` with the partial and the value of each row that counts; rows that do not count go nowhere.
#[inline]
pub(super) fn each<T>(
    mask: &Option<&BitSet>,
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
