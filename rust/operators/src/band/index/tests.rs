//! Checks the join against a loop over all pairs. These tests cannot detect data races, but the
//! threads share only read-only data.

use proptest::prelude::*;
use tidegate_structures::index::{BPlusTree, BucketIndex};
use tidegate_sync::Stop;

use super::*;
use crate::rows::{FilterError, NO_ROW};

mod oracle;

use oracle::{
    Columns, HOWS, NUMBERS, Row, assert_right, assert_self_join_right, assert_stops, epoch, manner,
    rows, window, within,
};

/// The index structures to test.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Buckets,
    BPlusTree,
}

const KINDS: [Kind; 2] = [Kind::Buckets, Kind::BPlusTree];

fn index(kind: Kind) -> Box<dyn WindowIndex> {
    match kind {
        Kind::Buckets => Box::new(BucketIndex::new()),
        Kind::BPlusTree => Box::new(BPlusTree::new()),
    }
}

fn ahead(kind: Kind, sides: usize) -> Box<dyn Find> {
    Box::new(Ahead::new(sides, || index(kind)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn oracle_every_index_gives_the_same_rows_in_the_same_order(
        rows in rows(),
        window in window(),
        within in within(),
        columns in 1_usize..3,
        how in prop::sample::select(HOWS.to_vec()),
        manner in manner(),
        kind in prop::sample::select(KINDS.to_vec()),
        filters in any::<bool>(),
    ) {
        let finder = |sides| ahead(kind, sides);
        assert_right(&rows, window, (&within, columns), how, (&manner, &finder), filters)?;
    }

    #[test]
    fn oracle_a_stream_with_itself(
        rows in rows(),
        window in window(),
        within in 0_i64..9,
        columns in 1_usize..3,
        manner in manner(),
        kind in prop::sample::select(KINDS.to_vec()),
    ) {
        let finder = |sides| ahead(kind, sides);
        assert_self_join_right(rows, window, within, columns, (&manner, &finder))?;
    }
}

#[test]
fn no_row_is_left_in_an_index() {
    let rows: Vec<Row> = (0..500).map(|n| (n, NUMBERS[n as usize % 2], [Some(n), None])).collect();
    let within = [(-3, 3); 2];
    for kind in KINDS {
        let window = Retention::Time { left: 20, right: 30 };
        let mut join = IndexJoin::new(window, How::Inner, 1, true, || index(kind));
        let driver = Driver::new(1, Stop::default());
        assert!(!epoch(&mut join, &rows, (&within, 1), &driver, [0; 2], None, false).is_empty());
        assert!(join.finder.rows() > 0);
        join.purge([None; 2]);
        assert_eq!(join.finder.rows(), 0, "{kind:?}");
    }
}

#[test]
fn a_stop_ends_a_join_that_nobody_waits_for() {
    KINDS.into_iter().for_each(|kind| assert_stops(ahead(kind, 2)));
}

#[test]
fn matches_without_number_come_a_piece_at_a_time() {
    // All rows are equal, so the last ones match a whole window.
    let rows: Vec<Row> = (0..3000).map(|n| (n, NUMBERS[n as usize % 2], [Some(1), None])).collect();
    let window = Retention::Rows { left: 1000, right: 1000 };
    for kind in KINDS {
        let mut join = IndexJoin::new(window, How::Inner, 1, true, || index(kind));
        let driver = Driver::new(2, Stop::default());
        let columns =
            NUMBERS.map(|side| Columns::new(rows.iter().filter(|row| row.1 == side), &[(0, 0); 2]));
        let bands = [columns[0].bands(1), columns[1].bands(1)];
        let (ts, sides) = rows.iter().map(|&(ts, side, _)| (ts, side)).unzip();
        join.begin(&driver, ts, sides, [&bands[0], &bands[1]]);
        let (mut pairs, mut most) = (0, 0);
        while !join.is_done() {
            let Progress::Pieces(pieces) = join.advance(&driver, None).unwrap() else {
                unreachable!()
            };
            for rows in pieces {
                let found = join.assemble(rows).left.len();
                pairs += found;
                most = most.max(found);
            }
        }
        assert_eq!(pairs, (0..3000_usize).map(|n| (n.div_ceil(2)).min(1000)).sum::<usize>());
        assert!(most < MOST_MATCHES + 8 * 1000, "{most} pairs in one piece");
    }
}
