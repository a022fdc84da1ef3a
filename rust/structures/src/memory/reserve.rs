//! Addresses that are kept for small allocations once the system refuses.

use std::sync::{Mutex, MutexGuard, TryLockError};

use memmap2::{MmapMut, MmapOptions};
use tidegate_sync::Counter;

use super::{OutOfMemory, limit, pool};

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
    let most = limit::room().map_or(RESERVE, |room| (room / PART).clamp(LEAST, MOST));
    let halves = std::iter::successors(Some(most), |size| (size / 2 >= LEAST).then_some(size / 2));
    if take([most]) {
        return Ok(());
    }
    // Emptying the pool itself needs small allocations, which the last reserve can serve.
    pool::empty_pool();
    if take(halves) { Ok(()) } else { Err(OutOfMemory::refused(LEAST)) }
}

/// Maps whichever reserve is missing. The main reserve gets the first of `sizes` that is available.
/// Returns whether both reserves exist afterwards.
fn take(sizes: impl IntoIterator<Item = usize>) -> bool {
    // The lock keeps an allocation that fails in the meantime from using the reserve.
    let Some(mut addresses) = lock() else { return true };
    let map = |size: usize| MmapOptions::new().len(size).no_reserve_swap().map_anon().ok();
    if addresses.last.is_none() {
        addresses.last = map(LAST);
    }
    if addresses.reserve.is_none() {
        addresses.reserve = sizes.into_iter().find_map(map);
    }
    let is_whole = addresses.reserve.is_some() && addresses.last.is_some();
    WHOLE.set(is_whole.into());
    is_whole
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

/// Returns the addresses. Another thread holds them for a few system calls at most, so this waits
/// for a moment. It does not wait forever: after a fork, a thread that the child process lacks may
/// hold them.
fn lock() -> Option<MutexGuard<'static, Addresses>> {
    const TRIES: usize = 1000;
    for _ in 0..TRIES {
        match ADDRESSES.try_lock() {
            Ok(addresses) => return Some(addresses),
            Err(TryLockError::Poisoned(addresses)) => return Some(addresses.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// What gives memory back once the system refuses, the dearest last. Each returns whether there was
/// any.
pub(super) const GIVE_BACK: [fn() -> bool; 3] = [pool::empty_pool, spend, spend_last];
