//! Computes a function over many runs of values. Each run's state is used to compute the next one.
//!
//! Runs are sorted by their starts. The values of adjacent runs are sorted once. A window then
//! slides from run to run. Each value enters the window once and leaves it once. The result of a
//! run therefore costs a single search, regardless of how many values the run contains. The results
//! of short runs are computed one by one.

use crate::driver::{Driver, Stopped};
use crate::matches::Run;
use tidegate_structures::memory;
use tidegate_structures::memory::bits::BitSet;
use tidegate_structures::memory::pages::Pages;

use super::functions::WindowFunction;

/// The minimum number of positions whose values are sorted together, unless there are fewer
/// positions.
const BLOCK: u32 = if cfg!(test) { 5 } else { 1 << 10 };

/// If the average run contains fewer values than this, results are computed one by one.
const FEW: usize = if cfg!(test) { 3 } else { 16 };

/// The value of the row at each position, as an integer. The integers sort in the same order as the
/// values.
#[derive(Debug)]
pub(super) struct ValuesByPlace {
    pub(super) codes: Pages<i64>,
    /// The positions of the rows that are included. `None` if no rows are excluded.
    pub(super) counted: Option<BitSet>,
}

impl ValuesByPlace {
    #[inline]
    pub(super) fn counts(&self, place: u32) -> bool {
        self.counted.as_ref().is_none_or(|counted| counted.contains(place as usize))
    }
}

/// A run whose result is requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) run: Run,
    /// The index of the result.
    pub(super) out: u32,
}

/// Buffers that are reused.
#[derive(Debug)]
pub(super) struct Scratch<F: WindowFunction> {
    window: F::Window,
    /// The values in a block, paired with their positions. `dealt` contains the same pairs, but
    /// sorted by value.
    pairs: Vec<(i64, u32)>,
    dealt: Vec<(i64, u32)>,
    /// The start of each value bucket.
    starts: Vec<u32>,
    sorted: Vec<i64>,
    /// The rank of the value at each position in a block, or [`NOT_COUNTED`] if the value is
    /// excluded.
    ranks: Vec<u32>,
    few: Vec<i64>,
}

const NOT_COUNTED: u32 = u32::MAX;

impl<F: WindowFunction> Default for Scratch<F> {
    fn default() -> Self {
        Scratch {
            window: F::Window::default(),
            pairs: Vec::new(),
            dealt: Vec::new(),
            starts: Vec::new(),
            sorted: Vec::new(),
            ranks: Vec::new(),
            few: Vec::new(),
        }
    }
}

/// Computes the results of all items. Each result is passed to `set` with its item number. Items
/// must be sorted by the start of their runs and then by the end.
pub(super) fn slide<F: WindowFunction>(
    function: &F,
    placed: &ValuesByPlace,
    items: &[Item],
    scratch: &mut Scratch<F>,
    driver: &Driver,
    mut set: impl FnMut(u32, Option<F::Output>),
) -> Result<(), Stopped> {
    let mut rest = items;
    while let Some(first) = rest.first() {
        driver.check()?;
        let start = first.run.start;
        let limit = start.saturating_add((first.run.len() as u32).max(BLOCK));
        let (block, others) = rest.split_at(rest.partition_point(|item| item.run.start < limit));
        rest = others;
        let end =
            block.iter().map(|item| item.run.end).max().expect("the block has at least one item");
        let values: usize = block.iter().map(|item| item.run.len()).sum();
        if values / FEW < block.len() || block.len() == 1 {
            let codes = &placed.codes[..];
            for item in block {
                scratch.few.clear();
                memory::reserve(&mut scratch.few, item.run.len());
                let places = item.run.start..item.run.end;
                match &placed.counted {
                    None => {
                        let all = &codes[places.start as usize..places.end as usize];
                        scratch.few.extend_from_slice(all);
                    }
                    Some(_) => {
                        let counted = places.filter(|&place| placed.counts(place));
                        scratch.few.extend(counted.map(|place| codes[place as usize]));
                    }
                }
                function.of(&mut scratch.few, |result| set(item.out, result));
            }
        } else {
            scratch.sort(placed, start..end);
            scratch.slide_over(function, block, start, &mut set);
        }
    }
    Ok(())
}

