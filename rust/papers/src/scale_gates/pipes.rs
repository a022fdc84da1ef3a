//! The path of rows through SG_in, the processing threads and SG_out, and the signals between the
//! threads.
//!
//! ```text
//! put ─▶ SG_in ─┬─ reader 0 ─▶ worker 0 ─▶ source 0 ─┬─▶ SG_out ─▶ take
//!               └─ reader 1 ─▶ worker 1 ─▶ source 1 ─┘
//!          call ───────▶ rows, room or the end            told ─▶ some rows are through
//! ```
//!
//! # Protocol
//! 1. Rows are numbered in the order in which they are added. Both gates use a row's number as its
//!    time.
//!
//! 2. To *pass* a row, a worker adds the row's matches to SG_out, promises SG_out that no more
//!    matches for the row will follow, and then raises its own mark. So a thread that sees all
//!    marks above a row finds all of the row's matches ready in SG_out.
//!
//! 3. All workers share a bell. A worker waits for this bell if it finds no row, or if too many of
//!    its matches have not been taken yet. Before these checks, the worker records the number of
//!    rings, so it cannot miss a ring.
//!
//! 4. There are always matches to take, because the slowest worker's matches belong to rows that
//!    all workers have passed. So workers that wait for room never wait forever.
//!
//! 5. If a worker panics, the panic is passed on to the taking thread, and all workers end.

use std::fmt;
use std::time::Duration;

use crate::row_gate::{Reader, ScaleGate, Source};
use tidegate_structures::gate::Next;
use tidegate_structures::memory;
use tidegate_sync::HighWater;
use tidegate_sync::atomic::Arc;

use crate::threads::{Crew, Patience};
use tidegate_operators::rows::Side;

/// Workers are woken after this many rows, and each worker reports its progress after this many
/// rows.
const TURN: u64 = if cfg!(any(test, loom)) { 2 } else { 64 };

/// The maximum number of matches that a worker finds before waiting for them to be taken. A single
/// row may have more matches than this.
const MOST_WAITING: u64 = if cfg!(any(test, loom)) { 8 } else { 1 << 18 };

/// The time that the taking thread waits before it accepts fewer rows than requested.
const PATIENCE: Duration = Duration::from_millis(1);

/// Processes all items from SG_in for one worker, in order.
pub trait Process<T>: Send {
    /// Returns the numbers of the rows that match a row, or `None` for an item that is not a row.
    fn process(&mut self, item: &T) -> Option<Vec<u32>>;

    /// Called from time to time: after some rows, and before the worker waits.
    fn rest(&mut self) {}
}

/// The parts that threads share.
struct PipeState {
    /// The bells. Workers share one bell, which rings when there are more rows, or when there is
    /// room for matches. The taking thread's bell rings when rows have been passed.
    crew: Arc<Crew>,
    /// The number of rows that the taking thread waits for. The taking thread raises this mark.
    wanted: HighWater,
    /// The number of rows that each worker has passed.
    passed: Vec<HighWater>,
    /// For each worker, the number of matches that were taken.
    taken: Vec<HighWater>,
}

/// The bell of all workers.
const CALL: usize = 0;

/// The entry to which rows are added.
pub struct Entry<T: Send + Sync> {
    /// One source per side.
    sources: [Source<T>; 2],
    rows: u64,
    shared: Arc<PipeState>,
}

/// The path of a processing thread from SG_in to SG_out.
pub struct Passage<T: Send + Sync> {
    number: usize,
    rows: Reader<T>,
    out: Source<Vec<u32>>,
    shared: Arc<PipeState>,
}

/// The exit from which matches are taken.
pub struct Exit {
    matches: Reader<Vec<u32>>,
    /// The matches of a row that some workers have not passed yet.
    next: Option<Matches>,
    /// For each worker, the number of matches that were taken.
    taken: Vec<u64>,
    /// The number of rows that all workers had passed and the number of times that the bell had
    /// rung, both at the last check.
    passed: u64,
    heard: u64,
    shared: Arc<PipeState>,
}

/// The matches that one worker has found for a row.
#[derive(Debug)]
struct Matches {
    row: u64,
    worker: usize,
    numbers: Vec<u32>,
}

/// The matches for some rows, from all workers.
#[derive(Debug, Default)]
pub struct WorkerMatches {
    /// The rows that have matches. Each row is stored with the position in `numbers` at which its
    /// matches end.
    pub rows: Vec<(u64, usize)>,
    /// The numbers of the matching rows. The numbers for each row are in no particular order.
    pub numbers: Vec<u32>,
}

