//! The memory of large arrays: extents of mappings, which are cut to size, joined and reused. The extents use huge pages, or small pages if the system supplies these faster.
//!
//! An array is placed at the start of the smallest free [`Extent`] that is large enough. The rest
//! of the extent stays free. Adjacent free extents are joined. Each part of a call can therefore
//! reuse the memory freed by earlier parts, even for arrays of other sizes. As a result, the first
//! call touches few pages, and no call needs much more memory than it uses at any one time.
//!
//! # Trade-offs
//!
//! The pool keeps up to [`POOL_BYTES`] of free extents whose pages have been written. The pool also
//! keeps up to [`LENT_BYTES`] that the kernel may reclaim as soon as it needs memory. Until the
//! kernel reclaims these bytes, they count as memory of the process. On Linux, the pages of all
//! other free extents are returned to the system immediately. The addresses of a mapping are
//! returned to the system when the whole mapping is free and has no pages. A new mapping has at
//! least [`MAPPED`] bytes of addresses. Most of these addresses may never receive a page.
//!
//! No thread waits long for the pool. An allocator must not wait, and the pool's lock may be held
//! forever in a forked child process. If the pool is busy, a new extent gets its own mapping.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};

#[cfg(target_os = "linux")]
use super::supply::{PageSize, Supply};
use crate::memory::{self, OutOfMemory};

/// The smallest page size that a kernel may use. The kernel reclaims lent memory page by page,
/// except for pages that have been written again.
const PAGE: usize = 4 << 10;

/// The size of a huge page on x86-64, and on aarch64 with 4 KiB base pages.
const HUGE_PAGE: usize = 2 << 20;

/// If an extent is at least this long, both page sizes are tried at two positions.
#[cfg(target_os = "linux")]
const TRIED_TWICE: usize = 16 * HUGE_PAGE;

/// Extents are cut at multiples of this size. Each kernel page, which can be as large as 64 KiB on
/// aarch64, therefore has a single owner.
const CUT: usize = if cfg!(target_arch = "x86_64") { PAGE } else { 64 << 10 };

/// The minimum size of a request. A smaller remainder of an extent would be useless.
pub(super) const LEAST: usize = 64 << 10;

/// The minimum number of addresses in a mapping. In large mappings, the extents of different arrays
/// are adjacent, so free extents can be joined. Mappings are smaller if the process's address space
/// is limited, if the system counts addresses as memory, or if the system does not take pages back.
const MAPPED: usize = if cfg!(target_os = "linux") { 256 << 20 } else { HUGE_PAGE };

/// The maximum number of bytes that the pool keeps. This is enough for the result and the working
/// memory of a join with a million rows per side. The next join of this size then needs no fresh
/// pages.
const POOL_BYTES: usize = 320 << 20;

/// The maximum number of additional bytes that the pool keeps and that the kernel may reclaim. This
/// memory can hold results of several gigabytes, such as those of aggregations with many keys. The
/// next result of this size can be built several times as fast, because the memory is still mapped.
#[cfg(target_os = "linux")]
const LENT_BYTES: usize = 4 << 30;

/// Other systems have no memory that the kernel may reclaim.
#[cfg(not(target_os = "linux"))]
const LENT_BYTES: usize = 0;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

#[cfg(target_os = "linux")]
static SUPPLY: Supply = Supply::new();

/// Locks the pool, unless the pool stays locked for too long. The thread that holds the lock may be
/// interrupted, or may not exist because the process was forked.
fn lock_pool() -> Option<MutexGuard<'static, Pool>> {
    for tries in 0..200 {
        match POOL.try_lock() {
            Ok(pool) => return Some(pool),
            Err(TryLockError::WouldBlock) if tries < 100 => std::hint::spin_loop(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            Err(TryLockError::Poisoned(_)) => return None,
        }
    }
    None
}

/// Adds an extent to the pool. Unneeded memory is returned to the system after the pool has been
/// unlocked.
fn insert(extent: Extent) {
    let unused = match lock_pool() {
        Some(mut pool) => pool.insert(extent),
        None => Some(extent),
    };
    drop(unused);
}

/// Frees the memory that the pool keeps. Returns whether there was any memory to free.
pub(super) fn empty_pool() -> bool {
    // An allocator that waits for memory may wait for the pool, so nothing is freed while the pool
    // is locked.
    let Some(Pool { mut free, by_len, bytes, .. }) = lock_pool().map(take_all) else {
        return false;
    };
    // Inserting needs memory, so the memory of the lists and of whole mappings is freed first.
    drop(by_len);
    free.retain(|_, extent| extent.clear());
    free.into_values().for_each(insert);
    bytes[State::Used as usize] + bytes[State::Lent as usize] > 0
}

