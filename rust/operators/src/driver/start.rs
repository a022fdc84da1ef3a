//! Starts threads. If there is too little memory for a new thread, the process is not terminated.
//!
//! Some of a thread's memory is not obtained from the allocator: its stack, and the memory that
//! thread-locals need on first use. Without memory for the stack, the system refuses to start the
//! thread. Without memory for a thread-local, glibc terminates the process. If a limit can make
//! allocations fail, a thread is started in four steps:
//!
//! 1. the starter checks that there is room for everything that a thread needs, and returns an
//!    error if there is not;
//! 2. it starts the thread;
//! 3. the thread uses its thread-locals, and signals that it has done so;
//! 4. the starter waits for this signal, and does nothing else until it arrives.
//!
//! Threads are started one after another, because glibc briefly takes 128 MiB of address space when
//! a thread first allocates.
//!
//! # Trade-offs
//!
//! Between the first two steps, threads that are already running can use up the available memory.
//! Such a failure is unlikely, because running threads allocate little in such a short time
//! compared with the available memory. If no limit applies to the process, memory is not checked
//! and no signal is awaited. The threads of a call then start at the same time.

use std::cell::Cell;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_structures::memory::{self, OutOfMemory};

use super::work_of::WorkOf;

/// A thread's stack size in bytes: the default of the standard library.
const STACK: usize = 2 << 20;

/// The signal that a new thread sends to its starter, if the starter waits for one.
#[derive(Debug, Default)]
pub(super) struct StartSignal(Option<SyncSender<()>>);

impl StartSignal {
    /// Uses the thread-locals that every thread has and those that `uses` needs, and then sends the
    /// signal.
    pub(super) fn say(self, uses: impl FnOnce()) {
        if self.0.is_some() {
            use_thread_locals();
            uses();
        }
    }
}

/// Calls `start`, which starts a thread that [signals](StartSignal::say) once it has begun.
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
    // This returns an error, because the thread ends without sending a message.
    let _ = has_begun.recv();
    Ok(started)
}

thread_local! {
    static IS_PREPARED: Cell<bool> = const { Cell::new(false) };
}

/// Initialises the thread-locals that this thread needs to wait for other threads, while there is
/// still enough memory for them. This function is for threads that were not started by this module.
pub fn prepare_thread() -> Result<(), OutOfMemory> {
    if !IS_PREPARED.get() {
        memory::room_for_thread(0)?;
        use_thread_locals();
    }
    Ok(())
}

/// Uses every thread-local that has a destructor: those for waiting on a channel and those for
/// waiting on a lock.
fn use_thread_locals() {
    let (_sender, nothing) = sync_channel::<()>(0);
    let _ = nothing.recv_timeout(Duration::ZERO);
    let lock = Mutex::new(());
    let _held = lock.lock();
    drop(lock.try_lock_for(Duration::ZERO));
    drop(WorkOf::here());
    IS_PREPARED.set(true);
}
