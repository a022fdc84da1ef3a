//! Computes the blocks of eight keys at a time, with wide instructions.

use std::arch::x86_64::*;

use super::{Address, Cell, Directory, EVEN, Pair, is_vague};
use crate::index::{Entry, Probe};

/// The number of keys that are looked up together.
const LANES: usize = 8;

/// The positions of eight keys in the root's cells. For keys beyond all cells, all fields are zero.
struct Spots {
    /// The numbers and contents of the cells.
    at: __m512i,
    extents: __m512i,
    /// The blocks and codes of the keys. A block is valid only if its cell divides the keys evenly.
    blocks: __m512i,
    codes: __m512i,
}

impl Directory {
    /// Does the same as [`address`](Self::address) for each row.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    #[inline]
    pub(in super::super) fn addresses_avx512(&self, rows: &[Entry], addresses: &mut [Address]) {
        const { assert!(size_of::<Entry>() == 16 && std::mem::offset_of!(Entry, key) == 0) };
        const { assert!(size_of::<Address>() == 8 && std::mem::offset_of!(Address, code) == 4) };
        let keys_of = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
        let (eights, rest) = rows.as_chunks::<LANES>();
        for (rows, addresses) in eights.iter().zip(addresses.chunks_exact_mut(LANES)) {
            let from = rows.as_ptr().cast::<__m512i>();
            // SAFETY: eight entries have 128 bytes. The bytes after a row's number are not used.
            let (a, b) = unsafe { (_mm512_loadu_si512(from), _mm512_loadu_si512(from.add(1))) };
            let distances = self.distances_avx512(_mm512_permutex2var_epi64(a, keys_of, b));
            let inside = _mm512_cmple_epu64_mask(distances, self.span_avx512());
            let spots = self.spots(distances, inside);
            let written = _mm512_or_si512(spots.blocks, _mm512_slli_epi64::<32>(spots.codes));
            // SAFETY: eight addresses have 64 bytes: numbers of 32 and 16 bits, and unused bytes in
            // the last 16 bits.
            unsafe { _mm512_storeu_si512(addresses.as_mut_ptr().cast(), written) };
            for lane in lanes(_mm512_test_epi64_mask(spots.extents, _mm512_set1_epi64(3))) {
                addresses[lane] = self.address(&rows[lane]);
            }
        }
        for (row, address) in rest.iter().zip(&mut addresses[rows.len() - rest.len()..]) {
            *address = self.address(row);
        }
    }

    /// Does the same as [`pair`](Self::pair) for each probe.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    #[inline]
    pub(in super::super) fn pairs_avx512(&self, probes: &[Probe], pairs: &mut [Pair]) {
        const { assert!(size_of::<Probe>() == 24 && std::mem::offset_of!(Probe, high) == 8) };
        const { assert!(size_of::<Pair>() == 16 && std::mem::offset_of!(Pair, codes) == 8) };
        const {
            assert!(
                std::mem::offset_of!(Pair, is_all) == 12
                    && std::mem::offset_of!(Pair, is_vague) == 13
            )
        };
        let is_vague = _mm512_set1_epi64(i64::from(is_vague(self.shift)) << 40);
        let (eights, rest) = probes.as_chunks::<LANES>();
        for (probes, pairs) in eights.iter().zip(pairs.chunks_exact_mut(LANES)) {
            let from = probes.as_ptr().cast::<__m512i>();
            // SAFETY: eight probes have 192 bytes. The bytes after a probe's ends are not used.
            let parts = unsafe {
                [
                    _mm512_loadu_si512(from),
                    _mm512_loadu_si512(from.add(1)),
                    _mm512_loadu_si512(from.add(2)),
                ]
            };
            let (low, high) = (thirds::<0>(parts), thirds::<1>(parts));
            let (low, high) = (self.distances_avx512(low), self.distances_avx512(high));
            let inside = _mm512_mask_cmple_epu64_mask(
                _mm512_cmple_epu64_mask(low, high),
                high,
                self.span_avx512(),
            );
            let (first, last) = (self.spots(low, inside), self.spots(high, inside));
            let one_cell = _mm512_mask_cmpeq_epu64_mask(inside, first.at, last.at);
            let step = _mm512_sub_epi64(last.blocks, first.blocks);
            let all = _mm512_mask_cmple_epu64_mask(one_cell, step, _mm512_set1_epi64(1));
            let blocks = _mm512_or_si512(first.blocks, _mm512_slli_epi64::<32>(last.blocks));
            let codes = _mm512_or_si512(first.codes, _mm512_slli_epi64::<16>(last.codes));
            let is_all = _mm512_maskz_set1_epi64(all, 1 << 32);
            let others = _mm512_or_si512(_mm512_or_si512(codes, is_all), is_vague);
            let (front, back) = (
                _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0),
                _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4),
            );
            let to = pairs.as_mut_ptr().cast::<__m512i>();
            // SAFETY: eight pairs have 128 bytes: their numbers, and 0 or 1 in the bytes of their
            // flags.
            unsafe {
                _mm512_storeu_si512(to, _mm512_permutex2var_epi64(blocks, front, others));
                _mm512_storeu_si512(to.add(1), _mm512_permutex2var_epi64(blocks, back, others));
            }
            let extents = _mm512_or_si512(first.extents, last.extents);
            for lane in lanes(_mm512_test_epi64_mask(extents, _mm512_set1_epi64(3))) {
                pairs[lane] = self.pair(&probes[lane]);
            }
        }
        for (probe, pair) in rest.iter().zip(&mut pairs[probes.len() - rest.len()..]) {
            *pair = self.pair(probe);
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn distances_avx512(&self, keys: __m512i) -> __m512i {
        _mm512_sub_epi64(keys, _mm512_set1_epi64(self.start))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn span_avx512(&self) -> __m512i {
        _mm512_set1_epi64(self.span.cast_signed())
    }

    /// Returns the positions of the keys at those distances that are within the span.
    ///
    /// # Panics
    ///
    /// Panics if there are no cells, or if there is no cell for a distance within the span.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn spots(&self, distances: __m512i, inside: __mmask8) -> Spots {
        const { assert!(EVEN == 0) };
        let at = _mm512_srl_epi64(distances, _mm_cvtsi32_si128(self.shift.cast_signed()));
        let cells =
            _mm512_maskz_mov_epi64(inside, self.cells_at(_mm512_maskz_mov_epi64(inside, at)));
        // This is the same computation as in `code`.
        let up = _mm_cvtsi32_si128((u64::BITS - 1 - self.shift).cast_signed());
        let codes = _mm512_sll_epi64(_mm512_slli_epi64::<1>(distances), up);
        let codes = _mm512_maskz_srli_epi64::<48>(inside, codes);
        // This is the same computation as in `Cell::nth`.
        let extents = _mm512_srli_epi64::<32>(cells);
        let nth = _mm512_srli_epi64::<16>(_mm512_mul_epu32(codes, _mm512_srli_epi64::<2>(extents)));
        let base = _mm512_and_si512(cells, _mm512_set1_epi64(i64::from(u32::MAX)));
        Spots { at, extents, blocks: _mm512_add_epi64(base, nth), codes }
    }

    /// Loads the eight cells with the given numbers. In each result, the lower half is the cell's
    /// base, and the upper half is its extent. No gather instruction is used, for the reason given
    /// in [`gather`](crate::memory::gather).
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn cells_at(&self, numbers: __m512i) -> __m512i {
        let mut at = [0_u64; LANES];
        // SAFETY: the array is 64 bytes long.
        unsafe { _mm512_storeu_si512(at.as_mut_ptr().cast(), numbers) };
        let [a, b, c, d, e, f, g, h] = at.map(|at| {
            let Cell { base, extent } = self.cells[at as usize];
            (u64::from(extent) << 32 | u64::from(base)).cast_signed()
        });
        _mm512_set_epi64(h, g, f, e, d, c, b, a)
    }
}

