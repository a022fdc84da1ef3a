//! A tree of the latest ends among sorted rows.
//!
//! The rows of an index are sorted by key and start. Those that start before a left row ends are
//! adjacent, but only some of them end after it starts. The tree finds these: its leaves are the
//! ends, and each node contains the latest end among the 16 nodes below it. A search visits only
//! nodes whose latest end is late enough.
//!
//! ```text
//!   latest ends          9          6          8           looking for ends at or after 7
//!                     ╱ │ ╲      ╱ │ ╲      ╱ │ ╲
//!   ends             2  9  3    6  4  5    8  7  1         9, 8 and 7; the second node is skipped
//! ```
//!
//! The nodes of a level are an array, so there are no pointers. Nodes cover positions regardless of
//! keys, and a search is limited to the positions of its key. On each level, it visits at most two
//! nodes below which it finds no row: one at either end of these positions.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::gather::prefetch_range;
use tidegate_structures::memory::pages::{Pages, Slot};
use tidegate_structures::memory::select::select_within;

use super::by_place;
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::order::SideIndex;

/// The number of children of a node. Their ends fill two cache lines.
const CHILDREN: usize = if cfg!(test) { 4 } else { 16 };

/// The number of additional positions for which [`select_within`] needs memory, beyond those that
/// it appends.
const WIDTH: usize = 8;

/// The ends of the rows in a part of an index, and the latest end of each node above them.
///
/// ```
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_operators::order::{JoinColumns, SideIndex};
/// use tidegate_operators::overlap::EndTree;
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let starts = SideIndex::new(JoinColumns { ts: &[12, 0, 15], keys: None }, 1, &driver)?;
/// let ends = EndTree::new(&starts, &[14, 99, 20], &driver)?;
/// assert_eq!(ends.bytes(), 3 * 8);
/// # Ok::<(), Stopped>(())
/// ```
#[derive(Debug)]
pub struct EndTree {
    /// The ends, followed by the levels of nodes above them. The last level has at most
    /// [`CHILDREN`] nodes.
    levels: Vec<Pages<i64>>,
}

/// A search for the positions in a range whose rows end at or after `limit`.
#[derive(Clone, Debug, Default)]
pub(super) struct EndSearch {
    pub(super) range: Range<u32>,
    pub(super) limit: i64,
}

/// The positions that searches have found. The memory is kept for reuse.
#[derive(Debug, Default)]
pub(super) struct FoundEnds {
    nodes: Nodes,
    parents: Nodes,
}

/// Nodes of one level, for several searches.
#[derive(Debug, Default)]
struct Nodes {
    numbers: Vec<u32>,
    /// The position in `numbers` after each search's last node.
    ends: Vec<usize>,
}

impl FoundEnds {
    /// The number of positions found.
    pub(super) fn len(&self) -> usize {
        self.nodes.numbers.len()
    }

    /// Returns the positions found by a search, in ascending order.
    pub(super) fn of(&self, search: usize) -> &[u32] {
        self.nodes.of(search)
    }
}

impl Nodes {
    fn clear(&mut self) {
        self.numbers.clear();
        self.ends.clear();
    }

    fn of(&self, search: usize) -> &[u32] {
        let start = search.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        &self.numbers[start..self.ends[search]]
    }
}

impl EndTree {
    /// Creates the tree of the rows in `starts`, given the end of each row.
    ///
    /// # Panics
    ///
    /// Panics if the number of ends differs from the number of rows.
    pub fn new(starts: &SideIndex, ends: &[i64], driver: &Driver) -> Result<Self, Stopped> {
        assert_eq!(starts.rows(), ends.len(), "each start has an end");
        Self::of_places(by_place(ends, starts.groups().numbers(), driver)?, driver)
    }

    /// Creates the tree, given the end at each position.
    fn of_places(ends: Pages<i64>, driver: &Driver) -> Result<Self, Stopped> {
        let mut levels = vec![ends];
        while let below = &levels[levels.len() - 1]
            && below.len() > CHILDREN
        {
            let mut level = Pages::unwritten(below.len().div_ceil(CHILDREN));
            let nodes = level.len().div_ceil(driver.parts(below.len(), PART_ROWS));
            let parts = level.chunks_mut(nodes).zip(below.chunks(nodes * CHILDREN)).collect();
            driver.map(parts, |(nodes, ends): (&mut [Slot<i64>], &[i64])| {
                for (node, ends) in nodes.iter_mut().zip(ends.chunks(CHILDREN)) {
                    node.set(ends.iter().copied().fold(i64::MIN, i64::max));
                }
            })?;
            levels.push(level.written());
        }
        Ok(EndTree { levels })
    }

    /// Returns a tree whose levels have been saved one after the other, or `None` if a level is
    /// missing. `level` returns the level at a range of bytes.
    pub fn of_saved(
        starts: &SideIndex,
        mut level: impl FnMut(Range<usize>) -> Option<Pages<i64>>,
    ) -> Option<Self> {
        let (mut len, mut from) = (starts.times().len(), 0);
        let mut levels = Vec::new();
        loop {
            let end = from + len * size_of::<i64>();
            levels.push(level(from..end)?);
            if len <= CHILDREN {
                return Some(EndTree { levels });
            }
            (len, from) = (len.div_ceil(CHILDREN), end);
        }
    }

    /// The ends of the rows by key and start, followed by the levels of nodes above them.
    pub fn levels(&self) -> impl Iterator<Item = &[i64]> {
        self.levels.iter().map(|level| &level[..])
    }

