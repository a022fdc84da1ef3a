//! Partners that are added one by one.

use std::borrow::Cow;
use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use crate::aggregate::inputs::places::Place;
use crate::aggregate::inputs::values::FunctionInput;
use crate::aggregate::output::{OutputColumn, OutputValue, OutputValues};
use crate::aggregate::states::functions::Function;
use crate::matches::{Matches, Run};

/// The partners of some left rows, in the order in which they are passed to functions.
pub(in crate::aggregate) struct Lists<'a> {
    /// The right row at each position. `None` if positions are row numbers.
    rows: Option<RowNumbers<'a>>,
    runs: Cow<'a, [Run]>,
}

enum RowNumbers<'a> {
    Borrowed(&'a [u32]),
    Sorted(Vec<u32>),
}

impl<'a> Lists<'a> {
    /// Lists the partners of some left rows, ordered by time (if times are given) and then by
    /// number. Left rows are specified as positions in `matches`.
    pub(in crate::aggregate) fn new(
        matches: &'a Matches,
        left: Range<usize>,
        ts: Option<&[i64]>,
    ) -> Self {
        let runs = &matches.runs()[left];
        let Some(rows) = matches.rows() else { return Lists { rows: None, runs: runs.into() } };
        let place = |row: u32| (ts.map_or(0, |ts| ts[row as usize]), row);
        let is_before = |a: &u32, b: &u32| place(*a) < place(*b);
        let of = |run: &Run| &rows[run.start as usize..run.end as usize];
        if runs.iter().all(|run| of(run).is_sorted_by(is_before)) {
            return Lists { rows: Some(RowNumbers::Borrowed(rows)), runs: runs.into() };
        }
        let mut sorted = memory::vec(runs.iter().map(|run| run.len()).sum());
        let sort = |run: &Run| {
            let start = sorted.len();
            sorted.extend_from_slice(of(run));
            sorted[start..].sort_unstable_by_key(|&row| place(row));
            Run { start: start as u32, end: sorted.len() as u32 }
        };
        let runs = memory::collect(runs.iter().map(sort)).into();
        Lists { rows: Some(RowNumbers::Sorted(sorted)), runs }
    }

    /// Returns the right rows for each left row.
    pub(in crate::aggregate) fn rows_of_each(
        &self,
    ) -> impl ExactSizeIterator<Item = impl DoubleEndedIterator<Item = u32> + '_> {
        let rows = self.rows();
        let row = move |place| rows.map_or(place, |rows| rows[place as usize]);
        self.runs.iter().map(move |run| (run.start..run.end).map(row))
    }

    /// Returns the right row at each position, or `None` if positions are row numbers.
    fn rows(&self) -> Option<&[u32]> {
        match &self.rows {
            None => None,
            Some(RowNumbers::Borrowed(rows)) => Some(rows),
            Some(RowNumbers::Sorted(rows)) => Some(rows),
        }
    }

    /// Returns the number of right rows for each left row.
    pub(in crate::aggregate) fn lengths(&self) -> OutputColumn {
        let lengths = self.runs.iter().map(|run| run.len() as i64);
        let values = OutputValues::Integers(Pages::collect(lengths));
        OutputColumn { values, missing: Vec::new() }
    }

    /// Returns the function's value for each left row.
    pub(in crate::aggregate) fn fold<F: Function, G: FunctionInput<F>>(
        &self,
        input: &G,
    ) -> OutputColumn {
        let rows = self.rows();
        let mut values = Pages::unwritten(self.runs.len());
        let mut missing = Vec::new();
        for (at, (run, out)) in self.runs.iter().zip(values.iter_mut()).enumerate() {
            let mut state = F::EMPTY;
            for place in run.start..run.end {
                let row = rows.map_or(place, |rows| rows[place as usize]);
                let place = Place { source: 0, row: row as usize };
                if input.counts(place) {
                    F::add(&mut state, input.at(place));
                }
            }
            let value = F::finish(state);
            missing.extend(value.is_none().then_some(at));
            out.set(value.unwrap_or_default());
        }
        OutputColumn { values: F::Output::column(values.written()), missing }
    }
}
