//! From matches to result rows: pairs, and rows that come once or without a match.

use super::{How, Side};

/// In place of a row's number, where a result row has no row of that side.
pub const NO_ROW: u32 = u32::MAX;

/// Result rows, as places of their left and right rows; [`NO_ROW`] where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Places of left rows.
    pub left: Vec<u32>,
    /// Places of right rows; empty for semi and anti joins.
    pub right: Vec<u32>,
}

/// The rows of one side that a join keeps, and which of them have had a match, where that matters.
pub(crate) trait Matched {
    /// What says how long a row may still be matched.
    type Reach;

    /// Whether it matters which rows have had a match.
    fn is_outer(&self) -> bool;

    /// Notes that the row at `place` has a match; whether that is its first.
    fn set_matched(&mut self, place: u32) -> bool;

    /// The oldest row that was not settled and has had no match, if no row at `now` or later can
    /// match it: the time after which it comes out, its own time, and its place. `None` for `now`
    /// stands for the end of time.
    fn unmatched(&mut self, reach: &Self::Reach, now: Option<i64>) -> Option<(i64, i64, u32)>;

    /// Goes past the row that [`unmatched`](Self::unmatched) gave.
    fn settle(&mut self);
}

impl Results {
    /// Adds the pairs of a row with others of the other side.
    #[inline]
    pub(crate) fn pair(
        &mut self,
        side: Side,
        place: u32,
        others: impl ExactSizeIterator<Item = u32>,
    ) {
        let (own, other) = match side {
            Side::Left => (&mut self.left, &mut self.right),
            Side::Right => (&mut self.right, &mut self.left),
        };
        own.resize(own.len() + others.len(), place);
        other.extend(others);
    }

    /// Adds a row that has had no match.
    pub(crate) fn alone(&mut self, how: How, side: Side, place: u32) {
        match side {
            // A semi join has no use for it.
            Side::Left if how == How::Semi => {}
            Side::Left => {
                self.left.push(place);
                self.right.extend(how.pairs().then_some(NO_ROW));
            }
            Side::Right => {
                self.left.push(NO_ROW);
                self.right.push(place);
            }
        }
    }

    /// Adds what becomes of the matches of a row, and marks them.
    pub(crate) fn add(
        &mut self,
        kept: &mut [impl Matched; 2],
        how: How,
        side: Side,
        place: u32,
        matches: &[u32],
    ) {
        let [left, right] = kept;
        let (later, earlier) = if side == Side::Left { (left, right) } else { (right, left) };
        match (how, side) {
            // Several threads may have matches of the row.
            (How::Semi, Side::Left) => self.left.extend(later.set_matched(place).then_some(place)),
            (How::Semi, Side::Right) => {
                self.left.extend(matches.iter().filter(|&&left| earlier.set_matched(left)))
            }
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

    /// Adds the rows that have had no match and can have none from `now` on, by the time after
    /// which they come out, then in merged order; `None` stands for the end of time.
    pub(crate) fn add_unmatched<K: Matched>(
        &mut self,
        kept: &mut [K; 2],
        reach: &K::Reach,
        how: How,
        now: Option<i64>,
    ) {
        if kept.iter().all(|side| !side.is_outer()) {
            return;
        }
        loop {
            let [left, right] = kept.each_mut().map(|side| side.unmatched(reach, now));
            let (side, (.., place)) = match (left, right) {
                (None, None) => return,
                // Left sources are first in merged order.
                (Some(left), Some(right)) if (right.0, right.1) < (left.0, left.1) => {
                    (Side::Right, right)
                }
                (Some(left), _) => (Side::Left, left),
                (None, Some(right)) => (Side::Right, right),
            };
            kept[side as usize].settle();
            self.alone(how, side, place);
        }
    }
}
