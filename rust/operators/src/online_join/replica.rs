//! A replica of the join: the buffers of the keys it serves, and the work on one epoch's rows.

use std::collections::{HashMap, VecDeque};

use super::assignment::{Assignment, Share};
use super::buffer::Buffer;
use super::epoch::Epoch;
use super::log::Log;
use super::reach::{Reach, Side};

/// Candidates that are filtered together: their columns stay in a core's cache.
const FILTER_PAIRS: usize = 1 << 12;

/// The buffers of a key: left, right. One cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct KeyState([Buffer; 2]);

/// Keys at home elsewhere.
type SharedKeys = HashMap<u32, KeyState, foldhash::fast::FixedState>;

/// A row in a buffer: its time, and its key.
#[derive(Clone, Copy, Debug)]
struct Stored {
    ts: i64,
    key: u32,
}

/// The rows of one side in the buffers here, in merged order: the order in which they leave.
#[derive(Debug, Default)]
struct Queue {
    rows: VecDeque<Stored>,
    /// How many of them the interval has reached, where it ends before the present.
    reached: usize,
}

/// What one thread works on: its keys' buffers, and the matches it has found in the epoch.
#[derive(Debug, Default)]
pub(super) struct Replica {
    /// The keys that are at home here, by their place among these.
    home: Vec<KeyState>,
    /// Keys at home elsewhere, of which this replica has a part.
    shared: SharedKeys,
    /// For each side, the rows in these buffers.
    queues: [Queue; 2],
    /// The rows of the epoch to look at here, and how many of them have been.
    mine: Vec<u32>,
    looked_at: usize,
    /// The first row of the epoch that has not been looked at, as far as it is to be.
    next: usize,
    /// Numbers of matching earlier rows, one row's after the other's.
    pairs: Vec<u32>,
    /// For each row looked at here, its place in the epoch and where its pairs end.
    rows: Vec<(u32, u32)>,
    comparisons: u64,
}

/// The pairs that a filter keeps, given the numbers of their left and right rows.
pub type Filter<'a, E> = dyn Fn(&[u32], &[u32]) -> Result<Vec<bool>, E> + Sync + 'a;

/// What all replicas read.
pub(super) struct Shared<'a> {
    pub(super) epoch: &'a Epoch,
    pub(super) assignment: &'a Assignment,
    pub(super) reach: &'a Reach,
}

impl Replica {
    pub(super) fn next(&self) -> usize {
        self.next
    }

    pub(super) fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Begins an epoch with rows that go by these routes.
    pub(super) fn begin(&mut self, me: u16, routes: &[u16]) {
        self.pairs.clear();
        self.rows.clear();
        (self.next, self.looked_at) = (0, 0);
        // Without a branch on the route, which nothing could predict: others' rows are written over.
        self.mine.resize(routes.len() + 1, 0);
        let mut at = 0;
        for (row, &route) in routes.iter().enumerate() {
            self.mine[at] = row as u32;
            at += usize::from(Assignment::may_concern(route, me));
        }
        self.mine.truncate(at);
    }

