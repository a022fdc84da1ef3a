//! Where rows lie: arrays of rows, and operations on whole arrays, in memory that may not be there.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `pages.rs` | large arrays on reused pages |
//! | `pool.rs` | those pages: extents of mappings, free or in use |
//! | `supply.rs` | which size of pages comes faster |
//! | `slots.rs` | their places until they are written, which cannot be read |
//! | `partition.rs` | stable parallel partitioning by a dense key; `partition/merge.rs` also finds matches |
//! | `gather.rs` | values by row number, with AVX-512 where the processor has it |
//! | `records.rs` | the same for several columns that lie side by side, also of rows that come and leave |
//! | `select.rs` | the values of an array in a range |
//! | `bits.rs` | a set of row numbers |
//! | `refusal.rs` | makes memory requests fail on behalf of tests |
//! | `allocator.rs` | what vectors come from: the pool, or the system |
//! | `left.rs`, `limit.rs`, `reserve.rs` | memory that the machine leaves, or a limit; for small requests |
//!
//! # Memory that may not be there
//!
//! Large allocations fail by an error, and small ones find a reserve.
//!
//! Rust ends the process where an allocation fails. An operator in somebody else's process must
//! not: it gives its memory back and says how much it was refused. So
//!
//! - memory that grows with the rows is allocated by [`vec()`], [`filled`], [`collect`], [`concat()`],
//!   [`reserve`] and [`Pages`](pages::Pages), or announced by [`demand`] if another library
//!   allocates it. Each of them [raises](OutOfMemory::raise) an [`OutOfMemory`], which unwinds to
//!   the caller of the operator;
//! - everything else is smaller. The [`Allocator`] serves it from a reserve of addresses once the
//!   system refuses, and the next [`check`] raises. The process still ends where one such request
//!   is larger than the reserve.
//!
//! # Trade-offs
//!
//! A request of less than [`LARGE`] bytes is not looked at beforehand: the reserve is there for
//! those. From [`LOOKED_AT`] bytes on a request is also compared with what the machine and the
//! control group of the process have left, since Linux gives out addresses freely and ends
//! processes when the pages are written to. Two requests at the same time may both find what is
//! enough for one.

mod allocator;
pub mod bits;
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

/// Requests from this size on are tried before they are made.
pub const LARGE: usize = 1 << 20;

/// Requests from this size on are compared with what is left. To look takes less than a hundredth
/// of the time to clear them.
pub const LOOKED_AT: usize = 64 << 20;

/// There is no memory for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes that were asked for.
    pub bytes: usize,
    /// Bytes that were left, if the system says so: none if it refused.
    pub left: Option<usize>,
}

impl OutOfMemory {
    /// Unwinds to the nearest catch, with this as payload and without the message of a panic.
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

/// Bytes of addresses that the process may still take, if a limit says so.
pub fn addresses_left() -> Option<usize> {
    limit::room()
}

/// Gives the memory that is kept for later arrays back to the system; whether that was any.
///
/// So does C's allocator with the free pages between small pieces that are in use.
pub fn release() -> bool {
    let was_kept = pool::empty_pool();
    trim();
    was_kept
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: glibc takes no address here, and locks each of its arenas.
    unsafe { libc::malloc_trim(0) };
}

/// Other libraries of C give pages back by themselves, or cannot be asked.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

/// Sets the most bytes that are kept for later arrays; whether that could be done now.
pub fn keep_at_most(bytes: usize) -> bool {
    pool::set_most(bytes)
}

/// Whether there is memory for a number of bytes now. Small requests are not checked.
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
    // The addresses, as an allocator would take them, and given back at once.
    let try_one = || MmapOptions::new().len(bytes).map_anon().is_ok();
    let is_possible =
        isize::try_from(bytes).is_ok() && (try_one() || (pool::empty_pool() && try_one()));
    if is_possible { Ok(()) } else { Err(OutOfMemory::refused(bytes)) }
}

/// Whether the machine and the control group have a number of bytes left, as far as they tell.
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

/// Bytes of what a thread takes for itself beside its stack: thread-locals, and what waits for
/// others. Where the heap has no addresses left for the thread, each of some twenty small pieces
/// has a page of its own; the rest is for what other threads allocate meanwhile.
const LOCALS: usize = 512 << 10;

/// Whether there is memory for the start of a thread with a stack of a number of bytes. `false` if
/// nothing limits the process: then the system gives out addresses freely.
///
/// A thread takes memory past the [`Allocator`]. Where it finds none for a thread-local, glibc ends
/// the process, so the thread has to be looked for beforehand.
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

/// Raises unless there is memory for a number of bytes: for allocations that another library is
/// about to make.
#[inline]
pub fn demand(bytes: usize) {
    room(bytes).unwrap_or_else(|error| error.raise());
}

/// As [`demand`], for a number of values of a type.
#[inline]
pub fn demand_values<T>(len: usize) {
    demand(bytes_of::<T>(len));
}

/// Whether the reserve is whole, or could be made so.
#[inline]
pub fn ready() -> Result<(), OutOfMemory> {
    if reserve::is_whole() { Ok(()) } else { reserve::renew() }
}

/// Raises unless the reserve is [ready].
///
/// Work that goes on for long calls it now and then: what it has allocated meanwhile may have come
/// from the reserve.
#[inline]
pub fn check() {
    ready().unwrap_or_else(|error| error.raise());
}

/// An empty vector with room for a number of values.
pub fn vec<T>(room: usize) -> Vec<T> {
    let mut vec = Vec::new();
    reserve_exact(&mut vec, room);
    vec
}

/// A vector of a number of equal values.
pub fn filled<T: Clone>(len: usize, value: T) -> Vec<T> {
    // The allocator's zeros are faster than ours, so it is only asked beforehand.
    demand_values::<T>(len);
    vec![value; len]
}

/// The items of an iterator that knows how many there are.
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

/// Makes room for more values, as `Vec::reserve` does.
pub fn reserve<T>(vec: &mut Vec<T>, more: usize) {
    if vec.capacity() - vec.len() < more {
        // Room for twice as many, as long as that is there.
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

/// The bytes of a number of values; if they do not fit in a number, more bytes than can exist.
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
