//! Partners that meet a predicate: candidates are tested in rounds, nearest first.
//!
//! A round has the next block of candidates of each left row that has no partner yet. The caller
//! says which of them meet the predicate. Blocks grow, so that a left row whose partner is far away
//! has few rounds, and a left row whose partner is near costs few tests.

use std::ops::Range;
use std::sync::Arc;

use tidegate_structures::memory::pages::Pages;

use super::Toward;
use crate::matches::{Matches, Run};

/// The candidates of a left row in the first round.
const FIRST: u32 = 16;

/// A block has this many times the candidates of the block before.
const GROWTH: u32 = 4;

/// The candidates of left rows on one side in time, and the partners found among them.
#[derive(Debug)]
pub struct Rounds {
    toward: Toward,
    /// The candidates of this round.
    round: Arc<Matches>,
    /// The candidates of the rounds to come.
    rest: Pages<Run>,
    partners: Pages<Run>,
    block: u32,
}

impl Rounds {
    /// Rounds of these candidates. Neighbours in time order have neighbouring places.
    pub(super) fn new(candidates: Matches, toward: Toward) -> Self {
        let rows = candidates.left_rows();
        let none = || Pages::filled(rows, Run::default());
        let (rest, round) = candidates.replace_runs(none());
        Rounds { toward, round: Arc::new(round), rest, partners: none(), block: FIRST }
    }

    /// The candidates of the next round, unless all left rows have a partner or no candidate left.
    ///
    /// # Panics
    ///
    /// When the candidates of the round before are still held.
    pub fn next_round(&mut self) -> Option<Arc<Matches>> {
        let block = self.block;
        self.block = block.saturating_mul(GROWTH);
        let round = Arc::get_mut(&mut self.round).expect("the round before is over");
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

    /// The most candidates that a left row had in this round.
    pub fn block(&self) -> u32 {
        self.block / GROWTH
    }

    /// Takes the candidates of the left rows of `page` that meet the predicate. The times are those
    /// of the right rows.
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
