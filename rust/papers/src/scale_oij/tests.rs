//! Compares Scale-OIJ with a loop over all pairs, which is also the oracle of the operators' own
//! join. Other tests check the join's statistics, or search in some threads while others store
//! rows. `loom_scale_oij.rs` models the races between joiners.

use proptest::prelude::*;
use tidegate_sync::Stop;

use super::*;
use tidegate_operators::interval::streaming::{Parallelism, StreamingJoin};
use tidegate_operators::rows::{Closed, FilterError, NO_KEY, NO_ROW};

#[path = "../../../operators/src/interval/streaming/tests/oracle.rs"]
mod oracle;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn oracle_every_manner_gives_the_same_rows_in_the_same_order(
        rows in oracle::rows(),
        interval in oracle::interval(),
        how in prop::sample::select(oracle::HOWS.to_vec()),
        manner in oracle::manner(),
        joiners in 1_usize..5,
        filters in any::<bool>(),
    ) {
        let make = || -> Box<dyn KeyedJoin> { Box::new(ScaleOij::new(&interval, how, joiners)) };
        oracle::assert_right(&rows, &interval, how, (&manner, true, filters), &make)?;
    }
}

/// The time, side and key of a row.
type Row = (i64, Side, u32);

fn near(reach: i64) -> Interval {
    Interval { lower: Some(-reach), upper: Some(reach), closed: Closed::Both }
}

fn begin(join: &mut dyn KeyedJoin, driver: &Driver, rows: &[Row]) {
    let keys = [Side::Left, Side::Right]
        .map(|side| rows.iter().filter(|row| row.1 == side).map(|row| row.2).collect::<Vec<u32>>());
    let (ts, sides) = rows.iter().map(|&(ts, side, _)| (ts, side)).unzip();
    join.begin(driver, ts, sides, [&keys[0], &keys[1]]);
}

/// Returns all results, with offsets converted to row numbers.
fn run(
    join: &mut dyn KeyedJoin,
    driver: &Driver,
    rows: &[Row],
    epoch: usize,
    filter: Option<&Filter<'_>>,
) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for rows in rows.chunks(epoch) {
        begin(join, driver, rows);
        while !join.is_done() {
            let results = match join.advance(driver, filter).unwrap() {
                Progress::Results(results) => vec![results],
                Progress::Pieces(pieces) => {
                    pieces.into_iter().map(|rows| join.assemble(rows)).collect()
                }
            };
            let first = [join.first(Side::Left), join.first(Side::Right)];
            for Results { left, right } in results {
                let pairs = left.into_iter().zip(right);
                found
                    .extend(pairs.map(|(l, r)| (first[0] + u64::from(l), first[1] + u64::from(r))));
            }
        }
        join.purge([rows.last().map(|row| row.0); 2]);
        join.take_silent();
    }
    found
}

/// Returns rows with several keys, one of which occurs in half of the rows.
fn rows(count: usize, keys: u32, seed: u64) -> Vec<Row> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut now = 0;
    let row = |_| {
        now += random(3) as i64;
        let side = if random(2) == 0 { Side::Left } else { Side::Right };
        let key = if random(2) == 0 { 0 } else { random(keys.into()) as u32 };
        (now, side, key)
    };
    let mut rows: Vec<Row> = (0..count).map(row).collect();
    rows.sort_by_key(|&(ts, side, _)| (ts, side as usize));
    rows
}

/// Uses epochs of many rows, which are divided among threads. The oracle is a separate
/// implementation of a PPOIJ parallelization pattern.
#[test]
fn stress_threads_find_what_replicas_find() {
    const ROWS: usize = if cfg!(miri) { 5000 } else { 12_000 };
    for (threads, joiners, keys) in [(2, 2, 5), (4, 3, 1), (3, 8, 40)] {
        let rows = rows(ROWS, keys, u64::from(keys));
        let mut theirs = StreamingJoin::new(&near(15), How::Inner, Parallelism::Key, 1, true);
        let one = Driver::new(1, Stop::default());
        let expected = run(&mut theirs, &one, &rows, 1000, None);
        assert!(expected.len() > ROWS);
        let driver = Driver::lasting(threads, Stop::default(), false).unwrap();
        let mut ours = ScaleOij::new(&near(15), How::Inner, joiners);
        let found = run(&mut ours, &driver, &rows, 3000, None);
        assert!(found == expected, "{threads} threads, {joiners} joiners, {keys} keys");
    }
}

#[test]
fn a_hot_key_gets_a_team_and_comparisons_even_out() {
    let rows: Vec<Row> =
        (0..4000).map(|n| (n, if n % 2 == 0 { Side::Left } else { Side::Right }, 0)).collect();
    let driver = Driver::new(1, Stop::default());
    let mut join = ScaleOij::new(&near(50), How::Inner, 4);
    begin(&mut join, &driver, &rows[..40]);
    assert_eq!((join.split_keys(), join.schedule.team(0).len()), (Some(0), 1));
    join.advance(&driver, None).unwrap();
    while !join.is_done() {
        join.advance(&driver, None).unwrap();
    }
    run(&mut join, &driver, &rows[40..], 40, None);
    let made = join.comparisons();
    let factor = *made.iter().max().unwrap() as f64 / (made.iter().sum::<u64>() as f64 / 4.0);
    assert!(factor < 1.2, "{made:?}");
    assert_eq!((join.split_keys(), join.schedule.team(0).len()), (Some(1), 4));
}

