//! Checks the join against two loops over all rows, with random inputs.

use proptest::prelude::*;
use tidegate_sync::Stop;

use super::*;
use crate::driver::Driver;
use crate::interval::streaming::KeyedJoin;
use crate::rows::{
    Closed, Filter, How, Interval, NO_KEY, NO_ROW, Results, RowJoin, Side, SideWatermarks,
};

const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// A row as it is pushed.
#[derive(Clone, Copy, Debug)]
struct Row {
    side: Side,
    ts: i64,
    key: u32,
}

/// The rows in an epoch, and a flag that is `true` if promises follow the epoch.
type Fed = (Vec<Row>, bool);

fn row() -> impl Strategy<Value = Row> {
    let key = prop_oneof![9 => 0_u32..3, 1 => Just(NO_KEY)];
    (any::<bool>(), 0_i64..60, key).prop_map(|(is_left, ts, key)| {
        let side = if is_left { Side::Left } else { Side::Right };
        Row { side, ts, key }
    })
}

fn interval() -> impl Strategy<Value = Interval> {
    let end = || prop_oneof![8 => (-9_i64..9).prop_map(Some), 1 => Just(None)];
    let closed = prop_oneof![
        Just(Closed::Both),
        Just(Closed::Left),
        Just(Closed::Right),
        Just(Closed::Neither)
    ];
    (end(), end(), closed).prop_map(|(lower, upper, closed)| Interval { lower, upper, closed })
}

/// Identifies rows by their numbers in arrival order. Dropping rows does not change these numbers.
struct Names {
    here: [Vec<usize>; 2],
}

impl Names {
    fn name(&self, side: Side, offset: u32) -> Option<usize> {
        (offset != NO_ROW).then(|| self.here[side as usize][offset as usize])
    }