impl<F: WindowFunction> Scratch<F> {
    /// Ranks the values in a range of positions.
    fn sort(&mut self, placed: &ValuesByPlace, places: std::ops::Range<u32>) {
        let Scratch { pairs, dealt, starts, sorted, ranks, .. } = self;
        let (start, len) = (places.start, places.len());
        pairs.clear();
        memory::reserve(pairs, len);
        let codes = &placed.codes[places.start as usize..places.end as usize];
        match &placed.counted {
            None => pairs.extend(codes.iter().copied().zip(0..)),
            Some(_) => {
                let counted = places.zip(codes).filter(|&(place, _)| placed.counts(place));
                pairs.extend(counted.map(|(place, &code)| (code, place - start)));
            }
        }
        sorted.clear();
        memory::reserve(sorted, len);
        ranks.clear();
        memory::reserve(ranks, len);
        ranks.resize(len, NOT_COUNTED);
        for (rank, &(code, at)) in (0..).zip(in_order(pairs, dealt, starts)) {
            sorted.push(code);
            ranks[at as usize] = rank;
        }
    }

    /// Slides the window over the runs of a block. The block's first position is `first`.
    fn slide_over(
        &mut self,
        function: &F,
        block: &[Item],
        first: u32,
        set: &mut impl FnMut(u32, Option<F::Output>),
    ) {
        let Scratch { window, sorted, ranks, .. } = self;
        function.open(window, sorted);
        let (mut start, mut end) = (0, 0);
        for Item { run, out } in block {
            let to = (run.start - first) as usize..(run.end - first) as usize;
            if to.start >= end {
                remove(function, window, &ranks[start..end]);
                (start, end) = (to.start, to.start);
            }
            insert(function, window, ranks.get(end..to.end).unwrap_or_default());
            remove(function, window, ranks.get(to.end..end).unwrap_or_default());
            // Runs are sorted by their starts.
            remove(function, window, &ranks[start..to.start]);
            (start, end) = (to.start, to.end);
            function.result(window, sorted, |result| set(*out, result));
        }
    }
}

/// Returns the pairs in sorted order. The pairs are distributed among buckets according to their
/// position between the smallest and largest values. Each bucket has only a few pairs unless values
/// are very unevenly distributed.
fn in_order<'a>(
    pairs: &[(i64, u32)],
    dealt: &'a mut Vec<(i64, u32)>,
    starts: &mut Vec<u32>,
) -> &'a [(i64, u32)] {
    let values = || pairs.iter().map(|pair| pair.0);
    let (Some(low), Some(high)) = (values().min(), values().max()) else { return &[] };
    // There are about as many buckets as pairs.
    let bits = usize::BITS - pairs.len().leading_zeros();
    let range = high.abs_diff(low);
    let shift = (u64::BITS - range.leading_zeros()).saturating_sub(bits);
    let bucket = |value: i64| (value.abs_diff(low) >> shift) as usize;
    starts.clear();
    memory::reserve(starts, bucket(high) + 2);
    starts.resize(bucket(high) + 2, 0);
    pairs.iter().for_each(|pair| starts[bucket(pair.0) + 1] += 1);
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    if dealt.len() < pairs.len() {
        memory::reserve(dealt, pairs.len() - dealt.len());
        dealt.resize(pairs.len(), (0, 0));
    }
    let dealt = &mut dealt[..pairs.len()];
    for pair in pairs {
        let place = &mut starts[bucket(pair.0)];
        dealt[*place as usize] = *pair;
        *place += 1;
    }
    // Each start has moved to the start of the next bucket.
    let mut start = 0;
    for &end in &starts[..starts.len() - 1] {
        let end = end as usize;
        if end - start > 1 {
            dealt[start..end].sort_unstable();
        }
        start = end;
    }
    dealt
}

#[inline]
fn insert<F: WindowFunction>(function: &F, window: &mut F::Window, ranks: &[u32]) {
    let counted = ranks.iter().filter(|&&rank| rank != NOT_COUNTED);
    counted.for_each(|&rank| function.insert(window, rank as usize));
}

#[inline]
fn remove<F: WindowFunction>(function: &F, window: &mut F::Window, ranks: &[u32]) {
    let counted = ranks.iter().filter(|&&rank| rank != NOT_COUNTED);
    counted.for_each(|&rank| function.remove(window, rank as usize));
}
