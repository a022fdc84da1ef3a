//! The rows of one side that are still needed, in merged order.

use std::fmt::Debug;

use super::kept_column::KeptColumn;
use super::{Extent, How, Side, SideWatermarks};

/// The columns that a join keeps of each row. A row is named by its *offset*, its distance from the
/// oldest row still here.
pub trait KeptColumns: Debug {
    /// How many rows are here.
    fn len(&self) -> usize;

    /// Whether no row is here.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time of the row at an offset, if it is here.
    fn ts(&self, offset: usize) -> Option<i64>;

    /// Drops the oldest `rows` rows.
    fn drop_front(&mut self, rows: usize);

    /// Bytes held.
    fn memory(&self) -> usize;
}

/// Rows whose time is kept, and nothing else.
impl KeptColumns for KeptColumn<i64> {
    #[inline]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn ts(&self, offset: usize) -> Option<i64> {
        self.get(offset).copied()
    }

    fn drop_front(&mut self, rows: usize) {
        self.drop_front(rows);
    }

    fn memory(&self) -> usize {
        self.memory()
    }
}

/// The rows of one side that a join has kept, as another join takes them in.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Event times, in merged order.
    pub ts: Vec<i64>,
    /// Which have had a match, where that matters.
    pub matched: Vec<bool>,
    /// How many from the first on are settled.
    pub settled: usize,
}

/// Rows by number. The number of a row counts the rows of its side from the first ever;
/// [`RowLog::first`] is that of the oldest row still here, from which offsets count.
///
/// A row is *settled* once no later row can match it, and it has been checked for a match. Where
/// matches matter, a row stays until then.
#[derive(Debug)]
pub struct RowLog<C> {
    side: Side,
    first: u64,
    columns: C,
    /// Which rows have had a match, where that matters.
    matched: Option<KeptColumn<bool>>,
    /// How many rows from the oldest on are settled.
    settled: usize,
}

impl<C: KeptColumns> RowLog<C> {
    /// A log of a side in a join of this kind, with columns that have no rows.
    pub fn new(side: Side, how: How, columns: C) -> Self {
        let matched = how.marks(side).then(KeptColumn::default);
        RowLog { side, first: 0, columns, matched, settled: 0 }
    }

    /// The side of the rows.
    #[inline]
    pub fn side(&self) -> Side {
        self.side
    }

    /// The number of the oldest row.
    #[inline]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// One more than the number of the newest row.
    #[inline]
    pub fn end(&self) -> u64 {
        self.first + self.len() as u64
    }

    /// How many rows are here.
    #[inline]
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether no row is here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The offset of a row that is here, given the low bits of its number.
    #[inline]
    pub fn offset(&self, number: u32) -> usize {
        number.wrapping_sub(self.first as u32) as usize
    }

    /// The columns of the rows.
    #[inline]
    pub fn columns(&self) -> &C {
        &self.columns
    }

    /// The columns of the rows, to change them. As many rows stay.
    #[inline]
    pub fn columns_mut(&mut self) -> &mut C {
        &mut self.columns
    }

    /// Takes in the rows that `add` puts behind the others.
    pub fn extend(&mut self, add: impl FnOnce(&mut C)) {
        add(&mut self.columns);
        if let Some(matched) = &mut self.matched {
            matched.fill_to(self.columns.len(), false);
        }
    }

    /// Takes in the rows that another log has kept, which `add` puts into the columns.
    pub fn restore(&mut self, kept: &Kept, add: impl FnOnce(&mut C)) {
        assert!(self.end() == 0, "a log that had no rows takes in rows");
        self.extend(add);
        if let Some(matched) = &mut self.matched {
            let flags = matched.as_mut_slice().iter_mut().zip(&kept.matched);
            flags.for_each(|(flag, &matched)| *flag = matched);
            self.settled = kept.settled.min(self.columns.len());
        }
    }

    /// Which rows have had a match, where that matters; and how many have been settled.
    pub fn matched(&self) -> (Vec<bool>, usize) {
        let matched = self.matched.as_ref().map(|matched| matched.as_slice().to_vec());
        (matched.unwrap_or_default(), self.settled)
    }

    /// Whether it matters which rows have had a match.
    #[inline]
    pub fn is_outer(&self) -> bool {
        self.matched.is_some()
    }

    /// Notes that the row at an offset has a match; whether that is its first.
    #[inline]
    pub fn set_matched(&mut self, offset: u32) -> bool {
        let matched = self.matched.as_mut().expect("rows that may come out once are told apart");
        !std::mem::replace(&mut matched[offset as usize], true)
    }

    /// The oldest row that was not settled and has had no match, if no row at `now` or later can
    /// match it: the time after which it comes out, its own time, and its offset.
    #[inline]
    pub fn unmatched(&mut self, extent: &Extent, now: SideWatermarks) -> Option<(i64, i64, u32)> {
        if !self.is_outer() {
            return None;
        }
        let now = now[self.side.other() as usize];
        while let Some(ts) = self.columns.ts(self.settled) {
            let last = self.last_matchable(extent, self.settled, ts);
            if now.is_some_and(|now| last.is_none_or(|last| last >= now)) {
                return None;
            }
            if self.matched.as_ref().is_some_and(|matched| !matched[self.settled]) {
                return Some((last.unwrap_or(i64::MAX), ts, self.settled as u32));
            }
            self.settled += 1;
        }
        None
    }

