//! Explores all interleavings that loom can model in small cases of the time-travel lists.
//!
//! `make loom` also runs these tests. Under loom, a list has two levels, and every second row is on
//! both levels. The models detect nodes that are read before they are completely written, and
//! downward paths that miss a row or lead nowhere. The models also detect a row that is lost or
//! duplicated while other rows are being added or removed. Every atomic load can return any value
//! that the memory model allows, so the models detect orderings that are too weak.

use loom::thread;
use tidegate_papers::time_travel::{ListReader, ListWriter, TimeTravel};
use tidegate_sync::explore;

const KEY: u32 = 1;

fn look(reader: ListReader<'_>, newest: i64, oldest: i64) -> Vec<(i64, u32)> {
    let mut seen = Vec::new();
    reader.look_back(KEY, newest, oldest, |ts, row| seen.push((ts, row)));
    seen
}

/// A thread searches while this thread writes. Rows that remain in the list are found once and in
/// order. A row that is added or removed is found at most once. Each row is found with the correct
/// number.
fn look_beside(
    before: &'static [i64],
    (newest, oldest): (i64, i64),
    write: fn(&mut ListWriter<'_>),
    after: &'static [i64],
) {
    explore(Some(3), move || {
        // Loom's threads cannot borrow.
        let lists: &'static mut TimeTravel = Box::leak(Box::default());
        // The memory of heads, which std allocates, already exists.
        lists.split().0.insert(KEY - 1, 0, 0);
        before.iter().for_each(|&ts| lists.split().0.insert(KEY, ts, ts as u32));
        let (mut writer, reader) = lists.split();
        let looking = thread::spawn(move || look(reader, newest, oldest));
        write(&mut writer);
        let seen = looking.join().unwrap();
        assert!(seen.windows(2).all(|two| two[0].0 > two[1].0), "in order, each once: {seen:?}");
        assert!(seen.iter().all(|&(ts, row)| ts == i64::from(row)), "whole: {seen:?}");
        let is_seen = |ts: &i64| seen.iter().any(|row| row.0 == *ts);
        let is_wanted = |ts: &&i64| (oldest..=newest).contains(*ts);
        let stays = before.iter().filter(|ts| after.contains(ts)).filter(is_wanted);
        assert!(stays.clone().all(is_seen), "{seen:?} without one of {before:?}");
        let is_known = |ts: &i64| before.contains(ts) || after.contains(ts);
        assert!(seen.iter().all(|(ts, _)| is_known(ts) && is_wanted(&ts)), "{seen:?}");
        let all: Vec<i64> = look(reader, i64::MAX, i64::MIN).iter().map(|row| row.0).collect();
        assert_eq!(all, after);
    });
}

#[test]
fn loom_a_look_while_a_key_gets_its_first_row() {
    look_beside(&[], (9, 0), |writer| writer.insert(KEY, 5, 5), &[5]);
}

#[test]
fn loom_a_look_while_newer_rows_come() {
    let write =
        |writer: &mut ListWriter<'_>| (7..9).for_each(|ts| writer.insert(KEY, ts, ts as u32));
    look_beside(&[3, 5], (6, 4), write, &[8, 7, 5, 3]);
}

#[test]
fn loom_a_look_while_a_row_comes_in_between() {
    let write = |writer: &mut ListWriter<'_>| {
        writer.insert(KEY, 4, 4);
        writer.insert(KEY, 6, 6);
    };
    look_beside(&[3, 5, 7], (7, 3), write, &[7, 6, 5, 4, 3]);
}

#[test]
fn loom_a_look_while_old_rows_are_cut_off() {
    let write = |writer: &mut ListWriter<'_>| assert!(writer.cut(KEY, 5));
    look_beside(&[1, 3, 5, 7], (7, 0), write, &[7, 5]);
}

#[test]
fn loom_a_look_while_rows_come_and_go() {
    let write = |writer: &mut ListWriter<'_>| {
        writer.insert(KEY, 8, 8);
        assert!(writer.cut(KEY, 4));
    };
    look_beside(&[3, 5, 7], (9, 4), write, &[8, 7, 5]);
}