/// Creates both gates, and paths between them for the given number of workers.
pub fn pipes<T: Send + Sync>(workers: usize) -> (Entry<T>, Vec<Passage<T>>, Exit, Arc<Crew>) {
    let enough = "as many sources as there may be threads";
    let (sources, readers) = ScaleGate::new(2, workers).expect(enough);
    let (outs, mut matches) = ScaleGate::new(workers, 1).expect(enough);
    let marks = || (0..workers).map(|_| HighWater::default()).collect();
    let crew = Crew::new(1);
    let (wanted, passed, taken) = (HighWater::default(), marks(), marks());
    let shared = Arc::new(PipeState { crew: crew.clone(), wanted, passed, taken });
    let sources = <[Source<T>; 2]>::try_from(sources).expect("there are two");
    let worker = |(number, (rows, out))| Passage { number, rows, out, shared: shared.clone() };
    let parts = readers.into_iter().zip(outs).enumerate().map(worker).collect();
    let exit = Exit {
        matches: matches.pop().expect("there is one"),
        next: None,
        taken: vec![0; workers],
        passed: 0,
        heard: 0,
        shared: shared.clone(),
    };
    (Entry { sources, rows: 0, shared }, parts, exit, crew)
}

impl<T: Send + Sync> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<T: Send + Sync> fmt::Debug for Passage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passage").field("number", &self.number).finish_non_exhaustive()
    }
}

impl fmt::Debug for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exit").field("taken", &self.taken).finish_non_exhaustive()
    }
}

const IN_ORDER: &str = "rows are in order, and nothing limits the gate";

impl<T: Send + Sync> Entry<T> {
    /// Returns the number of rows added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds the next row. Workers notice the row once they are [called](Self::call), if not
    /// earlier.
    pub fn put(&mut self, side: Side, row: T) {
        self.sources[side as usize].push(self.rows as i64, row).expect(IN_ORDER);
        self.rows += 1;
        if self.rows.is_multiple_of(TURN) {
            self.call();
        }
    }

    /// Adds a non-row item before the next row.
    pub fn note(&mut self, item: T) {
        // If two items have the same time, the item of the first source comes first.
        self.sources[0].push(self.rows as i64, item).expect(IN_ORDER);
    }

    /// Wakes the workers so that they process everything that was added.
    pub fn call(&mut self) {
        self.sources.iter_mut().for_each(|source| source.advance(self.rows as i64));
        self.shared.crew.call(CALL).ring();
    }
}

impl<T: Send + Sync> Passage<T> {
    /// Processes items until [the crew ends](Crew::end).
    pub fn run(mut self, mut process: impl Process<T>) {
        let crew = self.shared.crew.clone();
        crew.work(|| self.work(&mut process));
    }

    fn work(&mut self, process: &mut impl Process<T>) {
        let Passage { number, rows, out, shared } = self;
        let (mark, taken) = (&shared.passed[*number], &shared.taken[*number]);
        let (mut passed, mut told, mut found) = (0, 0, 0);
        let tell = |passed: u64, told: &mut u64, is_waiting: bool, out: &mut Source<Vec<u32>>| {
            out.advance(passed as i64);
            mark.raise(passed);
            if *told < passed && (is_waiting || passed >= shared.wanted.get()) {
                *told = passed;
                shared.crew.told().ring();
            }
        };
        let mut patience = Patience::default();
        while !shared.crew.is_over() {
            let has_room = found - taken.get() < MOST_WAITING;
            match if has_room { rows.next_ready() } else { Next::NotYet } {
                Next::Ready(row) => {
                    let Some(matches) = process.process(row.payload) else { continue };
                    if !matches.is_empty() {
                        found += matches.len() as u64;
                        out.push(row.ts, matches).expect(IN_ORDER);
                    }
                    passed = row.ts as u64 + 1;
                    if passed.is_multiple_of(TURN) {
                        process.rest();
                        memory::check();
                        tell(passed, &mut told, false, out);
                    }
                    patience.renew();
                }
                Next::NotYet => {
                    let is_waiting = patience.wait(shared.crew.call(CALL));
                    if is_waiting {
                        process.rest();
                    }
                    tell(passed, &mut told, is_waiting, out);
                }
                Next::End => return,
            }
        }
    }
}

impl Exit {
    /// Returns the number of rows that all workers have passed.
    fn all_passed(&self) -> u64 {
        self.shared.passed.iter().map(HighWater::get).min().expect("there are workers")
    }

    /// Waits until all workers have passed the first `wanted` rows. After a while, any number of
    /// rows above `from` is enough. The method also stops waiting if `is_paused` returns `true`.
    /// Returns the number of rows that all workers have passed.
    ///
    /// # Panics
    ///
    /// If a worker has panicked, panics with the payload of that panic.
    pub fn wait(&mut self, from: u64, wanted: u64, is_paused: impl Fn() -> bool) -> u64 {
        self.shared.wanted.raise(wanted);
        // Settles for fewer rows if some are known to have been passed, or if a worker has rung. A
        // worker rings after it has passed the wanted rows, and before it waits.
        let mut is_content = self.passed > from;
        loop {
            let rings = self.shared.crew.told().rings();
            is_content |= std::mem::replace(&mut self.heard, rings) != rings;
            self.shared.crew.check();
            self.passed = self.all_passed();
            if self.passed >= wanted || (is_content && self.passed > from) || is_paused() {
                return self.passed;
            }
            self.shared.crew.told().wait_for(rings, PATIENCE);
            is_content = true;
        }
    }

