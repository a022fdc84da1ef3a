//! The rows that a join still needs from one side, in merged order or in arrival order.

use super::arrival::Arrival;
use super::{Extent, How, KeptColumn, KeptColumns, Reach, Side, SideWatermarks};

/// The kept rows on one side of a join, in a form that another join can restore.
#[derive(Clone, Debug, Default)]
pub struct SavedRows {
    /// The rows' event times, in row order.
    pub ts: Vec<i64>,
    /// `true` for each row that has been matched. Empty if matches are not tracked.
    pub matched: Vec<bool>,
    /// The number of settled rows, counted from the first row.
    pub settled: usize,
}

/// The kept rows on one side, identified by number. Rows are numbered from 0, starting with the
/// first row that arrived on that side. Offsets are counted from the oldest row that is still kept,
/// whose number is [`RowLog::first`].
///
/// In merged order, a row is *settled* once it has been checked for matches and no later row can
/// match it. If matches are tracked, a row is kept until it is settled. In arrival order, rows are
/// never settled, because unmatched rows are not emitted in the order in which rows are dropped.
#[derive(Debug)]
pub struct RowLog<C> {
    side: Side,
    first: u64,
    columns: C,
    /// `true` for each row that has been matched. `None` if matches are not tracked.
    matched: Option<KeptColumn<bool>>,
    /// The number of settled rows, counted from the oldest row.
    settled: usize,
    /// `None` unless the rows are in arrival order.
    arrival: Option<Arrival>,
}

impl<C: KeptColumns> RowLog<C> {
    /// Creates a log for one side of a join. `how` is the type of the join. The columns must not
    /// contain any rows.
    pub fn new(side: Side, how: How, columns: C) -> Self {
        let matched = how.marks(side).then(KeptColumn::default);
        RowLog { side, first: 0, columns, matched, settled: 0, arrival: None }
    }

    /// Converts this log to arrival order. Rows in the log match rows on the other side within
    /// `reach`. The log must be empty.
    #[must_use]
    pub fn in_arrival_order(self, how: How, reach: Reach) -> Self {
        let comes_alone = self.is_outer() && how != How::Semi;
        RowLog { arrival: Some(Arrival::new(self.side, reach, comes_alone)), ..self }
    }

    /// Returns whether the rows are in arrival order.
    pub fn is_in_arrival_order(&self) -> bool {
        self.arrival.is_some()
    }

    /// Returns the side to which the rows belong.
    #[inline]
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the number of the oldest kept row.
    #[inline]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns one more than the number of the newest row.
    #[inline]
    pub fn end(&self) -> u64 {
        self.first + self.len() as u64
    }

    /// Returns the number of kept rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether no rows are kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Converts the low bits of a kept row's number to the row's offset.
    #[inline]
    pub fn offset(&self, number: u32) -> usize {
        number.wrapping_sub(self.first as u32) as usize
    }

    /// Returns the rows' columns.
    #[inline]
    pub fn columns(&self) -> &C {
        &self.columns
    }

    /// Returns the rows' columns for modification. The number of rows must stay the same.
    #[inline]
    pub fn columns_mut(&mut self) -> &mut C {
        &mut self.columns
    }

    /// Adds the rows that `add` appends to the columns.
    pub fn extend(&mut self, add: impl FnOnce(&mut C)) {
        let had = self.len();
        add(&mut self.columns);
        if let Some(matched) = &mut self.matched {
            matched.fill_to(self.columns.len(), false);
        }
        if let Some(arrival) = &mut self.arrival {
            arrival.add(&self.columns, self.first, had..self.columns.len());
        }
    }

    /// Adds the rows that another log has kept. `add` appends these rows to the columns.
    pub fn restore(&mut self, kept: &SavedRows, add: impl FnOnce(&mut C)) {
        assert!(self.end() == 0, "the log must be empty");
        self.extend(add);
        if let Some(matched) = &mut self.matched {
            let flags = matched.as_mut_slice().iter_mut().zip(&kept.matched);
            flags.for_each(|(flag, &matched)| *flag = matched);
            self.settled = kept.settled.min(self.columns.len());
        }
    }

