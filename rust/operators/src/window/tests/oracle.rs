//! Checks sliding-window joins against Kang's three-step procedure, row by row. The tests of the
//! published joins, which are in another crate, include this file as well. The enclosing module
//! imports the names used here.

use proptest::prelude::*;

use super::{
    Constraint, Driver, Filter, FilterError, How, NO_ROW, Numbers, Operand, Order, Relation,
    Results, Retention, SavedRows, Side, SlidingJoin, Stop, Term,
};

/// The time, side and value of a row. The values of two matching rows must be close to each other.
pub(crate) type Row = (i64, Side, i64);

/// A result row, as the numbers of the left row and the right row, if present.
pub(crate) type ResultRow = (Option<u64>, Option<u64>);

/// A row in a window: its number, its time, its value, and a flag that is `true` if the row has
/// been matched.
type InWindow = (u64, i64, i64, bool);

/// The maximum difference between matching values.
pub(crate) const NEAR: i64 = 2;

/// Returns whether a pair passes the additional filter: the sum of the two row numbers must not be
/// a multiple of 3.
pub(crate) fn filtered(left: u64, right: u64) -> bool {
    !(left + right).is_multiple_of(3)
}

/// Computes the results for rows in merged order with the three-step procedure. Unmatched rows
/// appear at the positions where a join emits them.
pub(crate) fn three_steps(
    rows: &[Row],
    windows: Retention,
    how: How,
    with_filter: bool,
) -> Vec<ResultRow> {
    let (mut kept, mut counts): ([Vec<InWindow>; 2], _) = ([Vec::new(), Vec::new()], [0_u64; 2]);
    // Rows that have left a row-based window, with the time and side of the row that displaced
    // them. They are emitted after the pairs of that row.
    let mut left_at: Vec<(i64, Side, InWindow)> = Vec::new();
    let mut results: Vec<ResultRow> = Vec::new();
    // How long a row stays, in the window's unit, and the removal of a row.
    let stays = |side: Side| windows.length(side) as i64;
    let leave = |side: Side, row: InWindow, results: &mut Vec<ResultRow>| match side {
        Side::Left if !row.3 && (how.keeps_left() || how == How::Anti) => {
            results.push((Some(row.0), None))
        }
        Side::Right if !row.3 && how.keeps_right() => results.push((None, Some(row.0))),
        _ => {}
    };
    for &(ts, side, value) in rows {
        // 1. Rows leave in order of their end times, then in merged order.
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
        // 2. The row scans the other window and then enters its own.
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
    // 3. At the end, all remaining rows leave.
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

pub(crate) fn numbers(rows: &[Row]) -> Vec<(Operand, Operand)> {
    let of = |side: Side| {
        let values = rows.iter().filter(|row| row.1 == side).map(|row| row.2).collect();
        Operand::new(Numbers::I64(values), None)
    };
    vec![(of(Side::Left), of(Side::Right))]
}

/// Returns the condition that all tested joins use. The condition does not contain any rows yet.
pub(crate) fn terms() -> Vec<Term> {
    vec![near(Numbers::I64(Vec::new()), Numbers::I64(Vec::new()))]
}

/// The parameters of one test case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) windows: Retention,
    pub(crate) how: How,
    pub(crate) threads: usize,
    pub(crate) with_filter: bool,
    /// `true` if the join is replaced between epochs by another one that receives its kept rows.
    pub(crate) moves: bool,
    /// Starting with the epoch that contains this row, the terms can no longer be scanned.
    pub(crate) fails_at: usize,
}

impl Case {
    /// Asserts that a join returns the same rows as the three-step procedure.
    pub(crate) fn assert_right(
        &self,
        rows: &[Row],
        cuts: &[usize],
        made: impl Fn() -> Box<SlidingJoin>,
    ) -> Result<(), TestCaseError> {
        let expected = three_steps(rows, self.windows, self.how, self.with_filter);
        let cuts = cuts_of(rows, cuts);
        prop_assert_eq!(self.run(rows, &cuts, made).0, expected, "{:?}", self);
        Ok(())
    }

    /// Cuts the rows into epochs, and returns the join's results and the number of comparisons per
    /// thread.
    pub(crate) fn run(
        &self,
        rows: &[Row],
        cuts: &[usize],
        made: impl Fn() -> Box<SlidingJoin>,
    ) -> (Vec<ResultRow>, Vec<u64>) {
        let driver = Driver::new(self.threads, Stop::default());
        let mut join = made();
        let mut results = Vec::new();
        // For each side, the number of the first row that the current join received.
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
            // A join that has dropped its terms leaves all comparisons to the filter.
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
            let drain = |join: &mut SlidingJoin, results: &mut Vec<ResultRow>| {
                let firsts = [base[0] + join.first(Side::Left), base[1] + join.first(Side::Right)];
                while !join.is_done() {
                    let found = join.advance(&driver, filter).unwrap().into_results();
                    results.extend(named(&found, firsts));
                }
                let now = epoch.last().map(|row| row.0);
                if now.is_some() {
                    results.extend(named(&join.unmatched([now; 2]), firsts));
                    join.purge([now; 2]);
                }
            };
            drain(&mut *join, &mut results);
            let moves = self.moves && !epoch.is_empty();
            let flushes = (moves || nth == cuts.len()) && join.holds_back();
            if flushes {
                join.flush();
                drain(&mut *join, &mut results);
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
                // The other join numbers the kept rows from 0.
                let mut other = made();
                for side in [Side::Left, Side::Right] {
                    base[side as usize] += join.first(side);
                }
                let kept = [Side::Left, Side::Right].map(|side| {
                    let (matched, settled) = join.matched(side);
                    SavedRows { ts: ts[side as usize].clone(), matched, settled }
                });
                other.restore(&kept, scanned.then_some(&of_kept[..]));
                scanned = other.compares();
                join = other;
            }
        }
        let firsts = [base[0] + join.first(Side::Left), base[1] + join.first(Side::Right)];
        results.extend(named(&join.unmatched([None; 2]), firsts));
        join.purge([None; 2]);
        assert_eq!(
            (join.rows(Side::Left), join.rows(Side::Right)),
            (0, 0),
            "nothing is kept at the end"
        );
        (results, join.comparisons())
    }
}

