//! Compares the tree with a `BTreeSet`, and tests it with threads that insert, remove and search
//! concurrently. Nodes have at most four entries here, so they are split and merged constantly.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use tidegate_sync::Counter;

use super::node::FANOUT;
use super::*;

/// Occasionally yields to other threads, at unpredictable points.
pub(super) fn yield_sometimes() {
    thread_local! {
        static STATE: Cell<u32> = const { Cell::new(1) };
    }
    let next = STATE.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    STATE.set(next);
    if next >> 27 == 0 {
        std::thread::yield_now();
    }
}

/// Returns all rows by walking through the tree, and checks its structure.
fn checked(tree: &OlcTree) -> Vec<Rank> {
    let mut walk = Walk { tree, rows: Vec::new(), leaves: Vec::new(), inners: 0 };
    let root = tree.root.load(Ordering::Acquire);
    walk.visit(root, (i64::MIN, 0), None, true);
    assert!(walk.rows.is_sorted() && walk.rows.windows(2).all(|two| two[0] != two[1]));
    let mut next = *walk.leaves.first().unwrap();
    for &leaf in &walk.leaves {
        assert_eq!(leaf, next, "leaves are linked in order");
        next = tree.leaves.get(leaf & !LEAF).unwrap().next();
    }
    assert_eq!(next, NONE);
    assert_eq!(tree.leaves.taken(), walk.leaves.len(), "every used leaf is in the tree");
    assert_eq!(tree.inners.taken(), walk.inners, "every used inner node is in the tree");
    walk.rows
}

struct Walk<'a> {
    tree: &'a OlcTree,
    rows: Vec<Rank>,
    leaves: Vec<u32>,
    inners: usize,
}

impl Walk<'_> {
    /// Returns the height of a node. All ranks in the node must be at least `low` and below `high`.
    fn visit(&mut self, number: u32, low: Rank, high: Option<Rank>, is_root: bool) -> usize {
        match self.tree.look(number).unwrap() {
            Any::Leaf(leaf) => {
                assert!(is_root || leaf.node.len() + 1 >= FEW, "{} entries", leaf.node.len());
                self.leaves.push(number);
                let rows: Vec<Rank> = (0..leaf.node.len()).map(|at| leaf.node.get(at)).collect();
                let is_in = |rank: &Rank| *rank >= low && high.is_none_or(|high| *rank < high);
                assert!(rows.iter().all(is_in), "{rows:?} from {low:?} before {high:?}");
                self.rows.extend(rows);
                0
            }
            Any::Inner(inner) => {
                self.inners += 1;
                let len = inner.node.len();
                assert!(len >= if is_root { 1 } else { FEW - 1 }, "{len} children");
                let mut bounds = vec![Some(low)];
                bounds.extend((0..len - 1).map(|at| Some(inner.node.separator(at))));
                bounds.push(high);
                let visit = |at: usize| {
                    self.visit(inner.node.child(at), bounds[at].unwrap(), bounds[at + 1], false)
                };
                let heights: BTreeSet<usize> = (0..len).map(visit).collect();
                assert_eq!(heights.len(), 1, "all leaves have the same depth");
                heights.first().unwrap() + 1
            }
        }
    }
}

fn found(tree: &OlcTree, low: i64, high: i64) -> Vec<u32> {
    let mut found = Vec::new();
    tree.find(&Probe { low, high, from: 0, to: 1 << 30 }, &mut found);
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn oracle_one_thread_does_as_a_set_does(
        steps in prop::collection::vec((0_u8..8, 0_i64..12, 0_u32..12), 0..400),
        shrink in any::<bool>(),
    ) {
        let (tree, mut set) = (OlcTree::new(), BTreeSet::<Rank>::new());
        for (what, key, row) in steps {
            // Use keys at both ends, too.
            let key = match key { 0 => i64::MIN, 11 => i64::MAX, _ => key };
            let row = if row == 11 { u32::MAX } else { row };
            match what {
                0..4 => {
                    if set.insert((key, row)) {
                        tree.insert(key, row);
                    }
                }
                4..7 => prop_assert_eq!(tree.remove(key, row), set.remove(&(key, row))),
                _ => {
                    let mut found = Vec::new();
                    let high = key.saturating_add(3);
                    tree.find(&Probe { low: key, high, from: 2, to: 9 }, &mut found);
                    let expected: Vec<u32> = set
                        .range((key, 0)..=(high, u32::MAX))
                        .map(|rank| rank.1)
                        .filter(|row| (2..9).contains(row))
                        .collect();
                    prop_assert_eq!(found, expected);
                }
            }
        }
        prop_assert_eq!(checked(&tree), set.iter().copied().collect::<Vec<_>>());
        if shrink {
            for (key, row) in set {
                prop_assert!(tree.remove(key, row));
            }
            prop_assert_eq!(checked(&tree), Vec::new());
            prop_assert!(tree.leaves.taken() <= 2, "{} leaves without rows", tree.leaves.taken());
        }
    }
}

