//! The process's allocator, which serves large requests from the pool and small ones from the
//! system.
//!
//! Each call allocates and frees vectors of rows, just as it allocates and frees
//! [`Pages`](super::pages::Pages). The heap returns such memory to the system and clears new pages
//! for the next vector. Clearing these pages costs more than filling the vector with rows. Requests
//! of [`SMALL`] bytes or more are therefore served with an extent from the pool. A [`Header`] in
//! the first bytes records where the memory comes from. If the address space is limited and the
//! pool has no suitable extent, the system serves the request, because its heap needs fewer
//! addresses. The system also serves requests whose alignment exceeds a cache line.
//!
//! If the system refuses memory, the allocator first frees memory that is kept for later arrays. If
//! necessary, it then frees the reserve.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use super::pages::SMALL;
use super::pool::Extent;
use super::reserve::GIVE_BACK;
use crate::memory;

/// Records whether a large allocation comes from the pool or the system. The header is stored
/// directly before the allocation.
enum Header {
    Pool(Extent),
    System,
}

/// The number of bytes in a header. A header fills one cache line.
const HEADER: usize = 64;

/// The allocator. If the system refuses memory, the allocator first frees memory that is kept for
/// later arrays. If necessary, it then frees the reserve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Frees memory that is kept for later arrays, and then retries the allocation.
#[cold]
fn again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    for give_back in GIVE_BACK {
        // Try again even if there was nothing to free: another thread may have just freed memory.
        give_back();
        let memory = allocate();
        if !memory.is_null() {
            return memory;
        }
    }
    ptr::null_mut()
}

#[inline]
fn or_again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if memory.is_null() { again(allocate) } else { memory }
}

/// Returns whether a request is large. In stress builds, no request counts as large, because
/// sanitizers only check the bounds of memory from the system.
#[inline]
fn is_large(layout: Layout) -> bool {
    layout.size() >= SMALL && layout.align() <= HEADER && !cfg!(tidegate_stress)
}

/// Returns the layout of a large request that the system serves, including the header.
fn with_header(layout: Layout) -> Option<Layout> {
    Layout::from_size_align(layout.size().checked_add(HEADER)?, HEADER).ok()
}

/// Writes a header to the start of a piece of memory. Returns the address after the header.
///
/// # Safety
///
/// The memory must be longer than a header, aligned to the header's size, and owned by the caller.
unsafe fn put(header: Header, start: *mut u8) -> *mut u8 {
    const { assert!(size_of::<Header>() <= HEADER && align_of::<Header>() <= HEADER) };
    // SAFETY: guaranteed by the caller.
    unsafe {
        start.cast::<Header>().write(header);
        start.add(HEADER)
    }
}

/// Removes and returns the header of a large piece of memory.
///
/// # Safety
///
/// The memory must have been returned by [`put`]. After this call, the header must be put back
/// before it is removed again.
unsafe fn header(memory: *mut u8) -> Header {
    // SAFETY: guaranteed by the caller.
    unsafe { memory.sub(HEADER).cast::<Header>().read() }
}

/// Allocates memory for a large request. The memory is zeroed if `zeroed` is set. Returns null if
/// no memory is available.
fn large(layout: Layout, zeroed: bool) -> *mut u8 {
    let Some(whole) = with_header(layout) else { return ptr::null_mut() };
    let found = Extent::free(whole.size());
    let found = match found {
        None if memory::addresses_left().is_some() => {
            // SAFETY: the layout is not empty.
            let start =
                unsafe { if zeroed { System.alloc_zeroed(whole) } else { System.alloc(whole) } };
            if start.is_null() {
                return start;
            }
            // SAFETY: this memory has the layout, which has room for a header.
            return unsafe { put(Header::System, start) };
        }
        // Callers that need a lot of memory have already checked whether there is enough.
        None => Extent::take(whole.size(), false).ok(),
        found => found,
    };
    let Some(mut extent) = found else { return ptr::null_mut() };
    if zeroed && !extent.is_zero() {
        extent.bytes_mut()[..whole.size()].fill(0);
    }
    let start = extent.start();
    // SAFETY: the extent begins at the start of a page, is as long as the layout, and is freed with
    // the memory.
    unsafe { put(Header::Pool(extent), start) }
}

#[cold]
fn take(layout: Layout, zeroed: bool) -> *mut u8 {
    or_again(|| large(layout, zeroed))
}

/// Frees large memory.
///
/// # Safety
///
/// The memory must have been allocated by [`large`] with this layout, and must no longer be in use.
#[cold]
unsafe fn give_back(memory: *mut u8, layout: Layout) {
    // SAFETY: guaranteed by the caller.
    match (unsafe { header(memory) }, with_header(layout)) {
        (Header::Pool(extent), _) => extent.give_back(),
        // SAFETY: this is the system's memory for this layout.
        (Header::System, Some(whole)) => unsafe { System.dealloc(memory.sub(HEADER), whole) },
        (Header::System, None) => unreachable!("it was allocated"),
    }
}

