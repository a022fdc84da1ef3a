//! Compares the results of keyed joins with those of a loop over all pairs. This file is also
//! included in the tests of the published join, which is in another crate. The enclosing module
//! imports the names that this file uses.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{
    Closed, Driver, Filter, FilterError, How, Interval, KeyedJoin, NO_KEY, NO_ROW, Progress, Reach,
    Results, SavedRows, Side, Stop,
};

pub(crate) type Row = (i64, Side, Option<u32>);

/// The sort key for result rows: the time first, then pairs before unmatched rows, then the
/// positions of the rows.
type Order = (i64, u8, usize, usize);

/// Returns the result rows in the specified order, as pairs of a left and a right row number.
fn oracle(
    rows: &[Row],
    interval: &Interval,
    how: How,
    keep: &dyn Fn(u32, u32) -> bool,
) -> Vec<(u32, u32)> {
    let reach = Reach::new(interval);
    let side = |wanted: Side| -> Vec<(i64, Option<u32>, usize)> {
        let of_side = rows.iter().enumerate().filter(|(_, row)| row.1 == wanted);
        of_side.map(|(at, row)| (row.0, row.2, at)).collect()
    };
    let (left, right) = (side(Side::Left), side(Side::Right));
    let mut found: Vec<(Order, (u32, u32))> = Vec::new();
    let (mut left_matched, mut right_matched) = (vec![false; left.len()], vec![false; right.len()]);
    for (l, &(l_ts, l_key, l_at)) in left.iter().enumerate() {
        for (r, &(r_ts, r_key, r_at)) in right.iter().enumerate() {
            let inside =
                interval.at(l_ts).is_some_and(|(first, last)| (first..=last).contains(&r_ts));
            if inside && l_key.is_some() && l_key == r_key && keep(l as u32, r as u32) {
                (left_matched[l], right_matched[r]) = (true, true);
                let (later, earlier) = (l_at.max(r_at), l_at.min(r_at));
                found.push(((rows[later].0, 0, later, earlier), (l as u32, r as u32)));
            }
        }
    }
    let last = |side, ts| reach.last_matchable(side, ts).unwrap_or(i64::MAX);
    let mut unmatched = |side, rows: &[(i64, Option<u32>, usize)], matched: &[bool]| {
        for (nth, &(ts, _, at)) in rows.iter().enumerate().filter(|&(nth, _)| !matched[nth]) {
            let row = if side == Side::Left { (nth as u32, NO_ROW) } else { (NO_ROW, nth as u32) };
            found.push(((last(side, ts), 1, at, 0), row));
        }
    };
    if how.keeps_left() || how == How::Anti {
        unmatched(Side::Left, &left, &left_matched);
    }
    if how.keeps_right() {
        unmatched(Side::Right, &right, &right_matched);
    }
    found.sort();
    let mut rows: Vec<(u32, u32)> = found.into_iter().map(|(_, row)| row).collect();
    match how {
        How::Semi => {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(row.0));
            rows.iter_mut().for_each(|row| row.1 = NO_ROW);
        }
        How::Anti => rows.retain(|row| row.1 == NO_ROW),
        _ => {}
    }
    rows
}

/// The division of the rows into epochs, and the way they are processed.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    epochs: Vec<usize>,
    threads: usize,
    /// The number of epochs after which another join takes over, if any.
    restart: Option<usize>,
}

pub(crate) fn manner() -> impl Strategy<Value = Manner> {
    let epochs = prop::collection::vec(1_usize..80, 1..8);
    (epochs, 1_usize..4, prop::option::of(0_usize..6))
        .prop_map(|(epochs, threads, restart)| Manner { epochs, threads, restart })
}

pub(crate) fn begin(join: &mut dyn KeyedJoin, driver: &Driver, rows: &[Row]) {
    let keys = [Side::Left, Side::Right].map(|side| {
        rows.iter()
            .filter(|row| row.1 == side)
            .map(|row| row.2.unwrap_or(NO_KEY))
            .collect::<Vec<u32>>()
    });
    let (ts, sides) = rows.iter().map(|&(ts, side, _)| (ts, side)).unzip();
    join.begin(driver, ts, sides, [&keys[0], &keys[1]]);
}

