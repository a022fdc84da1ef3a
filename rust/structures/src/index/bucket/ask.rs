//! Computes which blocks are needed by many rows or probes, and prefetches these blocks one group
//! at a time.
//!
//! A prefetch instruction finishes only after the processor has translated the address. Translation
//! takes a long time if the memory has many pages. A core can process several prefetches at the
//! same time, so the prefetches of a group directly follow each other. If prefetches alternated
//! with other work, the core would stall for each one. A group is small, because a core can wait
//! for only about twenty cache lines at a time.

#[cfg(target_arch = "aarch64")]
use super::block::Neon;
#[cfg(target_arch = "x86_64")]
use super::block::{Avx2, Avx512};
use super::block::{BucketBlock, Portable};
use super::directory::{Address, Directory, Pair};
use crate::index::{Entry, Probe};
use crate::memory::gather::prefetch;

/// The number of rows or probes whose blocks are prefetched together.
pub(super) const GROUP: usize = 8;

/// The number of groups in progress. While the block addresses for one group are being computed,
/// blocks for a second group are prefetched, and blocks for a third group arrive. The rows or
/// probes in the last group are processed.
pub(super) const UNDER_WAY: usize = 4;

/// The addresses of several consecutive groups.
pub(super) type Groups<A> = [[A; GROUP]; UNDER_WAY];

/// Computes the addresses of blocks, with or without wide instructions.
pub(super) trait Lookup {
    /// Computes the addresses of rows.
    fn addresses(directory: &Directory, rows: &[Entry], addresses: &mut [Address]);

    /// Computes the blocks of probes.
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
        // SAFETY: this type is used only on processors with the instructions.
        unsafe { directory.addresses_avx512(rows, addresses) }
    }

    #[inline(always)]
    fn pairs(directory: &Directory, probes: &[Probe], pairs: &mut [Pair]) {
        debug_assert!(super::instructions::has_avx512());
        // SAFETY: as above.
        unsafe { directory.pairs_avx512(probes, pairs) }
    }
}

/// Looks up blocks one by one, like the portable form.
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

/// Looks up blocks one by one, like the portable form. A NEON register has room for only two keys,
/// and NEON cannot gather cells into registers.
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

/// Returns a group by its number.
#[inline(always)]
pub(super) fn group<T>(of: &[T], nth: usize) -> &[T] {
    &of[nth * GROUP..of.len().min((nth + 1) * GROUP)]
}

/// Prefetches the blocks of rows.
#[inline(always)]
pub(super) fn ask(blocks: &[BucketBlock], addresses: &[Address]) {
    addresses.iter().for_each(|address| prefetch(blocks, address.block as usize));
}

/// Prefetches the blocks of probes.
#[inline(always)]
pub(super) fn ask_pairs(blocks: &[BucketBlock], pairs: &[Pair]) {
    for pair in pairs {
        prefetch(blocks, pair.first as usize);
        prefetch(blocks, pair.last as usize);
    }
}

/// Prefetches the overflow blocks of the blocks that probes need. Most blocks have no overflow
/// block. For a block without an overflow block, the unused block, which always exists, is
/// prefetched instead.
#[inline(always)]
pub(super) fn ask_more(blocks: &[BucketBlock], pairs: &[Pair]) {
    for pair in pairs {
        prefetch(blocks, blocks[pair.first as usize].more as usize);
        prefetch(blocks, blocks[pair.last as usize].more as usize);
    }
}
