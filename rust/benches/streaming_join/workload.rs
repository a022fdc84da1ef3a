//! The input: rows on both sides in merged order, divided into epochs.

use tidegate_operators::rows::Side;

const ROWS: usize = 2_000_000;
const EPOCH_ROWS: usize = 20_000;

/// The mean time between consecutive rows on one side.
const STEP: u64 = 1_000;

/// Rows in the form that [`RowJoin::begin`](tidegate_operators::rows::RowJoin::begin) accepts.
pub(crate) struct Epoch {
    pub(crate) ts: Vec<i64>,
    pub(crate) sides: Vec<Side>,
    /// The keys of the rows on each side.
    pub(crate) keys: [Vec<u32>; 2],
}

pub(crate) struct Workload {
    pub(crate) epochs: Vec<Epoch>,
    /// The maximum distance between matching rows.
    pub(crate) reach: i64,
}

impl Workload {
    pub(crate) fn new(keys: u64) -> Self {
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            // The SplitMix64 generator of Steele, Lea and Flood.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % below
        };
        let mut now = 0;
        let mut epoch = |_| {
            let mut epoch =
                Epoch { ts: Vec::new(), sides: Vec::new(), keys: [Vec::new(), Vec::new()] };
            for _ in 0..EPOCH_ROWS {
                now += random(STEP) as i64;
                let side = if random(2) == 0 { Side::Left } else { Side::Right };
                epoch.ts.push(now);
                epoch.sides.push(side);
                epoch.keys[side as usize].push(random(keys) as u32);
            }
            epoch
        };
        let epochs = (0..ROWS / EPOCH_ROWS).map(&mut epoch).collect();
        Workload { epochs, reach: (2 * STEP * keys) as i64 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.epochs.iter().map(|epoch| epoch.ts.len()).sum()
    }
}