    /// Returns matches for rows before `upto`. All workers have passed these rows. The result has
    /// at most about `most` matches, or contains the matches for a single row. Also returns a row
    /// number that is greater than the numbers of all these rows.
    pub fn take(&mut self, upto: u64, most: usize) -> (WorkerMatches, u64) {
        let mut all = WorkerMatches::default();
        let mut end = upto;
        while let Some(Matches { row, worker, numbers }) = self.next() {
            let is_new = all.rows.last().is_none_or(|last| last.0 != row);
            if row >= upto || (is_new && !all.rows.is_empty() && all.numbers.len() >= most) {
                end = upto.min(row);
                self.next = Some(Matches { row, worker, numbers });
                break;
            }
            self.taken[worker] += numbers.len() as u64;
            all.numbers.extend(numbers);
            match all.rows.last_mut() {
                Some(last) if last.0 == row => last.1 = all.numbers.len(),
                _ => all.rows.push((row, all.numbers.len())),
            }
        }
        if !all.rows.is_empty() {
            for (mark, &taken) in self.shared.taken.iter().zip(&self.taken) {
                mark.raise(taken);
            }
            self.shared.crew.call(CALL).ring();
        }
        (all, end)
    }

    fn next(&mut self) -> Option<Matches> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        match self.matches.next_ready() {
            Next::Ready(row) => Some(Matches {
                row: row.ts as u64,
                worker: usize::from(row.id.source()),
                numbers: row.payload.clone(),
            }),
            Next::NotYet | Next::End => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Instant;

    use super::*;

    /// Returns a function that reports whether a test has been running much too long.
    fn patience() -> impl Fn() -> bool {
        let until = Instant::now() + Duration::from_secs(60);
        move || Instant::now() > until
    }

    /// Panics at a row.
    struct Broken(u32);

    impl Process<u32> for Broken {
        fn process(&mut self, row: &u32) -> Option<Vec<u32>> {
            assert_ne!(*row, self.0, "a broken thread");
            Some(Vec::new())
        }
    }

    #[test]
    fn a_panic_ends_all_and_reaches_the_thread_that_waits() {
        let (mut entry, parts, mut exit, _) = pipes(3);
        let run = |(nth, part): (u32, Passage<u32>)| {
            // One worker panics at an existing row.
            std::thread::spawn(move || part.run(Broken(2 + 10 * nth)))
        };
        let threads: Vec<_> = (0..).zip(parts).map(run).collect();
        (0..5).for_each(|row| entry.put(Side::Left, row));
        entry.call();
        let waits = AssertUnwindSafe(|| exit.wait(4, 5, patience()));
        let payload = catch_unwind(waits).expect_err("a worker has panicked");
        let text = payload.downcast_ref::<String>().expect("a text");
        assert!(text.contains("a broken thread"), "{text}");
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(catch_unwind(AssertUnwindSafe(|| exit.wait(4, 5, patience()))).is_err());
    }

    #[test]
    fn who_is_asked_to_rest_does_not_wait() {
        let (mut entry, parts, mut exit, _) = pipes::<u32>(1);
        entry.put(Side::Left, 0);
        entry.call();
        // No worker is running.
        assert_eq!(exit.wait(0, 1, || true), 0);
        drop(parts);
    }

    /// Finds as many matches for a row as the row's value specifies.
    struct Count;

    impl Process<u32> for Count {
        fn process(&mut self, row: &u32) -> Option<Vec<u32>> {
            (*row < 100).then(|| vec![7; *row as usize])
        }
    }

    #[test]
    fn matches_come_by_row_and_workers_wait_for_room() {
        let (mut entry, parts, mut exit, crew) = pipes(2);
        let mut wanted = Vec::new();
        for row in 0..40_u64 {
            if row % 7 == 3 {
                entry.note(100);
            }
            entry.put(if row % 3 == 0 { Side::Left } else { Side::Right }, (row % 9) as u32);
            wanted.extend(vec![row; 2 * (row % 9) as usize]);
        }
        entry.call();
        let threads: Vec<_> =
            parts.into_iter().map(|part| std::thread::spawn(move || part.run(Count))).collect();
        let (mut found, mut given) = (Vec::new(), 0);
        let is_over = patience();
        while given < 40 {
            let passed = exit.wait(given, 40, &is_over);
            assert!(!is_over(), "{given} of 40 rows have been passed");
            let (taken, upto) = exit.take(passed, 5);
            let mut start = 0;
            for &(row, end) in &taken.rows {
                assert!((given..upto).contains(&row));
                found.extend(vec![row; end - start]);
                start = end;
            }
            assert!(taken.rows.len() <= 1 || start < 5 + 16, "{:?}", taken.rows);
            given = upto;
        }
        assert_eq!(found, wanted);
        // All matches except those of one row were taken before the worker continued.
        assert_eq!(exit.taken, [wanted.len() as u64 / 2; 2]);
        crew.end();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
