//! Compares the hive with a map of maps, including cases with more threads than cores.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use proptest::prelude::*;
use tidegate_papers::hive::{Hive, HiveReader, HiveWriter, Next};

/// The numbers that have been added, by start and key.
type Windows = BTreeMap<i64, BTreeMap<u32, Vec<u32>>>;
type New = fn() -> Mutex<Vec<u32>>;
type Writer = HiveWriter<Mutex<Vec<u32>>, New>;
type Reader = HiveReader<Mutex<Vec<u32>>, New>;

fn hive(writers: usize) -> (Vec<Writer>, Reader) {
    Hive::new(writers, Mutex::default as New)
}

fn add(writer: &mut Writer, start: i64, key: u32, number: u32) {
    writer.update(start, key, |window| window.lock().unwrap().push(number));
}

/// Takes the available winsets and returns whether the reader has reached the end.
fn read(reader: &mut Reader, found: &mut Windows) -> bool {
    loop {
        let winset = match reader.next_winset() {
            Next::Ready(winset) => winset,
            Next::NotYet => return false,
            Next::End => return true,
        };
        let start = winset.start();
        assert!(found.last_key_value().is_none_or(|(last, _)| *last < start), "in order");
        let windows = winset.into_windows().map(|(key, numbers)| {
            let mut numbers = numbers.into_inner().unwrap();
            numbers.sort_unstable();
            (key, numbers)
        });
        found.insert(start, windows.collect());
    }
}

#[derive(Clone, Debug)]
enum Action {
    Update { writer: usize, start: i64, key: u32 },
    Advance { writer: usize, start: i64 },
    Read,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        4 => (0..3_usize, 0..60_i64, 0..40_u32).prop_map(|(writer, start, key)| Action::Update { writer, start, key }),
        2 => (0..3_usize, 0..60_i64).prop_map(|(writer, start)| Action::Advance { writer, start }),
        1 => Just(Action::Read),
    ];
    prop::collection::vec(action, 0..200)
}

proptest! {
    #[test]
    fn one_thread_after_the_other(actions in actions()) {
        let (mut writers, mut reader) = hive(3);
        let (mut wanted, mut found) = (Windows::new(), Windows::new());
        let mut promises = [0; 3];
        for (number, action) in (0..).zip(actions) {
            match action {
                Action::Update { writer, start, key } => {
                    let start = start.max(promises[writer]);
                    add(&mut writers[writer], start, key, number);
                    wanted.entry(start).or_default().entry(key).or_default().push(number);
                }
                Action::Advance { writer, start } => {
                    promises[writer] = start.max(promises[writer]);
                    writers[writer].advance(start);
                }
                Action::Read => {
                    prop_assert!(!read(&mut reader, &mut found));
                    let due = promises.into_iter().min().unwrap();
                    prop_assert_eq!(&found, &wanted.range(..due).map(|(s, w)| (*s, w.clone())).collect::<Windows>());
                }
            }
        }
        drop(writers);
        prop_assert!(read(&mut reader, &mut found));
        prop_assert_eq!(found, wanted);
    }
}

/// While the reader is running, each writer updates windows up to ten starts ahead of the writer's
/// promise.
fn stress(threads: u32, starts: i64) {
    let (writers, mut reader) = hive(threads as usize);
    let key =
        |writer: u32, start: i64, turn: i64| (start * 7 + turn * turn) as u32 % 50 + writer % 3;
    let mut found = Windows::new();
    let mut most = 0;
    thread::scope(|scope| {
        for (number, mut writer) in (0..).zip(writers) {
            scope.spawn(move || {
                for start in 0..starts {
                    writer.advance(start);
                    for turn in 0..10 {
                        let at = start + (turn * 3 + i64::from(number)) % 10;
                        add(&mut writer, at, key(number, at, turn), number);
                    }
                }
            });
        }
        while !read(&mut reader, &mut found) {
            most = most.max(reader.unfreed());
            thread::yield_now();
        }
    });
    let mut wanted = Windows::new();
    for number in 0..threads {
        for start in 0..starts {
            for turn in 0..10 {
                let at = start + (turn * 3 + i64::from(number)) % 10;
                wanted
                    .entry(at)
                    .or_default()
                    .entry(key(number, at, turn))
                    .or_default()
                    .push(number);
            }
        }
    }
    wanted.values_mut().flat_map(BTreeMap::values_mut).for_each(|numbers| numbers.sort_unstable());
    assert!(found == wanted, "the windows are the same");
    assert_eq!(reader.unfreed(), 1, "at most {most} were held meanwhile");
}

#[test]
fn threads_see_every_update() {
    stress(3, 2_000);
}

#[test]
#[ignore = "long: make stress"]
fn stress_hive() {
    for threads in [2, 4, 16, 40] {
        stress(threads, 30_000);
    }
}

#[test]
fn a_writer_far_behind_finds_its_place() {
    let (mut writers, mut reader) = hive(2);
    let mut found = Windows::new();
    for start in 0..10_000 {
        add(&mut writers[0], start, 1, 0);
        writers[0].advance(start);
    }
    assert!(!read(&mut reader, &mut found));
    assert!(found.is_empty());
    for start in (0..10_000).step_by(500) {
        writers[1].advance(start);
        add(&mut writers[1], start + 499, 1, 1);
        assert!(!read(&mut reader, &mut found));
        assert_eq!(found.len() as i64, start);
        // The writer's position on the highest level keeps memory from being freed.
        assert!(reader.unfreed() < 1500, "{}", reader.unfreed());
    }
    drop(writers);
    assert!(read(&mut reader, &mut found));
    assert_eq!(found.len(), 10_000);
    assert_eq!(found[&499][&1], [0, 1]);
}

#[test]
#[should_panic(expected = "no window before the promise is updated")]
fn a_promise_is_kept() {
    let (mut writers, _reader) = hive(1);
    writers[0].advance(5);
    add(&mut writers[0], 4, 0, 0);
}

#[test]
fn no_writers_are_an_end() {
    let (_, mut reader) = hive(0);
    assert!(matches!(reader.next_winset(), Next::End));
}
