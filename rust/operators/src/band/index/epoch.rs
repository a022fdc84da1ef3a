//! The rows that are joined together, and their probes.

use std::ops::Range;

use tidegate_structures::index::Probe;
use tidegate_structures::memory;

use super::bands::Bands;
use crate::rows::Side;

/// The rows in an epoch, both in merged order and grouped by side.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    pub(super) ts: Vec<i64>,
    pub(super) sides: Vec<Side>,
    /// For each row, the number of earlier rows on the same side in the epoch.
    ranks: Vec<u32>,
    /// The number of each side's first row.
    first: [u64; 2],
    /// The probes of each side's rows, for the indexed column. If a row cannot match anything, its
    /// probe has an empty range of numbers.
    probes: [Vec<Probe>; 2],
    /// The codes that the rows match, for each side and each unindexed column.
    further: [Vec<Vec<(i64, i64)>>; 2],
}

impl Epoch {
    /// Begins an epoch, given the number of each side's first row. The probes of the rows are
    /// [pushed](Self::push) row by row.
    pub(super) fn begin(
        &mut self,
        ts: Vec<i64>,
        sides: Vec<Side>,
        first: [u64; 2],
        bands: [&[Bands<'_>]; 2],
    ) {
        self.ranks.clear();
        memory::reserve(&mut self.ranks, ts.len());
        let left = sides.iter().filter(|&&side| side == Side::Left).count();
        let rows = [left, ts.len() - left];
        (self.ts, self.sides, self.first) = (ts, sides, first);
        let sides = self.probes.iter_mut().zip(&mut self.further);
        for (((probes, further), bands), rows) in sides.zip(bands).zip(rows) {
            probes.clear();
            memory::reserve(probes, rows);
            further.clear();
            let ranges = |band: &Bands<'_>| {
                memory::collect(band.low.iter().copied().zip(band.high.iter().copied()))
            };
            further.extend(bands.iter().skip(1).map(ranges));
        }
    }

    /// Adds the probe of the next row on a side.
    #[inline]
    pub(super) fn push(&mut self, side: Side, probe: Probe) {
        let probes = &mut self.probes[side as usize];
        self.ranks.push(probes.len() as u32);
        probes.push(probe);
    }

    pub(super) fn len(&self) -> usize {
        self.ts.len()
    }

    /// Returns the number of a side's first row.
    pub(super) fn first(&self, side: usize) -> u64 {
        self.first[side]
    }

    /// Returns how many rows on each side precede a row.
    #[inline]
    pub(super) fn before(&self, row: usize) -> [usize; 2] {
        let Some(&rank) = self.ranks.get(row) else {
            return [0, 1].map(|side: usize| self.probes[side].len());
        };
        let (own, other) = (rank as usize, row - rank as usize);
        if self.sides[row] == Side::Left { [own, other] } else { [other, own] }
    }

    /// Returns the low bits of a row's number within its side.
    #[inline]
    pub(super) fn number(&self, row: usize) -> u32 {
        (self.first[self.sides[row] as usize] as u32).wrapping_add(self.ranks[row])
    }

    /// Returns the probe of a row.
    #[inline]
    pub(super) fn probe(&self, row: usize) -> &Probe {
        self.probe_of(self.sides[row], self.ranks[row] as usize)
    }

    /// Returns the probe of a row on one side.
    #[inline]
    pub(super) fn probe_of(&self, side: Side, rank: usize) -> &Probe {
        &self.probes[side as usize][rank]
    }

    /// Returns the probes of some rows on one side.
    pub(super) fn probes(&self, side: Side, ranks: Range<usize>) -> &[Probe] {
        &self.probes[side as usize][ranks]
    }

    /// Returns whether columns other than the indexed one have bands.
    pub(super) fn has_further(&self) -> bool {
        self.further.iter().any(|columns| !columns.is_empty())
    }

    /// Returns the codes that a row matches in each unindexed column.
    #[inline]
    pub(super) fn further(&self, side: Side, rank: usize) -> impl Iterator<Item = (i64, i64)> {
        self.further[side as usize].iter().map(move |ranges| ranges[rank])
    }

    /// Returns a row's position among the rows on its side.
    #[inline]
    pub(super) fn rank(&self, row: usize) -> usize {
        self.ranks[row] as usize
    }
}
