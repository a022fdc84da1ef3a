//! Threads: the only place of tidegate that starts one.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};
use tidegate_sync::{Stop, Tickets};

/// The most threads a call may use.
pub const MAX_THREADS: usize = 512;

/// The fewest rows worth a thread: partitioning them takes about ten times as long as starting one.
pub(crate) const PART_ROWS: usize = 1 << 15;

/// Runs the independent parts of one call on its threads.
///
/// Threads live as long as the call that needs them, so that nothing is left to join at exit or to go missing in a
/// forked child. Starting one costs some 20 us: callers cut small work into one part, which runs on the caller's thread.
///
/// An operator that is called for every few thousand rows keeps its threads instead, see [`Driver::lasting`].
#[derive(Clone, Debug)]
pub struct Driver {
    threads: usize,
    stop: Stop,
    /// Threads that outlive a call.
    pool: Option<Arc<ThreadPool>>,
}

/// The work was asked to stop before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl Driver {
    /// A driver of `threads` threads, between 1 and [`MAX_THREADS`], that looks at `stop` before each part.
    pub fn new(threads: usize, stop: Stop) -> Self {
        Driver { threads: threads.clamp(1, MAX_THREADS), stop, pool: None }
    }

    /// A driver whose threads live as long as itself and its clones, each on a processor of its own if they are to be
    /// pinned. Whoever calls [`map`](Self::map) waits for them: a caller that worked, too, might sit on the processor of
    /// a thread that cannot move.
    pub fn lasting(threads: usize, stop: Stop, pin: bool) -> std::io::Result<Self> {
        let driver = Self::new(threads, stop);
        if driver.threads == 1 {
            return Ok(driver);
        }
        // Those this process may use.
        let processors = if pin { core_affinity::get_core_ids().unwrap_or_default() } else { Vec::new() };
        let start = move |nth: usize| {
            if let Some(&processor) = processors.get(nth % processors.len().max(1)) {
                // A processor that was taken away meanwhile is no reason to stop.
                let _ = core_affinity::set_for_current(processor);
            }
        };
        let pool = ThreadPoolBuilder::new()
            .num_threads(driver.threads)
            .thread_name(|nth| format!("tidegate-{nth}"))
            .start_handler(start)
            .build()
            .map_err(std::io::Error::other)?;
        Ok(Driver { pool: Some(Arc::new(pool)), ..driver })
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The flag that stops the work.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Into how many parts to cut `rows`, when a part should have at least `least` of them.
    pub fn parts(&self, rows: usize, least: usize) -> usize {
        (rows / least.max(1)).clamp(1, self.threads)
    }

    /// An error once a stop was requested.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.stop.is_requested() { Err(Stopped) } else { Ok(()) }
    }

    /// Calls `work` on every item and returns the results in the items' order.
    ///
    /// A thread takes the next item when it is done with its last one. A panic in `work` is resumed on the caller's
    /// thread once the others have finished their items.
    pub fn map<I: Send, R: Send>(&self, items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Result<Vec<R>, Stopped> {
        self.map_with(items, || (), |(), item| work(item))
    }

    /// As [`map`](Self::map), with a scratch value a thread.
    pub fn map_with<I: Send, S, R: Send>(
        &self,
        items: Vec<I>,
        scratch: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, I) -> R + Sync,
    ) -> Result<Vec<R>, Stopped> {
        let workers = self.threads.min(items.len());
        if workers <= 1 {
            let mut scratch = scratch();
            return items.into_iter().map(|item| self.check().map(|()| work(&mut scratch, item))).collect();
        }
        let tickets = Tickets::new(items.len());
        let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
        let items: Vec<Mutex<Option<I>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
        let worker = || {
            let mut scratch = scratch();
            let mut done = Vec::new();
            while let Some(ticket) = tickets.take() {
                if self.stop.is_requested() {
                    break;
                }
                let item = items[ticket].lock().expect("an item's lock is held only to take the item").take();
                done.push((ticket, work(&mut scratch, item.expect("a ticket is taken once"))));
            }
            done
        };
        if let Some(pool) = &self.pool {
            let done = Mutex::new(Vec::new());
            let work = || {
                // Before the lock is taken, or threads would wait for each other's work.
                let mine = worker();
                done.lock().unwrap_or_else(PoisonError::into_inner).push(mine);
            };
            pool.scope(|scope| (0..workers).for_each(|_| scope.spawn(|_| work())));
            let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
            done.into_iter().flatten().for_each(|(ticket, result)| results[ticket] = Some(result));
            return results.into_iter().collect::<Option<Vec<R>>>().ok_or(Stopped);
        }
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..workers).map(|_| scope.spawn(worker)).collect();
            let mut place = |(ticket, result): (usize, R)| results[ticket] = Some(result);
            worker().into_iter().for_each(&mut place);
            for other in others {
                other.join().unwrap_or_else(|panic| resume_unwind(panic)).into_iter().for_each(&mut place);
            }
        });
        results.into_iter().collect::<Option<Vec<R>>>().ok_or(Stopped)
    }
}

/// Runs `work` on a thread of its own and returns where its outcome arrives.
///
/// For a caller that has to notice other things while it waits, and may leave before the work has ended.
pub fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Receiver<std::thread::Result<T>>> {
    let (sender, receiver) = sync_channel(1);
    let run = move || {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        // Nobody receives when the caller has left.
        let _ = sender.send(outcome);
    };
    std::thread::Builder::new().name("tidegate".into()).spawn(run)?;
    Ok(receiver)
}

/// The number of threads to use when the caller does not say: what this process may use by affinity and quota, and no
/// more than `OMP_NUM_THREADS`, by which hosts such as Spark tell a task its share.
pub fn default_threads() -> usize {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let told = std::env::var("OMP_NUM_THREADS").ok().and_then(|text| text.parse().ok()).filter(|&told| told > 0);
    available.min(told.unwrap_or(available)).min(MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_items_order() {
        let lasting = |threads| Driver::lasting(threads, Stop::default(), true).unwrap();
        let drivers = [1, 2, 7].map(|threads| [Driver::new(threads, Stop::default()), lasting(threads)]);
        for driver in drivers.as_flattened() {
            let squares = driver.map((0..100).collect(), |n: usize| n * n).unwrap();
            assert_eq!(squares, (0..100).map(|n| n * n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn threads_work_at_the_same_time() {
        for driver in [Driver::new(2, Stop::default()), Driver::lasting(2, Stop::default(), false).unwrap()] {
            let both = std::sync::Barrier::new(2);
            // Neither gets past the barrier before the other has come to it.
            driver.map(vec![1, 2], |_| both.wait().is_leader()).unwrap();
        }
    }

    #[test]
    fn a_stop_ends_the_work_early() {
        for threads in [1, 4] {
            let stop = Stop::default();
            let driver = Driver::new(threads, stop.clone());
            let outcome = driver.map((0..1000).collect(), |n: usize| {
                if n == 10 {
                    stop.request();
                }
            });
            assert_eq!(outcome, Err(Stopped));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        for driver in [Driver::new(3, Stop::default()), Driver::lasting(3, Stop::default(), false).unwrap()] {
            let work = AssertUnwindSafe(|| driver.map((0..9).collect(), |n: usize| assert_ne!(n, 5)));
            assert!(catch_unwind(work).is_err());
            assert!(driver.map(vec![1, 2, 3], |n: usize| n).is_ok(), "the threads go on");
        }
    }
}
