//! Finds partners in a single pass over both sides, which must be in time order.
//!
//! When the pass visits a right row, that row becomes the last row with its key. A left row's
//! partner is the last row with its key at that moment. To find partners before left rows, the pass
//! runs forward in time; to find partners after left rows, it runs backward. In either direction, a
//! row is *met* when the pass visits it.
//!
//! The pass is divided into parts with equal numbers of rows, counting both sides. A part begins
//! with an empty table of last rows. The part remembers the left rows whose keys are not yet in the
//! table. Once all parts are done, the tables are completed one after the other, each from the
//! previous table. If a left row's key is missing from its own part's table, the key's last row is
//! in the previous part's table.

use std::ops::Range;

use tidegate_structures::memory;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::{AsOf, Toward};
use crate::driver::{Driver, PART_ROWS, Stopped};
use crate::matches::Run;
use crate::order::JoinColumns;

/// The number of parts per thread if there are few keys. With several parts per thread, all threads
/// finish at about the same time even if some parts take longer.
const PARTS_A_THREAD: usize = 4;

/// The minimum number of rows in a part, for each key in the table.
const ROWS_A_KEY: usize = 8;

/// The entry that represents no row in a table of last rows. The other entries are row numbers plus
/// 1.
const NONE: u32 = 0;

/// A part of the pass, with the rows it visits on each side.
#[derive(Clone, Debug)]
struct PassPart {
    left: Range<usize>,
    right: Range<usize>,
}

/// Returns each left row's partner in one time direction.
pub(super) fn partners(
    left: JoinColumns<'_>,
    right: JoinColumns<'_>,
    key_count: usize,
    toward: Toward,
    asof: &AsOf,
    driver: &Driver,
) -> Result<Pages<Run>, Stopped> {
    let pass = Pass { left, right, asof: *asof, keys: key_count as u32 };
    let mut runs = Pages::unwritten(left.ts.len());
    match (toward, asof.exact) {
        (Toward::Past, true) => pass.run::<false, true>(&mut runs, driver)?,
        (Toward::Past, false) => pass.run::<false, false>(&mut runs, driver)?,
        (Toward::Future, true) => pass.run::<true, true>(&mut runs, driver)?,
        (Toward::Future, false) => pass.run::<true, false>(&mut runs, driver)?,
    }
    Ok(runs.written())
}

/// The rows on both sides, and the criteria for partners.
#[derive(Clone, Copy)]
struct Pass<'a> {
    left: JoinColumns<'a>,
    right: JoinColumns<'a>,
    asof: AsOf,
    keys: u32,
}

/// Returns the position of the `nth` row to be met, out of `rows` rows.
#[inline(always)]
fn met<const DOWN: bool>(nth: usize, rows: usize) -> usize {
    if DOWN { rows - 1 - nth } else { nth }
}

/// Records a left row whose key has not been encountered yet. This code is in a separate function
/// so that the loop branches only on the key. The side of the next row is unpredictable.
#[cold]
#[inline(never)]
fn note(unknown: &mut Vec<u32>, row: usize, is_left: bool) {
    if is_left {
        if unknown.len() == unknown.capacity() {
            memory::reserve(unknown, unknown.len().max(1 << 10));
        }
        unknown.push(row as u32);
    }
}

/// Returns whether a right row is met before a left row.
#[inline(always)]
fn is_first<const DOWN: bool, const EXACT: bool>(right: i64, left: i64) -> bool {
    match (DOWN, EXACT) {
        (false, true) => right <= left,
        (false, false) => right < left,
        (true, true) => right >= left,
        (true, false) => right > left,
    }
}

