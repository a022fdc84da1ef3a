//! The part of a join of left rows that its kind has to itself.

use std::fmt::Debug;

use tidegate_operators::driver::Driver;

use crate::Result;
use crate::stream::recomputation::{FinalResults, Watermark};
use crate::stream::state::timed_rows::TimedRows;

/// A kind of join that gives each left row one row: when a left row is final, which right rows it
/// may need, and how its row is made.
///
/// A time `now` is a [`Watermark`].
pub(in crate::stream) trait PartnerKind: Debug + Send {
    /// Makes the rows of the left rows that are final. `gone` left rows were final before. What
    /// comes out at a later time comes after what comes out now.
    fn settle(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        gone: u64,
        now: Watermark,
        driver: &Driver,
    ) -> Result<FinalResults<FinalRows>>;

    /// The time below which no right row is needed, given the time of the first left row that is
    /// not final.
    fn reach(&self, first_left: Option<i64>, now: i64) -> i64;

    /// Whether only [some](Self::needed) of the right rows within reach are needed.
    fn picks(&self) -> bool;

    /// The right rows that a left row may need, ascending. Left rows that are final are gone. The
    /// rows depend on nothing but the rows that have come.
    fn needed(
        &self,
        left: &TimedRows,
        right: &TimedRows,
        now: i64,
        driver: &Driver,
    ) -> Result<Vec<u32>>;

    /// Whether rows are found by looking at pairs.
    fn looks_at_pairs(&self) -> bool;
}

/// The left rows that are final.
#[derive(Debug)]
pub(in crate::stream) enum FinalRows {
    /// The first ones.
    First(usize),
    /// All but these, ascending.
    AllBut(Vec<u32>),
}

impl FinalResults<FinalRows> {
    /// No left row is final.
    pub(in crate::stream) const NONE: Self =
        FinalResults { batches: Vec::new(), leaving: FinalRows::First(0) };
}
