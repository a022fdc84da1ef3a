//! A set of ranks that looks up members by their position in the set.

use tidegate_structures::memory;

/// The number of bits in a word.
const WORD: usize = u64::BITS as usize;

/// A set of numbers below a bound. Given a number, the set finds the member with exactly that many
/// smaller members. For each series of searches, the set remembers where the last search ended. The
/// next search in the series continues from there. The cost of a search is proportional to the
/// number of words between the two positions.
#[derive(Debug, Default)]
pub(super) struct RankSet {
    /// One bit per number.
    words: Vec<u64>,
    len: usize,
    /// The position where the last search of each series ended.
    series: Vec<SearchPlace>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SearchPlace {
    at: usize,
    /// The number of members below `at`.
    below: usize,
}

impl RankSet {
    /// Empties the set, and prepares it for numbers below `bound` and this many series of searches.
    pub(super) fn clear(&mut self, bound: usize, series: usize) {
        self.words.clear();
        memory::reserve(&mut self.words, bound.div_ceil(WORD));
        self.words.resize(bound.div_ceil(WORD), 0);
        self.len = 0;
        self.series.clear();
        self.series.resize(series, SearchPlace::default());
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Inserts a number, which must not be in the set.
    #[inline]
    pub(super) fn insert(&mut self, rank: usize) {
        self.words[rank / WORD] |= 1 << (rank % WORD);
        self.len += 1;
        for found in &mut self.series {
            found.below += usize::from(rank < found.at);
        }
    }

    /// Removes a number, which must be in the set.
    #[inline]
    pub(super) fn remove(&mut self, rank: usize) {
        self.words[rank / WORD] &= !(1 << (rank % WORD));
        self.len -= 1;
        for found in &mut self.series {
            found.below -= usize::from(rank < found.at);
        }
    }

    /// Finds the member that has exactly `smaller` smaller members, as the next search in a series.
    /// The set must have more than `smaller` members.
    #[inline]
    pub(super) fn find(&mut self, series: usize, smaller: usize) -> usize {
        let SearchPlace { at, below } = self.series[series];
        let (mut word, bit) = (at / WORD, at % WORD);
        // The members in the word below this bit, and the number of all members below it.
        let low = (1 << bit) - 1;
        let mut bits = self.words[word];
        let mut below = below - (bits & low).count_ones() as usize;
        while below > smaller {
            word -= 1;
            bits = self.words[word];
            below -= bits.count_ones() as usize;
        }
        loop {
            let count = bits.count_ones() as usize;
            if below + count > smaller {
                break;
            }
            below += count;
            word += 1;
            bits = self.words[word];
        }
        for _ in below..smaller {
            bits &= bits - 1;
        }
        let at = word * WORD + bits.trailing_zeros() as usize;
        self.series[series] = SearchPlace { at, below: smaller };
        at
    }

    /// Returns the smallest member greater than `rank`. There must be such a member.
    #[inline]
    pub(super) fn next(&self, rank: usize) -> usize {
        let mut word = rank / WORD;
        let mut bits = self.words[word] & (u64::MAX << (rank % WORD) << 1);
        while bits == 0 {
            word += 1;
            bits = self.words[word];
        }
        word * WORD + bits.trailing_zeros() as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn oracle_a_sorted_set(
            bound in 1..700_usize,
            moves in prop::collection::vec((0..700_usize, 0..700_usize), 1..400),
        ) {
            let mut set = RankSet::default();
            set.clear(3, 1);
            set.insert(1);
            prop_assert_eq!(set.find(0, 0), 1);
            set.clear(bound, 2);
            let mut expected = BTreeSet::new();
            for (rank, smaller) in moves {
                let rank = rank % bound;
                match expected.remove(&rank) {
                    true => set.remove(rank),
                    false => {
                        expected.insert(rank);
                        set.insert(rank);
                    }
                }
                prop_assert_eq!(set.len(), expected.len());
                let members: Vec<usize> = expected.iter().copied().collect();
                if !members.is_empty() {
                    let smaller = smaller % members.len();
                    prop_assert_eq!(set.find(rank % 2, smaller), members[smaller]);
                }
                for pair in members.windows(2) {
                    prop_assert_eq!(set.next(pair[0]), pair[1]);
                }
            }
        }
    }
}
