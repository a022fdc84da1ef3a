//! Another way from the rows of an epoch to partials than that by slices.
//!
//! The way by slices is `add.rs` and `lane.rs`: each function goes through the rows of a source by
//! itself. Another way gets the rows of an epoch, and the partials with which they go on. It adds
//! each row to its partial, in which order and by which thread it likes, and gives all partials
//! back. The results are the same, if the rows of a source are added in their order.

use std::fmt;

use super::add::AddRows;
use super::open::OpenPartials;
use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::inputs::places::Place;
use crate::aggregate::slices::windows::{Slice, Windows};
use crate::aggregate::states::words::StateWords;
use crate::driver::{Driver, Stopped};

/// A way to add the rows of an epoch to partials.
pub trait AddEpoch: Send + Sync {
    /// The partials after the rows of an epoch; `open` are the partials before it.
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
    /// The source that has the rows of all others in merged order, and where they are; it alone
    /// counts for functions that need this order, and it does not for the others.
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

    /// The state after a row of a source.
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

/// The rows of an epoch, and what is made of them.
#[derive(Debug)]
pub struct Epoch<'a> {
    /// The rows of each source; if some functions need merged order, those of all follow.
    pub rows: &'a [Stream<'a>],
    pub(in crate::aggregate) windows: &'a Windows,
    /// One for each function.
    pub adders: Vec<Adder<'a>>,
    /// The states of no rows.
    pub empty: Vec<u64>,
}

impl Epoch<'_> {
    /// Where a row goes: its slice, unless that is a gap, and its key.
    #[inline]
    pub fn place(&self, source: usize, row: usize) -> Option<(Slice, u32)> {
        let Stream { ts, keys } = self.rows[source];
        let slice = self.windows.slice_of(ts[row]);
        (!self.windows.is_gap(slice)).then(|| (slice, keys.map_or(0, |keys| keys[row])))
    }
}
