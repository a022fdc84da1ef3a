//! The filter for a streaming join, and the outcome of a join step.

use std::error::Error;
use std::ops::Range;

use super::Results;
use crate::driver::Stopped;

/// The reason why a filter failed.
pub type FilterError = Box<dyn Error + Send + Sync>;

/// A filter. The function receives the left and right row numbers of pairs, and returns which pairs
/// are kept.
pub type Filter<'a> = dyn Fn(&[u32], &[u32]) -> Result<Vec<bool>, FilterError> + Sync + 'a;

/// The outcome of a join step.
#[derive(Debug)]
pub enum Progress {
    /// Pieces of the epoch. Any thread can assemble a piece's results. Results are in the order of
    /// their pieces.
    Pieces(Vec<Range<usize>>),
    /// Results, in order.
    Results(Results),
}

impl Progress {
    /// Returns the results of a join that returns no pieces.
    ///
    /// # Panics
    ///
    /// Panics if there are pieces.
    pub fn into_results(self) -> Results {
        match self {
            Progress::Results(results) => results,
            Progress::Pieces(_) => panic!("the pieces have to be assembled first"),
        }
    }
}

/// The reason why a join could not continue.
#[derive(Debug)]
pub enum JoinError {
    /// A stop was requested.
    Stopped(Stopped),
    /// The filter failed.
    Filter(FilterError),
}