#[test]
fn an_interval_without_keys_has_no_rows() {
    let tree = OlcTree::new();
    (0..100).for_each(|row| tree.insert(row.into(), row));
    assert!(found(&tree, 5, 4).is_empty());
    assert_eq!(found(&tree, 5, 5), [5]);
    assert!(!tree.remove(5, 6) && !tree.remove(200, 1) && tree.remove(5, 5));
}

#[test]
fn a_child_of_a_parent_that_was_split_meanwhile_is_left_alone() {
    let tree = OlcTree::new();
    let mut rows = 0;
    // A tree of 100 rows has had a full root, which the next attempt splits.
    let mut step = || {
        if tree.try_insert((rows, 0)).is_ok() {
            rows += 1;
        }
        assert!(rows < 100);
    };
    let (parent, few) = loop {
        step();
        if let Any::Inner(root) = tree.root().unwrap()
            && root.node.is_full()
        {
            break (root, tree.see::<Leaf>(root.node.child(FANOUT - 1) & !LEAF).unwrap());
        }
    };
    while parent.node.is_full() {
        step();
    }
    // This position of the leaf is beyond the parent's current children.
    assert!(tree.even_out((parent, FANOUT - 1), few).is_err());
    assert_eq!(checked(&tree), (0..rows).map(|key| (key, 0)).collect::<Vec<_>>());
}

/// Rows whose numbers are multiples of 16 stay in the tree, and all other rows pass through a
/// sliding window. Each search must find the permanent rows once and in order. No search may find a
/// row under another row's key.
fn slide(threads: u32, rows: u32, keys: u32, seed: u32) {
    let key = |row: u32| i64::from((row ^ seed).wrapping_mul(0x9E37_79B9) % keys);
    let stays = |row: u32| row.is_multiple_of(16);
    let (tree, working) = (OlcTree::new(), Counter::new(threads as usize));
    let total = threads * rows;
    (0..total).filter(|&row| stays(row)).for_each(|row| tree.insert(key(row), row));
    let work = |thread: u32| {
        let own = || (0..rows).map(move |nth| nth * threads + thread).filter(|&row| !stays(row));
        let mut gone = own();
        for (nth, row) in own().enumerate() {
            tree.insert(key(row), row);
            if nth >= 20
                && let Some(gone) = gone.next()
            {
                assert!(tree.remove(key(gone), gone), "{gone} is there");
            }
        }
        gone.for_each(|row| assert!(tree.remove(key(row), row), "{row} is there"));
        working.subtract(1);
    };
    let search = || {
        let mut nth = 0_u32;
        while working.get() > 0 {
            let low = i64::from(nth.wrapping_mul(7) % keys);
            let high = low + i64::from(nth % 50);
            nth += 1;
            let found = found(&tree, low, high);
            let ranks: Vec<Rank> = found.iter().map(|&row| (key(row), row)).collect();
            assert!(ranks.windows(2).all(|two| two[0] < two[1]), "in order, each once: {ranks:?}");
            assert!(ranks.iter().all(|rank| (low..=high).contains(&rank.0)), "{ranks:?}");
            let mut expected: Vec<Rank> = (0..total)
                .step_by(16)
                .map(|row| (key(row), row))
                .filter(|rank| (low..=high).contains(&rank.0))
                .collect();
            expected.sort_unstable();
            let staying: Vec<Rank> = ranks.into_iter().filter(|rank| stays(rank.1)).collect();
            assert_eq!(staying, expected, "from {low} to {high}");
        }
    };
    std::thread::scope(|scope| {
        (0..threads).for_each(|thread| {
            scope.spawn(move || work(thread));
        });
        (0..2).for_each(|_| {
            scope.spawn(search);
        });
    });
    let mut expected: Vec<Rank> =
        (0..total).filter(|&row| stays(row)).map(|row| (key(row), row)).collect();
    expected.sort_unstable();
    assert_eq!(checked(&tree), expected);
    assert!(tree.leaves.taken() < 2 * expected.len() + 2, "empty leaves are removed");
}

#[test]
fn threads_insert_remove_and_search_side_by_side() {
    const ROWS: u32 = if cfg!(miri) { 100 } else { 2000 };
    // Keys that are all equal, keys with some repetitions, and distinct keys.
    for (seed, keys) in [(1, 1), (2, 40), (3, 1_000_000)] {
        slide(3, ROWS, keys, seed);
    }
}

#[test]
#[ignore = "takes some ten seconds"]
fn stress_sixteen_threads_in_a_tree() {
    for seed in 0..20 {
        slide(14, 3000, [1, 7, 300, 1 << 20][seed as usize % 4], seed);
    }
}
