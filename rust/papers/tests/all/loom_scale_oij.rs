//! Every interleaving that loom models of small epochs of Scale-OIJ.
//!
//! `make loom` runs these. What the models catch: a row that is looked for before all rows that
//! come before it are in their lists; a pair that both rows find, or neither; threads that wait for each
//! other for ever. The lists and the marks of stored rows are atomics, all stepped through. A
//! joiner's rest is not: it decides only when the turns are over.

use loom::thread;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Closed, How, Interval, RowJoin, Side};
use tidegate_papers::scale_oij::{JoinerWork, ScaleOij};
use tidegate_papers::threads::Turn;
use tidegate_sync::{Stop, explore};

/// Goes on until all is done; what was found.
fn work(mut work: JoinerWork<'_>) -> Vec<(usize, Vec<u32>)> {
    loop {
        match work.step() {
            Turn::Worked => {}
            Turn::Waiting => thread::yield_now(),
            Turn::Finished => return work.matches(),
        }
    }
}

/// Lets two joiners do the rows of an epoch, which have one time: each has to find the rows of its
/// key and of the other side that come before it. The two have every other row.
fn model(rows: &'static [(Side, u32)], expected: &'static [(usize, &'static [u32])]) {
    explore(Some(2), move || {
        let near = Interval { lower: Some(-1), upper: Some(1), closed: Closed::Both };
        // Loom's threads borrow nothing.
        let join: &'static mut ScaleOij = Box::leak(Box::new(ScaleOij::new(&near, How::Inner, 2)));
        let driver = Driver::new(1, Stop::default());
        // The memory of lists, which std hands out, is there: each joiner had a row of each side.
        let [left, right] = [Side::Left, Side::Right];
        join.begin(&driver, vec![0; 4], vec![left, left, right, right], [&[1, 1], &[1, 1]]);
        join.advance(&driver, None).unwrap();
        join.purge([Some(5); 2]);
        assert_eq!((join.first(left), join.first(right)), (2, 2));
        let keys = [Side::Left, Side::Right].map(|side| {
            rows.iter().filter(|row| row.0 == side).map(|row| row.1).collect::<Vec<u32>>()
        });
        let sides = rows.iter().map(|row| row.0).collect();
        join.begin(&driver, vec![5; rows.len()], sides, [&keys[0], &keys[1]]);
        let mut works = join.works(&driver, None).into_iter();
        let (one, other) = (works.next().unwrap(), works.next().unwrap());
        let other = thread::spawn(move || work(other));
        let mut found = work(one);
        found.extend(other.join().unwrap());
        found.sort_unstable();
        let expected: Vec<(usize, Vec<u32>)> =
            expected.iter().map(|(row, numbers)| (*row, from_two(numbers))).collect();
        assert_eq!(found, expected);
    });
}

/// Numbers that count from 2, where two rows of a side have gone.
fn from_two(numbers: &[u32]) -> Vec<u32> {
    numbers.iter().map(|number| number + 2).collect()
}

#[test]
fn loom_a_pair_is_found_by_its_later_row() {
    model(&[(Side::Left, 0), (Side::Right, 0)], &[(1, &[0])]);
}

#[test]
fn loom_rows_of_both_joiners_find_each_other() {
    let rows = &[(Side::Left, 0), (Side::Left, 0), (Side::Right, 0)];
    model(rows, &[(2, &[0, 1])]);
}

#[test]
fn loom_a_row_passes_over_later_ones() {
    let rows = &[(Side::Left, 0), (Side::Right, 0), (Side::Left, 0), (Side::Right, 0)];
    model(rows, &[(1, &[0]), (2, &[0]), (3, &[0, 1])]);
}
