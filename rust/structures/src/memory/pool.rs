//! The memory behind large arrays: extents of mappings, which are cut to size, joined again and used
//! again. Their pages are huge, or small where small ones come faster.
//!
//! An array takes the smallest free [`Extent`] that is large enough, and leaves the rest of it. A
//! free extent joins its neighbours. So what one part of a call gives back is what the next part
//! takes, of whatever size: a first call touches few pages, and the memory of a call stays close to
//! what it uses at one time.
//!
//! # Trade-offs
//!
//! Of free extents that were used, the pool keeps up to [`POOL_BYTES`]. Beyond these, it keeps up to
//! [`LENT_BYTES`] that are the kernel's to take as soon as anybody needs memory; until then they
//! count as the process's. On Linux, the pages of all others go back at once. A mapping's addresses
//! go back when all of it is free and has no pages. A new mapping has at least [`MAPPED`] bytes of
//! them, most of which may never get a page.
//!
//! Nobody waits for the pool for long: an allocator may not, and in a forked child its lock may be
//! held for ever. Where it is busy, an extent has a mapping of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};

#[cfg(target_os = "linux")]
use super::supply::{PageSize, Supply};
use crate::memory::{self, OutOfMemory};

/// The smallest page that a kernel has: what it takes, and what it leaves once it was written to.
const PAGE: usize = 4 << 10;

/// A huge page of x86-64, and of aarch64 with 4 KiB base pages.
const HUGE_PAGE: usize = 2 << 20;

/// Extents from this length on have both sizes of pages tried in two places.
#[cfg(target_os = "linux")]
const TRIED_TWICE: usize = 16 * HUGE_PAGE;

/// Extents are cut at multiples of this: pages of the kernel, which have up to 64 KiB on aarch64,
/// have one owner each.
const CUT: usize = if cfg!(target_arch = "x86_64") { PAGE } else { 64 << 10 };

/// No request is smaller, so that a rest which is would be of no use.
pub(super) const LEAST: usize = 64 << 10;

/// The addresses of a mapping, at least, so that the extents of arrays lie side by side, and join
/// when they are free. A process whose addresses are limited has smaller ones, and so has one whose
/// system counts addresses as memory, or takes no pages back.
const MAPPED: usize = if cfg!(target_os = "linux") { 256 << 20 } else { HUGE_PAGE };

/// What the pool keeps at most: the result of a join of a million rows a side and what the join
/// took beside, so that the next such join finds no fresh page.
const POOL_BYTES: usize = 320 << 20;

/// What the pool keeps beyond that, but for the kernel to take: a result of gigabytes, such as that
/// of an aggregation of many keys, of which the next one is made several times as fast in memory
/// that is still mapped.
#[cfg(target_os = "linux")]
const LENT_BYTES: usize = 4 << 30;

/// Elsewhere, there is no such memory.
#[cfg(not(target_os = "linux"))]
const LENT_BYTES: usize = 0;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

#[cfg(target_os = "linux")]
static SUPPLY: Supply = Supply::new();

/// The pool, unless it is in use for long: by a thread that was interrupted, or that existed before
/// the process forked.
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

/// Adds an extent to the pool. What is not used any more goes to the system once the pool is free.
fn insert(extent: Extent) {
    let unused = match lock_pool() {
        Some(mut pool) => pool.insert(extent),
        None => Some(extent),
    };
    drop(unused);
}

/// Gives what the pool keeps back to the system; whether that was anything.
pub(super) fn empty_pool() -> bool {
    // An allocator that waits for memory may wait for the pool: nothing is freed while it is locked.
    let Some(Pool { mut free, by_len, bytes, .. }) = lock_pool().map(take_all) else {
        return false;
    };
    // Inserting takes memory, so the memory of the lists and of whole mappings is freed first.
    drop(by_len);
    free.retain(|_, extent| extent.clear());
    free.into_values().for_each(insert);
    bytes[State::Used as usize] + bytes[State::Lent as usize] > 0
}

