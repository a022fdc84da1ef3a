//! Compares every index with a `BTreeSet` of keys and ages, over sliding windows. The index and the
//! set must find the same rows.
//!
//! Keys are uniform, Gaussian, skewed, drifting, few in number, or at the ends of the 64-bit range.
//! Windows grow, slide, shrink and become empty. Numbers wrap around. Merges happen for every row,
//! rarely, or never. These tests cannot detect races, which are covered by the loom models of
//! shared indexes.
//!
//! `indexes.rs` lists the indexes of this crate. The crate with the published algorithms runs these
//! tests with its own indexes.

use std::collections::{BTreeSet, VecDeque};

use crate::indexes::indexes;
use crate::random::Random;
use proptest::prelude::*;
use tidegate_structures::index::{Entry, Probe};

#[derive(Clone, Copy, Debug)]
enum Keys {
    Uniform(u64),
    Gaussian,
    Skewed,
    Drifting,
    Rising,
    Jumping,
    Extremes,
}

impl Keys {
    /// Returns the key of row number `nth`.
    fn key(self, nth: usize, random: &mut Random) -> i64 {
        let gaussian = |random: &mut Random| (0..8).map(|_| random.below(1000) as i64).sum::<i64>();
        match self {
            Keys::Uniform(values) => random.below(values) as i64 - values as i64 / 2,
            Keys::Gaussian => gaussian(random),
            Keys::Skewed => 1_i64 << random.below(62),
            Keys::Drifting => gaussian(random) + nth as i64 * 5,
            Keys::Rising => nth as i64 * 3,
            Keys::Jumping => (nth as i64 / 700) * 1_000_000_007 - random.below(100) as i64,
            Keys::Extremes => {
                [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX][random.below(7) as usize]
            }
        }
    }
}

/// A window of rows by age, oldest first, and the set in which the rows are looked up.
struct Oracle {
    rows: VecDeque<i64>,
    by_key: BTreeSet<(i64, usize)>,
    /// The age of the oldest row.
    first: usize,
}

impl Oracle {
    fn insert(&mut self, key: i64) {
        self.by_key.insert((key, self.first + self.rows.len()));
        self.rows.push_back(key);
    }

    fn remove(&mut self) -> i64 {
        let key = self.rows.pop_front().unwrap();
        self.by_key.remove(&(key, self.first));
        self.first += 1;
        key
    }

    fn find(&self, low: i64, high: i64, from: usize, to: usize) -> Vec<usize> {
        if low > high {
            return Vec::new();
        }
        let mut found: Vec<usize> =
            self.by_key.range((low, 0)..=(high, usize::MAX)).map(|row| row.1).collect();
        found.retain(|row| (from..to).contains(row));
        found.sort_unstable();
        found
    }
}

/// Slides windows of these sizes over the keys. Once every few rows, searches for ranges whose
/// width is given by `width`.
fn slide(keys: Keys, sizes: &[usize], width: u64, seed: u64, rows: usize) {
    let mut random = Random::new(seed);
    let mut indexes = indexes();
    let mut oracle = Oracle { rows: VecDeque::new(), by_key: BTreeSet::new(), first: 0 };
    // Numbers wrap around after a few rows.
    let number = |age: usize| (age as u32).wrapping_sub(300);
    let mut nth = 0;
    while nth < rows {
        // 1. Some rows are inserted.
        let some = 1 + random.below(70) as usize;
        let batch: Vec<Entry> = (nth..nth + some)
            .map(|nth| Entry { key: keys.key(nth, &mut random), row: number(nth) })
            .collect();
        batch.iter().for_each(|row| oracle.insert(row.key));
        let one_by_one = random.below(2) == 0;
        for (_, index) in &mut indexes {
            if one_by_one {
                batch.iter().for_each(|row| index.insert(row.key, row.row));
            } else {
                index.insert_all(&batch);
            }
        }
        nth += some;
        // 2. Rows are removed until the window has the intended size.
        let size = sizes[nth / 400 % sizes.len()];
        let gone = oracle.rows.len().saturating_sub(size);
        let batch: Vec<Entry> =
            (0..gone).map(|_| Entry { row: number(oracle.first), key: oracle.remove() }).collect();
        for (_, index) in &mut indexes {
            if one_by_one {
                batch.iter().for_each(|row| index.remove(row.key, row.row));
            } else {
                index.remove_all(&batch);
            }
        }
        // 3. Ranges are looked up.
        let len = oracle.rows.len();
        let ranges: Vec<(i64, i64, usize, usize)> = (0..3)
            .map(|_| {
                let middle = match random.below(4) {
                    0 => keys.key(nth, &mut random),
                    _ if len > 0 => oracle.rows[random.below(len as u64) as usize],
                    _ => 0,
                };
                let (below, above) =
                    (random.below(width + 1) as i64, random.below(width + 1) as i64);
                let from = oracle.first + random.below(len as u64 / 3 + 1) as usize;
                let to = nth - random.below(len as u64 / 3 + 1) as usize;
                (middle.saturating_sub(below), middle.saturating_add(above - 1), from, to.max(from))
            })
            .collect();
        let probes: Vec<Probe> = ranges
            .iter()
            .map(|&(low, high, from, to)| Probe { low, high, from: number(from), to: number(to) })
            .collect();
        let expected: Vec<Vec<u32>> = ranges
            .iter()
            .map(|&(low, high, from, to)| {
                oracle.find(low, high, from, to).into_iter().map(number).collect()
            })
            .collect();
        for (name, index) in &indexes {
            assert_eq!(index.len(), len, "{name}");
            let (mut together, mut ends) = (Vec::new(), Vec::new());
            index.find_all(&probes, &mut together, &mut ends);
            let mut begin = 0;
            for ((probe, expected), end) in probes.iter().zip(&expected).zip(ends) {
                let mut found = Vec::new();
                index.find(probe, &mut found);
                found.sort_unstable_by_key(|row| row.wrapping_sub(probe.from));
                assert_eq!(&found, expected, "{name}, {probe:?}, row {nth}");
                let mut found = together[begin..end as usize].to_vec();
                found.sort_unstable_by_key(|row| row.wrapping_sub(probe.from));
                assert_eq!(&found, expected, "{name}, {probe:?} among others, row {nth}");
                begin = end as usize;
            }
            assert!(len == 0 || index.memory() > 12 * len, "{name}");
        }
    }
}

