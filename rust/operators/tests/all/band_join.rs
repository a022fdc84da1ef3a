//! Checks the band join against a nested loop on small random inputs, and against a search on large
//! inputs.

use std::sync::Arc;

use proptest::prelude::*;
use tidegate_operators::band::{Band, BandColumn, BandKeys, Bounds, band_join, float_code};
use tidegate_operators::driver::Driver;
use tidegate_operators::matches::Output;
use tidegate_operators::rows::{How, NO_KEY};
use tidegate_sync::Stop;

#[derive(Clone, Debug)]
struct Column {
    left: Vec<f64>,
    right: Vec<f64>,
    /// `true` if the values are floats, `false` if they are integers.
    floats: bool,
    below: f64,
    above: f64,
}

impl Column {
    fn codes(&self, values: &[f64]) -> Vec<i64> {
        values
            .iter()
            .map(|&value| if self.floats { float_code(value).unwrap() } else { value as i64 })
            .collect()
    }

    fn band(&self) -> Band {
        match self.floats {
            true => Band::Floats { below: self.below, above: self.above },
            false => Band::Steps { below: Some(self.below as u64), above: Some(self.above as u64) },
        }
    }

    fn matches(&self, left: usize, right: usize) -> bool {
        let (left, right) = (self.left[left], self.right[right]);
        left - right <= self.below && right - left <= self.above
    }
}

#[derive(Clone, Debug)]
struct Keys {
    left: Vec<u32>,
    right: Vec<u32>,
}

type Rows = Vec<(u32, u32)>;

fn join(columns: &[Column], keys: Option<&Keys>, threads: usize) -> Rows {
    let driver = Driver::new(threads, Stop::default());
    let codes: Vec<_> = columns
        .iter()
        .map(|column| (column.codes(&column.left), column.codes(&column.right)))
        .collect();
    let band_columns: Vec<_> = columns
        .iter()
        .zip(&codes)
        .map(|(c, (left, right))| BandColumn { left, right, bounds: Bounds::Band(c.band()) })
        .collect();
    let band_keys = keys.map(|keys| BandKeys { left: &keys.left, right: &keys.right, count: 3 });
    let found = band_join(&band_columns, band_keys, &driver).unwrap();
    let pages = match found.checks.is_empty() {
        true => vec![Arc::new(found.matches)],
        false => {
            let rows = found.matches.left_rows();
            let mut starts =
                (0..rows).step_by(rows.div_ceil(3).max(1)).chain([rows]).collect::<Vec<_>>();
            starts.dedup();
            let narrow = |cut: &[usize]| {
                found.matches.narrow(cut[0]..cut[1], &found.checks, &driver).unwrap()
            };
            starts.windows(2).map(narrow).map(Arc::new).collect()
        }
    };
    let mut rows = Vec::new();
    for page in pages {
        let output = Output::new(page, How::Inner, &driver).unwrap();
        for cut in output.cut(7000) {
            output.list(cut, |pairs| {
                rows.extend(pairs.left().iter().copied().zip(pairs.right().iter().copied()))
            });
        }
    }
    rows
}

fn oracle(columns: &[Column], keys: Option<&Keys>) -> Rows {
    let (left, right) = (columns[0].left.len(), columns[0].right.len());
    let pairs = (0..left).flat_map(|l| (0..right).map(move |r| (l, r)));
    let equal = |l, r| {
        keys.is_none_or(|keys: &Keys| keys.left[l] == keys.right[r] && keys.left[l] != NO_KEY)
    };
    let inside =
        pairs.filter(|&(l, r)| equal(l, r) && columns.iter().all(|column| column.matches(l, r)));
    inside.map(|(l, r)| (l as u32, r as u32)).collect()
}

