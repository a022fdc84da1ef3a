//! The state of every cell: rows are added to partials, and the partials of a cell combined in
//! source order. All functions fold a part, one after the other, while what says where its rows
//! belong is in the cache.

use std::any::Any;
use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::bits::BitSet;

use super::cells::{Belongs, NOWHERE, Part, Partials};
use super::dense::prefetch_range;
use super::functions::{Count, Edge, Function, NO_ROW, Pick};
use super::sessions::{Place, Sessions};
use super::slide::Folded;
use super::{Column, Mask, OutputColumn, Stream};

/// The states of one function's cells, part by part.
pub(super) struct States<F: Function>(pub(super) Vec<Vec<F::State>>);

/// The states of a function's cells in one part, whichever function it is.
pub(super) type PartStates = Box<dyn Any + Send>;

/// A function and what it is of.
pub(super) trait Fold: Sync {
    /// The states of the cells of a part.
    fn fold(&self, part: &Part, belongs: &Belongs<'_>) -> PartStates;

    /// The results of sessions, page by page.
    fn fold_sessions(&self, sessions: &Sessions) -> Vec<OutputColumn>;

    /// What [`fold`](Self::fold) made of each part.
    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded>;
}

fn put_together<F: Function>(parts: Vec<PartStates>) -> Box<dyn Folded> {
    let states = |part: PartStates| {
        *part.downcast::<Vec<F::State>>().expect("a function makes states of one type")
    };
    Box::new(States::<F>(parts.into_iter().map(states).collect()))
}

/// Adds up the rows that count.
pub(super) struct Added<'a, F: Function> {
    pub(super) streams: &'a [Stream<'a>],
    pub(super) columns: Vec<Column<'a, F::Input>>,
}

impl<F: Function> Added<'_, F> {
    fn of_partials(&self, part: &Part, of: &Partials<'_>) -> Vec<F::State> {
        let mut partials = memory::filled(of.count, F::EMPTY);
        for (source, rows, partial_of) in of.sources() {
            let Column { values, mask } = &self.columns[source];
            let values = values[rows.clone()].iter().copied();
            each(mask, rows.start, partial_of, values, |partial, value| {
                F::add(&mut partials[partial], value)
            });
        }
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
}

impl<F: Function> Fold for Added<'_, F> {
    fn fold(&self, part: &Part, belongs: &Belongs<'_>) -> PartStates {
        Box::new(match belongs {
            Belongs::Partials(partials) => self.of_partials(part, partials),
            Belongs::Keys(dense) => {
                let announce = |source: usize, rows: &Range<usize>| {
                    prefetch_range(self.columns[source].values, rows)
                };
                dense.fold::<F, _>(part, self.streams, announce, |source, rows| {
                    let Column { values, mask } = &self.columns[source];
                    (values[rows].iter().copied(), *mask)
                })
            }
        })
    }

    fn fold_sessions(&self, sessions: &Sessions) -> Vec<OutputColumn> {
        let masks: Vec<Mask<'_>> = self.columns.iter().map(|column| column.mask).collect();
        sessions.fold::<F>(&masks, |Place { source, row }| self.columns[source].values[row])
    }

    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded> {
        put_together::<F>(parts)
    }
}

/// Counts the rows.
pub(super) struct Counted<'a>(pub(super) Added<'a, Count>);

impl Fold for Counted<'_> {
    fn fold(&self, part: &Part, belongs: &Belongs<'_>) -> PartStates {
        match belongs {
            Belongs::Keys(dense) if self.0.columns.iter().all(|column| column.mask.is_none()) => {
                Box::new(dense.rows.clone())
            }
            _ => self.0.fold(part, belongs),
        }
    }

    fn fold_sessions(&self, sessions: &Sessions) -> Vec<OutputColumn> {
        self.0.fold_sessions(sessions)
    }

    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded> {
        self.0.put_together(parts)
    }
}

/// Finds the first or the last row of every cell, in the order of time, source and position.
pub(super) struct Choice<'a, const LAST: bool> {
    streams: &'a [Stream<'a>],
    masks: &'a [Mask<'a>],
    /// The number of each source's first row.
    starts: Vec<u32>,
}

impl<'a, const LAST: bool> Choice<'a, LAST> {
    pub(super) fn new(streams: &'a [Stream<'a>], masks: &'a [Mask<'a>]) -> Self {
        let next = |first: &mut u32, stream: &Stream<'_>| {
            Some(std::mem::replace(first, *first + stream.ts.len() as u32))
        };
        Choice { streams, masks, starts: streams.iter().scan(0, next).collect() }
    }

    fn of_partials(&self, part: &Part, of: &Partials<'_>) -> Vec<(i64, u32)> {
        // Numbers within the source, by which their times are found.
        let mut partials = memory::filled(of.count, Edge::<LAST>::EMPTY);
        for (source, rows, partial_of) in of.sources() {
            let numbers = rows.start as u32..;
            each(&self.masks[source], rows.start, partial_of, numbers, |partial, row| {
                Edge::<LAST>::add(&mut partials[partial], row);
            });
        }
        let mut cells = memory::filled(part.keys.len(), Pick::<LAST>::EMPTY);
        for run in &of.runs {
            let (ts, start) = (self.streams[run.source].ts, self.starts[run.source]);
            for partial in run.partials.clone().filter(|partial| partials[*partial] != NO_ROW) {
                let row = partials[partial];
                let cell = of.cell_of.as_ref().map_or(partial, |cell_of| cell_of[partial] as usize);
                Pick::<LAST>::add(&mut cells[cell], (ts[row as usize], start + row));
            }
        }
        cells
    }
}

impl<const LAST: bool> Fold for Choice<'_, LAST> {
    fn fold(&self, part: &Part, belongs: &Belongs<'_>) -> PartStates {
        let cells = match belongs {
            Belongs::Partials(partials) => self.of_partials(part, partials),
            Belongs::Keys(dense) => {
                let announce = |source: usize, rows: &Range<usize>| {
                    prefetch_range(self.streams[source].ts, rows)
                };
                dense.fold::<Pick<LAST>, _>(part, self.streams, announce, |source, rows| {
                    let first = self.starts[source] + rows.start as u32;
                    (self.streams[source].ts[rows].iter().copied().zip(first..), self.masks[source])
                })
            }
        };
        Box::new(cells.into_iter().map(|(_, row)| row).collect::<Vec<u32>>())
    }

    fn fold_sessions(&self, sessions: &Sessions) -> Vec<OutputColumn> {
        sessions.fold::<Pick<LAST>>(self.masks, |Place { source, row }| {
            (self.streams[source].ts[row], self.starts[source] + row as u32)
        })
    }

    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn Folded> {
        put_together::<Edge<LAST>>(parts)
    }
}

/// Calls `add` with the partial and the value of each row that counts; rows that do not count go
/// nowhere.
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
