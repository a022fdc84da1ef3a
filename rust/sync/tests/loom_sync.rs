//! Checks the shared types of this crate with loom, for every interleaving that loom models.
//!
//! `make loom` runs these models and those in `loom_gate.rs`.
//!
//! Threads hand over checked cells. The threads write the cells before the handover and read them
//! after it. If an ordering is too weak, the two accesses race, and the model fails. Dropped values
//! are counted.
#![cfg(loom)]

use loom::thread;
use tidegate_sync::atomic::{Arc, AtomicI64, Ordering, RaceCell};
use tidegate_sync::{
    Bell, HighWater, Latest, OnceLink, OptimisticLock, Prefix, Stack, TryLock, explore, lend, ring,
};

/// A number in a checked cell, and an `Arc` whose leak loom would detect.
struct Cell {
    number: RaceCell<usize>,
    _alive: Arc<()>,
}

// SAFETY: the models hand a cell over after it has been written, which is what loom then checks.
unsafe impl Send for Cell {}
// SAFETY: as for `Send`.
unsafe impl Sync for Cell {}

impl Cell {
    fn new(number: usize) -> Self {
        let cell = Cell { number: RaceCell::new(0), _alive: Arc::new(()) };
        // SAFETY: no other thread has access to the cell yet.
        cell.number.with_mut(|place| unsafe { *place = number });
        cell
    }

    fn add(&self, number: usize) {
        // SAFETY: only one thread at a time has access to the cell, which is what loom checks.
        self.number.with_mut(|place| unsafe { *place += number });
    }

    fn get(&self) -> usize {
        // SAFETY: the cell is not written after it has been handed over.
        self.number.with(|place| unsafe { *place })
    }
}

#[test]
fn loom_once_link_one_wins_and_all_see_it() {
    explore(None, || {
        let link = Arc::new(OnceLink::default());
        let setters: Vec<_> = [1, 2]
            .into_iter()
            .map(|number| {
                let link = link.clone();
                thread::spawn(move || {
                    let won = link.set(Arc::new(Cell::new(number))).is_ok();
                    (won, link.get().expect("one of the threads has set it").get())
                })
            })
            .collect();
        let early = link.peek().map(Cell::get);
        let set: Vec<_> = setters.into_iter().map(|setter| setter.join().unwrap()).collect();
        let winner = if set[0].0 { 1 } else { 2 };
        assert!(set[0].0 != set[1].0, "exactly one wins");
        assert!(set.iter().all(|(_, seen)| *seen == winner));
        assert!(early.is_none_or(|seen| seen == winner));
    });
}

#[test]
fn loom_once_link_value_outlives_the_link_for_who_has_it() {
    explore(None, || {
        let link = OnceLink::default();
        link.set(Arc::new(Cell::new(7))).ok().expect("the link is empty");
        let link = Arc::new(link);
        let reader = {
            let link = link.clone();
            thread::spawn(move || {
                let cell = link.get().expect("it was set");
                drop(link);
                cell.get()
            })
        };
        drop(link);
        assert_eq!(reader.join().unwrap(), 7);
    });
}

#[test]
fn loom_latest_loses_no_change_and_shows_whole_versions() {
    explore(None, || {
        let latest = Arc::new(Latest::new(Cell::new(0)));
        let writers: Vec<_> = [1, 2]
            .into_iter()
            .map(|number| {
                let latest = latest.clone();
                thread::spawn(move || {
                    let add = |cell: &Cell| Ok::<_, ()>(Cell::new(cell.get() + number));
                    latest.update(add).expect("adding does not fail");
                })
            })
            .collect();
        let early = latest.get();
        assert!(early.get() <= 3);
        assert!(latest.get().get() >= early.get(), "versions follow each other");
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(latest.get().get(), 3, "both changes are in the last version");
    });
}

#[test]
fn loom_stack_takes_all_that_was_pushed() {
    explore(None, || {
        let stack = Arc::new(Stack::default());
        let pushers: Vec<_> = [1, 2]
            .into_iter()
            .map(|number| {
                let stack = stack.clone();
                thread::spawn(move || stack.push(Cell::new(number)))
            })
            .collect();
        let mut taken: Vec<_> = stack.take_all().iter().map(Cell::get).collect();
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        taken.extend(stack.take_all().iter().map(Cell::get));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
        assert!(stack.is_empty());
        stack.push(Cell::new(3)); // dropped with the stack
    });
}

#[test]
fn loom_try_lock_lets_one_in() {
    explore(None, || {
        let lock = Arc::new(TryLock::new(Cell::new(0)));
        let add = |lock: &TryLock<Cell>| {
            // SAFETY: the lock admits only one thread.
            lock.try_with(|cell| cell.number.with_mut(|number| unsafe { *number += 1 })).is_some()
        };
        let other = {
            let lock = lock.clone();
            thread::spawn(move || usize::from(add(&lock)))
        };
        let added = usize::from(add(&lock)) + other.join().unwrap();
        assert!(added >= 1);
        assert_eq!(lock.try_with(|cell| cell.get()), Some(added));
    });
}

