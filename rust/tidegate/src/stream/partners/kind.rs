//! The part of a left-row join that is specific to its kind.

use std::fmt::Debug;

use tidegate_operators::driver::Driver;

use crate::Result;
use crate::stream::recomputation::{FinalResults, Watermark};
use crate::stream::state::timed_rows::TimedRows;

/// A kind of join that returns one result row per left row. The kind determines when a left row is
/// final, which right rows it may need, and how its result row is built.
///
/// A time `now` is a [`Watermark`].
pub(in crate::stream) trait PartnerKind: Debug + Send {
    /// Builds the result rows of the left rows that are final. `gone` is the number of left rows
    /// that were final before. Result rows that become final later follow those that are final now.
    fn settle(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        gone: u64,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<FinalRows>>;

    /// Returns the time below which no right row is needed, given the time of the first left row
    /// that is not final.
    fn reach(&self, first_left: Option<i64>, now: i64) -> i64;

    /// Returns whether only [some](Self::needed) of the right rows within reach are needed.
    fn picks(&self) -> bool;

    /// Returns the right rows that a left row may need, in ascending order. Left rows that are
    /// final have already been removed. The returned rows depend only on the rows that have
    /// arrived.
    fn needed(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        now: i64,
        driver: &Driver,
    ) -> Result<Vec<u32>>;

    /// Returns whether partners are found by comparing pairs of rows.
    fn looks_at_pairs(&self) -> bool;
}

/// The left rows that are final.
#[derive(Debug)]
pub(in crate::stream) enum FinalRows {
    /// This number of first rows.
    First(usize),
    /// All left rows except these, which are in ascending order.
    AllBut(Vec<u32>),
}

impl FinalResults<FinalRows> {
    /// The results if no left row is final.
    pub(in crate::stream) const NONE: Self =
        FinalResults { batches: Vec::new(), leaving: FinalRows::First(0) };
}
