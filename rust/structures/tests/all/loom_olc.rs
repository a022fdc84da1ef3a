//! Every interleaving that loom models of small cases of the B+-tree with optimistic locks.
//!
//! `make loom` runs these, too. Under loom a node has four entries, and is merged with its
//! neighbour when both have three, so that a tree of a few rows is split and merged. What the
//! models catch: a row that is lost, doubled or found at another's place while a node is split,
//! evened out, merged, or used again; a root that is given up while others go down from it; threads
//! that wait for each other for ever. Every load of an atomic may give any value that the memory
//! model allows, so an order that is too weak shows.

use loom::sync::Arc;
use loom::thread;
use tidegate_structures::index::Probe;
use tidegate_structures::papers::trees::OlcTree;
use tidegate_sync::explore;

/// A tree of these rows, whose keys are their numbers.
fn tree(rows: &[u32]) -> Arc<OlcTree> {
    let tree = OlcTree::new();
    rows.iter().for_each(|&row| tree.insert(row.into(), row));
    Arc::new(tree)
}

fn find(tree: &OlcTree) -> Vec<u32> {
    let mut found = Vec::new();
    tree.find(&Probe { low: 0, high: 100, from: 0, to: 100 }, &mut found);
    found
}

/// Lets a thread search while this one writes: rows that stay are found once and in order, others
/// once if at all. Loom looks for other orders from a write that is followed by a read, so this one
/// goes first.
fn search_beside(rows: &'static [u32], write: fn(&OlcTree), after: &'static [u32]) {
    explore(Some(2), move || {
        let tree = tree(rows);
        let searcher = thread::spawn({
            let tree = tree.clone();
            move || find(&tree)
        });
        write(&tree);
        let found = searcher.join().unwrap();
        assert!(found.windows(2).all(|two| two[0] < two[1]), "in order, each once: {found:?}");
        let (before, after) = (rows, after.to_vec());
        let stays = |row: &u32| before.contains(row) && after.contains(row);
        assert!(before.iter().filter(|row| stays(row)).all(|row| found.contains(row)), "{found:?}");
        assert!(
            found.iter().all(|row| before.contains(row) || after.contains(row)),
            "nothing else: {found:?}"
        );
        assert_eq!(find(&tree), after);
    });
}

#[test]
fn loom_a_search_while_a_leaf_takes_and_loses_rows() {
    search_beside(
        &[1, 5],
        |tree| {
            tree.insert(3, 3);
            assert!(tree.remove(1, 1));
        },
        &[3, 5],
    );
}

#[test]
fn loom_a_search_while_the_root_is_split() {
    search_beside(&[1, 3, 5, 7], |tree| tree.insert(4, 4), &[1, 3, 4, 5, 7]);
}

#[test]
fn loom_a_search_while_a_leaf_is_split() {
    search_beside(&[1, 3, 5, 7, 8, 9], |tree| tree.insert(6, 6), &[1, 3, 5, 6, 7, 8, 9]);
}

/// Leaves of one and two rows become one, and the root goes.
#[test]
fn loom_a_search_while_leaves_are_merged() {
    search_beside(
        &[1, 3, 5, 7, 9],
        |tree| {
            assert!(tree.remove(1, 1) && tree.remove(9, 9));
            assert!(tree.remove(3, 3));
        },
        &[5, 7],
    );
}

#[test]
fn loom_a_search_while_rows_move_to_a_neighbour() {
    search_beside(
        &[1, 3, 5, 7, 8, 9],
        |tree| {
            assert!(tree.remove(1, 1) && tree.remove(3, 3));
        },
        &[5, 7, 8, 9],
    );
}

/// Two threads write at the same time; what each did is there in the end.
fn write_both(rows: &'static [u32], one: fn(&OlcTree), other: fn(&OlcTree), after: &'static [u32]) {
    explore(Some(2), move || {
        let tree = tree(rows);
        let writer = thread::spawn({
            let tree = tree.clone();
            move || other(&tree)
        });
        one(&tree);
        writer.join().unwrap();
        assert_eq!(find(&tree), after);
    });
}

#[test]
fn loom_two_threads_split_one_leaf() {
    write_both(
        &[1, 3, 5, 7],
        |tree| tree.insert(2, 2),
        |tree| tree.insert(6, 6),
        &[1, 2, 3, 5, 6, 7],
    );
}

#[test]
fn loom_a_leaf_is_split_while_its_neighbour_is_merged() {
    write_both(
        &[1, 3, 5, 7, 8, 9],
        |tree| assert!(tree.remove(1, 1) && tree.remove(3, 3)),
        |tree| tree.insert(6, 6),
        &[5, 6, 7, 8, 9],
    );
}

#[test]
fn loom_two_threads_remove_all_and_the_root_goes() {
    write_both(
        &[1, 3, 5, 7, 9],
        |tree| assert!(tree.remove(1, 1) && tree.remove(3, 3)),
        |tree| assert!(tree.remove(9, 9) && tree.remove(7, 7)),
        &[5],
    );
}
