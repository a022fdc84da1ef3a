//! Functions that need the rows of all sources in merged order: there is nothing to combine of what
//! one source has.
//!
//! The rows of a part are put in order, which are as many sorted runs as there are sources, and
//! added to cells at once.

use tidegate_structures::memory;

use super::cells::{Belongs, Part, Partials};
use super::dense::Dense;
use super::fold::{Added, Fold, PartStates};
use super::functions::Function;
use super::sessions::{Place, Sessions};
use super::slide::Folded;
use super::{Column, OutputColumn};

/// As [`Added`], in merged order.
pub(super) struct InOrder<'a, F: Function>(pub(super) Added<'a, F>);

impl<F: Function> InOrder<'_, F> {
    fn of_partials(&self, part: &Part, of: &Partials<'_>) -> Vec<F::State> {
        let cell_of = of.cell_of.as_ref().expect("several sources have cells of their own");
        let mut rows = Vec::new();
        for (source, range, partial_of) in of.sources() {
            let cell = |(row, &partial): (usize, &u32)| {
                (Place { source, row }, cell_of[partial as usize] as usize)
            };
            rows.extend(range.zip(partial_of).map(cell));
        }
        let mut cells = memory::filled(part.keys.len(), F::EMPTY);
        self.add(rows, &mut cells);
        cells
    }

    fn of_keys(&self, part: &Part, dense: &Dense) -> Vec<F::State> {
        let mut states = memory::filled(dense.key_count, F::EMPTY);
        let mut cells = memory::vec(part.keys.len());
        for (slice, runs) in part.slices.iter().zip(dense.runs()) {
            let mut rows = Vec::new();
            for (source, range) in runs {
                let keys = self.0.streams[source].keys;
                rows.extend(
                    range.map(|row| {
                        (Place { source, row }, keys.map_or(0, |keys| keys[row] as usize))
                    }),
                );
            }
            self.add(rows, &mut states);
            let keys = part.keys[slice.cells.clone()].iter();
            cells.extend(keys.map(|key| std::mem::replace(&mut states[*key as usize], F::EMPTY)));
        }
        cells
    }

    /// Adds rows, which come source by source, each to its state, in merged order.
    fn add(&self, mut rows: Vec<(Place, usize)>, states: &mut [F::State]) {
        rows.sort_by_key(|(place, _)| self.0.streams[place.source].ts[place.row]);
        for (Place { source, row }, state) in rows {
            let Column { values, mask } = &self.0.columns[source];
            if mask.is_none_or(|mask| mask.contains(row)) {
                F::add(&mut states[state], values[row]);
            }
        }
    }
}

impl<F: Function> Fold for InOrder<'_, F> {
    fn fold(&self, part: &Part, belongs: &Belongs<'_>) -> PartStates {
        Box::new(match belongs {
            Belongs::Partials(partials) => self.of_partials(part, partials),
            Belongs::Keys(dense) => self.of_keys(part, dense),
        })
    }

    fn fold_sessions(&self, sessions: &Sessions) -> Vec<OutputColumn> {
        self.0.fold_sessions(sessions)
    }

    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded> {
        self.0.put_together(parts)
    }
}
