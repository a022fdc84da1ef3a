//! The input of functions: the values of rows, and which rows count.
//!
//! Both passes, the one over tables and the one over epochs, take values from here, each in loops
//! that are compiled for the function and its input.

use std::ops::Range;

use tidegate_structures::memory;

use super::cells::{Belongs, Part, Partials};
use super::dense::prefetch_range;
use super::fold::{add_to_partials, cells};
use super::functions::{ByValue, Count, Edge, Function, NO_ROW, Pick};
use super::merged::Place;
use super::{Column, Mask, Stream};

/// Where the values of a single source lie, and the mask of the rows that count: by address. What
/// lies in the same memory is the same.
pub(super) type Memory = [usize; 3];

/// The input of a function, row by row.
pub(super) trait Given<F: Function>: Send + Sync {
    /// The function that combines the cells of tables to windows: the same, unless cells need to
    /// know less than rows.
    type OfCells: Function<Output = F::Output>;

    /// The values that some rows of a source add.
    fn values(&self, source: usize, rows: Range<usize>) -> impl Iterator<Item = F::Input> + Send;

    /// The value that a row adds.
    fn at(&self, place: Place) -> F::Input;

    /// The rows of a source that count.
    fn mask(&self, source: usize) -> Mask<'_>;

    /// Whether a row counts.
    fn counts(&self, place: Place) -> bool {
        self.mask(place.source).is_none_or(|mask| mask.contains(place.row))
    }

    /// Where the values of a single source lie, if they lie somewhere.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Asks for the values of some rows of a source to be in a cache soon.
    fn announce(&self, _source: usize, _rows: &Range<usize>) {}

    /// The states of the cells of a part of the tables.
    fn cells(
        &self,
        streams: &[Stream<'_>],
        part: &Part,
        belongs: &Belongs<'_>,
    ) -> Vec<<Self::OfCells as Function>::State>;
}

impl<F: Function> Given<F> for &[Column<'_, F::Input>] {
    type OfCells = F;

    fn values(&self, source: usize, rows: Range<usize>) -> impl Iterator<Item = F::Input> + Send {
        self[source].values[rows].iter().copied()
    }

    fn at(&self, Place { source, row }: Place) -> F::Input {
        self[source].values[row]
    }

    fn mask(&self, source: usize) -> Mask<'_> {
        self[source].mask
    }

    fn memory(&self) -> Option<Memory> {
        let [Column { values, mask }] = self else { return None };
        Some([values.as_ptr().addr(), 0, address_of(*mask)])
    }

    fn announce(&self, source: usize, rows: &Range<usize>) {
        prefetch_range(self[source].values, rows);
    }

    fn cells(&self, streams: &[Stream<'_>], part: &Part, belongs: &Belongs<'_>) -> Vec<F::State> {
        cells::<F, _>(self, streams, part, belongs)
    }
}

/// The address of a mask; 0 where all rows count.
pub(super) fn address_of(mask: Mask<'_>) -> usize {
    mask.map_or(0, |mask| std::ptr::from_ref(mask).addr())
}

/// Values, each with another of the same row.
pub(super) struct Pairs<'a> {
    pub(super) values: &'a [Column<'a, f64>],
    pub(super) others: &'a [Column<'a, f64>],
}

impl<F: Function<Input = (f64, f64)>> Given<F> for Pairs<'_> {
    type OfCells = F;

    fn values(&self, source: usize, rows: Range<usize>) -> impl Iterator<Item = (f64, f64)> + Send {
        let values = self.values[source].values[rows.clone()].iter().copied();
        values.zip(self.others[source].values[rows].iter().copied())
    }

    fn at(&self, Place { source, row }: Place) -> (f64, f64) {
        (self.values[source].values[row], self.others[source].values[row])
    }

    fn mask(&self, source: usize) -> Mask<'_> {
        self.values[source].mask
    }

    fn memory(&self) -> Option<Memory> {
        let ([one], [other]) = (self.values, self.others) else { return None };
        Some([one.values.as_ptr().addr(), other.values.as_ptr().addr(), address_of(one.mask)])
    }

    fn announce(&self, source: usize, rows: &Range<usize>) {
        prefetch_range(self.values[source].values, rows);
        prefetch_range(self.others[source].values, rows);
    }

    fn cells(&self, streams: &[Stream<'_>], part: &Part, belongs: &Belongs<'_>) -> Vec<F::State> {
        cells::<F, _>(self, streams, part, belongs)
    }
}

