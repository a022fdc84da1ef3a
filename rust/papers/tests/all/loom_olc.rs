//! Explores all interleavings that loom can model in small cases of the B+-tree with optimistic
//! locks.
//!
//! `make loom` also runs these tests. Under loom, a node holds at most four entries, and two
//! neighbours are merged when they have three entries in total. Nodes are therefore split and
//! merged even in a tree of a few rows. The models detect rows that are lost, duplicated or
//! mistaken for other rows while a node is being split, balanced, merged or reused. The models also
//! detect errors that occur when a root is replaced while other threads are descending from it.
//! Threads that wait for each other forever are detected too. Every atomic load can return any
//! value that the memory model allows, so the models detect orderings that are too weak.

use loom::sync::Arc;
use loom::thread;
use tidegate_papers::trees::OlcTree;
use tidegate_structures::index::Probe;
use tidegate_sync::explore;

/// Creates a tree of these rows, with their numbers as keys. Then removes some of the rows and
/// returns the tree. If there are more than four rows, the first leaf contains two rows, and the
/// last leaf contains the others.
fn tree(rows: &[u32], gone: &[u32]) -> Arc<OlcTree> {
    let tree = OlcTree::new();
    rows.iter().for_each(|&row| tree.insert(row.into(), row));
    gone.iter().for_each(|&row| assert!(tree.remove(row.into(), row)));
    Arc::new(tree)
}

fn find(tree: &OlcTree, low: u32, high: u32) -> Vec<u32> {
    let mut found = Vec::new();
    tree.find(&Probe { low: low.into(), high: high.into(), from: 0, to: 100 }, &mut found);
    found
}

/// A thread searches for some keys while this thread writes. Rows that remain in the tree are found
/// once and in order. A row that is inserted or removed during the search is found at most once.
/// The writing thread runs first, because loom explores other orders starting from a write that is
/// followed by a read. Loom tries every stale value that a load may return. Models with more steps
/// therefore use fewer preemptions and search for fewer keys.
fn search_beside(
    preemptions: usize,
    (low, high): (u32, u32),
    (rows, gone): (&'static [u32], &'static [u32]),
    write: fn(&OlcTree),
    after: &'static [u32],
) {
    explore(Some(preemptions), move || {
        let tree = tree(rows, gone);
        let searcher = thread::spawn({
            let tree = tree.clone();
            move || find(&tree, low, high)
        });
        write(&tree);
        let found = searcher.join().unwrap();
        assert!(found.windows(2).all(|two| two[0] < two[1]), "in order, each once: {found:?}");
        let was = |row: &u32| rows.contains(row) && !gone.contains(row);
        let is_wanted = |row: &u32| (low..=high).contains(row);
        let stays = |row: &&u32| is_wanted(row) && was(row) && after.contains(row);
        assert!(rows.iter().filter(stays).all(|row| found.contains(row)), "{found:?}");
        let is_known = |row: &u32| is_wanted(row) && (was(row) || after.contains(row));
        assert!(found.iter().all(is_known), "nothing else: {found:?}");
        assert_eq!(find(&tree, 0, 100), after);
    });
}

#[test]
fn loom_a_search_while_a_leaf_takes_a_row() {
    search_beside(2, (0, 9), (&[5], &[]), |tree| tree.insert(3, 3), &[3, 5]);
}

#[test]
fn loom_a_search_while_a_leaf_loses_a_row() {
    search_beside(2, (0, 9), (&[1, 5], &[]), |tree| assert!(tree.remove(1, 1)), &[5]);
}

#[test]
fn loom_a_search_while_the_root_is_split() {
    search_beside(1, (5, 9), (&[1, 3, 5, 7], &[]), |tree| tree.insert(4, 4), &[1, 3, 4, 5, 7]);
}

#[test]
fn loom_a_search_while_a_leaf_is_split() {
    let rows = &[1, 3, 5, 7, 8, 9];
    search_beside(1, (0, 9), (rows, &[]), |tree| tree.insert(6, 6), &[1, 3, 5, 6, 7, 8, 9]);
}

/// Two leaves with one row each are merged, and the root is replaced.
#[test]
fn loom_a_search_while_leaves_are_merged() {
    let (rows, gone) = (&[1, 3, 5, 7, 9], &[9, 7, 3]);
    search_beside(0, (5, 5), (rows, gone), |tree| assert!(tree.remove(1, 1)), &[5]);
}

#[test]
fn loom_a_search_while_rows_move_to_a_neighbour() {
    let (rows, gone) = (&[1, 3, 5, 7, 8, 9], &[1]);
    search_beside(1, (7, 7), (rows, gone), |tree| assert!(tree.remove(3, 3)), &[5, 7, 8, 9]);
}

/// Two threads write at the same time. In the end, the tree contains the changes of both threads.
fn write_both(
    (rows, gone): (&'static [u32], &'static [u32]),
    one: fn(&OlcTree),
    other: fn(&OlcTree),
    after: &'static [u32],
) {
    explore(Some(2), move || {
        let tree = tree(rows, gone);
        let writer = thread::spawn({
            let tree = tree.clone();
            move || other(&tree)
        });
        one(&tree);
        writer.join().unwrap();
        assert_eq!(find(&tree, 0, 100), after);
    });
}

#[test]
fn loom_two_threads_split_one_leaf() {
    write_both(
        (&[1, 3, 5, 7], &[]),
        |tree| tree.insert(2, 2),
        |tree| tree.insert(6, 6),
        &[1, 2, 3, 5, 6, 7],
    );
}

#[test]
fn loom_a_leaf_is_split_while_its_neighbour_takes_rows_from_it() {
    write_both(
        (&[1, 3, 5, 7, 8, 9], &[1]),
        |tree| assert!(tree.remove(3, 3)),
        |tree| tree.insert(6, 6),
        &[5, 6, 7, 8, 9],
    );
}

#[test]
fn loom_two_threads_remove_rows_and_the_root_goes() {
    write_both(
        (&[1, 3, 5, 7, 9], &[1, 9]),
        |tree| assert!(tree.remove(3, 3)),
        |tree| assert!(tree.remove(7, 7)),
        &[5],
    );
}
