//! Checks functions over all values against sorted copies of the values.

use proptest::prelude::*;
use tidegate_sync::Stop;

use super::*;
use crate::interval::{PartnerColumns, interval_partners};
use crate::order::JoinColumns;
use crate::rows::{Closed, Interval, NO_KEY};

/// Returns the values of a column, with `None` for missing values.
fn found(column: &OutputColumn, rows: usize) -> Vec<Option<f64>> {
    let mut found: Vec<Option<f64>> = match &column.values {
        OutputValues::Floats(values) => values[..rows].iter().copied().map(Some).collect(),
        OutputValues::Integers(values) => {
            values[..rows].iter().map(|&value| Some(value as f64)).collect()
        }
        _ => unreachable!("numbers"),
    };
    column.missing.iter().for_each(|&row| found[row] = None);
    found
}

/// Computes a quantile by its definition.
fn quantile(mut values: Vec<f64>, Quantile { share, interpolation }: Quantile) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)? as f64;
    let place = last * share;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    Some(match interpolation {
        Interpolation::Linear if low == high => low,
        Interpolation::Linear => low + (high - low) * place.fract(),
        Interpolation::Nearest => values[place.round() as usize],
        Interpolation::Lower => low,
        Interpolation::Higher => high,
        Interpolation::Midpoint => f64::midpoint(low, high),
    })
}

fn distinct(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.dedup();
    values.len() as f64
}