/// Returns results as row numbers.
pub(crate) fn named(results: &Results, firsts: [u64; 2]) -> Vec<ResultRow> {
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

/// Returns the positions at which rows are cut into epochs.
pub(crate) fn cuts_of(rows: &[Row], cuts: &[usize]) -> Vec<usize> {
    let mut cuts: Vec<usize> = cuts.iter().map(|&cut| cut.min(rows.len())).collect();
    cuts.sort_unstable();
    cuts
}

pub(crate) fn rows() -> impl Strategy<Value = Vec<Row>> {
    let side = prop::sample::select(vec![Side::Left, Side::Right]);
    prop::collection::vec((0_i64..3, side, 0_i64..6), 0..80).prop_map(|steps| {
        let mut ts = 0;
        let mut rows: Vec<Row> = Vec::new();
        for (step, side, value) in steps {
            ts += step;
            rows.push((ts, side, value));
        }
        // In merged order, left rows precede right rows with the same time.
        rows.sort_by_key(|row| (row.0, row.1 as usize));
        rows
    })
}

/// Generates test cases that use only a few threads.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let hows = vec![How::Inner, How::Left, How::Right, How::Full, How::Semi, How::Anti];
    let windows = (0_u64..7, 0_u64..7, any::<bool>()).prop_map(|(left, right, by_time)| {
        if by_time {
            Retention::Time { left, right }
        } else {
            Retention::Rows { left: left.max(1), right: right.max(1) }
        }
    });
    let fails_at = prop_oneof![4 => Just(usize::MAX), 1 => 0_usize..80];
    let how = prop::sample::select(hows);
    (windows, how, 1_usize..5, any::<bool>(), any::<bool>(), fails_at).prop_map(
        |(windows, how, threads, with_filter, moves, fails_at)| Case {
            windows,
            how,
            threads,
            with_filter,
            moves,
            fails_at,
        },
    )
}

/// Returns rows and a case in which threads compare many pairs. The sides alternate with a period
/// that shares a divisor with the number of threads.
pub(crate) fn many() -> (Vec<Row>, Case) {
    let side = |n: i64| if n % 6 == 0 { Side::Left } else { Side::Right };
    let rows = (0..4000).map(|n| (n, side(n), n % 97)).collect();
    let windows = Retention::Time { left: 1000, right: 1000 };
    let (how, moves, with_filter) = (How::Inner, false, false);
    (rows, Case { windows, how, threads: 4, with_filter, moves, fails_at: usize::MAX })
}

/// Asserts that all of a join's threads have performed about the same number of comparisons.
pub(crate) fn assert_equal_work(comparisons: &[u64]) {
    let (least, most) = (comparisons.iter().min().unwrap(), comparisons.iter().max().unwrap());
    assert!(most - least <= most / 50, "{comparisons:?}");
}
