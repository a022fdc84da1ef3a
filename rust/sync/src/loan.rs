//! Lends work that borrows from its owner's stack to threads that outlive the borrow.
//!
//! A pool thread accepts only `'static` work. If an owner lends a borrow to such a thread, the
//! owner must ensure that nothing uses the borrow after the borrow ends. A thread therefore enters
//! before it starts the work and leaves afterwards. When the owner takes the work back, it waits
//! for the threads that are inside. If a thread enters too late, it finds that the work has been
//! taken back. The owner does not wait for a thread that has not entered yet, no matter how long
//! that thread sleeps.
//!
//! ```text
//! owner    lend ──────── works, too ──────── takes back ─ waits ─▶ continues
//! helper 0       enters ─ works ───────────────── leaves ─┘
//! helper 1                                                    arrives too late, does nothing
//! ```

use std::any::Any;
use std::fmt;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::panicking;

use crate::Lock;
use crate::atomic::{Arc, AtomicUsize, Ordering};

/// When the work is taken back, this value is added to the number of threads inside.
const BACK: usize = 1 << (usize::BITS - 1);

/// Work that its owner has lent. All clones refer to the same work.
#[derive(Clone)]
pub struct Loan(Arc<LentWork>);

struct LentWork {
    /// This pointer is valid until the work has been taken back and all threads have left.
    work: *const (dyn Fn() + Sync),
    /// The number of threads inside. Once the work has been taken back, [`BACK`] is added.
    inside: AtomicUsize,
    /// The payload of a panic that occurred in the work on another thread.
    panic: Lock<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the pointer is to a closure that is `Sync`, so any thread can call it, and the pointer is
// used for nothing else. The other fields can be sent between threads.
unsafe impl Send for LentWork {}
// SAFETY: as for `Send`.
unsafe impl Sync for LentWork {}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("inside", &self.0.inside).finish_non_exhaustive()
    }
}

impl Loan {
    /// Does the work, unless it has been taken back. A panic is passed to the owner when the work
    /// is taken back.
    pub fn call(&self) {
        let LentWork { work, inside, panic } = &*self.0;
        // Acquire: the work does not begin before the thread is inside. All changes to one atomic
        // have a single order, so either the owner finds this thread inside, or this thread finds
        // `BACK`.
        if inside.fetch_add(1, Ordering::Acquire) < BACK {
            // SAFETY: this thread entered before the work was taken back, and the owner keeps the
            // closure until the thread has left.
            let work = AssertUnwindSafe(|| unsafe { (**work)() });
            if let Err(payload) = catch_unwind(work) {
                // The owner receives the last payload. The previous payload is leaked, because
                // dropping it can panic, and the owner would then wait for this thread forever.
                forget(panic.with(|panic| panic.replace(payload)));
            }
        }
        // Release: pairs with the Acquire of `take_back`, whose thread then sees all effects of the
        // work.
        inside.fetch_sub(1, Ordering::Release);
    }

    /// Stops admitting threads, and waits until no thread is inside.
    fn take_back(&self) {
        let inside = &self.0.inside;
        // Acquire, here and below: pairs with the Release of threads that have left.
        let mut left = inside.fetch_add(BACK, Ordering::Acquire) + BACK;
        let mut wait = Wait::default();
        while left != BACK {
            wait.once();
            left = inside.load(Ordering::Acquire);
        }
    }
}

/// A guard that takes the work back when dropped, even after a panic.
struct TakeBack<'a>(&'a Loan);

impl Drop for TakeBack<'_> {
    fn drop(&mut self) {
        self.0.take_back();
        if panicking() {
            // The owner's own panic continues. Dropping this payload could panic too, and abort the
            // process.
            forget(self.0.0.panic.with(Option::take));
        }
    }
}

/// Lends `work` while `during` is running. `during` can pass the loan to other threads. Returns
/// once no thread is doing the work. If one of these threads panics, the panic is resumed on the
/// owner's thread.
///
/// ```
/// use tidegate_sync::{Counter, lend};
///
/// let calls = Counter::new(0);
/// let work = || {
///     calls.add(1);
/// };
/// let loan = lend(&work, |loan| {
///     let lent = loan.clone();
///     // The thread need not be joined for the borrow to end.
///     std::thread::spawn(move || lent.call()).join().unwrap();
///     work();
///     loan.clone()
/// });
/// assert_eq!(calls.get(), 2);
/// loan.call(); // does nothing
/// assert_eq!(calls.get(), 2);
/// ```
pub fn lend<R>(work: &(dyn Fn() + Sync), during: impl FnOnce(&Loan) -> R) -> R {
    let work: *const (dyn Fn() + Sync + '_) = work;
    // SAFETY: only the lifetime changes. No thread uses the pointer after `take_back`, which runs
    // before this function returns or unwinds, while `work` is borrowed.
    let work = unsafe {
        std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync)>(work)
    };
    let loan =
        Loan(Arc::new(LentWork { work, inside: AtomicUsize::new(0), panic: Lock::new(None) }));
    let back = TakeBack(&loan);
    let result = during(&loan);
    drop(back);
    match loan.0.panic.with(Option::take) {
        Some(payload) => resume_unwind(payload),
        None => result,
    }
}

