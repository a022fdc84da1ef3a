//! A common interface to the atomics of the standard library and of loom, with the same names for
//! both.
//!
//! With `--cfg loom`, every access to an atomic is a step that loom can interleave with the steps
//! of other threads. Without loom, each method is one operation on the standard type. The types are
//! wrappers, so that clippy can forbid the standard types everywhere else.

use std::fmt;
pub use std::sync::atomic::Ordering;

#[cfg(loom)]
pub use loom::sync::Arc;
#[cfg(not(loom))]
pub use std::sync::Arc;

mod imp {
    #[cfg(loom)]
    pub(super) use loom::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicUsize, fence,
    };
    #[cfg(not(loom))]
    pub(super) use std::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicUsize, fence,
    };
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $value:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(imp::$name);

        impl $name {
            /// Creates an atomic with this `value`.
            pub fn new(value: $value) -> Self {
                Self(imp::$name::new(value))
            }

            /// Reads the value.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// Writes `value`.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }
        }
    };
}

number!(
    /// An atomic flag.
    AtomicBool,
    bool
);
number!(
    /// An atomic time.
    AtomicI64,
    i64
);
number!(
    /// An atomic row number or node number.
    AtomicU32,
    u32
);
number!(
    /// An atomic count.
    AtomicUsize,
    usize
);

impl AtomicUsize {
    /// Replaces the value with `new` if it is equal to `current`. Returns the previous value, as
    /// `Ok` if it was replaced and as `Err` otherwise.
    #[inline]
    pub fn compare_exchange(
        &self,
        current: usize,
        new: usize,
        success: Ordering,
        failure: Ordering,
    ) -> Result<usize, usize> {
        self.0.compare_exchange(current, new, success, failure)
    }

    /// Adds `value` and returns the previous value.
    #[inline]
    pub fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        self.0.fetch_add(value, order)
    }

    /// Subtracts `value` and returns the previous value.
    #[inline]
    pub fn fetch_sub(&self, value: usize, order: Ordering) -> usize {
        self.0.fetch_sub(value, order)
    }
}

impl AtomicBool {
    /// Replaces the value with `new` if it is equal to `current`. Returns the previous value, as
    /// `Ok` if it was replaced and as `Err` otherwise.
    #[inline]
    pub fn compare_exchange(
        &self,
        current: bool,
        new: bool,
        success: Ordering,
        failure: Ordering,
    ) -> Result<bool, bool> {
        self.0.compare_exchange(current, new, success, failure)
    }
}

/// Orders this thread's reads and writes before the fence ahead of those after it, as seen by other
/// threads.
#[inline]
pub fn fence(order: Ordering) {
    imp::fence(order);
}

/// An atomic pointer.
pub struct AtomicPtr<T>(imp::AtomicPtr<T>);

impl<T> fmt::Debug for AtomicPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> AtomicPtr<T> {
    /// Creates an atomic with this `pointer`.
    pub fn new(pointer: *mut T) -> Self {
        Self(imp::AtomicPtr::new(pointer))
    }

    /// Reads the pointer.
    #[inline]
    pub fn load(&self, order: Ordering) -> *mut T {
        self.0.load(order)
    }

    /// Writes `pointer`.
    #[inline]
    pub fn store(&self, pointer: *mut T, order: Ordering) {
        self.0.store(pointer, order);
    }

    /// Writes `pointer` and returns the previous pointer.
    #[inline]
    pub fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T {
        self.0.swap(pointer, order)
    }

    /// Replaces the pointer with `new` if it is equal to `current`. Returns the previous value, as
    /// `Ok` if it was replaced and as `Err` otherwise.
    #[inline]
    pub fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.0.compare_exchange(current, new, success, failure)
    }
}

/// A cell whose accesses are checked by loom. If two accesses race and at least one of them is
/// through `with_mut`, the model fails.
#[derive(Debug)]
pub struct RaceCell<T>(
    #[cfg(loom)] loom::cell::UnsafeCell<T>,
    #[cfg(not(loom))] std::cell::UnsafeCell<T>,
);

impl<T> RaceCell<T> {
    /// Creates a cell that contains `value`.
    pub fn new(value: T) -> Self {
        #[cfg(loom)]
        return Self(loom::cell::UnsafeCell::new(value));
        #[cfg(not(loom))]
        return Self(std::cell::UnsafeCell::new(value));
    }

    /// Calls `read` with a pointer for reading.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        #[cfg(loom)]
        return self.0.with(read);
        #[cfg(not(loom))]
        return read(self.0.get());
    }

    /// Calls `write` with a pointer for writing.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(loom)]
        return self.0.with_mut(write);
        #[cfg(not(loom))]
        return write(self.0.get());
    }
}

/// Returns the value of `arc` if there is no other reference. If several threads call this function
/// at the same time, at most one thread gets the value.
pub fn into_inner<T>(arc: Arc<T>) -> Option<T> {
    #[cfg(loom)]
    return Arc::try_unwrap(arc).ok();
    #[cfg(not(loom))]
    return Arc::into_inner(arc);
}
