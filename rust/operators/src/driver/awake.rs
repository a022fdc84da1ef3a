//! Pool threads that stay awake during calls and for a moment afterwards.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon_core::{ThreadPool, Yield};
use tidegate_sync::{Backoff, Counter};

/// The time that threads stay awake after a call. A caller that pushes rows and polls makes its
/// next call within this time. Waking a thread takes as long as processing one part of a call.
pub(super) const AFTER_A_CALL: Duration = Duration::from_micros(250);

thread_local! {
    /// `true` if this thread is already staying awake.
    static STAYS: Cell<bool> = const { Cell::new(false) };
}

/// The state in which a pool's threads see whether calls are running.
#[derive(Debug)]
pub(super) struct Awake {
    calls: Counter,
    after: Duration,
}

impl Awake {
    /// Creates the state for threads that stay awake for `after` after a call.
    pub(super) fn new(after: Duration) -> Arc<Self> {
        Arc::new(Awake { calls: Counter::new(0), after })
    }

    /// Calls `work`. Until `work` returns and for some time afterwards, all threads of the pool
    /// except the calling one stay awake.
    pub(super) fn during<R>(self: &Arc<Self>, pool: &ThreadPool, work: impl FnOnce() -> R) -> R {
        self.calls.add(1);
        let _call = Call(self);
        let (me, awake) = (pool.current_thread_index(), self.clone());
        // The call does not wait for these threads, since a thread without a processor would delay
        // the caller.
        pool.spawn_broadcast(move |context| {
            if Some(context.index()) != me {
                awake.stay();
            }
        });
        work()
    }

    /// Stays awake and processes incoming work until there has been no call and no work for some
    /// time.
    fn stay(&self) {
        // A thread that is already staying awake for an earlier call gets here from `yield_now`
        // below.
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

/// Records that a call has ended when it is dropped, even after a panic.
struct Call<'a>(&'a Awake);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.subtract(1);
    }
}
