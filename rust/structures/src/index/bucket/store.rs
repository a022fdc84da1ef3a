//! The memory of blocks: runs of neighbouring blocks, taken and given back.

use std::collections::BTreeMap;

use super::block::BucketBlock;
use crate::memory::pages::Pages;

/// Blocks, in runs that are taken and given back.
pub(super) struct BlockStore {
    /// Written where they have been taken.
    pub(super) blocks: Pages<BucketBlock>,
    /// Blocks from here on have never been taken.
    used: u32,
    /// Runs that were given back, by how many blocks they have.
    free: BTreeMap<u32, Vec<u32>>,
    /// Blocks that are taken.
    taken: usize,
    /// Whether there was too little room since the store was made.
    pub(super) has_grown: bool,
}

impl BlockStore {
    /// A store with room for a number of blocks.
    pub(super) fn new(room: usize) -> Self {
        let mut blocks = Pages::arbitrary(1 + room);
        blocks[0] = BucketBlock::empty(0);
        BlockStore { blocks, used: 1, free: BTreeMap::new(), taken: 0, has_grown: false }
    }

    /// Takes a run of blocks without rows. Rows before `first` have left.
    pub(super) fn take(&mut self, len: u32, first: u32) -> u32 {
        let base = self.find(len);
        self.taken += len as usize;
        self.blocks[base as usize..][..len as usize].fill(BucketBlock::empty(first));
        base
    }

    /// Gives a run back.
    pub(super) fn give_back(&mut self, base: u32, len: u32) {
        self.taken -= len as usize;
        self.free.entry(len).or_default().push(base);
    }

    /// Whether half of the room is taken. More would leave too little for long runs.
    pub(super) fn is_scarce(&self) -> bool {
        self.taken > self.blocks.len() / 2
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let free: usize = self.free.values().map(|runs| runs.capacity() * size_of::<u32>()).sum();
        size_of_val(&*self.blocks) + free
    }

    /// The first block of a run that was given back or never taken.
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

    /// The beginning of a longer run that was given back, the rest of which is given back again.
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
