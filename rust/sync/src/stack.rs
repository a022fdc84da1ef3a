//! A stack of values. Any number of threads push values, and one thread takes all of them at once.

use std::{fmt, ptr};

use crate::atomic::{AtomicPtr, Ordering};

struct Entry<T> {
    value: T,
    below: *mut Entry<T>,
}

/// Treiber's stack without `pop`. All entries are taken together, so no thread reads an entry that
/// another thread could free. So neither epochs nor tags are needed.
pub struct Stack<T> {
    /// The entry that was pushed last, or null.
    top: AtomicPtr<Entry<T>>,
}

// SAFETY: the stack moves values between threads and never shares them.
unsafe impl<T: Send> Send for Stack<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Stack<T> {}

impl<T> fmt::Debug for Stack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stack").field(&self.top).finish()
    }
}

impl<T> Default for Stack<T> {
    fn default() -> Self {
        Stack { top: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<T> Stack<T> {
    /// Pushes `value`.
    pub fn push(&self, value: T) {
        let entry = Box::into_raw(Box::new(Entry { value, below: ptr::null_mut() }));
        // Relaxed: `below` is only a guess until the exchange succeeds, and it is never followed
        // here.
        let mut below = self.top.load(Ordering::Relaxed);
        loop {
            // SAFETY: the entry is not in the stack yet, so only this thread has access to it.
            unsafe { (*entry).below = below };
            // Release: publishes the entry, and through the chain of read-modify-writes those below
            // it, to the Acquire of `take_all`.
            match self.top.compare_exchange(below, entry, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => below = found,
            }
        }
    }

    /// Returns whether the stack is empty.
    pub fn is_empty(&self) -> bool {
        // Relaxed: no pointer is followed, and a push that happened before is visible in any case.
        self.top.load(Ordering::Relaxed).is_null()
    }

    /// Removes and returns all values, starting with the one that was pushed last.
    pub fn take_all(&self) -> Vec<T> {
        // Acquire: pairs with the Release of `push`.
        let mut top = self.top.swap(ptr::null_mut(), Ordering::Acquire);
        let mut values = Vec::new();
        while !top.is_null() {
            // SAFETY: the entries were boxed by `push`, and after the swap only this thread has
            // access to them.
            let entry = unsafe { Box::from_raw(top) };
            top = entry.below;
            values.push(entry.value);
        }
        values
    }
}

impl<T> Drop for Stack<T> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_in_is_taken_once() {
        let stack = Stack::default();
        std::thread::scope(|scope| {
            for first in [0, 1000, 2000] {
                let stack = &stack;
                scope.spawn(move || (first..first + 1000).for_each(|value| stack.push(value)));
            }
        });
        assert!(!stack.is_empty());
        let mut taken = stack.take_all();
        assert!(stack.is_empty());
        taken.sort_unstable();
        assert_eq!(taken, (0..3000).collect::<Vec<_>>());
    }
}