fn take_all(mut pool: MutexGuard<'_, Pool>) -> Pool {
    let emptied = pool.emptied();
    std::mem::replace(&mut *pool, emptied)
}

/// Limits the memory that the pool keeps to `bytes` bytes. The part beyond [`POOL_BYTES`] is lent
/// to the kernel. Memory that the pool already keeps is not affected until it is used. Returns
/// whether the pool could be locked.
pub(super) fn set_most(bytes: usize) -> bool {
    let Some(mut pool) = lock_pool() else { return false };
    let used = bytes.min(POOL_BYTES);
    pool.most = [used, (bytes - used).min(LENT_BYTES)];
    true
}

/// Returns whether the pool has a free extent that is at least `bytes` bytes long and still has its
/// pages.
pub(super) fn has(bytes: usize) -> bool {
    // A vector needs additional memory for a header.
    let bytes = bytes.saturating_add(PAGE);
    lock_pool().is_some_and(|pool| pool.fit(State::Used, bytes).is_some())
}

/// The state of an extent's pages. The pool prefers to hand out extents in the states that are
/// listed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// The pages have been written and belong to the process.
    Used,
    /// The pages have been written, and the kernel may reclaim them.
    Lent,
    /// There are no pages, except possibly part of a huge page.
    Fresh,
}

/// A section of a mapping that has one owner.
pub(super) struct Extent {
    mapping: Arc<MmapRaw>,
    /// The extent's offset in the mapping. The extent starts at a page boundary.
    start: usize,
    /// The length in bytes, a multiple of the page size.
    len: usize,
    state: State,
}

impl Extent {
    /// Returns an extent of at least `bytes` bytes that no other code uses. Its contents are
    /// arbitrary. If `looks` is set, also checks how much memory the machine has left.
    pub(super) fn take(bytes: usize, looks: bool) -> Result<Extent, OutOfMemory> {
        let len = bytes.checked_next_multiple_of(CUT).ok_or(OutOfMemory { bytes, left: None })?;
        let found = lock_pool().map(|mut pool| pool.take(len));
        if let Some(Some(extent)) = found {
            return extent.taken_back(looks);
        }
        if looks {
            memory::is_left(len)?;
        }
        if found.is_none() {
            return Extent::map(len, 0).ok_or(OutOfMemory { bytes: len, left: None });
        }
        let mut extent = Extent::new(len)?;
        if let Some(rest) = extent.split_off(len) {
            insert(rest);
        }
        extent.choose_pages();
        Ok(extent)
    }

    /// Creates an extent in a new mapping. The extent begins at the boundary of a huge page if
    /// there is room for this.
    fn new(len: usize) -> Result<Extent, OutOfMemory> {
        // If addresses are limited, the mapping contains only this extent.
        let is_limited = memory::addresses_left().is_some();
        let most = if is_limited { len } else { len.max(MAPPED) };
        let room = if is_limited && len < HUGE_PAGE { 0 } else { HUGE_PAGE };
        let one = || Extent::map(most, room).or_else(|| Extent::map(len, 0));
        let refused = OutOfMemory { bytes: len, left: None };
        one().or_else(|| empty_pool().then(one).flatten()).ok_or(refused)
    }

    /// Creates a new mapping and returns the whole mapping as one extent. If there is room, the
    /// extent begins at the boundary of a huge page.
    fn map(len: usize, room: usize) -> Option<Extent> {
        let memory = MmapRaw::from(MmapOptions::new().len(len.checked_add(room)?).map_anon().ok()?);
        let mut start = 0;
        if room >= HUGE_PAGE {
            start = memory.as_ptr().align_offset(HUGE_PAGE);
        }
        Some(Extent { mapping: Arc::new(memory), start, len, state: State::Fresh })
    }

    /// Returns the extent to the pool, or to the system if the pool has enough.
    pub(super) fn give_back(mut self) {
        self.state = State::Used;
        let room = match lock_pool() {
            Some(mut pool) => match pool.room(self.len) {
                State::Used => {
                    let unused = pool.insert(self);
                    debug_assert!(unused.is_none(), "the extent has pages");
                    return;
                }
                room => room,
            },
            None => State::Fresh,
        };
        // The kernel needs some time for this. In the meantime, other threads may use the pool.
        if (room == State::Lent && self.lend()) || self.clear() {
            insert(self);
        }
    }

