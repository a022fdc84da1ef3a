//! Large arrays of plain values on huge pages, reused.
//!
//! A join writes its result into fresh memory. With 4 KiB pages, the kernel's work for the first
//! touch of each page costs several times the join. So [`Pages`] asks for 2 MiB pages. When it is
//! dropped, it hands its memory to a bounded pool, and the next array takes it warm.
//!
//! # Trade-offs
//!
//! An array of more than [`SMALL`] bytes takes whole 2 MiB pages, a smaller one a block of the
//! heap. The pool keeps up to [`POOL_BYTES`] that the process does not use at the moment. Beyond
//! these, it keeps up to [`LENT_BYTES`] that are the kernel's to take as soon as anybody needs
//! memory; until then they count as the process's.
//!
//! The contents of a new array are arbitrary, zeros or a former array's values. So it is
//! [`Unwritten`]: its places are [`Slot`]s, which can be written to and not read, until all of them
//! are [said to be written](Unwritten::written).

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, TryLockError};

use bytemuck::{AnyBitPattern, NoUninit};
use memmap2::{MmapMut, MmapOptions};

pub use super::slots::Slot;
use crate::memory::{self, OutOfMemory};

/// The smallest page that a kernel has: what it takes, and what it leaves once it was written to.
const PAGE: usize = 4 << 10;

/// A huge page of x86-64, and of aarch64 with 4 KiB base pages.
const HUGE_PAGE: usize = 2 << 20;

/// Arrays up to this size come from the heap: less than half a huge page would waste more than it
/// saves.
pub const SMALL: usize = 1 << 20;

/// Blocks of the heap from this size on go to the pool, too: to clear their pages costs more than
/// to look for them.
const POOLED: usize = 64 << 10;

/// What the pool keeps at most: the result of a join of a million rows a side and what the join
/// took beside, so that the next such join finds no fresh page.
pub const POOL_BYTES: usize = 320 << 20;

/// What the pool keeps beyond that, but for the kernel to take: a result of gigabytes, such as that
/// of an aggregation of many keys, of which the next one is made several times as fast in memory
/// that is still mapped.
#[cfg(target_os = "linux")]
pub const LENT_BYTES: usize = 4 << 30;

/// Elsewhere, there is no such memory.
#[cfg(not(target_os = "linux"))]
pub const LENT_BYTES: usize = 0;

static POOL: Mutex<Pool> = Mutex::new(Pool { blocks: Vec::new(), bytes: 0, lent: 0 });

/// The pool, unless it is in use for long: by a thread that was interrupted, or that existed before
/// the process forked.
fn lock_pool() -> Option<MutexGuard<'static, Pool>> {
    for _ in 0..1000 {
        match POOL.try_lock() {
            Ok(pool) => return Some(pool),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            Err(TryLockError::Poisoned(_)) => return None,
        }
    }
    None
}

/// Gives what the pool keeps back to the system; whether that was anything.
pub fn empty_pool() -> bool {
    let Some(mut pool) = lock_pool() else { return false };
    (pool.bytes, pool.lent) = (0, 0);
    let blocks = std::mem::take(&mut pool.blocks);
    // An allocator that waits for memory may wait for the pool.
    drop(pool);
    !blocks.is_empty()
}

/// An array of `len` values of a plain type.
pub struct Pages<T> {
    block: Block,
    len: usize,
    values: PhantomData<T>,
}

/// An array of which nobody knows what has been written: it can only be written to.
pub struct Unwritten<T>(Pages<T>);

/// Every byte of an array's place has this value in a debug build until it is written.
const NOTHING: u8 = 0xa5;