/// Rows by the value of a column. The function chooses one of them.
pub(super) struct ChosenByValue<'a> {
    pub(super) rows: Chosen<'a>,
    pub(super) values: &'a [Column<'a, i64>],
}

impl<F: Function<Input = ByValue>> Given<F> for ChosenByValue<'_> {
    type OfCells = F;

    fn values(&self, source: usize, rows: Range<usize>) -> impl Iterator<Item = ByValue> + Send {
        let values = self.values[source].values[rows.clone()].iter().copied();
        let first = self.rows.first_rows[source] + rows.start as u32;
        let rows = self.rows.streams[source].ts[rows].iter().copied().zip(first..);
        values.zip(rows).map(|(value, (ts, row))| ByValue { value, ts, row })
    }

    fn at(&self, Place { source, row }: Place) -> ByValue {
        ByValue {
            value: self.values[source].values[row],
            ts: self.rows.streams[source].ts[row],
            row: self.rows.first_rows[source] + row as u32,
        }
    }

    fn mask(&self, source: usize) -> Mask<'_> {
        self.values[source].mask
    }

    fn announce(&self, source: usize, rows: &Range<usize>) {
        prefetch_range(self.values[source].values, rows);
        prefetch_range(self.rows.streams[source].ts, rows);
    }

    fn cells(&self, streams: &[Stream<'_>], part: &Part, belongs: &Belongs<'_>) -> Vec<F::State> {
        cells::<F, _>(self, streams, part, belongs)
    }
}

/// Rows that are only counted.
pub(super) struct Rows<'a>(pub(super) &'a [Mask<'a>]);

impl Given<Count> for Rows<'_> {
    type OfCells = Count;

    fn values(&self, _source: usize, rows: Range<usize>) -> impl Iterator<Item = ()> + Send {
        rows.map(|_| ())
    }

    fn at(&self, _place: Place) {}

    fn mask(&self, source: usize) -> Mask<'_> {
        self.0[source]
    }

    fn cells(&self, streams: &[Stream<'_>], part: &Part, belongs: &Belongs<'_>) -> Vec<u64> {
        match belongs {
            // They were counted to find the cells.
            Belongs::Keys(dense) if self.0.iter().all(Option::is_none) => dense.rows.clone(),
            _ => cells::<Count, _>(self, streams, part, belongs),
        }
    }
}

/// Rows by time and number. The function chooses one of them.
pub(super) struct Chosen<'a> {
    pub(super) streams: &'a [Stream<'a>],
    /// The number of each source's first row.
    pub(super) first_rows: &'a [u32],
    pub(super) masks: &'a [Mask<'a>],
}

impl Chosen<'_> {
    /// The rows of cells. A source's rows come in time order, so the number alone says which is
    /// better: a partial has 4 bytes instead of 16, and only the times of the rows that partials
    /// have chosen are read.
    fn of_partials<const LAST: bool>(&self, part: &Part, of: &Partials<'_>) -> Vec<(i64, u32)> {
        // Numbers within the source, by which their times are found.
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

impl<const LAST: bool> Given<Pick<LAST>> for Chosen<'_> {
    /// Cells follow each other in time, so windows are made of 4 bytes a cell instead of 16.
    type OfCells = Edge<LAST>;

    fn values(&self, source: usize, rows: Range<usize>) -> impl Iterator<Item = (i64, u32)> + Send {
        let first = self.first_rows[source] + rows.start as u32;
        self.streams[source].ts[rows].iter().copied().zip(first..)
    }

    fn at(&self, Place { source, row }: Place) -> (i64, u32) {
        (self.streams[source].ts[row], self.first_rows[source] + row as u32)
    }

    fn mask(&self, source: usize) -> Mask<'_> {
        self.masks[source]
    }

    fn announce(&self, source: usize, rows: &Range<usize>) {
        prefetch_range(self.streams[source].ts, rows);
    }

    fn cells(&self, streams: &[Stream<'_>], part: &Part, belongs: &Belongs<'_>) -> Vec<u32> {
        let cells = match belongs {
            Belongs::Partials(partials) => self.of_partials::<LAST>(part, partials),
            Belongs::Keys(_) => cells::<Pick<LAST>, _>(self, streams, part, belongs),
        };
        cells.into_iter().map(|(_, row)| row).collect()
    }
}
