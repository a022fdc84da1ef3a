//! A number that many threads change and that orders nothing but itself.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A count. Loom does not step through it, so its users must be right for any value they read.
#[derive(Debug, Default)]
pub struct Counter(AtomicUsize);

impl Counter {
    /// Starts at `value`.
    pub const fn new(value: usize) -> Self {
        Counter(AtomicUsize::new(value))
    }

    // Relaxed, all of them: read-modify-writes of one atomic lose no update and give no value
    // twice, and nothing else is ordered by a counter.

    /// The count at some moment.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Writes `value`.
    pub fn set(&self, value: usize) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds `value` and gives what stood there.
    pub fn add(&self, value: usize) -> usize {
        self.0.fetch_add(value, Ordering::Relaxed)
    }

    /// Subtracts `value`.
    pub fn subtract(&self, value: usize) {
        self.0.fetch_sub(value, Ordering::Relaxed);
    }
}
