//! The memory for blocks. Runs of adjacent blocks are allocated from it.

use std::collections::BTreeMap;

use super::block::BucketBlock;
use crate::memory::pages::Pages;

/// Blocks, which are allocated and freed in runs.
pub(super) struct BlockStore {
    /// The blocks. A block is initialized when it is allocated.
    pub(super) blocks: Pages<BucketBlock>,
    /// Blocks from this number onwards have never been allocated.
    used: u32,
    /// The first block of each freed run, grouped by run length.
    free: BTreeMap<u32, Vec<u32>>,
    /// The number of allocated blocks.
    taken: usize,
    /// True if the store has run out of room since it was created.
    pub(super) has_grown: bool,
}

impl BlockStore {
    /// Creates a store with room for `room` blocks.
    pub(super) fn new(room: usize) -> Self {
        let mut blocks = Pages::arbitrary(1 + room);
        blocks[0] = BucketBlock::empty(0);
        BlockStore { blocks, used: 1, free: BTreeMap::new(), taken: 0, has_grown: false }
    }

    /// Allocates a run of empty blocks. Rows before `first` have been removed.
    pub(super) fn take(&mut self, len: u32, first: u32) -> u32 {
        let base = self.find(len);
        self.taken += len as usize;
        self.blocks[base as usize..][..len as usize].fill(BucketBlock::empty(first));
        base
    }

    /// Frees a run.
    pub(super) fn give_back(&mut self, base: u32, len: u32) {
        self.taken -= len as usize;
        self.free.entry(len).or_default().push(base);
    }

    /// Returns whether more than half of the store's room is in use. Beyond that, too little room
    /// would be left for long runs.
    pub(super) fn is_scarce(&self) -> bool {
        self.taken > self.blocks.len() / 2
    }

    /// Returns the number of bytes in use.
    pub(super) fn memory(&self) -> usize {
        let free: usize = self.free.values().map(|runs| runs.capacity() * size_of::<u32>()).sum();
        size_of_val(&*self.blocks) + free
    }

    /// Returns the first block of a run that is free: it has been freed or has never been
    /// allocated.
    fn find(&mut self, len: u32) -> u32 {
        if let Some(base) = self.free.get_mut(&len).and_then(Vec::pop) {
            return base;
        }
        if self.blocks.len() - (self.used as usize) < len as usize {
            if let Some(base) = self.split(len) {
                return base;
            }
            self.grow(len);
        }
        let base = self.used;
        self.used += len;
        base
    }

    /// Takes the beginning of a longer freed run, and frees the rest of that run.
    fn split(&mut self, len: u32) -> Option<u32> {
        let (&there, runs) = self.free.range_mut(len + 1..).find(|(_, runs)| !runs.is_empty())?;
        let base = runs.pop()?;
        self.free.entry(there - len).or_default().push(base + len);
        Some(base)
    }

    #[cold]
    fn grow(&mut self, len: u32) {
        let mut blocks = Pages::arbitrary(self.blocks.len() + self.blocks.len() / 4 + len as usize);
        blocks[..self.blocks.len()].copy_from_slice(&self.blocks);
        self.blocks = blocks;
        self.has_grown = true;
    }
}
