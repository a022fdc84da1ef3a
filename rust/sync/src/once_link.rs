//! A link in a list that only grows. A link is empty at first. Once set, it always refers to the
//! same shared value.
//!
//! Reference counts alone free the list, starting with its oldest element. A link owns one
//! reference count of its target. A reader holds a reference count on the element that it reads. An
//! element's link lives as long as the element. A value therefore cannot be freed while it is being
//! read through a link.
//!
//! ```text
//! reader ─▶ element ─▶ element ─▶ element ─▶ (empty: the next `set` wins here)
//! ```
//!
//! Dropping the first element of a chain would drop the others recursively. So element types that
//! form long chains drop their elements in a loop (see [`OnceLink::unchain`]).

use std::marker::PhantomData;
use std::{fmt, ptr};

use crate::atomic::{Arc, AtomicPtr, Ordering, into_inner};

/// A link that is empty or contains one `Arc<T>`.
pub struct OnceLink<T> {
    /// Null, or a pointer from `Arc::into_raw`. The pointer's reference count belongs to this link.
    /// Written once, by the thread whose `set` wins, and read by any thread.
    to: AtomicPtr<T>,
    owns: PhantomData<Arc<T>>,
}

// SAFETY: a shared link only returns and accepts `Arc<T>`, so it can be sent between threads
// exactly when `Arc<T>` can, which is when `T` is both `Send` and `Sync`.
unsafe impl<T: Send + Sync> Send for OnceLink<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync> Sync for OnceLink<T> {}

impl<T> fmt::Debug for OnceLink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceLink").field(&self.to).finish()
    }
}

impl<T> Default for OnceLink<T> {
    fn default() -> Self {
        OnceLink { to: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }
}

impl<T> OnceLink<T> {
    /// Returns the link's target, if the link has been set.
    #[inline]
    pub fn get(&self) -> Option<Arc<T>> {
        // Acquire: pairs with the Release of `set`, so the complete value is visible.
        let to = self.to.load(Ordering::Acquire);
        if to.is_null() {
            return None;
        }
        // SAFETY: `to` is from `Arc::into_raw`. Its count is released only when this link is
        // dropped or taken apart, and both need exclusive access. While `self` is borrowed, there
        // is at least one count, so another one can be added and returned.
        unsafe {
            Arc::increment_strong_count(to);
            Some(Arc::from_raw(to))
        }
    }

    /// Borrows the link's target, if the link has been set.
    #[inline]
    pub fn peek(&self) -> Option<&T> {
        // Acquire: as in `get`.
        let to = self.to.load(Ordering::Acquire);
        // SAFETY: the count that the link owns lasts as long as the borrow, see `get`.
        unsafe { to.as_ref() }
    }

    /// Sets the target to `value`, or returns `value` if another target was set first.
    pub fn set(&self, value: Arc<T>) -> Result<(), Arc<T>> {
        let to = Arc::into_raw(value).cast_mut();
        // Release: publishes the value to the Acquire of `get`. Relaxed on failure: the winner's
        // value is read with `get`, which has its own Acquire.
        match self.to.compare_exchange(ptr::null_mut(), to, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: `to` came from `Arc::into_raw` just above and was not stored, so its count is
            // still this function's.
            Err(_) => Err(unsafe { Arc::from_raw(to) }),
        }
    }

    /// Removes and returns the target, leaving the link empty.
    pub fn take(&mut self) -> Option<Arc<T>> {
        // Relaxed: access to the link is exclusive, so its last `set` happened before.
        let to = self.to.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: `to` is from `Arc::into_raw`, and its count belonged to the link, which is now
        // empty.
        (!to.is_null()).then(|| unsafe { Arc::from_raw(to) })
    }

    /// Drops the chain that begins here, one element after another, up to the first element that is
    /// still referenced elsewhere.
    ///
    /// `link` returns an element's own link.
    pub fn unchain(&mut self, link: impl Fn(&mut T) -> &mut OnceLink<T>) {
        let mut rest = self.take();
        while let Some(mut element) = rest.and_then(into_inner) {
            rest = link(&mut element).take();
        }
    }
}

impl<T> Drop for OnceLink<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Element {
        next: OnceLink<Element>,
    }

    impl Drop for Element {
        fn drop(&mut self) {
            self.next.unchain(|element| &mut element.next);
        }
    }

    #[test]
    fn the_first_value_stays() {
        let link = OnceLink::default();
        assert!(link.get().is_none());
        assert!(link.set(Arc::new(1)).is_ok());
        assert_eq!(*link.set(Arc::new(2)).unwrap_err(), 2);
        assert_eq!(*link.get().unwrap(), 1);
        assert_eq!(link.peek(), Some(&1));
    }

    #[test]
    fn a_long_chain_is_dropped_without_recursion() {
        let first = Arc::new(Element::default());
        let mut last = first.clone();
        for _ in 0..1_000_000 {
            let next = Arc::new(Element::default());
            last.next.set(next.clone()).ok().expect("the end of the chain is empty");
            last = next;
        }
        let middle = first.next.get().unwrap();
        drop(first);
        assert!(middle.next.get().is_some(), "elements that are still referenced remain");
    }
}
