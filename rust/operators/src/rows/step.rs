//! The filter that a join of streams asks for, and the outcome of a call to it.

use std::error::Error;
use std::ops::Range;

use super::Results;
use crate::driver::Stopped;

/// Why a filter failed.
pub type FilterError = Box<dyn Error + Send + Sync>;

/// The pairs that a filter keeps, given the numbers of their left and right rows.
pub type Filter<'a> = dyn Fn(&[u32], &[u32]) -> Result<Vec<bool>, FilterError> + Sync + 'a;

/// The outcome of a step of a join.
#[derive(Debug)]
pub enum Progress {
    /// Pieces of the epoch whose results are assembled by any thread, in this order.
    Pieces(Vec<Range<usize>>),
    /// Results, in order.
    Results(Results),
}

impl Progress {
    /// The results of a join that names no pieces.
    ///
    /// # Panics
    ///
    /// When there are pieces.
    pub fn into_results(self) -> Results {
        match self {
            Progress::Results(results) => results,
            Progress::Pieces(_) => panic!("pieces are to be assembled"),
        }
    }
}

/// Why a join could not go on.
#[derive(Debug)]
pub enum JoinError {
    /// It was asked to stop.
    Stopped(Stopped),
    /// The filter failed.
    Filter(FilterError),
}