    /// Returns a free extent of at least `bytes` bytes, if the pool has one.
    pub(super) fn free(bytes: usize) -> Option<Extent> {
        let len = bytes.checked_next_multiple_of(CUT)?;
        lock_pool().and_then(|mut pool| pool.take(len))?.taken_back(false).ok()
    }

    /// Returns the address of the first byte, which is page-aligned.
    pub(super) fn start(&mut self) -> *mut u8 {
        self.bytes_mut().as_mut_ptr()
    }

    /// Grows or shrinks the extent to at least `bytes` bytes, but not much more. The extent can
    /// only grow if the addresses after it are free.
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        let Some(len) = bytes.checked_next_multiple_of(CUT) else { return false };
        if self.len >= len {
            if let Some(rest) = self.split_off(len) {
                rest.give_back();
            }
            return true;
        }
        let more = len - self.len;
        let next = lock_pool().and_then(|mut pool| pool.take_behind(self, more));
        let Some(Ok(next)) = next.map(|next| next.taken_back(false)) else { return false };
        self.len += next.len;
        self.state = State::Used;
        true
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the extent still has its pages.
    pub(super) fn is_used(&self) -> bool {
        self.state == State::Used
    }

    /// Returns whether none of the extent's pages has been written.
    pub(super) fn is_zero(&self) -> bool {
        self.state == State::Fresh
    }

    pub(super) fn bytes(&self) -> &[u8] {
        debug_assert!(self.state != State::Lent, "lent memory may change");
        // SAFETY: the extent lies within its mapping, which it keeps alive. Only this extent has
        // these addresses, because all extents of a mapping are created by cutting its first one. A
        // mapping without a file contains zeros until it is written, and the kernel takes no pages
        // that are not lent.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().add(self.start), self.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        debug_assert!(self.state != State::Lent, "lent memory may change");
        // SAFETY: as in `bytes`, and the extent is borrowed mutably.
        unsafe {
            std::slice::from_raw_parts_mut(self.mapping.as_mut_ptr().add(self.start), self.len)
        }
    }

    /// Returns the first address.
    fn address(&self) -> usize {
        self.mapping.as_ptr().addr() + self.start
    }

    /// Shortens the extent to `len` bytes. Returns the rest of the extent if it is large enough to
    /// be used.
    fn split_off(&mut self, len: usize) -> Option<Extent> {
        let rest = self.len.checked_sub(len).filter(|&rest| rest >= LEAST)?;
        self.len = len;
        let start = self.start + len;
        Some(Extent { mapping: self.mapping.clone(), start, len: rest, state: self.state })
    }

    /// Returns whether `next` begins at the end of this extent and can be joined with it.
    fn goes_on_in(&self, next: &Extent) -> bool {
        Arc::ptr_eq(&self.mapping, &next.mapping)
            && self.start + self.len == next.start
            && self.state == next.state
    }

    /// Releases the pages but keeps the addresses. If this is the last extent in its mapping,
    /// releases nothing and returns `false`.
    fn clear(&mut self) -> bool {
        if self.state == State::Fresh || Arc::strong_count(&self.mapping) == 1 {
            return Arc::strong_count(&self.mapping) > 1;
        }
        self.state = State::Fresh;
        self.advise(ReleaseTime::Now)
    }

    /// If possible, lets the kernel reclaim the pages until they are written again. Until
    /// [`taken_back`](Self::taken_back), the contents may change at any time and must not be read.
    fn lend(&mut self) -> bool {
        let lent = self.advise(ReleaseTime::Later);
        if lent {
            self.state = State::Lent;
        }
        lent
    }

