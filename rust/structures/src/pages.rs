//! Large arrays of plain values on huge pages, reused.
//!
//! A join writes its result into memory it has just been given, and with 4 KiB pages the kernel's work for the first
//! touch of each page costs several times the join. [`Pages`] therefore asks for 2 MiB pages and hands its memory back
//! to a bounded pool when it is dropped, from where the next array takes it warm.
//!
//! # Trade-offs
//!
//! An array of more than [`SMALL`] bytes takes whole 2 MiB pages, and the pool keeps up to [`POOL_BYTES`] that the
//! process does not use at the moment. The contents of a new array are arbitrary, zeros or a former array's values:
//! whoever takes one writes every element before it is read.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, TryLockError};

use bytemuck::{AnyBitPattern, NoUninit};
use memmap2::{MmapMut, MmapOptions};

/// A huge page of x86-64, and of aarch64 with 4 KiB base pages.
const HUGE_PAGE: usize = 2 << 20;

/// Arrays up to this size come from the heap: less than half a huge page would waste more than it saves.
pub const SMALL: usize = 1 << 20;

/// What the pool keeps at most: the result of a join of a million rows a side and what the join took beside, so that the
/// next such join finds no fresh page.
pub const POOL_BYTES: usize = 320 << 20;

static POOL: Mutex<Pool> = Mutex::new(Pool { blocks: Vec::new(), bytes: 0 });

/// The pool, unless it is in use for long: by a thread that was interrupted, or that existed before the process forked.
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

/// An array of `len` values of a plain type.
pub struct Pages<T> {
    block: Block,
    len: usize,
    values: PhantomData<T>,
}

impl<T: AnyBitPattern + NoUninit> Pages<T> {
    /// An array of `len` values with arbitrary contents.
    ///
    /// # Panics
    ///
    /// When the operating system has no memory left, as `Vec` does.
    pub fn new(len: usize) -> Self {
        let bytes = len.checked_mul(size_of::<T>()).expect("an array's size fits in usize");
        Pages { block: Block::take(bytes), len, values: PhantomData }
    }

    /// Whether the memory is large and has been used before, so that it is mapped but in no cache.
    pub fn is_warm(&self) -> bool {
        matches!(&self.block, Block::Mapped(mapping) if mapping.used)
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
}

impl Block {
    fn take(bytes: usize) -> Block {
        if bytes <= SMALL {
            return Block::Heap(vec![Line([0; 64]); bytes.div_ceil(size_of::<Line>())]);
        }
        let len = bytes.next_multiple_of(HUGE_PAGE);
        let pooled = lock_pool().and_then(|mut pool| pool.take(len));
        Block::Mapped(pooled.unwrap_or_else(|| Mapping::new(len)))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Block::Heap(lines) => bytemuck::cast_slice(lines),
            Block::Mapped(mapping) => &mapping.memory[mapping.start..][..mapping.len],
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Block::Heap(lines) => bytemuck::cast_slice_mut(lines),
            Block::Mapped(mapping) => &mut mapping.memory[mapping.start..][..mapping.len],
        }
    }

    fn give_back(self) {
        if let (Block::Mapped(mapping), Some(mut pool)) = (self, lock_pool()) {
            pool.keep(mapping);
        }
    }
}

impl Mapping {
    fn new(len: usize) -> Mapping {
        let memory = MmapOptions::new()
            .len(len + HUGE_PAGE)
            .map_anon()
            .unwrap_or_else(|error| panic!("no memory for {len} bytes: {error}"));
        // Advice that the kernel does not take (no huge pages configured) costs speed, not correctness.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        let start = memory.as_ptr().align_offset(HUGE_PAGE);
        Mapping { memory, start, len, used: false }
    }
}

struct Pool {
    blocks: Vec<Mapping>,
    bytes: usize,
}

impl Pool {
    /// The smallest kept block of at least `len` bytes, unless it is so large that most of it would lie idle.
    fn take(&mut self, len: usize) -> Option<Mapping> {
        let fits = |block: &&Mapping| block.len >= len && block.len <= len * 2;
        let best = self.blocks.iter().filter(fits).map(|block| block.len).min()?;
        // The block given back last is the one most likely still in a cache.
        let at = self.blocks.iter().rposition(|block| block.len == best)?;
        self.bytes -= best;
        Some(self.blocks.remove(at))
    }

    fn keep(&mut self, mut block: Mapping) {
        block.used = true;
        if self.bytes + block.len <= POOL_BYTES {
            self.bytes += block.len;
            self.blocks.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_every_size_are_aligned_and_hold_what_is_written() {
        for len in [0, 1, 7, SMALL / 8, SMALL / 8 + 1, HUGE_PAGE, HUGE_PAGE + 1] {
            let mut array = Pages::<u64>::new(len);
            assert_eq!(array.len(), len);
            assert_eq!(array.as_ptr().align_offset(64), 0);
            array.iter_mut().enumerate().for_each(|(i, value)| *value = i as u64);
            assert!(array.iter().enumerate().all(|(i, value)| *value == i as u64));
        }
    }

    #[test]
    fn the_pool_is_bounded_and_gives_the_best_fit() {
        let mut pool = Pool { blocks: Vec::new(), bytes: 0 };
        for pages in [4, 1, 2] {
            pool.keep(Mapping::new(pages * HUGE_PAGE));
        }
        assert_eq!(pool.take(2 * HUGE_PAGE).unwrap().len, 2 * HUGE_PAGE);
        assert_eq!(pool.take(3 * HUGE_PAGE).unwrap().len, 4 * HUGE_PAGE);
        assert!(pool.take(3 * HUGE_PAGE).is_none());
        for _ in 0..=POOL_BYTES / HUGE_PAGE {
            pool.keep(Mapping::new(HUGE_PAGE));
        }
        assert_eq!(pool.bytes, POOL_BYTES);
    }
}
