//! Explores all interleavings that loom can model in small cases of the hive.
//!
//! `make loom` also runs these tests. Under loom, the list has two levels and each trie node has
//! two slots, so rare paths are taken constantly. The models detect windows and winsets that are
//! lost or created twice. The models also detect winsets that are handed out while they can still
//! be updated. Since the winset's cell is checked, the models detect memory that is freed while it
//! is read. They also detect leaked windows. `loom_gate.rs` describes the errors that the models
//! cannot detect.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use tidegate_papers::hive::{Hive, HiveReader, HiveWriter, Next, Winset};
use tidegate_sync::explore;

/// A window that counts its updates and the number of live windows.
struct Window {
    updates: AtomicUsize,
    alive: Arc<AtomicUsize>,
}

impl Drop for Window {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns each window's key and number of updates, sorted by key.
fn numbers(winset: Winset<Window>) -> (i64, Vec<(u32, usize)>) {
    let start = winset.start();
    let mut windows: Vec<_> = winset
        .into_windows()
        .map(|(key, window)| (key, window.updates.load(Ordering::Relaxed)))
        .collect();
    windows.sort_unstable();
    (start, windows)
}

/// Explores `model` with a hive. Every window that the hive creates must have been dropped at the
/// end.
fn check<F, R>(preemptions: usize, writers: usize, model: F)
where
    F: Fn(Vec<Writer>, Reader) -> R + Send + Sync + 'static,
{
    explore(Some(preemptions), move || {
        let alive = Arc::new(AtomicUsize::new(0));
        let made = alive.clone();
        let new = move || {
            made.fetch_add(1, Ordering::Relaxed);
            Window { updates: AtomicUsize::new(0), alive: made.clone() }
        };
        let (writers, reader) = Hive::new(writers, Box::new(new) as New);
        model(writers, reader);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "windows alive after the hive was dropped");
    });
}

type New = Box<dyn Fn() -> Window + Send + Sync>;
type Writer = HiveWriter<Window, New>;
type Reader = HiveReader<Window, New>;

fn add(writer: &mut Writer, start: i64, key: u32) {
    writer.update(start, key, |window| {
        window.updates.fetch_add(1, Ordering::Relaxed);
    });
}

/// Returns all winsets that are currently available.
fn read(reader: &mut Reader, found: &mut Vec<(i64, Vec<(u32, usize)>)>) -> bool {
    loop {
        match reader.next_winset() {
            Next::Ready(winset) => found.push(numbers(winset)),
            Next::NotYet => return false,
            Next::End => return true,
        }
    }
}

#[test]
fn create_create_of_one_window() {
    check(3, 2, |writers, mut reader| {
        let threads: Vec<_> = writers
            .into_iter()
            .map(|mut writer| thread::spawn(move || add(&mut writer, 5, 1)))
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut found = Vec::new();
        assert!(read(&mut reader, &mut found));
        assert_eq!(found, [(5, vec![(1, 2)])]);
    });
}

#[test]
fn create_create_of_keys_that_share_bits() {
    check(3, 2, |writers, mut reader| {
        let threads: Vec<_> = writers
            .into_iter()
            .zip([[1, 2], [3, 1]])
            .map(|(mut writer, keys)| {
                thread::spawn(move || keys.into_iter().for_each(|key| add(&mut writer, 5, key)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut found = Vec::new();
        assert!(read(&mut reader, &mut found));
        assert_eq!(found, [(5, vec![(1, 2), (2, 1), (3, 1)])]);
    });
}

#[test]
fn create_create_of_neighbours() {
    check(3, 2, |writers, mut reader| {
        let threads: Vec<_> = writers
            .into_iter()
            .zip([[4, 2], [3, 4]])
            .map(|(mut writer, starts)| {
                thread::spawn(move || {
                    starts.into_iter().for_each(|start| add(&mut writer, start, 0))
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut found = Vec::new();
        assert!(read(&mut reader, &mut found));
        assert_eq!(found, [(2, vec![(0, 1)]), (3, vec![(0, 1)]), (4, vec![(0, 2)])]);
    });
}

/// Winsets are handed out in order, with all their updates, and only once both writers allow it.
#[test]
fn update_get() {
    check(2, 2, |writers, mut reader| {
        let threads: Vec<_> = writers
            .into_iter()
            .zip([1, 2])
            .map(|(mut writer, key)| {
                thread::spawn(move || {
                    add(&mut writer, 1, key);
                    writer.advance(2);
                    add(&mut writer, 2, key);
                })
            })
            .collect();
        let mut found = Vec::new();
        read(&mut reader, &mut found);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(read(&mut reader, &mut found));
        assert_eq!(found, [(1, vec![(1, 1), (2, 1)]), (2, vec![(1, 1), (2, 1)])]);
    });
}

/// The memory of winsets that all handles have passed is freed while other winsets are being
/// created and looked up.
#[test]
fn reclamation() {
    check(2, 2, |writers, mut reader| {
        let mut writers = writers.into_iter();
        let (mut ahead, mut behind) = (writers.next().unwrap(), writers.next().unwrap());
        let thread = thread::spawn(move || {
            for start in 1..4 {
                add(&mut ahead, start, 0);
                ahead.advance(start + 1);
            }
        });
        let mut found = Vec::new();
        behind.advance(2);
        read(&mut reader, &mut found);
        add(&mut behind, 3, 0);
        behind.advance(4);
        read(&mut reader, &mut found);
        thread.join().unwrap();
        drop(behind);
        assert!(read(&mut reader, &mut found));
        assert_eq!(found, [(1, vec![(0, 1)]), (2, vec![(0, 1)]), (3, vec![(0, 2)])]);
        // The reader is at the last winset.
        assert_eq!(reader.unfreed(), 1);
    });
}

/// Handles are dropped in any order. Winsets that were not handed out are dropped with the last
/// handle.
#[test]
fn handles_go() {
    check(2, 2, |writers, mut reader| {
        let threads: Vec<_> = writers
            .into_iter()
            .map(|mut writer| {
                thread::spawn(move || {
                    add(&mut writer, 1, 0);
                    writer.advance(2);
                    add(&mut writer, 2, 0);
                })
            })
            .collect();
        read(&mut reader, &mut Vec::new());
        drop(reader);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