fn take_all(mut pool: MutexGuard<'_, Pool>) -> Pool {
    let emptied = pool.emptied();
    std::mem::replace(&mut *pool, emptied)
}

/// From now on the pool keeps at most `bytes`, of which it lends those beyond [`POOL_BYTES`]. What it
/// has already stays until it is used. Returns whether the pool was free to be told.
pub(super) fn set_most(bytes: usize) -> bool {
    let Some(mut pool) = lock_pool() else { return false };
    let used = bytes.min(POOL_BYTES);
    pool.most = [used, (bytes - used).min(LENT_BYTES)];
    true
}

/// Whether a free extent of at least `bytes` has its pages.
pub(super) fn has(bytes: usize) -> bool {
    // A vector takes a header more.
    let bytes = bytes.saturating_add(PAGE);
    lock_pool().is_some_and(|pool| pool.fit(State::Used, bytes).is_some())
}

/// What is known of the pages of an extent. The pool gives out the first of these before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// They were written to, and are the process's.
    Used,
    /// They were written to, and the kernel may take them.
    Lent,
    /// There are none, but for a part of a huge page.
    Fresh,
}

/// A stretch of a mapping that has one owner.
pub(super) struct Extent {
    mapping: Arc<MmapRaw>,
    /// Where it begins in the mapping, at a page's start.
    start: usize,
    /// Its bytes, in whole pages.
    len: usize,
    state: State,
}

impl Extent {
    /// An extent of at least `bytes` that nobody else has. Its contents are arbitrary. If it
    /// `looks`, what the machine has left decides, too.
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

    /// An extent of a new mapping, from a huge page's start if there is room for that.
    fn new(len: usize) -> Result<Extent, OutOfMemory> {
        // Where addresses are limited, an extent has just its own.
        let is_limited = memory::addresses_left().is_some();
        let most = if is_limited { len } else { len.max(MAPPED) };
        let room = if is_limited && len < HUGE_PAGE { 0 } else { HUGE_PAGE };
        let one = || Extent::map(most, room).or_else(|| Extent::map(len, 0));
        let refused = OutOfMemory { bytes: len, left: None };
        one().or_else(|| empty_pool().then(one).flatten()).ok_or(refused)
    }

    /// The whole of a new mapping. With room for it, it begins at a huge page's start.
    fn map(len: usize, room: usize) -> Option<Extent> {
        let memory = MmapRaw::from(MmapOptions::new().len(len.checked_add(room)?).map_anon().ok()?);
        let mut start = 0;
        if room >= HUGE_PAGE {
            start = memory.as_ptr().align_offset(HUGE_PAGE);
        }
        Some(Extent { mapping: Arc::new(memory), start, len, state: State::Fresh })
    }

    /// Gives the extent to the pool, or to the system where the pool has enough.
    pub(super) fn give_back(mut self) {
        self.state = State::Used;
        let room = match lock_pool() {
            Some(mut pool) => match pool.room(self.len) {
                State::Used => {
                    let unused = pool.insert(self);
                    debug_assert!(unused.is_none(), "it has pages");
                    return;
                }
                room => room,
            },
            None => State::Fresh,
        };
        // The kernel takes its time, in which others may use the pool.
        if (room == State::Lent && self.lend()) || self.clear() {
            insert(self);
        }
    }

    /// A free extent of at least `bytes`, if the pool has one.
    pub(super) fn free(bytes: usize) -> Option<Extent> {
        let len = bytes.checked_next_multiple_of(CUT)?;
        lock_pool().and_then(|mut pool| pool.take(len))?.taken_back(false).ok()
    }

    /// Where its bytes begin, at a page's start.
    pub(super) fn start(&mut self) -> *mut u8 {
        self.bytes_mut().as_mut_ptr()
    }

    /// Makes the extent so long that it has at least `bytes`, and not much more, if the addresses
    /// behind it are free.
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

