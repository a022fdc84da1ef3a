//! Memory for rows: arrays, operations on whole arrays, and out-of-memory handling.
//!
//! | file | contents |
//! | --- | --- |
//! | `pages.rs` | large arrays on reused pages |
//! | `file_map.rs` | files that are mapped into memory |
//! | `pool.rs` | the pool of these pages: extents of mappings, free or in use |
//! | `supply.rs` | determines which page size is supplied faster |
//! | `slots.rs` | array elements that cannot be read until they are written |
//! | `partition.rs` | stable parallel partitioning by a dense key; `partition/merge.rs` also finds matches |
//! | `gather.rs` | copies values by row number, with AVX-512 if the processor has it |
//! | `records.rs` | copies rows of several columns that are stored side by side, also for rows that are added and removed |
//! | `select.rs` | finds the values of an array in a range |
//! | `bits.rs` | a set of row numbers |
//! | `refusal.rs` | makes memory requests fail on behalf of tests |
//! | `allocator.rs` | allocates vectors from the pool or the system |
//! | `left.rs`, `limit.rs`, `reserve.rs` | memory left on the machine or within a limit; a reserve for small requests |
//!
//! # Memory that may run out
//!
//! If memory runs out, large allocations fail with an error, and small ones are served from a
//! reserve.
//!
//! Rust aborts the process if an allocation fails. An operator that runs in another program's
//! process must not terminate that process. Instead, the operator frees its memory and reports the
//! size of the refused request. Therefore:
//!
//! - Memory that grows with the number of rows is allocated by [`vec()`], [`filled`], [`collect`],
//!   [`concat()`], [`reserve`] and [`Pages`](pages::Pages). If another library allocates the
//!   memory, [`demand`] checks beforehand whether there is enough. If there is not enough memory,
//!   these functions [raise](OutOfMemory::raise) an [`OutOfMemory`], which unwinds to the
//!   operator's caller.
//! - Everything else is smaller. Once the system has refused memory, the [`Allocator`] serves small
//!   requests from a reserve of addresses. The next [`check`] then raises the error. The process is
//!   still aborted if a single small request exceeds the reserve.
//!
//! # Trade-offs
//!
//! Requests below [`LARGE`] bytes are not checked beforehand, because they can use the reserve.
//! Requests of at least [`LOOKED_AT`] bytes are also compared with the remaining memory of the
//! machine and of the process's control group. Linux hands out addresses freely, but may kill
//! processes when the pages are written to. If two requests are checked at the same time, both may
//! pass even though there is only enough memory for one.

mod allocator;
pub mod bits;
pub mod file_map;
pub mod gather;
mod left;
mod limit;
pub mod pages;
pub mod partition;
mod pool;
pub mod records;
#[cfg(debug_assertions)]
pub mod refusal;
mod reserve;
pub mod select;
mod slots;
#[cfg(target_os = "linux")]
mod supply;

use std::collections::TryReserveError;
use std::fmt;
use std::panic::resume_unwind;

use memmap2::MmapOptions;

pub use allocator::Allocator;
pub use reserve::RESERVE;

/// Requests of at least this size are first tested with a temporary mapping.
pub const LARGE: usize = 1 << 20;

/// Requests of at least this size are compared with the remaining memory. The check takes less than
/// a hundredth of the time needed to clear the memory.
pub const LOOKED_AT: usize = 64 << 20;

/// The error that is raised if there is no memory for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The number of bytes requested.
    pub bytes: usize,
    /// The number of bytes left, if the system reports this number, or `None` if the system refused
    /// the request.
    pub left: Option<usize>,
}

impl OutOfMemory {
    /// Unwinds to the nearest `catch_unwind`. The panic payload is this error, and no panic message
    /// is printed.
    #[cold]
    pub fn raise(self) -> ! {
        resume_unwind(Box::new(self))
    }