/// Returns every third number out of 24, starting with the first or the second.
#[target_feature(enable = "avx512f")]
#[inline]
fn thirds<const FROM: i64>([a, b, c]: [__m512i; 3]) -> __m512i {
    let front = _mm512_set_epi64(0, 0, 15 + FROM, 12 + FROM, 9 + FROM, 6 + FROM, 3 + FROM, FROM);
    let back = _mm512_set_epi64(5 + FROM, 2 + FROM, FROM - 1, 0, 0, 0, 0, 0);
    // The sixteenth number and those after it are in the third part.
    let in_back = if FROM == 0 { 0b1100_0000 } else { 0b1110_0000 };
    _mm512_mask_permutexvar_epi64(_mm512_permutex2var_epi64(a, front, b), in_back, back, c)
}

/// Returns the positions of the bits that are set.
#[inline(always)]
fn lanes(mut mask: __mmask8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::{instructions::has_avx512, store::BlockStore};
    use super::super::{Maker, Margins};
    use super::*;

    /// Returns keys in clusters of different densities. Some cells have child cells, and others
    /// contain a single key.
    fn keys() -> Vec<i64> {
        let spread = (0..4_000).map(|nth| nth * 1_000_003);
        let dense = (0..4_000).map(|nth| 1_000_000_000 + nth * nth % 2_003);
        let mut keys: Vec<i64> =
            spread.chain(dense).chain([77; 300]).chain([i64::MIN, i64::MAX]).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn oracle_eight_keys_are_where_each_is() {
        if !has_avx512() {
            return;
        }
        let all = keys();
        for keys in [&all[..], &all[1..all.len() - 1], &all[..2], &[], &[5]] {
            let mut store = BlockStore::new(10_000);
            let mut maker = Maker { store: &mut store, rows_of_block: 5, first: 0 };
            let directory = Directory::new(keys, Margins::default(), &mut maker);
            let ends: Vec<i64> = all
                .iter()
                .flat_map(|&key| [key.saturating_sub(3), key, key.saturating_add(900)])
                .collect();
            let rows: Vec<Entry> =
                ends.iter().zip(0..).map(|(&key, row)| Entry { key, row }).collect();
            let mut addresses = vec![Address::default(); rows.len()];
            // SAFETY: the processor has the instructions.
            unsafe { directory.addresses_avx512(&rows, &mut addresses) };
            rows.iter()
                .zip(&addresses)
                .for_each(|(row, &found)| assert_eq!(found, directory.address(row)));
            for step in [0, 1, 2, 5, 100] {
                let probe = |(&low, &high): (&i64, &i64)| Probe { low, high, from: 0, to: 9 };
                let mut probes: Vec<Probe> = ends.iter().zip(&ends[step..]).map(probe).collect();
                probes.truncate(probes.len() / 16 * 16 - 3);
                let mut pairs = vec![Pair::default(); probes.len()];
                // SAFETY: as above.
                unsafe { directory.pairs_avx512(&probes, &mut pairs) };
                for (probe, found) in probes.iter().zip(&pairs) {
                    let pair = directory.pair(probe);
                    assert_eq!(found.is_all, pair.is_all, "{probe:?}");
                    assert!(!found.is_all || *found == pair, "{probe:?}: {found:?}, {pair:?}");
                }
            }
        }
    }
}
