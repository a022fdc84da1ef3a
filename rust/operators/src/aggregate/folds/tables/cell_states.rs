//! Cell states, computed from a function's input. For some inputs, there is a faster way to compute
//! the states.

use std::ops::Range;

use tidegate_structures::memory;

use super::add::{add_to_partials, cells};
use super::cells::{Belongs, Partials};
use super::part::TimePart;
use crate::aggregate::inputs::columns::{Column, Stream};
use crate::aggregate::inputs::values::{
    CountedRows, FunctionInput, RowCandidates, RowCandidatesByValue, TimedValues, ValuePairs,
};
use crate::aggregate::states::functions::{ByValue, Count, Edge, Function, NO_ROW, Pick};

/// The input of a function in the pass over tables.
pub(in crate::aggregate) trait CellStates<F: Function>:
    FunctionInput<F>
{
    /// The function that combines the cells of tables into windows. This is the input function
    /// itself, unless cells need less information than rows.
    type OfCells: Function<Output = F::Output>;

    /// Returns the states of all cells in one part of the tables.
    fn cells(
        &self,
        streams: &[Stream<'_>],
        part: &TimePart,
        belongs: &Belongs<'_>,
    ) -> Vec<<Self::OfCells as Function>::State>;
}

impl<F: Function> CellStates<F> for &[Column<'_, F::Input>] {
    type OfCells = F;

    fn cells(
        &self,
        streams: &[Stream<'_>],
        part: &TimePart,
        belongs: &Belongs<'_>,
    ) -> Vec<F::State> {
        cells::<F, _>(self, streams, part, belongs)
    }
}

impl<F: Function<Input = (f64, f64)>> CellStates<F> for ValuePairs<'_> {
    type OfCells = F;

    fn cells(
        &self,
        streams: &[Stream<'_>],
        part: &TimePart,
        belongs: &Belongs<'_>,
    ) -> Vec<F::State> {
        cells::<F, _>(self, streams, part, belongs)
    }
}

impl<P, F> CellStates<F> for TimedValues<'_, P>
where
    P: Copy + Send + Sync,
    F: Function<Input = (i64, f64, P)>,
{
    type OfCells = F;

    fn cells(
        &self,
        streams: &[Stream<'_>],
        part: &TimePart,
        belongs: &Belongs<'_>,
    ) -> Vec<F::State> {
        cells::<F, _>(self, streams, part, belongs)
    }
}

impl<F: Function<Input = ByValue>> CellStates<F> for RowCandidatesByValue<'_> {
    type OfCells = F;

    fn cells(
        &self,
        streams: &[Stream<'_>],
        part: &TimePart,
        belongs: &Belongs<'_>,
    ) -> Vec<F::State> {
        cells::<F, _>(self, streams, part, belongs)
    }
}

impl CellStates<Count> for CountedRows<'_> {
    type OfCells = Count;

    fn cells(&self, streams: &[Stream<'_>], part: &TimePart, belongs: &Belongs<'_>) -> Vec<u64> {
        match belongs {
            // The rows were counted when the cells were found.
            Belongs::Keys(dense) if self.0.iter().all(Option::is_none) => dense.rows.clone(),
            _ => cells::<Count, _>(self, streams, part, belongs),
        }
    }
}

impl RowCandidates<'_> {
    /// Returns the chosen row in each cell. A source's rows arrive in time order, so the row number
    /// alone decides between two rows. A partial therefore takes 4 bytes instead of 16. Times are
    /// read only for the rows chosen by partials.
    fn of_partials<const LAST: bool>(&self, part: &TimePart, of: &Partials<'_>) -> Vec<(i64, u32)> {
        // Row numbers within the source, which are used to look up times.
        let numbers = |_: usize, rows: Range<usize>| rows.start as u32..rows.end as u32;
        let partials = add_to_partials::<Edge<LAST>, _>(of, |source| self.masks[source], numbers);
        let mut cells = memory::filled(part.keys.len(), Pick::<LAST>::EMPTY);
        for run in &of.runs {
            let (ts, start) = (self.streams[run.source].ts, self.first_rows[run.source]);
            for partial in run.partials.clone().filter(|partial| partials[*partial] != NO_ROW) {
                let row = partials[partial];
                let cell = of.cell_of.as_ref().map_or(partial, |cell_of| cell_of[partial] as usize);
                Pick::<LAST>::add(&mut cells[cell], (ts[row as usize], start + row));
            }
        }
        cells
    }
}

impl<const LAST: bool> CellStates<Pick<LAST>> for RowCandidates<'_> {
    /// Cells are in time order, so windows are computed from 4 bytes per cell instead of 16.
    type OfCells = Edge<LAST>;

    fn cells(&self, streams: &[Stream<'_>], part: &TimePart, belongs: &Belongs<'_>) -> Vec<u32> {
        let cells = match belongs {
            Belongs::Partials(partials) => self.of_partials::<LAST>(part, partials),
            Belongs::Keys(_) => cells::<Pick<LAST>, _>(self, streams, part, belongs),
        };
        cells.into_iter().map(|(_, row)| row).collect()
    }
}
