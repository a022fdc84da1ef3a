//! Checks the joins against Kang's three-step procedure, row by row. All algorithms return the same
//! results for any number of threads. These tests also check that the work is balanced between the
//! threads.

use std::ops::Range;

use proptest::prelude::*;
use tidegate_sync::Stop;

use super::SlidingJoin;
use super::scale::{CompareRows, MatchedRow, Part, Processor, ScaleAlgorithm, ScaleJoin};
use crate::driver::{Driver, Stopped};
use crate::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
use crate::rows::{Filter, FilterError, How, NO_ROW, Results, Retention, SavedRows, Side};

mod oracle;

use oracle::{Case, Row, assert_equal_work, cases, many, rows, terms};

/// The assignment of comparisons to threads.
#[derive(Clone, Copy, Debug)]
enum Way {
    Own(ScaleAlgorithm),
    /// One thread compares whole windows.
    Whole,
    /// Each window is divided into one piece per thread.
    Pieces,
    /// Shares compare row by row.
    RowByRow,
}

const WAYS: [Way; 5] = [
    Way::Own(ScaleAlgorithm::ScaleJoin),
    Way::Own(ScaleAlgorithm::Indexed),
    Way::Whole,
    Way::Pieces,
    Way::RowByRow,
];

impl Way {
    fn join(self, case: &Case) -> Box<SlidingJoin> {
        let Case { windows, how, threads, .. } = *case;
        let of_parts = |parts| ScaleJoin::of_parts(windows, how, true, terms(), parts);
        Box::new(match self {
            Way::Own(algorithm) => ScaleJoin::new(windows, how, algorithm, threads, true, terms()),
            Way::Whole => of_parts(vec![Part::of_share(0)]),
            Way::Pieces => {
                of_parts((0..threads).map(|nth| Part::of_window(nth, threads)).collect())
            }
            Way::RowByRow => {
                of_parts((0..threads).map(Part::of_share).collect()).comparing_by(Box::new(InTurn))
            }
        })
    }
}

/// Processors compare rows in turn.
struct InTurn;

impl CompareRows for InTurn {
    fn compare(
        &self,
        rows: Range<usize>,
        _: &[Side],
        mut processors: Vec<Processor<'_>>,
        _: &Driver,
    ) -> Result<Vec<MatchedRow>, Stopped> {
        let mut matches = Vec::new();
        for row in rows {
            for processor in &mut processors {
                matches.push(MatchedRow { row, offsets: processor.process(row) });
            }
        }
        Ok(matches)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn oracle_three_steps(
        rows in rows(),
        case in cases(),
        way in prop::sample::select(&WAYS[..]),
        cuts in prop::collection::vec(0_usize..80, 0..6),
    ) {
        case.assert_right(&rows, &cuts, || way.join(&case))?;
    }
}

#[test]
fn shares_have_equal_work() {
    let (rows, case) = many();
    for way in [Way::Own(ScaleAlgorithm::ScaleJoin), Way::Pieces, Way::RowByRow] {
        assert_equal_work(&case.run(&rows, &[500, 3000], || way.join(&case)).1);
    }
}

#[test]
fn looking_rows_up_finds_what_comparing_does() {
    let side = |n: i64| if n % 5 < 2 { Side::Left } else { Side::Right };
    let rows: Vec<Row> = (0..750).map(|n| (n, side(n), n * 7919 % 997)).collect();
    // Pairs with the last rows, or with all rows once their numbers no longer fit.
    for (windows, fails_at) in [
        (Retention::Time { left: 300, right: 200 }, usize::MAX),
        (Retention::Rows { left: 125, right: 175 }, usize::MAX),
        (Retention::Rows { left: 125, right: 175 }, 450),
    ] {
        for how in [How::Inner, How::Full, How::Semi, How::Anti] {
            for (threads, moves) in [(1, false), (3, true)] {
                let run = |algorithm| {
                    let case = Case { windows, how, threads, with_filter: false, moves, fails_at };
                    let cuts: Vec<usize> = (1..40).map(|nth| nth * 19).collect();
                    case.run(&rows, &cuts, || Way::Own(algorithm).join(&case))
                };
                let (wanted, compared) = run(ScaleAlgorithm::ScaleJoin);
                let (found, looked_at) = run(ScaleAlgorithm::Indexed);
                assert_eq!(found, wanted, "{windows:?} {how:?} {threads}");
                // If a join continues in another one, only the pairs of the last one are counted.
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
