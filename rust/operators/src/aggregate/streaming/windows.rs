//! Windows of rows that come, whichever windows they are.

use std::fmt;

use super::saved::WindowsState;
use crate::aggregate::catalog::aggregate::Aggregate;
use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::output::Page;
use crate::aggregate::states::words::StateBounds;
use crate::driver::{Driver, Stopped};

/// The keys in the order of results.
#[derive(Clone, Copy, Debug)]
pub struct KeyOrder<'a> {
    /// Keys in order, among them all that rows of the state have.
    pub keys: &'a [u32],
    /// The place of each key there.
    pub ranks: &'a [u32],
}

/// Windows of rows that come, whichever windows.
pub trait StreamingWindows: fmt::Debug + Send {
    /// Adds the rows of an epoch: of each source those that follow its last ones, and none is
    /// before a row of an earlier epoch in merged order. Keys are less than `keys`; row `n` of
    /// source `s` is called `first_rows[s] + n` by the functions that choose one.
    fn add(
        &mut self,
        rows: &[Stream<'_>],
        keys: usize,
        first_rows: &[u32],
        aggregates: &[Aggregate<'_>],
        driver: &Driver,
    ) -> Result<(), Stopped>;

    /// No row before `ts` comes any more.
    fn advance(&mut self, ts: i64, driver: &Driver) -> Result<(), Stopped>;

    /// No row comes any more.
    fn finish(&mut self, driver: &Driver) -> Result<(), Stopped>;

    /// The results of the next windows that are complete, some `pages` pages at most; nothing once
    /// all have been made.
    fn pages(
        &mut self,
        pages: usize,
        order: KeyOrder<'_>,
        driver: &Driver,
    ) -> Result<Vec<Page>, Stopped>;

    /// Whether each key is one of the state's.
    fn is_used(&self) -> Vec<bool>;

    /// Puts the states of a slice into the order of keys, so that what is saved follows from the
    /// data alone.
    fn arrange(&mut self, order: KeyOrder<'_>);

    /// Calls `visit` with every row that has been chosen, in the order of states; it may change the
    /// row. One row may have been chosen often.
    fn for_each_row(&mut self, visit: &mut dyn FnMut(&mut u32));

    /// Changes the rows that suffixes and prefixes of windows have, as the rows of their cells were
    /// changed: `new` tells the new row of a former one, or none for a row that no cell has.
    fn follow_rows(&mut self, new: &dyn Fn(u32) -> Option<u32>);

    /// Calls `visit` with every value that an aggregate, the smallest or the largest, has chosen;
    /// it may change the value, if it changes equal ones alike and keeps their order.
    fn for_each_value(&mut self, aggregate: usize, visit: &mut dyn FnMut(&mut i64));

    /// As [`follow_rows`](Self::follow_rows), for the values of an aggregate.
    fn follow_values(&mut self, aggregate: usize, new: &dyn Fn(i64) -> Option<i64>);

    /// The number of states of each aggregate.
    fn cells(&self) -> usize;

    /// About the bytes that a row adds to the state at most.
    fn row_bytes(&self) -> usize;

    /// The bytes of the state.
    fn bytes(&self) -> usize;

    /// The state. All complete windows of closed slices have been made.
    fn save(&self) -> WindowsState;

    /// Goes on from a state; this one must be new. Whether the state is one of this query's, after
    /// rows within `bounds`; if not, this one is of no use any more.
    #[must_use]
    fn restore(&mut self, saved: WindowsState, bounds: &StateBounds) -> bool;
}
