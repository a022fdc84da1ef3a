//! The numbers of the rows in a window, in the form that a scan reads.

use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::simd::scan::{Lane, Span};

use super::Term;
use super::numbers::{Number, Numbers, Operand, with_values};
use crate::rows::Side;

/// A column of ranks. Ranks are stored relative to the rank of the smallest number. The rank of a
/// number that matches nothing is above every range.
#[derive(Debug)]
pub(super) struct RankColumn {
    /// The index of the term to which the column belongs.
    pub(super) term: usize,
    /// The rank of the smallest number.
    pub(super) base: u64,
    /// The largest rank minus the smallest.
    reach: u64,
    pub(super) ranks: Ranks,
}

#[derive(Debug)]
pub(super) enum Ranks {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Ranks {
    /// Appends other ranks, which must have the same width.
    pub(super) fn append(&mut self, more: Ranks) {
        match (self, more) {
            (Ranks::U32(all), Ranks::U32(more)) => all.extend(more),
            (Ranks::U64(all), Ranks::U64(more)) => all.extend(more),
            _ => panic!("all ranks of a column have one width"),
        }
    }

    /// Returns the memory held, in bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Ranks::U32(ranks) => ranks.capacity() * size_of::<u32>(),
            Ranks::U64(ranks) => ranks.capacity() * size_of::<u64>(),
        }
    }
}

impl RankColumn {
    pub(super) fn new(
        number: usize,
        term: &Term,
        side: Side,
        order: &dyn Fn(usize) -> usize,
        rows: usize,
    ) -> Option<Self> {
        let operand = term.operand(side);
        let (first, last) = operand.ends().unwrap_or((0, 0));
        // If 32 or 64 bits leave room, there is some on both sides for the numbers of future rows.
        let room =
            if last - first < u64::from(u32::MAX) { u64::from(u32::MAX) - 1 } else { u64::MAX - 1 };
        let base = first.saturating_sub(room.saturating_sub(last - first) / 2);
        let reach = last - base;
        let all_compare = || (0..rows).all(|nth| operand.compares(order(nth)));
        with_values!(&operand.numbers, values => {
            let rank = |nth: usize| operand.compares(order(nth)).then(|| values[order(nth)].rank() - base);
            let ranks = match reach {
                _ if reach < u64::from(u32::MAX) || reach == u64::from(u32::MAX) && all_compare() => {
                    Ranks::U32((0..rows).map(|nth| rank(nth).map_or(u32::MAX, |rank| rank as u32)).collect())
                }
                _ if reach < u64::MAX || all_compare() => {
                    Ranks::U64((0..rows).map(|nth| rank(nth).unwrap_or(u64::MAX)).collect())
                }
                _ => return None,
            };
            Some(RankColumn { term: number, base, reach, ranks })
        })
    }

    /// Appends rows of the operand. Returns whether all of the rows' numbers fit.
    pub(super) fn append(&mut self, operand: &Operand, rows: &[u32]) -> bool {
        let most = match self.ranks {
            Ranks::U32(_) => u64::from(u32::MAX) - 1,
            Ranks::U64(_) => u64::MAX - 1,
        };
        with_values!(&operand.numbers, values => {
            for row in rows.iter().map(|&row| row as usize) {
                let rank = match operand.compares(row) {
                    false => None,
                    true => match values[row].rank().checked_sub(self.base) {
                        Some(rank) if rank <= most => Some(rank),
                        _ => return false,
                    },
                };
                self.reach = self.reach.max(rank.unwrap_or(0));
                match &mut self.ranks {
                    Ranks::U32(ranks) => ranks.push(rank.map_or(u32::MAX, |rank| rank as u32)),
                    Ranks::U64(ranks) => ranks.push(rank.unwrap_or(u64::MAX)),
                }
            }
            self.reach <= most
        })
    }

    /// Restricts a range of ranks to the part that can contain numbers from this column.
    pub(super) fn span(&self, low: u64, high: u64) -> Option<Span<u64>> {
        let (low, high) = (low.max(self.base), high.min(self.base + self.reach));
        (low <= high).then(|| Span { low: low - self.base, width: high - low })
    }

    pub(super) fn bytes(&self) -> usize {
        match self.ranks {
            Ranks::U32(_) => 4,
            Ranks::U64(_) => 8,
        }
    }

    pub(super) fn prefetch(&self, place: usize) {
        match &self.ranks {
            Ranks::U32(ranks) => prefetch(ranks, place),
            Ranks::U64(ranks) => prefetch(ranks, place),
        }
    }

    /// Returns the rank at a position, relative to the smallest one.
    #[inline]
    pub(super) fn rank(&self, place: usize) -> u64 {
        match &self.ranks {
            Ranks::U32(ranks) => u64::from(ranks[place]),
            Ranks::U64(ranks) => ranks[place],
        }
    }

    /// Returns the ranks at the given positions.
    pub(super) fn ranks_at(&self, places: &[u32]) -> Ranks {
        match &self.ranks {
            Ranks::U32(ranks) => {
                Ranks::U32(places.iter().map(|&place| ranks[place as usize]).collect())
            }
            Ranks::U64(ranks) => {
                Ranks::U64(places.iter().map(|&place| ranks[place as usize]).collect())
            }
        }
    }

    #[inline]
    pub(super) fn within(&self, place: usize, span: Span<u64>) -> bool {
        self.rank(place).within(span)
    }
}
