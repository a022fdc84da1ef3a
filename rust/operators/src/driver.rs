//! The only module that starts threads.

mod awake;
mod own;
mod start;
mod work_of;

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use rayon_core::{ThreadBuilder, ThreadPool, ThreadPoolBuilder};
use tidegate_structures::memory;
use tidegate_sync::{Counter, Stop, Tickets, lend};

use awake::{AFTER_A_CALL, Awake};
pub use own::OwnThreads;
pub use start::prepare_thread;
use start::{StartSignal, begin};
pub use work_of::WorkOf;

/// The maximum number of threads that a call can use.
pub const MAX_THREADS: usize = 512;

/// The minimum number of rows for which an additional thread is worthwhile. Partitioning this many
/// rows takes about ten times as long as starting a thread.
pub(crate) const PART_ROWS: usize = 1 << 15;

/// If there are fewer items than this, a single thread finishes them before another thread could
/// wake up.
const FEW: usize = 1 << 11;

/// Runs the independent parts of a call on several threads.
///
/// The threads end with the call that needs them. No thread has to be joined at process exit, and
/// no threads are missing in a forked child. Starting a thread takes about 20 us, and the thread
/// begins its work after about 100 us. So callers do not divide small amounts of work, but run them
/// on their own thread. A call with many parts shares one set of threads among them; see
/// [`with_threads`].
///
/// An operator that is called once every few thousand rows keeps its threads instead; see
/// [`Driver::lasting`].
#[derive(Clone, Debug)]
pub struct Driver {
    threads: usize,
    stop: Stop,
    /// Signals running work to pause; see [`Driver::is_paused`].
    pause: Stop,
    /// Threads that outlive a call and help the caller's thread. There is one fewer helper than
    /// there are threads.
    helpers: Option<Arc<LastingThreads>>,
    /// The thread that runs background work in the caller's place. The background thread is started
    /// on first use.
    background: Arc<OnceLock<LastingThreads>>,
    /// The number of processors that this process can use.
    processors: usize,
}

/// Threads that outlive a call, and the ID of the process that started them.
///
/// In a forked child, these threads do not exist. The pool's locks can remain held forever by
/// threads that were about to sleep when the process forked. A child process therefore leaves the
/// pool untouched.
#[derive(Debug)]
struct LastingThreads {
    /// `Some` until the threads are stopped.
    pool: Option<ThreadPool>,
    awake: Arc<Awake>,
    process: u32,
}

impl LastingThreads {
    /// Wraps threads that stay awake for `after_a_call` after each call.
    fn new(pool: ThreadPool, after_a_call: Duration) -> Self {
        let (awake, process) = (Awake::new(after_a_call), std::process::id());
        LastingThreads { pool: Some(pool), awake, process }
    }

    /// Calls `work`. Until `work` returns and for some time afterwards, all threads except the
    /// calling one stay awake.
    fn while_awake<R>(&self, work: impl FnOnce() -> R) -> R {
        self.awake.during(self, work)
    }
}

impl Deref for LastingThreads {
    type Target = ThreadPool;

    fn deref(&self) -> &ThreadPool {
        self.pool.as_ref().expect("threads end only when they can no longer be used")
    }
}

impl Drop for LastingThreads {
    fn drop(&mut self) {
        let pool = self.pool.take();
        if self.process != std::process::id() {
            std::mem::forget(pool);
        }
    }
}

/// The error that is returned if work is stopped before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Returns the number of the next item, if there is one.
type NextNumber<'a> = dyn FnMut() -> Option<usize> + 'a;

impl Driver {
    /// Creates a driver with `threads` threads, between 1 and [`MAX_THREADS`], that checks `stop`
    /// before each part.
    pub fn new(threads: usize, stop: Stop) -> Self {
        let threads = threads.clamp(1, MAX_THREADS);
        Driver {
            threads,
            stop,
            pause: Stop::default(),
            helpers: None,
            background: Arc::default(),
            processors: 1,
        }
    }

