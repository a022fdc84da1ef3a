//! From matches to result rows: pairs, and rows that come once or without a match.

use super::log::Log;
use super::window::Window;
use crate::matches::{How, NO_ROW};
use crate::online_join::{Results, Side};

/// Adds the pairs of a row with others of the other side.
pub(super) fn add_pairs(results: &mut Results, side: Side, place: u32, others: impl ExactSizeIterator<Item = u32>) {
    let (own, other) = match side {
        Side::Left => (&mut results.left, &mut results.right),
        Side::Right => (&mut results.right, &mut results.left),
    };
    own.resize(own.len() + others.len(), place);
    other.extend(others);
}

/// Adds what becomes of the matches of a row, and marks them.
pub(super) fn add_matches(results: &mut Results, logs: &mut [Log], how: How, side: Side, place: u32, matches: &[u32]) {
    let [left, right] = logs else { unreachable!("rows of one stream are not told apart by matches") };
    let (later, earlier) = if side == Side::Left { (left, right) } else { (right, left) };
    match (how, side) {
        (How::Semi, Side::Left) => results.left.extend(later.set_matched(place).then_some(place)),
        (How::Semi, Side::Right) => {
            results.left.extend(matches.iter().filter(|&&left| earlier.set_matched(left)));
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
                add_pairs(results, side, place, matches.iter().copied());
            }
        }
    }
}

/// Adds the rows that have had no match and can have none from `now` on, by the time after which they come out, then in
/// merged order; `None` stands for the end of time.
pub(super) fn add_unmatched(results: &mut Results, logs: &mut [Log], window: Window, how: How, now: Option<i64>) {
    let [left_log, right_log] = logs else { return };
    loop {
        let (left, right) = (left_log.unmatched(window, now), right_log.unmatched(window, now));
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
                results.left.extend(left.map(|(_, _, place)| place));
                results.right.extend(how.pairs().then_some(NO_ROW));
            }
        } else {
            right_log.settle();
            results.left.push(NO_ROW);
            results.right.extend(right.map(|(_, _, place)| place));
        }
    }
}
