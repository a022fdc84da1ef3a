//! What threads that go on between calls tell each other, and the thread that takes what they find.
//!
//! A thread of the crew that has nothing to do waits for a bell that others ring for it: its own, or
//! one for all. The thread that takes waits for the bell that the crew rings for it. All end
//! together: when their owner ends them, or when one panics.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tidegate_sync::atomic::Arc;
use tidegate_sync::{Backoff, Bell, Lock, Stop};

/// What the threads share.
pub struct Crew {
    over: Stop,
    /// For threads that wait for something to do.
    calls: Vec<Bell>,
    /// For the thread that takes what they find.
    told: Bell,
    /// What a thread has panicked with.
    panic: Lock<Option<Box<dyn Any + Send>>>,
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("over", &self.over).finish_non_exhaustive()
    }
}

impl Crew {
    /// A crew with this number of bells for its threads.
    pub fn new(bells: usize) -> Arc<Self> {
        Arc::new(Crew {
            over: Stop::default(),
            calls: (0..bells).map(|_| Bell::default()).collect(),
            told: Bell::default(),
            panic: Lock::new(None),
        })
    }

    /// The work of one of the threads, which lasts until [all is over](Self::is_over). A panic ends
    /// all of them, and is left to the thread that takes.
    pub fn work(&self, work: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
            self.panic.with(|panic| _ = panic.get_or_insert(payload));
            self.end();
        }
    }

    /// Whether the threads are to end.
    pub fn is_over(&self) -> bool {
        self.over.is_requested()
    }

    /// Lets all threads end, each after what it is at.
    pub fn end(&self) {
        self.over.request();
        self.calls.iter().for_each(Bell::ring);
        self.told.ring();
    }

    /// The bell of this number, for threads that wait for something to do.
    pub fn call(&self, number: usize) -> &Bell {
        &self.calls[number]
    }

    /// The bell for the thread that takes.
    pub fn told(&self) -> &Bell {
        &self.told
    }

    /// Makes sure that the threads are at work.
    ///
    /// # Panics
    ///
    /// When a thread has panicked, as it did; or when all have ended.
    pub fn check(&self) {
        if self.is_over() {
            match self.panic.with(Option::take) {
                Some(payload) => resume_unwind(payload),
                None => panic!("all threads have ended"),
            }
        }
    }
}

/// The way of a thread into its sleep: it looks again and again for a while, since work often comes
/// soon; then it notes how often its bell has rung, looks once more, and waits for the bell.
#[derive(Debug, Default)]
pub struct Patience {
    backoff: Backoff,
    heard: Option<u64>,
}

impl Patience {
    /// The thread has found something to do.
    pub fn renew(&mut self) {
        self.backoff.reset();
        self.heard = None;
    }

    /// The thread has found nothing to do, and waits before it looks again. True if it sleeps next,
    /// unless it finds something in the look that follows.
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
        assert!(catch_unwind(|| crew.check()).is_err(), "there are no threads any more");
    }
}
