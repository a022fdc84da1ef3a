//! Starts threads. No start ends the process for want of memory.
//!
//! A thread takes memory past the allocator: its stack, and what its thread-locals need when it
//! uses them first. Without a stack the system refuses the thread. Without memory for a
//! thread-local, glibc ends the process. So where a limit may refuse memory,
//!
//! 1. the starter looks whether there is room for all that a thread needs, which is an error
//!    otherwise;
//! 2. it starts the thread;
//! 3. the thread uses its thread-locals, and says so;
//! 4. the starter waits for that, and does nothing else meanwhile.
//!
//! Threads begin one after the other, since glibc takes 128 MiB of addresses for a moment when a
//! thread allocates for the first time.
//!
//! # Trade-offs
//!
//! Threads that already run may take the room between the first two steps. It is large beside what
//! they take in so short a time, but nothing forbids it. Where nothing limits the process, nobody
//! looks or waits: the threads of a call begin at the same time.

use std::cell::Cell;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_structures::memory::{self, OutOfMemory};

use super::work_of::WorkOf;

/// Bytes of a thread's stack: as many as std takes by default.
const STACK: usize = 2 << 20;

/// What a new thread has to say to its starter, if that waits for it.
#[derive(Debug, Default)]
pub(super) struct StartSignal(Option<SyncSender<()>>);

impl StartSignal {
    /// Uses the thread-locals that every thread has, and the ones that `uses` does, and says so.
    pub(super) fn say(self, uses: impl FnOnce()) {
        if self.0.is_some() {
            use_thread_locals();
            uses();
        }
    }
}

/// Calls `start`, which starts a thread that [signals](StartSignal::say) when it has begun.
///
/// Returns an error if there is not enough memory for the thread, or if the system refuses to start
/// it.
pub(super) fn begin<T>(start: impl FnOnce(Builder, StartSignal) -> io::Result<T>) -> io::Result<T> {
    prepare_thread().map_err(io::Error::other)?;
    let builder = Builder::new().stack_size(STACK);
    if !memory::room_for_thread(STACK).map_err(io::Error::other)? {
        return start(builder, StartSignal(None));
    }
    let (begun, has_begun) = sync_channel(0);
    let started = start(builder, StartSignal(Some(begun)))?;
    // An error, since the thread has nothing to say but that it has.
    let _ = has_begun.recv();
    Ok(started)
}

thread_local! {
    static IS_PREPARED: Cell<bool> = const { Cell::new(false) };
}

/// Uses the thread-locals that this thread needs to wait for others, as long as there is memory:
/// for threads that were not started here.
pub fn prepare_thread() -> Result<(), OutOfMemory> {
    if !IS_PREPARED.get() {
        memory::room_for_thread(0)?;
        use_thread_locals();
    }
    Ok(())
}

/// Uses each thread-local that has a destructor: those for waiting on a channel and on a lock.
fn use_thread_locals() {
    let (_sender, nothing) = sync_channel::<()>(0);
    let _ = nothing.recv_timeout(Duration::ZERO);
    let lock = Mutex::new(());
    let _held = lock.lock();
    drop(lock.try_lock_for(Duration::ZERO));
    drop(WorkOf::here());
    IS_PREPARED.set(true);
}
