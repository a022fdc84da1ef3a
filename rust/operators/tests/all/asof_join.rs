//! Checks the as-of join against a nested loop on small random inputs, with every strategy and
//! several thread counts. Large inputs are checked by searching each key's rows.

use std::convert::Infallible;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_operators::asof::{
    AsOf, Rounds, Strategy as Nearness, asof_join, candidates, chosen, nearest_few,
    nearest_few_chosen, rounds_of,
};
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::interval_join;
use tidegate_operators::matches::{Matches, Output};
use tidegate_operators::rows::{How, NO_KEY, NO_ROW};
use tidegate_sync::Stop;

use crate::tables::{Table, large, table};

const EVERY_HOW: [How; 4] = [How::Left, How::Inner, How::Semi, How::Anti];
const EVERY_STRATEGY: [Nearness; 3] = [Nearness::Backward, Nearness::Forward, Nearness::Nearest];

type Rows = Vec<(u32, u32)>;

/// Returns how close a right row is to a left row. Smaller values are closer, and `None` means that
/// the row is not a candidate.
fn nearness(asof: &AsOf, l: i64, r: i64, row: u32) -> Option<(i128, bool, i64)> {
    let distance = (l as i128 - r as i128).abs();
    let is_past = r < l || (r == l && asof.strategy != Nearness::Forward);
    let is_candidate = match asof.strategy {
        _ if r == l => asof.exact,
        Nearness::Backward => r < l,
        Nearness::Forward => r > l,
        Nearness::Nearest => true,
    };
    let is_near = asof.tolerance.is_none_or(|most| distance <= most as i128);
    let order = if is_past { -(row as i64) } else { row as i64 };
    (is_candidate && is_near).then_some((distance, !is_past, order))
}

/// Computes the result from the definition, row by row.
fn oracle(
    left: &Table,
    right: &Table,
    asof: &AsOf,
    how: How,
    keep: &dyn Fn(u32, u32) -> bool,
) -> Rows {
    let partner = |l: usize| {
        (0..right.ts.len())
            .filter(|&r| left.key(l) == right.key(r) && left.key(l) != NO_KEY)
            .filter(|&r| keep(l as u32, r as u32))
            .filter_map(|r| Some((nearness(asof, left.ts[l], right.ts[r], r as u32)?, r as u32)))
            .min()
            .map(|(_, r)| r)
    };
    listed(how, (0..left.ts.len()).map(partner))
}

fn listed(how: How, partners: impl Iterator<Item = Option<u32>>) -> Rows {
    let rows = (0..).zip(partners).filter(|(_, partner)| match how {
        How::Left => true,
        How::Anti => partner.is_none(),
        _ => partner.is_some(),
    });
    rows.map(|(l, partner)| (l, partner.filter(|_| how.pairs()).unwrap_or(NO_ROW))).collect()
}

/// Returns the join's result, listing it `cut` rows at a time.
fn list(matches: Matches, how: How, cut: usize, driver: &Driver) -> Rows {
    let output = Output::new(Arc::new(matches), how, driver).unwrap();
    let batches = driver.map(output.cut(cut), |range| {
        output.list(range, |pairs| {
            let right = |at: usize| pairs.right().get(at).copied().unwrap_or(NO_ROW);
            pairs.left().iter().enumerate().map(|(at, &l)| (l, right(at))).collect::<Vec<_>>()
        })
    });
    batches.unwrap().concat()
}

/// Computes the join with a predicate, round by round and page by page.
fn filtered(
    left: &Table,
    right: &Table,
    keys: usize,
    asof: &AsOf,
    keep: &(dyn Fn(u32, u32) -> bool + Sync),
    driver: &Driver,
) -> Matches {
    let mut sides = candidates(left.side(), right.side(), keys, asof, driver).unwrap();
    test(&mut sides, right, keep, driver);
    chosen(sides, &left.ts, &right.ts, driver).unwrap()
}

/// Tests candidates with a predicate, round by round and page by page.
fn test(
    sides: &mut [Rounds],
    right: &Table,
    keep: &(dyn Fn(u32, u32) -> bool + Sync),
    driver: &Driver,
) {
    let verdicts = |l: &[u32], r: &[u32]| Ok(l.iter().zip(r).map(|(&l, &r)| keep(l, r)).collect());
    for rounds in sides {
        while let Some(round) = rounds.next_round() {
            let mut start = 0;
            while start < round.left_rows() {
                let page = round.page(start, usize::MAX, 50);
                start = page.end;
                let kept = round.filter::<Infallible>(page.clone(), &verdicts, driver);
                rounds.take(page, &kept.unwrap().unwrap(), &right.ts);
            }
        }
    }
}

