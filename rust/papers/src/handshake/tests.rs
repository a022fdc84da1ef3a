//! Compares both algorithms with Kang's three-step procedure. Both algorithms must return the same
//! rows in the same order for random predicates, windows, rates, cuts and chains.
//!
//! In tests, each burst has three rows and each call returns only a few results, so that boundaries
//! are reached often. These tests do not cover every order of the nodes' steps; `schedules.rs` does
//! so for small cases.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_sync::Stop;

use super::{Columns, HandshakeAlgorithm, HandshakeJoin, Lookup, Pair, Predicate, SearchStructure};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Retention, Side};

/// Rows with one value each.
impl Columns for Vec<i64> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn push_rows(&mut self, from: &Self, rows: Range<usize>) {
        self.extend_from_slice(&from[rows]);
    }

    fn drop_first(&mut self, rows: usize) {
        self.drain(..rows);
    }

    fn row_bytes(&self) -> usize {
        size_of::<i64>()
    }
}

/// A predicate that matches values differing by at most `within`. It finds the pairs in one of
/// three ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near {
    pub(super) within: i64,
    pub(super) kind: Option<SearchStructure>,
}

impl Near {
    fn matches(&self, left: i64, right: i64) -> bool {
        (left - right).abs() <= self.within
    }

    fn reach(&self, value: i64) -> Option<(i64, i64)> {
        Some((value - self.within, value + self.within))
    }
}

impl Predicate for Near {
    type Left = Vec<i64>;
    type Right = Vec<i64>;

    fn pairs(
        &self,
        left: &Vec<i64>,
        left_rows: Range<usize>,
        right: &Vec<i64>,
        right_rows: Range<usize>,
        pairs: &mut Vec<Pair>,
    ) {
        for l in left_rows {
            let matching = right_rows.clone().filter(|&r| self.matches(left[l], right[r]));
            pairs.extend(matching.map(|r| Pair { left: l as u32, right: r as u32 }));
        }
    }

    fn lookup(&self) -> Option<&dyn Lookup<Vec<i64>, Vec<i64>>> {
        self.kind.is_some().then_some(self)
    }
}

impl Lookup<Vec<i64>, Vec<i64>> for Near {
    fn kind(&self) -> SearchStructure {
        self.kind.expect("a predicate with a lookup has a search structure")
    }

    fn left_values<'a>(&self, left: &'a Vec<i64>) -> &'a [i64] {
        left
    }

    fn right_values<'a>(&self, right: &'a Vec<i64>) -> &'a [i64] {
        right
    }

    fn left_reach(&self, right: &Vec<i64>, row: usize) -> Option<(i64, i64)> {
        self.reach(right[row])
    }

    fn right_reach(&self, left: &Vec<i64>, row: usize) -> Option<(i64, i64)> {
        self.reach(left[row])
    }

    fn retain(&self, left: &Vec<i64>, right: &Vec<i64>, pairs: &mut Vec<Pair>) {
        pairs.retain(|pair| self.matches(left[pair.left as usize], right[pair.right as usize]));
    }
}

/// A row in merged order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) ts: i64,
    pub(super) side: Side,
    pub(super) value: i64,
}

/// The three-step procedure of Kang, Naughton and Viglas, "Evaluating Window Joins over Unbounded
/// Streams" (ICDE 2003): each new row scans the other window, old rows are removed, and the new row
/// is inserted. Rows are numbered by side.
pub(super) fn three_steps(
    rows: &[Row],
    window: Retention,
    matches: impl Fn(i64, i64) -> bool,
) -> Vec<(u64, u64)> {
    let mut windows: [Vec<(u64, Row)>; 2] = Default::default();
    let mut numbers = [0; 2];
    let mut pairs = Vec::new();
    for &row in rows {
        let number = numbers[row.side as usize];
        numbers[row.side as usize] += 1;
        match window {
            Retention::Time { left, right } => {
                for (kept, length) in windows.iter_mut().zip([left, right]) {
                    kept.retain(|(_, old)| {
                        i128::from(row.ts) - i128::from(old.ts) <= i128::from(length)
                    });
                }
            }
            Retention::Rows { left, right } => {
                for (kept, length) in windows.iter_mut().zip([left, right]) {
                    kept.drain(..kept.len().saturating_sub(length as usize));
                }
            }
        }
        for (other, old) in &windows[row.side.other() as usize] {
            match row.side {
                Side::Left if matches(row.value, old.value) => pairs.push((number, *other)),
                Side::Right if matches(old.value, row.value) => pairs.push((*other, number)),
                _ => {}
            }
        }
        windows[row.side as usize].push((number, row));
    }
    pairs
}

