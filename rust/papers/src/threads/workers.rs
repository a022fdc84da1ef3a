//! Threads that do their own work until they receive a stop signal.

use std::fmt;
use std::thread::JoinHandle;

use tidegate_operators::driver::OwnThreads;

/// Threads that run alongside their owner until it stops them. No thread outlives its owner.
///
/// In a forked child process, these threads do not exist, so their owner does not try to stop them.
pub(crate) struct Workers {
    /// Signals all threads to end.
    tell: Box<dyn Fn() + Send + Sync>,
    threads: Vec<JoinHandle<()>>,
    process: u32,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Workers {
    /// Starts a thread for each piece of work. If `pin` is set, each thread is pinned to one
    /// processor. The work must not panic and must end soon after `tell` is called.
    ///
    /// Returns an error if the system refuses to start a thread; in that case, no threads are left
    /// running.
    pub(crate) fn start<W: FnOnce() + Send + 'static>(
        work: impl Iterator<Item = W>,
        pin: bool,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let (tell, process) = (Box::new(tell), std::process::id());
        let mut workers = Workers { tell, threads: Vec::new(), process };
        let work: Vec<W> = work.collect();
        let mut starting = OwnThreads::new(work.len(), pin);
        for work in work {
            workers.threads.push(starting.start(work)?);
        }
        Ok(workers)
    }

    /// Signals all threads to end, and waits until they have ended. A second call does nothing.
    pub(crate) fn end(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        if self.process != std::process::id() {
            std::mem::forget(threads);
            return;
        }
        if threads.is_empty() {
            return;
        }
        (self.tell)();
        // An error is a panic, which the work has already stored.
        threads.into_iter().for_each(|thread| _ = thread.join());
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_sync::{Bell, Counter, Stop};

    use super::*;

    /// Returns work that waits for the signal to end. The counters record how many pieces of work
    /// have begun and how many have ended.
    fn waiting(counts: &Arc<[Counter; 2]>, over: &Stop, bell: &Arc<Bell>) -> impl FnOnce() + use<> {
        let (counts, over, bell) = (counts.clone(), over.clone(), bell.clone());
        move || {
            counts[0].add(1);
            loop {
                let heard = bell.rings();
                if over.is_requested() {
                    break;
                }
                bell.wait(heard);
            }
            counts[1].add(1);
        }
    }

    #[test]
    fn threads_last_until_their_owner_ends_them() {
        for closes in [false, true] {
            let counts: Arc<[Counter; 2]> = Arc::default();
            let (over, bell) = (Stop::default(), Arc::<Bell>::default());
            let tell = {
                let (over, bell) = (over.clone(), bell.clone());
                move || {
                    over.request();
                    bell.ring();
                }
            };
            let work = (0..3).map(|_| waiting(&counts, &over, &bell));
            let mut workers = Workers::start(work, true, tell).unwrap();
            if closes {
                workers.end();
                assert_eq!(counts[1].get(), 3);
            }
            drop(workers);
            assert_eq!([counts[0].get(), counts[1].get()], [3, 3]);
        }
    }

    #[test]
    fn a_child_lets_its_parents_threads_be() {
        let counts: Arc<[Counter; 2]> = Arc::default();
        let (over, bell) = (Stop::default(), Arc::<Bell>::default());
        let work = [waiting(&counts, &over, &bell)].into_iter();
        let mut workers =
            Workers::start(work, false, || panic!("the signal is never sent")).unwrap();
        workers.process += 1;
        drop(workers);
        over.request();
        bell.ring();
    }
}
