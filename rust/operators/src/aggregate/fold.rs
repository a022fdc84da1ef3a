//! The state of every cell: rows are added to partials, and the partials of a cell combined in source order.

use tidegate_structures::bits::BitSet;

use super::cells::{NOWHERE, Part};
use super::functions::{Edge, Function, NO_ROW};
use super::{Column, Mask, Stream};
use crate::driver::{Driver, Stopped};

/// The states of one function's cells, part by part.
pub(super) struct States<F: Function>(pub(super) Vec<Vec<F::State>>);

/// Adds up the rows that count.
pub(super) fn fold<F: Function>(
    parts: &[Part],
    columns: &[Column<'_, F::Input>],
    driver: &Driver,
) -> Result<States<F>, Stopped> {
    let states = driver.map(parts.iter().collect(), |part: &Part| {
        let mut partials = vec![F::EMPTY; part.partials];
        for (source, rows, partial_of) in part.sources() {
            let Column { values, mask } = &columns[source];
            let values = values[rows.clone()].iter().copied();
            each(mask, rows.start, partial_of, values, |partial, value| F::add(&mut partials[partial], value));
        }
        let Some(cell_of) = &part.cell_of else { return partials };
        let mut cells = vec![F::EMPTY; part.cells()];
        for run in &part.runs {
            for partial in run.partials.clone() {
                let cell = &mut cells[cell_of[partial] as usize];
                *cell = F::combine(*cell, partials[partial]);
            }
        }
        cells
    })?;
    Ok(States(states))
}

/// Finds the first or the last row of every cell, in the order of time, source and position.
pub(super) fn fold_rows<const LAST: bool>(
    parts: &[Part],
    streams: &[Stream<'_>],
    masks: &[Mask<'_>],
    driver: &Driver,
) -> Result<States<Edge<LAST>>, Stopped> {
    let starts: Vec<u32> = streams
        .iter()
        .scan(0, |start, stream| {
            let first = *start;
            *start += stream.ts.len() as u32;
            Some(first)
        })
        .collect();
    let states = driver.map(parts.iter().collect(), |part: &Part| {
        let mut partials = vec![Edge::<LAST>::EMPTY; part.partials];
        for (source, rows, partial_of) in part.sources() {
            // Numbers within the source, by which their times are found.
            let numbers = rows.start as u32..;
            each(&masks[source], rows.start, partial_of, numbers, |partial, row| {
                Edge::<LAST>::add(&mut partials[partial], row);
            });
        }
        let Some(cell_of) = &part.cell_of else { return partials };
        let mut cells = vec![(0, NO_ROW); part.cells()];
        for run in &part.runs {
            let (ts, start) = (streams[run.source].ts, starts[run.source]);
            for partial in run.partials.clone().filter(|partial| partials[*partial] != NO_ROW) {
                let row = partials[partial];
                let (time, cell) = (ts[row as usize], &mut cells[cell_of[partial] as usize]);
                // Of equal times, that of the source with the smaller number is first. No branch depends on it.
                let better = (if LAST { time >= cell.0 } else { time < cell.0 }) | (cell.1 == NO_ROW);
                *cell = (if better { time } else { cell.0 }, if better { start + row } else { cell.1 });
            }
        }
        cells.into_iter().map(|(_, row)| row).collect()
    })?;
    Ok(States(states))
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