    /// Returns whether the kernel accepted the advice to reclaim the pages immediately or later.
    #[cfg(target_os = "linux")]
    fn advise(&mut self, freed: ReleaseTime) -> bool {
        let advice = match freed {
            ReleaseTime::Now => memmap2::UncheckedAdvice::DontNeed,
            ReleaseTime::Later => memmap2::UncheckedAdvice::Free,
        };
        // SAFETY: only this extent has these addresses, and it is borrowed mutably, so no code
        // relies on the contents. Lent pages are not read until they are taken back.
        unsafe { self.mapping.unchecked_advise_range(advice, self.start, self.len) }.is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn advise(&mut self, _: ReleaseTime) -> bool {
        false
    }

    /// Chooses the page size for an extent that has no pages, if there is room for huge pages.
    #[cfg(target_os = "linux")]
    fn choose_pages(&mut self) {
        if self.len < HUGE_PAGE {
            return;
        }
        let tried = self.address().next_multiple_of(HUGE_PAGE) - self.address();
        let has_room = tried + 2 * HUGE_PAGE <= self.len;
        // A huge page may be available for one part of a large extent but not for another.
        let middle = tried + (self.len / 2).next_multiple_of(HUGE_PAGE);
        let second = Some(middle).filter(|_| self.len >= TRIED_TWICE);
        let pages = match SUPPLY.known(self.len) {
            Some(pages) => pages,
            None if has_room => {
                let (mut huge, mut small) = (Duration::ZERO, Duration::ZERO);
                for at in [Some(tried), second].into_iter().flatten() {
                    huge += self.fetch(PageSize::Huge, at);
                    small += self.fetch(PageSize::Small, at + HUGE_PAGE);
                }
                SUPPLY.note(huge, small)
            }
            None => SUPPLY.last(),
        };
        self.ask_for(pages, 0, self.len);
    }

    #[cfg(not(target_os = "linux"))]
    fn choose_pages(&mut self) {}

    /// Requests pages of the given size. If the kernel ignores the advice, only speed is affected,
    /// not correctness.
    #[cfg(target_os = "linux")]
    fn ask_for(&mut self, pages: PageSize, at: usize, len: usize) {
        let advice = match pages {
            PageSize::Huge => memmap2::Advice::HugePage,
            PageSize::Small => memmap2::Advice::NoHugePage,
        };
        let _ = self.mapping.advise_range(advice, self.start + at, len);
    }

    /// Makes the kernel supply one huge page's worth of memory, starting at `at`, in pages of the
    /// given size. The bytes are zeros. Returns how long this took.
    #[cfg(target_os = "linux")]
    fn fetch(&mut self, pages: PageSize, at: usize) -> Duration {
        self.ask_for(pages, at, HUGE_PAGE);
        let begin = Instant::now();
        let bytes = &mut self.bytes_mut()[at..at + HUGE_PAGE];
        bytes.iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        begin.elapsed()
    }

    /// Takes a lent extent back from the kernel. Taking an extent back requires enough memory,
    /// because the kernel may have reclaimed the whole extent. Once a page has been written to, the
    /// kernel no longer reclaims it. The page that was written may be the old page or a new page of
    /// zeros. Each page must be written to, so no other thread should have to wait for this work.
    fn taken_back(mut self, looks: bool) -> Result<Extent, OutOfMemory> {
        if self.state == State::Lent {
            if looks && let Err(error) = memory::is_left(self.len) {
                insert(self);
                return Err(error);
            }
            self.state = State::Used;
            self.bytes_mut().iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        }
        if self.state == State::Fresh {
            self.choose_pages();
        }
        Ok(self)
    }
}

/// The time at which the kernel reclaims the pages.
#[derive(Clone, Copy, Debug)]
enum ReleaseTime {
    Now,
    Later,
}

/// Free extents.
struct Pool {
    /// The extents, by address.
    free: BTreeMap<usize, Extent>,
    /// The extents, in the order in which the pool hands them out: by state, length and address.
    by_len: BTreeSet<(State, usize, usize)>,
    /// The total size, in bytes, of the extents in each state.
    bytes: [usize; 3],
    /// The maximum numbers of used and lent bytes.
    most: [usize; 2],
}

impl Pool {
    const fn new() -> Self {
        let most = [POOL_BYTES, LENT_BYTES];
        Pool { free: BTreeMap::new(), by_len: BTreeSet::new(), bytes: [0; 3], most }
    }

    /// Returns an empty pool with the same limits.
    fn emptied(&self) -> Self {
        Pool { most: self.most, ..Pool::new() }
    }

    /// Returns the address of the smallest free extent in the given state that has at least `len`
    /// bytes.
    fn fit(&self, state: State, len: usize) -> Option<usize> {
        let fits = (state, len, 0)..=(state, usize::MAX, usize::MAX);
        self.by_len.range(fits).next().map(|&(_, _, address)| address)
    }

    /// Takes the first `len` bytes of a free extent. Prefers the smallest used extent that is long
    /// enough, then a lent one, and then a fresh one.
    fn take(&mut self, len: usize) -> Option<Extent> {
        let states = [State::Used, State::Lent, State::Fresh];
        let address = states.into_iter().find_map(|state| self.fit(state, len))?;
        Some(self.take_start(address, len))
    }

