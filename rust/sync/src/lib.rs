//! The atomics of tidegate, for the crates that depend on this one. Each type in this crate
//! implements a small protocol between threads, such as a ring, a stack, a lock or a count. Most of
//! these types can be modelled with loom, so every order of steps can be checked in a structure
//! that is built from them.
//!
//! ```text
//!  atomic:        ┌─▶ Counter, Tickets, Stop, HighWater   a number that threads share
//!  std's atomics, ├─▶ Lock, TryLock, Prefix               exclusive access; the work that is done
//!  or loom's      ├─▶ OptimisticLock                    values that are read without a lock
//!                 ├─▶ ring, Stack, OnceLink               values from one thread to another
//!                 ├─▶ Latest                              successive versions of a value
//!                 ├─▶ Bell                                threads that wait for a ring
//!                 ├─▶ Door                                counts threads inside, until it is closed
//!                 ├─▶ Loan                                borrowed work for threads that outlive it
//!                 └─▶ Budget                              memory under one limit
//! ```
//!
//! In this example, two threads share eight pieces of work, and mark each piece when it is done:
//!
//! ```
//! use tidegate_sync::{Prefix, Tickets};
//!
//! let (tickets, done) = (Tickets::new(8), Prefix::new(8));
//! std::thread::scope(|scope| {
//!     for _ in 0..2 {
//!         scope.spawn(|| {
//!             while let Some(piece) = tickets.take() {
//!                 done.mark(piece);
//!             }
//!         });
//!     }
//! });
//! assert_eq!(tickets.take(), None);
//! // The edge may lag behind while threads mark at the same time, so ask again.
//! done.mark_all([]);
//! assert_eq!(done.edge(), 8);
//! ```

#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![expect(clippy::disallowed_types, reason = "only this crate uses the standard atomics")]

pub mod atomic;
mod bell;
mod budget;
mod counter;
mod door;
#[cfg(loom)]
mod explore;
mod high_water;
mod latest;
mod loan;
mod lock;
mod once_link;
mod optimistic_lock;
mod prefix;
mod ring;
mod stack;
mod try_lock;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub use bell::Bell;
pub use budget::{Budget, Charge, Overrun};
pub use counter::Counter;
pub use crossbeam_utils::{Backoff, CachePadded};
pub use door::Door;
#[cfg(loom)]
pub use explore::explore;
pub use high_water::HighWater;
pub use latest::Latest;
pub use loan::{Loan, lend};
pub use lock::Lock;
pub use once_link::OnceLink;
pub use optimistic_lock::{Exclusive, OptimisticLock, Version};
pub use prefix::Prefix;
pub use ring::{Receiver, Sender, ring};
pub use stack::Stack;
pub use try_lock::TryLock;

/// A request to stop. All clones share the same stop request. One thread requests a stop, and the
/// worker threads notice the request.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests a stop. The request cannot be revoked.
    pub fn request(&self) {
        // Relaxed: the flag orders nothing; a thread that sees it late does a little more work.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the work has been asked to stop.
    pub fn is_requested(&self) -> bool {
        // Relaxed: see `request`.
        self.0.load(Ordering::Relaxed)
    }
}

/// Hands out the numbers `0..len`, each exactly once, to any number of threads.
#[derive(Debug)]
pub struct Tickets {
    /// The next number to hand out. Written and read by every worker thread.
    next: CachePadded<AtomicUsize>,
    len: usize,
}

impl Tickets {
    /// Creates tickets for the numbers below `len`.
    pub fn new(len: usize) -> Self {
        Tickets { next: CachePadded::new(AtomicUsize::new(0)), len }
    }

    /// Returns the next number, or `None` if all numbers have been handed out.
    pub fn take(&self) -> Option<usize> {
        // Relaxed: read-modify-write operations on one atomic never return a value twice, and the
        // data that belongs to a number was published when the threads were started.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.len).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_taken_once() {
        let tickets = Tickets::new(1000);
        let mut taken: Vec<usize> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| std::iter::from_fn(|| tickets.take()).collect::<Vec<_>>()))
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        taken.sort_unstable();
        assert_eq!(taken, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_stop_is_seen_by_its_clones() {
        let stop = Stop::default();
        let other = stop.clone();
        assert!(!other.is_requested());
        stop.request();
        assert!(other.is_requested());
    }
}
