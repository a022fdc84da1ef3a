//! A replica of the join: the buffers of the keys it serves, and the work on one epoch's rows.

use std::collections::{HashMap, VecDeque};

use super::assignment::Assignment;
use super::epoch::Epoch;
use super::reach::{Reach, Side};

/// Candidates that are filtered together: their columns stay in a core's cache.
const FILTER_PAIRS: usize = 1 << 12;

/// A stored row, in 12 bytes.
#[derive(Clone, Copy, Debug)]
struct Stored {
    ts_low: u32,
    ts_high: u32,
    /// The low bits of its number among the rows of its side.
    number: u32,
}

impl Stored {
    #[inline]
    fn new(ts: i64, number: u32) -> Self {
        Stored { ts_low: ts as u32, ts_high: (ts >> 32) as u32, number }
    }

    #[inline]
    fn ts(self) -> i64 {
        i64::from(self.ts_high.cast_signed()) << 32 | i64::from(self.ts_low)
    }
}

/// The stored rows of one key and one side, in merged order.
#[derive(Clone, Debug, Default)]
struct Buffer(VecDeque<Stored>);

impl Buffer {
    /// Lets go of rows before `ts`; none of them can match any more.
    #[inline]
    fn purge(&mut self, ts: i64) {
        while self.0.front().is_some_and(|row| row.ts() < ts) {
            self.0.pop_front();
        }
    }

    /// How many rows are not after `ts`.
    #[inline]
    fn upto(&self, ts: i64) -> usize {
        match self.0.back() {
            Some(last) if last.ts() > ts => self.0.partition_point(|row| row.ts() <= ts),
            _ => self.0.len(),
        }
    }

    fn push(&mut self, row: Stored) {
        // What a burst has taken is given back when it is over, before the buffer grows again.
        if self.0.len() == self.0.capacity() / 8 && self.0.capacity() > 64 {
            self.0.shrink_to(self.0.capacity() / 4);
        }
        self.0.push_back(row);
    }
}

/// The buffers of a key: left, right.
type KeyState = [Buffer; 2];

/// The candidates of an epoch's row.
#[derive(Clone, Copy, Debug)]
struct RowPairs {
    /// The row's place in the epoch.
    row: u32,
    /// Where its pairs end among the pairs.
    end: u32,
}

/// What one thread works on: its keys' buffers, and the matches it has found in the epoch.
#[derive(Debug, Default)]
pub(super) struct Replica {
    /// The keys that are at home here, by their number divided by the number of replicas.
    home: Vec<KeyState>,
    /// Keys at home elsewhere, of which this replica has a part.
    shared: HashMap<u32, KeyState, foldhash::fast::FixedState>,
    /// The next row of the epoch to look at.
    next: usize,
    /// Numbers of matching earlier rows, one row's after the other's.
    pairs: Vec<u32>,
    rows: Vec<RowPairs>,
    /// How many of `rows` have been taken.
    taken: usize,
    comparisons: u64,
}

/// The pairs that a filter keeps, given the numbers of their left and right rows.
pub(super) type Filter<'a, E> = dyn Fn(&[u32], &[u32]) -> Result<Vec<bool>, E> + Sync + 'a;

impl Replica {
    pub(super) fn next(&self) -> usize {
        self.next
    }

    pub(super) fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Forgets the epoch, of which everything has been taken.
    pub(super) fn begin(&mut self) {
        debug_assert_eq!(self.taken, self.rows.len(), "results would be lost");
        self.next = 0;
        self.clear();
    }

    fn clear(&mut self) {
        self.pairs.clear();
        self.rows.clear();
        self.taken = 0;
    }

