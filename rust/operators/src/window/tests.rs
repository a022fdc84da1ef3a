//! The joins against Kang's three-step procedure, row by row. All algorithms and threads give the
//! same results; whether the work is shared well is measured elsewhere, but for its balance.

use proptest::prelude::*;
use tidegate_sync::Stop;

use super::Operands;
use super::scale::{self, ScaleJoin};
use crate::driver::Driver;
use crate::papers::handshake::{self, SlidingHandshake};
use crate::papers::scale_gates::GatedScaleJoin;
use crate::papers::split_join::split_join;
use crate::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
use crate::rows::{Filter, FilterError, How, Kept, NO_ROW, Results, Retention, RowJoin, Side};

/// A row: its time, its side, and a value that must be near that of the other row.
type Row = (i64, Side, i64);

/// A result row: the numbers of its rows, or none.
type Found = (Option<u64>, Option<u64>);

/// A row in a window: its number, its time, its value, and whether it has had a match.
type InWindow = (u64, i64, i64, bool);

/// How far apart values may be.
const NEAR: i64 = 2;

/// The filter that pairs go through in addition: their numbers do not sum up to a multiple of 3.
fn filtered(left: u64, right: u64) -> bool {
    !(left + right).is_multiple_of(3)
}

/// The results of rows in merged order, by the three-step procedure, and rows that leave unmatched
/// at their places.
fn three_steps(rows: &[Row], windows: Retention, how: How, with_filter: bool) -> Vec<Found> {
    let (mut kept, mut counts): ([Vec<InWindow>; 2], _) = ([Vec::new(), Vec::new()], [0_u64; 2]);
    // Rows that have left a window of rows, with the time and side of the one that took their
    // place: theirs is after it.
    let mut left_at: Vec<(i64, Side, InWindow)> = Vec::new();
    let mut results: Vec<Found> = Vec::new();
    // How long a row stays, in its unit, and a row that leaves.
    let stays = |side: Side| windows.length(side) as i64;
    let leave = |side: Side, row: InWindow, results: &mut Vec<Found>| match side {
        Side::Left if !row.3 && (how.keeps_left() || how == How::Anti) => {
            results.push((Some(row.0), None))
        }
        Side::Right if !row.3 && how.keeps_right() => results.push((None, Some(row.0))),
        _ => {}
    };
    for &(ts, side, value) in rows {
        // 1. Rows leave, by the time of their end, then in merged order.
        match windows {
            Retention::Time { .. } => loop {
                let head = |side: Side| {
                    let row = kept[side as usize].first()?;
                    (row.1 + stays(side) < ts).then_some((
                        row.1 + stays(side),
                        row.1,
                        side as usize,
                    ))
                };
                let Some((.., first)) =
                    [Side::Left, Side::Right].into_iter().filter_map(head).min()
                else {
                    break;
                };
                let row = kept[first].remove(0);
                leave([Side::Left, Side::Right][first], row, &mut results);
            },
            Retention::Rows { .. } => {
                left_at.sort_by_key(|&(last, side, row)| (last, row.1, side as usize));
                let over = left_at.partition_point(|&(last, ..)| last < ts);
                left_at.drain(..over).for_each(|(_, side, row)| leave(side, row, &mut results));
                if kept[side as usize].len() as i64 == stays(side) {
                    left_at.push((ts, side, kept[side as usize].remove(0)));
                }
            }
        }
        // 2. The row scans the other window, and joins its own.
        let number = counts[side as usize];
        counts[side as usize] += 1;
        let mut matched = false;
        for other in &mut kept[side.other() as usize] {
            let (left, right) =
                if side == Side::Left { (number, other.0) } else { (other.0, number) };
            if (value - other.2).abs() > NEAR || with_filter && !filtered(left, right) {
                continue;
            }
            let left_had_one = if side == Side::Left { matched } else { other.3 };
            (matched, other.3) = (true, true);
            match how {
                How::Semi if !left_had_one => results.push((Some(left), None)),
                How::Semi | How::Anti => {}
                _ => results.push((Some(left), Some(right))),
            }
        }
        kept[side as usize].push((number, ts, value, matched));
    }
    // 3. At the end all leave.
    left_at.sort_by_key(|&(last, side, row)| (last, row.1, side as usize));
    left_at.into_iter().for_each(|(_, side, row)| leave(side, row, &mut results));
    let end = |side: Side, row: &InWindow| match windows {
        Retention::Time { .. } => (row.1 + stays(side), row.1, side as usize),
        Retention::Rows { .. } => (row.1, row.1, side as usize),
    };
    loop {
        let head = |side: Side| kept[side as usize].first().map(|row| end(side, row));
        let Some((.., first)) = [Side::Left, Side::Right].into_iter().filter_map(head).min() else {
            break;
        };
        let row = kept[first].remove(0);
        leave([Side::Left, Side::Right][first], row, &mut results);
    }
    results
}

