//! Threads that an owner has to itself.

use std::io;
use std::thread::JoinHandle;

use core_affinity::CoreId;

use super::start::begin;
use super::{pin_to, processors};

/// Starts threads one by one. Each works for the caller alone, who has to end it.
#[derive(Debug)]
pub struct OwnThreads {
    processors: Vec<CoreId>,
    started: usize,
}

impl OwnThreads {
    /// Prepares to start this number of threads. If `pin` is set, each will be pinned to one
    /// processor.
    pub fn new(threads: usize, pin: bool) -> Self {
        OwnThreads { processors: processors(pin, threads), started: 0 }
    }

    /// Starts the next thread, which lasts until `work` returns.
    ///
    /// Returns an error if the system refuses it, or if there is no memory for it.
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
