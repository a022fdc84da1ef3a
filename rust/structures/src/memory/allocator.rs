//! The allocator of a process: the pool for large requests, the system for small ones.
//!
//! A vector of rows comes and goes with each call, as [`Pages`](super::pages::Pages) do. The heap
//! gives it back to the system and clears new pages for the next one, which costs more than the rows
//! in it. So a request of [`SMALL`] bytes or more gets an extent of the pool. In its first bytes, a
//! [`Header`] says where it is from. Where addresses are limited, it is from the system unless the
//! pool has what fits: the heap packs what it has into few of them. One that asks for more than a
//! cache line's alignment is the system's, too.
//!
//! Where the system refuses memory, what is kept for later arrays is given back, then the reserve
//! is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use super::pages::SMALL;
use super::pool::Extent;
use super::reserve::GIVE_BACK;
use crate::memory;

/// Where large memory is from. It lies before the memory.
enum Header {
    Pool(Extent),
    System,
}

/// The bytes of a header: a cache line.
const HEADER: usize = 64;

/// The allocator. Where the system refuses, what is kept for later arrays is given back, then the
/// reserve is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Allocates again after giving back memory.
#[cold]
fn again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    for give_back in GIVE_BACK {
        // Try again even if there was nothing to give back: another thread may have just done it.
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

/// Whether a request is large. Sanitizers see the borders of the system's memory only.
#[inline]
fn is_large(layout: Layout) -> bool {
    layout.size() >= SMALL && layout.align() <= HEADER && !cfg!(tidegate_stress)
}

/// The layout of a request that the system serves, with its header.
fn with_header(layout: Layout) -> Option<Layout> {
    Layout::from_size_align(layout.size().checked_add(HEADER)?, HEADER).ok()
}

/// Puts a header at the start of memory, and returns what is behind it.
///
/// # Safety
///
/// The memory is longer, aligned as a header's size, and only the caller's.
unsafe fn put(header: Header, start: *mut u8) -> *mut u8 {
    const { assert!(size_of::<Header>() <= HEADER && align_of::<Header>() <= HEADER) };
    // SAFETY: as the caller says.
    unsafe {
        start.cast::<Header>().write(header);
        start.add(HEADER)
    }
}

/// Takes the header of memory.
///
/// # Safety
///
/// The memory is from [`put`], and the header is not taken again until it is put back.
unsafe fn header(memory: *mut u8) -> Header {
    // SAFETY: as the caller says.
    unsafe { memory.sub(HEADER).cast::<Header>().read() }
}

/// Memory for a large request, and whether it is all zeros; null where there is none.
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
            // SAFETY: this is memory of the layout, which has room for a header.
            return unsafe { put(Header::System, start) };
        }
        // Who needs much has asked beforehand whether it is there.
        None => Extent::take(whole.size(), false).ok(),
        found => found,
    };
    let Some(mut extent) = found else { return ptr::null_mut() };
    if zeroed && !extent.is_zero() {
        extent.bytes_mut()[..whole.size()].fill(0);
    }
    let start = extent.start();
    // SAFETY: the extent begins at a page's start, is as long as the layout, and goes with the memory.
    unsafe { put(Header::Pool(extent), start) }
}

#[cold]
fn take(layout: Layout, zeroed: bool) -> *mut u8 {
    or_again(|| large(layout, zeroed))
}

/// Gives large memory back.
///
/// # Safety
///
/// The memory is from [`large`] for this layout, and nobody uses it any more.
#[cold]
unsafe fn give_back(memory: *mut u8, layout: Layout) {
    // SAFETY: as the caller says.
    match (unsafe { header(memory) }, with_header(layout)) {
        (Header::Pool(extent), _) => extent.give_back(),
        // SAFETY: this is the system's memory of this layout.
        (Header::System, Some(whole)) => unsafe { System.dealloc(memory.sub(HEADER), whole) },
        (Header::System, None) => unreachable!("it was allocated"),
    }
}

/// Makes large memory longer or shorter, if it can be done where it lies.
///
/// # Safety
///
/// The memory is from [`large`].
#[cold]
unsafe fn is_resized(memory: *mut u8, layout: Layout, bytes: usize) -> bool {
    let wanted = Layout::from_size_align(bytes, layout.align()).ok().filter(|&it| is_large(it));
    let Some(whole) = wanted.and_then(with_header) else { return false };
    // SAFETY: as the caller says, and the header is put back.
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

// SAFETY: each call is handed on with the caller's arguments to the system's allocator or, by its
// layout alone, to `large`, once or, where that gave nothing, several times; what it gives is returned.
// Large memory is from behind a header on, at a multiple of its size, which no alignment that is asked
// of it exceeds. Nothing in between unwinds: maps are removed, and locks only tried.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return take(layout, false);
        }
        // SAFETY: as the caller says.
        or_again(|| unsafe { System.alloc(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: of this layout, memory is large; the caller does not use it again.
            return unsafe { give_back(memory, layout) };
        }
        // SAFETY: as the caller says; of this layout, memory is the system's.
        unsafe { System.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return take(layout, true);
        }
        // SAFETY: as the caller says.
        or_again(|| unsafe { System.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller says that the size, rounded up to the alignment, is one.
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        if !is_large(layout) && !is_large(wanted) {
            // SAFETY: as the caller says; memory that could not be grown is as it was.
            return or_again(|| unsafe { System.realloc(memory, layout, bytes) });
        }
        // SAFETY: of such a layout, memory is large.
        if is_large(layout) && unsafe { is_resized(memory, layout, bytes) } {
            return memory;
        }
        // SAFETY: the layout is not empty, as the caller says.
        let other = unsafe { self.alloc(wanted) };
        if !other.is_null() {
            // SAFETY: both are at least as long as what is copied, the new one is nobody else's, and
            // the caller does not use the old one again.
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
        assert!(or_again(std::ptr::null_mut).is_null(), "there is nothing left to give");
        tries.set(0);
        let given_back_by_another_thread = || {
            tries.set(tries.get() + 1);
            if tries.get() == 1 { std::ptr::null_mut() } else { memory.as_ptr() }
        };
        assert!(!or_again(given_back_by_another_thread).is_null());
        super::super::check();
        assert!(is_whole());
    }

    /// Bytes that say where they are.
    fn pattern(at: usize) -> u8 {
        (at % 251) as u8
    }

    /// Grows and shrinks memory, and looks at what stays.
    #[test]
    fn memory_keeps_its_bytes_when_it_is_resized() {
        let sizes = [100, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL, 40 * SMALL, SMALL, 9 << 20, 10];
        for align in [1, 8, 64, 128] {
            let mut layout = Layout::from_size_align(7, align).unwrap();
            // SAFETY: layouts are not empty, memory is asked for with the layout that it has, and
            // written before it is read.
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
                // SAFETY: the layout is not empty, and the same throughout.
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
