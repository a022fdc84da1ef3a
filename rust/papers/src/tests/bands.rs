//! Compares index-based joins with a loop over all pairs. These tests cannot detect races (see
//! `loom_index_join.rs`).

use proptest::prelude::*;
use tidegate_operators::band::index::{Ahead, Bands, Find, IndexJoin};
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{
    Filter, FilterError, How, JoinError, NO_ROW, Progress, Results, Retention, RowJoin, SavedRows,
    Side,
};
use tidegate_sync::Stop;

use crate::index_kind::IndexKind;
use crate::index_tasks::{MergeOptions, TaskIndex, TaskJoin, TaskOptions};
use crate::tree_partitions::TreePartitions;

#[path = "../../../operators/src/band/index/tests/oracle.rs"]
mod oracle;

use oracle::{
    HOWS, assert_right, assert_self_join_right, assert_stops, manner, rows, window, within,
};

/// An algorithm that finds matches.
#[derive(Clone, Copy, Debug)]
enum Finder {
    Ahead(IndexKind),
    Tasks(TaskOptions),
    Partitions,
}

impl Finder {
    /// Creates the finder for a join with `sides` sides.
    fn of(self, sides: usize, threads: usize) -> Box<dyn Find> {
        match self {
            Finder::Ahead(kind) => Box::new(Ahead::new(sides, || kind.index())),
            Finder::Tasks(options) => Box::new(TaskJoin::new(sides, options)),
            Finder::Partitions => Box::new(TreePartitions::new(sides, threads)),
        }
    }
}

fn finders() -> impl Strategy<Value = Finder> {
    use IndexKind::*;
    let ratio = || prop::sample::select(vec![0.01, 0.25, 1.0]);
    let kinds = prop_oneof![
        (ratio(), prop::option::of(0_usize..4)).prop_map(|(merge_ratio, insertion_depth)| {
            PimTree { merge_ratio, insertion_depth }
        }),
        ratio().prop_map(|merge_ratio| ImTree { merge_ratio }),
        Just(BPlusTree),
        (2_usize..6).prop_map(BChain),
        (2_usize..6).prop_map(IbChain),
    ];
    let pim_tree = (prop_oneof![Just(1e-9), Just(0.5)], any::<bool>()).prop_map(
        |(merge_ratio, is_blocking)| {
            TaskIndex::PimTree(MergeOptions { merge_ratio, insertion_depth: None, is_blocking })
        },
    );
    let index = prop_oneof![pim_tree, Just(TaskIndex::BPlusTree)];
    let tasks = (1_usize..9, index).prop_map(|(rows, index)| TaskOptions { rows, index });
    prop_oneof![
        4 => kinds.prop_map(Finder::Ahead),
        2 => tasks.prop_map(Finder::Tasks),
        1 => Just(Finder::Partitions),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn oracle_every_index_gives_the_same_rows_in_the_same_order(
        rows in rows(),
        window in window(),
        within in within(),
        columns in 1_usize..3,
        how in prop::sample::select(HOWS.to_vec()),
        manner in manner(),
        finder in finders(),
        filters in any::<bool>(),
    ) {
        let made = |sides| finder.of(sides, manner.threads);
        assert_right(&rows, window, (&within, columns), how, (&manner, &made), filters)?;
    }

    #[test]
    fn oracle_a_stream_with_itself(
        rows in rows(),
        window in window(),
        within in 0_i64..9,
        columns in 1_usize..3,
        manner in manner(),
        finder in finders(),
    ) {
        let made = |sides| finder.of(sides, manner.threads);
        assert_self_join_right(rows, window, within, columns, (&manner, &made))?;
    }
}

#[test]
fn a_stop_ends_a_join_that_nobody_waits_for() {
    let tree = TaskOptions { index: TaskIndex::BPlusTree, ..TaskOptions::default() };
    for finder in [
        Finder::Ahead(IndexKind::PIM_TREE),
        Finder::Partitions,
        Finder::Tasks(TaskOptions::default()),
        Finder::Tasks(tree),
    ] {
        assert_stops(finder.of(2, 2));
    }
}