fn near(left: Numbers, right: Numbers) -> Term {
    let relation = Relation::Whole(vec![
        Constraint::Difference { order: Order::LessOrEqual, than: NEAR },
        Constraint::Difference { order: Order::GreaterOrEqual, than: -NEAR },
    ]);
    Term::new(Operand::new(left, None), Operand::new(right, None), relation).unwrap()
}

fn numbers(rows: &[Row]) -> Vec<(Operand, Operand)> {
    let of = |side: Side| {
        let values = rows.iter().filter(|row| row.1 == side).map(|row| row.2).collect();
        Operand::new(Numbers::I64(values), None)
    };
    vec![(of(Side::Left), of(Side::Right))]
}

/// Who compares the rows.
#[derive(Clone, Copy, Debug)]
enum Algorithm {
    ScaleJoin(scale::ScaleAlgorithm),
    ScaleGates,
    SplitJoin,
    Handshake(handshake::HandshakeAlgorithm),
}

const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::ScaleJoin(scale::ScaleAlgorithm::ThreeStep),
    Algorithm::ScaleJoin(scale::ScaleAlgorithm::Cell),
    Algorithm::ScaleJoin(scale::ScaleAlgorithm::ScaleJoin),
    Algorithm::ScaleJoin(scale::ScaleAlgorithm::Indexed),
    Algorithm::ScaleGates,
    Algorithm::SplitJoin,
    Algorithm::Handshake(handshake::HandshakeAlgorithm::Original),
    Algorithm::Handshake(handshake::HandshakeAlgorithm::LowLatency),
];

/// Those whose threads go on between calls.
const FREE: [Algorithm; 3] = [
    Algorithm::ScaleGates,
    Algorithm::Handshake(handshake::HandshakeAlgorithm::Original),
    Algorithm::Handshake(handshake::HandshakeAlgorithm::LowLatency),
];

/// What a test asks of a join.
#[derive(Clone, Copy, Debug)]
struct Case {
    windows: Retention,
    how: How,
    algorithm: Algorithm,
    threads: usize,
    with_filter: bool,
    /// Epochs after which the join goes on in another that is given what this one kept.
    moves: bool,
    /// The row whose epoch's terms cannot be scanned for.
    fails_at: usize,
}

impl Case {
    /// The results of the rows, cut into epochs, with the threads' comparisons.
    fn run(&self, rows: &[Row], cuts: &[usize]) -> (Vec<Found>, Vec<u64>) {
        let Case { windows, how, threads, .. } = *self;
        let terms = || vec![near(Numbers::I64(Vec::new()), Numbers::I64(Vec::new()))];
        match self.algorithm {
            Algorithm::ScaleJoin(algorithm) => self.run_with(rows, cuts, || {
                ScaleJoin::new(windows, how, algorithm, threads, true, terms())
            }),
            Algorithm::ScaleGates => self.run_with(rows, cuts, || {
                GatedScaleJoin::new(windows, how, threads, true, terms(), false).unwrap()
            }),
            Algorithm::SplitJoin => {
                self.run_with(rows, cuts, || split_join(windows, how, threads, true, terms()))
            }
            Algorithm::Handshake(algorithm) => self.run_with(rows, cuts, || {
                SlidingHandshake::<u64>::new(windows, how, algorithm, threads, terms(), false)
                    .unwrap()
            }),
        }
    }

