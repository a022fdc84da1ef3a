//! Computes the states of the cells in a part. Rows are added to partials, and the partials of a
//! cell are combined in source order.

use std::ops::Range;

use tidegate_structures::memory;

use super::cells::{Belongs, Partials};
use super::in_order;
use super::part::TimePart;
use crate::aggregate::inputs::columns::{Mask, Stream};
use crate::aggregate::inputs::values::FunctionInput;
use crate::aggregate::slices::partials::each;
use crate::aggregate::states::functions::{Function, RowOrder};

/// Returns the states of the cells in a part, for any function over the given input.
pub(in crate::aggregate) fn cells<F: Function, G: FunctionInput<F>>(
    input: &G,
    streams: &[Stream<'_>],
    part: &TimePart,
    belongs: &Belongs<'_>,
) -> Vec<F::State> {
    // The condition is constant, so this branch is compiled only for functions that need merged
    // order.
    if const { matches!(F::ORDER, RowOrder::Merged) } && streams.len() > 1 {
        return in_order::cells::<F, G>(input, streams, part, belongs);
    }
    match belongs {
        Belongs::Partials(partials) => of_partials::<F, G>(input, part, partials),
        Belongs::Keys(dense) => dense.fold::<F, G>(input, part, streams),
    }
}

fn of_partials<F: Function, G: FunctionInput<F>>(
    input: &G,
    part: &TimePart,
    of: &Partials<'_>,
) -> Vec<F::State> {
    let (mask, values) = (|source| input.mask(source), |source, rows| input.values(source, rows));
    let partials = add_to_partials::<F, _>(of, mask, values);
    let Some(cell_of) = &of.cell_of else { return partials };
    let mut cells = memory::filled(part.keys.len(), F::EMPTY);
    for run in &of.runs {
        for partial in run.partials.clone() {
            let cell = &mut cells[cell_of[partial] as usize];
            *cell = F::combine(*cell, partials[partial]);
        }
    }
    cells
}

/// Returns the states of partials. `mask` selects the rows from a source that are included, and
/// `values` contains the values that they add.
pub(in crate::aggregate) fn add_to_partials<'a, F: Function, V: Iterator<Item = F::Input>>(
    of: &Partials<'_>,
    mask: impl Fn(usize) -> Mask<'a>,
    values: impl Fn(usize, Range<usize>) -> V,
) -> Vec<F::State> {
    let mut partials = memory::filled(of.count, F::EMPTY);
    for (source, rows, partial_of) in of.sources() {
        let first = rows.start;
        each(mask(source), first, partial_of, values(source, rows), |partial, value| {
            F::add(&mut partials[partial], value);
        });
    }
    partials
}
