//! A set of ranks that finds its members by their place.

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// A set of numbers below a bound. It finds the member that has `k` smaller ones in a number of
/// steps that grows with the logarithm of the bound.
///
/// Words have a bit for each number. Partial sums of their numbers of bits lie in a tree as in
/// Fenwick, "A new data structure for cumulative frequency tables" (1994).
#[derive(Debug, Default)]
pub(super) struct RankSet {
    words: Vec<u64>,
    /// The sum at `n` is of the words before `n`, as many as the lowest bit of `n` says.
    sums: Vec<u32>,
    len: usize,
}

impl RankSet {
    /// Makes it the empty set of numbers below `bound`.
    pub(super) fn clear(&mut self, bound: usize) {
        let words = bound.div_ceil(WORD);
        self.words.clear();
        self.words.resize(words, 0);
        self.sums.clear();
        self.sums.resize(words + 1, 0);
        self.len = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts a number in the set that is not there.
    #[inline]
    pub(super) fn insert(&mut self, rank: usize) {
        self.words[rank / WORD] |= 1 << (rank % WORD);
        self.add(rank / WORD, 1);
        self.len += 1;
    }

    /// Takes a number out of the set that is there.
    #[inline]
    pub(super) fn remove(&mut self, rank: usize) {
        self.words[rank / WORD] &= !(1 << (rank % WORD));
        self.add(rank / WORD, u32::MAX);
        self.len -= 1;
    }

    /// Adds to the sums of a word, modulo 2^32.
    #[inline]
    fn add(&mut self, word: usize, more: u32) {
        let mut at = word + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = sum.wrapping_add(more);
            at += at & at.wrapping_neg();
        }
    }

    /// The member that has `smaller` smaller ones; there are more members.
    #[inline]
    pub(super) fn select(&self, smaller: usize) -> usize {
        let (mut word, mut left) = (0, smaller as u32);
        let mut step = self.sums.len().next_power_of_two() / 2;
        while step > 0 {
            if let Some(&sum) = self.sums.get(word + step)
                && sum <= left
            {
                word += step;
                left -= sum;
            }
            step /= 2;
        }
        word * WORD + select_bit(self.words[word], left)
    }

    /// The smallest member above another one; there is one.
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

/// The place of the bit above `lower` other bits of a word, which has more.
///
/// Sums of bytes side by side, as in Vigna, "Broadword implementation of rank/select queries"
/// (2008).
#[inline]
fn select_bit(bits: u64, lower: u32) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let pairs = bits - ((bits >> 1) & (ONES * 0x55));
    let fours = (pairs & (ONES * 0x33)) + ((pairs >> 2) & (ONES * 0x33));
    let bytes = (fours + (fours >> 4)) & (ONES * 0x0f);
    // In each byte, the number of bits in it and below it.
    let sums = bytes.wrapping_mul(ONES);
    // One for each byte that does not reach beyond `lower` bits.
    let below = (((u64::from(lower) * ONES) | HIGH) - sums) & HIGH;
    let first = (below >> 7).wrapping_mul(ONES) >> 56 << 3;
    let left = u64::from(lower) - (sums << 8 >> first & 0xff);
    let mut byte = bits >> first & 0xff;
    for _ in 0..left {
        byte &= byte - 1;
    }
    (first + u64::from(byte.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn oracle_a_sorted_set(bound in 1..700_usize, moves in prop::collection::vec(0..700_usize, 1..400)) {
            let mut set = RankSet::default();
            set.clear(3);
            set.insert(1);
            set.clear(bound);
            let mut expected = BTreeSet::new();
            for rank in moves.into_iter().map(|rank| rank % bound) {
                match expected.remove(&rank) {
                    true => set.remove(rank),
                    false => {
                        expected.insert(rank);
                        set.insert(rank);
                    }
                }
                prop_assert_eq!(set.len(), expected.len());
                let members: Vec<usize> = expected.iter().copied().collect();
                for (smaller, member) in members.iter().enumerate() {
                    prop_assert_eq!(set.select(smaller), *member);
                }
                for pair in members.windows(2) {
                    prop_assert_eq!(set.next(pair[0]), pair[1]);
                }
            }
        }

        #[test]
        fn oracle_bit_by_bit(bits in prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 63)]) {
            let places = (0..64).filter(|place| bits >> place & 1 == 1);
            for (lower, place) in places.enumerate() {
                prop_assert_eq!(select_bit(bits, lower as u32), place);
            }
        }
    }
}
