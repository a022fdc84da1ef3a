//! Tests joins on keys with every PPOIJ pattern. A loop over all pairs computes the expected
//! results. These tests cannot detect races. However, the replicas only read the data that they
//! share.

use proptest::prelude::*;
use tidegate_sync::Stop;

use super::*;
use crate::rows::{Closed, FilterError, NO_KEY, NO_ROW};

mod oracle;

use oracle::{HOWS, Row, assert_right, begin, interval, manner, rows};

const PATTERNS: [Parallelism; 4] =
    [Parallelism::Auto, Parallelism::Key, Parallelism::Data, Parallelism::Hybrid];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn oracle_every_manner_gives_the_same_rows_in_the_same_order(
        rows in rows(),
        interval in interval(),
        how in prop::sample::select(HOWS.to_vec()),
        manner in manner(),
        pattern in prop::sample::select(PATTERNS.to_vec()),
        replicas in 1_usize..5,
        filters in any::<bool>(),
        ordered in any::<bool>(),
    ) {
        let make = || -> Box<dyn KeyedJoin> {
            Box::new(StreamingJoin::new(&interval, how, pattern, replicas, ordered))
        };
        assert_right(&rows, &interval, how, (&manner, ordered, filters), &make)?;
    }
}

#[test]
fn a_hot_key_is_split_and_comparisons_even_out() {
    let rows: Vec<Row> = (0..4000)
        .map(|n| (n, if n % 2 == 0 { Side::Left } else { Side::Right }, Some(0)))
        .collect();
    let interval = Interval { lower: Some(-50), upper: Some(50), closed: Closed::Both };
    let load_factor = |parallelism| {
        let mut join = StreamingJoin::new(&interval, How::Inner, parallelism, 4, true);
        let driver = Driver::new(1, Stop::default());
        for epoch in rows.chunks(40) {
            begin(&mut join, &driver, epoch);
            while !join.is_done() {
                let all = |left: &[u32], _: &[u32]| Ok(vec![true; left.len()]);
                join.advance(&driver, Some(&all)).unwrap();
            }
            join.purge([Some(epoch.last().unwrap().0); 2]);
        }
        let made = join.comparisons();
        *made.iter().max().unwrap() as f64 / (made.iter().sum::<u64>() as f64 / 4.0)
    };
    assert_eq!(load_factor(Parallelism::Key), 4.0);
    assert!(load_factor(Parallelism::Data) < 1.05);
    assert!(load_factor(Parallelism::Hybrid) < 1.3, "{}", load_factor(Parallelism::Hybrid));
    assert!(load_factor(Parallelism::Auto) < 1.3);
}

#[test]
fn silent_keys_leave_nothing_behind() {
    let interval = Interval { lower: Some(-5), upper: Some(5), closed: Closed::Both };
    let mut join = StreamingJoin::new(&interval, How::Inner, Parallelism::Key, 2, true);
    let driver = Driver::new(1, Stop::default());
    let mut free: Vec<u32> = Vec::new();
    let mut most = 0;
    for ts in 0..10_000_i64 {
        let key = free.pop().unwrap_or(most);
        most = most.max(key + 1);
        begin(&mut join, &driver, &[(ts, Side::Left, Some(key))]);
        join.advance(&driver, None).unwrap();
        join.purge([Some(ts); 2]);
        free.extend(join.take_silent());
    }
    assert!(most < 20, "{most} key numbers were in use");
    assert!(join.memory() < 1 << 14, "{} bytes for a handful of rows", join.memory());
}
