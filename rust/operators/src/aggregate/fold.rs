//! The state of every cell: rows are added to partials, and the partials of a cell combined in
//! source order. All functions fold a part, one after the other, while the cells of its rows are in
//! the cache.

use std::any::Any;
use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::bits::BitSet;

use super::cells::{Belongs, NOWHERE, Part, Partials};
use super::functions::{Function, RowOrder};
use super::given::Given;
use super::kinds::Of;
use super::slide::Folded;
use super::{Mask, Stream, in_order};

/// The states of one function's cells, part by part.
pub(super) struct Cells<F: Function>(pub(super) Vec<Vec<F::State>>);

/// The states of a function's cells in one part, whichever function it is.
pub(super) type PartStates = Box<dyn Any + Send>;

/// The steps of the pass over tables, for a function and its input.
pub(super) trait Fold: Sync {
    /// The states of the cells of a part.
    fn fold(&self, part: &Part, belongs: &Belongs<'_>) -> PartStates;

    /// Puts together the states that [`fold`](Self::fold) made of each part.
    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded>;
}

impl<F: Function, G: Given<F>> Fold for Of<'_, F, G> {
    fn fold(&self, part: &Part, belongs: &Belongs<'_>) -> PartStates {
        Box::new(self.given.cells(self.streams, part, belongs))
    }

    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded> {
        let states =
            |part: PartStates| *part.downcast().expect("a function makes states of one type");
        Box::new(Cells::<G::OfCells>(parts.into_iter().map(states).collect()))
    }
}

/// The states of the cells of a part, of any function of what is given.
pub(super) fn cells<F: Function, G: Given<F>>(
    given: &G,
    streams: &[Stream<'_>],
    part: &Part,
    belongs: &Belongs<'_>,
) -> Vec<F::State> {
    // A constant, so that this is compiled only for functions of merged order.
    if const { matches!(F::ORDER, RowOrder::Merged) } && streams.len() > 1 {
        return in_order::cells::<F, G>(given, streams, part, belongs);
    }
    match belongs {
        Belongs::Partials(partials) => of_partials::<F, G>(given, part, partials),
        Belongs::Keys(dense) => dense.fold::<F, G>(given, part, streams),
    }
}

fn of_partials<F: Function, G: Given<F>>(
    given: &G,
    part: &Part,
    of: &Partials<'_>,
) -> Vec<F::State> {
    let (mask, values) = (|source| given.mask(source), |source, rows| given.values(source, rows));
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

/// The states of partials: which rows of a source count, and what they add, is what `mask` and
/// `values` say.
pub(super) fn add_to_partials<'a, F: Function, V: Iterator<Item = F::Input>>(
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

/// Calls `add` with the partial and the value of each row that counts; rows that do not count go
/// nowhere.
#[inline]
pub(super) fn each<T>(
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
