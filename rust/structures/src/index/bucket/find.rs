//! Finds the matching rows for many probes at a time.

use super::BucketIndex;
use super::ask::{GROUP, Groups, Lookup, UNDER_WAY, ask_more, ask_pairs, group};
use super::block::{Bits, BucketBlock, Codes, Kernel, LANES, NOBODYS};
use super::directory::Pair;
use crate::index::{Probe, WindowIndex};

/// The maximum number of rows that a probe can find in two blocks and their overflow blocks. The
/// constant below is the maximum number of rows that a group of probes can find.
const ROWS_OF_PAIR: usize = 4 * LANES;
const ROWS_OF_GROUP: usize = GROUP * ROWS_OF_PAIR;

/// Returns all bits or none.
#[inline(always)]
fn only_if(is_so: bool) -> Bits {
    Bits::from(is_so).wrapping_neg()
}

impl BucketIndex {
    /// Writes the rows that match the probe in two blocks and their overflow blocks. No other
    /// blocks may contain such rows. Returns the number of rows.
    #[inline(always)]
    fn find_pair<K: Kernel>(
        &self,
        blocks: &[BucketBlock],
        pair: &Pair,
        probe: &Probe,
        out: &mut [u32; ROWS_OF_PAIR],
    ) -> Option<usize> {
        if !pair.is_all {
            return None;
        }
        let two = [pair.first, pair.last].map(|at| &blocks[at as usize]);
        // Two blocks are always processed, even if there is only one, because the number of blocks
        // cannot be predicted.
        let are_two = only_if(pair.first != pair.last);
        let len = self.find_two::<K>(two, [Bits::MAX, are_two], pair, probe, out, 0);
        let more = two.map(|block| block.more);
        if more == [NOBODYS; 2] {
            return Some(len);
        }
        let two = more.map(|at| &blocks[at as usize]);
        if two.map(|block| block.more) != [NOBODYS; 2] {
            return None;
        }
        let are_there = [only_if(more[0] != NOBODYS), only_if(more[1] != NOBODYS) & are_two];
        Some(self.find_two::<K>(two, are_there, pair, probe, out, len))
    }

    /// From the matching rows in two blocks, writes those whose bits are set. The rows are written
    /// after `len` other rows. Returns the new number of rows.
    #[inline(always)]
    fn find_two<K: Kernel>(
        &self,
        two: [&BucketBlock; 2],
        bits: [Bits; 2],
        pair: &Pair,
        probe: &Probe,
        out: &mut [u32; ROWS_OF_PAIR],
        mut len: usize,
    ) -> usize {
        // There are no closures, because the compiler would not use the wide instructions in them.
        let (first, of_first) = K::matching(two[0], pair.codes, probe);
        let (last, of_last) = K::matching(two[1], pair.codes, probe);
        let mut taken = [first, last];
        if pair.is_vague && of_first | of_last != 0 {
            taken[0] ^= self.wrong(two[0], of_first, probe);
            taken[1] ^= self.wrong(two[1], of_last, probe);
        }
        for nth in 0..2 {
            let there = (&mut out[len..len + LANES]).try_into().expect("as many");
            len += K::append(two[nth], taken[nth] & bits[nth], there);
        }
        len
    }

    /// Appends the matching rows from any number of blocks, and from the rows beyond the directory.
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

    /// Appends the matching rows in a block and its overflow blocks.
    #[inline(always)]
    fn find_chain<K: Kernel>(
        &self,
        mut at: u32,
        codes: Codes,
        is_vague: bool,
        probe: &Probe,
        found: &mut Vec<u32>,
    ) {
        while at != NOBODYS {
            let block = &self.store.blocks[at as usize];
            let (mut taken, ends) = K::matching(block, codes, probe);
            if is_vague && ends != 0 {
                taken ^= self.wrong(block, ends, probe);
            }
            // The rows are written directly to their final position. Copying a few rows, whose
            // number cannot be predicted, would take longer than clearing some.
            let len = found.len();
            found.resize(len + LANES, 0);
            let more = K::append(block, taken, (&mut found[len..]).try_into().expect("as many"));
            found.truncate(len + more);
            at = block.more;
        }
    }

    /// Among the rows whose bits are set, returns those whose keys do not match the probe.
    #[inline(never)]
    fn wrong(&self, block: &BucketBlock, mut bits: Bits, probe: &Probe) -> Bits {
        let mut wrong = 0;
        while bits != 0 {
            let key = self.key(block.row_of(bits));
            let bit = bits & bits.wrapping_neg();
            wrong |= if (probe.low..=probe.high).contains(&key) { 0 } else { bit };
            bits ^= bit;
        }
        wrong
    }

    /// Finds the rows that match each probe, while the blocks of the next groups are being
    /// prefetched. Probes that may match rows in more than two blocks use `find_run`.
    #[inline(always)]
    pub(super) fn find_each<K: Kernel + Lookup>(
        &self,
        probes: &[Probe],
        found: &mut Vec<u32>,
        ends: &mut Vec<u32>,
        find_run: impl Fn(&Probe, &mut Vec<u32>),
    ) {
        let blocks: &[BucketBlock] = &self.store.blocks;
        let mut groups: Groups<Pair> = Default::default();
        let (mut out, mut len) = ([0; ROWS_OF_GROUP], 0);
        let count = probes.len().div_ceil(GROUP);
        for step in 0..count + UNDER_WAY - 1 {
            let before = |steps: usize| step.checked_sub(steps).filter(|&nth| nth < count);
            if let Some(nth) = before(0) {
                K::pairs(&self.directory, group(probes, nth), &mut groups[nth % UNDER_WAY]);
            }
            if let Some(nth) = before(1) {
                ask_pairs(blocks, &groups[nth % UNDER_WAY]);
            }
            if let Some(nth) = before(UNDER_WAY - 2) {
                ask_more(blocks, &groups[nth % UNDER_WAY]);
            }
            let Some(nth) = before(UNDER_WAY - 1) else { continue };
            for (probe, pair) in group(probes, nth).iter().zip(&groups[nth % UNDER_WAY]) {
                let there = (&mut out[len..len + ROWS_OF_PAIR]).try_into().expect("as many");
                if let Some(more) = self.find_pair::<K>(blocks, pair, probe, there) {
                    len += more;
                } else {
                    found.extend_from_slice(&out[..len]);
                    len = 0;
                    find_run(probe, found);
                }
                ends.push((found.len() + len) as u32);
            }
            found.extend_from_slice(&out[..len]);
            len = 0;
        }
    }
}
