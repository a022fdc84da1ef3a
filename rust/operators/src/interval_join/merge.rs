//! Groups the right rows and finds the matches of the left ones in a single pass over both sides in time order.
//!
//! A right row *enters* when it is no longer after the matches of the current left row, and *leaves* when it is before
//! them. Entering writes its number to the next place of its key's group; so the place its key has reached is the end
//! of the matches of every left row of that key, and the number of the key's rows that left is their start:
//!
//! ```text
//!   right rows in time order   ──●──●──┊──●──●──●──┊──●──●──▶
//!                                 left ┊ entered   ┊ not yet
//!   left row at ts                     first  ts   last
//! ```
//!
//! No time of the right side is read twice and none is searched for, whatever the number of keys.
//!
//! Several threads take consecutive parts of the left rows. Part `p` enters the right rows between the last matches of
//! part `p - 1` and its own ([`Part::enters`]), which tile the right side; how many rows of each key come before is
//! counted first. It begins to let rows leave at the last such tile that starts before its own first matches.

use std::ops::Range;

use tidegate_structures::pages::Pages;
use tidegate_structures::partition::{Buckets, Chunk, NO_KEY, Rows, Target, Writer, ranges, writers};

use super::group::PART_ROWS;
use super::{Interval, Matches, Run, Side};
use crate::driver::{Driver, Stopped};

/// Parts a thread, so that threads finish together though parts differ.
const PARTS_A_THREAD: usize = 4;

/// Whether counting every key in every part costs less than the rows do.
pub(super) fn is_worthwhile(left: usize, right: usize, key_count: usize, driver: &Driver) -> bool {
    key_count.saturating_mul(driver.parts(left, PART_ROWS)) <= left + right
}

/// The matches of all left rows, where the times of both sides never fall.
pub(super) fn merge(
    left: Side<'_>,
    right: Side<'_>,
    key_count: usize,
    interval: &Interval,
    driver: &Driver,
) -> Result<Matches, Stopped> {
    let (left_keys, right_keys) = (left.keys.expect("a key column"), right.keys.expect("a key column"));
    assert_eq!((left_keys.len(), right_keys.len()), (left.ts.len(), right.ts.len()), "a time a key");
    // 1. Parts, and the right rows that each of them enters.
    let affordable = ((left.ts.len() + right.ts.len()) / key_count.max(1)).max(1);
    let most = if driver.threads() == 1 { 1 } else { driver.threads() * PARTS_A_THREAD };
    let parts = ranges(left.ts.len(), (left.ts.len() / PART_ROWS).clamp(1, most.min(affordable)));
    let tiles = tiles(&parts, left.ts, right.ts, interval);
    // 2. How many rows of each key come before each tile.
    let rows = Rows { keys: right_keys, ts: None, numbers: None, first: 0 };
    let buckets = Buckets { first: 0, shift: 0, count: key_count };
    let chunks = driver.map(tiles.clone(), |tile| Chunk::count(rows.slice(tile), buckets))?;
    let mut numbers = Pages::new(right.ts.len());
    let (_, writers) = writers(chunks, Target { keys: None, ts: None, numbers: &mut numbers });
    // 3. All parts at once.
    let mut runs = Pages::new(left.ts.len());
    let mut rest = &mut runs[..];
    let mut starts = Vec::with_capacity(parts.len());
    for part in &parts {
        let first = part.clone().next().and_then(|row| interval.first(left.ts[row]));
        let leaving = first.map_or(right.ts.len(), |first| right.ts.partition_point(|&ts| ts < first));
        let tile = tiles.iter().rposition(|tile| tile.start <= leaving).unwrap_or(0);
        starts.push((tiles[tile].start, writers[tile].next().to_vec()));
    }
    let items = parts.into_iter().zip(tiles).zip(writers).zip(starts).map(|(((left_rows, enters), writer), start)| {
        let (runs, others) = std::mem::take(&mut rest).split_at_mut(left_rows.len());
        rest = others;
        Part { left_rows, enters, writer, leave: start.0, left_by: start.1, runs }
    });
    let items = items.collect();
    driver.map(items, |part: Part<'_>| part.run(left_keys, left.ts, right_keys, right.ts, interval))?;
    Ok(Matches { runs, first_left: 0, rows: Some(numbers), ascending: true, right_rows: right.ts.len() })
}

/// The right rows that the left rows of each part let enter; together they are all.
fn tiles(parts: &[Range<usize>], left: &[i64], right: &[i64], interval: &Interval) -> Vec<Range<usize>> {
    let mut start = 0;
    let tile = |(at, part): (usize, &Range<usize>)| {
        let last = part.clone().next_back().and_then(|row| interval.last(left[row]));
        let end = match last {
            _ if at + 1 == parts.len() => right.len(),
            Some(last) => start + right[start..].partition_point(|&ts| ts <= last),
            None => start,
        };
        std::mem::replace(&mut start, end)..end
    };
    parts.iter().enumerate().map(tile).collect()
}

struct Part<'a> {
    left_rows: Range<usize>,
    enters: Range<usize>,
    writer: Writer<'a>,
    /// The next right row to leave.
    leave: usize,
    /// For each key, the place of its first row that has not left.
    left_by: Vec<u32>,
    runs: &'a mut [Run],
}