    /// Takes the first `len` bytes of the free extent at an address.
    fn take_start(&mut self, address: usize, len: usize) -> Extent {
        let mut extent = self.remove(address);
        let unused = extent.split_off(len).and_then(|rest| self.insert(rest));
        debug_assert!(unused.is_none(), "the start is in use");
        extent
    }

    /// Takes the first `len` bytes after an extent, if they are free.
    fn take_behind(&mut self, extent: &Extent, len: usize) -> Option<Extent> {
        let address = extent.address() + extent.len;
        let is_behind = |next: &&Extent| Arc::ptr_eq(&extent.mapping, &next.mapping);
        self.free.get(&address).filter(is_behind).filter(|next| next.len >= len)?;
        Some(self.take_start(address, len))
    }

    /// Returns the state in which the pool can keep a used extent of `len` bytes.
    fn room(&self, len: usize) -> State {
        let fits = |state| self.bytes[state as usize] + len <= self.most[state as usize];
        match [State::Used, State::Lent].into_iter().find(|&state| fits(state)) {
            Some(state) => state,
            None => State::Fresh,
        }
    }

    /// Adds an extent and joins it with its free neighbours. If the joined extent is a whole
    /// mapping without pages, it is returned instead.
    #[must_use]
    fn insert(&mut self, mut extent: Extent) -> Option<Extent> {
        let before = self.free.range(..extent.address()).next_back();
        if let Some((&address, _)) = before.filter(|(_, before)| before.goes_on_in(&extent)) {
            let mut before = self.remove(address);
            before.len += extent.len;
            extent = before;
        }
        let after = self.free.get(&(extent.address() + extent.len));
        if let Some(address) = after.filter(|after| extent.goes_on_in(after)).map(Extent::address) {
            extent.len += self.remove(address).len;
        }
        if extent.state == State::Fresh && Arc::strong_count(&extent.mapping) == 1 {
            return Some(extent);
        }
        self.bytes[extent.state as usize] += extent.len;
        self.by_len.insert((extent.state, extent.len, extent.address()));
        self.free.insert(extent.address(), extent);
        None
    }

