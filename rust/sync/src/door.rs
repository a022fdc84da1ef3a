//! A door that threads pass until it is closed.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Set once the door is closed. Below it is the number of threads that are inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Counts the threads that are inside something, and lets none in once it is closed.
///
/// It needs no lock, so a process may fork while threads pass it.
///
/// ```
/// use tidegate_sync::Door;
///
/// let door = Door::new();
/// assert!(door.enter());
/// door.close();
/// assert!(!door.enter());
/// assert_eq!(door.inside(), 1);
/// door.leave();
/// assert_eq!(door.inside(), 0);
/// ```
#[derive(Debug, Default)]
pub struct Door(AtomicUsize);

impl Door {
    /// An open door, with nobody inside.
    pub const fn new() -> Self {
        Door(AtomicUsize::new(0))
    }

    /// Lets this thread in, unless the door is closed. A thread that was let in leaves again.
    pub fn enter(&self) -> bool {
        // All changes of one atomic have an order: either whoever closed the door counts this
        // thread, or this thread finds it closed. Acquire and Release: what a thread does inside
        // is over when it is no longer counted.
        let enters = self.0.fetch_add(1, Ordering::Acquire) & CLOSED == 0;
        if !enters {
            self.leave();
        }
        enters
    }

    /// A thread that was let in is no longer inside.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Lets nobody in from now on.
    pub fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::Acquire);
    }

    /// The number of threads inside. A thread that finds the door closed may count for a moment.
    pub fn inside(&self) -> usize {
        self.0.load(Ordering::Acquire) & !CLOSED
    }

    /// So many are inside: a process that has forked lacks the other threads.
    pub fn set_inside(&self, inside: usize) {
        self.0.store(self.0.load(Ordering::Relaxed) & CLOSED | inside, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_inside_once_a_closed_door_is_empty() {
        for _ in 0..50 {
            let (door, over) = (Door::new(), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        while door.enter() {
                            assert_eq!(over.load(Ordering::SeqCst), 0, "a thread is inside");
                            door.leave();
                        }
                    });
                }
                door.close();
                while door.inside() > 0 {
                    std::thread::yield_now();
                }
                over.store(1, Ordering::SeqCst);
            });
        }
    }

    #[test]
    fn a_forked_process_counts_its_own_thread() {
        let door = Door::new();
        assert!(door.enter() && door.enter());
        door.set_inside(1);
        door.leave();
        assert_eq!(door.inside(), 0);
        assert!(door.enter());
    }
}
