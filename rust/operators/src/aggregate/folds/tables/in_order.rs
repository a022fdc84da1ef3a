//! Functions that need the rows from all sources in merged order. For these functions, the partial
//! states of individual sources cannot be combined.
//!
//! A part's rows form one sorted run per source. The runs are merged, and their rows are added
//! directly to cells.

use tidegate_structures::memory;

use super::cells::{Belongs, Partials};
use super::dense::Dense;
use super::part::TimePart;
use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::inputs::places::Place;
use crate::aggregate::inputs::values::FunctionInput;
use crate::aggregate::states::functions::Function;

/// Like [`cells`](super::add::cells), computes the states of cells, but adds rows in merged order.
pub(in crate::aggregate) fn cells<F: Function, G: FunctionInput<F>>(
    input: &G,
    streams: &[Stream<'_>],
    part: &TimePart,
    belongs: &Belongs<'_>,
) -> Vec<F::State> {
    let mut add = |mut rows: Vec<(Place, usize)>, states: &mut [F::State]| {
        // The rows are listed source by source before this stable sort.
        rows.sort_by_key(|(place, _)| streams[place.source].ts[place.row]);
        for (place, state) in rows {
            if input.counts(place) {
                F::add(&mut states[state], input.at(place));
            }
        }
    };
    match belongs {
        Belongs::Partials(partials) => of_partials::<F>(part, partials, &mut add),
        Belongs::Keys(dense) => of_keys::<F>(streams, part, dense, &mut add),
    }
}

/// Adds each row to its state.
type Add<'a, F> = dyn FnMut(Vec<(Place, usize)>, &mut [<F as Function>::State]) + 'a;

fn of_partials<F: Function>(
    part: &TimePart,
    of: &Partials<'_>,
    add: &mut Add<'_, F>,
) -> Vec<F::State> {
    let cell_of = of.cell_of.as_ref().expect("with several sources, partials and cells differ");
    let mut rows = Vec::new();
    for (source, range, partial_of) in of.sources() {
        let cell = |(row, &partial): (usize, &u32)| {
            (Place { source, row }, cell_of[partial as usize] as usize)
        };
        rows.extend(range.zip(partial_of).map(cell));
    }
    let mut cells = memory::filled(part.keys.len(), F::EMPTY);
    add(rows, &mut cells);
    cells
}

fn of_keys<F: Function>(
    streams: &[Stream<'_>],
    part: &TimePart,
    dense: &Dense,
    add: &mut Add<'_, F>,
) -> Vec<F::State> {
    let mut states = memory::filled(dense.key_count, F::EMPTY);
    let mut cells = memory::vec(part.keys.len());
    for (slice, runs) in part.slices.iter().zip(dense.runs()) {
        let mut rows = Vec::new();
        for (source, range) in runs {
            let key = |row: usize| streams[source].keys.map_or(0, |keys| keys[row] as usize);
            rows.extend(range.map(|row| (Place { source, row }, key(row))));
        }
        add(rows, &mut states);
        let keys = part.keys[slice.cells.clone()].iter();
        cells.extend(keys.map(|key| std::mem::replace(&mut states[*key as usize], F::EMPTY)));
    }
    cells
}
