//! Compares sliding-window joins with Kang's three-step procedure, row by row. All algorithms and
//! thread counts must return the same results. These tests also check that the work is balanced
//! between threads.

use proptest::prelude::*;
use tidegate_operators::driver::Driver;
use tidegate_operators::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
use tidegate_operators::rows::{
    Filter, FilterError, How, NO_ROW, Results, Retention, SavedRows, Side,
};
use tidegate_operators::window::SlidingJoin;
use tidegate_operators::window::scale::{ScaleAlgorithm, ScaleJoin};
use tidegate_sync::Stop;

use crate::baselines::{cell_join, three_step_join};
use crate::handshake::{HandshakeAlgorithm, SlidingHandshake};
use crate::scale_gates::GatedScaleJoin;
use crate::split_join::split_join;

#[path = "../../../operators/src/window/tests/oracle.rs"]
mod oracle;

use oracle::{
    Case, NEAR, ResultRow, Row, assert_equal_work, cases, cuts_of, filtered, many, named, numbers,
    rows, terms, three_steps,
};

/// An algorithm that compares the rows.
#[derive(Clone, Copy, Debug)]
enum Algorithm {
    ThreeStep,
    Cell,
    ScaleGates,
    SplitJoin,
    Handshake(HandshakeAlgorithm),
}

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::ThreeStep,
    Algorithm::Cell,
    Algorithm::ScaleGates,
    Algorithm::SplitJoin,
    Algorithm::Handshake(HandshakeAlgorithm::Original),
    Algorithm::Handshake(HandshakeAlgorithm::LowLatency),
];

/// The algorithms whose threads keep running between calls.
const FREE: [Algorithm; 3] = [
    Algorithm::ScaleGates,
    Algorithm::Handshake(HandshakeAlgorithm::Original),
    Algorithm::Handshake(HandshakeAlgorithm::LowLatency),
];

impl Algorithm {
    fn join(self, case: &Case) -> Box<SlidingJoin> {
        let Case { windows, how, threads, .. } = *case;
        match self {
            Algorithm::ThreeStep => Box::new(three_step_join(windows, how, true, terms())),
            Algorithm::Cell => Box::new(cell_join(windows, how, threads, true, terms())),
            Algorithm::ScaleGates => {
                let join = GatedScaleJoin::new(windows, how, threads, true, terms(), false);
                Box::new(join.unwrap())
            }
            Algorithm::SplitJoin => Box::new(split_join(windows, how, threads, true, terms())),
            Algorithm::Handshake(algorithm) => {
                let join =
                    SlidingHandshake::<u64>::new(windows, how, algorithm, threads, terms(), false);
                Box::new(join.unwrap())
            }
        }
    }
}