    /// The results of a join whose threads go on: an epoch begins as soon as the join takes it.
    /// `steps` says how often results are taken after each.
    fn run_ahead(&self, rows: &[Row], cuts: &[usize], steps: &[usize]) -> Vec<Found> {
        let Case { windows, how, threads, .. } = *self;
        let terms = vec![near(Numbers::I64(Vec::new()), Numbers::I64(Vec::new()))];
        match self.algorithm {
            Algorithm::Handshake(algorithm) => {
                let join =
                    SlidingHandshake::<u64>::new(windows, how, algorithm, threads, terms, false);
                self.run_ahead_with(rows, cuts, steps, join.unwrap())
            }
            _ => {
                let join = GatedScaleJoin::new(windows, how, threads, true, terms, false);
                self.run_ahead_with(rows, cuts, steps, join.unwrap())
            }
        }
    }

    fn run_ahead_with<J: for<'a> RowJoin<Operands<'a>>>(
        &self,
        rows: &[Row],
        cuts: &[usize],
        steps: &[usize],
        mut join: J,
    ) -> Vec<Found> {
        let driver = Driver::new(1, Stop::default());
        let mut results = Vec::new();
        let value = |side: Side, number: u32| {
            let of_side = rows.iter().filter(|row| row.1 == side);
            of_side.map(|row| row.2).nth(number as usize).expect("a row of that number")
        };
        let mut step = |join: &mut J| {
            let scanned = join.compares();
            let keeps = |left: &[u32], right: &[u32]| -> Result<Vec<bool>, FilterError> {
                let verdict = |(&left, &right): (&u32, &u32)| {
                    let apart = value(Side::Left, left) - value(Side::Right, right);
                    (scanned || apart.abs() <= NEAR)
                        && (!self.with_filter || filtered(left.into(), right.into()))
                };
                Ok(left.iter().zip(right).map(verdict).collect())
            };
            let filter: Option<&Filter<'_>> =
                if self.with_filter || !scanned { Some(&keeps) } else { None };
            let firsts = [join.first(Side::Left), join.first(Side::Right)];
            let found = join.advance(&driver, filter).unwrap().into_results();
            results.extend(named(&found, firsts));
            let now = join.given();
            if now.is_some() {
                results.extend(named(&join.unmatched(now), firsts));
                join.purge(now);
            }
        };
        let mut start = 0;
        for (nth, &end) in cuts.iter().chain([&rows.len()]).enumerate() {
            let epoch = &rows[start..end.max(start)];
            while !join.takes_rows() {
                step(&mut join);
            }
            let has_failed = end > self.fails_at;
            start = end.max(start);
            let (ts, sides) = epoch.iter().map(|row| (row.0, row.1)).unzip();
            let of_epoch = numbers(epoch);
            join.begin(&driver, ts, sides, (!has_failed).then_some(&of_epoch[..]));
            for _ in 0..steps.get(nth).copied().unwrap_or(0) {
                step(&mut join);
            }
        }
        while !join.is_done() {
            step(&mut join);
        }
        if join.holds_back() {
            join.flush();
            while !join.is_done() {
                step(&mut join);
            }
        }
        let firsts = [join.first(Side::Left), join.first(Side::Right)];
        results.extend(named(&join.unmatched(None), firsts));
        join.purge(None);
        results
    }

