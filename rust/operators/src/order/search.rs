//! Finds positions among sorted values for a few rows at the same time.
//!
//! A binary search waits for memory at each step. Searches for several rows proceed together, so
//! that they wait at the same time.

use tidegate_structures::memory::gather::prefetch;

/// The number of searches that proceed together.
const LANES: usize = 16;

/// A search for the first position in a range whose value is not less than a limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Search {
    /// The positions that may be the result: `low` to `low + len`, inclusive.
    pub(crate) low: u32,
    pub(crate) len: u32,
    pub(crate) limit: i64,
}

/// Moves the `low` of each search to its result.
pub(crate) fn search(values: &[i64], searches: &mut [Search]) {
    for some in searches.chunks_mut(LANES) {
        let longest = some.iter().map(|one| one.len).max().unwrap_or(0);
        let rounds = u32::BITS - longest.leading_zeros();
        for _ in 0..rounds {
            for Search { low, len, limit } in some.iter_mut() {
                let half = *len / 2;
                // If nothing is left, the comparison has no effect.
                let place = *low + half;
                let is_less = *len > 0 && values[place as usize] < *limit;
                *low = if is_less { place + 1 } else { *low };
                *len = if is_less { *len - half - 1 } else { half };
                prefetch(values, (*low + *len / 2) as usize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn oracle_a_search_finds_the_first_value_at_the_limit(
            mut values in prop::collection::vec(-9_i64..9, 0..60),
            queries in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), -10_i64..10), 0..40),
        ) {
            values.sort_unstable();
            let mut searches = Vec::new();
            let mut wanted = Vec::new();
            for (from, to, limit) in queries {
                let (from, to) = (from.index(values.len() + 1), to.index(values.len() + 1));
                let range = from.min(to)..from.max(to);
                wanted.push(range.start + values[range.clone()].partition_point(|&value| value < limit));
                searches.push(Search { low: range.start as u32, len: range.len() as u32, limit });
            }
            search(&values, &mut searches);
            let found: Vec<usize> = searches.iter().map(|search| search.low as usize).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