/// Tries to resize a large piece of memory in place, and returns whether this succeeded.
///
/// # Safety
///
/// The memory is from [`large`].
#[cold]
unsafe fn is_resized(memory: *mut u8, layout: Layout, bytes: usize) -> bool {
    let wanted = Layout::from_size_align(bytes, layout.align()).ok().filter(|&it| is_large(it));
    let Some(whole) = wanted.and_then(with_header) else { return false };
    // SAFETY: guaranteed by the caller, and the header is put back.
    unsafe {
        let mut header = header(memory);
        let is_resized = match &mut header {
            Header::Pool(extent) => extent.resize(whole.size()),
            Header::System => false,
        };
        put(header, memory.sub(HEADER));
        is_resized
    }
}

// SAFETY: each call is passed on with the caller's arguments to the system's allocator or,
// depending only on its layout, to `large`. The call is repeated if it returned no memory, and its
// result is returned. Large memory begins after a header, at a multiple of the header's size, which
// no requested alignment exceeds. Nothing in between unwinds: mappings are removed, and locks are
// only tried.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return take(layout, false);
        }
        // SAFETY: guaranteed by the caller.
        or_again(|| unsafe { System.alloc(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: memory of this layout is large, and the caller does not use it again.
            return unsafe { give_back(memory, layout) };
        }
        // SAFETY: guaranteed by the caller; memory of this layout belongs to the system.
        unsafe { System.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return take(layout, true);
        }
        // SAFETY: guaranteed by the caller.
        or_again(|| unsafe { System.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the size, rounded up to the alignment, is valid.
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        if !is_large(layout) && !is_large(wanted) {
            // SAFETY: guaranteed by the caller; memory that could not be grown is unchanged.
            return or_again(|| unsafe { System.realloc(memory, layout, bytes) });
        }
        // SAFETY: memory of such a layout is large.
        if is_large(layout) && unsafe { is_resized(memory, layout, bytes) } {
            return memory;
        }
        // SAFETY: the caller guarantees that the layout is not empty.
        let other = unsafe { self.alloc(wanted) };
        if !other.is_null() {
            // SAFETY: both allocations are at least as long as the copied bytes. The new one is not
            // shared, and the caller does not use the old one again.
            unsafe {
                ptr::copy_nonoverlapping(memory, other, bytes.min(layout.size()));
                self.dealloc(memory, layout);
            }
        }
        other
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::reserve::{is_whole, renew};
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
        assert!(or_again(std::ptr::null_mut).is_null(), "there is nothing left to free");
        tries.set(0);
        let given_back_by_another_thread = || {
            tries.set(tries.get() + 1);
            if tries.get() == 1 { std::ptr::null_mut() } else { memory.as_ptr() }
        };
        assert!(!or_again(given_back_by_another_thread).is_null());
        super::super::check();
        assert!(is_whole());
    }

    /// Returns a byte that depends on its position.
    fn pattern(at: usize) -> u8 {
        (at % 251) as u8
    }

    /// Grows and shrinks memory, and checks that its contents are preserved.
    #[test]
    fn memory_keeps_its_bytes_when_it_is_resized() {
        let sizes = [100, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL, 40 * SMALL, SMALL, 9 << 20, 10];
        for align in [1, 8, 64, 128] {
            let mut layout = Layout::from_size_align(7, align).unwrap();
            // SAFETY: layouts are not empty, memory is passed with the layout that it has, and it
            // is written before it is read.
            unsafe {
                let mut memory = Allocator.alloc(layout);
                (0..layout.size()).for_each(|at| memory.add(at).write(pattern(at)));
                for size in sizes {
                    memory = Allocator.realloc(memory, layout, size);
                    assert_eq!(memory.addr() % align, 0);
                    let kept = layout.size().min(size);
                    assert!((0..kept).all(|at| memory.add(at).read() == pattern(at)));
                    layout = Layout::from_size_align(size, align).unwrap();
                    (kept..size).for_each(|at| memory.add(at).write(pattern(at)));
                }
                Allocator.dealloc(memory, layout);
            }
        }
    }

    #[test]
    fn zeros_are_zeros_in_used_memory() {
        for size in [10, SMALL, 5 * SMALL + 1, 3 << 20] {
            let layout = Layout::from_size_align(size, 8).unwrap();
            for _ in 0..3 {
                // SAFETY: the layout is not empty, and is the same throughout.
                unsafe {
                    let memory = Allocator.alloc_zeroed(layout);
                    let bytes = std::slice::from_raw_parts_mut(memory, size);
                    assert!(bytes.iter().all(|byte| *byte == 0));
                    bytes.fill(7);
                    Allocator.dealloc(memory, layout);
                }
            }
        }
    }

    #[test]
    fn requests_for_more_than_there_is_get_nothing() {
        let layout = Layout::from_size_align(isize::MAX as usize - 64, 8).unwrap();
        // SAFETY: the layout is not empty.
        assert!(unsafe { Allocator.alloc(layout) }.is_null());
    }
}
