//! From matches to result rows: pairs, and rows that come once or without a match.

use super::log::Log;
use crate::matches::{How, NO_ROW};
use crate::online_join::{Reach, Results, Side};

/// Adds what becomes of the matches of a row, and marks them.
pub(super) fn add(results: &mut Results, logs: &mut [Log; 2], how: How, side: Side, place: u32, matches: &[u32]) {
    let [left, right] = logs;
    let (later, earlier) = if side == Side::Left { (left, right) } else { (right, left) };
    match (how, side) {
        // Several replicas may have matches of the row.
        (How::Semi, Side::Left) => results.left.extend(later.set_matched(place).then_some(place)),
        (How::Semi, Side::Right) => results.left.extend(matches.iter().filter(|&&left| earlier.set_matched(left))),
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
                let (own, other) = match side {
                    Side::Left => (&mut results.left, &mut results.right),
                    Side::Right => (&mut results.right, &mut results.left),
                };
                own.resize(own.len() + matches.len(), place);
                other.extend_from_slice(matches);
            }
        }
    }
}

/// Adds the rows that have had no match and can have none from `now` on, by the time after which they come out, then
/// in merged order; `None` stands for the end of time.
pub(super) fn add_unmatched(results: &mut Results, logs: &mut [Log; 2], reach: &Reach, how: How, now: Option<i64>) {
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
