//! A reserve of addresses for small allocations, which is used after the system has refused memory.

use std::sync::{Mutex, MutexGuard, TryLockError};

use memmap2::{MmapMut, MmapOptions};
use tidegate_sync::Counter;

use super::{OutOfMemory, limit, pool};

/// The number of bytes in the reserve if the process has no limits. The reserve covers the small
/// allocations of all threads between two [checks](super::check). The reserve consists only of
/// addresses. None of its pages is ever written.
pub const RESERVE: usize = 32 << 20;

/// If there is a limit, the size of the reserve is the remaining address space divided by this
/// number. The size also determines the largest request that can be served without a prior check.
const PART: usize = 4;

/// The maximum and minimum sizes of the reserve if there is a limit. It is not worth continuing
/// with a reserve smaller than the minimum.
const MOST: usize = 1 << 30;
const LEAST: usize = 2 << 20;

/// The number of bytes needed to report that memory has run out.
const LAST: usize = 1 << 20;

static ADDRESSES: Mutex<Addresses> = Mutex::new(Addresses { reserve: None, last: None });

struct Addresses {
    reserve: Option<MmapMut>,
    last: Option<MmapMut>,
}

/// 1 while the reserve is complete, and 0 otherwise. The initial value is 0.
static WHOLE: Counter = Counter::new(0);

#[inline]
pub(super) fn is_whole() -> bool {
    WHOLE.get() == 1
}

/// Reallocates as much of the reserve as possible.
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

/// Maps whichever reserve is missing. For the main reserve, tries `sizes` in order and uses the
/// first size that is available. Returns whether both reserves now exist.
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

/// Frees the reserve, so that the next allocation can use its memory. Returns whether there was a
/// reserve.
fn spend() -> bool {
    let Some(mut addresses) = lock() else { return false };
    WHOLE.set(0);
    addresses.reserve.take().is_some()
}

/// Like [`spend`], but frees the last reserve.
fn spend_last() -> bool {
    lock().is_some_and(|mut addresses| addresses.last.take().is_some())
}

/// Locks the reserves. Other threads hold the lock only for a few system calls, so this function
/// waits briefly if necessary. The wait is bounded. After a fork, the lock may be held by a thread
/// that does not exist in the child process.
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

/// The functions that free memory after the system has refused a request, most expensive last. Each
/// function returns whether there was any memory to free.
pub(super) const GIVE_BACK: [fn() -> bool; 3] = [pool::empty_pool, spend, spend_last];
