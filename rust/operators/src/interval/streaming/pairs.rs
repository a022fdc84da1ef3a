//! Filters candidate pairs, and builds pairs from the matches of rows.

use tidegate_structures::memory;

use super::buffer::LANES;
use super::epoch::KeyedEpoch;
use super::replica::ReplicaMatches;
use crate::rows::{Filter, FilterError, Results, Side};

/// The number of candidates that are filtered together. The columns of this many candidates fit in
/// a core's cache.
pub(crate) const FILTER_PAIRS: usize = 1 << 12;

/// Removes the candidates that the filter rejects. Each element of `rows` contains a row's position
/// in the epoch and the position in `numbers` at which the row's candidates end. The candidates of
/// the first row begin at `first`. Returns how many numbers remain.
pub fn keep_filtered(
    epoch: &KeyedEpoch,
    filter: &Filter<'_>,
    rows: &mut [(u32, u32)],
    numbers: &mut [u32],
    first: usize,
) -> Result<usize, FilterError> {
    // 1. Build complete pairs.
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let mut begin = first;
    for &(row, end) in &*rows {
        let earlier = &numbers[begin..end as usize];
        let later = std::iter::repeat_n(epoch.numbers[row as usize], earlier.len());
        match epoch.sides[row as usize] {
            Side::Left => {
                left.extend(later);
                right.extend_from_slice(earlier);
            }
            Side::Right => {
                left.extend_from_slice(earlier);
                right.extend(later);
            }
        }
        begin = end as usize;
    }
    // 2. Determine which of them are kept.
    let mut keep = Vec::with_capacity(left.len());
    for (left, right) in left.chunks(FILTER_PAIRS).zip(right.chunks(FILTER_PAIRS)) {
        keep.extend(filter(left, right)?);
    }
    // 3. Remove the others.
    let (mut at, mut kept) = (first, first);
    for (_, end) in rows {
        while at < *end as usize {
            numbers[kept] = numbers[at];
            kept += usize::from(keep[at - first]);
            at += 1;
        }
        *end = kept as u32;
    }
    Ok(kept)
}

/// Builds results that consist only of pairs. The number of pairs must be known in advance.
#[derive(Debug)]
pub(super) struct PairResults {
    /// The offsets of left and right rows, followed by entries that can be overwritten.
    offsets: [Vec<u32>; 2],
    len: usize,
}

impl PairResults {
    pub(super) fn new(pairs: usize) -> Self {
        PairResults {
            offsets: [memory::filled(pairs + LANES, 0), memory::filled(pairs + LANES, 0)],
            len: 0,
        }
    }

    /// Adds one pair for each match of the row at `offset`. `first` is the number of the row with
    /// offset 0 on the other side.
    #[inline]
    pub(super) fn add(&mut self, side: Side, offset: u32, matches: ReplicaMatches<'_>, first: u32) {
        let (from, to) = (self.len, self.len + matches.len());
        // A fixed number is written, even if there are fewer matches: the next row overwrites the
        // surplus.
        self.offsets[side as usize][from..from + LANES].fill(offset);
        let lanes = matches.first_lanes().map(|number| number.wrapping_sub(first));
        self.offsets[side.other() as usize][from..from + LANES].copy_from_slice(&lanes);
        if matches.len() > LANES {
            self.offsets[side as usize][from..to].fill(offset);
            let others = self.offsets[side.other() as usize][from..to].iter_mut();
            others
                .zip(matches.numbers())
                .for_each(|(other, number)| *other = number.wrapping_sub(first));
        }
        self.len = to;
    }

    pub(super) fn finish(self) -> Results {
        let [left, right] = self.offsets.map(|mut offsets| {
            offsets.truncate(self.len);
            offsets
        });
        Results { left, right }
    }
}
