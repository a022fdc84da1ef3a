//! The side of each source in a join.

use tidegate_operators::rows::Side;
use tidegate_structures::gate::Tier;
use tidegate_structures::memory;

/// The sources that are on the left side. Of the sources that existed at the beginning, the left
/// ones have the lowest numbers. Sources that are added later get the next numbers, whatever their
/// sides.
#[derive(Clone, Debug)]
pub(in crate::stream) struct SourceSides {
    left: usize,
    first: usize,
    /// For each added source, its side and its number among the sources on that side.
    added: Vec<(Side, u16)>,
    counts: [usize; 2],
}

impl SourceSides {
    /// Creates the sides for `sources` sources, of which the first `left` are on the left side.
    pub(in crate::stream) fn new(left: usize, sources: usize) -> Self {
        SourceSides { left, first: sources, added: Vec::new(), counts: [left, sources - left] }
    }

    /// Returns the side of a source.
    #[inline]
    pub(in crate::stream) fn of(&self, source: u16) -> Side {
        let number = usize::from(source);
        match number.checked_sub(self.first) {
            None if number < self.left => Side::Left,
            None => Side::Right,
            Some(added) => self.added[added].0,
        }
    }

    /// Returns the side of each of these sources.
    pub(in crate::stream) fn of_each(&self, sources: &[u16]) -> Vec<Side> {
        if !self.added.is_empty() {
            return memory::collect(sources.iter().map(|&source| self.of(source)));
        }
        // This takes one comparison per source, which the processor makes for many sources at a
        // time.
        let left = self.left;
        let of = |&source: &u16| if usize::from(source) < left { Side::Left } else { Side::Right };
        memory::collect(sources.iter().map(of))
    }

    /// Returns a source's number among the sources on the same side.
    pub(in crate::stream) fn within(&self, source: u16) -> u16 {
        match usize::from(source).checked_sub(self.first) {
            Some(added) => self.added[added].1,
            None if usize::from(source) < self.left => source,
            None => source - self.left as u16,
        }
    }

    /// Adds a source to this side.
    pub(in crate::stream) fn add(&mut self, side: Side) {
        let count = &mut self.counts[side as usize];
        self.added.push((side, *count as u16));
        *count += 1;
    }

    /// Returns the number of sources on a side.
    pub(in crate::stream) fn count(&self, side: Side) -> usize {
        self.counts[side as usize]
    }
}

/// Returns the tier of the sources on this side. Rows from left sources sort before other rows with
/// equal times, no matter when the sources were added.
pub(in crate::stream) fn tier(side: Option<Side>) -> Tier {
    match side {
        None | Some(Side::Left) => Tier::First,
        Some(Side::Right) => Tier::Last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_sources_are_numbered_among_those_of_their_side() {
        let mut sides = SourceSides::new(1, 3);
        sides.add(Side::Left);
        sides.add(Side::Right);
        let told: Vec<_> = (0..5).map(|source| (sides.of(source), sides.within(source))).collect();
        use Side::{Left, Right};
        assert_eq!(told, [(Left, 0), (Right, 0), (Right, 1), (Left, 1), (Right, 2)]);
        assert_eq!((sides.count(Left), sides.count(Right)), (2, 3));
        assert_eq!(sides.of_each(&[4, 0, 3]), [Right, Left, Left]);
        assert_eq!(SourceSides::new(1, 3).of_each(&[2, 0, 1]), [Right, Left, Right]);
    }
}
