//! Explores all interleavings that loom can model in small cases of the task-based index join.
//!
//! `make loom` runs these tests. A window has an indexed part and a part that is compared row by
//! row. The models detect a row that is in both parts or in neither. The models also detect rows
//! that are lost or duplicated in either phase of a merge, results that are out of order, and
//! threads that wait forever. Each subindex is a lock and the edge row is an atomic, so loom steps
//! through all of them. The models cannot produce stale values of the counter that decides when an
//! index is merged. The number of preemptions is limited to 2, because a full search would take
//! hours.

use std::sync::Arc;

use loom::thread;
use tidegate_papers::index_tasks::{
    MergeOptions, TaskIndex, TaskJoin, TaskOptions, TaskRow, Worker,
};
use tidegate_papers::threads::Turn;
use tidegate_papers::trees::SharedPimTree;
use tidegate_structures::index::Probe;
use tidegate_sync::{Prefix, explore};

fn probe(low: i64, high: i64, upto: u32) -> Probe {
    Probe { low, high, from: 0, to: upto }
}

fn find(tree: &SharedPimTree, probe: Probe) -> Vec<u32> {
    let mut found = Vec::new();
    tree.find(&probe, &mut found);
    found.sort_unstable();
    found
}

/// Creates a tree with two subindexes: one for the keys up to 15, and one for the keys above 15.
/// The keys of rows 0 to 31 equal the row numbers.
fn two_subindexes() -> SharedPimTree {
    let tree = SharedPimTree::default();
    (0..32).for_each(|row| tree.insert(row.into(), row));
    let tree = tree.merged(0, 1.0, Some(1));
    assert!(tree.subindexes() > 1, "{} subindexes", tree.subindexes());
    tree
}

/// While a search crosses the boundary between two subindexes, rows are inserted on both sides of
/// the boundary.
#[test]
fn loom_insert_and_search_across_a_subindex_boundary() {
    explore(Some(3), || {
        let tree = Arc::new(two_subindexes());
        let inserter = thread::spawn({
            let tree = tree.clone();
            move || {
                tree.insert(16, 32);
                tree.insert(15, 33);
            }
        });
        let found = find(&tree, probe(14, 17, 34));
        let (old, new): (Vec<u32>, Vec<u32>) = found.into_iter().partition(|&row| row < 32);
        assert_eq!(old, [14, 15, 16, 17], "existing rows are found once");
        assert!(
            new.windows(2).all(|two| two[0] != two[1]),
            "new rows are found once, if at all: {new:?}"
        );
        inserter.join().unwrap();
        assert_eq!(find(&tree, probe(14, 17, 34)), [14, 15, 16, 17, 32, 33]);
    });
}

/// Two threads index one row each and advance the edge. A search uses the index for rows before the
/// edge, and scans the window for the other rows.
#[test]
fn loom_rows_before_the_edge_are_in_the_index() {
    explore(Some(3), || {
        let tree = Arc::new(SharedPimTree::default());
        let indexed = Arc::new(Prefix::new(2));
        let threads: Vec<_> = (0..2)
            .map(|row| {
                let (tree, indexed) = (tree.clone(), indexed.clone());
                thread::spawn(move || {
                    tree.insert(7, row);
                    indexed.mark(row as usize);
                })
            })
            .collect();
        let edge = indexed.edge() as u32;
        let mut found = find(&tree, probe(7, 7, edge));
        found.extend(edge..2);
        assert_eq!(found, [0, 1], "each row is on one side of the edge");
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Two threads run the tasks for a few rows from one stream. All rows have the same key, so each
/// row matches all earlier rows.
fn model(rows: u32, before: u32, options: TaskOptions) {
    explore(Some(2), move || {
        let row = |number: u32| TaskRow {
            side: 0,
            other: 0,
            number,
            key: Some(7),
            probe: probe(7, 7, number),
        };
        let mut join = TaskJoin::new(1, options);
        // Some rows are added beforehand, so that an index is nearly full.
        join.queue_up((0..before).map(row).collect());
        work(join.worker(0));
        assert_eq!(join.take_matches().len(), before as usize);
        join.queue_up((before..before + rows).map(row).collect());
        let join = Arc::new(join);
        let other = thread::spawn({
            let join = join.clone();
            move || work(join.worker(0))
        });
        work(join.worker(0));
        other.join().unwrap();
        let found = Arc::into_inner(join).expect("the other thread has ended").take_matches();
        let expected: Vec<Vec<u32>> =
            (before..before + rows).map(|row| (0..row).collect()).collect();
        assert_eq!(found, expected);
    });
}

/// Steps a worker until all work is done.
fn work(mut worker: Worker<'_>) {
    loop {
        match worker.step() {
            Turn::Worked => {}
            Turn::Waiting => thread::yield_now(),
            Turn::Finished => return,
        }
    }
}

#[test]
fn loom_two_tasks_find_each_pair_once() {
    model(2, 0, TaskOptions { rows: 1, ..TaskOptions::default() });
}

#[test]
fn loom_both_phases_of_a_merge() {
    model(3, 4, merging(false));
}

#[test]
fn loom_a_blocking_merge() {
    model(3, 4, merging(true));
}

/// Options that limit each task to one row and merge a PIM-Tree as often as possible.
fn merging(is_blocking: bool) -> TaskOptions {
    let options = MergeOptions { merge_ratio: 1e-9, insertion_depth: None, is_blocking };
    TaskOptions { rows: 1, index: TaskIndex::PimTree(options) }
}

#[test]
fn loom_two_tasks_in_a_tree_with_optimistic_locks() {
    model(2, 2, TaskOptions { rows: 1, index: TaskIndex::BPlusTree });
}

/// Each row searches for the row before it. A row can therefore be removed as soon as the next two
/// rows have been processed. By then, the row must be in the tree.
#[test]
fn loom_rows_leave_a_tree_while_others_are_looked_for() {
    explore(Some(2), || {
        let row = |number: u32| TaskRow {
            side: 0,
            other: 0,
            number,
            key: Some(7),
            probe: Probe { low: 7, high: 7, from: number.saturating_sub(1), to: number },
        };
        let options = TaskOptions { rows: 1, index: TaskIndex::BPlusTree };
        let mut join = TaskJoin::new(1, options);
        join.queue_up((0..3).map(row).collect());
        let join = Arc::new(join);
        let other = thread::spawn({
            let join = join.clone();
            move || work(join.worker(0))
        });
        work(join.worker(0));
        other.join().unwrap();
        let found = Arc::into_inner(join).expect("the other thread has ended").take_matches();
        assert_eq!(found, [vec![], vec![0], vec![1]]);
    });
}