fn keys() -> impl Strategy<Value = Keys> {
    prop_oneof![
        prop_oneof![Just(1_u64), Just(5), Just(300), Just(100_000), Just(1 << 50)]
            .prop_map(Keys::Uniform),
        Just(Keys::Gaussian),
        Just(Keys::Skewed),
        Just(Keys::Drifting),
        Just(Keys::Rising),
        Just(Keys::Jumping),
        Just(Keys::Extremes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn oracle_every_index_finds_what_is_there(
        keys in keys(),
        sizes in prop::collection::vec(prop_oneof![0_usize..40, 0_usize..1500], 1..5),
        width in prop_oneof![Just(0_u64), Just(3), Just(100), Just(10_000), Just(1 << 45), Just(u64::MAX >> 2)],
        seed in any::<u64>(),
    ) {
        slide(keys, &sizes, width, seed, 2500);
    }
}

/// Searches a window whose tree has three levels of nodes. Each probe matches between 1/16 and 1024
/// rows on average.
#[test]
fn oracle_match_rates_from_a_sixteenth_to_a_thousand() {
    for rate in [-4, 0, 4, 8, 10_i32] {
        let width = (1e9 * 2_f64.powi(rate) / 3000.0) as u64;
        slide(Keys::Uniform(1_000_000_000), &[3000], width, rate.unsigned_abs().into(), 6000);
    }
}

#[test]
fn memory_stays_bounded_while_a_window_slides() {
    for (name, mut index) in indexes().into_iter().filter(|(name, _)| !name.contains("0.000000001"))
    {
        let key = |row: u32| i64::from(row.wrapping_mul(0x9E37_79B9));
        (0..10_000).for_each(|row| index.insert(key(row), row));
        let mut most = 0;
        for row in 0..100_000 {
            index.remove(key(row), row);
            index.insert(key(row + 10_000), row + 10_000);
            most = index.memory().max(most);
        }
        assert!(most < 10_000 * 150, "{name}: {most} bytes");
        index.clear();
        assert!(
            index.is_empty() && index.memory() <= most,
            "{name}: {} bytes without rows",
            index.memory()
        );
    }
}

/// Rows without a value have numbers but are not in any index.
#[test]
fn rows_that_were_never_inserted_are_not_found() {
    for (name, mut index) in indexes() {
        for before in [1, 20, u32::MAX - 3, 1 << 31] {
            index.clear();
            for row in 0..100 {
                index.insert(i64::from(row % 9), before.wrapping_add(row));
            }
            let mut found = Vec::new();
            let (from, to) = (before.wrapping_sub(1000), before.wrapping_add(100));
            index.find(&Probe { low: i64::MIN, high: i64::MAX, from, to }, &mut found);
            assert_eq!(found.len(), 100, "{name} from {before} on");
        }
    }
}

/// Most rows may have no value, so numbers can wrap around even though few rows are inserted.
#[test]
fn rows_that_have_left_stay_away_when_numbers_wrap_around() {
    const STEP: u32 = 1 << 25;
    const KEPT: usize = 3;
    for (name, mut index) in indexes() {
        let mut window = VecDeque::new();
        for step in 0..400_u32 {
            let rows: Vec<Entry> = (0..20)
                .map(|nth| Entry { key: i64::from(nth % 9), row: step.wrapping_mul(STEP) + nth })
                .collect();
            index.insert_all(&rows);
            window.push_back(rows);
            if window.len() > KEPT {
                index.remove_all(&window.pop_front().unwrap());
            }
            let wanted: Vec<u32> =
                window.iter().flatten().filter(|row| row.key == 4).map(|row| row.row).collect();
            let (from, to) = (window[0][0].row, step.wrapping_mul(STEP) + 20);
            let mut found = Vec::new();
            index.find(&Probe { low: 4, high: 4, from, to }, &mut found);
            found.sort_unstable_by_key(|row| row.wrapping_sub(from));
            assert_eq!(found, wanted, "{name}, step {step}");
        }
    }
}