    #[cold]
    fn refused(bytes: usize) -> Self {
        OutOfMemory { bytes, left: None }
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left {
            None => write!(
                f,
                "there is no memory for {} bytes: the system has refused them",
                self.bytes
            ),
            Some(left) => {
                write!(f, "there is no memory for {} bytes: about {left} are left", self.bytes)
            }
        }
    }
}

impl std::error::Error for OutOfMemory {}

/// Returns how many more bytes of address space the process may use, if there is a limit.
pub fn addresses_left() -> Option<usize> {
    limit::room()
}

/// Frees the memory that is kept for later arrays. Returns whether there was any memory to free.
///
/// The C allocator is also asked to return the free pages between small pieces that are in use.
pub fn release() -> bool {
    let was_kept = pool::empty_pool();
    trim();
    was_kept
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: glibc receives no address here, and locks each of its arenas.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries return pages automatically or have no function for this.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

/// Sets the maximum number of bytes that are kept for later arrays. Returns whether the limit could
/// be set.
pub fn keep_at_most(bytes: usize) -> bool {
    pool::set_most(bytes)
}

/// Checks whether `bytes` bytes of memory are currently available. Small requests are not checked.
pub fn room(bytes: usize) -> Result<(), OutOfMemory> {
    #[cfg(debug_assertions)]
    if refusal::is_due() {
        return Err(OutOfMemory::refused(bytes));
    }
    if bytes < LARGE { Ok(()) } else { look(bytes) }
}

#[cold]
fn look(bytes: usize) -> Result<(), OutOfMemory> {
    if pool::has(bytes) {
        return Ok(());
    }
    is_left(bytes)?;
    // Maps as many addresses as an allocator would, and immediately unmaps them.
    let try_one = || MmapOptions::new().len(bytes).map_anon().is_ok();
    let is_possible =
        isize::try_from(bytes).is_ok() && (try_one() || (pool::empty_pool() && try_one()));
    if is_possible { Ok(()) } else { Err(OutOfMemory::refused(bytes)) }
}

/// Checks whether the machine and the control group have `bytes` bytes left, if their remaining
/// memory is known.
pub(crate) fn is_left(bytes: usize) -> Result<(), OutOfMemory> {
    let is_short = |left: &usize| *left < bytes;
    if bytes < LOOKED_AT || left::left().filter(is_short).is_none() {
        return Ok(());
    }
    pool::empty_pool();
    match left::left().filter(is_short) {
        None => Ok(()),
        left => Err(OutOfMemory { bytes, left }),
    }
}

/// The number of bytes that a thread uses in addition to its stack, for thread-local variables and
/// synchronization. If the heap has no address space left for the thread, each of about twenty
/// small allocations needs its own page. The remaining bytes are for memory that other threads
/// allocate at the same time.
const LOCALS: usize = 512 << 10;

/// Checks whether there is enough memory for a thread with a stack of `stack` bytes. Returns
/// `false` if the process has no limits, because the system then hands out addresses freely.
///
/// Threads allocate memory without the [`Allocator`]. If there is no memory for a thread-local
/// variable, glibc terminates the process. So the available memory has to be checked before the
/// thread starts.
pub fn room_for_thread(stack: usize) -> Result<bool, OutOfMemory> {
    if !limit::is_set() {
        return Ok(false);
    }
    ready()?;
    let bytes = stack + LOCALS;
    let is_there = || MmapOptions::new().len(bytes).map_anon().is_ok();
    if is_there() || (pool::empty_pool() && is_there()) {
        Ok(true)
    } else {
        Err(OutOfMemory::refused(bytes))
    }
}

/// Raises an error unless enough memory is available for another library to allocate `bytes` bytes.
#[inline]
pub fn demand(bytes: usize) {
    room(bytes).unwrap_or_else(|error| error.raise());
}

/// Does the same as [`demand`] for `len` values of a type.
#[inline]
pub fn demand_values<T>(len: usize) {
    demand(bytes_of::<T>(len));
}

/// Refills the reserve if necessary, and checks whether the reserve is complete.
#[inline]
pub fn ready() -> Result<(), OutOfMemory> {
    if reserve::is_whole() { Ok(()) } else { reserve::renew() }
}

/// Raises an error unless the reserve is [ready].
///
/// Long-running work calls this function from time to time, because allocations may have used up
/// the reserve in the meantime.
#[inline]
pub fn check() {
    ready().unwrap_or_else(|error| error.raise());
}

/// Creates an empty vector with room for `room` values.
pub fn vec<T>(room: usize) -> Vec<T> {
    let mut vec = Vec::new();
    reserve_exact(&mut vec, room);
    vec
}

/// Creates a vector of equal values.
pub fn filled<T: Clone>(len: usize, value: T) -> Vec<T> {
    // The allocator provides zeros faster than a loop would, so the memory is only checked
    // beforehand.
    demand_values::<T>(len);
    vec![value; len]
}

/// Collects the items of an iterator with a known length.
pub fn collect<T>(items: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut all = vec(items.len());
    all.extend(items);
    all
}

/// Concatenates the values of all parts.
pub fn concat<T: Copy>(parts: &[Vec<T>]) -> Vec<T> {
    let mut all = vec(parts.iter().map(Vec::len).sum());
    parts.iter().for_each(|part| all.extend_from_slice(part));
    all
}

/// Reserves room for more values, like `Vec::reserve`.
pub fn reserve<T>(vec: &mut Vec<T>, more: usize) {
    if vec.capacity() - vec.len() < more {
        // Reserves room for twice as many values, as long as there is enough memory.
        let twice = vec.capacity().saturating_mul(2).saturating_sub(vec.len()).max(more);
        if room(bytes_of::<T>(vec.len().saturating_add(twice))).is_err()
            || vec.try_reserve_exact(twice).is_err()
        {
            reserve_exact(vec, more);
        }
    }
}

fn reserve_exact<T>(vec: &mut Vec<T>, more: usize) {
    let bytes = bytes_of::<T>(vec.len().saturating_add(more));
    demand(bytes);
    let refused = |_: TryReserveError| OutOfMemory::refused(bytes).raise();
    vec.try_reserve_exact(more).unwrap_or_else(refused);
}

/// Returns the number of bytes in `len` values. If this number overflows, returns a number that
/// exceeds any possible allocation.
fn bytes_of<T>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>())
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn raised<T>(work: impl FnOnce() -> T) -> Option<usize> {
        let payload = catch_unwind(AssertUnwindSafe(work)).err()?;
        payload.downcast_ref::<OutOfMemory>().map(|error| error.bytes)
    }

    #[test]
    fn what_cannot_be_had_is_an_error_that_says_how_much() {
        const TOO_MANY: usize = 1 << 60;
        assert_eq!(raised(|| vec::<u8>(TOO_MANY)), Some(TOO_MANY));
        assert_eq!(raised(|| filled(TOO_MANY, 1_u16)), Some(2 * TOO_MANY));
        assert_eq!(raised(|| reserve(&mut vec![0_u8; 3], TOO_MANY)), Some(TOO_MANY + 3));
        assert_eq!(raised(|| demand_values::<u64>(usize::MAX)), Some(usize::MAX));
        assert_eq!(raised(|| pages::Pages::<u64>::unwritten(usize::MAX / 4)), Some(usize::MAX));
        assert_eq!(raised(|| pages::Pages::<u8>::unwritten(usize::MAX - 5)), Some(usize::MAX - 5));
        assert_eq!(raised(|| pages::Pages::<u8>::unwritten(isize::MAX as usize)), Some(1 << 63));
    }

    #[test]
    fn what_can_be_had_is_there() {
        let mut some = vec::<u32>(1000);
        assert!(some.capacity() >= 1000);
        some.extend(0..10);
        reserve(&mut some, 2 * LARGE);
        assert!(some.capacity() - some.len() >= 2 * LARGE);
        assert_eq!(some, collect(0..10));
        assert_eq!(filled(LARGE, 7_u8), vec![7; LARGE]);
        check();
    }
}
