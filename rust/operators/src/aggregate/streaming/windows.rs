//! The trait that all kinds of streaming windows implement.

use std::fmt;

use super::saved::WindowsState;
use crate::aggregate::catalog::aggregate::Aggregate;
use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::output::Page;
use crate::aggregate::states::words::StateBounds;
use crate::driver::{Driver, Stopped};

/// The keys in the order in which results are sorted.
#[derive(Clone, Copy, Debug)]
pub struct KeyOrder<'a> {
    /// The sorted keys, including every key that occurs in the state.
    pub keys: &'a [u32],
    /// The position of each key in `keys`.
    pub ranks: &'a [u32],
}

/// Aggregation windows of any kind over rows that arrive epoch by epoch.
pub trait StreamingWindows: fmt::Debug + Send {
    /// Sets the gaps of the rows that are added next, source by source. Only sessions whose rows
    /// have different gaps use these.
    fn set_gaps(&mut self, _gaps: Vec<i64>) {}

    /// Adds the rows in an epoch. Each source's new rows must follow its earlier rows. In
    /// merged order, no row may precede a row from an earlier epoch. Keys must be less than `keys`.
    /// Functions that choose a row refer to row `n` of source `s` as `first_rows[s] + n`.
    fn add(
        &mut self,
        rows: &[Stream<'_>],
        keys: usize,
        first_rows: &[u32],
        aggregates: &[Aggregate<'_>],
        driver: &Driver,
    ) -> Result<(), Stopped>;

    /// Declares that no more rows before `ts` will arrive.
    fn advance(&mut self, ts: i64, driver: &Driver) -> Result<(), Stopped>;

    /// Declares that no more rows will arrive.
    fn finish(&mut self, driver: &Driver) -> Result<(), Stopped>;

    /// Returns the results of the next complete windows, in at most about `pages` pages. The result
    /// is empty once all complete windows have been returned.
    fn pages(
        &mut self,
        pages: usize,
        order: KeyOrder<'_>,
        driver: &Driver,
    ) -> Result<Vec<Page>, Stopped>;

    /// Returns, for each key, whether it occurs in the state.
    fn is_used(&self) -> Vec<bool>;

    /// Sorts the states of a slice by key, so that a saved state depends on the data alone.
    fn arrange(&mut self, order: KeyOrder<'_>);

    /// Calls `visit` with every chosen row, in the order of states; `visit` can change the row. The
    /// same row can be visited several times.
    fn for_each_row(&mut self, visit: &mut dyn FnMut(&mut u32));

    /// Updates the rows in the suffixes and prefixes of windows after the rows in their cells have
    /// changed. `new` maps a row's old number to its new number, or to `None` if no cell contains
    /// the row.
    fn follow_rows(&mut self, new: &dyn Fn(u32) -> Option<u32>);

    /// Calls `visit` with every value that a minimum or maximum has chosen. `visit` can change the
    /// values, provided that equal values stay equal and the order is preserved.
    fn for_each_value(&mut self, aggregate: usize, visit: &mut dyn FnMut(&mut i64));

    /// Updates values in the same way as [`follow_rows`](Self::follow_rows), for one aggregate.
    fn follow_values(&mut self, aggregate: usize, new: &dyn Fn(i64) -> Option<i64>);

    /// Returns the number of states per aggregate.
    fn cells(&self) -> usize;

    /// Returns the approximate maximum number of bytes that one row adds to the state.
    fn row_bytes(&self) -> usize;

    /// Returns the size of the state in bytes.
    fn bytes(&self) -> usize;

    /// Returns the state. Before the call, all complete windows of closed slices must have been
    /// returned.
    fn save(&self) -> WindowsState;

    /// Restores a state. The windows must be new. Returns whether rows within `bounds` can lead to
    /// this state in this query. If the result is `false`, the windows can no longer be used.
    #[must_use]
    fn restore(&mut self, saved: WindowsState, bounds: &StateBounds) -> bool;
}