impl Pass<'_> {
    fn run<const DOWN: bool, const EXACT: bool>(
        &self,
        runs: &mut [Slot<Run>],
        driver: &Driver,
    ) -> Result<(), Stopped> {
        let rows = self.left.ts.len() + self.right.ts.len();
        let part_count = match driver.parts(rows, PART_ROWS) {
            1 => 1,
            threads => (threads * PARTS_A_THREAD)
                .min(rows / (ROWS_A_KEY * self.keys.max(1) as usize))
                .max(1),
        };
        let parts = self.cut::<DOWN, EXACT>(part_count);
        let outs = split::<DOWN>(runs, &parts);
        let items: Vec<_> = parts.iter().cloned().zip(outs).collect();
        let tables = driver.map(items, |(part, runs)| {
            // The last row of each key, followed by entries for right rows and for left rows
            // without a key.
            let mut last = memory::filled(self.keys as usize + 2, NONE);
            let mut unknown = Vec::new();
            match self.asof.tolerance {
                None => self.meet::<DOWN, EXACT, false>(&part, runs, &mut last, &mut unknown),
                Some(_) => self.meet::<DOWN, EXACT, true>(&part, runs, &mut last, &mut unknown),
            }
            (last, unknown)
        })?;
        // Each table is completed from the previous tables, and then resolves the left rows after
        // it.
        let mut before: Vec<u32> = Vec::new();
        let mut known = Vec::with_capacity(tables.len());
        for (mut last, unknown) in tables {
            driver.check()?;
            last.iter_mut().zip(&before).for_each(|(last, &before)| {
                *last = if *last == NONE { before } else { *last };
            });
            known.push((std::mem::replace(&mut before, last), unknown));
        }
        let items: Vec<_> = parts.iter().zip(split::<DOWN>(runs, &parts)).zip(known).collect();
        driver.map(items, |((part, runs), (before, unknown))| {
            // No rows were visited before the first part.
            for row in if before.is_empty() { Vec::new() } else { unknown } {
                let row = row as usize;
                let last = before[self.left_key(row) as usize];
                runs[row - part.left.start].set(self.partner::<true>(last, self.left.ts[row]));
            }
        })?;
        Ok(())
    }

    /// Cuts the pass into parts with equal numbers of rows.
    fn cut<const DOWN: bool, const EXACT: bool>(&self, part_count: usize) -> Vec<PassPart> {
        let (left, right) = (self.left.ts, self.right.ts);
        let rows = left.len() + right.len();
        // The number of left rows among the first `rows` rows that are met.
        let left_of = |rows: usize| {
            let (mut low, mut high) = (rows.saturating_sub(right.len()), rows.min(left.len()));
            while low < high {
                let middle = low + (high - low) / 2;
                // Whether this left row is met before the right row that would otherwise be the
                // last one.
                let of_left = left[met::<DOWN>(middle, left.len())];
                let of_right = right[met::<DOWN>(rows - middle - 1, right.len())];
                match is_first::<DOWN, EXACT>(of_right, of_left) {
                    true => high = middle,
                    false => low = middle + 1,
                }
            }
            low
        };
        let ends: Vec<_> = (0..=part_count)
            .map(|part| part * rows / part_count)
            .map(|end| (left_of(end), end))
            .collect();
        let range = |from: usize, to: usize, rows: usize| match DOWN {
            true => rows - to..rows - from,
            false => from..to,
        };
        let part = |ends: &[(usize, usize)]| PassPart {
            left: range(ends[0].0, ends[1].0, left.len()),
            right: range(ends[0].1 - ends[0].0, ends[1].1 - ends[1].0, right.len()),
        };
        ends.windows(2).map(part).collect()
    }

    /// Processes one part. Adds to `unknown` the left rows whose keys have not yet occurred among
    /// the part's right rows.
    ///
    /// The steps do not branch on the side of the next row, because the processor could not predict
    /// such branches.
    fn meet<const DOWN: bool, const EXACT: bool, const TOLERANCE: bool>(
        &self,
        part: &PassPart,
        runs: &mut [Slot<Run>],
        last: &mut [u32],
        unknown: &mut Vec<u32>,
    ) {
        match (self.left.keys, self.right.keys) {
            (Some(left), Some(right)) => {
                let (left, right) = (&left[part.left.clone()], &right[part.right.clone()]);
                self.step::<DOWN, EXACT, TOLERANCE>(
                    part,
                    runs,
                    last,
                    |at| left[at],
                    |at| right[at],
                    unknown,
                );
            }
            _ => self.step::<DOWN, EXACT, TOLERANCE>(part, runs, last, |_| 0, |_| 0, unknown),
        }
    }

    #[inline(always)]
    fn step<const DOWN: bool, const EXACT: bool, const TOLERANCE: bool>(
        &self,
        part: &PassPart,
        runs: &mut [Slot<Run>],
        last: &mut [u32],
        left_key: impl Fn(usize) -> u32,
        right_key: impl Fn(usize) -> u32,
        unknown: &mut Vec<u32>,
    ) {
        let left = &self.left.ts[part.left.clone()];
        let right = &self.right.ts[part.right.clone()];
        let (runs, last) = (&mut runs[..left.len()], &mut last[..self.keys as usize + 2]);
        let (mut l, mut r) = (0, 0);
        while l < left.len() && r < right.len() {
            let (of_left, of_right) = (met::<DOWN>(l, left.len()), met::<DOWN>(r, right.len()));
            let ts = left[of_left];
            let is_right = is_first::<DOWN, EXACT>(right[of_right], ts);
            let (key_of_left, key_of_right) = (left_key(of_left), right_key(of_right));
            let key = if is_right { key_of_right } else { key_of_left };
            // Rows without a key have one entry per side.
            let known = &mut last[key.min(self.keys + u32::from(!is_right)) as usize];
            let before = *known;
            *known = if is_right { (part.right.start + of_right) as u32 + 1 } else { before };
            // For a right row, this value is overwritten by the partner of the next left row.
            runs[of_left].set(self.partner::<TOLERANCE>(before, ts));
            if before == NONE {
                note(unknown, part.left.start + of_left, !is_right);
            }
            l += usize::from(!is_right);
            r += usize::from(is_right);
        }
        for l in l..left.len() {
            let at = met::<DOWN>(l, left.len());
            let before = last[left_key(at).min(self.keys + 1) as usize];
            runs[at].set(self.partner::<TOLERANCE>(before, left[at]));
            if before == NONE {
                note(unknown, part.left.start + at, true);
            }
        }
        for r in r..right.len() {
            let at = met::<DOWN>(r, right.len());
            last[right_key(at).min(self.keys) as usize] = (part.right.start + at) as u32 + 1;
        }
    }

    /// Returns the position of a left row's key in a table.
    fn left_key(&self, row: usize) -> u32 {
        self.left.keys.map_or(0, |keys| keys[row]).min(self.keys + 1)
    }

    /// Returns the last row with a key, if it is within the tolerance.
    #[inline(always)]
    fn partner<const TOLERANCE: bool>(&self, last: u32, ts: i64) -> Run {
        let row = last.saturating_sub(1);
        let is_near = || {
            let of_right = self.right.ts.get(row as usize).copied().unwrap_or_default();
            self.asof.admits(of_right.abs_diff(ts))
        };
        let end = if !TOLERANCE || is_near() { last } else { NONE };
        Run { start: if end == NONE { 0 } else { row }, end }
    }
}

/// Splits an array with one element per left row into one slice per part.
fn split<'a, const DOWN: bool>(
    mut rows: &'a mut [Slot<Run>],
    parts: &[PassPart],
) -> Vec<&'a mut [Slot<Run>]> {
    let cut = |part: &PassPart| {
        let all = std::mem::take(&mut rows);
        let at = if DOWN { all.len() - part.left.len() } else { part.left.len() };
        let (head, tail) = all.split_at_mut(at);
        let (part, others) = if DOWN { (tail, head) } else { (head, tail) };
        rows = others;
        part
    };
    parts.iter().map(cut).collect()
}
