//! Compares time-travel lists with vectors of rows, newest first, on one thread and with concurrent
//! readers.
//!
//! Rows are added in any time order, and their times include both ends of the 64-bit range. Lists
//! are truncated, and their memory is reused. These tests cannot detect missing memory orderings
//! that this machine's processor does not need (see `loom_time_travel.rs`).

use std::collections::BTreeMap;
use std::thread;

use proptest::prelude::*;
use tidegate_papers::time_travel::{ListReader, TimeTravel};
use tidegate_sync::Stop;

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, i64),
    Cut(u32, i64),
    Recycle,
    Look(u32, i64, i64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0_u32..4;
    let ts = prop_oneof![20 => -20_i64..20, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    prop_oneof![
        12 => (key.clone(), ts.clone()).prop_map(|(key, ts)| Step::Insert(key, ts)),
        2 => (key.clone(), ts.clone()).prop_map(|(key, ts)| Step::Cut(key, ts)),
        1 => Just(Step::Recycle),
        6 => (key, ts.clone(), ts).prop_map(|(key, one, other)| Step::Look(key, one, other)),
    ]
}

fn look(reader: ListReader<'_>, key: u32, newest: i64, oldest: i64) -> Vec<(i64, u32)> {
    let mut seen = Vec::new();
    reader.look_back(key, newest, oldest, |ts, row| seen.push((ts, row)));
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn oracle_lists_are_sorted_vectors(steps in prop::collection::vec(step(), 0..400)) {
        let mut lists = TimeTravel::default();
        let mut expected: BTreeMap<u32, Vec<(i64, u32)>> = BTreeMap::new();
        for (row, step) in (0..).zip(steps) {
            match step {
                Step::Insert(key, ts) => {
                    lists.split().0.insert(key, ts, row);
                    let rows = expected.entry(key).or_default();
                    let at = rows.partition_point(|&(other, _)| other > ts);
                    rows.insert(at, (ts, row));
                }
                Step::Cut(key, ts) => {
                    let rows = expected.entry(key).or_default();
                    rows.retain(|&(other, _)| other >= ts);
                    prop_assert_eq!(lists.split().0.cut(key, ts), !rows.is_empty());
                }
                Step::Recycle => lists.recycle(),
                Step::Look(key, newest, oldest) => {
                    let within = |&(ts, _): &(i64, u32)| (oldest..=newest).contains(&ts);
                    let rows = expected.get(&key).into_iter().flatten().copied();
                    let wanted: Vec<(i64, u32)> = rows.filter(within).collect();
                    prop_assert_eq!(look(lists.split().1, key, newest, oldest), wanted);
                }
            }
        }
        for key in 0..5 {
            let wanted = expected.remove(&key).unwrap_or_default();
            prop_assert_eq!(look(lists.split().1, key, i64::MAX, i64::MIN), wanted);
        }
    }
}

#[test]
fn memory_of_rows_that_went_is_used_again() {
    let mut lists = TimeTravel::default();
    let mut after_first = 0;
    for round in 0..200_i64 {
        let (mut writer, _) = lists.split();
        for row in 0..100 {
            writer.insert(row % 3, 100 * round + i64::from(row), row);
        }
        (0..3).for_each(|key| {
            writer.cut(key, 100 * round);
        });
        lists.recycle();
        after_first = if round == 5 { lists.memory() } else { after_first };
    }
    assert!(lists.memory() <= 2 * after_first, "{} bytes", lists.memory());
}

/// Readers search while rows are being added at the front and in the middle, and old rows are being
/// cut off. All existing rows that are not cut off must be found once and in order.
#[test]
fn stress_readers_find_what_is_there_while_rows_come_and_go() {
    const ROWS: i64 = if cfg!(miri) { 40 } else { 30_000 };
    for threads in [1, 3] {
        let mut lists = TimeTravel::default();
        // Rows with even times are added beforehand, and rows with odd times are added during the
        // searches.
        (0..ROWS).for_each(|ts| lists.split().0.insert(1, 4 * ts, ts as u32));
        let (mut writer, reader) = lists.split();
        let over = Stop::default();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let is_last = over.is_requested();
                        // Rows of the older half may be cut off in the meantime.
                        let (newest, oldest) = (3 * ROWS, 2 * ROWS);
                        let seen = look(reader, 1, newest, oldest);
                        assert!(seen.windows(2).all(|two| two[0].0 > two[1].0), "in order");
                        let stays = seen.iter().filter(|(ts, _)| ts % 4 == 0);
                        let wanted = (oldest..=newest).filter(|ts| ts % 4 == 0).rev();
                        assert!(stays.map(|row| row.0).eq(wanted), "each once");
                        assert!(seen.iter().all(|&(ts, row)| i64::from(row) == ts / 4));
                        if is_last {
                            return;
                        }
                    }
                });
            }
            for ts in (0..ROWS).rev() {
                writer.insert(1, 4 * ts + 1, ts as u32);
                if ts % 64 == 0 {
                    writer.cut(1, (2 * ROWS - 4 * ts).min(2 * ROWS));
                }
            }
            over.request();
        });
        let all = look(reader, 1, i64::MAX, i64::MIN);
        let wanted = (2 * ROWS..4 * ROWS).filter(|ts| ts % 4 < 2).count();
        assert_eq!(all.len(), wanted);
    }
}
