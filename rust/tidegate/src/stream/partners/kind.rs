//! The part of a left-row join that depends on the kind of join.

use std::fmt::Debug;

use tidegate_operators::driver::Driver;

use crate::Result;
use crate::stream::recomputation::{FinalResults, Watermark};
use crate::stream::state::timed_rows::TimedRows;

/// A kind of join that returns one result row per left row. The kind determines when a left row
/// becomes final, which right rows it may need, and how its result row is built.
///
/// `now` is a [`Watermark`].
pub(in crate::stream) trait PartnerKind: Debug + Send {
    /// Builds the result rows for the left rows that have become final. `gone` is the number of
    /// left rows that became final earlier. Result rows that become final later follow those that
    /// are final now.
    fn settle(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        gone: u64,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<FinalRows>>;

    /// Returns the time before which right rows are no longer needed, given the time of the first
    /// left row that is not final.
    fn reach(&self, first_left: Option<i64>, now: i64) -> i64;

    /// Returns whether only [some](Self::needed) of the right rows within reach are needed.
    fn picks(&self) -> bool;

    /// Returns the right rows that any left row may need, in ascending order. Final left rows have
    /// already been removed. The result depends only on the rows that have arrived.
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

/// Specifies which left rows are final.
#[derive(Debug)]
pub(in crate::stream) enum FinalRows {
    /// The first rows, up to the given number.
    First(usize),
    /// All left rows except the given ones, which are in ascending order.
    AllBut(Vec<u32>),
}

impl FinalResults<FinalRows> {
    /// The results when no left row is final.
    pub(in crate::stream) const NONE: Self =
        FinalResults { batches: Vec::new(), leaving: FinalRows::First(0) };
}
