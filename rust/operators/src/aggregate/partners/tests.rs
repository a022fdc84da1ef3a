//! Checks panes and lists against a loop over the partners, with a function that distinguishes
//! every order.

use proptest::prelude::*;
use tidegate_sync::Stop;

use super::*;
use crate::aggregate::{
    Column, ColumnPairs, NumberColumns, OutputValues, RowOrder, STATE_WORDS, UserFunction,
};
use crate::interval::{PartnerColumns, interval_partners};
use crate::matches::BitSet;
use crate::order::JoinColumns;
use crate::rows::{Closed, Interval, NO_KEY};

/// The composition of all rows' functions, where each row represents `x -> a * x + b`. Composing
/// the functions of two rows in the opposite order yields a different function.
struct Composition;

const PRIME: u64 = 1_000_003;

impl UserFunction for Composition {
    type Input = u64;
    type State = (u64, u64);
    type Output = i64;

    const ORDER: RowOrder = RowOrder::Merged;
    const EMPTY: (u64, u64) = (1, 0);

    fn add(state: &mut (u64, u64), value: u64) {
        *state = Self::combine(*state, (value + 2, 7 * value + 3));
    }

    fn combine(earlier: (u64, u64), later: (u64, u64)) -> (u64, u64) {
        (earlier.0 * later.0 % PRIME, (later.0 * earlier.1 + later.1) % PRIME)
    }

    fn finish((a, b): (u64, u64)) -> Option<i64> {
        ((a, b) != Self::EMPTY).then_some((a * PRIME + b) as i64)
    }

    fn to_words((a, b): (u64, u64)) -> [u64; STATE_WORDS] {
        [a, b, 0]
    }

    fn of_words([a, b, _]: [u64; STATE_WORDS]) -> (u64, u64) {
        (a, b)
    }
}

fn values(column: &OutputColumn, rows: usize) -> Vec<Option<i64>> {
    let OutputValues::Integers(values) = &column.values else { unreachable!("whole numbers") };
    let mut found: Vec<Option<i64>> = values[..rows].iter().copied().map(Some).collect();
    column.missing.iter().for_each(|&row| found[row] = None);
    found
}

proptest! {
    #[test]
    fn oracle_partners_one_by_one(
        left in prop::collection::vec((0..60_i64, prop_oneof![0..3_u32, Just(NO_KEY)]), 0..25),
        right in prop::collection::vec((0..60_i64, prop_oneof![0..3_u32, Just(NO_KEY)], any::<bool>()), 0..60),
        (lower, upper) in (prop::option::of(-25..25_i64), prop::option::of(-25..25_i64)),
        (is_sorted, with_keys, prevailing, is_masked) in any::<(bool, bool, bool, bool)>(),
        threads in 1..4_usize,
    ) {
        let (mut left, mut right) = (left, right);
        if is_sorted {
            left.sort_by_key(|row| row.0);
            right.sort_by_key(|row| row.0);
        }
        let prevailing = prevailing && lower.is_some();
        let interval = Interval { lower, upper, closed: Closed::Left };
        let driver = Driver::new(threads, Stop::default());
        let left_ts: Vec<i64> = left.iter().map(|row| row.0).collect();
        let right_ts: Vec<i64> = right.iter().map(|row| row.0).collect();
        let left_keys: Vec<u32> = left.iter().map(|row| row.1).collect();
        let right_keys: Vec<u32> = right.iter().map(|row| row.1).collect();
        let columns = PartnerColumns {
            left: JoinColumns { ts: &left_ts, keys: with_keys.then_some(&left_keys[..]) },
            right: JoinColumns { ts: &right_ts, keys: with_keys.then_some(&right_keys[..]) },
            key_count: 3,
            interval: &interval,
            with_prevailing: prevailing,
        };
        let numbers: Vec<u64> = (0..right.len() as u64).collect();
        let mut mask = BitSet::new(right.len());
        right.iter().enumerate().filter(|(_, row)| row.2).for_each(|(at, _)| mask.insert(at));
        let column = Column { values: &numbers[..], mask: is_masked.then_some(&mask) };
        let aggregates = [Aggregate::user::<Composition>(vec![column])];

        let expected: Vec<Option<i64>> = left.iter().map(|&(ts, key)| {
            let is_of_key = |row: &(i64, u32, bool)| !with_keys || (key != NO_KEY && row.1 == key);
            let mut partners: Vec<(i64, usize)> = Vec::new();
            let mut before: Option<(i64, usize)> = None;
            for (at, row) in right.iter().enumerate().filter(|(_, row)| is_of_key(row)) {
                let distance = row.0 - ts;
                let is_early = lower.is_some_and(|lower| distance < lower);
                if is_early {
                    before = before.max(Some((row.0, at)));
                } else if upper.is_none_or(|upper| distance < upper) {
                    partners.push((row.0, at));
                }
            }
            partners.extend(before.filter(|_| prevailing));
            partners.sort_unstable();
            let mut state = Composition::EMPTY;
            for (_, at) in partners {
                if !is_masked || right[at].2 {
                    Composition::add(&mut state, at as u64);
                }
            }
            Composition::finish(state)
        }).collect();

        let partners = interval_partners(columns, &driver).unwrap();
        let find = || Ok(&partners);
        let functions = PartnerAggregates::new(columns, find, &aggregates, &driver).unwrap();
        prop_assert_eq!(values(&functions.of(0..left.len())[0], left.len()), expected.clone());
        let matches = partners.into_matches();
        let listed = aggregate_matches(&matches, 0..left.len(), Some(&right_ts), &aggregates);
        prop_assert_eq!(values(&listed[0], left.len()), expected);
    }
}

