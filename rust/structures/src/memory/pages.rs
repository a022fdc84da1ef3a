//! Large arrays of plain values on reused pages. Huge pages are used if they are faster.
//!
//! A join writes its result to newly allocated memory. With 4 KiB pages, page faults take several
//! times as long as the join itself. [`Pages`] therefore requests 2 MiB pages. When an array is
//! dropped, its memory goes to a bounded pool (`pool.rs`), and the next array reuses this memory
//! without page faults. Arrays smaller than [`SMALL`] bytes are allocated on the heap.
//!
//! The contents of a new array are arbitrary: zeros, or whatever the memory held before. A new
//! array is therefore an [`UnwrittenPages`]. Its elements are [`Slot`]s. The elements can be
//! written, but cannot be read until all of them have been
//! [declared written](UnwrittenPages::written).

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

use bytemuck::{AnyBitPattern, NoUninit};

use super::file_map::FileMap;
use super::pool::{Extent, LEAST};
pub use super::slots::Slot;
use crate::memory::OutOfMemory;

/// The minimum number of bytes in an array from the pool. Smaller arrays are allocated on the heap.
/// For larger arrays, the pool is faster, because the heap needs to clear pages.
pub const SMALL: usize = LEAST;

/// Arrays larger than this are not in any cache when the pool hands them out.
const LARGE: usize = 1 << 20;

/// An array of plain values.
pub struct Pages<T> {
    block: PageBlock,
    len: usize,
    values: PhantomData<T>,
}

/// An array that can be written but not read, because some elements may not have been written yet.
pub struct UnwrittenPages<T>(Pages<T>);

/// In a debug build, every byte of an array has this value until the byte is written.
const NOTHING: u8 = 0xa5;

impl<T: AnyBitPattern + NoUninit> UnwrittenPages<T> {
    /// Returns the array for reading. Every element of the array must have been written. In a debug
    /// build, this function panics if any cache line contains no written element.
    pub fn written(self) -> Pages<T> {
        let UnwrittenPages(pages) = self;
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

    /// Returns the first `len` elements of the array. Each of these elements must have been
    /// written.
    pub fn written_upto(mut self, len: usize) -> Pages<T> {
        self.0.truncate(len);
        self.written()
    }

    /// Returns whether the array is large and its memory has been used before. Such memory is
    /// mapped but is not in any cache.
    pub fn is_warm(&self) -> bool {
        matches!(&self.0.block, PageBlock::Mapped(extent) if extent.len() > LARGE && extent.is_used())
    }
}

impl<T: AnyBitPattern + NoUninit> Default for UnwrittenPages<T> {
    fn default() -> Self {
        UnwrittenPages(Pages::default())
    }
}

impl<T: AnyBitPattern + NoUninit> Deref for UnwrittenPages<T> {
    type Target = [Slot<T>];

    #[inline]
    fn deref(&self) -> &[Slot<T>] {
        Slot::all(&self.0)
    }
}

impl<T: AnyBitPattern + NoUninit> DerefMut for UnwrittenPages<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Slot<T>] {
        Slot::of(&mut self.0)
    }
}

impl<T> fmt::Debug for UnwrittenPages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnwrittenPages").field("len", &self.0.len).finish_non_exhaustive()
    }
}

impl<T: AnyBitPattern + NoUninit> Default for Pages<T> {
    /// Creates an array without values.
    fn default() -> Self {
        Self::arbitrary(0)
    }
}

impl<T: AnyBitPattern + NoUninit> Pages<T> {
    /// Creates an array of `len` values that have not been written yet.
    ///
    /// # Panics
    ///
    /// Panics by [raising](OutOfMemory::raise) an [`OutOfMemory`] if there is no memory for the
    /// array.
    pub fn unwritten(len: usize) -> UnwrittenPages<T> {
        UnwrittenPages(Self::arbitrary(len))
    }

    /// Creates an array of `len` equal values.
    ///
    /// # Panics
    ///
    /// Panics like [`unwritten`](Self::unwritten).
    pub fn filled(len: usize, value: T) -> Self {
        let mut pages = Self::arbitrary(len);
        pages.fill(value);
        pages
    }

    /// Creates an array with a copy of the values.
    ///
    /// # Panics
    ///
    /// Panics like [`unwritten`](Self::unwritten).
    pub fn copied(values: &[T]) -> Self {
        let mut pages = Self::arbitrary(values.len());
        pages.copy_from_slice(values);
        pages
    }

