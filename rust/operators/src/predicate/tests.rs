//! Checks windows against a loop over all pairs. For each pair, the loop evaluates the expression
//! in the type of the relation. These tests check only that the search finds the correct rows, not
//! that it is fast.

use std::ops::Range;

use super::{
    Constraint, Index, News, Numbers, Operand, Order, Ranges, Relation, ScanColumns, Term,
};
use crate::driver::Driver;
use crate::rows::Side;
use proptest::prelude::*;
use tidegate_sync::Stop;

/// The number of rows per side. This number exceeds both the tile size and the size of a group of
/// new rows.
const ROWS: usize = 150;

/// Generates a column with many equal numbers. Some numbers are the minimum or maximum of their
/// type.
fn operand() -> impl Strategy<Value = Operand> {
    let whole =
        prop_oneof![40 => -30_i64..30, 1 => any::<i64>(), 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
    let float = prop_oneof![40 => (-30_i64..30).prop_map(|n| n as f64 / 2.0), 1 => any::<f64>(), 1 => Just(f64::NAN)];
    let narrow = prop_oneof![60 => -30_i32..30, 1 => any::<i32>()];
    let numbers = prop_oneof![
        prop::collection::vec(narrow, ROWS).prop_map(Numbers::I32),
        prop::collection::vec(-30_i64..30, ROWS).prop_map(Numbers::I64),
        prop::collection::vec(whole, ROWS).prop_map(Numbers::I64),
        prop::collection::vec(float.clone(), ROWS).prop_map(Numbers::F64),
        prop::collection::vec(float, ROWS)
            .prop_map(|values| Numbers::F32(values.iter().map(|&v| v as f32).collect())),
    ];
    (numbers, prop::option::weighted(0.3, prop::collection::vec(0..ROWS, 0..20))).prop_map(
        |(numbers, missing)| {
            let set = |rows: Vec<usize>| {
                let mut set = vec![false; ROWS];
                rows.into_iter().for_each(|row| set[row] = true);
                set
            };
            Operand::new(numbers, missing.map(set))
        },
    )
}

/// The operation that combines two numbers before they are compared.
#[derive(Clone, Copy, Debug)]
enum Form {
    Compare,
    Sum,
    Difference,
}

fn constraint() -> impl Strategy<Value = (Form, Order, i32, i32)> {
    let order = prop::sample::select(vec![
        Order::Less,
        Order::LessOrEqual,
        Order::Greater,
        Order::GreaterOrEqual,
    ]);
    let form = prop::sample::select(vec![Form::Compare, Form::Sum, Form::Difference]);
    (form, order, -20..20, -20..20)
}

/// Returns a relation with the given constraints. The constraints are computed in integers if both
/// columns are integers.
fn relation(left: &Operand, right: &Operand, constraints: &[(Form, Order, i32, i32)]) -> Relation {
    fn of<W: From<i32>>(&(form, order, a, b): &(Form, Order, i32, i32)) -> Constraint<W> {
        match form {
            Form::Compare => {
                Constraint::Compare { left_plus: a.into(), order, right_plus: b.into() }
            }
            Form::Sum => Constraint::Sum { order, than: a.into() },
            Form::Difference => Constraint::Difference { order, than: a.into() },
        }
    }
    let whole = |operand: &Operand| matches!(operand.numbers, Numbers::I32(_) | Numbers::I64(_));
    match whole(left) && whole(right) {
        true => Relation::Whole(constraints.iter().map(of).collect()),
        false => Relation::Float(constraints.iter().map(of).collect()),
    }
}

fn term() -> impl Strategy<Value = Term> {
    (operand(), operand(), prop::collection::vec(constraint(), 1..3)).prop_filter_map(
        "no overflow",
        |(l, r, all)| {
            let relation = relation(&l, &r, &all);
            Term::new(l, r, relation)
        },
    )
}

/// Evaluates a term literally. Returns whether a pair satisfies the term.
fn matches(term: &Term, left: usize, right: usize) -> bool {
    fn compare<W: PartialOrd>(order: Order, a: W, b: W) -> bool {
        match order {
            Order::Less => a < b,
            Order::LessOrEqual => a <= b,
            Order::Greater => a > b,
            Order::GreaterOrEqual => a >= b,
        }
    }
    if !term.left.compares(left) || !term.right.compares(right) {
        return false;
    }
    let float = |operand: &Operand, row: usize| match &operand.numbers {
        Numbers::I32(values) => f64::from(values[row]),
        Numbers::I64(values) => values[row] as f64,
        Numbers::F32(values) => f64::from(values[row]),
        Numbers::F64(values) => values[row],
    };
    let whole = |operand: &Operand, row: usize| match &operand.numbers {
        Numbers::I32(values) => i64::from(values[row]),
        Numbers::I64(values) => values[row],
        Numbers::F32(_) | Numbers::F64(_) => {
            unreachable!("integer arithmetic needs integer columns")
        }
    };
    match &term.relation {
        Relation::Whole(all) => all.iter().all(|one| {
            let (l, r) = (whole(&term.left, left), whole(&term.right, right));
            match *one {
                Constraint::Compare { left_plus, order, right_plus } => {
                    compare(order, l + left_plus, r + right_plus)
                }
                Constraint::Sum { order, than } => compare(order, l + r, than),
                Constraint::Difference { order, than } => compare(order, l - r, than),
            }
        }),
        Relation::Float(all) => all.iter().all(|one| {
            let (l, r) = (float(&term.left, left), float(&term.right, right));
            match *one {
                Constraint::Compare { left_plus, order, right_plus } => {
                    compare(order, l + left_plus, r + right_plus)
                }
                Constraint::Sum { order, than } => compare(order, l + r, than),
                Constraint::Difference { order, than } => compare(order, l - r, than),
            }
        }),
    }
}

/// Splits an operand into its first `at` rows and the remaining rows.
fn cut(operand: &Operand, at: usize) -> [Operand; 2] {
    let part = |rows: Range<usize>| {
        let numbers = match &operand.numbers {
            Numbers::I32(values) => Numbers::I32(values[rows.clone()].to_vec()),
            Numbers::I64(values) => Numbers::I64(values[rows.clone()].to_vec()),
            Numbers::F32(values) => Numbers::F32(values[rows.clone()].to_vec()),
            Numbers::F64(values) => Numbers::F64(values[rows.clone()].to_vec()),
        };
        let is_nan = |row: usize| {
            matches!(&operand.numbers, Numbers::F32(values) if values[row].is_nan())
                || matches!(&operand.numbers, Numbers::F64(values) if values[row].is_nan())
        };
        let missing: Vec<bool> = rows.map(|row| !operand.compares(row) && !is_nan(row)).collect();
        Operand::new(numbers, missing.contains(&true).then_some(missing))
    };
    [part(0..at), part(at..ROWS)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn oracle_a_window_of_all_rows(
        whole in prop::collection::vec(term(), 1..3),
        at in 0..ROWS,
        gone in 0..ROWS / 4,
        new in prop::sample::select(vec![Side::Left, Side::Right]),
        tuned in any::<bool>(),
    ) {
        // Rows that arrive later fit in a window, regardless of the rows for which it was created.
        let cuts: Vec<_> = whole.iter().map(|term| (cut(&term.left, at), cut(&term.right, at))).collect();
        let mut terms = Vec::new();
        for (term, (left, right)) in whole.iter().zip(&cuts) {
            let Some(term) = Term::new(left[0].clone(), right[0].clone(), term.relation.clone()) else { return Ok(()) };
            terms.push(term);
        }
        let side = new.other();
        let Some(mut window) = ScanColumns::new(&terms, side, None, at) else { return Ok(()) };
        if tuned {
            window.tune(&terms, side, None, at);
        }
        for (term, (left, right)) in terms.iter_mut().zip(&cuts) {
            prop_assert!(term.append(&left[1], &right[1]), "the whole term fits");
        }
        let rows: Vec<u32> = (at as u32..ROWS as u32).collect();
        if !window.append(&terms, side, &rows) {
            let Some(anew) = ScanColumns::new(&terms, side, None, ROWS) else { return Ok(()) };
            window = anew;
        }
        // The side of the new rows loses some of its rows, which must not change the results.
        let first = gone.min(at);
        terms.iter_mut().for_each(|term| term.drop_front(new, first));
        let ranges = Ranges::new(&window, &terms, new, 0..ROWS - first);
        let mut found = vec![Vec::new(); ROWS - first];
        window.find(&ranges, &vec![0..ROWS as u32; ROWS - first], &mut found);
        for row in first..ROWS {
            let matches = |&place: &u32| {
                let (left, right) = if new == Side::Left { (row, place as usize) } else { (place as usize, row) };
                whole.iter().all(|term| matches(term, left, right))
            };
            let expected: Vec<u32> = (0..ROWS as u32).filter(matches).collect();
            prop_assert_eq!(&found[row - first], &expected, "row {} by {}", row, window.compared_by());
        }
    }

    #[test]
    fn oracle_every_pair(
        terms in prop::collection::vec(term(), 0..4),
        runs in prop::collection::vec((0..ROWS as u32, 0..ROWS as u32), ROWS),
        slide in any::<bool>(),
        order in prop::option::of(Just((0..ROWS as u32).collect::<Vec<_>>()).prop_shuffle()),
        new in prop::sample::select(vec![Side::Left, Side::Right]),
        tuned in any::<bool>(),
        shift in prop::option::of(0..9_u32),
        (threads, grows) in (1..4_usize, any::<bool>()),
    ) {
        // Sliding runs are like those of windows; the others are like those of keys.
        let run = |(row, &(a, b)): (u32, &(u32, u32))| match slide {
            true => row.saturating_sub(60 + a % 3)..(row + b % 3).min(ROWS as u32),
            false => a.min(b)..a.max(b).min(a.min(b) + 20),
        };
        let runs: Vec<Range<u32>> = (0..).zip(&runs).map(run).collect();
        let Some(mut window) = ScanColumns::new(&terms, new.other(), order.as_deref(), ROWS) else { return Ok(()) };
        if tuned {
            window.tune(&terms, new.other(), order.as_deref(), ROWS);
        }
        let ranges = Ranges::new(&window, &terms, new, 0..ROWS);
        let mut found = vec![Vec::new(); ROWS];
        match shift.filter(|_| !terms.is_empty()) {
            None => window.find(&ranges, &runs, &mut found),
            Some(shift) => {
                let mut index = Index::new(&window, shift);
                match grows {
                    true => index.grow(&window),
                    false => index.extend(&window, ROWS, &driver(threads)).unwrap(),
                }
                index.find(&window, &ranges, &runs, &mut found);
            }
        }
        for row in 0..ROWS {
            let matches = |place: u32| {
                let other = order.as_ref().map_or(place, |order| order[place as usize]) as usize;
                let (left, right) = if new == Side::Left { (row, other) } else { (other, row) };
                terms.iter().all(|term| matches(term, left, right))
            };
            let expected: Vec<u32> = runs[row].clone().filter(|&place| matches(place)).collect();
            prop_assert_eq!(&found[row], &expected, "row {} by {}", row, window.compared_by());
        }
    }
}

fn driver(threads: usize) -> Driver {
    Driver::new(threads, Stop::default())
}

/// Returns numbers that are evenly distributed from 0 to 10 000, as in the papers' benchmark.
fn spread(step: usize) -> Numbers {
    Numbers::I64((0..4096).map(|row| (row * step % 10_000) as i64).collect())
}

fn band(left: Numbers, right: Numbers, within: i64) -> Term {
    let relation = Relation::Whole(vec![
        Constraint::Difference { order: Order::LessOrEqual, than: within },
        Constraint::Difference { order: Order::GreaterOrEqual, than: -within },
    ]);
    Term::new(Operand::new(left, None), Operand::new(right, None), relation).unwrap()
}

#[test]
fn codes_are_used_where_they_leave_few_pairs() {
    // A number far from the others leaves only these few codes.
    let far = |numbers: Numbers, far: i64| match numbers {
        Numbers::I64(mut values) => {
            values.extend([far; 4]);
            Numbers::I64(values)
        }
        _ => unreachable!("whole numbers"),
    };
    for (within, last, expected) in
        [(10, 0, "bitmaps"), (10, 3_000_000, "16-bit codes"), (4_000, 0, "32-bit numbers")]
    {
        let spread = |step| far(spread(step), last);
        let terms =
            [band(spread(7919), spread(6007), within), band(spread(4813), spread(3571), within)];
        let mut window = ScanColumns::new(&terms, Side::Right, None, 4096).unwrap();
        window.tune(&terms, Side::Right, None, 4096);
        assert_eq!(window.compared_by(), expected, "within {within}");
    }
}

#[test]
fn the_term_that_leaves_the_fewest_rows_is_compared_first() {
    let terms = [
        band(spread(7919), spread(6007), 9_000),
        band(spread(4813), spread(3571), 1),
        band(spread(6007), spread(3571), 500),
    ];
    let mut window = ScanColumns::new(&terms, Side::Right, None, 4096).unwrap();
    window.tune(&terms, Side::Right, None, 4096);
    assert_eq!(window.columns().iter().map(|column| column.term).collect::<Vec<_>>(), [1, 2, 0]);
}

#[test]
fn rows_are_looked_up_where_windows_are_long_and_few_pairs_pass() {
    const ROWS: u32 = 1 << 15;
    let values = |step: i64| {
        Numbers::I64((0..i64::from(ROWS)).map(|row| row * step % i64::from(ROWS)).collect())
    };
    let chosen = |within: i64, length: u32| {
        let terms = [band(values(7919), values(6007), within)];
        let mut window = ScanColumns::new(&terms, Side::Right, None, ROWS as usize).unwrap();
        window.tune(&terms, Side::Right, None, ROWS as usize);
        let run = |row: usize| (row as u32).saturating_sub(length)..row as u32;
        let news = News { side: Side::Left, rows: ROWS as usize, is_growing: false };
        Index::choose(&window, &terms, news, run, &driver(1)).unwrap().is_some()
    };
    assert!(chosen(1, ROWS), "few pairs pass");
    assert!(!chosen(30_000, ROWS), "most pairs pass");
    assert!(!chosen(1, 2), "windows are short");
}
