//! A door that threads can enter until it is closed.

use std::sync::atomic::{AtomicUsize, Ordering};

/// This bit is set once the door is closed. The lower bits count the threads inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// A door that counts the threads inside, and that admits no more threads once it is closed.
///
/// The door uses no lock, so a process may fork while threads are passing through.
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
    /// Creates an open door with no threads inside.
    pub const fn new() -> Self {
        Door(AtomicUsize::new(0))
    }

    /// Admits this thread unless the door is closed. An admitted thread must call
    /// [`leave`](Self::leave) later.
    pub fn enter(&self) -> bool {
        // All changes to one atomic have a single order: either the closing thread counts this
        // thread, or this thread finds the door closed. Acquire and Release: once a thread is no
        // longer counted, everything that it did inside is complete and visible.
        let enters = self.0.fetch_add(1, Ordering::Acquire) & CLOSED == 0;
        if !enters {
            self.leave();
        }
        enters
    }

    /// Records that this thread is no longer inside.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Closes the door so that no more threads are admitted.
    pub fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::Acquire);
    }

    /// Returns the number of threads inside. A thread that finds the door closed may briefly be
    /// included in the count.
    pub fn inside(&self) -> usize {
        self.0.load(Ordering::Acquire) & !CLOSED
    }

    /// Sets the number of threads inside. A forked process needs this method, because the parent's
    /// other threads do not exist in the child.
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
