//! Looks for what probes take, many at a time.

use super::block::{Bits, Block, Kernel, LANES};
use super::directory::{Codes, Directory, Pair};
use super::store::NOBODYS;
use super::{AHEAD, BucketIndex};
use crate::gather::prefetch;
use crate::index::{Probe, WindowIndex};

/// Room for the rows that a probe takes of two blocks and the ones behind them, and of some probes.
const ROWS_OF_PAIR: usize = 4 * LANES;
const ROWS_TOGETHER: usize = 8 * ROWS_OF_PAIR;

impl BucketIndex {
    /// Writes what the probe takes of two blocks and of the ones behind them, if that is all it may take; how many rows.
    #[inline(always)]
    fn find_pair<K: Kernel>(
        &self,
        blocks: &[Block],
        pair: &Pair,
        probe: &Probe,
        out: &mut [u32; ROWS_OF_PAIR],
    ) -> Option<usize> {
        if !pair.is_all {
            return None;
        }
        let (first, last) = (&blocks[pair.first as usize], &blocks[pair.last as usize]);
        // Two blocks are looked at even where they are one, since how many they are cannot be predicted.
        let are_two = Bits::from(pair.first != pair.last).wrapping_neg();
        let mut len = self.find_block::<K>(first, Bits::MAX, pair, probe, out, 0);
        len = self.find_block::<K>(last, are_two, pair, probe, out, len);
        if first.more | last.more != NOBODYS {
            let is_there = |more: u32| Bits::from(more != NOBODYS).wrapping_neg();
            let (of_first, of_last) = (is_there(first.more), is_there(last.more) & are_two);
            let (first, last) = (&blocks[first.more as usize], &blocks[last.more as usize]);
            if first.more | last.more != NOBODYS {
                return None;
            }
            len = self.find_block::<K>(first, of_first, pair, probe, out, len);
            len = self.find_block::<K>(last, of_last, pair, probe, out, len);
        }
        Some(len)
    }

    /// Writes what the probe takes of those rows of a block that have a bit behind `len` other ones; how many there are then.
    #[inline(always)]
    fn find_block<K: Kernel>(
        &self,
        block: &Block,
        bits: Bits,
        pair: &Pair,
        probe: &Probe,
        out: &mut [u32; ROWS_OF_PAIR],
        len: usize,
    ) -> usize {
        let (mut taken, ends) = K::matching(block, pair.codes, probe);
        if pair.is_vague && ends != 0 {
            taken ^= self.wrong(block, ends, probe);
        }
        len + K::append(block, taken & bits, (&mut out[len..len + LANES]).try_into().expect("as many"))
    }

    /// Adds what the probe takes of as many blocks as there are, and of the rows beyond.
    #[inline(always)]
    pub(super) fn find_run<K: Kernel>(&self, probe: &Probe, found: &mut Vec<u32>) {
        if probe.low > probe.high {
            return;
        }
        if self.directory.is_beyond(probe.low).0 || self.directory.is_beyond(probe.high).1 {
            self.beyond.find(probe, found);
        }
        let Some((from, to)) = self.directory.distances(probe.low, probe.high) else { return };
        let mut leaf = self.directory.leaf(from);
        loop {
            let (blocks, codes) = leaf.part(from, to);
            for at in blocks {
                self.find_chain::<K>(at, codes, leaf.is_vague(), probe, found);
            }
            if leaf.last() >= to {
                return;
            }
            leaf = self.directory.leaf(leaf.last() + 1);
        }
    }

    /// Adds what the probe takes of a block and the ones behind it.
    #[inline(always)]
    fn find_chain<K: Kernel>(&self, mut at: u32, codes: Codes, is_vague: bool, probe: &Probe, found: &mut Vec<u32>) {
        while at != NOBODYS {
            let block = &self.store.blocks[at as usize];
            let (mut taken, ends) = K::matching(block, codes, probe);
            if is_vague && ends != 0 {
                taken ^= self.wrong(block, ends, probe);
            }
            // Into place at once: to copy a few rows, whose number nothing can predict, takes longer than to clear some.
            let len = found.len();
            found.resize(len + LANES, 0);
            let more = K::append(block, taken, (&mut found[len..]).try_into().expect("as many"));
            found.truncate(len + more);
            at = block.more;
        }
    }

    /// Which of the rows with a bit have keys that the probe does not take.
    #[inline(never)]
    fn wrong(&self, block: &Block, mut bits: Bits, probe: &Probe) -> Bits {
        let mut wrong = 0;
        while bits != 0 {
            let key = self.key(block.row_of(bits));
            let bit = bits & bits.wrapping_neg();
            wrong |= if (probe.low..=probe.high).contains(&key) { 0 } else { bit };
            bits ^= bit;
        }
        wrong
    }

    /// Finds what each probe takes, while the blocks of the next probes are on their way. `find_run` does so for one that may
    /// take rows of more than two blocks.
    #[inline(always)]
    pub(super) fn find_each<K: Kernel>(
        &self,
        probes: &[Probe],
        found: &mut Vec<u32>,
        ends: &mut Vec<u32>,
        find_run: impl Fn(&Probe, &mut Vec<u32>),
    ) {
        let blocks: &[Block] = &self.store.blocks;
        let mut pairs = [Pair::default(); AHEAD];
        for (pair, probe) in pairs.iter_mut().zip(probes) {
            *pair = ask_pair(&self.directory, blocks, probe);
        }
        let (mut out, mut len) = ([0; ROWS_TOGETHER], 0);
        for (nth, probe) in probes.iter().enumerate() {
            if len > ROWS_TOGETHER - ROWS_OF_PAIR {
                found.extend_from_slice(&out[..len]);
                len = 0;
            }
            let pair = &mut pairs[nth % AHEAD];
            let this = *pair;
            if let Some(next) = probes.get(nth + AHEAD) {
                *pair = ask_pair(&self.directory, blocks, next);
            }
            let there = (&mut out[len..len + ROWS_OF_PAIR]).try_into().expect("as many");
            if let Some(more) = self.find_pair::<K>(blocks, &this, probe, there) {
                len += more;
            } else {
                found.extend_from_slice(&out[..len]);
                len = 0;
                find_run(probe, found);
            }
            ends.push((found.len() + len) as u32);
        }
        found.extend_from_slice(&out[..len]);
    }
}

/// Asks for the blocks of a probe.
#[inline(always)]
fn ask_pair(directory: &Directory, blocks: &[Block], probe: &Probe) -> Pair {
    let pair = directory.pair(probe.low, probe.high);
    prefetch(blocks, pair.first as usize);
    prefetch(blocks, pair.last as usize);
    pair
}
