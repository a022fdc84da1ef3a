//! Signals between the thread that takes results and the threads that compute them, which keep
//! running between calls.
//!
//! When a crew thread has no work, it waits for a bell: either its own bell or one that all threads
//! share. The taking thread waits for another bell, which the crew rings. All threads end together,
//! either when their owner stops them or when one of them panics.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tidegate_sync::atomic::Arc;
use tidegate_sync::{Backoff, Bell, Lock, Stop};

/// The state that the threads share.
pub struct Crew {
    over: Stop,
    /// The bells of threads that wait for work.
    calls: Vec<Bell>,
    /// The bell of the thread that takes their results.
    told: Bell,
    /// The payload of a thread's panic.
    panic: Lock<Option<Box<dyn Any + Send>>>,
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("over", &self.over).finish_non_exhaustive()
    }
}

impl Crew {
    /// Creates a crew with the given number of bells for its threads.
    pub fn new(bells: usize) -> Arc<Self> {
        Arc::new(Crew {
            over: Stop::default(),
            calls: (0..bells).map(|_| Bell::default()).collect(),
            told: Bell::default(),
            panic: Lock::new(None),
        })
    }

    /// Runs one thread's work, which continues until [the crew ends](Self::is_over). A panic ends
    /// all threads and is kept for the taking thread.
    pub fn work(&self, work: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            self.panic.with(|panic| _ = panic.get_or_insert(payload));
            self.end();
        }
    }

    /// Returns whether the threads should end.
    pub fn is_over(&self) -> bool {
        self.over.is_requested()
    }

    /// Signals all threads to end after their current step.
    pub fn end(&self) {
        self.over.request();
        self.calls.iter().for_each(Bell::ring);
        self.told.ring();
    }

    /// Returns the bell with this number, for threads that wait for work.
    pub fn call(&self, number: usize) -> &Bell {
        &self.calls[number]
    }

    /// Returns the bell of the taking thread.
    pub fn told(&self) -> &Bell {
        &self.told
    }

    /// Checks that the threads are running.
    ///
    /// # Panics
    ///
    /// Panics if all threads have ended. If a thread has panicked, panics with the payload of that
    /// panic.
    pub fn check(&self) {
        if self.is_over() {
            match self.panic.with(Option::take) {
                Some(payload) => resume_unwind(payload),
                None => panic!("all threads have ended"),
            }
        }
    }
}

/// Determines when a thread sleeps. The thread first checks for work repeatedly, because work often
/// arrives soon. The thread then notes how many times its bell has rung, checks once more, and
/// waits for the bell.
#[derive(Debug, Default)]
pub struct Patience {
    backoff: Backoff,
    heard: Option<u64>,
}

impl Patience {
    /// Records that the thread has found work.
    pub fn renew(&mut self) {
        self.backoff.reset();
        self.heard = None;
    }

    /// Waits before the thread checks for work again. Returns whether the thread will sleep if the
    /// next check finds no work.
    pub fn wait(&mut self, bell: &Bell) -> bool {
        match self.heard.take() {
            None if !cfg!(loom) && !self.backoff.is_completed() => self.backoff.snooze(),
            None => self.heard = Some(bell.rings()),
            Some(heard) => {
                bell.wait(heard);
                self.backoff.reset();
            }
        }
        self.heard.is_some()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_all_and_reaches_the_thread_that_takes() {
        let crew = Crew::new(2);
        std::thread::scope(|scope| {
            for number in 0..2 {
                let crew = &crew;
                scope.spawn(move || {
                    crew.work(|| {
                        let mut patience = Patience::default();
                        while !crew.is_over() {
                            let sleeps = patience.wait(crew.call(number));
                            assert!(number == 0 || !sleeps, "a broken thread");
                        }
                    });
                });
            }
        });
        let payload = catch_unwind(|| crew.check()).expect_err("a thread has panicked");
        assert_eq!(payload.downcast_ref(), Some(&"a broken thread"));
        assert!(catch_unwind(|| crew.check()).is_err(), "all threads have ended");
    }
}