    /// Collects the items of an iterator with a known length.
    ///
    /// # Panics
    ///
    /// Panics like [`unwritten`](Self::unwritten). Also panics if the number of items differs from
    /// the length.
    pub fn collect(items: impl ExactSizeIterator<Item = T>) -> Self {
        let mut pages = Self::arbitrary(items.len());
        let mut written = 0;
        pages.iter_mut().zip(items).for_each(|(place, item)| {
            *place = item;
            written += 1;
        });
        assert_eq!(written, pages.len(), "the iterator has the length that it reports");
        pages
    }

    /// Creates an array of `len` values with arbitrary contents. Callers in this crate keep track
    /// of which values they have written.
    pub(crate) fn arbitrary(len: usize) -> Self {
        let bytes = len.saturating_mul(size_of::<T>());
        let mut block = PageBlock::take(bytes).unwrap_or_else(|error| error.raise());
        if cfg!(debug_assertions) {
            // This reveals bugs in which unwritten values are read.
            block.bytes_mut().fill(NOTHING);
        }
        Pages { block, len, values: PhantomData }
    }

    /// Returns the values in a range of a file's bytes, without reading them. Returns `None` if the
    /// range is not in the file, or does not consist of whole, aligned values.
    ///
    /// The values are copied if they are accessed for writing.
    pub fn mapped(file: &FileMap, bytes: Range<usize>) -> Option<Self> {
        let values = bytemuck::try_cast_slice::<u8, T>(file.as_ref().get(bytes.clone())?).ok()?;
        let len = values.len();
        Some(Pages { block: PageBlock::File(file.clone(), bytes), len, values: PhantomData })
    }

    /// Shortens the array to `len` values if it is longer.
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
        if let PageBlock::Mapped(extent) =
            std::mem::replace(&mut self.block, PageBlock::Heap(Vec::new()))
        {
            extent.give_back();
        }
    }
}

/// A cache line. Heap memory is allocated in units of cache lines, so that it is sufficiently
/// aligned for every kernel.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

// SAFETY: 64 bytes without padding; the alignment does not exceed the size.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: as above, and every bit pattern is a valid value.
unsafe impl bytemuck::Pod for Line {}

enum PageBlock {
    Heap(Vec<Line>),
    Mapped(Extent),
    /// A range of a file's bytes.
    File(FileMap, Range<usize>),
}

impl PageBlock {
    fn take(bytes: usize) -> Result<PageBlock, OutOfMemory> {
        if bytes < SMALL {
            return Ok(PageBlock::Heap(vec![Line([0; 64]); bytes.div_ceil(size_of::<Line>())]));
        }
        Extent::take(bytes, true).map(PageBlock::Mapped)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            PageBlock::Heap(lines) => bytemuck::cast_slice(lines),
            PageBlock::Mapped(extent) => extent.bytes(),
            PageBlock::File(file, bytes) => &file.as_ref()[bytes.clone()],
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        if let PageBlock::File(file, bytes) = self {
            let mut own = PageBlock::take(bytes.len()).unwrap_or_else(|error| error.raise());
            own.bytes_mut()[..bytes.len()].copy_from_slice(&file.as_ref()[bytes.clone()]);
            *self = own;
        }
        match self {
            PageBlock::Heap(lines) => bytemuck::cast_slice_mut(lines),
            PageBlock::Mapped(extent) => extent.bytes_mut(),
            PageBlock::File(..) => unreachable!("the bytes of a file have been copied"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_every_size_are_aligned_and_hold_what_is_written() {
        for len in [0, 1, 7, SMALL / 8 - 1, SMALL / 8, SMALL / 8 + 1, 1 << 20, (8 << 20) + 1] {
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
            Pages::<u8>::default().is_empty()
                && UnwrittenPages::<u8>::default().written().is_empty()
        );
        let mut some = Pages::<u64>::unwritten(100);
        Slot::fill(&mut some[..20], 5);
        assert_eq!(format!("{some:?}"), "UnwrittenPages { len: 100, .. }");
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
    fn memory_that_was_given_back_is_found_again() {
        // Other tests may empty the pool at any time, or temporarily use this memory.
        let is_warm = || Pages::<u8>::unwritten(20 * LARGE).is_warm();
        assert!((0..100).any(|_| is_warm()));
        let holds_again = |len: usize| {
            drop(Pages::filled(len, 7_u8));
            Pages::<u8>::arbitrary(len).block.bytes().iter().all(|byte| *byte == 7)
        };
        if !cfg!(debug_assertions) {
            assert!((0..100).any(|_| holds_again(SMALL)));
        }
        assert!(!Pages::<u8>::unwritten(SMALL).is_warm());
    }
}
