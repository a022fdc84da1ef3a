//! Inserts rows into the indexes in advance; each thread then finds the matches of one piece.

use std::ops::Range;

use tidegate_structures::index::WindowIndex;
use tidegate_sync::Counter;

use super::find::{Find, MOST_MATCHES, PIECE, RowMatches};
use super::rows::{Rows, SIDES};
use crate::driver::{Driver, Stopped};
use crate::rows::{Filter, JoinError};

/// The minimum and maximum numbers of rows to insert into the indexes before the search for their
/// matches.
const FEW_ROWS: usize = if cfg!(test) { 5 } else { 1 << 8 };
const MANY_ROWS: usize = if cfg!(test) { 40 } else { 1 << 15 };

/// One index per side. Rows are inserted before the search for their matches begins.
#[derive(Debug)]
pub struct Ahead<I> {
    indexes: Vec<I>,
    /// The oldest row on each side that is in the side's index.
    indexed: Vec<u64>,
    /// The number of the epoch's rows that have been inserted into the indexes.
    entered: usize,
}

impl<I: WindowIndex> Ahead<I> {
    /// Creates an index for each of `sides` sides.
    pub fn new(sides: usize, index: impl Fn() -> I) -> Self {
        Ahead {
            indexes: (0..sides).map(|_| index()).collect(),
            indexed: vec![0; sides],
            entered: 0,
        }
    }

    /// Returns the number of rows in the indexes.
    #[cfg(test)]
    pub(super) fn rows(&self) -> usize {
        self.indexes.iter().map(I::len).sum()
    }

    /// Inserts the epoch's rows before `upto` into the indexes of their sides.
    fn enter(&mut self, rows: &Rows, driver: &Driver, upto: usize) -> Result<(), Stopped> {
        let Rows { epoch, logs, .. } = rows;
        let (from, to) = (epoch.before(self.entered), epoch.before(upto));
        let insert = |(side, index): (usize, &mut I)| {
            let first = epoch.first(side);
            index.insert_all(
                &logs[side].entries(first + from[side] as u64..first + to[side] as u64),
            );
        };
        let sides: Vec<(usize, &mut I)> = self.indexes.iter_mut().enumerate().collect();
        if upto - self.entered < PIECE {
            sides.into_iter().for_each(insert);
        } else {
            driver.map(sides, insert)?;
        }
        self.entered = upto;
        Ok(())
    }

    /// Removes from the indexes the rows that no row from `next` onwards can match.
    fn leave(&mut self, rows: &Rows, next: usize) {
        let came = rows.epoch.before(next);
        for side in SIDES {
            let Some(last) = came[side as usize].checked_sub(1) else { continue };
            let other = rows.other(side);
            let first = rows.epoch.probe_of(side, last).from;
            let gone = first.wrapping_sub(self.indexed[other] as u32).cast_signed().max(0);
            let first = self.indexed[other] + gone.cast_unsigned() as u64;
            self.remove_before(rows, other, first);
        }
    }

    /// Removes the rows with numbers less than `number` from a side's index.
    fn remove_before(&mut self, rows: &Rows, side: usize, number: u64) {
        let from = self.indexed[side];
        self.indexes[side].remove_all(&rows.logs[side].entries(from..number.max(from)));
        self.indexed[side] = number.max(from);
    }
}

impl<I: WindowIndex> Find for Ahead<I> {
    fn begin(&mut self, _: &Rows) {
        self.entered = 0;
    }

    fn find(
        &mut self,
        rows: &Rows,
        mut next: usize,
        driver: &Driver,
        filter: Option<&Filter<'_>>,
    ) -> Result<Vec<RowMatches>, JoinError> {
        let (mut all, mut matches) = (Vec::new(), 0);
        while matches < MOST_MATCHES && next < rows.len() && !driver.is_paused() {
            // 1. Insert some rows into the indexes: an eighth as many as the indexes contain,
            //    within limits.
            if next == self.entered {
                let there = self.indexes.iter().map(I::len).max().unwrap_or(0);
                let ahead = (there / 8).clamp(FEW_ROWS, MANY_ROWS);
                self.enter(rows, driver, rows.len().min(self.entered + ahead))
                    .map_err(JoinError::Stopped)?;
            }
            // 2. Search for their matches, in pieces that do not depend on the number of threads.
            let pieces: Vec<Range<usize>> = (next..self.entered)
                .step_by(PIECE)
                .map(|from| from..self.entered.min(from + PIECE))
                .collect();
            let indexes = &self.indexes;
            let threads = Counter::new(0);
            let looked = driver
                .map_with(
                    pieces,
                    || threads.add(1),
                    |thread, piece| (piece.end, rows.look(indexes, piece, filter, driver, *thread)),
                )
                .map_err(JoinError::Stopped)?;
            // 3. Return the results up to the first row whose matches were not searched for because
            //    its piece already had enough matches.
            for (end, found) in looked {
                let found = found.map_err(JoinError::Filter)?;
                matches += found.numbers.len();
                next = found.rows.end;
                let is_whole = found.rows.end == end;
                all.push(found);
                if !is_whole {
                    break;
                }
            }
            if next == self.entered {
                self.leave(rows, next);
            }
        }
        driver.check().map_err(JoinError::Stopped)?;
        Ok(all)
    }

    fn refill(&mut self, rows: &Rows, side: usize) {
        let log = &rows.logs[side];
        self.indexes[side].clear();
        self.indexes[side].insert_all(&log.entries(self.indexed[side]..log.end()));
    }

    fn expire(&mut self, rows: &Rows, side: usize, first: u64, _is_all: bool) {
        self.remove_before(rows, side, first);
    }

    fn merges(&self) -> u64 {
        self.indexes.iter().map(I::merges).sum()
    }

    fn memory(&self) -> usize {
        self.indexes.iter().map(I::memory).sum()
    }
}