    /// Whether its pages are there.
    pub(super) fn is_used(&self) -> bool {
        self.state == State::Used
    }

    /// Whether no page of it was written to.
    pub(super) fn is_zero(&self) -> bool {
        self.state == State::Fresh
    }

    pub(super) fn bytes(&self) -> &[u8] {
        debug_assert!(self.state != State::Lent, "what is lent may change");
        // SAFETY: the extent lies within its mapping, which it keeps alive, and of which it alone
        // has these addresses: extents of a mapping come from its only one by cutting. A mapping
        // without a file is zeros until it is written to, and nobody takes pages that are not lent.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().add(self.start), self.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        debug_assert!(self.state != State::Lent, "what is lent may change");
        // SAFETY: as in `bytes`, and the extent is borrowed for good.
        unsafe {
            std::slice::from_raw_parts_mut(self.mapping.as_mut_ptr().add(self.start), self.len)
        }
    }

    /// Its first address.
    fn address(&self) -> usize {
        self.mapping.as_ptr().addr() + self.start
    }

    /// Cuts the extent to a length, and returns the rest of it, if that is of any use.
    fn split_off(&mut self, len: usize) -> Option<Extent> {
        let rest = self.len.checked_sub(len).filter(|&rest| rest >= LEAST)?;
        self.len = len;
        let start = self.start + len;
        Some(Extent { mapping: self.mapping.clone(), start, len: rest, state: self.state })
    }

    /// Whether another extent begins where this one ends, and can be a part of it.
    fn goes_on_in(&self, next: &Extent) -> bool {
        Arc::ptr_eq(&self.mapping, &next.mapping)
            && self.start + self.len == next.start
            && self.state == next.state
    }

    /// Releases the pages but keeps the addresses, unless the extent is the last one in its
    /// mapping. Returns whether the addresses were kept and the pages released.
    fn clear(&mut self) -> bool {
        if self.state == State::Fresh || Arc::strong_count(&self.mapping) == 1 {
            return Arc::strong_count(&self.mapping) > 1;
        }
        self.state = State::Fresh;
        self.advise(ReleaseTime::Now)
    }

    /// Lets the kernel take the pages until they are written to again, if it can. Until
    /// [`taken_back`](Self::taken_back), the contents may change at any time, and nothing may look
    /// at them.
    fn lend(&mut self) -> bool {
        let lent = self.advise(ReleaseTime::Later);
        if lent {
            self.state = State::Lent;
        }
        lent
    }

