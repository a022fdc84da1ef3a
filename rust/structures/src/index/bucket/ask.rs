//! Computes where the blocks of many rows or probes are, and asks for them, a group at a time.
//!
//! An instruction that asks for memory is done when it has found the memory's page, which where
//! there are many pages is long after. Those of a group therefore follow each other closely, so
//! that a core has several of them in hand; among other work it would stand still for each. And a
//! group is small: a core waits for some twenty lines of memory at a time, so with many more in a
//! row it would stand still until they come, and then memory until the core has done with them.

#[cfg(target_arch = "x86_64")]
use super::block::Avx512;
use super::block::{Block, Portable};
use super::directory::{Address, Directory, Pair};
use crate::index::{Entry, Probe};
use crate::memory::gather::prefetch;

/// Rows or probes whose blocks are asked for together.
pub(super) const GROUP: usize = 8;

/// Groups under way: of the first one it is computed where its blocks are, the second one's are
/// asked for, the next one's come, and with the last one's it is done what is to be done.
pub(super) const UNDER_WAY: usize = 4;

/// Where some groups that follow each other are.
pub(super) type Groups<A> = [[A; GROUP]; UNDER_WAY];

/// How it is computed where blocks are: with wide instructions or without.
pub(super) trait Lookup {
    /// The addresses of rows.
    fn addresses(directory: &Directory, rows: &[Entry], addresses: &mut [Address]);

    /// The blocks of probes.
    fn pairs(directory: &Directory, probes: &[Probe], pairs: &mut [Pair]);
}

impl Lookup for Portable {
    #[inline(always)]
    fn addresses(directory: &Directory, rows: &[Entry], addresses: &mut [Address]) {
        addresses.iter_mut().zip(rows).for_each(|(address, row)| *address = directory.address(row));
    }

    #[inline(always)]
    fn pairs(directory: &Directory, probes: &[Probe], pairs: &mut [Pair]) {
        pairs.iter_mut().zip(probes).for_each(|(pair, probe)| *pair = directory.pair(probe));
    }
}

#[cfg(target_arch = "x86_64")]
impl Lookup for Avx512 {
    #[inline(always)]
    fn addresses(directory: &Directory, rows: &[Entry], addresses: &mut [Address]) {
        debug_assert!(super::has_avx512());
        // SAFETY: nothing is called where the processor has not the instructions.
        unsafe { directory.addresses_avx512(rows, addresses) }
    }

    #[inline(always)]
    fn pairs(directory: &Directory, probes: &[Probe], pairs: &mut [Pair]) {
        debug_assert!(super::has_avx512());
        // SAFETY: as above.
        unsafe { directory.pairs_avx512(probes, pairs) }
    }
}

/// A group by its number.
#[inline(always)]
pub(super) fn group<T>(of: &[T], nth: usize) -> &[T] {
    &of[nth * GROUP..of.len().min((nth + 1) * GROUP)]
}

/// Asks for the blocks of rows.
#[inline(always)]
pub(super) fn ask(blocks: &[Block], addresses: &[Address]) {
    addresses.iter().for_each(|address| prefetch(blocks, address.block as usize));
}

/// Asks for the blocks of probes.
#[inline(always)]
pub(super) fn ask_pairs(blocks: &[Block], pairs: &[Pair]) {
    for pair in pairs {
        prefetch(blocks, pair.first as usize);
        prefetch(blocks, pair.last as usize);
    }
}

/// Asks for the blocks behind those of probes. Most have none, so nobody's is asked for, which is
/// always there.
#[inline(always)]
pub(super) fn ask_more(blocks: &[Block], pairs: &[Pair]) {
    for pair in pairs {
        prefetch(blocks, blocks[pair.first as usize].more as usize);
        prefetch(blocks, blocks[pair.last as usize].more as usize);
    }
}