    /// Creates a driver whose threads live until the driver and all of its clones are dropped. If
    /// `pin` is `true`, each helper thread is pinned to one processor. The calling thread counts as
    /// one of the driver's threads. Neither the calling thread nor the background thread is ever
    /// pinned.
    pub fn lasting(threads: usize, stop: Stop, pin: bool) -> std::io::Result<Self> {
        let driver = Self::new(threads, stop);
        if driver.threads == 1 {
            return Ok(driver);
        }
        let processors = processors(pin, driver.threads - 1);
        let start = move |nth: usize| {
            pin_to(processors.get(nth % processors.len().max(1)).copied());
        };
        let helpers = lasting_threads(driver.threads - 1, helper_name, Box::new(start))?;
        let helpers = Some(Arc::new(LastingThreads::new(helpers, AFTER_A_CALL)));
        Ok(Driver { helpers, processors: available_processors(), ..driver })
    }

    /// Calls `work`. Until `work` returns and for a moment afterwards, lasting threads stay awake
    /// for shared work if each of them has a processor. Waking a thread takes longer than
    /// processing many of the parts.
    pub fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.helpers {
            Some(helpers) if self.threads <= self.processors => helpers.while_awake(work),
            _ => work(),
        }
    }

    /// Calls both functions, in parallel if a lasting thread becomes free soon.
    pub fn both<A: Send, B: Send>(
        &self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let Some(helpers) = &self.helpers else { return (one(), other()) };
        let (other, found) = (Mutex::new(Some(other)), Mutex::new(None));
        let of = WorkOf::here();
        let run_other = || {
            let other =
                other.lock().expect("the lock is held only while work is being taken").take();
            if let Some(other) = other {
                let outcome = of.clone().during(other);
                *found.lock().expect("no thread panics while it holds the lock") = Some(outcome);
            }
        };
        let outcome = lend(&run_other, |loan| {
            let loan = loan.clone();
            helpers.spawn(move || loan.call());
            let outcome = one();
            // Does nothing if a helper has already started it.
            run_other();
            outcome
        });
        let found = found.into_inner().expect("no thread panics while it holds the lock");
        (outcome, found.expect("the work was done by a helper or by this thread"))
    }

    /// Returns a driver for work on `items` items: a driver with only the caller's thread if there
    /// are few items, and this driver otherwise.
    pub fn fit(&self, items: usize) -> Driver {
        if items < FEW {
            Driver { pause: self.pause.clone(), ..Self::new(1, self.stop.clone()) }
        } else {
            self.clone()
        }
    }

    /// Returns this driver, for work that pauses once `pause` is requested.
    pub fn pausing(&self, pause: &Stop) -> Driver {
        Driver { pause: pause.clone(), ..self.clone() }
    }

    /// Returns this driver, for work that cannot pause but can be repeated from the start. When a
    /// pause is requested, such work is [stopped](Stopped) instead.
    pub fn resting(&self) -> Driver {
        Driver { stop: self.pause.clone(), ..self.clone() }
    }

    /// Returns whether work that can be resumed later should pause. Unlike a stop, a pause is not
    /// an error, and work that cannot pause simply continues.
    pub fn is_paused(&self) -> bool {
        self.pause.is_requested() || self.stop.is_requested()
    }

    /// Calls `work` on a background thread of this driver, and returns a receiver for the outcome.
    /// Use this method if the caller must react to other events while it waits, and may return
    /// before the work ends.
    pub fn in_background<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<Receiver<std::thread::Result<T>>> {
        prepare_thread().map_err(std::io::Error::other)?;
        let (sender, receiver) = sync_channel(1);
        let of = WorkOf::here();
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| of.during(work)));
            // There is no receiver if the caller has already returned.
            let _ = sender.send(outcome);
        };
        if let Some(thread) = self.background.get() {
            thread.spawn(run);
        } else {
            let made = lasting_threads(1, background_name, Box::new(|_| ()))?;
            // If two threads call this at the same time, the first new thread is used and the other
            // one ends.
            self.background.get_or_init(|| LastingThreads::new(made, Duration::ZERO)).spawn(run);
        }
        Ok(receiver)
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the flag that stops the work.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Returns the number of parts into which `rows` rows should be divided. Each part should have
    /// at least `least` rows.
    pub fn parts(&self, rows: usize, least: usize) -> usize {
        (rows / least.max(1)).clamp(1, self.threads)
    }

    /// Returns an error if a stop has been requested. If memory is running short, this method
    /// [raises an error](memory::check) instead.
    pub fn check(&self) -> Result<(), Stopped> {
        memory::check();
        if self.stop.is_requested() { Err(Stopped) } else { Ok(()) }
    }

    /// Calls `work` on every item, and returns the results in item order.
    ///
    /// A thread takes the next item as soon as it has finished the previous one. A panic in `work`
    /// is resumed on the caller's thread once the other threads have finished their items.
    pub fn map<I: Send, R: Send>(
        &self,
        items: Vec<I>,
        work: impl Fn(I) -> R + Sync,
    ) -> Result<Vec<R>, Stopped> {
        self.map_with(items, || (), |(), item| work(item))
    }

    /// Calls `work` on every item like [`map`](Self::map), with one scratch value per thread.
    pub fn map_with<I: Send, S, R: Send>(
        &self,
        items: Vec<I>,
        scratch: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, I) -> R + Sync,
    ) -> Result<Vec<R>, Stopped> {
        // Only this code is compiled for each call, because there are many callers.
        let mut slots = Vec::with_capacity(items.len());
        for item in items {
            slots.push(Mutex::new((Some(item), None)));
        }
        self.share_out(slots.len(), &|next| {
            let mut scratch = scratch();
            while let Some(at) = next() {
                let item = lock(&slots[at]).0.take().expect("each number is handed out once");
                let result = work(&mut scratch, item);
                lock(&slots[at]).1 = Some(result);
            }
        });
        let mut results = Vec::with_capacity(slots.len());
        for slot in slots {
            let (_, result) = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
            results.push(result.ok_or(Stopped)?);
        }
        Ok(results)
    }

    /// Calls `work` once per thread, on some or all threads. Each call receives a function that
    /// returns the next number below `count`. The function returns `None` once no numbers are left
    /// or a stop is requested.
    fn share_out(&self, count: usize, work: &(dyn Fn(&mut NextNumber<'_>) + Sync)) {
        let tickets = Tickets::new(count);
        let work = || work(&mut || tickets.take().filter(|_| self.check().is_ok()));
        match self.threads.min(count) {
            0 | 1 => work(),
            workers => self.on_threads(workers, &work),
        }
    }

    /// Calls `work` once on each of `workers` threads. Fewer threads are used if the system refuses
    /// to start some of them, or if some helpers become free only after all work is done.
    ///
    /// This function is not generic, so the code that starts and awaits threads is not compiled for
    /// each call of [`map`](Self::map).
    fn on_threads(&self, workers: usize, work: &(dyn Fn() + Sync)) {
        let of = WorkOf::here();
        let work: &(dyn Fn() + Sync) = &|| of.clone().during(work);
        let shares_threads = rayon_core::current_thread_index().is_some()
            && rayon_core::current_num_threads() >= workers;
        match &self.helpers {
            Some(helpers) => lend(work, |loan| {
                for _ in 1..workers {
                    let loan = loan.clone();
                    helpers.spawn(move || loan.call());
                }
                work();
            }),
            None if shares_threads => {
                rayon_core::scope(|scope| (0..workers).for_each(|_| scope.spawn(|_| work())));
            }
            None => std::thread::scope(|scope| {
                let others = spawn_some(scope, (1..workers).map(|_| work));
                work();
                for other in others {
                    other.join().unwrap_or_else(|panic| resume_unwind(panic));
                }
            }),
        }
    }
}

impl Driver {
    /// Calls `work` on this number of threads at the same time. Each call receives the numbers
    /// assigned to its thread. One of the threads is the caller's. A call cannot use more threads
    /// than this driver has.
    ///
    /// Each number below `threads` is passed to one thread, and most threads receive one number.
    /// The caller's thread receives number 0 and the numbers of any threads that the system refuses
    /// to start. With [lasting](Self::lasting) threads, the next call passes each number to the
    /// same thread as before. A panic in `work` is resumed on the caller's thread once the other
    /// threads have returned.
    ///
    /// Unlike [`map`](Self::map), this method waits for busy helpers, because work items can depend
    /// on each other.
    pub fn on_each_thread(&self, threads: usize, work: &(dyn Fn(&[usize]) + Sync)) {
        debug_assert!(threads <= self.threads, "the driver has enough threads");
        if threads <= 1 {
            return work(&[0]);
        }
        let of = WorkOf::here();
        let run = |numbers: &[usize]| of.clone().during(|| work(numbers));
        if let Some(helpers) = &self.helpers {
            helpers.in_place_scope(|scope| {
                scope.spawn_broadcast(|_, context| {
                    if context.index() + 1 < threads {
                        run(&[context.index() + 1]);
                    }
                });
                run(&[0]);
            });
            return;
        }
        std::thread::scope(|scope| {
            let run = &run;
            let others = spawn_some(scope, (1..threads).map(|nth| move || run(&[nth])));
            let mine: Vec<usize> = (0..1).chain(1 + others.len()..threads).collect();
            run(&mine);
            for other in others {
                other.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
    }
}

/// Locks a mutex that is never held by code that can panic.
fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work`, which reads `rows` rows. All [maps](Driver::map) within `work` share a set of
/// threads. The threads end when `work` returns. Within `work`, every driver with at most this many
/// threads uses the shared threads. If the system refuses to start threads or there
/// are too few rows, each map starts its own threads.
///
/// Each map also starts its own threads if a limit (`ulimit -v`) leaves the process little address
/// space. In glibc, each thread reserves an arena of 64 MiB of addresses. A thread without an arena
/// uses a page for each small allocation. The caller's thread usually has an arena, whereas shared
/// threads would do its work without one.
pub fn with_threads<R: Send>(threads: usize, rows: usize, work: impl FnOnce() -> R + Send) -> R {
    let (mut work, mut outcome) = (Some(work), None);
    with_threads_at_hand(threads, rows, &mut || outcome = work.take().map(|work| work()));
    outcome.expect("the work has been done")
}

/// This function is not generic, so the code that starts and ends a thread pool is not compiled for
/// each call.
fn with_threads_at_hand(threads: usize, rows: usize, work: &mut (dyn FnMut() + Send)) {
    let of = WorkOf::here();
    let work = &mut || of.clone().during(&mut *work);
    let is_worth_it = threads > 1 && rows >= 2 * PART_ROWS && memory::addresses_left().is_none();
    let threads = threads.min(MAX_THREADS);
    let pool = is_worth_it.then(|| lasting_threads(threads, call_name, Box::new(|_| ())));
    match pool.map(|pool| pool.map(|pool| LastingThreads::new(pool, Duration::ZERO))) {
        Some(Ok(pool)) if threads <= available_processors() => {
            pool.install(|| pool.while_awake(work))
        }
        Some(Ok(pool)) => pool.install(work),
        _ => work(),
    }
}

/// A function that each new thread calls first, with the thread's number.
type Start = dyn Fn(usize) + Send + Sync;

// Thread names, as shown by debuggers and the operating system. Linux truncates names to 15 bytes.

/// Returns the name of an operator's helper thread.
fn helper_name(nth: usize) -> String {
    format!("tidegate-{nth}")
}

/// Returns the name of the thread that runs an operator's long-running calls.
fn background_name(_: usize) -> String {
    "tidegate-bg".into()
}

/// Returns the name of a thread that is shared by the parts of a call.
fn call_name(nth: usize) -> String {
    format!("tidegate-c{nth}")
}

/// Returns the name of a thread that runs a single part of a call.
fn part_name(nth: usize) -> String {
    format!("tidegate-p{nth}")
}

/// The name of a thread that reads ahead, or that runs a whole call while the caller checks for
/// signals.
const ALONE: &str = "tidegate-call";

/// Starts threads that wait for work until they are dropped. Each new thread calls `start` first.
fn lasting_threads(
    threads: usize,
    name: fn(usize) -> String,
    start: Box<Start>,
) -> std::io::Result<ThreadPool> {
    // The signal of the thread that was started last, until that thread has begun.
    let begun = Arc::new(Mutex::new(StartSignal::default()));
    let begun_here = begun.clone();
    let start = move |nth| {
        start(nth);
        let begun = std::mem::take(&mut *lock(&begun_here));
        // There is no work yet, but looking for it initializes rayon's thread-locals.
        begun.say(|| _ = rayon_core::yield_now());
    };
    let spawn = |thread: ThreadBuilder| {
        begin(|builder, has_begun| {
            *lock(&begun) = has_begun;
            builder.name(name(thread.index())).spawn(|| thread.run()).map(drop)
        })
    };
    let builder = ThreadPoolBuilder::new().num_threads(threads).start_handler(start);
    builder.spawn_handler(spawn).build().map_err(std::io::Error::other)
}

/// Returns the processors to which threads are pinned, in thread order. The list is empty if
/// threads are not pinned.
///
/// Each call begins with the processor after the last one that the previous call returned.
/// Operators in the same process then do not share a processor while other processors are idle.
/// Each process starts at an offset derived from its process ID.
fn processors(pin: bool, threads: usize) -> Vec<CoreId> {
    static TAKEN: Counter = Counter::new(0);
    if !pin {
        return Vec::new();
    }
    let mut processors = core_affinity::get_core_ids().unwrap_or_default();
    let first = TAKEN.add(threads).wrapping_add(std::process::id() as usize);
    let count = processors.len().max(1);
    processors.rotate_left(first % count);
    processors
}

/// Pins this thread to a processor, if one is given.
fn pin_to(processor: Option<CoreId>) {
    if let Some(processor) = processor {
        // Losing the processor in the meantime is not an error.
        let _ = core_affinity::set_for_current(processor);
    }
}

/// Starts one thread per piece of work, as long as the system allows more threads.
fn spawn_some<'scope, R: Send + 'scope, W: FnOnce() -> R + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl Iterator<Item = W>,
) -> Vec<ScopedJoinHandle<'scope, R>> {
    let start = |(nth, work): (usize, W)| {
        begin(|builder, begun| {
            builder.name(part_name(nth)).spawn_scoped(scope, move || {
                begun.say(|| ());
                work()
            })
        })
    };
    work.enumerate().map_while(|one| start(one).ok()).collect()
}

/// Runs `work` on a new thread, and returns a receiver for the outcome.
///
/// While the work is running, the caller can react to other events. The caller can also return
/// before the work ends.
pub fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Receiver<std::thread::Result<T>>> {
    let (sender, receiver) = sync_channel(1);
    let of = WorkOf::here();
    start_alone(Box::new(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| of.during(work)));
        // There is no receiver if the caller has already returned.
        let _ = sender.send(outcome);
    }))?;
    Ok(receiver)
}

/// Starts a detached thread. This function is not generic, so the code that starts a thread is not
/// compiled for each call.
fn start_alone(run: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    begin(|builder, begun| {
        let run = move || {
            begun.say(|| ());
            run();
        };
        builder.name(ALONE.into()).spawn(run).map(drop)
    })
}

/// Returns the number of processors that this process can use under its affinity and quota.
///
/// Reading the quota from several files takes a tenth of the time of a small call. Each result is
/// therefore reused for a short time.
fn available_processors() -> usize {
    const MOMENT: Duration = Duration::from_millis(100);
    static LAST: Mutex<Option<(Instant, usize)>> = Mutex::new(None);
    let now = Instant::now();
    // Another thread may have held the lock when this process was forked, so this code does not
    // wait for the lock.
    let Ok(mut last) = LAST.try_lock() else { return asked_anew() };
    match *last {
        Some((asked, processors)) if now.duration_since(asked) < MOMENT => processors,
        _ => {
            let processors = asked_anew();
            *last = Some((now, processors));
            processors
        }
    }
}

fn asked_anew() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns whether this thread belongs to a thread pool that works for a driver.
pub fn is_in_pool() -> bool {
    rayon_core::current_thread_index().is_some()
}

/// Returns the default number of threads. This is the number of processors that this process can
/// use under its affinity and quota, limited by `OMP_NUM_THREADS`. Hosts such as Spark set that
/// variable to a task's share of the processors.
pub fn default_threads() -> usize {
    let available = available_processors();
    let told = std::env::var("OMP_NUM_THREADS")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|&told| told > 0);
    available.min(told.unwrap_or(available)).min(MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_items_order() {
        let lasting = |threads| Driver::lasting(threads, Stop::default(), true).unwrap();
        let drivers =
            [1, 2, 7].map(|threads| [Driver::new(threads, Stop::default()), lasting(threads)]);
        for driver in drivers.as_flattened() {
            let squares = driver.map((0..100).collect(), |n: usize| n * n).unwrap();
            assert_eq!(squares, (0..100).map(|n| n * n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn operators_are_pinned_to_different_processors() {
        let all = core_affinity::get_core_ids().unwrap_or_default().len();
        // Other tests may claim processors between these calls, but not between all of them.
        let firsts: std::collections::HashSet<_> =
            (0..64).filter_map(|_| processors(true, 1).first().map(|core| core.id)).collect();
        assert_eq!(firsts.len() > 1, all > 1);
        assert_eq!(processors(true, 3).len(), all);
        assert!(processors(false, 3).is_empty());
    }

    #[test]
    fn a_caller_and_the_background_are_not_pinned() {
        let driver = Driver::lasting(2, Stop::default(), true).unwrap();
        let usable = || core_affinity::get_core_ids().unwrap_or_default().len();
        let (all, on_helper) = (usable(), driver.helpers.as_ref().unwrap().install(usable));
        assert_eq!(on_helper, all.min(1));
        assert_eq!(driver.in_background(usable).unwrap().recv().unwrap().unwrap(), all);
        assert_eq!(usable(), all);
    }

    #[test]
    fn a_child_lets_its_parents_threads_be() {
        let here = std::process::id();
        for process in [here, here + 1] {
            let (ended, end) = sync_channel(1);
            let pool = ThreadPoolBuilder::new()
                .num_threads(1)
                .exit_handler(move |_| ended.send(()).unwrap())
                .build()
                .unwrap();
            let mut threads = LastingThreads::new(pool, Duration::ZERO);
            threads.process = process;
            drop(threads);
            let patience = Duration::from_millis(if process == here { 10_000 } else { 50 });
            assert_eq!(end.recv_timeout(patience).is_ok(), process == here);
        }
    }

    #[test]
    fn a_thread_that_stays_awake_meets_the_next_calls() {
        // The second broadcast reaches the thread while it is still processing the first one: the
        // two are not nested.
        let driver = Driver::lasting(2, Stop::default(), false).unwrap();
        for call in 0..20_000 {
            let both = driver.within(|| driver.both(|| call, || call + 1));
            assert_eq!(both, (call, call + 1));
        }
        std::thread::sleep(4 * AFTER_A_CALL);
        assert_eq!(driver.within(|| driver.both(|| 1, || 2)), (1, 2));
    }

    #[test]
    fn threads_work_at_the_same_time() {
        for driver in
            [Driver::new(2, Stop::default()), Driver::lasting(2, Stop::default(), false).unwrap()]
        {
            let both = std::sync::Barrier::new(2);
            // Neither item passes the barrier before the other has reached it.
            driver.map(vec![1, 2], |_| both.wait().is_leader()).unwrap();
        }
    }

    #[test]
    fn maps_of_a_call_share_its_threads() {
        // The two items of a map wait for each other, so both of its threads take part.
        let two_threads = || {
            let (driver, both) = (Driver::new(2, Stop::default()), std::sync::Barrier::new(2));
            let wait = |_: usize| {
                both.wait();
                std::thread::current().id()
            };
            driver.map(vec![1, 2], wait).unwrap()
        };
        let threads = |rows| -> std::collections::HashSet<_> {
            with_threads(2, rows, || (0..20).flat_map(|_| two_threads()).collect())
        };
        let shared = threads(2 * PART_ROWS);
        assert!(shared.len() <= 2, "{shared:?}");
        assert!(!shared.contains(&std::thread::current().id()));
        // Each map uses the caller's thread and one new thread.
        assert!(threads(1).contains(&std::thread::current().id()));
        // A map starts its own threads if it needs more than the shared set has.
        let both = std::sync::Barrier::new(3);
        let driver = Driver::new(3, Stop::default());
        with_threads(2, 2 * PART_ROWS, || driver.map(vec![1, 2, 3], |_| both.wait().is_leader()))
            .unwrap();
    }

    #[test]
    fn both_are_done_at_the_same_time() {
        let driver = Driver::lasting(2, Stop::default(), false).unwrap();
        let barrier = std::sync::Barrier::new(2);
        let wait = || {
            barrier.wait();
            std::thread::current().id()
        };
        let (one, other) = driver.within(|| driver.both(wait, wait));
        assert_ne!(one, other, "each has a separate thread");
        assert_eq!(Driver::new(2, Stop::default()).both(|| 1, || 2), (1, 2));
    }

    #[test]
    fn a_helper_that_is_busy_holds_nobody_up() {
        let driver = Driver::lasting(2, Stop::default(), false).unwrap();
        let (begun, has_begun) = sync_channel(1);
        let (end, ended) = sync_channel::<()>(1);
        driver.helpers.as_ref().unwrap().spawn(move || {
            begun.send(()).unwrap();
            ended.recv().unwrap();
        });
        has_begun.recv().unwrap();
        let (sender, done) = sync_channel(1);
        let other = driver.clone();
        std::thread::spawn(move || {
            let here = || std::thread::current().id();
            let threads = other.within(|| {
                let (one, two) = other.both(here, here);
                let mut threads = other.map((0..10).collect(), |_: usize| here()).unwrap();
                threads.extend([one, two]);
                threads
            });
            sender.send(threads.into_iter().all(|thread| thread == here())).unwrap();
        });
        let found = done.recv_timeout(Duration::from_secs(60));
        end.send(()).unwrap();
        assert_eq!(found, Ok(true), "the caller does all of it");
    }

    #[test]
    fn a_call_in_the_background_has_as_many_threads() {
        let driver = Driver::lasting(2, Stop::default(), true).unwrap();
        let (both, own) = (Arc::new(std::sync::Barrier::new(2)), driver.clone());
        let work = move || {
            let wait = |_: usize| {
                both.wait();
                std::thread::current().id()
            };
            own.within(|| own.map(vec![1, 2], wait).unwrap())
        };
        let threads = driver.in_background(work).unwrap();
        let threads = threads.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        assert_ne!(threads[0], threads[1]);
        assert!(!threads.contains(&std::thread::current().id()));
    }

    #[test]
    fn work_in_the_background_has_a_thread_that_lasts() {
        for driver in
            [Driver::lasting(2, Stop::default(), false).unwrap(), Driver::new(1, Stop::default())]
        {
            let thread = || {
                driver
                    .in_background(|| std::thread::current().id())
                    .unwrap()
                    .recv()
                    .unwrap()
                    .unwrap()
            };
            let threads: std::collections::HashSet<_> = (0..20).map(|_| thread()).collect();
            assert!(threads.len() <= driver.threads(), "{threads:?}");
            assert!(!threads.contains(&std::thread::current().id()));
            let panicked =
                driver.in_background(|| panic!("the work failed")).unwrap().recv().unwrap();
            assert!(panicked.is_err());
        }
    }

    #[test]
    fn a_pause_is_no_stop() {
        let pause = Stop::default();
        let driver = Driver::new(2, Stop::default()).pausing(&pause);
        assert!(!driver.is_paused());
        pause.request();
        assert!(driver.is_paused() && driver.fit(1).is_paused());
        assert_eq!(driver.map(vec![1, 2], |n| n), Ok(vec![1, 2]));
        driver.stop().request();
        assert!(driver.pausing(&Stop::default()).is_paused());
    }

    #[test]
    fn few_items_are_the_callers_work() {
        let driver = Driver::lasting(2, Stop::default(), false).unwrap();
        let here = || std::thread::current().id();
        let few = driver.fit(FEW - 1).map(vec![1; 100], |_: usize| here()).unwrap();
        assert!(few.into_iter().all(|thread| thread == here()));
        // Neither item passes the barrier before the other has reached it.
        let both = std::sync::Barrier::new(2);
        driver.fit(FEW).map(vec![1, 2], |_| both.wait().is_leader()).unwrap();
        driver.stop().request();
        assert_eq!(driver.fit(1).check(), Err(Stopped));
    }

    #[test]
    fn threads_that_stay_awake_sleep_after_a_panic() {
        let driver = Driver::lasting(2, Stop::default(), false).unwrap();
        let work = AssertUnwindSafe(|| driver.within(|| -> () { panic!("the work failed") }));
        // The call would never return if the threads continued.
        assert!(catch_unwind(work).is_err());
        let doubled = driver.within(|| driver.map(vec![1, 2, 3], |n| 2 * n));
        assert_eq!(doubled, Ok(vec![2, 4, 6]));
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
    fn each_number_has_a_thread_and_keeps_it_if_the_threads_last() {
        let here = || std::thread::current().id();
        let lasting = |threads| Driver::lasting(threads, Stop::default(), false).unwrap();
        for (driver, lasts) in [(Driver::new(3, Stop::default()), false), (lasting(3), true)] {
            let threads = || {
                // No number is processed until each number has a thread.
                let all = std::sync::Barrier::new(3);
                let found = Mutex::new(Vec::<(usize, std::thread::ThreadId)>::new());
                driver.on_each_thread(3, &|numbers| {
                    all.wait();
                    lock(&found).extend(numbers.iter().map(|&number| (number, here())));
                });
                let mut found = found.into_inner().unwrap();
                found.sort_unstable_by_key(|&(number, _)| number);
                found
            };
            let (one, other) = (threads(), threads());
            assert_eq!(one.iter().map(|&(number, _)| number).collect::<Vec<_>>(), [0, 1, 2]);
            assert_eq!(one[0].1, here());
            assert_eq!(one == other, lasts);
        }
        let found = Mutex::new(Vec::<usize>::new());
        Driver::new(1, Stop::default()).on_each_thread(1, &|numbers| lock(&found).extend(numbers));
        assert_eq!(found.into_inner().unwrap(), [0]);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        for driver in
            [Driver::new(3, Stop::default()), Driver::lasting(3, Stop::default(), false).unwrap()]
        {
            let work =
                AssertUnwindSafe(|| driver.map((0..9).collect(), |n: usize| assert_ne!(n, 5)));
            assert!(catch_unwind(work).is_err());
            assert!(driver.map(vec![1, 2, 3], |n: usize| n).is_ok(), "the threads go on");
        }
    }
}
