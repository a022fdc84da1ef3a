//! Threads of a pool that stay awake while calls are at work, and for a moment after.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon_core::{ThreadPool, Yield};
use tidegate_sync::{Backoff, Counter};

/// How long threads stay awake after a call: a caller that pushes rows and polls comes back within
/// that time, and to wake a thread takes as long as a part of its work.
pub(super) const AFTER_A_CALL: Duration = Duration::from_micros(250);

thread_local! {
    /// Whether this thread stays awake already.
    static STAYS: Cell<bool> = const { Cell::new(false) };
}

/// What the threads of a pool know of the calls at work.
#[derive(Debug)]
pub(super) struct Awake {
    calls: Counter,
    after: Duration,
}

impl Awake {
    /// For threads that stay awake for so long after a call.
    pub(super) fn new(after: Duration) -> Arc<Self> {
        Arc::new(Awake { calls: Counter::new(0), after })
    }

    /// Calls `work`. Meanwhile, and for some time after, the threads of the pool stay awake, but for
    /// the one that this is.
    pub(super) fn during<R>(self: &Arc<Self>, pool: &ThreadPool, work: impl FnOnce() -> R) -> R {
        self.calls.add(1);
        let _call = Call(self);
        let (me, awake) = (pool.current_thread_index(), self.clone());
        // Nobody waits for these threads: one that lost its processor would hold up the caller.
        pool.spawn_broadcast(move |context| {
            if Some(context.index()) != me {
                awake.stay();
            }
        });
        work()
    }

    /// Stays awake and does the work that comes, until there has been no call and no work for some
    /// time.
    fn stay(&self) {
        // A thread that stays for an earlier call comes here from within.
        if STAYS.replace(true) {
            return;
        }
        let backoff = Backoff::new();
        let mut idle: Option<Instant> = None;
        while self.calls.get() > 0 || idle.get_or_insert_with(Instant::now).elapsed() < self.after {
            match rayon_core::yield_now() {
                Some(Yield::Executed) => {
                    idle = None;
                    backoff.reset();
                }
                _ => backoff.snooze(),
            }
        }
        STAYS.set(false);
    }
}

/// Says that a call has ended when it is left, however that is.
struct Call<'a>(&'a Awake);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.subtract(1);
    }
}
