//! The join beside two loops over all rows, for random feeds.

use proptest::prelude::*;
use tidegate_sync::Stop;

use super::*;
use crate::driver::Driver;
use crate::rows::{Closed, Filter, How, Interval, NO_KEY, NO_ROW, Side};

const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// A row as a feeder has it.
#[derive(Clone, Copy, Debug)]
struct Row {
    side: Side,
    ts: i64,
    key: u32,
}

/// Rows of an epoch; whether promises follow it, and whether the state is made anew then.
type Fed = (Vec<Row>, bool, bool);

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

/// Rows are named by their numbers in order of arrival, whatever has left since.
struct Names {
    here: [Vec<usize>; 2],
}

impl Names {
    fn name(&self, side: Side, offset: u32) -> Option<usize> {
        (offset != NO_ROW).then(|| self.here[side as usize][offset as usize])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn oracle_loops_over_all_rows(
        fed in prop::collection::vec((prop::collection::vec(row(), 0..25), any::<bool>(), any::<bool>()), 1..12),
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
    let (mut log, mut join) = (Log::new(interval, how), TimeJoin::default());
    let mut names = Names { here: [Vec::new(), Vec::new()] };
    let mut rows: [Vec<Row>; 2] = [Vec::new(), Vec::new()];
    let mut next: Next = [Some(i64::MIN); 2];
    let mut found: Vec<(Option<usize>, Option<usize>)> = Vec::new();
    let passes = |left: usize, right: usize| keeps_odd || (left + right).is_multiple_of(2);
    for (epoch, promises, anew) in fed {
        // A row below its side's promise would be late.
        let epoch: Vec<Row> = epoch
            .iter()
            .copied()
            .filter(|row| next[row.side as usize].is_some_and(|next| row.ts >= next))
            .collect();
        let before = SIDES.map(|side| log.rows(side));
        for side in SIDES {
            let own: Vec<Row> = epoch.iter().copied().filter(|row| row.side == side).collect();
            let (ts, keys): (Vec<i64>, Vec<u32>) = own.iter().map(|row| (row.ts, row.key)).unzip();
            let first = rows[side as usize].len();
            names.here[side as usize].extend(first..first + own.len());
            rows[side as usize].extend(own);
            log.push(side, &ts, &keys);
        }
        join.begin(before, &log);
        let had = found.len();
        while !join.is_done() {
            let firsts = SIDES.map(|side| log.first(side) as u32);
            let filter: Box<Filter<'_>> = Box::new(|left, right| {
                let number = |side: Side, number: u32| {
                    names.here[side as usize][number.wrapping_sub(firsts[side as usize]) as usize]
                };
                let pairs = left.iter().zip(right);
                Ok(pairs
                    .map(|(&l, &r)| passes(number(Side::Left, l), number(Side::Right, r)))
                    .collect())
            });
            let pairs = join.advance(&log, &driver, Some(&filter)).expect("nothing fails");
            for pairs in pairs {
                let results = log.collect(pairs);
                for (nth, &left) in results.left.iter().enumerate() {
                    let right = results.right.get(nth).copied().unwrap_or(NO_ROW);
                    found.push((names.name(Side::Left, left), names.name(Side::Right, right)));
                }
            }
        }
        // Pairs come in the epoch of their later row.
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
            settle(&mut log, &mut join, &mut names, &mut found, next);
            if *anew {
                let kept = SIDES.map(|side| log.kept(side, next));
                join.retain(&log, [&kept[0], &kept[1]]);
                for (side, kept) in SIDES.into_iter().zip(&kept) {
                    log.retain(side, kept);
                    let here = &mut names.here[side as usize];
                    *here = kept.iter().map(|&offset| here[offset as usize]).collect();
                }
            }
        }
    }
    settle(&mut log, &mut join, &mut names, &mut found, [None; 2]);
    prop_assert_eq!(SIDES.map(|side| log.rows(side)), [0, 0]);
    found.sort_unstable();
    prop_assert_eq!(found, expected(&rows, interval, how, passes));
    Ok(())
}

/// Lets rows go, and notes the rows that come alone.
fn settle(
    log: &mut Log,
    join: &mut TimeJoin,
    names: &mut Names,
    found: &mut Vec<(Option<usize>, Option<usize>)>,
    next: Next,
) {
    let alone = log.unmatched(next);
    for (nth, &left) in alone.left.iter().enumerate() {
        let right = alone.right.get(nth).copied().unwrap_or(NO_ROW);
        found.push((names.name(Side::Left, left), names.name(Side::Right, right)));
    }
    let (gone, _) = join.purge(log, next);
    for (here, gone) in names.here.iter_mut().zip(gone) {
        here.drain(..gone);
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