    fn remove(&mut self, address: usize) -> Extent {
        let extent = self.free.remove(&address).expect("a free extent begins here");
        self.by_len.remove(&(extent.state, extent.len, address));
        self.bytes[extent.state as usize] -= extent.len;
        extent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each length, creates a mapping and splits it into two extents. The second extent has
    /// that length and is marked as used.
    fn mapped(lens: &[usize]) -> Vec<(Extent, Extent)> {
        let map = |&len: &usize| {
            let mut extent = Extent::map(LEAST + len, HUGE_PAGE).unwrap();
            let mut rest = extent.split_off(LEAST).unwrap();
            rest.state = State::Used;
            (extent, rest)
        };
        lens.iter().map(map).collect()
    }

    fn keep(pool: &mut Pool, extent: Extent) {
        assert!(pool.insert(extent).is_none());
        check(pool);
    }

    /// Checks that the free extents are counted and ordered correctly, do not overlap, and have
    /// been joined with their neighbours.
    fn check(pool: &Pool) {
        let mut bytes = [0; 3];
        for (&address, extent) in &pool.free {
            assert_eq!(address, extent.address());
            assert!(pool.by_len.contains(&(extent.state, extent.len, address)));
            bytes[extent.state as usize] += extent.len;
        }
        assert_eq!((pool.bytes, pool.by_len.len()), (bytes, pool.free.len()));
        for (one, next) in pool.free.values().zip(pool.free.values().skip(1)) {
            assert!(one.address() + one.len <= next.address() && !one.goes_on_in(next));
        }
    }

    #[test]
    fn the_best_fit_is_cut_and_joined_again() {
        let mut pool = Pool::new();
        let (_in_use, free): (Vec<_>, Vec<_>) =
            mapped(&[4 * HUGE_PAGE, HUGE_PAGE, 2 * HUGE_PAGE]).into_iter().unzip();
        free.into_iter().for_each(|extent| keep(&mut pool, extent));
        let two = pool.take(2 * HUGE_PAGE).unwrap();
        assert!(two.is_used() && pool.bytes[0] == 5 * HUGE_PAGE);
        let three = pool.take(3 * HUGE_PAGE).unwrap();
        assert!(pool.take(2 * HUGE_PAGE).is_none());
        let small: Vec<_> = (0..3).map(|_| pool.take(LEAST).unwrap()).collect();
        check(&pool);
        small.into_iter().chain([three, two]).for_each(|extent| keep(&mut pool, extent));
        assert_eq!((pool.free.len(), pool.bytes[0]), (3, 7 * HUGE_PAGE));
        // A remainder that is too small for any request stays with the extent.
        let rest = if CUT < LEAST { 0 } else { CUT };
        assert_eq!(pool.take(2 * HUGE_PAGE - CUT).unwrap().len, 2 * HUGE_PAGE - rest);
    }

    #[test]
    fn extents_grow_into_what_is_free_behind_them() {
        let mut extent = Extent::map(4 * LEAST, HUGE_PAGE).unwrap();
        let rest = extent.split_off(LEAST).unwrap();
        let mut pool = Pool::new();
        keep(&mut pool, Extent { state: State::Used, ..rest });
        assert!(pool.take_behind(&extent, 4 * LEAST).is_none());
        let (_in_use, other) = mapped(&[LEAST]).remove(0);
        assert!(pool.take_behind(&other, LEAST).is_none(), "the extents are in different mappings");
        let next = pool.take_behind(&extent, LEAST).unwrap();
        assert_eq!((next.start, next.len, pool.bytes[0]), (extent.start + LEAST, LEAST, 2 * LEAST));
    }

    #[test]
    fn the_pool_is_bounded() {
        let mut pool = Pool::new();
        assert_eq!(pool.room(POOL_BYTES), State::Used);
        assert_eq!(
            pool.room(POOL_BYTES + 1),
            if LENT_BYTES > 0 { State::Lent } else { State::Fresh }
        );
        pool.bytes = [POOL_BYTES - 1, LENT_BYTES, 0];
        assert_eq!((pool.room(1), pool.room(2)), (State::Used, State::Fresh));
        let none = Pool { most: [0, 0], ..Pool::new() }.emptied();
        assert_eq!(none.room(1), State::Fresh);
    }

    #[test]
    fn a_mapping_goes_when_none_of_it_is_in_use() {
        let mut pool = Pool::new();
        let mut whole = Extent::map(HUGE_PAGE, HUGE_PAGE).unwrap();
        let mapping = Arc::downgrade(&whole.mapping);
        let mut parts = Vec::new();
        for _ in 0..4 {
            let rest = whole.split_off(LEAST).unwrap();
            parts.push(std::mem::replace(&mut whole, rest));
        }
        parts.push(whole);
        parts.swap(0, 3);
        for (left, part) in (0..parts.len()).rev().zip(parts) {
            assert!(mapping.strong_count() > 0);
            let mut cleared = Extent { state: State::Used, ..part };
            let is_left = cleared.clear();
            let unused = is_left.then_some(cleared).and_then(|extent| pool.insert(extent));
            assert!(unused.is_none() || left == 0);
            drop(unused);
            check(&pool);
            assert_eq!(mapping.strong_count() > 0, left > 0);
        }
        assert!(pool.free.is_empty());
    }

    #[test]
    fn an_extent_whose_pages_were_tried_is_zeros() {
        let mut extent = Extent::map(20 * HUGE_PAGE, HUGE_PAGE).unwrap();
        for _ in 0..2 {
            extent.choose_pages();
            assert!(extent.is_zero() && extent.bytes().iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_was_lent_can_be_written_again() {
        let (_in_use, mut extent) = mapped(&[2 * HUGE_PAGE]).remove(0);
        for turn in 1..4 {
            extent.bytes_mut().fill(turn);
            assert!(extent.bytes().iter().all(|byte| *byte == turn));
            let mut pool = Pool::new();
            assert!(extent.lend());
            keep(&mut pool, extent);
            assert_eq!(pool.bytes[State::Lent as usize], 2 * HUGE_PAGE);
            extent = pool.take(2 * HUGE_PAGE).expect("the pool kept it").taken_back(true).unwrap();
            // The kernel may have reclaimed any of the pages.
            assert!(extent.bytes().iter().all(|byte| [0, turn].contains(byte)));
            assert!(extent.bytes().iter().step_by(PAGE).all(|byte| *byte == 0));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_was_cleared_is_zeros() {
        let (_in_use, mut extent) = mapped(&[HUGE_PAGE]).remove(0);
        extent.bytes_mut().fill(7);
        assert!(extent.clear(), "the mapping is in use");
        assert!(extent.state == State::Fresh && extent.bytes().iter().all(|byte| *byte == 0));
    }
}
