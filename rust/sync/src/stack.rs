//! A stack of values: any number of threads push, and one takes all of them at once.

use std::{fmt, ptr};

use crate::atomic::{AtomicPtr, Ordering};

struct Entry<T> {
    value: T,
    below: *mut Entry<T>,
}

/// Treiber's stack without `pop`: since the whole stack is taken, no entry is looked at that
/// another thread may free, and neither epochs nor tags are needed.
pub struct Stack<T> {
    /// The last entry handed in, or null.
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
    /// Hands in `value`.
    pub fn push(&self, value: T) {
        let entry = Box::into_raw(Box::new(Entry { value, below: ptr::null_mut() }));
        // Relaxed: `below` is only a guess until the exchange agrees, and it is never followed
        // here.
        let mut below = self.top.load(Ordering::Relaxed);
        loop {
            // SAFETY: the entry is not in the stack yet, so this thread alone has it.
            unsafe { (*entry).below = below };
            // Release: publishes the entry, and through the chain of read-modify-writes those below
            // it, to the Acquire of `take_all`.
            match self.top.compare_exchange(below, entry, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => below = found,
            }
        }
    }

    /// Whether nothing is there to take.
    pub fn is_empty(&self) -> bool {
        // Relaxed: nothing is followed, and a push that happened before is seen in any case.
        self.top.load(Ordering::Relaxed).is_null()
    }

    /// Takes everything, the last handed in first.
    pub fn take_all(&self) -> Vec<T> {
        // Acquire: pairs with the Release of `push`.
        let mut top = self.top.swap(ptr::null_mut(), Ordering::Acquire);
        let mut values = Vec::new();
        while !top.is_null() {
            // SAFETY: the entries were boxed by `push`, and the swap made this thread the only one
            // that has them.
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
