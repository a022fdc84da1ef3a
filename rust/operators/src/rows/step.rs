//! What a join of streams asks for, and what it comes to, from one call to the next.

use std::ops::Range;

use super::Results;
use crate::driver::Stopped;

/// The pairs that a filter keeps, given the numbers of their left and right rows.
pub type Filter<'a, E> = dyn Fn(&[u32], &[u32]) -> Result<Vec<bool>, E> + Sync + 'a;

/// What a join has come to.
#[derive(Debug)]
pub enum Progress {
    /// Pieces of the epoch whose results are assembled by any thread, in this order.
    Pieces(Vec<Range<usize>>),
    /// Results, in order.
    Results(Results),
}

/// Why a join could not go on.
#[derive(Debug)]
pub enum Failed<E> {
    /// It was asked to stop.
    Stopped(Stopped),
    /// The filter failed.
    Filter(E),
}