/// Feeds rows to a join in epochs of these lengths, in rotation. Returns the row numbers of all
/// pairs.
fn join_epochs(
    rows: &[Row],
    cuts: &[usize],
    driver: &Driver,
    join: &mut HandshakeJoin<Near>,
) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    let mut rest = rows;
    for cut in cuts.iter().cycle() {
        let (epoch, after) = rest.split_at(rest.len().min(*cut));
        rest = after;
        let values =
            |side| epoch.iter().filter(|row| row.side == side).map(|row| row.value).collect();
        let (ts, sides) = epoch.iter().map(|row| (row.ts, row.side)).unzip();
        join.begin(ts, sides, values(Side::Left), values(Side::Right));
        drain(driver, join, &mut pairs);
        if let Some(last) = epoch.last() {
            join.purge(Some(last.ts));
        }
        if rest.is_empty() {
            break;
        }
    }
    pairs
}

/// Feeds rows to a join in epochs of these lengths, in rotation. Each epoch is fed as soon as the
/// join accepts rows. Returns the row numbers of all pairs.
fn join_ahead(
    rows: &[Row],
    cuts: &[usize],
    driver: &Driver,
    join: &mut HandshakeJoin<Near>,
) -> Vec<(u64, u64)> {
    let (mut pairs, mut rest) = (Vec::new(), rows);
    for cut in cuts.iter().cycle() {
        let (epoch, after) = rest.split_at(rest.len().min(*cut));
        rest = after;
        let values =
            |side| epoch.iter().filter(|row| row.side == side).map(|row| row.value).collect();
        let (ts, sides) = epoch.iter().map(|row| (row.ts, row.side)).unzip();
        while !join.takes_rows() {
            take(driver, join, &mut pairs);
            // No future result contains a row before the first kept one.
            if let Some(given) = (join.given() as usize).checked_sub(1) {
                join.purge(Some(rows[given].ts));
            }
        }
        join.begin(ts, sides, values(Side::Left), values(Side::Right));
        if rest.is_empty() {
            break;
        }
    }
    drain(driver, join, &mut pairs);
    join.end();
    drain(driver, join, &mut pairs);
    pairs
}

/// Takes all results that are available.
fn drain(driver: &Driver, join: &mut HandshakeJoin<Near>, pairs: &mut Vec<(u64, u64)>) {
    while !join.is_done() {
        take(driver, join, pairs);
    }
}

/// Takes some results.
fn take(driver: &Driver, join: &mut HandshakeJoin<Near>, pairs: &mut Vec<(u64, u64)>) {
    let firsts = [join.first(Side::Left), join.first(Side::Right)];
    let results = join.advance(driver).unwrap();
    let numbers = results.left.iter().zip(&results.right);
    pairs.extend(
        numbers.map(|(&left, &right)| (firsts[0] + u64::from(left), firsts[1] + u64::from(right))),
    );
}

/// Joins these rows. If `end` is true, also ends the join and takes the remaining results.
fn join(
    rows: &[Row],
    cuts: &[usize],
    end: bool,
    driver: &Driver,
    mut join: HandshakeJoin<Near>,
) -> Vec<(u64, u64)> {
    let mut pairs = join_epochs(rows, cuts, driver, &mut join);
    if end {
        join.end();
        drain(driver, &mut join, &mut pairs);
        join.purge(None);
        assert_eq!([join.rows(Side::Left), join.rows(Side::Right)], [0, 0]);
    }
    pairs
}

fn window() -> impl Strategy<Value = Retention> {
    let time = prop_oneof![Just(0), 0u64..20, Just(u64::MAX)];
    let rows = 1u64..20;
    prop_oneof![
        (time.clone(), time).prop_map(|(left, right)| Retention::Time { left, right }),
        (rows.clone(), rows).prop_map(|(left, right)| Retention::Rows { left, right }),
    ]
}

/// Generates rows in merged order, with ties and at different rates.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let share = prop_oneof![Just(0.5), Just(0.05), Just(0.95), Just(1.0)];
    let row = (0i64..4, 0.0..1.0, 0i64..8);
    (share, prop::collection::vec(row, 0..150)).prop_map(|(share, rows)| {
        let mut ts = -20;
        let row = |(step, left, value)| {
            ts += i64::max(0, step - 1);
            Row { ts, side: if left < share { Side::Left } else { Side::Right }, value }
        };
        let mut rows: Vec<Row> = rows.into_iter().map(row).collect();
        // Left sources sort first in merged order.
        rows.sort_by_key(|row| (row.ts, row.side as u8));
        rows
    })
}