#[test]
fn comparisons_are_pairs() {
    let rows = rows(3000, 3, 7);
    let driver = Driver::new(1, Stop::default());
    let mut join = ScaleOij::new(&near(5), How::Inner, 3);
    let found = run(&mut join, &driver, &rows, 100, None).len() as u64;
    assert_eq!(join.comparisons().iter().sum::<u64>(), found);
}

#[test]
fn silent_keys_leave_nothing_behind() {
    let driver = Driver::new(1, Stop::default());
    let mut join = ScaleOij::new(&near(5), How::Inner, 2);
    let mut free: Vec<u32> = Vec::new();
    let mut most = 0;
    for ts in 0..10_000_i64 {
        let key = free.pop().unwrap_or(most);
        most = most.max(key + 1);
        begin(&mut join, &driver, &[(ts, Side::Left, key)]);
        join.advance(&driver, None).unwrap();
        join.purge([Some(ts); 2]);
        free.extend(join.take_silent());
    }
    assert!(most < 20, "{most} key numbers were in use");
    assert!(join.memory() < 1 << 14, "{} bytes for a handful of rows", join.memory());
}

#[test]
fn the_end_leaves_no_rows_in_lists() {
    let driver = Driver::new(1, Stop::default());
    let mut join = ScaleOij::new(&near(1000), How::Inner, 2);
    run(&mut join, &driver, &rows(500, 3, 1), 100, None);
    let before = join.memory();
    join.purge([None; 2]);
    assert!(join.memory() < before / 4, "{} bytes of {before}", join.memory());
}

/// Rows with the same key keep arriving, so the key's list only stays short if old rows are cut
/// off.
#[test]
fn old_rows_leave_the_list_of_a_key_that_goes_on() {
    let driver = Driver::new(1, Stop::default());
    let mut join = ScaleOij::new(&near(20), How::Inner, 2);
    let mut early = 0;
    for epoch in 0..1000_i64 {
        let rows: Vec<Row> = (0..20)
            .map(|n| (20 * epoch + n, if n % 2 == 0 { Side::Left } else { Side::Right }, 0))
            .collect();
        run(&mut join, &driver, &rows, 20, None);
        early = if epoch == 100 { join.memory() } else { early };
    }
    assert!(join.memory() <= 2 * early, "{} bytes, {early} before", join.memory());
}

#[test]
fn a_filter_that_fails_ends_the_join_with_its_error() {
    let driver = Driver::new(2, Stop::default());
    let mut join = ScaleOij::new(&near(5), How::Inner, 2);
    begin(&mut join, &driver, &rows(100, 2, 1));
    let fails = |_: &[u32], _: &[u32]| Err("a condition".into());
    let error = join.advance(&driver, Some(&fails)).unwrap_err();
    assert!(matches!(error, JoinError::Filter(error) if error.to_string() == "a condition"));
}

#[test]
fn a_pause_ends_a_call_and_nothing_is_lost() {
    let pause = Stop::default();
    let driver = Driver::new(2, Stop::default());
    let rows = rows(500, 2, 3);
    let mut join = ScaleOij::new(&near(9), How::Inner, 3);
    begin(&mut join, &driver, &rows);
    pause.request();
    let progress = join.advance(&driver.pausing(&pause), None).unwrap();
    assert!(matches!(progress, Progress::Pieces(pieces) if pieces.is_empty()));
    assert!(!join.is_done());
    let mut found = 0;
    while !join.is_done() {
        let Progress::Pieces(pieces) = join.advance(&driver, None).unwrap() else { unreachable!() };
        found += pieces.into_iter().map(|rows| join.assemble(rows).left.len()).sum::<usize>();
    }
    let mut other = ScaleOij::new(&near(9), How::Inner, 1);
    assert_eq!(found, run(&mut other, &driver, &rows, 500, None).len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// The order in which pairs are taken does not depend on which joiner found them.
    #[test]
    fn joiners_and_threads_do_not_show(
        seed in any::<u64>(),
        keys in 1_u32..6,
        joiners in 1_usize..6,
        threads in 1_usize..4,
        epoch in 1_usize..400,
    ) {
        let rows = rows(400, keys, seed);
        let keep = |l: &[u32], r: &[u32]| {
            Ok(l.iter().zip(r).map(|(l, r)| (l ^ r) % 3 > 0).collect())
        };
        let one = Driver::new(1, Stop::default());
        let many = Driver::new(threads, Stop::default());
        let mut expected = ScaleOij::new(&near(7), How::Inner, 1);
        let mut found = ScaleOij::new(&near(7), How::Inner, joiners);
        prop_assert_eq!(
            run(&mut found, &many, &rows, epoch, Some(&keep)),
            run(&mut expected, &one, &rows, 400, Some(&keep))
        );
    }
}