    /// Goes past the row that [`unmatched`](Self::unmatched) gave.
    pub fn settle(&mut self) {
        self.settled += 1;
    }

    /// The last time at which a row of the other side may match the row at an offset; `None` if
    /// that is never or not yet known.
    #[inline]
    fn last_matchable(&self, extent: &Extent, offset: usize, ts: i64) -> Option<i64> {
        match extent {
            Extent::Time(reach) => reach.last_matchable(self.side, ts),
            // The row that takes its place in the window.
            Extent::Rows(counts) => {
                let count = usize::try_from(counts[self.side as usize]).ok()?;
                self.columns.ts(offset.checked_add(count)?)
            }
        }
    }

    /// How many rows from the oldest on no row at `now` or later can match.
    pub fn over(&self, extent: &Extent, now: SideWatermarks) -> usize {
        let Some(now) = now[self.side.other() as usize] else { return self.len() };
        let reach = match extent {
            Extent::Time(reach) => reach,
            Extent::Rows(counts) => {
                return (self.len() as u64).saturating_sub(counts[self.side as usize]) as usize;
            }
        };
        let is_over = |offset: usize| {
            let last = self.columns.ts(offset).and_then(|ts| reach.last_matchable(self.side, ts));
            last.is_some_and(|last| last < now)
        };
        // Few rows are: they are searched for from the oldest on, in steps that double, and then
        // within the last step.
        let (mut from, mut step) = (0, 1);
        while is_over(from + step - 1) {
            from += step;
            step *= 2;
        }
        let mut to = self.len().min(from + step - 1);
        while from < to {
            let middle = from.midpoint(to);
            if is_over(middle) { from = middle + 1 } else { to = middle }
        }
        from
    }

    /// How many of the oldest `rows` rows may be let go of.
    pub fn droppable(&self, rows: usize) -> usize {
        if self.is_outer() { rows.min(self.settled) } else { rows }
    }

    /// Drops the oldest `rows` rows, as far as they may be let go of.
    pub fn drop_first(&mut self, rows: usize) {
        let rows = self.droppable(rows);
        self.first += rows as u64;
        self.settled = self.settled.saturating_sub(rows);
        self.columns.drop_front(rows);
        if let Some(matched) = &mut self.matched {
            matched.drop_front(rows);
        }
    }

    /// Drops rows with smaller numbers, as far as they may be let go of.
    pub fn drop_before(&mut self, number: u64) {
        let rows = number.saturating_sub(self.first).min(self.len() as u64);
        self.drop_first(rows as usize);
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.columns.memory() + self.matched.as_ref().map_or(0, KeptColumn::memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Closed, Interval, Reach};

    #[test]
    fn the_rows_that_are_over_are_those_a_loop_finds() {
        let interval = Interval { lower: None, upper: Some(3), closed: Closed::Both };
        let reach = Reach::new(&interval);
        for rows in 0..40_i64 {
            let mut log = RowLog::new(Side::Left, How::Inner, KeptColumn::default());
            log.extend(|columns| columns.extend((0..rows).map(|row| row / 2)));
            for now in -1..30 {
                let over = (0..rows).take_while(|row| row / 2 + 3 < now).count();
                assert_eq!(log.over(&Extent::Time(reach), [None, Some(now)]), over, "{rows} {now}");
            }
            assert_eq!(log.over(&Extent::Time(reach), [Some(0), None]), rows as usize);
            let over = log.over(&Extent::Rows([7, 0]), [Some(0); 2]);
            assert_eq!(over, (rows as usize).saturating_sub(7));
        }
    }

    #[test]
    fn rows_stay_until_they_are_settled() {
        let extent = Extent::Rows([2, 2]);
        let mut log = RowLog::new(Side::Right, How::Right, KeptColumn::default());
        log.extend(|columns| columns.extend(0..5));
        assert!(log.set_matched(0) && !log.set_matched(0));
        assert_eq!(log.droppable(3), 0);
        assert_eq!(log.unmatched(&extent, [Some(4); 2]), Some((3, 1, 1)));
        log.settle();
        assert_eq!(log.unmatched(&extent, [Some(4); 2]), None);
        log.drop_first(3);
        assert_eq!((log.first(), log.end(), log.offset(4)), (2, 5, 2));
        assert_eq!(log.matched(), (vec![false; 3], 0));
        let mut other = RowLog::new(Side::Right, How::Right, KeptColumn::default());
        let kept = Kept { ts: vec![2, 3, 4], matched: vec![false, true, false], settled: 1 };
        other.restore(&kept, |columns| columns.extend(kept.ts.iter().copied()));
        assert_eq!(other.matched(), (kept.matched, 1));
        assert_eq!(other.unmatched(&extent, [None; 2]), Some((i64::MAX, 4, 2)));
    }
}