impl Part<'_> {
    /// Works in blocks of left rows, in short loops over each block: one loop for all of it has more values at hand than
    /// the processor has registers, and took twice as long.
    fn run(self, left_keys: &[u32], left_ts: &[i64], right_keys: &[u32], right_ts: &[i64], interval: &Interval) {
        let Part { left_rows, enters, mut writer, mut leave, mut left_by, runs } = self;
        let mut last_entered = enters.start;
        let enterable = &right_ts[..enters.end];
        let (mut entered, mut gone, mut ends) = ([0; BLOCK], [0; BLOCK], [0; BLOCK]);
        let blocks = left_keys[left_rows.clone()].chunks(BLOCK).zip(left_ts[left_rows].chunks(BLOCK));
        for ((keys, ts), runs) in blocks.zip(runs.chunks_mut(BLOCK)) {
            // 1. How many right rows have entered at each left row, and how many are gone. Neither search waits for the
            //    other, so that the processor does both at a time.
            let mut last_gone = leave;
            for ((entered, gone), &ts) in entered.iter_mut().zip(&mut gone).zip(ts) {
                if let Some(last) = interval.last(ts) {
                    last_entered = advance(enterable, last_entered, |ts| ts <= last);
                }
                if let Some(first) = interval.first(ts) {
                    last_gone = advance(right_ts, last_gone, |ts| ts < first);
                } else {
                    last_gone = right_ts.len();
                }
                *entered = last_entered - enters.start;
                // An empty interval may begin after rows that have not entered.
                *gone = last_gone.min(last_entered);
            }
            // 2. They enter their groups, and leave them.
            writer.follow(&entered[..keys.len()], keys, &mut ends[..keys.len()]);
            for (((run, &end), &key), &gone) in runs.iter_mut().zip(&ends).zip(keys).zip(&gone) {
                retire(&mut left_by, right_keys, leave, gone - leave);
                leave = gone;
                let start = left_by[group(key, &left_by)];
                // Rows without a key are in one group, but match nothing.
                *run = Run { start, end: if key == NO_KEY { start } else { end } };
            }
        }
        writer.run();
    }
}

/// Left rows worked on at a time: what is known of them stays in the nearest cache.
const BLOCK: usize = 256;

/// The group of a key; the last is that of rows without one.
#[inline]
fn group(key: u32, groups: &[u32]) -> usize {
    (key as usize).min(groups.len() - 1)
}

/// Lets `count` rows leave their groups; as with rows that enter, up to two without a branch that cannot be foreseen.
#[inline]
fn retire(left_by: &mut [u32], keys: &[u32], first: usize, count: usize) {
    for ahead in 0..2 {
        let key = keys.get(first + ahead).copied().unwrap_or(NO_KEY);
        left_by[group(key, left_by)] += u32::from(ahead < count);
    }
    for &key in keys.get(first + 2..first + count).unwrap_or_default() {
        left_by[group(key, left_by)] += 1;
    }
}

/// The first place from `from` on for whose time `holds` is false; it holds for none after that.
///
/// Few steps are usual and their number cannot be foreseen, so four times are tested at once, without a branch between.
#[inline]
fn advance(ts: &[i64], from: usize, holds: impl Fn(i64) -> bool) -> usize {
    const STEP: usize = 4;
    let mut at = from;
    while let Some(window) = ts.get(at..at + STEP) {
        let held: usize = window.iter().map(|&ts| usize::from(holds(ts))).sum();
        at += held;
        if held < STEP {
            return at;
        }
    }
    at + ts[at..].iter().take_while(|ts| holds(**ts)).count()
}