    fn run_with<J: for<'a> RowJoin<Operands<'a>>>(
        &self,
        rows: &[Row],
        cuts: &[usize],
        made: impl Fn() -> J,
    ) -> (Vec<Found>, Vec<u64>) {
        let driver = Driver::new(self.threads, Stop::default());
        let mut join = made();
        let mut results = Vec::new();
        // Numbers of the first rows that a join was given.
        let mut base = [0_u64; 2];
        let mut scanned = true;
        let mut start = 0;
        for (nth, &end) in cuts.iter().chain([&rows.len()]).enumerate() {
            let epoch = &rows[start..end.max(start)];
            start = end.max(start);
            let ts = epoch.iter().map(|row| row.0).collect();
            let sides = epoch.iter().map(|row| row.1).collect();
            let of_epoch = numbers(epoch);
            scanned &= !(start.saturating_sub(epoch.len())..start).contains(&self.fails_at);
            join.begin(&driver, ts, sides, scanned.then_some(&of_epoch[..]));
            scanned = join.compares();
            // A join whose terms were forgotten leaves all comparisons to the filter.
            let value = |side: Side, number: u64| {
                rows.iter()
                    .filter(|row| row.1 == side)
                    .nth(number as usize)
                    .expect("a row of that number")
                    .2
            };
            let keeps = |left: &[u32], right: &[u32]| -> Result<Vec<bool>, FilterError> {
                let verdict = |(&left, &right): (&u32, &u32)| {
                    let (left, right) = (base[0] + u64::from(left), base[1] + u64::from(right));
                    let close = scanned
                        || (value(Side::Left, left) - value(Side::Right, right)).abs() <= NEAR;
                    close && (!self.with_filter || filtered(left, right))
                };
                Ok(left.iter().zip(right).map(verdict).collect())
            };
            let filter: Option<&Filter<'_>> =
                if self.with_filter || !scanned { Some(&keeps) } else { None };
            let drain = |join: &mut J, results: &mut Vec<Found>| {
                let firsts = [base[0] + join.first(Side::Left), base[1] + join.first(Side::Right)];
                while !join.is_done() {
                    let found = join.advance(&driver, filter).unwrap().into_results();
                    results.extend(named(&found, firsts));
                }
                let now = epoch.last().map(|row| row.0);
                if now.is_some() {
                    results.extend(named(&join.unmatched(now), firsts));
                    join.purge(now);
                }
            };
            drain(&mut join, &mut results);
            let moves = self.moves && !epoch.is_empty();
            let flushes = (moves || nth == cuts.len()) && join.holds_back();
            if flushes {
                join.flush();
                drain(&mut join, &mut results);
                assert!(!join.holds_back());
            }
            if moves {
                let kept_rows = |side: Side| -> Vec<Row> {
                    let of_side = rows[..start].iter().filter(|row| row.1 == side);
                    of_side
                        .skip((base[side as usize] + join.first(side)) as usize)
                        .copied()
                        .collect()
                };
                let (left, right) = (kept_rows(Side::Left), kept_rows(Side::Right));
                let ts =
                    [&left, &right].map(|rows| rows.iter().map(|row| row.0).collect::<Vec<_>>());
                let of_kept = numbers(&[left, right].concat());
                if flushes && nth % 2 == 0 {
                    join.refill(scanned.then_some(&of_kept[..]));
                    continue;
                }
                // The other join numbers the kept rows from 0 on.
                let mut other = made();
                for side in [Side::Left, Side::Right] {
                    base[side as usize] += join.first(side);
                }
                let kept = [Side::Left, Side::Right].map(|side| {
                    let (matched, settled) = join.matched(side);
                    Kept { ts: ts[side as usize].clone(), matched, settled }
                });
                other.restore(&kept, scanned.then_some(&of_kept[..]));
                scanned = other.compares();
                join = other;
            }
        }
        let firsts = [base[0] + join.first(Side::Left), base[1] + join.first(Side::Right)];
        results.extend(named(&join.unmatched(None), firsts));
        join.purge(None);
        assert_eq!(
            (join.rows(Side::Left), join.rows(Side::Right)),
            (0, 0),
            "nothing is kept at the end"
        );
        (results, join.comparisons())
    }
}

