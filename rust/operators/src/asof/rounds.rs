//! Finds partners that satisfy a predicate: candidates are tested in rounds, nearest first.
//!
//! Each round tests the next block of candidates for every left row that has no partner yet. The
//! caller reports which of the candidates satisfy the predicate. Blocks grow, so a left row needs
//! few rounds if its partner is distant, and few tests if its partner is near.

use std::ops::Range;
use std::sync::Arc;

use tidegate_structures::memory;
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
    found: FoundPartners,
    block: u32,
}

/// The candidates that satisfy the predicate.
#[derive(Debug)]
enum FoundPartners {
    /// The nearest one of each left row.
    One(Pages<Run>),
    /// The nearest few of each left row.
    Several(PartnerPairs),
}

/// Pairs of left rows and their partners.
#[derive(Debug)]
struct PartnerPairs {
    /// The maximum number of partners per left row.
    limit: u32,
    /// The number of partners found for each left row.
    counts: Pages<u32>,
    /// The pairs. The partners of each left row are listed nearest first.
    pairs: Vec<(u32, u32)>,
}

impl Rounds {
    /// Creates rounds for these candidates. Rows that are adjacent in time order must have adjacent
    /// positions.
    pub(super) fn new(candidates: Matches, toward: Toward) -> Self {
        let found = FoundPartners::One(Pages::filled(candidates.left_rows(), Run::default()));
        Self::begin(candidates, toward, found)
    }

    /// Creates rounds like [`new`](Self::new) that find up to `limit` partners for each left row.
    pub(super) fn of_several(candidates: Matches, toward: Toward, limit: u32) -> Self {
        let counts = Pages::filled(candidates.left_rows(), 0);
        let found = PartnerPairs { limit, counts, pairs: Vec::new() };
        Self::begin(candidates, toward, FoundPartners::Several(found))
    }

    fn begin(candidates: Matches, toward: Toward, found: FoundPartners) -> Self {
        let none = Pages::filled(candidates.left_rows(), Run::default());
        let (rest, round) = candidates.replace_runs(none);
        Rounds { toward, round: Arc::new(round), rest, found, block: FIRST }
    }

    /// Returns the candidates of the next round. Returns `None` if every left row either has
    /// enough partners or has run out of candidates.
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
        let (toward, time) = (self.toward, |&row: &u32| (right_ts[row as usize], row));
        let rests = self.rest[page.clone()].iter_mut();
        match &mut self.found {
            FoundPartners::One(partners) => {
                let sides = partners[page].iter_mut().zip(rests);
                for ((partner, rest), rows) in sides.zip(kept.rows_of_each()) {
                    let nearest = match toward {
                        Toward::Past => rows.iter().copied().max_by_key(time),
                        Toward::Future => rows.iter().copied().min_by_key(time),
                    };
                    if let Some(row) = nearest {
                        *partner = Run::of_partner(row);
                        *rest = Run::default();
                    }
                }
            }
            FoundPartners::Several(PartnerPairs { limit, counts, pairs }) => {
                let mut sorted = Vec::new();
                let sides = page.clone().zip(counts[page].iter_mut()).zip(rests);
                for (((left, count), rest), rows) in sides.zip(kept.rows_of_each()) {
                    sorted.clear();
                    memory::reserve(&mut sorted, rows.len());
                    sorted.extend_from_slice(rows);
                    sorted.sort_unstable_by_key(time);
                    if toward == Toward::Past {
                        sorted.reverse();
                    }
                    sorted.truncate((*limit - *count) as usize);
                    memory::reserve(pairs, sorted.len());
                    pairs.extend(sorted.iter().map(|&row| (left as u32, row)));
                    *count += sorted.len() as u32;
                    if count == limit {
                        *rest = Run::default();
                    }
                }
            }
        }
    }

    /// Returns the partner of each left row, for rounds that find one partner.
    pub(super) fn into_partners(self) -> Pages<Run> {
        match self.found {
            FoundPartners::One(partners) => partners,
            FoundPartners::Several(_) => panic!("these rounds find one partner"),
        }
    }

    /// Returns the partners of each left row in time order, for rounds that find several. Returns
    /// `None` if there are 2^32 partners or more.
    pub(super) fn into_several(self) -> Option<Matches> {
        let FoundPartners::Several(PartnerPairs { counts, pairs, .. }) = self.found else {
            panic!("these rounds find several partners");
        };
        u32::try_from(pairs.len()).ok()?;
        let mut end = 0;
        // At first, each run is empty. It grows towards its other end.
        let start = |&count: &u32| {
            let run = end..end + count;
            end = run.end;
            let place = if self.toward == Toward::Past { run.end } else { run.start };
            Run { start: place, end: place }
        };
        let mut runs = Pages::collect(counts.iter().map(start));
        let mut rows = Pages::filled(pairs.len(), 0);
        for (left, row) in pairs {
            let run = &mut runs[left as usize];
            let place = match self.toward {
                Toward::Past => {
                    run.start -= 1;
                    run.start
                }
                Toward::Future => {
                    run.end += 1;
                    run.end - 1
                }
            };
            rows[place as usize] = row;
        }
        Some(Matches::new(runs, Some(Arc::new(rows)), false, self.round.right_rows()))
    }
}