/// Computes the nearest few partners of each left row, with a predicate if there is one.
fn few(
    left: &Table,
    right: &Table,
    keys: usize,
    (asof, limit): (&AsOf, u32),
    keep: Option<&(dyn Fn(u32, u32) -> bool + Sync)>,
    driver: &Driver,
) -> Vec<Vec<u32>> {
    let (nearness, times) = (asof.nearness(limit), (&left.ts[..], &right.ts[..]));
    let interval = asof.candidate_interval();
    let found = interval_join(left.side(), right.side(), keys, &interval, driver).unwrap();
    let found = match keep {
        None => nearest_few(found, nearness, times, driver).unwrap(),
        Some(keep) => {
            let mut rounds = rounds_of(found, nearness, times, driver).unwrap();
            test(&mut rounds, right, keep, driver);
            nearest_few_chosen(rounds, limit, times, driver).unwrap()
        }
    };
    let found = found.expect("there are few partners");
    (0..left.ts.len()).map(|row| found.rows_of(row).collect()).collect()
}

fn inputs() -> impl Strategy<Value = (Table, Table, AsOf)> {
    let extreme =
        prop::sample::select(vec![i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX]);
    let tolerance = prop_oneof![
        4 => (0_i64..12).prop_map(Some), 4 => Just(None), 1 => Just(Some(i64::MAX)),
    ];
    let times = prop_oneof![20 => -30_i64..30, 1 => extreme].boxed();
    any::<bool>().prop_flat_map(move |keys| {
        let strategy = prop::sample::select(EVERY_STRATEGY.to_vec());
        let asof = (strategy, any::<bool>(), tolerance.clone())
            .prop_map(|(strategy, exact, tolerance)| AsOf { strategy, exact, tolerance });
        (table(keys, times.clone()), table(keys, times.clone()), asof)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn oracle_every_how((left, right, asof) in inputs(), threads in 1_usize..9, cut in 1_usize..9) {
        let driver = Driver::new(threads, Stop::default());
        for how in EVERY_HOW {
            let found = asof_join(left.side(), right.side(), 4, &asof, &driver).unwrap();
            let expected = oracle(&left, &right, &asof, how, &|_, _| true);
            prop_assert_eq!(list(found, how, cut, &driver), expected, "{:?}", how);
        }
    }

    #[test]
    fn oracle_every_how_with_a_predicate(
        (left, right, asof) in inputs(),
        threads in 1_usize..9,
        salt in 0_u32..6,
    ) {
        // The last rows of a long run rarely pass.
        let keep = move |l: u32, r: u32| (l * 7 + r * 3) % 40 < salt;
        let driver = Driver::new(threads, Stop::default());
        for how in EVERY_HOW {
            let found = filtered(&left, &right, 4, &asof, &keep, &driver);
            let expected = oracle(&left, &right, &asof, how, &keep);
            prop_assert_eq!(list(found, how, 7, &driver), expected, "{:?}", how);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn oracle_the_nearest_few(
        (left, right, asof) in inputs(),
        (threads, limit, salt) in (1_usize..9, 1_u32..30, 0_u32..60),
    ) {
        let keep = move |l: u32, r: u32| (l * 7 + r * 3) % 40 < salt;
        let driver = Driver::new(threads, Stop::default());
        let found = few(&left, &right, 4, (&asof, limit), Some(&keep), &driver);
        let every = few(&left, &right, 4, (&asof, limit), None, &driver);
        for (keep, found) in [(&keep as &dyn Fn(u32, u32) -> bool, found), (&|_, _| true, every)] {
            for (l, found) in found.into_iter().enumerate() {
                let mut rows: Vec<_> = (0..right.ts.len())
                    .filter(|&r| left.key(l) == right.key(r) && left.key(l) != NO_KEY)
                    .filter(|&r| keep(l as u32, r as u32))
                    .filter_map(|r| Some((nearness(&asof, left.ts[l], right.ts[r], r as u32)?, r)))
                    .collect();
                rows.sort_unstable();
                rows.truncate(limit as usize);
                let mut rows: Vec<_> = rows.into_iter().map(|(_, r)| (right.ts[r], r as u32)).collect();
                rows.sort_unstable();
                let expected: Vec<u32> = rows.into_iter().map(|(_, r)| r).collect();
                prop_assert_eq!(found, expected, "left row {}", l);
            }
        }
    }
}

#[test]
fn the_nearest_few_do_not_depend_on_threads() {
    let (left, right) = (large(80_000, 50, true, false, 1), large(20_000, 50, true, false, 2));
    let keep = |l: u32, r: u32| (l ^ r) % 3 > 0;
    for (strategy, exact) in
        [(Nearness::Backward, true), (Nearness::Nearest, true), (Nearness::Nearest, false)]
    {
        let asof = AsOf { strategy, exact, tolerance: None };
        let found = |threads, keep| {
            few(&left, &right, 50, (&asof, 3), keep, &Driver::new(threads, Stop::default()))
        };
        assert!(found(1, None) == found(4, None), "{strategy:?}");
        assert!(found(1, Some(&keep)) == found(4, Some(&keep)), "{strategy:?}");
    }
}

/// Finds the partners by searching each key's rows in time order.
fn searched(left: &Table, right: &Table, keys: usize, asof: &AsOf) -> Rows {
    let groups = right.groups(keys);
    let partner = |l: usize| {
        let ts = left.ts[l];
        let group = groups.get(left.key(l) as usize)?;
        let before = group.partition_point(|row| row.0 < ts + i64::from(asof.exact));
        let after = group.partition_point(|row| row.0 < ts + i64::from(!asof.exact));
        let past = before.checked_sub(1).map(|at| group[at]);
        let near = [past, group.get(after).copied()].into_iter().flatten();
        near.filter_map(|(r, row)| Some((nearness(asof, ts, r, row)?, row)))
            .min()
            .map(|(_, row)| row)
    };
    listed(How::Left, (0..left.ts.len()).map(partner))
}

#[test]
fn differential_many_rows_by_threads_keys_and_order() {
    let rows = 80_000;
    for (keys, skewed) in [(1, false), (1000, true), (40_000, false), (40_000, true)] {
        for (left_sorted, right_sorted) in
            [(true, true), (false, true), (true, false), (false, false)]
        {
            let left = large(rows, keys, skewed, left_sorted, 1);
            // There are twice as many right rows, the last of which are after all left rows.
            let right = large(2 * rows, keys, skewed, right_sorted, 2);
            for strategy in EVERY_STRATEGY {
                let (exact, tolerance) = (keys > 1, skewed.then_some(1000));
                let asof = AsOf { strategy, exact, tolerance };
                let expected = searched(&left, &right, keys, &asof);
                let partners = expected.iter().filter(|(_, r)| *r != NO_ROW).count();
                assert!(partners > rows / 10, "{keys} {skewed}: {partners} partners");
                for threads in [1, 2, 5] {
                    let driver = Driver::new(threads, Stop::default());
                    let found = asof_join(left.side(), right.side(), keys, &asof, &driver).unwrap();
                    assert!(
                        list(found, How::Left, 10_000, &driver) == expected,
                        "{keys} keys, {asof:?}, skewed {skewed}, sorted {left_sorted} \
                         {right_sorted}, {threads} threads"
                    );
                }
            }
        }
    }
}

#[test]
fn a_side_may_be_far_longer_than_the_other() {
    let few = Table { ts: vec![5, 50_000, 199_999], keys: Some(vec![0, 1, 2]) };
    let many = Table {
        ts: (0..200_000).collect(),
        keys: Some((0..200_000).map(|row| u32::from(row % 7 == 0)).collect()),
    };
    let driver = Driver::new(4, Stop::default());
    for strategy in EVERY_STRATEGY {
        let asof = AsOf { strategy, exact: true, tolerance: None };
        for (left, right) in [(&few, &many), (&many, &few)] {
            let found = asof_join(left.side(), right.side(), 3, &asof, &driver).unwrap();
            let expected = searched(left, right, 3, &asof);
            assert!(list(found, How::Left, 1 << 16, &driver) == expected, "{strategy:?}");
        }
    }
}