/// Returns the first `rows` values of a column, with floats represented by their bits.
fn shown(column: &OutputColumn, rows: usize) -> Vec<Option<i64>> {
    let mut found: Vec<Option<i64>> = match &column.values {
        OutputValues::Integers(values) => values[..rows].iter().copied().map(Some).collect(),
        OutputValues::Floats(values) => {
            values[..rows].iter().map(|value| Some(value.to_bits().cast_signed())).collect()
        }
        OutputValues::Rows(numbers) => {
            numbers[..rows].iter().map(|&row| Some(row.into())).collect()
        }
        _ => unreachable!("functions of words return no other types"),
    };
    column.missing.iter().for_each(|&row| found[row] = None);
    found
}

proptest! {
    /// Each function is computed twice: in passes and by pane. For the panes, the right rows are
    /// numbered in a different order.
    #[test]
    fn differential_passes_and_panes(
        left in prop::collection::vec((-60..60_i64, prop_oneof![0..3_u32, Just(NO_KEY)]), 0..60),
        right in prop::collection::vec(
            (-60..60_i64, prop_oneof![0..3_u32, Just(NO_KEY)], any::<i8>(), any::<bool>()), 0..90,
        ),
        (lower, length) in (-25..25_i64, 0..40_i64),
        closed in prop::sample::select(vec![Closed::Both, Closed::Left, Closed::Right, Closed::Neither]),
        origin in prop::sample::select(vec![0, 1 << 60, -(1 << 60)]),
        threads in 1..4_usize,
    ) {
        let (mut left, mut right) = (left, right);
        left.sort_by_key(|row| row.0);
        right.sort_by_key(|row| row.0);
        let interval = Interval { lower: Some(lower), upper: Some(lower + length), closed };
        let driver = Driver::new(threads, Stop::default());
        let left_ts: Vec<i64> = left.iter().map(|row| row.0 + origin).collect();
        let left_keys: Vec<u32> = left.iter().map(|row| row.1).collect();
        let of_left = JoinColumns { ts: &left_ts, keys: Some(&left_keys) };
        // For passes, the rows are unchanged. For panes, an additional last row without a key is
        // out of time order.
        let mut found = Vec::new();
        for in_passes in [true, false] {
            let mut right = right.clone();
            if !in_passes {
                right.push((i64::MIN + 1 - origin.min(0), NO_KEY, 0, true));
            }
            let ts: Vec<i64> = right.iter().map(|row| row.0 + origin).collect();
            let keys: Vec<u32> = right.iter().map(|row| row.1).collect();
            let integers: Vec<i64> = right.iter().map(|row| i64::from(row.2)).collect();
            let floats: Vec<f64> = right.iter().map(|row| match row.2 {
                100.. => f64::NAN,
                -100 => -0.0,
                -101 => f64::INFINITY,
                value => 0.1 * 10_f64.powi(i32::from(value) / 6),
            }).collect();
            let mut mask = BitSet::new(right.len());
            right.iter().enumerate().filter(|(_, row)| row.3).for_each(|(at, _)| mask.insert(at));
            let mut aggregates = Vec::new();
            for mask in [None, Some(&mask)] {
                let floats = || vec![Column { values: &floats[..], mask }];
                let integers = || vec![Column { values: &integers[..], mask }];
                aggregates.extend([
                    Aggregate::Count(vec![mask]),
                    Aggregate::Sum(NumberColumns::Floats(floats())),
                    Aggregate::Mean(NumberColumns::Floats(floats())),
                    Aggregate::Sum(NumberColumns::Integers(integers())),
                    Aggregate::Mean(NumberColumns::Integers(integers())),
                    Aggregate::Product(floats()),
                    Aggregate::WeightedMean(ColumnPairs { values: floats(), others: floats() }),
                    Aggregate::Min(integers()),
                    Aggregate::Max(integers()),
                    Aggregate::First(vec![mask]),
                    Aggregate::Last(vec![mask]),
                    Aggregate::Variance(floats()),
                ]);
            }
            let columns = PartnerColumns {
                left: of_left,
                right: JoinColumns { ts: &ts, keys: Some(&keys) },
                key_count: 3,
                interval: &interval,
                with_prevailing: false,
            };
            let is_empty = length == 0 && closed != Closed::Both || length == 1 && closed == Closed::Neither;
            let passes = Passes::new(columns, &mut None, &driver).unwrap();
            prop_assert_eq!(passes.is_some(), in_passes && !is_empty);
            let partners = interval_partners(columns, &driver).unwrap();
            let functions =
                PartnerAggregates::new(columns, || Ok(&partners), &aggregates, &driver).unwrap();
            let all = functions.of(0..left.len());
            found.push(all.iter().map(|column| shown(column, left.len())).collect::<Vec<_>>());
            let matches = partners.into_matches();
            let listed = aggregate_matches(&matches, 0..left.len(), Some(&ts), &aggregates);
            let whole = [0, 3, 4, 7, 8, 9, 10, 12, 15, 16, 19, 20, 21, 22];
            for at in whole {
                prop_assert_eq!(shown(&listed[at], left.len()), found[found.len() - 1][at].clone(), "{}", at);
            }
        }
        prop_assert_eq!(&found[0], &found[1]);
    }
}

