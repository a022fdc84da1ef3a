//! Tests long histories of handshake chains, with more threads than cores. The feed, the nodes and
//! the collector run on any of the threads.
//!
//! These tests cover cases that short histories and single steps do not reach: queues that fill up
//! and wrap around, results that accumulate, and windows that are dropped repeatedly. For rare
//! interleavings, see `loom_handshake.rs`.

use std::sync::{Arc, Mutex};

use tidegate_operators::driver::Driver;
use tidegate_operators::rows::{Retention, Side};
use tidegate_papers::handshake::{
    BandPredicate, Burst, Chain, HandshakeAlgorithm, NumberColumn, NumberRows, ResultPair,
    SearchStructure,
};
use tidegate_papers::threads::{Turn, take_turns};
use tidegate_structures::simd::scan::Span;
use tidegate_sync::Stop;

const ROWS: usize = 40_000;

/// The window lengths, in rows.
const LEFT: usize = 300;
const RIGHT: usize = 700;

/// The SplitMix64 generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// All rows in merged order, with one value per row, followed by the rows on each side.
struct Rows {
    sides: Vec<Side>,
    values: [Vec<u32>; 2],
}

impl Rows {
    fn new(random: &mut Random) -> Self {
        let mut rows = Rows { sides: Vec::new(), values: [Vec::new(), Vec::new()] };
        // In some sections, one side is much faster than the other.
        let mut share = 5;
        for row in 0..ROWS {
            if row % 5000 == 0 {
                share = 1 + random.below(9);
            }
            let side = if random.below(10) < share { Side::Left } else { Side::Right };
            rows.sides.push(side);
            rows.values[side as usize].push(1 + random.below(40) as u32);
        }
        rows
    }

    fn columns(&self, side: Side, keyed: bool) -> NumberRows<u32> {
        let values = self.values[side as usize].clone();
        let takes = values.iter().map(|&value| Span { low: value, width: 0 }).collect();
        NumberRows::new(values.len(), vec![NumberColumn { values, takes }], keyed)
    }

    /// Returns the pairs that the three-step procedure finds.
    fn expected(&self) -> Vec<(u64, u64)> {
        let mut next = [0; 2];
        let mut pairs = Vec::new();
        for &side in &self.sides {
            let (number, others) = (next[side as usize], next[side.other() as usize]);
            let length = if side == Side::Left { RIGHT } else { LEFT };
            let value = self.values[side as usize][number];
            for other in others.saturating_sub(length)..others {
                if self.values[side.other() as usize][other] == value {
                    let (l, r) = if side == Side::Left { (number, other) } else { (other, number) };
                    pairs.push((l as u64, r as u64));
                }
            }
            next[side as usize] += 1;
        }
        pairs
    }
}

/// Feeds all rows in bursts of random length, separated by punctuations, and then lets all rows
/// expire.
fn run(
    rows: &Rows,
    chain: Chain<BandPredicate<u32>>,
    keyed: bool,
    threads: usize,
    random: &mut Random,
) -> Vec<(u64, u64)> {
    let Chain { feed, mut nodes, mut collector } = chain;
    let (left, right) = (rows.columns(Side::Left, keyed), rows.columns(Side::Right, keyed));
    // The collector checks with the feed whether all messages have passed, so they share it. The
    // tasks may be on two threads.
    let feed = Mutex::new((feed, 0, [0; 2], 3));
    let mut feeding = || {
        let (feed, fed, of_side, ends) = &mut *feed.lock().unwrap();
        if !feed.has_room() {
            return Turn::Waiting;
        }
        if *fed == ROWS {
            if *ends == 0 || !feed.is_through() {
                return Turn::Waiting;
            }
            feed.end();
            feed.punctuate();
            *ends -= 1;
            return Turn::Worked;
        }
        if random.below(4) == 0 {
            feed.punctuate();
            return Turn::Worked;
        }
        let next = *fed..ROWS.min(*fed + 1 + random.below(100) as usize);
        let sides = &rows.sides[next.clone()];
        let lefts = sides.iter().filter(|side| **side == Side::Left).count();
        let upto = [of_side[0] + lefts, of_side[1] + sides.len() - lefts];
        let ts: Vec<i64> = next.clone().map(|row| row as i64).collect();
        let (left_rows, right_rows) = (of_side[0]..upto[0], of_side[1]..upto[1]);
        feed.feed(&Burst { ts: &ts, sides, left: &left, left_rows, right: &right, right_rows });
        (*fed, *of_side) = (next.end, upto);
        Turn::Worked
    };
    let mut found: Vec<ResultPair> = Vec::new();
    let mut collecting = || {
        let through = {
            let (feed, fed, _, ends) = &*feed.lock().unwrap();
            *fed == ROWS && *ends == 0 && feed.is_through()
        };
        let before = found.len();
        collector.collect(&mut found);
        match through {
            true => Turn::Finished,
            false if found.len() > before => Turn::Worked,
            false => Turn::Waiting,
        }
    };
    let mut steps: Vec<_> = nodes.iter_mut().map(|node| || node.step()).collect();
    let mut tasks: Vec<&mut (dyn FnMut() -> Turn + Send)> = vec![&mut feeding];
    tasks.extend(steps.iter_mut().map(|step| step as &mut (dyn FnMut() -> Turn + Send)));
    tasks.push(&mut collecting);
    take_turns(&Driver::lasting(threads, Stop::default(), false).unwrap(), tasks).unwrap();
    collector.rest(ROWS as u64, &mut found);
    found.iter().map(|found| (found.left, found.right)).collect()
}

#[test]
fn stress_chains_of_many_nodes() {
    let seed = std::env::var("TIDEGATE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(42);
    println!("TIDEGATE_SEED={seed}");
    let mut random = Random(seed);
    let rows = Rows::new(&mut random);
    let expected = rows.expected();
    let window = Retention::Rows { left: LEFT as u64, right: RIGHT as u64 };
    for (nodes, threads) in [(1, 2), (2, 2), (2, 4), (7, 3), (16, 9)] {
        for (algorithm, lookup) in [
            (HandshakeAlgorithm::LowLatency, None),
            (HandshakeAlgorithm::LowLatency, Some(SearchStructure::Hash)),
            (HandshakeAlgorithm::LowLatency, Some(SearchStructure::Ordered)),
            (HandshakeAlgorithm::Original, None),
        ] {
            let chain =
                Chain::new(Arc::new(BandPredicate::new(lookup)), window, algorithm, nodes, true);
            let found = run(&rows, chain, lookup.is_some(), threads, &mut random);
            assert!(
                found == expected,
                "{algorithm:?}, {lookup:?}, {nodes} nodes: {} pairs",
                found.len()
            );
        }
    }
}
