//! An alternative to slices for turning the rows in an epoch into partials.
//!
//! The default method, by slices, is in `add.rs` and `lane.rs`, where each function processes each
//! source's rows separately. An alternative method receives the rows in an epoch and the partials
//! from before the epoch. The method adds each row to its partial, in any order and on any thread.
//! It then returns all partials. The results are the same, provided that each source's rows are
//! added in order.

use std::fmt;

use super::add::AddRows;
use super::open::OpenPartials;
use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::inputs::places::Place;
use crate::aggregate::slices::windows::{Slice, Windows};
use crate::aggregate::states::words::StateWords;
use crate::driver::{Driver, Stopped};

/// A way to add the rows in an epoch to partials.
pub trait AddEpoch: Send + Sync {
    /// Adds the rows in an epoch to the partials in `open`, and returns the resulting partials.
    fn add(
        &self,
        epoch: &Epoch<'_>,
        open: &OpenPartials,
        driver: &Driver,
    ) -> Result<OpenPartials, Stopped>;
}

/// The value that a function adds to a state for each row.
pub struct Adder<'a> {
    function: &'a dyn AddRows,
    /// The source that contains the rows from all other sources in merged order, and the positions
    /// of these rows. Functions that need merged order use only this source. The other functions
    /// ignore it.
    merged: Option<(usize, &'a [Place])>,
}

impl fmt::Debug for Adder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adder").field("merged", &self.merged.is_some()).finish_non_exhaustive()
    }
}

impl<'a> Adder<'a> {
    pub(in crate::aggregate) fn new(
        function: &'a dyn AddRows,
        sources: usize,
        merged: Option<&'a [Place]>,
    ) -> Self {
        Adder { function, merged: merged.map(|places| (sources, places)) }
    }

    /// Returns the state after adding a row from a source.
    #[inline]
    pub fn add(&self, source: usize, row: usize, state: StateWords) -> StateWords {
        match self.merged {
            None => self.function.added(Place { source, row }, state),
            Some((merged, places)) if (source == merged) == self.function.needs_order() => {
                let place = if source == merged { places[row] } else { Place { source, row } };
                self.function.added(place, state)
            }
            Some(_) => state,
        }
    }
}

/// The rows in an epoch, and the functions to apply to them.
#[derive(Debug)]
pub struct Epoch<'a> {
    /// The rows of each source. If some functions need merged order, an additional source contains
    /// all rows in that order.
    pub rows: &'a [Stream<'a>],
    pub(in crate::aggregate) windows: &'a Windows,
    /// One adder per function.
    pub adders: Vec<Adder<'a>>,
    /// The empty states of the functions.
    pub empty: Vec<u64>,
}

impl Epoch<'_> {
    /// Returns the destination of a row: its slice and key, or `None` if the slice is a gap.
    #[inline]
    pub fn place(&self, source: usize, row: usize) -> Option<(Slice, u32)> {
        let Stream { ts, keys } = self.rows[source];
        let slice = self.windows.slice_of(ts[row]);
        (!self.windows.is_gap(slice)).then(|| (slice, keys.map_or(0, |keys| keys[row])))
    }
}