proptest! {
    /// Each function is computed twice: in passes over numbered rows and by pane. The left rows are
    /// copied for the panes, because passes over numbered rows apply only if both sides are the
    /// same rows.
    #[test]
    fn differential_passes_over_numbered_rows_and_panes(
        rows in prop::collection::vec((0..3_u32, any::<i8>(), any::<bool>()), 0..60),
        size in 1..9_i64,
        with_keys in any::<bool>(),
        threads in 1..4_usize,
    ) {
        let driver = Driver::new(threads, Stop::default());
        let interval = Interval { lower: Some(-size), upper: Some(0), closed: Closed::Right };
        let keys: Vec<u32> = rows.iter().map(|row| row.0).collect();
        let mut next = [0_i64; 3];
        let number = |row: &(u32, i8, bool)| {
            let next = &mut next[if with_keys { row.0 as usize } else { 0 }];
            *next += 1;
            *next - 1
        };
        let ts: Vec<i64> = rows.iter().map(number).collect();
        let floats: Vec<f64> = rows.iter().map(|row| match row.1 {
            100.. => f64::NAN,
            -100 => -0.0,
            value => 0.1 * 10_f64.powi(i32::from(value) / 6),
        }).collect();
        let integers: Vec<i64> = rows.iter().map(|row| i64::from(row.1)).collect();
        let mut mask = BitSet::new(rows.len());
        rows.iter().enumerate().filter(|(_, row)| row.2).for_each(|(at, _)| mask.insert(at));
        let mut aggregates = Vec::new();
        for mask in [None, Some(&mask)] {
            let floats = || vec![Column { values: &floats[..], mask }];
            let integers = || vec![Column { values: &integers[..], mask }];
            aggregates.extend([
                Aggregate::Count(vec![mask]),
                Aggregate::Sum(NumberColumns::Floats(floats())),
                Aggregate::Mean(NumberColumns::Integers(integers())),
                Aggregate::WeightedMean(ColumnPairs { values: floats(), others: floats() }),
                Aggregate::Min(integers()),
                Aggregate::Max(integers()),
                Aggregate::Variance(floats()),
            ]);
        }
        let (left_ts, left_keys) = (ts.clone(), keys.clone());
        let right = JoinColumns { ts: &ts, keys: with_keys.then_some(&keys[..]) };
        let copied = JoinColumns { ts: &left_ts, keys: with_keys.then_some(&left_keys[..]) };
        let mut found = Vec::new();
        for left in [right, copied] {
            let columns = PartnerColumns {
                left, right, key_count: 3, interval: &interval, with_prevailing: false,
            };
            prop_assert_eq!(
                RowPasses::new(columns, &driver).unwrap().is_some(),
                rows.is_empty() || std::ptr::eq(left.ts, &ts[..])
            );
            let partners = interval_partners(columns, &driver).unwrap();
            let functions =
                PartnerAggregates::new(columns, || Ok(&partners), &aggregates, &driver).unwrap();
            let all = functions.of(0..rows.len());
            found.push(all.iter().map(|column| shown(column, rows.len())).collect::<Vec<_>>());
        }
        prop_assert_eq!(&found[0], &found[1]);
    }
}

