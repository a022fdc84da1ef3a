//! Explores all interleavings that loom can model while rows pass through both gates of ScaleJoin.
//!
//! `make loom` runs these tests. The models detect marks that are raised before the matches can be
//! taken, and threads that miss a signal and wait forever. The number of preemptions is limited to
//! 2, or to 1 with two workers. The two gates are lock-free lists, which have their own models.

use loom::thread;
use tidegate_operators::rows::Side;
use tidegate_papers::scale_gates::{Process, pipes};
use tidegate_sync::explore;

/// Finds a fixed number of matches for each row. Each match contains the row's own number.
struct Find(usize);

impl Process<u32> for Find {
    fn process(&mut self, row: &u32) -> Option<Vec<u32>> {
        Some(vec![*row; self.0])
    }
}

/// Adds rows, takes the workers' matches, and stops the workers.
fn model(preemptions: usize, workers: usize, rows: u64, matches: usize) {
    explore(Some(preemptions), move || {
        let (mut entry, parts, mut exit, crew) = pipes(workers);
        let run = |part: tidegate_papers::scale_gates::Passage<u32>| {
            thread::spawn(move || part.run(Find(matches)))
        };
        let threads: Vec<_> = parts.into_iter().map(run).collect();
        for row in 0..rows {
            let side = if row % 2 == 0 { Side::Left } else { Side::Right };
            entry.put(side, row as u32);
        }
        entry.call();
        let (mut given, mut found) = (0, Vec::new());
        while given < rows {
            let passed = exit.wait(given, rows, || false);
            let (taken, upto) = exit.take(passed, usize::MAX);
            assert_eq!(taken.rows.len() as u64, upto - given, "all matches are there");
            found.extend(taken.numbers);
            given = upto;
        }
        let expected = (0..rows as u32).flat_map(|row| vec![row; workers * matches]);
        assert_eq!(found, expected.collect::<Vec<_>>());
        crew.end();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn loom_scale_gates_all_that_was_found_of_rows_that_are_passed() {
    model(2, 1, 2, 1);
}

#[test]
fn loom_scale_gates_room_for_matches() {
    // After one row, there is no room until its matches are taken.
    model(2, 1, 2, 8);
}

#[test]
fn loom_scale_gates_the_slower_of_two() {
    model(1, 2, 1, 1);
}