/// Returns the results of a join whose threads keep running. An epoch begins as soon as the join
/// accepts it. `steps` specifies how many times results are taken after each epoch.
fn run_ahead(
    case: &Case,
    rows: &[Row],
    cuts: &[usize],
    steps: &[usize],
    mut join: Box<SlidingJoin>,
) -> Vec<ResultRow> {
    let driver = Driver::new(1, Stop::default());
    let mut results = Vec::new();
    let value = |side: Side, number: u32| {
        let of_side = rows.iter().filter(|row| row.1 == side);
        of_side.map(|row| row.2).nth(number as usize).expect("a row with this number")
    };
    let mut step = |join: &mut SlidingJoin| {
        let scanned = join.compares();
        let keeps = |left: &[u32], right: &[u32]| -> Result<Vec<bool>, FilterError> {
            let verdict = |(&left, &right): (&u32, &u32)| {
                let apart = value(Side::Left, left) - value(Side::Right, right);
                (scanned || apart.abs() <= NEAR)
                    && (!case.with_filter || filtered(left.into(), right.into()))
            };
            Ok(left.iter().zip(right).map(verdict).collect())
        };
        let filter: Option<&Filter<'_>> =
            if case.with_filter || !scanned { Some(&keeps) } else { None };
        let firsts = [join.first(Side::Left), join.first(Side::Right)];
        let found = join.advance(&driver, filter).unwrap().into_results();
        results.extend(named(&found, firsts));
        let now = join.given();
        if now.is_some() {
            results.extend(named(&join.unmatched([now; 2]), firsts));
            join.purge([now; 2]);
        }
    };
    let mut start = 0;
    for (nth, &end) in cuts.iter().chain([&rows.len()]).enumerate() {
        let epoch = &rows[start..end.max(start)];
        while !join.takes_rows() {
            step(&mut *join);
        }
        let has_failed = end > case.fails_at;
        start = end.max(start);
        let (ts, sides) = epoch.iter().map(|row| (row.0, row.1)).unzip();
        let of_epoch = numbers(epoch);
        join.begin(&driver, ts, sides, (!has_failed).then_some(&of_epoch[..]));
        for _ in 0..steps.get(nth).copied().unwrap_or(0) {
            step(&mut *join);
        }
    }
    while !join.is_done() {
        step(&mut *join);
    }
    if join.holds_back() {
        join.flush();
        while !join.is_done() {
            step(&mut *join);
        }
    }
    let firsts = [join.first(Side::Left), join.first(Side::Right)];
    results.extend(named(&join.unmatched([None; 2]), firsts));
    join.purge([None; 2]);
    results
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn oracle_three_steps(
        rows in rows(),
        case in cases(),
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        cuts in prop::collection::vec(0_usize..80, 0..6),
    ) {
        case.assert_right(&rows, &cuts, || algorithm.join(&case))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn oracle_rows_of_several_epochs_are_on_their_way(
        rows in rows(),
        case in cases(),
        algorithm in prop::sample::select(&FREE[..]),
        cuts in prop::collection::vec(0_usize..80, 0..20),
        steps in prop::collection::vec(0_usize..3, 20),
    ) {
        let case = Case { moves: false, ..case };
        let found = run_ahead(&case, &rows, &cuts_of(&rows, &cuts), &steps, algorithm.join(&case));
        let expected = three_steps(&rows, case.windows, case.how, case.with_filter);
        prop_assert_eq!(found, expected, "{:?}", case);
    }
}

#[test]
fn rows_are_compared_while_nobody_takes_results() {
    // Each row meets the last row on the other side. No two rows match, so no thread waits for
    // room.
    let rows: Vec<Row> =
        (0..16).map(|n| (n, [Side::Left, Side::Right][n as usize % 2], n % 2 * 100)).collect();
    let windows = Retention::Rows { left: 1, right: 1 };
    let how = How::Inner;
    let gated = GatedScaleJoin::new(windows, how, 2, true, terms(), false).unwrap();
    compares_by_itself(&rows, Box::new(gated));
    let algorithm = HandshakeAlgorithm::LowLatency;
    let chain = SlidingHandshake::<u64>::new(windows, how, algorithm, 2, terms(), false);
    compares_by_itself(&rows, Box::new(chain.unwrap()));
}

fn compares_by_itself(rows: &[Row], mut join: Box<SlidingJoin>) {
    let driver = Driver::new(1, Stop::default());
    let (ts, sides) = rows.iter().map(|row| (row.0, row.1)).unzip();
    join.begin(&driver, ts, sides, Some(&numbers(rows)));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while join.comparisons().iter().sum::<u64>() < 15 {
        assert!(
            std::time::Instant::now() < until,
            "no row has been compared: {:?}",
            join.comparisons()
        );
        std::thread::yield_now();
    }
    while !join.is_done() {
        assert_eq!(join.advance(&driver, None).unwrap().into_results().left.len(), 0);
    }
}

/// With this many pairs, threads share the comparisons of a step. Epochs with few rows do not
/// produce enough pairs.
#[test]
fn shares_have_equal_work_and_find_the_same() {
    let (rows, case) = many();
    let Case { windows, how, threads, .. } = case;
    let scale = || -> Box<SlidingJoin> {
        let algorithm = ScaleAlgorithm::ScaleJoin;
        Box::new(ScaleJoin::new(windows, how, algorithm, threads, true, terms()))
    };
    let expected = case.run(&rows, &[500, 3000], scale).0;
    for algorithm in [Algorithm::Cell, Algorithm::ScaleGates, Algorithm::SplitJoin] {
        let (found, comparisons) = case.run(&rows, &[500, 3000], || algorithm.join(&case));
        assert!(found == expected, "{algorithm:?}");
        assert_equal_work(&comparisons);
    }
    let three_steps = case.run(&rows, &[500, 3000], || Algorithm::ThreeStep.join(&case)).0;
    assert!(three_steps == expected);
}