/// Results by the numbers of their rows.
fn named(results: &Results, firsts: [u64; 2]) -> Vec<Found> {
    let number =
        |side: usize, offset: u32| (offset != NO_ROW).then(|| firsts[side] + u64::from(offset));
    let right = |at: usize| results.right.get(at).copied().unwrap_or(NO_ROW);
    results
        .left
        .iter()
        .enumerate()
        .map(|(at, &left)| (number(0, left), number(1, right(at))))
        .collect()
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let side = prop::sample::select(vec![Side::Left, Side::Right]);
    prop::collection::vec((0_i64..3, side, 0_i64..6), 0..80).prop_map(|steps| {
        let mut ts = 0;
        let mut rows: Vec<Row> = Vec::new();
        for (step, side, value) in steps {
            ts += step;
            rows.push((ts, side, value));
        }
        // Left sources are first in merged order.
        rows.sort_by_key(|row| (row.0, row.1 as usize));
        rows
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn oracle_three_steps(
        rows in rows(),
        (left, right) in (0_usize..7, 0_usize..7),
        by_time in any::<bool>(),
        how in prop::sample::select(vec![How::Inner, How::Left, How::Right, How::Full, How::Semi, How::Anti]),
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        threads in 1_usize..5,
        with_filter in any::<bool>(),
        moves in any::<bool>(),
        fails_at in prop_oneof![4 => Just(usize::MAX), 1 => 0_usize..80],
        mut cuts in prop::collection::vec(0_usize..80, 0..6),
    ) {
        let windows = match by_time {
            true => Retention::Time { left: left as u64, right: right as u64 },
            false => Retention::Rows { left: left.max(1) as u64, right: right.max(1) as u64 },
        };
        let case = Case { windows, how, algorithm, threads, with_filter, moves, fails_at };
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(rows.len()));
        cuts.sort_unstable();
        prop_assert_eq!(case.run(&rows, &cuts).0, three_steps(&rows, windows, how, with_filter), "{:?}", case);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn oracle_rows_of_several_epochs_are_on_their_way(
        rows in rows(),
        (left, right) in (0_usize..7, 0_usize..7),
        by_time in any::<bool>(),
        how in prop::sample::select(vec![How::Inner, How::Left, How::Right, How::Full, How::Semi, How::Anti]),
        algorithm in prop::sample::select(&FREE[..]),
        threads in 1_usize..5,
        with_filter in any::<bool>(),
        fails_at in prop_oneof![4 => Just(usize::MAX), 1 => 0_usize..80],
        mut cuts in prop::collection::vec(0_usize..80, 0..20),
        steps in prop::collection::vec(0_usize..3, 20),
    ) {
        let windows = match by_time {
            true => Retention::Time { left: left as u64, right: right as u64 },
            false => Retention::Rows { left: left.max(1) as u64, right: right.max(1) as u64 },
        };
        let case = Case { windows, how, algorithm, threads, with_filter, moves: false, fails_at };
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(rows.len()));
        cuts.sort_unstable();
        let found = case.run_ahead(&rows, &cuts, &steps);
        prop_assert_eq!(found, three_steps(&rows, windows, how, with_filter), "{:?}", case);
    }
}

#[test]
fn rows_are_compared_while_nobody_takes_results() {
    // Each row meets the last one of the other side. No two match, so that no thread waits for room.
    let rows: Vec<Row> =
        (0..16).map(|n| (n, [Side::Left, Side::Right][n as usize % 2], n % 2 * 100)).collect();
    let windows = Retention::Rows { left: 1, right: 1 };
    let terms = || vec![near(Numbers::I64(Vec::new()), Numbers::I64(Vec::new()))];
    let how = How::Inner;
    compares_by_itself(&rows, GatedScaleJoin::new(windows, how, 2, true, terms(), false).unwrap());
    let algorithm = handshake::HandshakeAlgorithm::LowLatency;
    let chain = SlidingHandshake::<u64>::new(windows, how, algorithm, 2, terms(), false);
    compares_by_itself(&rows, chain.unwrap());
}

fn compares_by_itself<J: for<'a> RowJoin<Operands<'a>>>(rows: &[Row], mut join: J) {
    let driver = Driver::new(1, Stop::default());
    let (ts, sides) = rows.iter().map(|row| (row.0, row.1)).unzip();
    join.begin(&driver, ts, sides, Some(&numbers(rows)));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while join.comparisons().iter().sum::<u64>() < 15 {
        assert!(std::time::Instant::now() < until, "no row is compared: {:?}", join.comparisons());
        std::thread::yield_now();
    }
    while !join.is_done() {
        assert_eq!(join.advance(&driver, None).unwrap().into_results().left.len(), 0);
    }
}

#[test]
fn shares_have_equal_work() {
    // Rows of the sides take turns that have a common measure with the threads.
    let side = |n: i64| if n % 6 == 0 { Side::Left } else { Side::Right };
    let rows: Vec<Row> = (0..4000).map(|n| (n, side(n), n % 97)).collect();
    let shared =
        [scale::ScaleAlgorithm::Cell, scale::ScaleAlgorithm::ScaleJoin].map(Algorithm::ScaleJoin);
    for algorithm in shared.into_iter().chain([Algorithm::ScaleGates, Algorithm::SplitJoin]) {
        let windows = Retention::Time { left: 1000, right: 1000 };
        let (how, moves, with_filter) = (How::Inner, false, false);
        let case =
            Case { windows, how, algorithm, threads: 4, with_filter, moves, fails_at: usize::MAX };
        let (_, comparisons) = case.run(&rows, &[500, 3000]);
        let (least, most) = (comparisons.iter().min().unwrap(), comparisons.iter().max().unwrap());
        assert!(most - least <= most / 50, "{comparisons:?}");
    }
}

#[test]
fn looking_rows_up_finds_what_comparing_does() {
    let side = |n: i64| if n % 5 < 2 { Side::Left } else { Side::Right };
    let rows: Vec<Row> = (0..750).map(|n| (n, side(n), n * 7919 % 997)).collect();
    // Of the last rows, or of all whose numbers no longer fit from a row on.
    for (windows, fails_at) in [
        (Retention::Time { left: 300, right: 200 }, usize::MAX),
        (Retention::Rows { left: 125, right: 175 }, usize::MAX),
        (Retention::Rows { left: 125, right: 175 }, 450),
    ] {
        for how in [How::Inner, How::Full, How::Semi, How::Anti] {
            for (threads, moves) in [(1, false), (3, true)] {
                let run = |algorithm| {
                    let algorithm = Algorithm::ScaleJoin(algorithm);
                    let case = Case {
                        windows,
                        how,
                        algorithm,
                        threads,
                        with_filter: false,
                        moves,
                        fails_at,
                    };
                    case.run(&rows, &(1..40).map(|nth| nth * 19).collect::<Vec<_>>())
                };
                let (wanted, compared) = run(scale::ScaleAlgorithm::ScaleJoin);
                let (found, looked_at) = run(scale::ScaleAlgorithm::Indexed);
                assert_eq!(found, wanted, "{windows:?} {how:?} {threads}");
                // Of a join that goes on in another, only the last one's pairs are counted.
                let (compared, looked_at) =
                    (compared.iter().sum::<u64>(), looked_at.iter().sum::<u64>());
                assert!(
                    moves || fails_at < 750 || looked_at < compared * 3 / 4,
                    "{looked_at} of {compared}"
                );
            }
        }
    }
}
