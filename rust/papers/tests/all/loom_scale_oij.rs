//! Explores all interleavings that loom can model in small epochs of Scale-OIJ.
//!
//! `make loom` runs these tests. The models detect a search that starts before all earlier rows are
//! in their lists. The models also detect pairs that both rows or neither row finds, and threads
//! that wait for each other forever. The lists, and the marks of stored rows, are atomics, so loom
//! steps through all of them. Loom does not check the count of running joiners, because the count
//! only determines when the turns are over.

use loom::thread;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Closed, How, Interval, RowJoin, Side};
use tidegate_papers::scale_oij::{JoinerWork, ScaleOij};
use tidegate_papers::threads::Turn;
use tidegate_sync::{Stop, explore};

/// Steps until all work is done, and returns the matches that were found.
fn work(mut work: JoinerWork<'_>) -> Vec<(usize, Vec<u32>)> {
    loop {
        match work.step() {
            Turn::Worked => {}
            Turn::Waiting => thread::yield_now(),
            Turn::Finished => return work.matches(),
        }
    }
}

/// Two joiners process the rows in an epoch, which all have the same time. The rows are assigned to
/// the two joiners in turn. For each row, a joiner must find the earlier rows with the same key on
/// the other side.
fn model(rows: &'static [(Side, u32)], expected: &'static [(usize, &'static [u32])]) {
    explore(Some(2), move || {
        let near = Interval { lower: Some(-1), upper: Some(1), closed: Closed::Both };
        // Loom's threads cannot borrow.
        let join: &'static mut ScaleOij = Box::leak(Box::new(ScaleOij::new(&near, How::Inner, 2)));
        let driver = Driver::new(1, Stop::default());
        // The lists' memory, which std allocates, already exists: each joiner has had a row on each
        // side.
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

/// Adds 2 to each number, because two rows have been removed on each side.
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
