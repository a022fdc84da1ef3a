//! From matches to result rows: pairs, and rows that come once or without a match.

use super::buffer::LANES;
use super::log::Log;
use super::reach::{Reach, Side};
use super::replica::Matches;
use crate::matches::{How, NO_ROW};

/// Result rows, as places of their left and right rows; [`NO_ROW`] where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Places of left rows.
    pub left: Vec<u32>,
    /// Places of right rows; empty for semi and anti joins.
    pub right: Vec<u32>,
}

/// Makes results of pairs alone, of which the number is known.
#[derive(Debug)]
pub(super) struct Pairs {
    /// Places of left and of right rows, and some more that may be written over.
    places: [Vec<u32>; 2],
    len: usize,
}

impl Pairs {
    pub(super) fn new(pairs: usize) -> Self {
        Pairs { places: [vec![0; pairs + LANES], vec![0; pairs + LANES]], len: 0 }
    }

    /// Adds the pairs of the row at `place` with the rows that match it, of which the one with number `first` has place 0.
    #[inline]
    pub(super) fn add(&mut self, side: Side, place: u32, matches: Matches<'_>, first: u32) {
        let (from, to) = (self.len, self.len + matches.len());
        // So many at once, whether there are so many or not: what is too much is written over.
        self.places[side as usize][from..from + LANES].fill(place);
        let lanes = matches.first_lanes().map(|number| number.wrapping_sub(first));
        self.places[side.other() as usize][from..from + LANES].copy_from_slice(&lanes);
        if matches.len() > LANES {
            self.places[side as usize][from..to].fill(place);
            let others = self.places[side.other() as usize][from..to].iter_mut();
            others.zip(matches.numbers()).for_each(|(other, number)| *other = number.wrapping_sub(first));
        }
        self.len = to;
    }

    pub(super) fn finish(self) -> Results {
        let [left, right] = self.places.map(|mut places| {
            places.truncate(self.len);
            places
        });
        Results { left, right }
    }
}

impl Results {
    /// Adds the pairs of a row with others of the other side.
    #[inline]
    pub(super) fn pair(&mut self, side: Side, place: u32, others: impl ExactSizeIterator<Item = u32>) {
        let (own, other) = match side {
            Side::Left => (&mut self.left, &mut self.right),
            Side::Right => (&mut self.right, &mut self.left),
        };
        own.resize(own.len() + others.len(), place);
        other.extend(others);
    }

    /// Adds what becomes of the matches of a row, and marks them.
    pub(super) fn add(&mut self, logs: &mut [Log; 2], how: How, side: Side, place: u32, matches: &[u32]) {
        let [left, right] = logs;
        let (later, earlier) = if side == Side::Left { (left, right) } else { (right, left) };
        match (how, side) {
            // Several replicas may have matches of the row.
            (How::Semi, Side::Left) => self.left.extend(later.set_matched(place).then_some(place)),
            (How::Semi, Side::Right) => self.left.extend(matches.iter().filter(|&&left| earlier.set_matched(left))),
            _ => {
                if later.is_outer() {
                    later.set_matched(place);
                }
                if earlier.is_outer() {
                    matches.iter().for_each(|&place| {
                        earlier.set_matched(place);
                    });
                }
                if how.pairs() {
                    self.pair(side, place, matches.iter().copied());
                }
            }
        }
    }

    /// Adds the rows that have had no match and can have none from `now` on, by the time after which they come out, then
    /// in merged order; `None` stands for the end of time.
    pub(super) fn add_unmatched(&mut self, logs: &mut [Log; 2], reach: &Reach, how: How, now: Option<i64>) {
        let [left_log, right_log] = logs;
        if !left_log.is_outer() && !right_log.is_outer() {
            return;
        }
        loop {
            let (left, right) = (left_log.unmatched(reach, now), right_log.unmatched(reach, now));
            let left_first = match (left, right) {
                (None, None) => return,
                // Left sources are first in merged order.
                (Some((last, ts, _)), Some((right_last, right_ts, _))) => (last, ts) <= (right_last, right_ts),
                (left, _) => left.is_some(),
            };
            if left_first {
                left_log.settle();
                // A semi join has no use for them; its rows are settled all the same.
                if how != How::Semi {
                    self.left.extend(left.map(|(_, _, place)| place));
                    self.right.extend(how.pairs().then_some(NO_ROW));
                }
            } else {
                right_log.settle();
                self.left.push(NO_ROW);
                self.right.extend(right.map(|(_, _, place)| place));
            }
        }
    }
}