    /// Returns the end at each position.
    pub(super) fn ends(&self) -> &[i64] {
        &self.levels[0]
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&level[..])).sum()
    }

    /// Finds the positions of each search. The searches proceed together, so that they wait for
    /// memory at the same time.
    ///
    /// Returns `false` if there are more than `most` positions, without finding all of them.
    pub(super) fn find(&self, searches: &[EndSearch], most: usize, found: &mut FoundEnds) -> bool {
        let FoundEnds { nodes, parents } = found;
        // The nodes of the last level have a common parent.
        nodes.clear();
        nodes.numbers.resize(searches.len(), 0);
        nodes.ends.extend(1..=searches.len());
        for level in (0..self.levels.len()).rev() {
            std::mem::swap(nodes, parents);
            nodes.clear();
            for (at, search) in searches.iter().enumerate() {
                for &parent in parents.of(at) {
                    self.descend(search, level, parent, &mut nodes.numbers);
                    // Two nodes of a search, the first and the last, may have no matching position
                    // below them.
                    if nodes.numbers.len() > most.saturating_add(2 * (nodes.ends.len() + 1)) {
                        return false;
                    }
                }
                nodes.ends.push(nodes.numbers.len());
            }
        }
        nodes.numbers.len() <= most
    }

    /// Appends those children of a node that a search has to visit. `level` is the level of the
    /// children.
    #[inline]
    fn descend(&self, search: &EndSearch, level: usize, parent: u32, nodes: &mut Vec<u32>) {
        let positions = CHILDREN.pow(level as u32);
        let EndSearch { range, limit } = search;
        let (start, end) = (range.start as usize, range.end as usize);
        let first = parent as usize * CHILDREN;
        let children = first.max(start / positions)..end.div_ceil(positions).min(first + CHILDREN);
        if children.is_empty() {
            return;
        }
        let before = nodes.len();
        memory::reserve(nodes, CHILDREN + WIDTH);
        let (first, ends) = (children.start as u32, &self.levels[level][children]);
        select_within(ends, *limit, i64::MAX, first, nodes);
        let Some(next) = level.checked_sub(1) else { return };
        for &node in &nodes[before..] {
            let first = node as usize * CHILDREN;
            prefetch_range(&self.levels[next], &(first..first + CHILDREN));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_sync::Stop;

    use super::*;

    /// Two positions, which are the limits of a range, and the earliest end.
    type Query = (prop::sample::Index, prop::sample::Index, i64);

    fn queries() -> impl Strategy<Value = Vec<Query>> {
        let place = || any::<prop::sample::Index>();
        prop::collection::vec((place(), place(), -10_i64..10), 0..20)
    }

    proptest! {
        #[test]
        fn oracle_a_search_finds_the_rows_that_end_late_enough(
            ends in prop::collection::vec(prop_oneof![9 => -9_i64..9, 1 => any::<i64>()], 0..300),
            queries in queries(),
            most in 0..400_usize,
        ) {
            let driver = Driver::new(1, Stop::default());
            let tree = EndTree::of_places(Pages::copied(&ends), &driver).unwrap();
            let mut searches = Vec::new();
            let mut wanted = Vec::new();
            for (one, other, limit) in queries {
                let (one, other) = (one.index(ends.len() + 1), other.index(ends.len() + 1));
                let range = one.min(other) as u32..one.max(other) as u32;
                let is_late = |place: &u32| ends[*place as usize] >= limit;
                wanted.push(range.clone().filter(is_late).collect::<Vec<_>>());
                searches.push(EndSearch { range, limit });
            }
            let mut found = FoundEnds::default();
            prop_assert!(tree.find(&searches, usize::MAX, &mut found));
            for (at, wanted) in wanted.iter().enumerate() {
                prop_assert_eq!(found.of(at), &wanted[..]);
            }
            let count = found.len();
            prop_assert_eq!(tree.find(&searches, most, &mut found), count <= most);
        }
    }

    #[test]
    fn parts_of_a_level_are_put_together() {
        let ends: Vec<i64> = (0..3 * PART_ROWS as i64 + 7).map(|at| at * at % 10_007).collect();
        let build = |threads| {
            let driver = Driver::new(threads, Stop::default());
            EndTree::of_places(Pages::copied(&ends), &driver).unwrap()
        };
        let (one, many) = (build(1), build(3));
        for (one, many) in one.levels.iter().zip(&many.levels) {
            assert_eq!(one[..], many[..]);
        }
        assert_eq!(
            many.levels[1][..],
            ends.chunks(CHILDREN).map(|ends| *ends.iter().max().unwrap()).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_search_visits_few_nodes_beside_those_above_its_rows() {
        // One row in a thousand ends late.
        let ends: Vec<i64> = (0..100_000).map(|at| i64::from(at % 1_000 == 999)).collect();
        let driver = Driver::new(1, Stop::default());
        let tree = EndTree::of_places(Pages::copied(&ends), &driver).unwrap();
        for range in [0..100_000, 500..99_500, 1_000..1_999, 70_003..70_004] {
            let search = EndSearch { range: range.clone(), limit: 1 };
            let mut nodes = vec![0];
            for level in (0..tree.levels.len()).rev() {
                let parents = std::mem::take(&mut nodes);
                for parent in parents {
                    tree.descend(&search, level, parent, &mut nodes);
                }
                let late = range.clone().filter(|at| at % 1_000 == 999).count();
                assert!(nodes.len() <= late + 2, "{range:?}, level {level}");
            }
        }
    }
}