    /// Looks at the rows of the epoch from where it left off, until some `most` pairs are found.
    pub(super) fn run<E>(
        &mut self,
        me: u16,
        shared: &Shared<'_>,
        most: usize,
        filter: Option<&Filter<'_, E>>,
    ) -> Result<(), E> {
        let Shared { epoch, reach, assignment } = *shared;
        let is_stored = [reach.is_stored(Side::Left), reach.is_stored(Side::Right)];
        let takes_all = [reach.takes_all(Side::Left), reach.takes_all(Side::Right)];
        // Candidates from here on have not been filtered.
        let (mut unfiltered_rows, mut unfiltered) = (self.rows.len(), self.pairs.len());
        while self.looked_at < self.mine.len() && self.pairs.len() < most {
            let row = self.mine[self.looked_at] as usize;
            self.looked_at += 1;
            let (ts, side, key) = (epoch.ts[row], epoch.sides[row], epoch.keys[row]);
            // 1. Rows that are too old for this one leave their buffers; later ones are no younger.
            self.pass(me, ts, shared);
            let number = epoch.numbers[row];
            let share = assignment.share(epoch.routes[row], key, me);
            let Some((state, stores)) = buffers(&mut self.home, &mut self.shared, share, key, number) else { continue };
            // 2. Those that match are neighbours in their buffer.
            let [left, right] = &mut state.0;
            let (own, others) = if side == Side::Left { (left, right) } else { (right, left) };
            let before = self.pairs.len();
            match takes_all[side as usize] {
                true => others.copy_all(&mut self.pairs),
                false => others.copy_reached(&mut self.pairs),
            }
            self.comparisons += (self.pairs.len() - before) as u64;
            self.rows.push((row as u32, self.pairs.len() as u32));
            // 3. The row waits for later ones, unless another replica keeps it.
            if is_stored[side as usize] && stores {
                own.push(number);
                self.queues[side as usize].rows.push_back(Stored { ts, key });
            }
            if let Some(filter) = filter
                && self.pairs.len() - unfiltered >= FILTER_PAIRS
            {
                self.filter(epoch, filter, unfiltered_rows, unfiltered)?;
                (unfiltered_rows, unfiltered) = (self.rows.len(), self.pairs.len());
            }
        }
        self.next = self.mine.get(self.looked_at).map_or(epoch.len(), |&row| row as usize);
        match filter {
            Some(filter) => self.filter(epoch, filter, unfiltered_rows, unfiltered),
            None => Ok(()),
        }
    }

    /// Brings the buffers to the time `ts`: rows that an interval has reached by then are noted, and rows that no row
    /// at `ts` or later can match leave.
    #[inline]
    pub(super) fn pass(&mut self, me: u16, ts: i64, shared: &Shared<'_>) {
        let Shared { reach, assignment, .. } = *shared;
        for side in [Side::Left, Side::Right] {
            let other = side.other();
            let Queue { rows, reached } = &mut self.queues[side as usize];
            let mut buffer = |key: u32, change: fn(&mut Buffer)| {
                let state = match assignment.home_of(key, me) {
                    Some(home) => &mut self.home[home],
                    None => self.shared.get_mut(&key).expect("the key of a row in a buffer has buffers"),
                };
                change(&mut state.0[side as usize]);
            };
            if !reach.takes_all(other)
                && let Some(last) = reach.last(other, ts)
            {
                while let Some(row) = rows.get(*reached).filter(|row| row.ts <= last) {
                    buffer(row.key, Buffer::reach);
                    *reached += 1;
                }
            }
            let first = reach.first(other, ts);
            while let Some(&row) = rows.front().filter(|row| row.ts < first) {
                buffer(row.key, Buffer::pop);
                rows.pop_front();
                *reached = reached.saturating_sub(1);
            }
            // What a burst has taken is given back when it is over.
            if rows.len() < rows.capacity() / 8 {
                rows.shrink_to(rows.capacity() / 4);
            }
        }
    }

    /// Drops the candidates that the filter does not keep, of the rows from `first_row` on.
    fn filter<E>(&mut self, epoch: &Epoch, filter: &Filter<'_, E>, first_row: usize, first: usize) -> Result<(), E> {
        // 1. The pairs, whole.
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut begin = first;
        for &(row, end) in &self.rows[first_row..] {
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
        // 3. The others go.
        let (mut at, mut kept) = (first, first);
        for (_, end) in &mut self.rows[first_row..] {
            while at < *end as usize {
                self.pairs[kept] = self.pairs[at];
                kept += usize::from(keep[at - first]);
                at += 1;
            }
            *end = kept as u32;
        }
        self.pairs.truncate(kept);
        Ok(())
    }

    /// Forgets what was found for rows before `row`.
    pub(super) fn drop_before(&mut self, row: usize) {
        let Cursor { rows, pair, .. } = self.cursor(row);
        let dropped = self.rows.len() - rows.len();
        self.rows.drain(..dropped);
        self.pairs.drain(..pair);
        self.rows.iter_mut().for_each(|(_, end)| *end -= pair as u32);
    }

    /// The rows looked at here from the epoch's row `from` on: where they begin among all, and where the first one's
    /// pairs do.
    pub(super) fn cursor(&self, from: usize) -> Cursor<'_> {
        let next = self.rows.partition_point(|&(row, _)| (row as usize) < from);
        let pair = next.checked_sub(1).map_or(0, |before| self.rows[before].1 as usize);
        Cursor { rows: &self.rows[next..], pairs: &self.pairs, pair }
    }

