//! Inputs of functions: row values, and masks that select the rows to include.
//!
//! All folds over tables, epochs and partners read values through this module. The folds' loops are
//! compiled for each combination of a function and its input.

use std::marker::PhantomData;
use std::ops::Range;

use tidegate_structures::memory::gather::prefetch_range;

use super::columns::{Column, Mask, Stream};
use super::places::Place;
use crate::aggregate::states::functions::{ByValue, Count, Function, Pick};

/// The addresses of one source's values and mask. Inputs with the same addresses are identical.
pub(in crate::aggregate) type Memory = [usize; 3];

/// The input of a function, row by row.
pub(in crate::aggregate) trait FunctionInput<F: Function>:
    Send + Sync
{
    /// Returns the values contributed by the given rows from a source.
    fn values(&self, source: usize, rows: Range<usize>) -> impl Iterator<Item = F::Input> + Send;

    /// Returns the value that a row contributes.
    fn at(&self, place: Place) -> F::Input;

    /// Returns the mask of a source, which selects the included rows.
    fn mask(&self, source: usize) -> Mask<'_>;

    /// Returns whether a row counts.
    fn counts(&self, place: Place) -> bool {
        self.mask(place.source).is_none_or(|mask| mask.contains(place.row))
    }

    /// Returns the addresses of a single source's values, if they are stored.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Prefetches a source's values for the given rows.
    fn announce(&self, _source: usize, _rows: &Range<usize>) {}
}

impl<F: Function> FunctionInput<F> for &[Column<'_, F::Input>] {
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
}

/// Returns the address of a mask, or 0 if all rows are included.
pub(in crate::aggregate) fn address_of(mask: Mask<'_>) -> usize {
    mask.map_or(0, |mask| std::ptr::from_ref(mask).addr())
}

/// Pairs of values from the same row.
pub(in crate::aggregate) struct ValuePairs<'a> {
    pub(in crate::aggregate) values: &'a [Column<'a, f64>],
    pub(in crate::aggregate) others: &'a [Column<'a, f64>],
}

impl<F: Function<Input = (f64, f64)>> FunctionInput<F> for ValuePairs<'_> {
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
}

/// Rows, together with the value of a column. The function chooses one of the rows.
pub(in crate::aggregate) struct RowCandidatesByValue<'a> {
    pub(in crate::aggregate) rows: RowCandidates<'a>,
    pub(in crate::aggregate) values: &'a [Column<'a, i64>],
}

impl<F: Function<Input = ByValue>> FunctionInput<F> for RowCandidatesByValue<'_> {
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
}

/// Values and the times of their rows, together with the parameter of a function.
pub(in crate::aggregate) struct TimedValues<'a, P> {
    pub(in crate::aggregate) streams: &'a [Stream<'a>],
    pub(in crate::aggregate) values: &'a [Column<'a, f64>],
    pub(in crate::aggregate) parameter: P,
}

impl<P, F> FunctionInput<F> for TimedValues<'_, P>
where
    P: Copy + Send + Sync,
    F: Function<Input = (i64, f64, P)>,
{
    fn values(
        &self,
        source: usize,
        rows: Range<usize>,
    ) -> impl Iterator<Item = (i64, f64, P)> + Send {
        let ts = self.streams[source].ts[rows.clone()].iter().copied();
        let values = self.values[source].values[rows].iter().copied();
        ts.zip(values).map(|(ts, value)| (ts, value, self.parameter))
    }

    fn at(&self, Place { source, row }: Place) -> (i64, f64, P) {
        (self.streams[source].ts[row], self.values[source].values[row], self.parameter)
    }

    fn mask(&self, source: usize) -> Mask<'_> {
        self.values[source].mask
    }

    fn announce(&self, source: usize, rows: &Range<usize>) {
        prefetch_range(self.values[source].values, rows);
        prefetch_range(self.streams[source].ts, rows);
    }
}

/// Rows that are only counted.
pub(in crate::aggregate) struct CountedRows<'a>(pub(in crate::aggregate) &'a [Mask<'a>]);

impl FunctionInput<Count> for CountedRows<'_> {
    fn values(&self, _source: usize, rows: Range<usize>) -> impl Iterator<Item = ()> + Send {
        rows.map(|_| ())
    }

    fn at(&self, _place: Place) {}

    fn mask(&self, source: usize) -> Mask<'_> {
        self.0[source]
    }
}

/// Rows, together with their times and numbers. The function chooses one of the rows.
pub(in crate::aggregate) struct RowCandidates<'a> {
    pub(in crate::aggregate) streams: &'a [Stream<'a>],
    /// The number of each source's first row.
    pub(in crate::aggregate) first_rows: &'a [u32],
    pub(in crate::aggregate) masks: &'a [Mask<'a>],
}

impl<const LAST: bool> FunctionInput<Pick<LAST>> for RowCandidates<'_> {
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

    fn memory(&self) -> Option<Memory> {
        let RowCandidates { streams: [stream], first_rows: [first], masks: [mask] } = self else {
            return None;
        };
        Some([stream.ts.as_ptr().addr(), *first as usize, address_of(*mask)])
    }

    fn announce(&self, source: usize, rows: &Range<usize>) {
        prefetch_range(self.streams[source].ts, rows);
    }
}

/// A function with its input. Each of the [folds](crate::aggregate::folds) implements its trait for
/// `WithInput`.
pub(in crate::aggregate) struct WithInput<'a, F, G> {
    pub(in crate::aggregate) streams: &'a [Stream<'a>],
    pub(in crate::aggregate) input: G,
    function: PhantomData<F>,
}

impl<'a, F: Function, G: FunctionInput<F>> WithInput<'a, F, G> {
    pub(in crate::aggregate) fn new(streams: &'a [Stream<'a>], input: G) -> Self {
        WithInput { streams, input, function: PhantomData }
    }
}
