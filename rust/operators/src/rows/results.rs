//! Turns matches into result rows: pairs, rows that are emitted once, and unmatched rows.

use tidegate_structures::memory;

use super::{Extent, How, KeptColumns, RowLog, Side, SideWatermarks};

/// The number that represents a missing row in a result row.
pub const NO_ROW: u32 = u32::MAX;

/// Result rows, as the offsets of their left and right rows. [`NO_ROW`] represents a missing row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Offsets of left rows.
    pub left: Vec<u32>,
    /// Offsets of right rows. Empty for semi and anti joins.
    pub right: Vec<u32>,
}

impl Results {
    /// Adds the pairs that a row forms with the given rows on the other side.
    #[inline]
    pub fn pair(&mut self, side: Side, offset: u32, others: impl ExactSizeIterator<Item = u32>) {
        let (own, other) = match side {
            Side::Left => (&mut self.left, &mut self.right),
            Side::Right => (&mut self.right, &mut self.left),
        };
        memory::reserve(own, others.len());
        memory::reserve(other, others.len());
        own.resize(own.len() + others.len(), offset);
        other.extend(others);
    }

    /// Adds an unmatched row.
    pub fn alone(&mut self, how: How, side: Side, offset: u32) {
        match side {
            // A semi join does not return unmatched rows.
            Side::Left if how == How::Semi => {}
            Side::Left => {
                self.left.push(offset);
                self.right.extend(how.pairs().then_some(NO_ROW));
            }
            Side::Right => {
                self.left.push(NO_ROW);
                self.right.push(offset);
            }
        }
    }

    /// Adds the results for the matches of a row, and marks the matched rows.
    pub fn add(
        &mut self,
        logs: &mut [RowLog<impl KeptColumns>; 2],
        how: How,
        side: Side,
        offset: u32,
        matches: &[u32],
    ) {
        let [left, right] = logs;
        let (later, earlier) = if side == Side::Left { (left, right) } else { (right, left) };
        match (how, side) {
            // Several threads can find matches for the row.
            (How::Semi, Side::Left) => {
                self.left.extend(later.set_matched(offset).then_some(offset))
            }
            (How::Semi, Side::Right) => {
                memory::reserve(&mut self.left, matches.len());
                self.left.extend(matches.iter().filter(|&&left| earlier.set_matched(left)))
            }
            _ => {
                if later.is_outer() {
                    later.set_matched(offset);
                }
                if earlier.is_outer() {
                    matches.iter().for_each(|&offset| {
                        earlier.set_matched(offset);
                    });
                }
                if how.pairs() {
                    self.pair(side, offset, matches.iter().copied());
                }
            }
        }
    }

    /// Turns pairs into results, and marks the paired rows as matched. Each pair must be passed
    /// only once.
    #[must_use]
    pub fn of_pairs(
        mut pairs: Results,
        logs: &mut [RowLog<impl KeptColumns>; 2],
        how: How,
    ) -> Results {
        let [left, right] = logs;
        if how == How::Semi {
            pairs.left.retain(|&offset| left.set_matched(offset));
            return Results { right: Vec::new(), ..pairs };
        }
        left.set_all_matched(&pairs.left);
        right.set_all_matched(&pairs.right);
        if how.pairs() { pairs } else { Results::default() }
    }

    /// Appends the results in `more`.
    pub(crate) fn append(&mut self, more: Results) {
        self.left.extend(more.left);
        self.right.extend(more.right);
    }

    /// Adds the unmatched rows that no row at `now` or later can match. In merged order, these rows
    /// are sorted by the last time at which they could be matched, and then by their positions in
    /// merged order. In arrival order, left rows precede right rows, and the rows on each side are
    /// sorted by the last time at which they could be matched.
    pub fn add_unmatched(
        &mut self,
        logs: &mut [RowLog<impl KeptColumns>; 2],
        extent: &Extent,
        how: How,
        now: SideWatermarks,
    ) {
        if logs.iter().all(|log| !log.is_outer()) {
            return;
        }
        if logs.iter().all(RowLog::is_in_arrival_order) {
            for log in logs {
                while let Some(offset) = log.next_alone(now) {
                    self.alone(how, log.side(), offset);
                }
            }
            return;
        }
        loop {
            let [left, right] = logs.each_mut().map(|log| log.unmatched(extent, now));
            let (side, (.., offset)) = match (left, right) {
                (None, None) => return,
                // In merged order, left rows precede right rows with the same time.
                (Some(left), Some(right)) if (right.0, right.1) < (left.0, left.1) => {
                    (Side::Right, right)
                }
                (Some(left), _) => (Side::Left, left),
                (None, Some(right)) => (Side::Right, right),
            };
            logs[side as usize].settle();
            self.alone(how, side, offset);
        }
    }
}