    /// Whether the kernel has taken the pages, or will.
    #[cfg(target_os = "linux")]
    fn advise(&mut self, freed: ReleaseTime) -> bool {
        let advice = match freed {
            ReleaseTime::Now => memmap2::UncheckedAdvice::DontNeed,
            ReleaseTime::Later => memmap2::UncheckedAdvice::Free,
        };
        // SAFETY: the extent has these addresses for itself, and is borrowed for good: nobody
        // counts on the contents. Those of lent pages are not read until they are taken back.
        unsafe { self.mapping.unchecked_advise_range(advice, self.start, self.len) }.is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn advise(&mut self, _: ReleaseTime) -> bool {
        false
    }

    /// Chooses the pages of an extent that has none yet, where there is room for huge ones.
    #[cfg(target_os = "linux")]
    fn choose_pages(&mut self) {
        if self.len < HUGE_PAGE {
            return;
        }
        let tried = self.address().next_multiple_of(HUGE_PAGE) - self.address();
        let has_room = tried + 2 * HUGE_PAGE <= self.len;
        // One place of a large extent may have a page at hand, where others have none.
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

    /// Asks for pages of a size. Advice that the kernel does not take costs speed, not correctness.
    #[cfg(target_os = "linux")]
    fn ask_for(&mut self, pages: PageSize, at: usize, len: usize) {
        let advice = match pages {
            PageSize::Huge => memmap2::Advice::HugePage,
            PageSize::Small => memmap2::Advice::NoHugePage,
        };
        let _ = self.mapping.advise_range(advice, self.start + at, len);
    }

    /// Lets the kernel supply the bytes of a huge page from `at` on, in pages of a size, and leaves
    /// zeros there; how long it took.
    #[cfg(target_os = "linux")]
    fn fetch(&mut self, pages: PageSize, at: usize) -> Duration {
        self.ask_for(pages, at, HUGE_PAGE);
        let begin = Instant::now();
        let bytes = &mut self.bytes_mut()[at..at + HUGE_PAGE];
        bytes.iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        begin.elapsed()
    }

    /// Ends the loan of an extent that the pool had lent, if there is memory for it: the kernel may
    /// have taken all of it. It leaves a page that was written to since, be it the old one or a new
    /// one of zeros. It takes a write for each page, so nobody should wait for it.
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

/// When the kernel takes pages.
#[derive(Clone, Copy, Debug)]
enum ReleaseTime {
    Now,
    Later,
}

/// Free extents.
struct Pool {
    /// By their addresses.
    free: BTreeMap<usize, Extent>,
    /// By what the pool gives out first: their states, lengths and addresses.
    by_len: BTreeSet<(State, usize, usize)>,
    /// The bytes of the extents of each state.
    bytes: [usize; 3],
    /// The most bytes that are used, and that are lent.
    most: [usize; 2],
}

impl Pool {
    const fn new() -> Self {
        let most = [POOL_BYTES, LENT_BYTES];
        Pool { free: BTreeMap::new(), by_len: BTreeSet::new(), bytes: [0; 3], most }
    }

    /// An empty pool of the same size.
    fn emptied(&self) -> Self {
        Pool { most: self.most, ..Pool::new() }
    }

    /// The address of the smallest free extent of a state that has at least `len` bytes.
    fn fit(&self, state: State, len: usize) -> Option<usize> {
        let fits = (state, len, 0)..=(state, usize::MAX, usize::MAX);
        self.by_len.range(fits).next().map(|&(_, _, address)| address)
    }

    /// The start of a free extent of at least `len` bytes: of the smallest that was used, or else of
    /// one that is lent or new.
    fn take(&mut self, len: usize) -> Option<Extent> {
        let states = [State::Used, State::Lent, State::Fresh];
        let address = states.into_iter().find_map(|state| self.fit(state, len))?;
        Some(self.take_start(address, len))
    }

    /// The start of a free extent.
    fn take_start(&mut self, address: usize, len: usize) -> Extent {
        let mut extent = self.remove(address);
        let unused = extent.split_off(len).and_then(|rest| self.insert(rest));
        debug_assert!(unused.is_none(), "the start is in use");
        extent
    }

    /// The first `len` bytes behind an extent, if they are free.
    fn take_behind(&mut self, extent: &Extent, len: usize) -> Option<Extent> {
        let address = extent.address() + extent.len;
        let is_behind = |next: &&Extent| Arc::ptr_eq(&extent.mapping, &next.mapping);
        self.free.get(&address).filter(is_behind).filter(|next| next.len >= len)?;
        Some(self.take_start(address, len))
    }

    /// As what the pool has room for an extent that was used.
    fn room(&self, len: usize) -> State {
        let fits = |state| self.bytes[state as usize] + len <= self.most[state as usize];
        match [State::Used, State::Lent].into_iter().find(|&state| fits(state)) {
            Some(state) => state,
            None => State::Fresh,
        }
    }

    /// Adds an extent, joined with its neighbours. Returns it where that is all of a mapping and has
    /// no pages.
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

    /// Mappings, each of which has an extent of a length that was used, and another one in use.
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

    /// That the free extents are counted, ordered, apart and joined.
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
        // A rest that nobody could ask for stays with the extent.
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
        assert!(pool.take_behind(&other, LEAST).is_none(), "that is another mapping");
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
            extent = pool.take(2 * HUGE_PAGE).expect("it was kept").taken_back(true).unwrap();
            // As if the kernel had taken none of the pages, or some.
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