    /// For each row, returns whether the row has been matched. Also returns the number of settled
    /// rows. The list is empty if matches are not tracked.
    pub fn matched(&self) -> (Vec<bool>, usize) {
        let matched = self.matched.as_ref().map(|matched| matched.as_slice().to_vec());
        (matched.unwrap_or_default(), self.settled)
    }

    /// Returns whether matches are tracked.
    #[inline]
    pub fn is_outer(&self) -> bool {
        self.matched.is_some()
    }

    /// Marks the row at an offset as matched. Returns whether this is the row's first match.
    #[inline]
    pub fn set_matched(&mut self, offset: u32) -> bool {
        let matched = self.matched.as_mut().expect("matches are tracked");
        !std::mem::replace(&mut matched[offset as usize], true)
    }

    /// Marks the rows at these offsets as matched, if matches are tracked.
    pub fn set_all_matched(&mut self, offsets: &[u32]) {
        if let Some(matched) = &mut self.matched {
            let matched = matched.as_mut_slice();
            offsets.iter().for_each(|&offset| matched[offset as usize] = true);
        }
    }

    /// For joins in merged order: finds the oldest unmatched row that is not yet settled. Returns
    /// this row only if no row at `now` or later can match it. The result contains the last time at
    /// which the row could be matched, the row's time, and the row's offset.
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

    /// For joins in arrival order: returns the offset of the next unmatched row that no row at
    /// `now` or later can match. Each row is returned only once.
    pub fn next_alone(&mut self, now: SideWatermarks) -> Option<u32> {
        let (arrival, matched) = (self.arrival.as_mut()?, self.matched.as_ref()?);
        loop {
            let offset = (arrival.next_over(now)? - self.first) as u32;
            if !matched[offset as usize] {
                return Some(offset);
            }
        }
    }

    /// Settles the row that [`unmatched`](Self::unmatched) returned.
    pub fn settle(&mut self) {
        self.settled += 1;
    }

    /// Returns the last time at which a row on the other side can match the row at an offset.
    /// Returns `None` if there is no last time, or if that time is not known yet.
    #[inline]
    fn last_matchable(&self, extent: &Extent, offset: usize, ts: i64) -> Option<i64> {
        match extent {
            Extent::Time(reach) => reach.last_matchable(self.side, ts),
            // The row that displaces this one from the window.
            Extent::Rows(counts) => {
                let count = usize::try_from(counts[self.side as usize]).ok()?;
                self.columns.ts(offset.checked_add(count)?)
            }
        }
    }