impl<T: AnyBitPattern + NoUninit> Unwritten<T> {
    /// The array, all of whose places were written: in a debug build, a line of which none was
    /// panics.
    pub fn written(self) -> Pages<T> {
        let Unwritten(pages) = self;
        if cfg!(debug_assertions) {
            let lines = bytemuck::cast_slice::<T, u8>(&pages).chunks(size_of::<Line>());
            let is_nothing = |line: &[u8]| {
                line.len() >= size_of::<u64>() && line.iter().all(|&byte| byte == NOTHING)
            };
            let nothing = lines.enumerate().find(|(_, line)| is_nothing(line));
            assert!(nothing.is_none(), "line {nothing:?} of an array was not written");
        }
        pages
    }

    /// The first places of the array, all of which were written.
    pub fn written_upto(mut self, len: usize) -> Pages<T> {
        self.0.truncate(len);
        self.written()
    }

    /// Whether the memory is large and has been used before, so that it is mapped but in no cache.
    pub fn is_warm(&self) -> bool {
        matches!(&self.0.block, Block::Mapped(mapping) if mapping.used)
    }
}

impl<T: AnyBitPattern + NoUninit> Default for Unwritten<T> {
    fn default() -> Self {
        Unwritten(Pages::default())
    }
}

impl<T: AnyBitPattern + NoUninit> Deref for Unwritten<T> {
    type Target = [Slot<T>];

    #[inline]
    fn deref(&self) -> &[Slot<T>] {
        Slot::all(&self.0)
    }
}

impl<T: AnyBitPattern + NoUninit> DerefMut for Unwritten<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Slot<T>] {
        Slot::of(&mut self.0)
    }
}

impl<T> fmt::Debug for Unwritten<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwritten").field("len", &self.0.len).finish_non_exhaustive()
    }
}

impl<T: AnyBitPattern + NoUninit> Default for Pages<T> {
    /// Without values.
    fn default() -> Self {
        Self::arbitrary(0)
    }
}

impl<T: AnyBitPattern + NoUninit> Pages<T> {
    /// An array of `len` values, none of which is written.
    ///
    /// # Panics
    ///
    /// [Raises](OutOfMemory::raise) an [`OutOfMemory`] when there is no memory for it.
    pub fn unwritten(len: usize) -> Unwritten<T> {
        Unwritten(Self::arbitrary(len))
    }

    /// An array of `len` equal values.
    ///
    /// # Panics
    ///
    /// As [`unwritten`](Self::unwritten).
    pub fn filled(len: usize, value: T) -> Self {
        let mut pages = Self::arbitrary(len);
        pages.fill(value);
        pages
    }

    /// An array of the same values.
    ///
    /// # Panics
    ///
    /// As [`unwritten`](Self::unwritten).
    pub fn copied(values: &[T]) -> Self {
        let mut pages = Self::arbitrary(values.len());
        pages.copy_from_slice(values);
        pages
    }

    /// The items of an iterator that knows how many there are.
    ///
    /// # Panics
    ///
    /// As [`unwritten`](Self::unwritten), and when there are others.
    pub fn collect(items: impl ExactSizeIterator<Item = T>) -> Self {
        let mut pages = Self::arbitrary(items.len());
        let mut written = 0;
        pages.iter_mut().zip(items).for_each(|(place, item)| {
            *place = item;
            written += 1;
        });
        assert_eq!(written, pages.len(), "as many items as were announced");
        pages
    }

    /// An array of `len` values with arbitrary contents, for callers in this crate that know which
    /// values they have written.
    pub(crate) fn arbitrary(len: usize) -> Self {
        let bytes = len.saturating_mul(size_of::<T>());
        let mut block = Block::take(bytes).unwrap_or_else(|error| error.raise());
        if cfg!(debug_assertions) {
            // Nobody gets away with reading what was not written.
            block.bytes_mut().fill(NOTHING);
        }
        Pages { block, len, values: PhantomData }
    }

    /// Shortens the array, if it is longer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl<T: AnyBitPattern + NoUninit> Deref for Pages<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.block.bytes()[..self.len * size_of::<T>()])
    }
}

