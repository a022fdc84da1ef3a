//! A set of row numbers, with one bit per number.

/// A set of numbers below a fixed length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitSet {
    words: Vec<u64>,
    len: usize,
}

impl BitSet {
    /// Creates an empty set of numbers below `len`.
    pub fn new(len: usize) -> Self {
        BitSet { words: vec![0; len.div_ceil(64)], len }
    }

    /// Adds `number` to the set.
    pub fn insert(&mut self, number: usize) {
        debug_assert!(number < self.len);
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Adds all numbers in `start..end` to the set, one word at a time.
    pub fn insert_range(&mut self, start: usize, end: usize) {
        debug_assert!(start <= end && end <= self.len);
        if start == end {
            return;
        }
        let (first, last) = (start / 64, (end - 1) / 64);
        let head = u64::MAX << (start % 64);
        let tail = u64::MAX >> (63 - (end - 1) % 64);
        if first == last {
            self.words[first] |= head & tail;
        } else {
            self.words[first] |= head;
            self.words[first + 1..last].fill(u64::MAX);
            self.words[last] |= tail;
        }
    }

    /// Returns whether `number` is in the set.
    pub fn contains(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 == 1
    }

    /// Removes the numbers that are not in `other`. Both sets must have the same length.
    pub fn intersect(&mut self, other: &BitSet) {
        assert_eq!(self.len, other.len, "both sets have the same length");
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Returns the numbers in the set, in ascending order.
    pub fn present(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }

    /// Returns the numbers below the set's length that are not in the set, in ascending order.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        (0..self.len).filter(|number| !self.contains(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_set_exactly_their_bits() {
        for start in 0..200 {
            for end in start..200 {
                let mut set = BitSet::new(200);
                set.insert_range(start, end);
                assert!(
                    (0..200).all(|n| set.contains(n) == (start..end).contains(&n)),
                    "{start}..{end}"
                );
            }
        }
    }

    #[test]
    fn missing_lists_the_rest() {
        let mut set = BitSet::new(70);
        set.insert_range(1, 69);
        assert_eq!(set.missing().collect::<Vec<_>>(), [0, 69]);
        assert_eq!(set.present().collect::<Vec<_>>(), (1..69).collect::<Vec<_>>());
        set.insert(0);
        assert_eq!(set.missing().collect::<Vec<_>>(), [69]);
        let mut others = BitSet::new(70);
        others.insert_range(60, 70);
        set.intersect(&others);
        assert_eq!(set.present().collect::<Vec<_>>(), (60..69).collect::<Vec<_>>());
    }
}
