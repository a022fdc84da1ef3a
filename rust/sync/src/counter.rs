//! A number that many threads change. A counter does not order accesses to other memory.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A count. Loom does not model counters, so code that reads a counter must be correct for any
/// value.
#[derive(Debug, Default)]
pub struct Counter(AtomicUsize);

impl Counter {
    /// Creates a counter that starts at `value`.
    pub const fn new(value: usize) -> Self {
        Counter(AtomicUsize::new(value))
    }

    // Relaxed, all of them: read-modify-writes of one atomic lose no update and return no value
    // twice, and nothing else is ordered by a counter.

    /// Returns the count, which other threads may change at any time.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the count to `value`.
    pub fn set(&self, value: usize) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds `value` and returns the previous count.
    pub fn add(&self, value: usize) -> usize {
        self.0.fetch_add(value, Ordering::Relaxed)
    }

    /// Subtracts `value`.
    pub fn subtract(&self, value: usize) {
        self.0.fetch_sub(value, Ordering::Relaxed);
    }
}