impl<T: AnyBitPattern + NoUninit> DerefMut for Pages<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes = self.len * size_of::<T>();
        bytemuck::cast_slice_mut(&mut self.block.bytes_mut()[..bytes])
    }
}

impl AsRef<[u8]> for Pages<u8> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        std::mem::replace(&mut self.block, Block::Heap(Vec::new())).give_back();
    }
}

/// A cache line, so that a heap block is aligned for every kernel.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

// SAFETY: 64 bytes without padding; the alignment does not exceed the size.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: as above, and every bit pattern is a value.
unsafe impl bytemuck::Pod for Line {}

enum Block {
    Heap(Vec<Line>),
    Mapped(Mapping),
}

/// Anonymous memory whose used part begins at a huge-page boundary.
struct Mapping {
    memory: MmapMut,
    start: usize,
    len: usize,
    /// Whether the block was in the pool before.
    used: bool,
    /// Whether the kernel may take the pages.
    lent: bool,
}

impl Block {
    fn take(bytes: usize) -> Result<Block, OutOfMemory> {
        let unit = if bytes <= SMALL { size_of::<Line>() } else { HUGE_PAGE };
        let len = bytes.checked_next_multiple_of(unit).ok_or(OutOfMemory { bytes, left: None })?;
        let pooled =
            if len < POOLED { None } else { lock_pool().and_then(|mut pool| pool.take(len)) };
        match pooled {
            Some(block) => block.taken_back(),
            None if bytes <= SMALL => Ok(Block::Heap(vec![Line([0; 64]); len / size_of::<Line>()])),
            None => Mapping::new(len).map(Block::Mapped),
        }
    }

    fn len(&self) -> usize {
        match self {
            Block::Heap(lines) => lines.len() * size_of::<Line>(),
            Block::Mapped(mapping) => mapping.len,
        }
    }

    /// Whether the kernel may take the memory.
    fn is_lent(&self) -> bool {
        matches!(self, Block::Mapped(mapping) if mapping.lent)
    }

    /// Ends the loan of a block that the pool had lent, if there is memory for it: the kernel may
    /// have taken all of it. It takes a write for each page, so nobody should wait for it.
    fn taken_back(mut self) -> Result<Block, OutOfMemory> {
        if let Block::Mapped(mapping) = &mut self
            && mapping.lent
        {
            memory::is_left(mapping.len)?;
            mapping.take_back();
        }
        Ok(self)
    }

    fn bytes(&self) -> &[u8] {
        debug_assert!(!self.is_lent(), "what is lent may change");
        match self {
            Block::Heap(lines) => bytemuck::cast_slice(lines),
            Block::Mapped(mapping) => &mapping.memory[mapping.start..][..mapping.len],
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        debug_assert!(!self.is_lent(), "what is lent may change");
        match self {
            Block::Heap(lines) => bytemuck::cast_slice_mut(lines),
            Block::Mapped(mapping) => &mut mapping.memory[mapping.start..][..mapping.len],
        }
    }

    fn give_back(self) {
        if self.len() >= POOLED
            && let Some(mut pool) = lock_pool()
        {
            pool.keep(self);
        }
    }
}

impl Mapping {
    fn new(len: usize) -> Result<Mapping, OutOfMemory> {
        memory::is_left(len)?;
        let refused = OutOfMemory { bytes: len, left: None };
        let map = || MmapOptions::new().len(len.checked_add(HUGE_PAGE)?).map_anon().ok();
        let memory = map().or_else(|| empty_pool().then(map).flatten()).ok_or(refused)?;
        // Advice that the kernel does not take (no huge pages configured) costs speed, not
        // correctness.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        let start = memory.as_ptr().align_offset(HUGE_PAGE);
        Ok(Mapping { memory, start, len, used: false, lent: false })
    }