    /// Finds the oldest row that can still be matched by a row at `now` or later, and returns the
    /// number of rows before it.
    pub fn over(&self, extent: &Extent, now: SideWatermarks) -> usize {
        if let Some(arrival) = &self.arrival {
            return arrival.over(&self.columns, now);
        }
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
        // Usually few rows are over, so the search starts at the oldest row, doubles its step, and
        // then bisects the last step.
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

    /// Returns how many of the oldest `rows` rows can be dropped.
    pub fn droppable(&self, rows: usize) -> usize {
        if self.is_outer() && self.arrival.is_none() { rows.min(self.settled) } else { rows }
    }

    /// Drops the oldest `rows` rows, except those that are still needed.
    pub fn drop_first(&mut self, rows: usize) {
        let rows = self.droppable(rows);
        self.first += rows as u64;
        self.settled = self.settled.saturating_sub(rows);
        self.columns.drop_front(rows);
        if let Some(matched) = &mut self.matched {
            matched.drop_front(rows);
        }
    }

    /// Returns the offsets of the rows that can still be matched by a row at `now` or later. In
    /// merged order, returns `None`, because rows are always dropped from the front.
    pub fn needed(&self, now: SideWatermarks) -> Option<Vec<u32>> {
        self.arrival.as_ref().map(|arrival| arrival.needed(&self.columns, now))
    }

    /// Returns the rows on each side that are [`needed`](Self::needed), provided that at least half
    /// of the rows on one side are not needed.
    pub fn needed_if_sparse(
        logs: &mut [RowLog<C>; 2],
        now: SideWatermarks,
    ) -> Option<[Vec<u32>; 2]> {
        let is_sparse = |log: &mut RowLog<C>| {
            let RowLog { arrival, columns, .. } = log;
            arrival.as_mut().is_some_and(|arrival| arrival.is_sparse(columns, now))
        };
        if logs.each_mut().map(is_sparse) == [false; 2] {
            return None;
        }
        let [left, right] = logs.each_ref().map(|log| log.needed(now));
        Some([left?, right?])
    }

    /// Keeps only the rows at these offsets. Renumbers these rows without gaps, starting at
    /// [`first`](Self::first). `keep` must keep the same rows in the columns.
    pub fn retain(&mut self, offsets: &[u32], keep: impl FnOnce(&mut C)) {
        keep(&mut self.columns);
        if let Some(matched) = &mut self.matched {
            matched.retain(offsets);
        }
        if let (Some(arrival), Some(matched)) = (&mut self.arrival, &self.matched) {
            arrival.clear();
            let alone = (0..offsets.len()).filter(|&offset| !matched[offset]);
            arrival.add(&self.columns, self.first, alone);
        }
    }

    /// Drops the rows with numbers below `number`, except those that are still needed.
    pub fn drop_before(&mut self, number: u64) {
        let rows = number.saturating_sub(self.first).min(self.len() as u64);
        self.drop_first(rows as usize);
    }

    /// Returns the memory held, in bytes.
    pub fn memory(&self) -> usize {
        let of_arrival = self.arrival.as_ref().map_or(0, Arrival::memory);
        self.columns.memory() + self.matched.as_ref().map_or(0, KeptColumn::memory) + of_arrival
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
    fn rows_in_any_order_stay_until_the_other_side_has_passed_them() {
        let reach = Reach::new(&Interval { lower: Some(0), upper: Some(3), closed: Closed::Both });
        let log = |side| {
            RowLog::new(side, How::Left, KeptColumn::default()).in_arrival_order(How::Left, reach)
        };
        let mut logs = [log(Side::Left), log(Side::Right)];
        // Expired rows are behind a row that is still needed.
        logs[0].extend(|columns| columns.extend([50, 4, 2, 60, 3]));
        logs[0].set_matched(2);
        let now = [None, Some(8)];
        let alone: Vec<u32> = std::iter::from_fn(|| logs[0].next_alone(now)).collect();
        assert_eq!(
            alone,
            [4, 1],
            "sorted by the last time at which they can be matched; row 2 has been matched"
        );
        assert_eq!(logs.each_ref().map(|log| log.over(&Extent::Time(reach), now)), [0, 0]);
        assert_eq!(RowLog::needed_if_sparse(&mut logs, now), None, "few rows are of no use");
        let kept = logs.each_ref().map(|log| log.needed(now).expect("rows are in arrival order"));
        assert_eq!(kept, [vec![0, 3], vec![]]);
        logs[0].retain(&kept[0], |columns| columns.retain(&kept[0]));
        let now = [None, Some(54)];
        assert_eq!((logs[0].next_alone(now), logs[0].next_alone(now)), (Some(0), None));
        assert_eq!(logs[0].over(&Extent::Time(reach), now), 1);
        logs[0].drop_first(1);
        assert_eq!((logs[0].first(), logs[0].next_alone([None; 2])), (1, Some(0)));
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
        let kept = SavedRows { ts: vec![2, 3, 4], matched: vec![false, true, false], settled: 1 };
        other.restore(&kept, |columns| columns.extend(kept.ts.iter().copied()));
        assert_eq!(other.matched(), (kept.matched, 1));
        assert_eq!(other.unmatched(&extent, [None; 2]), Some((i64::MAX, 4, 2)));
    }
}
