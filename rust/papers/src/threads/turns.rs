//! Runs tasks that wait for each other on the threads of a driver.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_operators::driver::{Driver, Stopped};
use tidegate_sync::{Backoff, Stop};

/// The outcome of a task's turn (see [`take_turns`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The task has done some work.
    Worked,
    /// The task cannot continue until another task has made progress.
    Waiting,
    /// The task has completed the last remaining work of all tasks.
    Finished,
}

/// The time that a thread sleeps when all of its tasks have been waiting for a while.
const NAP: Duration = Duration::from_micros(50);

/// Repeatedly calls tasks that wait for each other, until one task reports that all work is done.
///
/// Adjacent tasks share a thread, which runs them in turn. A task stays on its thread. If the
/// driver's threads [persist](Driver::lasting), the next call with the same number of tasks runs
/// each task on the same thread. A panic in a task ends all tasks and is resumed on the caller's
/// thread.
pub fn take_turns<T: FnMut() -> Turn + Send>(
    driver: &Driver,
    tasks: Vec<T>,
) -> Result<(), Stopped> {
    let threads = driver.threads().min(tasks.len());
    // Set when a thread ends for any reason, because nothing is left to wait for then.
    let over = Stop::default();
    if threads <= 1 {
        return take_turns_here(driver, tasks, &over);
    }
    let share = tasks.len().div_ceil(threads);
    let mut tasks = tasks.into_iter();
    let shares: Vec<Mutex<Vec<T>>> =
        (0..threads).map(|_| Mutex::new(tasks.by_ref().take(share).collect())).collect();
    let take = |&nth: &usize| {
        std::mem::take(
            &mut *shares[nth].lock().expect("the lock is held only while tasks are being taken"),
        )
    };
    let outcome = Mutex::new(Ok(()));
    driver.on_each_thread(threads, &|numbers| {
        // Includes the tasks of threads that could not be started, because tasks wait for each
        // other.
        let tasks = numbers.iter().flat_map(take).collect();
        let ended = take_turns_here(driver, tasks, &over);
        let mut all = lock(&outcome);
        *all = all.and(ended);
    });
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs tasks in turns on this thread.
fn take_turns_here<T: FnMut() -> Turn>(
    driver: &Driver,
    mut tasks: Vec<T>,
    over: &Stop,
) -> Result<(), Stopped> {
    let _end = EndOfScope(over);
    let backoff = Backoff::new();
    loop {
        let mut worked = false;
        for task in &mut tasks {
            match task() {
                Turn::Worked => worked = true,
                Turn::Waiting => {}
                Turn::Finished => return Ok(()),
            }
        }
        if over.is_requested() {
            return Ok(());
        }
        driver.check()?;
        if worked {
            backoff.reset();
        } else if backoff.is_completed() {
            std::thread::sleep(NAP);
        } else {
            backoff.snooze();
        }
    }
}

/// Acquires a lock that is never held during a panic.
fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals a stop when its scope is exited, for any reason.
struct EndOfScope<'a>(&'a Stop);

impl Drop for EndOfScope<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Tasks that pass a number around in a circle until it reaches `upto`.
    fn circle(
        driver: &Driver,
        tasks: usize,
        upto: usize,
        at: usize,
        act: impl Fn() + Sync,
    ) -> Result<usize, Stopped> {
        let number = Mutex::new(0);
        let (number, act) = (&number, &act);
        let task = |nth: usize| {
            move || {
                let mut number = lock(number);
                if *number == upto {
                    return Turn::Finished;
                }
                if *number % tasks != nth {
                    return Turn::Waiting;
                }
                if *number == at {
                    act();
                }
                *number += 1;
                Turn::Worked
            }
        };
        take_turns(driver, (0..tasks).map(task).collect())?;
        Ok(*number.lock().unwrap())
    }

    #[test]
    fn tasks_that_wait_for_each_other_take_turns() {
        for threads in [1, 2, 3, 9] {
            let lasting = Driver::lasting(threads, Stop::default(), false).unwrap();
            for driver in [Driver::new(threads, Stop::default()), lasting] {
                for tasks in [1, 3, 5] {
                    assert_eq!(circle(&driver, tasks, 1000, 0, || ()), Ok(1000));
                }
            }
        }
    }

    #[test]
    fn turns_end_with_a_stop_and_with_a_panic() {
        for threads in [1, 2] {
            let stop = Stop::default();
            let driver = Driver::new(threads, stop.clone());
            assert_eq!(circle(&driver, 3, usize::MAX, 100, || stop.request()), Err(Stopped));
            for driver in [
                Driver::new(threads, Stop::default()),
                Driver::lasting(threads, Stop::default(), false).unwrap(),
            ] {
                let work = AssertUnwindSafe(|| {
                    circle(&driver, 3, usize::MAX, 100, || panic!("the task failed"))
                });
                assert!(catch_unwind(work).is_err());
                assert_eq!(circle(&driver, 3, 10, 0, || ()), Ok(10), "the threads keep running");
            }
        }
    }
}