#[cfg(not(loom))]
use patience::Wait;

#[cfg(not(loom))]
mod patience {
    use std::time::{Duration, Instant};

    use crossbeam_utils::Backoff;

    /// The time for which a waiting thread stays ready to resume immediately.
    const AWAKE: Duration = Duration::from_millis(1);

    /// The time that a thread sleeps between two checks once it has waited for `AWAKE`.
    const NAP: Duration = Duration::from_micros(50);

    /// Waits for worker threads: the waiting thread first spins, then yields its processor, and
    /// then sleeps between checks.
    #[derive(Debug, Default)]
    pub(super) struct Wait {
        backoff: Backoff,
        began: Option<Instant>,
    }

    impl Wait {
        pub(super) fn once(&mut self) {
            if !self.backoff.is_completed() {
                return self.backoff.snooze();
            }
            match self.began.get_or_insert_with(Instant::now).elapsed() < AWAKE {
                true => std::thread::yield_now(),
                false => std::thread::sleep(NAP),
            }
        }
    }
}

/// Lets loom run another thread.
#[cfg(loom)]
#[derive(Default)]
struct Wait;

#[cfg(loom)]
impl Wait {
    fn once(&mut self) {
        loom::thread::yield_now();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::panic_any;
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::Counter;

    #[test]
    fn work_is_over_when_it_is_taken_back() {
        for round in 0..50 {
            let calls = [Counter::new(0), Counter::new(0)];
            let work = || {
                calls[0].add(1);
                std::hint::black_box(vec![round; 100]);
                calls[1].add(1);
            };
            let helpers: Vec<_> = lend(&work, |loan| {
                let helper = |_| {
                    let loan = loan.clone();
                    std::thread::spawn(move || loan.call())
                };
                (0..4).map(helper).collect()
            });
            let (begun, ended) = (calls[0].get(), calls[1].get());
            assert_eq!(begun, ended, "no thread is inside");
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
            assert_eq!(calls[0].get(), begun, "no thread has entered since");
        }
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_not_begun() {
        let (go, gone) = sync_channel::<()>(1);
        let helper = lend(&|| panic!("it was taken back"), |loan| {
            let loan = loan.clone();
            std::thread::spawn(move || {
                gone.recv().unwrap();
                loan.call();
            })
        });
        go.send(()).unwrap();
        helper.join().unwrap();
    }

    /// A panic payload that panics when it is dropped.
    struct Thorny;

    impl Drop for Thorny {
        fn drop(&mut self) {
            panic!("a payload was dropped");
        }
    }

    #[test]
    fn nobody_waits_for_a_panic_whose_payload_panics() {
        let caught = catch_unwind(|| {
            lend(&|| panic_any(Thorny), |loan| {
                for _ in 0..2 {
                    let loan = loan.clone();
                    std::thread::spawn(move || loan.call()).join().unwrap();
                }
            });
        });
        let payload = caught.unwrap_err();
        assert!(payload.is::<Thorny>(), "the owner gets the last panic");
        forget(payload);
    }

    #[test]
    fn the_panic_of_an_owner_goes_on_whatever_the_lent_work_panicked_with() {
        let caught = catch_unwind(|| {
            lend(&|| panic_any(Thorny), |loan| {
                let loan = loan.clone();
                std::thread::spawn(move || loan.call()).join().unwrap();
                panic!("the owner failed");
            });
        });
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"the owner failed"));
    }

    #[test]
    fn a_panic_reaches_the_owner_and_work_is_taken_back_when_the_owner_panics() {
        let caught = catch_unwind(|| {
            lend(&|| panic!("the work failed"), |loan| {
                let loan = loan.clone();
                std::thread::spawn(move || loan.call()).join().unwrap();
            });
        });
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"the work failed"));
        let calls = Counter::new(0);
        let mut kept = None;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let work = || {
                calls.add(1);
            };
            lend(&work, |loan| {
                kept = Some(loan.clone());
                panic!("the owner failed");
            });
        }));
        assert!(caught.is_err());
        kept.unwrap().call();
        assert_eq!(calls.get(), 0);
    }
}