proptest! {
    #[test]
    fn oracle_sorted_values(
        left in prop::collection::vec((0..60_i64, prop_oneof![0..3_u32, Just(NO_KEY)]), 0..40),
        right in prop::collection::vec(
            (0..60_i64, prop_oneof![0..3_u32, Just(NO_KEY)], -4..9_i8, any::<bool>()), 0..60),
        (lower, upper) in (prop::option::of(-25..25_i64), prop::option::of(-25..25_i64)),
        (share, interpolation) in (
            prop_oneof![Just(0.0), Just(0.5), Just(1.0), 0.0..1.0],
            prop_oneof![
                Just(Interpolation::Linear), Just(Interpolation::Nearest),
                Just(Interpolation::Lower), Just(Interpolation::Higher),
                Just(Interpolation::Midpoint),
            ],
        ),
        (is_keyed, is_masked, is_sorted, prevails) in any::<(bool, bool, bool, bool)>(),
        threads in 1..3_usize,
    ) {
        let (mut left, mut right) = (left, right);
        if is_sorted {
            left.sort_by_key(|row| row.0);
            right.sort_by_key(|row| row.0);
        }
        let driver = Driver::new(threads, Stop::default());
        let prevails = prevails && lower.is_some();
        let (ts, keys): (Vec<i64>, Vec<u32>) = left.iter().copied().unzip();
        let right_ts: Vec<i64> = right.iter().map(|row| row.0).collect();
        let right_keys: Vec<u32> = right.iter().map(|row| row.1).collect();
        let interval = Interval { lower, upper, closed: Closed::Both };
        let columns = PartnerColumns {
            left: JoinColumns { ts: &ts, keys: is_keyed.then_some(&keys) },
            right: JoinColumns { ts: &right_ts, keys: is_keyed.then_some(&right_keys) },
            key_count: 3,
            interval: &interval,
            with_prevailing: prevails,
        };
        let partners = interval_partners(columns, &driver).unwrap();

        let floats: Vec<f64> = right.iter().map(|row| f64::from(row.2)).collect();
        let integers: Vec<i64> = right.iter().map(|row| i64::from(row.2)).collect();
        let mut mask = BitSet::new(right.len());
        right.iter().enumerate().filter(|(_, row)| row.3).for_each(|(at, _)| mask.insert(at));
        let mask = is_masked.then_some(&mask);
        let which = Quantile { share, interpolation };
        let values = vec![Column { values: &floats[..], mask }];
        // Another quantile of these values, and the same quantile of all values.
        let other_which = Quantile { share: 1.0 - share * share, ..which };
        let others = AllValues::Quantile { values: values.clone(), quantile: other_which };
        let unmasked = vec![Column { values: &floats[..], mask: None }];
        let of_all_rows = AllValues::Quantile { values: unmasked, quantile: which };
        let quantiles = AllValues::Quantile { values, quantile: which };
        let distincts = AllValues::Distinct(vec![Column { values: &integers[..], mask }]);
        let rows = AllValues::Rows { masks: vec![mask], list: RowList::All };
        let most = 1 + (share * 5.0) as usize;
        let column = vec![Column { values: &integers[..], mask }];
        let largest = AllValues::Largest { values: column, most };

        // The partners of each left row, ordered by time and number.
        let mut expected = Vec::new();
        for (ts, key) in &left {
            let is_key = |other: u32| !is_keyed || (*key != NO_KEY && *key == other);
            let mut all: Vec<(i64, usize)> = Vec::new();
            let mut before = None;
            for (at, row) in right.iter().enumerate().filter(|(_, row)| is_key(row.1)) {
                let distance = row.0 - ts;
                if lower.is_some_and(|lower| distance < lower) {
                    before = before.max(Some((row.0, at)));
                } else if upper.is_none_or(|upper| distance <= upper) {
                    all.push((row.0, at));
                }
            }
            all.extend(before.filter(|_| prevails));
            all.sort_unstable();
            let numbers = all.into_iter().map(|(_, at)| at);
            expected.push(numbers.filter(|&at| !is_masked || right[at].3).collect::<Vec<_>>());
        }
        let of = |rows: &[usize]| rows.iter().map(|&row| floats[row]).collect::<Vec<_>>();
        let expected_quantiles: Vec<_> =
            expected.iter().map(|rows| quantile(of(rows), which)).collect();
        let expected_distinct: Vec<_> =
            expected.iter().map(|rows| Some(distinct(of(rows)))).collect();

        let all = 0..left.len();
        let functions = [
            of_all_rows.clone(), quantiles.clone(), distincts.clone(), rows.clone(), others.clone(),
            largest.clone(),
        ];
        let of_functions =
            PartnerValues::new(&partners, &functions, &driver).unwrap().of(all.clone());
        let [unmasked, a, b, c, others, d] = <[_; 6]>::try_from(of_functions).unwrap();
        let expected_others: Vec<_> =
            expected.iter().map(|rows| quantile(of(rows), other_which)).collect();
        prop_assert_eq!(&found(&others, left.len()), &expected_others);
        let alone = PartnerValues::new(&partners, &[of_all_rows], &driver).unwrap();
        prop_assert_eq!(
            found(&unmasked, left.len()),
            found(&alone.of(all.clone())[0], left.len())
        );
        let matches = partners.into_matches();
        let of_matches = |function: &AllValues<'_>| {
            all_values_of_matches(&matches, all.clone(), Some(&right_ts), function)
        };
        let mut expected_largest = expected.clone();
        for rows in &mut expected_largest {
            rows.sort_by_key(|&row| std::cmp::Reverse(integers[row])); // the sort is stable
            rows.truncate(most);
        }
        for found in [d, of_matches(&largest)] {
            let OutputValues::Lists { ends, rows } = &found.values else { unreachable!("lists") };
            let mut start = 0;
            for (at, (end, expected)) in ends.iter().zip(&expected_largest).enumerate() {
                let listed: Vec<usize> = rows[start..*end].iter().map(|&row| row as usize).collect();
                prop_assert_eq!(&listed, expected);
                prop_assert_eq!(found.missing.contains(&at), expected.is_empty());
                start = *end;
            }
        }
        for (quantiles, distincts, lists) in
            [(a, b, c), (of_matches(&quantiles), of_matches(&distincts), of_matches(&rows))]
        {
            prop_assert_eq!(&found(&quantiles, left.len()), &expected_quantiles);
            prop_assert_eq!(&found(&distincts, left.len()), &expected_distinct);
            let OutputValues::Lists { ends, rows } = &lists.values else { unreachable!("lists") };
            let mut start = 0;
            for (at, (end, expected)) in ends.iter().zip(&expected).enumerate() {
                let listed: Vec<usize> = rows[start..*end].iter().map(|&row| row as usize).collect();
                prop_assert_eq!(&listed, expected);
                prop_assert_eq!(lists.missing.contains(&at), expected.is_empty());
                start = *end;
            }
        }
    }
}
