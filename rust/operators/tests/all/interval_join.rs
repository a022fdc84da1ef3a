//! Compares the interval join with a nested loop on small random inputs, for every join type and
//! several thread counts.
//!
//! `oracle_*` cannot detect errors that occur only with many rows (several levels of partitioning,
//! sorts by several threads, divided runs). `differential_*` detects such errors, because it
//! searches each key's rows instead of using the quadratic oracle.

use std::convert::Infallible;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::{interval_join, row_interval_join};
use tidegate_operators::matches::{BitSet, Matches, Output};
use tidegate_operators::rows::{Closed, How, Interval, NO_KEY, NO_ROW, RowEnds};
use tidegate_sync::Stop;

use crate::tables::{Table, large, table};

const EVERY_HOW: [How; 6] = [How::Inner, How::Left, How::Right, How::Full, How::Semi, How::Anti];
const EVERY_CLOSED: [Closed; 4] = [Closed::Both, Closed::Left, Closed::Right, Closed::Neither];

fn matches(interval: &Interval, l: i64, r: i64) -> bool {
    let (l, r) = (l as i128, r as i128);
    let (low, high) = match interval.closed {
        Closed::Both => (true, true),
        Closed::Left => (true, false),
        Closed::Right => (false, true),
        Closed::Neither => (false, false),
    };
    interval.lower.is_none_or(|b| if low { l + b as i128 <= r } else { l + (b as i128) < r })
        && interval.upper.is_none_or(|b| if high { r <= l + b as i128 } else { r < l + b as i128 })
}

type Rows = Vec<(u32, u32)>;

/// Computes the result from the definition, row by row.
fn oracle(
    left: &Table,
    right: &Table,
    interval: &Interval,
    how: How,
    keep: &dyn Fn(u32, u32) -> bool,
) -> Rows {
    let mut rows = Vec::new();
    let mut matched = vec![false; right.ts.len()];
    for l in 0..left.ts.len() {
        let before = rows.len();
        for (r, matched) in matched.iter_mut().enumerate() {
            let equal = left.key(l) == right.key(r) && left.key(l) != NO_KEY;
            if equal && matches(interval, left.ts[l], right.ts[r]) && keep(l as u32, r as u32) {
                *matched = true;
                rows.push((l as u32, r as u32));
            }
        }
        let found = rows.len() > before;
        match how {
            How::Semi | How::Anti => {
                rows.truncate(before);
                if found == (how == How::Semi) {
                    rows.push((l as u32, NO_ROW));
                }
            }
            How::Left | How::Full if !found => rows.push((l as u32, NO_ROW)),
            _ => {}
        }
    }
    if how.keeps_right() {
        rows.extend((0..right.ts.len()).filter(|&r| !matched[r]).map(|r| (NO_ROW, r as u32)));
    }
    rows
}

/// Computes the join with this number of threads. Lists the result `cut` rows at a time.
fn join(
    left: &Table,
    right: &Table,
    keys: usize,
    interval: &Interval,
    how: How,
    keep: Option<&(dyn Fn(u32, u32) -> bool + Sync)>,
    (threads, cut): (usize, usize),
) -> Rows {
    let driver = Driver::new(threads, Stop::default());
    let found =
        Arc::new(interval_join(left.side(), right.side(), keys, interval, &driver).unwrap());
    let mut matched = BitSet::new(right.ts.len());
    let mut rows = Vec::new();
    let mut emit = |page: Arc<Matches>| {
        let output = Output::new(page.clone(), how, &driver).unwrap();
        let batches = driver.map(output.cut(cut), |range| {
            output.list(range, |pairs| {
                let right = |at: usize| pairs.right().get(at).copied().unwrap_or(NO_ROW);
                pairs.left().iter().enumerate().map(|(at, &l)| (l, right(at))).collect::<Vec<_>>()
            })
        });
        rows.extend(batches.unwrap().into_iter().flatten());
        page.mark_matched(&mut matched);
    };
    match keep {
        None => emit(found),
        Some(keep) => {
            let mut start = 0;
            while start < found.left_rows() {
                let page = found.page(start, usize::MAX, 1 << 24);
                start = page.end;
                let verdicts =
                    |l: &[u32], r: &[u32]| Ok(l.iter().zip(r).map(|(&l, &r)| keep(l, r)).collect());
                emit(Arc::new(
                    found.filter::<Infallible>(page, &verdicts, &driver).unwrap().unwrap(),
                ));
            }
        }
    }
    if how.keeps_right() {
        rows.extend(matched.missing().map(|r| (NO_ROW, r as u32)));
    }
    rows
}

fn inputs() -> impl Strategy<Value = (Table, Table, Interval)> {
    let extreme =
        prop::sample::select(vec![i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX]);
    let end = prop_oneof![8 => (-12_i64..12).prop_map(Some), 1 => Just(None), 1 => extreme.clone().prop_map(Some)];
    let closed = prop::sample::select(EVERY_CLOSED.to_vec());
    let times = prop_oneof![20 => -30_i64..30, 1 => extreme].boxed();
    any::<bool>().prop_flat_map(move |keys| {
        let interval = (end.clone(), end.clone(), closed.clone())
            .prop_map(|(lower, upper, closed)| Interval { lower, upper, closed });
        (table(keys, times.clone()), table(keys, times.clone()), interval)
    })
}