    /// Looks at the rows of the epoch from where it left off, until some `most` pairs are found.
    pub(super) fn run<E>(
        &mut self,
        me: u16,
        epoch: &Epoch,
        assignment: &Assignment,
        reach: &Reach,
        most: usize,
        filter: Option<&Filter<'_, E>>,
    ) -> Result<(), E> {
        if self.taken == self.rows.len() {
            self.clear();
        }
        let replicas = assignment.replicas();
        let is_stored = [reach.is_stored(Side::Left), reach.is_stored(Side::Right)];
        // Candidates from here on have not been filtered.
        let (mut unfiltered_rows, mut unfiltered) = (self.rows.len(), self.pairs.len());
        while self.next < epoch.len() && self.pairs.len() < most {
            let row = self.next;
            self.next += 1;
            let key = epoch.keys[row];
            let Some(share) = assignment.share(epoch.routes[row], key, me) else { continue };
            let (ts, side, number) = (epoch.ts[row], epoch.sides[row], epoch.numbers[row]);
            let state = if share.is_home {
                let at = key as usize / replicas;
                if self.home.len() <= at {
                    self.home.resize_with((at + 1).next_power_of_two(), KeyState::default);
                }
                &mut self.home[at]
            } else {
                self.shared.entry(key).or_default()
            };
            // 1. Earlier rows of the other side that match are neighbours in their buffer.
            let other = &mut state[side.other() as usize];
            other.purge(reach.first(side, ts));
            let found = reach.last(side, ts).map_or(0, |last| other.upto(last));
            if found > 0 {
                let (head, tail) = other.0.as_slices();
                let (head, tail) = (&head[..found.min(head.len())], &tail[..found.saturating_sub(head.len())]);
                self.pairs.extend(head.iter().map(|row| row.number));
                self.pairs.extend(tail.iter().map(|row| row.number));
                self.rows.push(RowPairs { row: row as u32, end: self.pairs.len() as u32 });
            }
            // 2. The row waits for later ones, unless another replica keeps it.
            if is_stored[side as usize] && share.stores(number) {
                let own = &mut state[side as usize];
                own.purge(reach.first(side.other(), ts));
                own.push(Stored::new(ts, number));
            }
            self.comparisons += found as u64;
            if let Some(filter) = filter
                && self.pairs.len() - unfiltered >= FILTER_PAIRS
            {
                self.filter(epoch, filter, unfiltered_rows, unfiltered)?;
                (unfiltered_rows, unfiltered) = (self.rows.len(), self.pairs.len());
            }
        }
        if let Some(filter) = filter {
            self.filter(epoch, filter, unfiltered_rows, unfiltered)?;
        }
        Ok(())
    }

    /// Drops the candidates that the filter does not keep, of the rows from `first_row` on.
    fn filter<E>(&mut self, epoch: &Epoch, filter: &Filter<'_, E>, first_row: usize, first: usize) -> Result<(), E> {
        // 1. The pairs, whole.
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut begin = first;
        for &RowPairs { row, end } in &self.rows[first_row..] {
            let earlier = &self.pairs[begin..end as usize];
            let later = std::iter::repeat_n(epoch.numbers[row as usize], earlier.len());
            match epoch.sides[row as usize] {
                Side::Left => {
                    left.extend(later);
                    right.extend_from_slice(earlier);
                }
                Side::Right => {
                    left.extend_from_slice(earlier);
                    right.extend(later);
                }
            }
            begin = end as usize;
        }
        // 2. Which of them stay.
        let mut keep = Vec::with_capacity(left.len());
        for (left, right) in left.chunks(FILTER_PAIRS).zip(right.chunks(FILTER_PAIRS)) {
            keep.extend(filter(left, right)?);
        }
        // 3. Rows that have none left go, too.
        let (mut at, mut kept, mut kept_rows) = (first, first, first_row);
        for nth in first_row..self.rows.len() {
            let RowPairs { row, end } = self.rows[nth];
            let begin = kept;
            while at < end as usize {
                self.pairs[kept] = self.pairs[at];
                kept += usize::from(keep[at - first]);
                at += 1;
            }
            if kept > begin {
                self.rows[kept_rows] = RowPairs { row, end: kept as u32 };
                kept_rows += 1;
            }
        }
        self.rows.truncate(kept_rows);
        self.pairs.truncate(kept);
        Ok(())
    }

    /// The next row of the epoch that has pairs here and lies before `end`.
    #[inline]
    pub(super) fn peek(&self, end: usize) -> Option<usize> {
        self.rows.get(self.taken).map(|pairs| pairs.row as usize).filter(|&row| row < end)
    }

    /// The numbers of that row's matches, earliest first.
    #[inline]
    pub(super) fn take(&mut self) -> &[u32] {
        let begin = if self.taken == 0 { 0 } else { self.rows[self.taken - 1].end as usize };
        let end = self.rows[self.taken].end as usize;
        self.taken += 1;
        &self.pairs[begin..end]
    }

    /// Forgets keys without rows.
    pub(super) fn forget(&mut self, me: u16, replicas: usize, keys: &[u32]) {
        for &key in keys {
            if key as usize % replicas == usize::from(me)
                && let Some(state) = self.home.get_mut(key as usize / replicas)
            {
                *state = KeyState::default();
            }
            if !self.shared.is_empty() {
                self.shared.remove(&key);
            }
        }
    }

    /// Whether the replica holds rows of a key that is at home elsewhere.
    pub(super) fn holds(&self, key: u32) -> bool {
        self.shared.get(&key).is_some_and(|state| state.iter().any(|buffer| !buffer.0.is_empty()))
    }

    /// Bytes of the buffers.
    pub(super) fn memory(&self) -> usize {
        let of_state =
            |state: &KeyState| state.iter().map(|buffer| buffer.0.capacity() * size_of::<Stored>()).sum::<usize>();
        let of_home = self.home.capacity() * size_of::<KeyState>() + self.home.iter().map(of_state).sum::<usize>();
        of_home + self.shared.values().map(|state| size_of::<KeyState>() + of_state(state)).sum::<usize>()
    }
}