    /// Adds the results to `found`.
    fn note(&self, results: &Results, found: &mut Vec<(Option<usize>, Option<usize>)>) {
        for (nth, &left) in results.left.iter().enumerate() {
            let right = results.right.get(nth).copied().unwrap_or(NO_ROW);
            found.push((self.name(Side::Left, left), self.name(Side::Right, right)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn oracle_loops_over_all_rows(
        fed in prop::collection::vec((prop::collection::vec(row(), 0..25), any::<bool>()), 1..12),
        interval in interval(),
        how in prop_oneof![
            Just(How::Inner), Just(How::Left), Just(How::Right), Just(How::Full), Just(How::Semi), Just(How::Anti)
        ],
        threads in 1_usize..4,
        slack in 0_i64..30,
        keeps_odd in any::<bool>(),
    ) {
        check(&fed, &interval, how, threads, slack, keeps_odd)?;
    }
}

fn check(
    fed: &[Fed],
    interval: &Interval,
    how: How,
    threads: usize,
    slack: i64,
    keeps_odd: bool,
) -> Result<(), TestCaseError> {
    let driver = Driver::new(threads, Stop::default());
    let mut join = TimeJoin::new(interval, how);
    let mut names = Names { here: [Vec::new(), Vec::new()] };
    let mut rows: [Vec<Row>; 2] = [Vec::new(), Vec::new()];
    let mut next: SideWatermarks = [Some(i64::MIN); 2];
    let mut found: Vec<(Option<usize>, Option<usize>)> = Vec::new();
    let passes = |left: usize, right: usize| keeps_odd || (left + right).is_multiple_of(2);
    for (epoch, promises) in fed {
        // A row below its side's promised time would be late.
        let epoch: Vec<Row> = epoch
            .iter()
            .copied()
            .filter(|row| next[row.side as usize].is_some_and(|next| row.ts >= next))
            .collect();
        let [left, right] = SIDES.map(|side| {
            let own: Vec<Row> = epoch.iter().copied().filter(|row| row.side == side).collect();
            let first = rows[side as usize].len();
            names.here[side as usize].extend(first..first + own.len());
            rows[side as usize].extend(&own);
            own
        });
        let keys = [&left, &right].map(|own| own.iter().map(|row| row.key).collect::<Vec<_>>());
        let (ts, sides) = left.iter().chain(&right).map(|row| (row.ts, row.side)).unzip();
        join.begin(&driver, ts, sides, [&keys[0], &keys[1]]);
        let had = found.len();
        while !join.is_done() {
            let firsts = SIDES.map(|side| join.first(side) as u32);
            let filter: Box<Filter<'_>> = Box::new(|left, right| {
                let number = |side: Side, number: u32| {
                    names.here[side as usize][number.wrapping_sub(firsts[side as usize]) as usize]
                };
                let pairs = left.iter().zip(right);
                Ok(pairs
                    .map(|(&l, &r)| passes(number(Side::Left, l), number(Side::Right, r)))
                    .collect())
            });
            let results = join.advance(&driver, Some(&filter)).expect("nothing fails");
            names.note(&results.into_results(), &mut found);
        }
        // Pairs are returned in the epoch of the row that arrived later.
        if how.pairs() {
            let matches = |l: &Row, r: &Row| {
                let at = interval.at(l.ts);
                l.key == r.key
                    && l.key != NO_KEY
                    && at.is_some_and(|(first, last)| (first..=last).contains(&r.ts))
            };
            let mut expected = 0;
            for (l, left) in rows[0].iter().enumerate() {
                for (r, right) in rows[1].iter().enumerate() {
                    expected += usize::from(matches(left, right) && passes(l, r));
                }
            }
            let pairs = found.iter().filter(|(l, r)| l.is_some() && r.is_some()).count();
            prop_assert_eq!(pairs, expected, "pairs so far, {} before", had);
        }
        if *promises {
            for (side, next) in next.iter_mut().enumerate() {
                let last = rows[side].iter().map(|row| row.ts).max();
                *next = (*next).max(last.map(|last| last - slack));
            }
            settle(&mut join, &mut names, &mut found, next);
            if let Some(kept) = join.pack(next) {
                for (here, kept) in names.here.iter_mut().zip(&kept) {
                    *here = kept.iter().map(|&offset| here[offset as usize]).collect();
                }
            }
            join.take_silent();
        }
    }
    settle(&mut join, &mut names, &mut found, [None; 2]);
    prop_assert_eq!(SIDES.map(|side| join.rows(side)), [0, 0]);
    found.sort_unstable();
    prop_assert_eq!(found, expected(&rows, interval, how, passes));
    Ok(())
}

/// Drops rows, and records the rows that are emitted unmatched.
fn settle(
    join: &mut TimeJoin,
    names: &mut Names,
    found: &mut Vec<(Option<usize>, Option<usize>)>,
    next: SideWatermarks,
) {
    names.note(&join.unmatched(next), found);
    let before = SIDES.map(|side| join.first(side));
    join.purge(next);
    for (side, here) in SIDES.into_iter().zip(&mut names.here) {
        here.drain(..(join.first(side) - before[side as usize]) as usize);
    }
}

fn expected(
    [left, right]: &[Vec<Row>; 2],
    interval: &Interval,
    how: How,
    passes: impl Fn(usize, usize) -> bool,
) -> Vec<(Option<usize>, Option<usize>)> {
    let mut all = Vec::new();
    let mut has_left = vec![false; right.len()];
    for (l, row) in left.iter().enumerate() {
        let at = interval.at(row.ts);
        let matches: Vec<usize> = (0..right.len())
            .filter(|&r| {
                let other = right[r];
                row.key == other.key
                    && row.key != NO_KEY
                    && at.is_some_and(|(first, last)| (first..=last).contains(&other.ts))
                    && passes(l, r)
            })
            .collect();
        matches.iter().for_each(|&r| has_left[r] = true);
        match how {
            How::Semi => all.extend((!matches.is_empty()).then_some((Some(l), None))),
            How::Anti => all.extend(matches.is_empty().then_some((Some(l), None))),
            _ => {
                all.extend(matches.iter().map(|&r| (Some(l), Some(r))));
                all.extend((how.keeps_left() && matches.is_empty()).then_some((Some(l), None)));
            }
        }
    }
    if how.keeps_right() {
        let alone = (0..right.len()).filter(|&r| !has_left[r]);
        all.extend(alone.map(|r| (None, Some(r))));
    }
    all.sort_unstable();
    all
}
