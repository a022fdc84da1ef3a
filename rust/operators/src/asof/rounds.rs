//! Finds partners that satisfy a predicate: candidates are tested in rounds, nearest first.
//!
//! Each round tests the next block of candidates for every left row that has no partner yet. The
//! caller reports which of the candidates satisfy the predicate. Blocks grow, so a left row needs
//! few rounds if its partner is distant, and few tests if its partner is near.

use std::ops::Range;
use std::sync::Arc;

use tidegate_structures::memory::pages::Pages;

use super::Toward;
use crate::matches::{Matches, Run};

/// The number of candidates per left row in the first round.
const FIRST: u32 = 16;

/// The length of each block divided by the length of the previous block.
const GROWTH: u32 = 4;

/// The candidates of left rows in one time direction, and the partners found among the candidates.
#[derive(Debug)]
pub struct Rounds {
    toward: Toward,
    /// The candidates of this round.
    round: Arc<Matches>,
    /// The candidates of the following rounds.
    rest: Pages<Run>,
    partners: Pages<Run>,
    block: u32,
}

impl Rounds {
    /// Creates rounds for these candidates. Rows that are adjacent in time order must have adjacent
    /// positions.
    pub(super) fn new(candidates: Matches, toward: Toward) -> Self {
        let rows = candidates.left_rows();
        let none = || Pages::filled(rows, Run::default());
        let (rest, round) = candidates.replace_runs(none());
        Rounds { toward, round: Arc::new(round), rest, partners: none(), block: FIRST }
    }

    /// Returns the candidates of the next round. Returns `None` if every left row either has a
    /// partner or has run out of candidates.
    ///
    /// # Panics
    ///
    /// Panics if the candidates of the previous round are still referenced.
    pub fn next_round(&mut self) -> Option<Arc<Matches>> {
        let block = self.block;
        self.block = block.saturating_mul(GROWTH);
        let round = Arc::get_mut(&mut self.round).expect("the previous round is over");
        let mut has_candidates = false;
        for (run, rest) in round.runs_mut().iter_mut().zip(self.rest.iter_mut()) {
            let taken = (rest.end - rest.start).min(block);
            (*run, *rest) = match self.toward {
                Toward::Past => {
                    let cut = rest.end - taken;
                    (Run { start: cut, ..*rest }, Run { end: cut, ..*rest })
                }
                Toward::Future => {
                    let cut = rest.start + taken;
                    (Run { end: cut, ..*rest }, Run { start: cut, ..*rest })
                }
            };
            has_candidates |= taken > 0;
        }
        has_candidates.then(|| self.round.clone())
    }

    /// Returns the maximum number of candidates per left row in this round.
    pub fn block(&self) -> u32 {
        self.block / GROWTH
    }

    /// Records which candidates of the left rows in `page` satisfy the predicate. `right_ts` must
    /// contain the times of the right rows.
    pub fn take(&mut self, page: Range<usize>, kept: &Matches, right_ts: &[i64]) {
        let sides = self.partners[page.clone()].iter_mut().zip(&mut self.rest[page]);
        for ((partner, rest), rows) in sides.zip(kept.rows_of_each()) {
            let time = |&row: &u32| (right_ts[row as usize], row);
            let nearest = match self.toward {
                Toward::Past => rows.iter().copied().max_by_key(time),
                Toward::Future => rows.iter().copied().min_by_key(time),
            };
            if let Some(row) = nearest {
                *partner = Run::of_partner(row);
                *rest = Run::default();
            }
        }
    }

    pub(super) fn into_partners(self) -> Pages<Run> {
        self.partners
    }
}
