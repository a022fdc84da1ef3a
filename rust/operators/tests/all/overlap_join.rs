//! Checks the overlap join against a nested loop on small random inputs, with several thread
//! counts. Large inputs are checked against counts computed from the sorted starts and ends.

use proptest::prelude::*;
use tidegate_operators::driver::Driver;
use tidegate_operators::matches::Matches;
use tidegate_operators::overlap::{IntervalColumns, Overlaps, count_overlaps};
use tidegate_operators::rows::NO_KEY;
use tidegate_sync::Stop;

use crate::tables::{Table, large, table};

/// Rows with a start and an end.
#[derive(Clone, Debug)]
struct Intervals {
    starts: Table,
    ends: Vec<i64>,
}

impl Intervals {
    fn new(starts: Table, lengths: &[i64]) -> Self {
        let ends = starts.ts.iter().zip(lengths.iter().cycle());
        let ends = ends.map(|(start, length)| start.saturating_add(*length)).collect();
        Intervals { starts, ends }
    }

    fn columns(&self) -> IntervalColumns<'_> {
        let side = self.starts.side();
        IntervalColumns { starts: side.ts, ends: &self.ends, keys: side.keys }
    }

    fn rows(&self) -> usize {
        self.ends.len()
    }
}

/// Returns the right rows that match each left row, row by row.
fn oracle(left: &Intervals, right: &Intervals) -> Vec<Vec<u32>> {
    let matches = |l: usize, r: usize| {
        left.starts.key(l) == right.starts.key(r)
            && left.starts.key(l) != NO_KEY
            && left.starts.ts[l] <= right.ends[r]
            && right.starts.ts[r] <= left.ends[l]
    };
    let of = |l| (0..right.rows()).filter(|&r| matches(l, r)).map(|r| r as u32).collect();
    (0..left.rows()).map(of).collect()
}

/// Returns the right rows that match each left row, page by page.
fn join(
    left: &Intervals,
    right: &Intervals,
    keys: usize,
    most: u64,
    threads: usize,
) -> Vec<Vec<u32>> {
    let driver = Driver::new(threads, Stop::default());
    let overlaps = Overlaps::new(left.columns(), right.columns(), keys, &driver).unwrap();
    assert_eq!((overlaps.left_rows(), overlaps.right_rows()), (left.rows(), right.rows()));
    let mut found = Vec::new();
    while found.len() < left.rows() {
        let page = overlaps.page(found.len(), most);
        let matches = overlaps.matches(&left.starts.ts, page.clone(), &driver).unwrap();
        assert_eq!((matches.first_left(), matches.left_rows()), (page.start, page.len()));
        found.extend(rows_of_each(&matches));
    }
    found
}

fn rows_of_each(matches: &Matches) -> Vec<Vec<u32>> {
    let listed = matches.rows_of_each().map(<[u32]>::to_vec).collect::<Vec<_>>();
    let counts = (0..matches.left_rows()).map(|row| matches.count(row));
    assert!(counts.eq(listed.iter().map(Vec::len)));
    listed
}

fn counts(left: &Intervals, right: &Intervals, keys: usize, threads: usize) -> Vec<usize> {
    let driver = Driver::new(threads, Stop::default());
    let counts = count_overlaps(left.columns(), right.columns(), keys, &driver).unwrap();
    (0..counts.left_rows()).map(|row| counts.count(row)).collect()
}

fn times() -> impl Strategy<Value = i64> + Clone {
    let edges = prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(i64::MIN + 1), Just(i64::MAX - 1)];
    prop_oneof![20 => -30_i64..30, 1 => edges]
}

fn intervals(keys: bool, least: i64) -> impl Strategy<Value = Intervals> {
    let length = prop_oneof![
        8 => least.max(-6)..6,
        2 => least.max(0)..60,
        1 => Just(i64::MAX),
    ];
    (table(keys, times()), prop::collection::vec(length, 1..60))
        .prop_map(|(starts, lengths)| Intervals::new(starts, &lengths))
}