fn run(
    rows: &[Row],
    manner: &Manner,
    make: &dyn Fn() -> Box<dyn KeyedJoin>,
    keep: Option<&(dyn Fn(u32, u32) -> bool + Sync)>,
) -> Vec<(u32, u32)> {
    let mut join = make();
    let driver = Driver::new(manner.threads, Stop::default());
    let mut found = Vec::new();
    // The number of the first row that the current join has received.
    let mut base = [0; 2];
    let mut add = |join: &dyn KeyedJoin, base: [u32; 2], results: Results| {
        let number = |side, offset| match offset {
            NO_ROW => NO_ROW,
            _ => base[side as usize] + join.first(side) as u32 + offset,
        };
        let right = results.right.iter().copied().chain(std::iter::repeat(NO_ROW));
        found.extend(
            results
                .left
                .iter()
                .zip(right)
                .map(|(&l, r)| (number(Side::Left, l), number(Side::Right, r))),
        );
    };
    // The keys that have rows.
    let mut audible: HashSet<u32> = HashSet::new();
    let mut rest = rows;
    for (nth, &len) in manner.epochs.iter().cycle().enumerate() {
        if rest.is_empty() {
            break;
        }
        let (head, tail) = rest.split_at(len.min(rest.len()));
        rest = tail;
        begin(&mut *join, &driver, head);
        audible.extend(head.iter().filter_map(|row| row.2));
        while !join.is_done() {
            let filter = |left: &[u32], right: &[u32]| -> Result<Vec<bool>, FilterError> {
                let keep = keep.expect("there is a filter");
                let numbers = left.iter().zip(right);
                Ok(numbers.map(|(&l, &r)| keep(base[0] + l, base[1] + r)).collect())
            };
            let filter: Option<&Filter<'_>> = if keep.is_some() { Some(&filter) } else { None };
            match join.advance(&driver, filter).unwrap() {
                Progress::Results(results) => add(&*join, base, results),
                Progress::Pieces(pieces) => {
                    pieces.into_iter().for_each(|rows| add(&*join, base, join.assemble(rows)));
                }
            }
        }
        let now = head.last().map(|row| row.0);
        let results = join.unmatched([now; 2]);
        add(&*join, base, results);
        join.purge([now; 2]);
        for key in join.take_silent() {
            assert!(audible.remove(&key), "a key is silent once");
        }
        if manner.restart == Some(nth) {
            let come = rows.len() - rest.len();
            (join, base) = restarted(&*join, base, &rows[..come], make());
        }
    }
    let results = join.unmatched([None; 2]);
    add(&*join, base, results);
    join.purge([None; 2]);
    assert_eq!(
        (join.rows(Side::Left), join.rows(Side::Right)),
        (0, 0),
        "nothing is kept at the end"
    );
    join.take_silent().iter().for_each(|key| assert!(audible.remove(key)));
    assert!(audible.is_empty(), "keys without rows are named");
    found
}

/// Returns a new join that starts with the rows kept by this join. Also returns the number of the
/// first kept row on each side.
fn restarted(
    join: &dyn KeyedJoin,
    base: [u32; 2],
    rows: &[Row],
    mut other: Box<dyn KeyedJoin>,
) -> (Box<dyn KeyedJoin>, [u32; 2]) {
    let mut first = base;
    let sides = [Side::Left, Side::Right].map(|side| {
        first[side as usize] += join.first(side) as u32;
        let kept = rows.iter().filter(|row| row.1 == side).skip(first[side as usize] as usize);
        let (ts, keys): (Vec<i64>, Vec<u32>) =
            kept.map(|row| (row.0, row.2.unwrap_or(NO_KEY))).unzip();
        assert_eq!(ts.len(), join.rows(side));
        let (matched, settled) = join.matched(side);
        (SavedRows { ts, matched, settled }, keys)
    });
    let [(left, left_keys), (right, right_keys)] = sides;
    other.restore(&[left, right], [&left_keys, &right_keys]);
    (other, first)
}

pub(crate) fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        0_i64..60,
        any::<bool>(),
        prop::option::weighted(0.95, prop_oneof![Just(0_u32), 0_u32..6]),
    );
    prop::collection::vec(row, 0..250).prop_map(|rows| {
        let side = |left| if left { Side::Left } else { Side::Right };
        let mut rows: Vec<Row> =
            rows.into_iter().map(|(ts, left, key)| (ts, side(left), key)).collect();
        // In merged order, left rows precede right rows with the same time.
        rows.sort_by_key(|&(ts, side, _)| (ts, side as usize));
        rows
    })
}

pub(crate) fn interval() -> impl Strategy<Value = Interval> {
    let closed = prop_oneof![
        Just(Closed::Both),
        Just(Closed::Left),
        Just(Closed::Right),
        Just(Closed::Neither)
    ];
    (prop::option::weighted(0.9, -12_i64..12), prop::option::weighted(0.9, 0_i64..15), closed)
        .prop_map(|(lower, width, closed)| {
            let upper = width.map(|width| lower.unwrap_or(-3) + width);
            Interval { lower, upper, closed }
        })
}

pub(crate) const HOWS: [How; 6] =
    [How::Inner, How::Left, How::Right, How::Full, How::Semi, How::Anti];

/// Asserts that a join returns the same rows as the loop. The order of the rows matters only if the
/// join is `ordered`.
pub(crate) fn assert_right(
    rows: &[Row],
    interval: &Interval,
    how: How,
    (manner, ordered, filters): (&Manner, bool, bool),
    make: &dyn Fn() -> Box<dyn KeyedJoin>,
) -> Result<(), TestCaseError> {
    let keep = |l: u32, r: u32| !(l.wrapping_mul(7) ^ r.wrapping_mul(13)).is_multiple_of(3);
    let keep_all = |_: u32, _: u32| true;
    let mut expected = if filters {
        oracle(rows, interval, how, &keep)
    } else {
        oracle(rows, interval, how, &keep_all)
    };
    let mut found = run(rows, manner, make, if filters { Some(&keep) } else { None });
    if !ordered {
        expected.sort_unstable();
        found.sort_unstable();
    }
    prop_assert_eq!(found, expected);
    Ok(())
}
