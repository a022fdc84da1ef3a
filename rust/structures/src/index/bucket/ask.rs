//! Computes the places of the blocks of many rows or probes, and prefetches them, a group at a
//! time.
//!
//! A prefetch is done when the processor has found the page of the memory, which takes long if
//! there are many pages. So the prefetches of a group follow each other closely: a core has several
//! of them in hand, and would stand still for each among other work. A group is small, because a
//! core waits for some twenty lines of memory at a time. With more, the core would wait for the
//! memory, and then the memory for the core.

#[cfg(target_arch = "aarch64")]
use super::block::Neon;
#[cfg(target_arch = "x86_64")]
use super::block::{Avx2, Avx512};
use super::block::{BucketBlock, Portable};
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
        debug_assert!(super::instructions::has_avx512());
        // SAFETY: nothing is called where the processor has not the instructions.
        unsafe { directory.addresses_avx512(rows, addresses) }
    }

    #[inline(always)]
    fn pairs(directory: &Directory, probes: &[Probe], pairs: &mut [Pair]) {
        debug_assert!(super::instructions::has_avx512());
        // SAFETY: as above.
        unsafe { directory.pairs_avx512(probes, pairs) }
    }
}

/// As the portable form: the blocks are found one by one.
#[cfg(target_arch = "x86_64")]
impl Lookup for Avx2 {
    #[inline(always)]
    fn addresses(directory: &Directory, rows: &[Entry], addresses: &mut [Address]) {
        Portable::addresses(directory, rows, addresses);
    }

    #[inline(always)]
    fn pairs(directory: &Directory, probes: &[Probe], pairs: &mut [Pair]) {
        Portable::pairs(directory, probes, pairs);
    }
}

/// As the portable form: a register of NEON has room for two keys only, and no cells are gathered
/// into one.
#[cfg(target_arch = "aarch64")]
impl Lookup for Neon {
    #[inline(always)]
    fn addresses(directory: &Directory, rows: &[Entry], addresses: &mut [Address]) {
        Portable::addresses(directory, rows, addresses);
    }

    #[inline(always)]
    fn pairs(directory: &Directory, probes: &[Probe], pairs: &mut [Pair]) {
        Portable::pairs(directory, probes, pairs);
    }
}

/// A group by its number.
#[inline(always)]
pub(super) fn group<T>(of: &[T], nth: usize) -> &[T] {
    &of[nth * GROUP..of.len().min((nth + 1) * GROUP)]
}

/// Asks for the blocks of rows.
#[inline(always)]
pub(super) fn ask(blocks: &[BucketBlock], addresses: &[Address]) {
    addresses.iter().for_each(|address| prefetch(blocks, address.block as usize));
}

/// Asks for the blocks of probes.
#[inline(always)]
pub(super) fn ask_pairs(blocks: &[BucketBlock], pairs: &[Pair]) {
    for pair in pairs {
        prefetch(blocks, pair.first as usize);
        prefetch(blocks, pair.last as usize);
    }
}

/// Asks for the blocks that follow the blocks of probes. Most have none: nobody's block, which is
/// always there, is asked for instead.
#[inline(always)]
pub(super) fn ask_more(blocks: &[BucketBlock], pairs: &[Pair]) {
    for pair in pairs {
        prefetch(blocks, blocks[pair.first as usize].more as usize);
        prefetch(blocks, blocks[pair.last as usize].more as usize);
    }
}
