//! Threads that belong to a single owner.

use std::io;
use std::thread::JoinHandle;

use core_affinity::CoreId;

use super::start::begin;
use super::{pin_to, processors};

/// Starts threads one by one. Each thread works only for the caller, which is responsible for
/// ending the thread.
#[derive(Debug)]
pub struct OwnThreads {
    processors: Vec<CoreId>,
    started: usize,
}

impl OwnThreads {
    /// Prepares to start this number of threads. If `pin` is `true`, each thread is pinned to one
    /// processor.
    pub fn new(threads: usize, pin: bool) -> Self {
        OwnThreads { processors: processors(pin, threads), started: 0 }
    }

    /// Starts the next thread, which runs until `work` returns.
    ///
    /// Returns an error if the system refuses to start the thread or if there is not enough memory
    /// for it.
    pub fn start(&mut self, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let nth = self.started;
        let processor = self.processors.get(nth % self.processors.len().max(1)).copied();
        let thread = begin(|builder, begun| {
            builder.name(format!("tidegate-own{nth}")).spawn(move || {
                pin_to(processor);
                begun.say(|| ());
                work();
            })
        })?;
        self.started += 1;
        Ok(thread)
    }
}