/// Returns the functions that the tests of several intervals compute, and a mask for some of them.
fn some_functions<'a>(
    floats: &'a [f64],
    integers: &'a [i64],
    mask: &'a BitSet,
    chosen: u8,
) -> Vec<Aggregate<'a>> {
    let floats = |mask| vec![Column { values: floats, mask }];
    let integers = |mask| vec![Column { values: integers, mask }];
    let all = vec![
        Aggregate::Count(vec![None]),
        Aggregate::Sum(NumberColumns::Floats(floats(None))),
        Aggregate::Mean(NumberColumns::Floats(floats(Some(mask)))),
        Aggregate::Sum(NumberColumns::Integers(integers(None))),
        Aggregate::Max(integers(None)),
        Aggregate::Last(vec![None]),
        Aggregate::First(vec![Some(mask)]),
        Aggregate::Variance(floats(None)),
    ];
    all.into_iter()
        .enumerate()
        .filter(|(at, _)| chosen >> at & 1 == 1)
        .map(|(_, one)| one)
        .collect()
}

proptest! {
    /// Functions of several intervals are folded both together and one interval at a time.
    #[test]
    fn differential_intervals_together_and_alone(
        left in prop::collection::vec((-60..60_i64, prop_oneof![0..3_u32, Just(NO_KEY)]), 0..60),
        right in prop::collection::vec(
            (-60..60_i64, prop_oneof![0..3_u32, Just(NO_KEY)], any::<i8>(), any::<bool>()), 0..200,
        ),
        intervals in prop::collection::vec(
            (prop::option::weighted(0.8, -25..9_i64), prop::option::weighted(0.8, 0..40_i64), any::<u8>()), 1..7,
        ),
        same in any::<bool>(),
        threads in 1..4_usize,
    ) {
        let (mut left, mut right) = (left, right);
        left.sort_by_key(|row| row.0);
        right.sort_by_key(|row| row.0);
        let driver = Driver::new(threads, Stop::default());
        let left_ts: Vec<i64> = left.iter().map(|row| row.0).collect();
        let left_keys: Vec<u32> = left.iter().map(|row| row.1).collect();
        let ts: Vec<i64> = right.iter().map(|row| row.0).collect();
        let keys: Vec<u32> = right.iter().map(|row| row.1).collect();
        let integers: Vec<i64> = right.iter().map(|row| i64::from(row.2)).collect();
        let floats: Vec<f64> = right.iter().map(|row| 0.1 * 10_f64.powi(i32::from(row.2) / 6)).collect();
        let mut mask = BitSet::new(right.len());
        right.iter().enumerate().filter(|(_, row)| row.3).for_each(|(at, _)| mask.insert(at));
        let chosen = intervals[0].2;
        let of_intervals: Vec<(Interval, Vec<Aggregate<'_>>)> = intervals.iter().map(|&(lower, length, own)| {
            let upper = length.map(|length| lower.unwrap_or(-20) + length);
            let functions = some_functions(&floats, &integers, &mask, if same { chosen } else { own });
            (Interval { lower, upper, closed: Closed::Both }, functions)
        }).collect();
        let columns = |interval| PartnerColumns {
            left: JoinColumns { ts: &left_ts, keys: Some(&left_keys) },
            right: JoinColumns { ts: &ts, keys: Some(&keys) },
            key_count: 3,
            interval,
            with_prevailing: false,
        };
        let together: Vec<_> =
            of_intervals.iter().map(|(interval, functions)| (columns(interval), &functions[..])).collect();
        let together = fold_intervals(&together, &driver).unwrap();
        for ((interval, functions), folded) in of_intervals.iter().zip(together) {
            let partners = interval_partners(columns(interval), &driver).unwrap();
            let find = || Ok(&partners);
            let together = PartnerAggregates::of_interval(folded, find, functions, &driver).unwrap();
            let alone = PartnerAggregates::new(columns(interval), find, functions, &driver).unwrap();
            let [together, alone] = [together, alone].map(|functions| {
                let all = functions.of(0..left.len());
                all.iter().map(|column| shown(column, left.len())).collect::<Vec<_>>()
            });
            prop_assert_eq!(together, alone, "{:?}", interval);
        }
    }
}