fn near() -> impl Strategy<Value = Near> {
    let kinds = prop_oneof![Just(None), Just(Some(SearchStructure::Ordered))];
    prop_oneof![
        (0i64..10, kinds).prop_map(|(within, kind)| Near { within, kind }),
        Just(Near { within: 0, kind: Some(SearchStructure::Hash) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn oracle_both_algorithms_give_what_the_three_step_procedure_gives(
        rows in rows(),
        window in window(),
        near in near(),
        cuts in prop::collection::vec(1usize..40, 1..5),
        nodes in prop_oneof![4 => 1usize..5, 1 => 5usize..=16],
        threads in 1usize..=3,
    ) {
        let expected = three_steps(&rows, window, |left, right| near.matches(left, right));
        let driver = Driver::new(threads, Stop::default());
        for algorithm in [HandshakeAlgorithm::LowLatency, HandshakeAlgorithm::Original] {
            let made = HandshakeJoin::new(Arc::new(near), window, algorithm, nodes, true, false).unwrap();
            let pairs = join(&rows, &cuts, true, &driver, made);
            prop_assert_eq!(&pairs, &expected, "{:?} on {} nodes", algorithm, nodes);
            let made = HandshakeJoin::new(Arc::new(near), window, algorithm, nodes, false, false).unwrap();
            let mut pairs = join(&rows, &cuts, true, &driver, made);
            let mut sorted = expected.clone();
            pairs.sort_unstable();
            sorted.sort_unstable();
            prop_assert_eq!(&pairs, &sorted, "{:?} on {} nodes, unordered", algorithm, nodes);
            let mut made = HandshakeJoin::new(Arc::new(near), window, algorithm, nodes, true, false).unwrap();
            let pairs = join_ahead(&rows, &cuts, &driver, &mut made);
            prop_assert_eq!(&pairs, &expected, "{:?} on {} nodes, ahead", algorithm, nodes);
        }
        // The low-latency algorithm holds no results back.
        let made = HandshakeJoin::new(Arc::new(near), window, HandshakeAlgorithm::LowLatency, nodes, true, false).unwrap();
        prop_assert_eq!(&join(&rows, &cuts, false, &driver, made), &expected);
    }

    #[test]
    fn a_restored_join_goes_on(rows in rows(), window in window(), near in near(), cut in 0usize..150, nodes in 1usize..5) {
        let expected = three_steps(&rows, window, |left, right| near.matches(left, right));
        let driver = Driver::new(2, Stop::default());
        let made = || HandshakeJoin::new(Arc::new(near), window, HandshakeAlgorithm::LowLatency, nodes, true, false).unwrap();
        let (before, after) = rows.split_at(cut.min(rows.len()));
        let mut first = made();
        let mut pairs = join_epochs(before, &[before.len().max(1)], &driver, &mut first);
        // The join keeps at most the rows in the windows.
        let kept = [Side::Left, Side::Right].map(|side| {
            let of_side: Vec<Row> = before.iter().filter(|row| row.side == side).copied().collect();
            assert_eq!(of_side.len(), first.first(side) as usize + first.rows(side));
            of_side[first.first(side) as usize..].to_vec()
        });
        let firsts = [first.first(Side::Left), first.first(Side::Right)];
        let mut second = made();
        let ts = kept.each_ref().map(|rows| rows.iter().map(|row| row.ts).collect::<Vec<_>>());
        let [left, right] = kept.each_ref().map(|rows| rows.iter().map(|row| row.value).collect::<Vec<_>>());
        second.restore([&ts[0], &ts[1]], left, right);
        let later = join_epochs(after, &[7], &driver, &mut second);
        pairs.extend(later.iter().map(|(left, right)| (left + firsts[0], right + firsts[1])));
        prop_assert_eq!(pairs, expected);
    }
}

/// Returns rows that alternate between the two sides, one per time step.
fn in_turn(rows: i64) -> Vec<Row> {
    let side = |n| if n % 2 == 0 { Side::Left } else { Side::Right };
    (0..rows).map(|n| Row { ts: n, side: side(n), value: n * 7 % 11 }).collect()
}

#[test]
fn nodes_share_the_work_evenly() {
    let rows = in_turn(4000);
    for algorithm in [HandshakeAlgorithm::LowLatency, HandshakeAlgorithm::Original] {
        let driver = Driver::new(2, Stop::default());
        let near = Near { within: 0, kind: None };
        let window = Retention::Time { left: 1000, right: 1000 };
        let mut made =
            HandshakeJoin::new(Arc::new(near), window, algorithm, 4, true, false).unwrap();
        let values =
            |side| rows.iter().filter(|row| row.side == side).map(|row| row.value).collect();
        let (ts, sides) = rows.iter().map(|row| (row.ts, row.side)).unzip();
        made.begin(ts, sides, values(Side::Left), values(Side::Right));
        while !made.is_done() {
            made.advance(&driver).unwrap();
        }
        let comparisons = made.comparisons();
        let mean = comparisons.iter().sum::<u64>() / 4;
        assert!(
            comparisons.iter().all(|&of| of.abs_diff(mean) < mean / 10),
            "{algorithm:?}: {comparisons:?}"
        );
    }
}

#[test]
fn a_join_that_was_stopped_goes_on() {
    let rows = in_turn(300);
    let window = Retention::Rows { left: 50, right: 40 };
    let near = Near { within: 2, kind: None };
    let expected = three_steps(&rows, window, |left, right| near.matches(left, right));
    for algorithm in [HandshakeAlgorithm::LowLatency, HandshakeAlgorithm::Original] {
        let mut made =
            HandshakeJoin::new(Arc::new(near), window, algorithm, 3, true, false).unwrap();
        let stop = Stop::default();
        stop.request();
        let values =
            |side| rows.iter().filter(|row| row.side == side).map(|row| row.value).collect();
        let (ts, sides) = rows.iter().map(|row| (row.ts, row.side)).unzip();
        made.begin(ts, sides, values(Side::Left), values(Side::Right));
        assert!(made.advance(&Driver::new(2, stop)).is_err());
        let driver = Driver::new(2, Stop::default());
        let mut pairs = Vec::new();
        drain(&driver, &mut made, &mut pairs);
        made.end();
        drain(&driver, &mut made, &mut pairs);
        assert_eq!(pairs, expected, "{algorithm:?}");
    }
}

#[test]
fn memory_is_that_of_the_windows() {
    let window = Retention::Rows { left: 100, right: 100 };
    for (kind, algorithm) in [
        (None, HandshakeAlgorithm::LowLatency),
        (Some(SearchStructure::Hash), HandshakeAlgorithm::LowLatency),
        (Some(SearchStructure::Ordered), HandshakeAlgorithm::LowLatency),
        (None, HandshakeAlgorithm::Original),
    ] {
        let driver = Driver::new(2, Stop::default());
        let mut made = HandshakeJoin::new(
            Arc::new(Near { within: 0, kind }),
            window,
            algorithm,
            3,
            true,
            false,
        )
        .unwrap();
        let mut most = [0; 2];
        for (nth, epoch) in in_turn(12_000).chunks(400).enumerate() {
            let values =
                |side| epoch.iter().filter(|row| row.side == side).map(|row| row.value).collect();
            let (ts, sides) = epoch.iter().map(|row| (row.ts, row.side)).unzip();
            made.begin(ts, sides, values(Side::Left), values(Side::Right));
            while !made.is_done() {
                made.advance(&driver).unwrap();
            }
            made.purge(epoch.last().map(|row| row.ts));
            most[usize::from(nth >= 15)] = most[usize::from(nth >= 15)].max(made.memory());
        }
        assert!(
            most[1] <= most[0] * 3 / 2,
            "{algorithm:?} {kind:?}: {most:?} bytes in both halves"
        );
    }
}

/// A predicate that panics.
#[derive(Debug)]
struct Broken;

impl Predicate for Broken {
    type Left = Vec<i64>;
    type Right = Vec<i64>;

    fn pairs(
        &self,
        _: &Vec<i64>,
        _: Range<usize>,
        _: &Vec<i64>,
        _: Range<usize>,
        _: &mut Vec<Pair>,
    ) {
        panic!("a broken node");
    }
}

#[test]
fn a_panic_of_a_node_is_the_callers() {
    let (window, algorithm) =
        (Retention::Rows { left: 9, right: 9 }, HandshakeAlgorithm::LowLatency);
    let mut made = HandshakeJoin::new(Arc::new(Broken), window, algorithm, 3, true, false).unwrap();
    made.begin(vec![1, 2], vec![Side::Left, Side::Right], vec![0], vec![0]);
    let driver = Driver::new(1, Stop::default());
    let take = || {
        while !made.is_done() {
            made.advance(&driver).unwrap();
        }
    };
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(take)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"a broken node"));
}