    /// Forgets keys without rows.
    pub(super) fn forget(&mut self, me: u16, assignment: &Assignment, keys: &[u32]) {
        for &key in keys {
            if let Some(state) = assignment.home_of(key, me).and_then(|home| self.home.get_mut(home)) {
                debug_assert!(state.0.iter().all(|buffer| buffer.len() == 0), "the rows of a silent key have left");
                *state = KeyState::default();
            }
            if !self.shared.is_empty() {
                self.shared.remove(&key);
            }
        }
    }

    /// Stores the rows of the logs, where none were stored before.
    pub(super) fn restore(&mut self, me: u16, logs: &[Log; 2], assignment: &Assignment, reach: &Reach) {
        for side in [Side::Left, Side::Right].into_iter().filter(|&side| reach.is_stored(side)) {
            let log = &logs[side as usize];
            for (place, (&ts, &key)) in log.ts().iter().zip(log.keys()).enumerate() {
                let number = (log.first() as u32).wrapping_add(place as u32);
                let share = assignment.share(assignment.route(key), key, me);
                if let Some((state, true)) = buffers(&mut self.home, &mut self.shared, share, key, number) {
                    state.0[side as usize].push(number);
                    self.queues[side as usize].rows.push_back(Stored { ts, key });
                }
            }
        }
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.home.clear();
        self.shared.clear();
        self.queues = Default::default();
    }

    /// Whether the replica holds rows of a key that is at home elsewhere.
    pub(super) fn holds(&self, key: u32) -> bool {
        self.shared.get(&key).is_some_and(|state| state.0.iter().any(|buffer| buffer.len() > 0))
    }

    /// Bytes of the buffers.
    pub(super) fn memory(&self) -> usize {
        let of_state = |state: &KeyState| state.0.iter().map(Buffer::memory).sum::<usize>();
        let of_home = self.home.capacity() * size_of::<KeyState>() + self.home.iter().map(of_state).sum::<usize>();
        let of_queues: usize = self.queues.iter().map(|queue| queue.rows.capacity() * size_of::<Stored>()).sum();
        of_queues + of_home + self.shared.values().map(|state| size_of::<KeyState>() + of_state(state)).sum::<usize>()
    }
}

/// The buffers of a key that a replica has a share in, made if there are none, and whether it stores the row of that
/// number.
#[inline]
fn buffers<'a>(
    home: &'a mut Vec<KeyState>,
    shared: &'a mut SharedKeys,
    share: Share,
    key: u32,
    number: u32,
) -> Option<(&'a mut KeyState, bool)> {
    match share {
        Share::None => None,
        Share::All(place) => Some((at_home(home, place), true)),
        Share::Part(part) => {
            let state = match part.home {
                Some(place) => at_home(home, place),
                None => shared.entry(key).or_default(),
            };
            Some((state, part.stores(number)))
        }
    }
}

/// The buffers of a key at home, made if there are none.
#[inline]
fn at_home(home: &mut Vec<KeyState>, place: u32) -> &mut KeyState {
    let place = place as usize;
    if home.len() <= place {
        home.resize_with((place + 1).next_power_of_two(), KeyState::default);
    }
    &mut home[place]
}

/// Reads what a replica has found, row by row.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rows: &'a [(u32, u32)],
    pairs: &'a [u32],
    pair: usize,
}

impl<'a> Cursor<'a> {
    /// The next row.
    #[inline]
    pub(super) fn peek(&self) -> Option<usize> {
        self.rows.first().map(|&(row, _)| row as usize)
    }

    /// The next row before `end`, and its pairs.
    #[inline]
    pub(super) fn next(&mut self, end: usize) -> Option<(usize, &'a [u32])> {
        let row = self.peek().filter(|&row| row < end)?;
        Some((row, self.take(row)))
    }

    /// The pairs of `row`, which is the next.
    #[inline]
    pub(super) fn take(&mut self, row: usize) -> &'a [u32] {
        let &(next, end) = self.rows.first().expect("the replica has looked at the row");
        debug_assert_eq!(next as usize, row, "rows are taken in order");
        self.rows = &self.rows[1..];
        let pairs = &self.pairs[self.pair..end as usize];
        self.pair = end as usize;
        pairs
    }
}