fn column(left: usize, right: usize) -> impl Strategy<Value = Column> {
    any::<bool>().prop_flat_map(move |floats| {
        let value = prop_oneof![
            9 => (-20_i32..20).prop_map(move |value| if floats { f64::from(value) / 10.0 } else { f64::from(value) }),
            1 => prop::sample::select(if floats { vec![f64::INFINITY, f64::NEG_INFINITY, 1e16] } else { vec![1e9, -1e9] }),
        ];
        let width = prop_oneof![
            9 => (0..8).prop_map(move |width| if floats { f64::from(width) / 10.0 } else { f64::from(width) }),
            1 => Just(if floats { f64::INFINITY } else { 1e19 }),
        ];
        let values = |rows| prop::collection::vec(value.clone(), rows);
        (values(left), values(right), width.clone(), width)
            .prop_map(move |(left, right, below, above)| Column { left, right, floats, below, above })
    })
}

fn inputs() -> impl Strategy<Value = (Vec<Column>, Option<Keys>)> {
    (0_usize..40, 0_usize..40, 1_usize..4).prop_flat_map(|(left, right, columns)| {
        let key = prop_oneof![9 => 0_u32..3, 1 => Just(NO_KEY)];
        let keys = (prop::collection::vec(key.clone(), left), prop::collection::vec(key, right))
            .prop_map(|(left, right)| Keys { left, right });
        (prop::collection::vec(column(left, right), columns), prop::option::of(keys))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn oracle_random_tables((columns, keys) in inputs(), threads in 1_usize..9) {
        prop_assert_eq!(join(&columns, keys.as_ref(), threads), oracle(&columns, keys.as_ref()));
    }
}

/// Returns integers below `below`. A higher power makes small integers more frequent.
fn values(rows: usize, below: f64, power: i32, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut random = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..rows).map(|_| (random().powi(power) * below).floor()).collect()
}

/// Finds the pairs by searching the sorted right rows.
fn searched(column: &Column) -> Rows {
    let mut right: Vec<_> = column.right.iter().copied().zip(0_u32..).collect();
    right.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut rows = Vec::new();
    for (l, &value) in column.left.iter().enumerate() {
        let start = right.partition_point(|row| row.0 < value - column.below);
        let run = right[start..].iter().take_while(|row| row.0 <= value + column.above);
        let mut run: Vec<u32> = run.map(|row| row.1).collect();
        run.sort_unstable();
        rows.extend(run.into_iter().map(|r| (l as u32, r)));
    }
    rows
}

#[test]
fn differential_many_rows_however_they_are_distributed() {
    let rows = 200_000;
    for (power, outlier) in [(1, false), (1, true), (3, false), (30, true)] {
        let (mut left, mut right) = (values(rows, 1e9, power, 1), values(rows, 1e9, power, 2));
        if outlier {
            // Nearly all rows are in one of the ranges into which the whole range is divided.
            (left[5], right[7], right[9]) = (-4e18, 9e18, -4e18);
        }
        // The last of these have many rows with the same value.
        let width = [(1, 5000.0), (3, 5.0), (30, 0.0)]
            .into_iter()
            .find(|of| of.0 == power)
            .expect("a width")
            .1;
        let keep = |values: Vec<f64>| {
            if power == 30 { values.into_iter().filter(|v| *v > 9.0).collect() } else { values }
        };
        let column = Column {
            left: keep(left),
            right: keep(right),
            floats: false,
            below: width,
            above: width,
        };
        let expected = searched(&column);
        assert!(expected.len() > 20_000, "{power}: {} rows", expected.len());
        for (threads, floats) in [(1, false), (3, true)] {
            let column = Column { floats, ..column.clone() };
            assert!(join(&[column], None, threads) == expected, "{power} {outlier} {threads}");
        }
    }
}

#[test]
fn the_column_with_the_fewest_pairs_is_indexed() {
    let driver = Driver::new(2, Stop::default());
    let (wide, narrow): (Vec<i64>, Vec<i64>) =
        ((0..5000).map(|row| row % 7).collect(), (0..5000).collect());
    let band = Band::Steps { below: Some(1), above: Some(1) };
    let columns = [&wide, &narrow, &wide].map(|codes| BandColumn {
        left: codes,
        right: codes,
        bounds: Bounds::Band(band),
    });
    assert_eq!(band_join(&columns, None, &driver).unwrap().indexed, 1);
}