/// Returns the right rows in each left row's interval, in row order.
fn rows_within(
    (left, right): (&Table, &Table),
    keys: usize,
    ends: RowEnds<'_>,
    threads: usize,
) -> Vec<Vec<u32>> {
    let driver = Driver::new(threads, Stop::default());
    let found =
        Arc::new(row_interval_join(left.side(), right.side(), keys, ends, &driver).unwrap());
    let sorted = |rows: &[u32]| {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows
    };
    let every = |left: &[u32], _: &[u32]| Ok(vec![true; left.len()]);
    let found = found.filter::<Infallible>(0..left.ts.len(), &every, &driver).unwrap().unwrap();
    found.rows_of_each().map(sorted).collect()
}

proptest! {
    #[test]
    fn oracle_rows_with_ends_of_their_own(
        (left, right) in any::<bool>().prop_flat_map(|keys| (table(keys, -30_i64..30), table(keys, -30_i64..30))),
        distances in prop::collection::vec((-40_i64..20, -20_i64..40), 60),
        threads in 1_usize..4,
    ) {
        let ends = left.ts.iter().zip(&distances);
        let (first, last): (Vec<_>, Vec<_>) =
            ends.map(|(ts, (lower, upper))| (ts + lower, ts + upper)).unzip();
        let matches = |l: usize, r: usize| {
            left.key(l) == right.key(r)
                && left.key(l) != NO_KEY
                && (first[l]..=last[l]).contains(&right.ts[r])
        };
        let of = |l| (0..right.ts.len()).filter(|&r| matches(l, r)).map(|r| r as u32).collect();
        let wanted: Vec<Vec<u32>> = (0..left.ts.len()).map(of).collect();
        let ends = RowEnds { first: &first, last: &last };
        prop_assert_eq!(rows_within((&left, &right), 4, ends, threads), wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn oracle_every_how((left, right, interval) in inputs(), threads in 1_usize..9, cut in 1_usize..9) {
        for how in EVERY_HOW {
            let rows = join(&left, &right, 4, &interval, how, None, (threads, cut));
            prop_assert_eq!(rows, oracle(&left, &right, &interval, how, &|_, _| true), "{:?}", how);
        }
    }

    #[test]
    fn oracle_every_how_with_a_predicate((left, right, interval) in inputs(), threads in 1_usize..9, salt in 1_u32..5) {
        let keep = move |l: u32, r: u32| (l * 7 + r * 3) % 5 < salt;
        for how in EVERY_HOW {
            let rows = join(&left, &right, 4, &interval, how, Some(&keep), (threads, 7));
            prop_assert_eq!(rows, oracle(&left, &right, &interval, how, &keep), "{:?}", how);
        }
    }
}

/// Computes the inner join by searching each key's rows in time order.
fn searched(left: &Table, right: &Table, keys: usize, interval: &Interval) -> Rows {
    let groups = right.groups(keys);
    let mut rows = Vec::new();
    for (l, &ts) in left.ts.iter().enumerate().filter(|(l, _)| left.key(*l) != NO_KEY) {
        let (first, last) = (ts + interval.lower.unwrap(), ts + interval.upper.unwrap());
        let group = &groups[left.key(l) as usize];
        let start = group.partition_point(|row| row.0 < first);
        let mut found: Vec<u32> =
            group[start..].iter().take_while(|row| row.0 <= last).map(|row| row.1).collect();
        found.sort_unstable();
        rows.extend(found.into_iter().map(|r| (l as u32, r)));
    }
    rows
}

#[test]
fn differential_many_rows_by_threads_keys_and_order() {
    let rows = 120_000;
    for (keys, skewed, width) in [
        (1, false, 3),
        (1000, false, 1000),
        (1000, true, 6),
        (60_000, false, 30_000),
        (60_000, true, 6),
    ] {
        for (left_sorted, right_sorted) in
            [(true, true), (false, true), (true, false), (false, false)]
        {
            let left = large(rows, keys, skewed, left_sorted, 1);
            let right = large(rows, keys, skewed, right_sorted, 2);
            let interval =
                Interval { lower: Some(-width), upper: Some(width / 2), closed: Closed::Both };
            let expected = searched(&left, &right, keys, &interval);
            assert!(expected.len() > rows / 10, "{keys} {skewed}: {} rows", expected.len());
            for threads in [1, 2, 5] {
                let found =
                    join(&left, &right, keys, &interval, How::Inner, None, (threads, 10_000));
                assert!(
                    found == expected,
                    "{keys} keys, skewed {skewed}, sorted {left_sorted} {right_sorted}"
                );
            }
        }
    }
}

#[test]
fn differential_one_unsorted_group_is_sorted_by_all_threads() {
    let rows = 700_000;
    let mut left = large(rows, 1, false, false, 3);
    let mut right = large(rows, 1, false, false, 4);
    for table in [&mut left, &mut right] {
        table.keys = Some(vec![0; rows]);
    }
    let interval = Interval { lower: Some(0), upper: Some(1), closed: Closed::Both };
    let expected = searched(&left, &right, 1, &interval);
    for threads in [1, 3] {
        assert!(
            join(&left, &right, 1, &interval, How::Inner, None, (threads, 1 << 17)) == expected
        );
    }
    for table in [&mut left, &mut right] {
        table.keys = None;
    }
    assert!(join(&left, &right, 1, &interval, How::Inner, None, (2, 1 << 17)) == expected);
}

#[test]
fn long_runs_of_unsorted_rows_come_in_row_order_whatever_the_cut() {
    let right = Table { ts: (0..5000).rev().collect(), keys: None };
    let left = Table { ts: vec![0, 10], keys: None };
    let interval = Interval { lower: None, upper: None, closed: Closed::Both };
    let expected: Rows = (0..2).flat_map(|l| (0..5000).map(move |r| (l, r))).collect();
    for cut in [7, 1000, 20_000] {
        assert_eq!(join(&left, &right, 1, &interval, How::Inner, None, (3, cut)), expected);
    }
}