#[test]
fn loom_ring_gives_each_value_once_and_in_order() {
    explore(None, || {
        let (mut sender, mut receiver) = ring(2);
        let feeding = thread::spawn(move || {
            for number in 1..=4 {
                let mut cell = Cell::new(number);
                while let Err(unsent) = sender.send(cell) {
                    cell = unsent;
                    thread::yield_now();
                }
            }
        });
        // The last one is dropped with the ring.
        for expected in 1..=3 {
            let cell = loop {
                match receiver.receive() {
                    Some(cell) => break cell,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(cell.get(), expected);
        }
        feeding.join().unwrap();
    });
}

#[test]
fn loom_ring_outlived_by_either_end() {
    explore(None, || {
        let (mut sender, mut receiver) = ring(2);
        let feeding = thread::spawn(move || {
            assert!(sender.send(Cell::new(1)).is_ok());
            assert!(sender.send(Cell::new(2)).is_ok());
        });
        let first = receiver.receive().map(|cell| cell.get());
        assert!(first.is_none_or(|number| number == 1));
        drop(receiver);
        feeding.join().unwrap();
    });
}

#[test]
fn loom_high_water_shows_what_was_done_before() {
    explore(None, || {
        let shared = Arc::new((HighWater::default(), Cell::new(0)));
        let raiser = {
            let shared = shared.clone();
            thread::spawn(move || {
                // SAFETY: the number is not read before the mark is raised.
                shared.1.number.with_mut(|number| unsafe { *number = 7 });
                shared.0.raise(1);
            })
        };
        while shared.0.get() == 0 {
            thread::yield_now();
        }
        assert_eq!(shared.1.get(), 7);
        raiser.join().unwrap();
    });
}

#[test]
fn loom_bell_no_ring_is_missed() {
    explore(None, || {
        let shared = Arc::new((Bell::default(), HighWater::default()));
        let bringer = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.raise(1);
                shared.0.ring();
            })
        };
        // Loom fails a model in which a thread waits forever.
        loop {
            let heard = shared.0.rings();
            if shared.1.get() == 1 {
                break;
            }
            shared.0.wait(heard);
        }
        bringer.join().unwrap();
    });
}

#[test]
fn loom_loan_nobody_is_at_work_once_it_is_taken_back() {
    explore(None, || {
        let cell = Cell::new(0);
        let work = || cell.add(1);
        let helper = lend(&work, |loan| {
            let loan = loan.clone();
            thread::spawn(move || loan.call())
        });
        // Loom fails the model if the helper still uses the cell, or uses it later.
        cell.add(10);
        let found = cell.get();
        helper.join().unwrap();
        assert!(found == 10 || found == 11, "{found}");
        assert_eq!(cell.get(), found);
    });
}

#[test]
fn loom_loan_of_two_helpers() {
    explore(Some(3), || {
        let cells = [Cell::new(0), Cell::new(0)];
        let next = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let work = || {
            let mine = next.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
            cells[mine].add(1);
        };
        let helpers = lend(&work, |loan| {
            [0, 1].map(|_| {
                let loan = loan.clone();
                thread::spawn(move || loan.call())
            })
        });
        cells.iter().for_each(|cell| cell.add(10));
        helpers.into_iter().for_each(|helper| helper.join().unwrap());
        assert!(cells.iter().all(|cell| (10..=11).contains(&cell.get())));
    });
}

/// Two numbers that are written together, one increasing and one decreasing.
#[derive(Default)]
struct Two {
    lock: OptimisticLock,
    numbers: [Number; 2],
}

struct Number(AtomicI64);

impl Default for Number {
    fn default() -> Self {
        Number(AtomicI64::new(0))
    }
}

impl Two {
    /// Returns both numbers as of the same version, or `None` if a write interferes.
    fn read(&self) -> Option<[i64; 2]> {
        let version = self.lock.read();
        let seen = self.numbers.each_ref().map(|number| number.0.load(Ordering::Relaxed));
        self.lock.is_valid(version).then_some(seen)
    }

    /// Adds to one number and subtracts from the other.
    fn write(&self) {
        loop {
            let version = self.lock.read();
            let [up, down] = self.numbers.each_ref().map(|number| number.0.load(Ordering::Relaxed));
            if let Some(_held) = self.lock.try_lock(version) {
                self.numbers[0].0.store(up + 1, Ordering::Relaxed);
                self.numbers[1].0.store(down - 1, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// The writer begins, because loom explores other orders after a write followed by a read. Loom
/// does not explore other orders after a read followed by the writer's own read.
#[test]
fn loom_optimistic_lock_gives_no_reader_what_is_half_written() {
    explore(None, || {
        let two = Arc::new(Two::default());
        let reader = thread::spawn({
            let two = two.clone();
            move || two.read()
        });
        two.write();
        if let Some(seen) = reader.join().unwrap() {
            assert!(seen == [0, 0] || seen == [1, -1], "{seen:?}");
        }
        assert_eq!(two.read(), Some([1, -1]));
    });
}

#[test]
fn loom_optimistic_lock_loses_no_write() {
    explore(Some(3), || {
        let two = Arc::new(Two::default());
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let two = two.clone();
                thread::spawn(move || two.write())
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(two.read(), Some([2, -2]));
    });
}

#[test]
fn loom_prefix_hands_over_what_was_done_before_any_mark_behind_the_edge() {
    explore(None, || {
        let shared = Arc::new((Prefix::new(2), [Cell::new(0), Cell::new(0)]));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1[0].add(7);
                shared.0.mark(0);
            })
        };
        shared.1[1].add(8);
        shared.0.mark(1);
        // Either thread can have moved the edge past the marks of both.
        let edge = shared.0.edge();
        if edge >= 1 {
            assert_eq!(shared.1[0].get(), 7);
        }
        other.join().unwrap();
        assert_eq!(shared.1[0].get() + shared.1[1].get(), 15);
    });
}

#[test]
fn loom_prefix_shows_a_third_thread_what_was_done_before_the_edge() {
    explore(Some(3), || {
        let shared = Arc::new((Prefix::new(2), [Cell::new(0), Cell::new(0)]));
        let others: Vec<_> = (0..2)
            .map(|nth| {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.1[nth].add(nth + 1);
                    shared.0.mark(nth);
                })
            })
            .collect();
        for nth in 0..shared.0.edge() {
            assert_eq!(shared.1[nth].get(), nth + 1);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