fn sides(least: i64) -> impl Strategy<Value = (Intervals, Intervals)> {
    any::<bool>().prop_flat_map(move |keys| (intervals(keys, least), intervals(keys, least)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn oracle_rows_that_overlap((left, right) in sides(0), most in 1_u64..200, threads in 1_usize..5) {
        let wanted = oracle(&left, &right);
        prop_assert_eq!(join(&left, &right, 4, most, threads), &wanted[..]);
        let lengths: Vec<_> = wanted.iter().map(Vec::len).collect();
        prop_assert_eq!(counts(&left, &right, 4, threads), lengths);
    }

    #[test]
    fn oracle_rows_that_end_before_they_start((left, right) in sides(-6), most in 1_u64..200) {
        prop_assert_eq!(join(&left, &right, 4, most, 2), oracle(&left, &right));
    }
}

/// Returns the lengths of intervals. Most intervals are short, but a few cover the whole time
/// range.
fn long_tailed(rows: usize, seed: i64) -> Vec<i64> {
    let length = |row: i64| match (row * 7_919 + seed) % 1_000 {
        0 => 1 << 40,
        1..20 => 20_000,
        rest => rest % 9,
    };
    (0..rows as i64).map(length).collect()
}

/// Returns how many right rows overlap each left row. Among the rows with the same key, this is the
/// number that start before the left row's end, minus the number that end before its start.
fn counted(left: &Intervals, right: &Intervals, keys: usize) -> Vec<usize> {
    let groups = right.starts.groups(keys);
    let ends: Vec<Vec<i64>> = groups
        .iter()
        .map(|group| {
            let mut ends: Vec<_> = group.iter().map(|&(_, r)| right.ends[r as usize]).collect();
            ends.sort_unstable();
            ends
        })
        .collect();
    let count = |l: usize| {
        let key = left.starts.key(l);
        if key == NO_KEY {
            return 0;
        }
        let (starts, ends) = (&groups[key as usize], &ends[key as usize]);
        starts.partition_point(|&(start, _)| start <= left.ends[l])
            - ends.partition_point(|&end| end < left.starts.ts[l])
    };
    (0..left.rows()).map(count).collect()
}

#[test]
fn differential_many_rows() {
    let rows = 40_000;
    for (case, (keys, skewed, sorted)) in [
        (1, false, true),
        (1, false, false),
        (24, false, true),
        (24, true, false),
        (20_000, false, true),
    ]
    .into_iter()
    .enumerate()
    {
        let seed = case as u64;
        let side = |seed: u64| {
            let starts = large(rows, keys, skewed, sorted, seed);
            Intervals::new(starts, &long_tailed(rows, seed as i64))
        };
        let (left, right) = (side(seed), side(seed + 100));
        let wanted = counted(&left, &right, keys);
        assert_eq!(counts(&left, &right, keys, 2), wanted);
        let found = join(&left, &right, keys, 1 << 22, 3);
        for (l, rows) in found.iter().enumerate() {
            assert_eq!(rows.len(), wanted[l], "left row {l} of case {case}");
            assert!(rows.is_sorted_by(|a, b| a < b));
            for &r in rows {
                let r = r as usize;
                assert_eq!(right.starts.key(r), left.starts.key(l));
                assert!(left.starts.ts[l] <= right.ends[r] && right.starts.ts[r] <= left.ends[l]);
            }
        }
    }
}

#[test]
fn differential_counts_of_many_rows_a_key_in_no_order() {
    let rows = 100_000;
    for (case, (keys, skewed)) in [(1, false), (2, false), (2, true)].into_iter().enumerate() {
        let even = |seed: u64| large(rows, keys, skewed, false, seed);
        // Times on a few days within many years, with few distinct times.
        let clusters = |seed: u64| {
            let mut table = even(seed);
            table.ts.iter_mut().for_each(|ts| *ts = (*ts & 3) * (1 << 50) + (*ts >> 2) % 5_000);
            table
        };
        let equal = |seed: u64| {
            let mut table = even(seed);
            table.ts.iter_mut().for_each(|ts| *ts %= 40);
            table
        };
        for (law, times) in [&even as &dyn Fn(u64) -> Table, &clusters, &equal].iter().enumerate() {
            let side = |seed: u64| Intervals::new(times(seed), &long_tailed(rows, seed as i64));
            let (left, right) = (side(case as u64), side(case as u64 + 100));
            let wanted = counted(&left, &right, keys);
            for threads in [1, 3] {
                assert!(counts(&left, &right, keys, threads) == wanted, "case {case}, law {law}");
            }
        }
    }
}

#[test]
fn long_rows_slow_no_others_down() {
    // Rows 0 to 9 are always open, rows 10 to 1,009 are open until 5,000, and the others only for a
    // moment.
    let starts: Vec<i64> = (0..20_000).collect();
    let end = |row: i64| match row {
        0..10 => i64::MAX,
        10..1_010 => 5_000,
        _ => row,
    };
    let ends: Vec<i64> = starts.iter().map(|&row| end(row)).collect();
    let right = IntervalColumns { starts: &starts, ends: &ends, keys: None };
    let moments: Vec<i64> = (0..20_000).collect();
    let left = IntervalColumns { starts: &moments, ends: &moments, keys: None };
    let driver = Driver::new(1, Stop::default());
    let overlaps = Overlaps::new(left, right, 1, &driver).unwrap();
    for row in 0..moments.len() {
        let matches = overlaps.matches(&moments, row..row + 1, &driver).unwrap();
        // The page contains this row and the next one only if their candidates fit.
        let most = 2 * matches.count(0) as u64 + 16;
        let fits_twice = overlaps.page(row, 2 * most + 40);
        assert!(fits_twice.len() >= 2.min(moments.len() - row), "left row {row}");
    }
}