    /// Lets the kernel take the pages until they are written to again, if it can. Until
    /// [`take_back`](Self::take_back), the contents may change at any time, and nothing may look at
    /// them.
    fn lend(&mut self) {
        debug_assert!(self.start + self.len <= self.memory.len(), "the used part is mapped");
        // SAFETY: the pool has the block for itself, and reads none; it takes it back before
        // anybody gets it.
        #[cfg(target_os = "linux")]
        let advised = unsafe {
            self.memory
                .unchecked_advise_range(memmap2::UncheckedAdvice::Free, self.start, self.len)
                .is_ok()
        };
        #[cfg(not(target_os = "linux"))]
        let advised = false;
        self.lent = advised;
    }

    /// Ends the loan: the kernel leaves a page that was written to since, be it the old one or a
    /// new one of zeros.
    fn take_back(&mut self) {
        self.memory[self.start..][..self.len].iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        self.lent = false;
    }
}

struct Pool {
    blocks: Vec<Block>,
    /// The bytes of blocks that are not lent, and of those that are.
    bytes: usize,
    lent: usize,
}

impl Pool {
    /// The smallest kept block of at least `len` bytes, which may be lent, unless it is so large
    /// that most of it would lie idle.
    fn take(&mut self, len: usize) -> Option<Block> {
        let fits = |block: &&Block| block.len() >= len && block.len() <= len * 2;
        let best = self.blocks.iter().filter(fits).map(Block::len).min()?;
        // The block given back last is the one most likely still in a cache.
        let last = |lent: bool| {
            self.blocks.iter().rposition(|block| block.len() == best && block.is_lent() == lent)
        };
        let at = last(false).or_else(|| last(true))?;
        let block = self.blocks.remove(at);
        *(if block.is_lent() { &mut self.lent } else { &mut self.bytes }) -= best;
        Some(block)
    }

    fn keep(&mut self, mut block: Block) {
        let len = block.len();
        if let Block::Mapped(mapping) = &mut block {
            mapping.used = true;
            if self.bytes + len > POOL_BYTES && self.lent + len <= LENT_BYTES {
                mapping.lend();
            }
        }
        if block.is_lent() {
            self.lent += len;
        } else if self.bytes + len <= POOL_BYTES {
            self.bytes += len;
        } else {
            return;
        }
        self.blocks.push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_every_size_are_aligned_and_hold_what_is_written() {
        for len in [0, 1, 7, SMALL / 8, SMALL / 8 + 1, HUGE_PAGE, HUGE_PAGE + 1] {
            let mut array = Pages::<u64>::unwritten(len);
            assert_eq!(array.len(), len);
            assert_eq!(array.as_ptr().align_offset(64), 0);
            array.iter_mut().enumerate().for_each(|(i, slot)| slot.set(i as u64));
            let array = array.written();
            assert!(array.iter().enumerate().all(|(i, value)| *value == i as u64));
        }
    }

    #[test]
    fn arrays_are_made_of_values() {
        assert_eq!(*Pages::collect((0..100_u32).rev()), *(0..100).rev().collect::<Vec<u32>>());
        assert_eq!(*Pages::filled(3, 7_i64), [7; 3]);
        assert_eq!(*Pages::copied(&[[1_u32, 2], [3, 4]]), [[1, 2], [3, 4]]);
        assert_eq!(Pages::copied(&[1_u8, 2]).as_ref(), [1, 2]);
        assert!(
            Pages::<u8>::default().is_empty() && Unwritten::<u8>::default().written().is_empty()
        );
        let mut some = Pages::<u64>::unwritten(100);
        Slot::fill(&mut some[..20], 5);
        assert_eq!(format!("{some:?}"), "Unwritten { len: 100, .. }");
        let some = some.written_upto(20);
        assert_eq!((&*some, format!("{some:?}")), (&[5; 20][..], "Pages { len: 20, .. }".into()));
    }

    #[test]
    #[cfg(debug_assertions)]
    fn places_that_were_not_written_are_found() {
        for (from, to) in [(0, 8), (96, 104), (192, 200)] {
            let mut array = Pages::<u64>::unwritten(200);
            let (head, tail) = array.split_at_mut(from);
            Slot::fill(head, 1);
            Slot::fill(&mut tail[to - from..], 1);
            assert!(
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| array.written())).is_err()
            );
        }
    }

