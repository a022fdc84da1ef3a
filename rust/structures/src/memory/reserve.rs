//! Addresses that are kept for small allocations once the system refuses.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, MutexGuard, TryLockError};

use memmap2::{MmapMut, MmapOptions};
use tidegate_sync::Counter;

use super::{OutOfMemory, limit, pages};

/// Bytes of the reserve where no limit on the process says otherwise: what all threads together
/// allocate in small pieces between two [checks](super::check). They are addresses only, of which
/// no page is ever written to.
pub const RESERVE: usize = 32 << 20;

/// Where there is a limit, the reserve is this part of what it leaves: so large are the largest
/// requests that are served though nobody has announced them.
const PART: usize = 4;

/// The most and the least that the reserve has then. With less it is not worth to go on.
const MOST: usize = 1 << 30;
const LEAST: usize = 2 << 20;

/// Bytes for what it takes to say that there is no memory.
const LAST: usize = 1 << 20;

static ADDRESSES: Mutex<Addresses> = Mutex::new(Addresses { reserve: None, last: None });

struct Addresses {
    reserve: Option<MmapMut>,
    last: Option<MmapMut>,
}

/// 1 while the reserve is whole, which it is not at first.
static WHOLE: Counter = Counter::new(0);

#[inline]
pub(super) fn is_whole() -> bool {
    WHOLE.get() == 1
}

/// Takes the reserve anew, as much of it as can be had.
#[cold]
pub(super) fn renew() -> Result<(), OutOfMemory> {
    // Where an allocation fails meanwhile, it does not get at the reserve: so there is none from
    // here on.
    let Some(mut addresses) = lock() else { return Ok(()) };
    let take = |size: usize| MmapOptions::new().len(size).no_reserve_swap().map_anon().ok();
    if addresses.last.is_none() {
        addresses.last = take(LAST);
    }
    if addresses.reserve.is_none() {
        let most = limit::room().map_or(RESERVE, |room| (room / PART).clamp(LEAST, MOST));
        let sizes =
            || std::iter::successors(Some(most), |size| (size / 2 >= LEAST).then_some(size / 2));
        addresses.reserve = take(most).or_else(|| {
            pages::empty_pool();
            sizes().find_map(take)
        });
    }
    if addresses.reserve.is_none() || addresses.last.is_none() {
        return Err(OutOfMemory::refused(LEAST));
    }
    WHOLE.set(1);
    Ok(())
}

/// Gives the reserve to the next allocation. Returns whether there was any.
fn spend() -> bool {
    let Some(mut addresses) = lock() else { return false };
    WHOLE.set(0);
    addresses.reserve.take().is_some()
}

/// As [`spend`], what is kept for the end.
fn spend_last() -> bool {
    lock().is_some_and(|mut addresses| addresses.last.take().is_some())
}

/// The addresses, unless another thread is at them: an allocator waits for nobody, nor for itself.
fn lock() -> Option<MutexGuard<'static, Addresses>> {
    match ADDRESSES.try_lock() {
        Ok(addresses) => Some(addresses),
        Err(TryLockError::Poisoned(addresses)) => Some(addresses.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The system's allocator. Where that refuses, what is kept for later arrays is given back, then
/// the reserve is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Allocates once more, after memory was given back.
#[cold]
fn again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    for give_back in [pages::empty_pool, spend, spend_last] {
        if give_back() {
            let memory = allocate();
            if !memory.is_null() {
                return memory;
            }
        }
    }
    std::ptr::null_mut()
}

#[inline]
fn or_again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if memory.is_null() { again(allocate) } else { memory }
}

// SAFETY: each call is handed on to the system's allocator with the caller's arguments, once or,
// where that gave nothing, several times; what it gives is returned. Nothing in between unwinds:
// maps are removed, and locks only tried.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        or_again(|| unsafe { System.alloc(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller says; all memory is the system's.
        unsafe { System.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        or_again(|| unsafe { System.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller says; memory that could not be grown is as it was.
        or_again(|| unsafe { System.realloc(memory, layout, bytes) })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_refused_allocation_is_tried_again_with_the_reserve() {
        renew().unwrap();
        assert!(is_whole());
        let (tries, memory) = (Cell::new(0), Cell::new(0_u8));
        let allocate = || {
            tries.set(tries.get() + 1);
            if is_whole() { std::ptr::null_mut() } else { memory.as_ptr() }
        };
        assert!(!or_again(allocate).is_null());
        assert!(tries.get() >= 2 && !is_whole());
        renew().unwrap();
        assert!(is_whole());
        assert!(or_again(std::ptr::null_mut).is_null(), "there is nothing left to give");
        super::super::check();
        assert!(is_whole());
    }
}