    #[test]
    fn the_pool_is_bounded_and_gives_the_best_fit() {
        let mut pool = Pool { blocks: Vec::new(), bytes: 0, lent: 0 };
        for pages in [4, 1, 2] {
            pool.keep(mapped(pages * HUGE_PAGE));
        }
        assert_eq!(pool.take(2 * HUGE_PAGE).unwrap().len(), 2 * HUGE_PAGE);
        assert_eq!(pool.take(3 * HUGE_PAGE).unwrap().len(), 4 * HUGE_PAGE);
        assert!(pool.take(3 * HUGE_PAGE).is_none());
        const BLOCK: usize = 64 << 20;
        for _ in 0..=(POOL_BYTES + LENT_BYTES) / BLOCK {
            pool.keep(mapped(BLOCK));
        }
        // One huge page is there since before.
        assert_eq!(
            (pool.bytes, pool.lent),
            ((POOL_BYTES - HUGE_PAGE) / BLOCK * BLOCK + HUGE_PAGE, LENT_BYTES)
        );
        assert!(!pool.take(BLOCK).unwrap().is_lent());
        let lent = std::iter::from_fn(|| pool.take(BLOCK)).count();
        assert_eq!(
            (pool.bytes, pool.lent, lent > LENT_BYTES / BLOCK),
            (HUGE_PAGE, 0, LENT_BYTES > 0)
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_was_lent_can_be_written_again() {
        let mut pool = Pool { blocks: Vec::new(), bytes: POOL_BYTES, lent: 0 };
        let mut block = mapped(2 * HUGE_PAGE);
        for turn in 1..4 {
            block.bytes_mut().fill(turn);
            assert!(block.bytes().iter().all(|byte| *byte == turn));
            pool.keep(block);
            assert_eq!((pool.blocks.len(), pool.lent), (1, 2 * HUGE_PAGE));
            block = pool.take(2 * HUGE_PAGE).expect("it was kept").taken_back().unwrap();
            // As if the kernel had taken none of the pages, or some.
            assert!(block.bytes().iter().all(|byte| [0, turn].contains(byte)));
            assert!(block.bytes().iter().step_by(PAGE).all(|byte| *byte == 0));
        }
    }

    #[test]
    fn blocks_of_the_heap_are_kept_from_a_size_on() {
        let mut pool = Pool { blocks: Vec::new(), bytes: 0, lent: 0 };
        pool.keep(Block::Heap(vec![Line([7; 64]); POOLED / 64]));
        assert!(pool.take(POOLED + 64).is_none());
        assert!(pool.take(POOLED / 2).is_some_and(|block| block.len() == POOLED));
        assert_eq!((pool.blocks.len(), pool.bytes), (0, 0));
    }

    #[test]
    fn memory_that_was_given_back_is_found_again() {
        // Other tests may empty the pool at any time, or take a block of the heap, but ask for no
        // array nearly as large as this one.
        let again = |is_again: &dyn Fn() -> bool| (0..100).any(|_| is_again());
        let is_warm = || Pages::<u8>::unwritten(20 * HUGE_PAGE).is_warm();
        assert!(!is_warm());
        assert!(again(&is_warm));
        let give_back = || Block::Heap(vec![Line([7; 64]); POOLED / 64]).give_back();
        assert!(again(&|| {
            give_back();
            Block::take(POOLED).unwrap().bytes().iter().all(|byte| *byte == 7)
        }));
        give_back();
        assert_eq!(Block::take(POOLED - 64).unwrap().len(), POOLED - 64);
        assert!(!Pages::<u8>::unwritten(POOLED).is_warm());
    }

    fn mapped(len: usize) -> Block {
        Block::Mapped(Mapping::new(len).unwrap())
    }
}
