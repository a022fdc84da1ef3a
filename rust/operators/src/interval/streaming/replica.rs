//! A replica of the join. It owns the buffers for its keys and processes their rows in each epoch.

use tidegate_structures::simd::wide::{Work, wide};

use super::assignment::{Assignment, KeyShare};
use super::buffer::{Buffer, Cells, FoundNumbers, LANES};
use super::chunks::Chunks;
use super::epoch::KeyedEpoch;
use super::pairs::{FILTER_PAIRS, keep_filtered};
use crate::driver::Driver;
use crate::rows::{Filter, FilterError, Reach, RowLog, Side};

const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// The buffers of a key, one per side.
#[derive(Clone, Debug, Default)]
struct KeyState([Buffer; 2]);

/// One thread's part of a join. A replica contains the buffers for the thread's keys and the
/// matches found in the current epoch.
///
/// Some fields of a replica change with every row. Two replicas therefore share neither a cache
/// line nor a pair of adjacent lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Replica {
    /// The buffers for keys that have their home on this replica, indexed by position.
    home: Vec<KeyState>,
    /// The buffers for this replica's parts of split keys that have their home elsewhere. The index
    /// is the key's position among the split keys.
    shared: Vec<KeyState>,
    /// The rows in these buffers.
    cells: Cells,
    /// For each side, the number of the first row on the other side that is not too old to match.
    oldest: [u64; 2],
    /// For each side, the number of the first row on the other side that is too new to match. This
    /// number is used only if intervals end before a row's own time.
    reached: [u64; 2],
    /// `true` if the rows in the epoch have not been assigned to this replica yet.
    is_new: bool,
    /// The rows in the epoch that this replica has to process.
    mine: Vec<u32>,
    /// The number of these rows that have been processed.
    looked_at: usize,
    /// The next row in the epoch that this replica has to process.
    next: usize,
    /// The numbers of the matching earlier rows, concatenated for all processed rows.
    pairs: FoundNumbers,
    /// For each row processed here, its position in the epoch and the position in `pairs` at which
    /// its matches end.
    rows: Vec<(u32, u32)>,
    comparisons: u64,
}

/// The parts of a join that all replicas read.
pub(super) struct EpochInputs<'a> {
    pub(super) epoch: &'a KeyedEpoch,
    pub(super) assignment: &'a Assignment,
    pub(super) reach: &'a Reach,
    pub(super) logs: &'a [RowLog<Chunks>; 2],
}

/// A pass over rows in the epoch.
struct Look<'a> {
    replica: &'a mut Replica,
    me: u16,
    shared: &'a EpochInputs<'a>,
    most: usize,
    filter: Option<&'a Filter<'a>>,
    driver: &'a Driver,
}

impl Work for Look<'_> {
    type Output = Result<(), FilterError>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        self.replica.look_at_rows(self.me, self.shared, self.most, self.filter, self.driver)
    }
}

impl Replica {
    pub(super) fn next(&self) -> usize {
        self.next
    }

    pub(super) fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Begins an epoch.
    pub(super) fn begin(&mut self) {
        self.pairs.truncate(0);
        self.rows.clear();
        self.mine.clear();
        (self.next, self.looked_at, self.is_new) = (0, 0, true);
    }

    /// Selects the rows in the epoch that this replica has to process.
    fn pick(&mut self, me: u16, routes: &[u16], stores_all: bool) {
        self.is_new = false;
        if stores_all {
            self.mine.extend(0..routes.len() as u32);
            return;
        }
        // There is no branch on the route, because it is unpredictable: the rows of others are
        // overwritten.
        self.mine.resize(routes.len() + 1, 0);
        let mut at = 0;
        for (row, &route) in routes.iter().enumerate() {
            self.mine[at] = row as u32;
            at += usize::from(Assignment::may_look(route, me));
        }
        self.mine.truncate(at);
    }

    /// Processes the rows in the epoch, starting where the last call stopped. Stops after about
    /// `most` pairs, or if a pause is requested while a filter removes most pairs.
    pub(super) fn run(
        &mut self,
        me: u16,
        shared: &EpochInputs<'_>,
        most: usize,
        filter: Option<&Filter<'_>>,
        driver: &Driver,
    ) -> Result<(), FilterError> {
        wide(Look { replica: self, me, shared, most, filter, driver })
    }

    #[inline(always)]
    fn look_at_rows(
        &mut self,
        me: u16,
        shared: &EpochInputs<'_>,
        most: usize,
        filter: Option<&Filter<'_>>,
        driver: &Driver,
    ) -> Result<(), FilterError> {
        let EpochInputs { epoch, reach, assignment, logs } = *shared;
        if self.is_new {
            self.pick(me, &epoch.routes, assignment.stores_all());
        }
        let first = logs.each_ref().map(|log| log.first() as u32);
        let mark =
            |side: Side, number: [u64; 2]| logs[side.other() as usize].mark(number[side as usize]);
        let mut oldest = SIDES.map(|side| mark(side, self.oldest));
        let mut reached = SIDES.map(|side| mark(side, self.reached));
        let is_stored = [reach.is_stored(Side::Left), reach.is_stored(Side::Right)];
        let takes_all = [reach.takes_all(Side::Left), reach.takes_all(Side::Right)];
        // Candidates from this position on have not been filtered.
        let (mut unfiltered_rows, mut unfiltered) = (self.rows.len(), self.pairs.len());
        while self.looked_at < self.mine.len() && self.pairs.len() < most {
            let row = self.mine[self.looked_at] as usize;
            self.looked_at += 1;
            let (ts, side, key, number) =
                (epoch.ts[row], epoch.sides[row], epoch.keys[row], epoch.numbers[row]);
            let route = epoch.routes[row];
            let share = assignment.share(route, key, me);
            let Some((state, stores)) = buffers(&mut self.home, &mut self.shared, share, number)
            else {
                continue;
            };
            if Assignment::may_look(route, me) {
                // 1. Rows that are too old for this row are too old for later ones as well.
                let others = &mut state.0[side.other() as usize];
                self.cells.drop_before(others, oldest[side as usize].pass(reach.first(side, ts)));
                // 2. Matching rows are adjacent.
                let upto = match takes_all[side as usize] {
                    true => None,
                    false => Some(reached[side as usize].pass(reach.end(side, ts))),
                };
                let before = self.pairs.len();
                self.cells.copy(others, upto, &mut self.pairs);
                self.comparisons += (self.pairs.len() - before) as u64;
                self.rows.push((row as u32, self.pairs.len() as u32));
            }
            // 3. The row is stored for later rows, unless another replica keeps it.
            if is_stored[side as usize] && stores {
                self.cells.push(&mut state.0[side as usize], number, first[side as usize]);
            }
            if let Some(filter) = filter
                && self.pairs.len() - unfiltered >= FILTER_PAIRS
            {
                self.filter(epoch, filter, unfiltered_rows, unfiltered)?;
                (unfiltered_rows, unfiltered) = (self.rows.len(), self.pairs.len());
                if driver.is_paused() {
                    break;
                }
            }
        }
        (self.oldest, self.reached) =
            (oldest.map(|mark| mark.number()), reached.map(|mark| mark.number()));
        self.next = self.mine.get(self.looked_at).map_or(epoch.len(), |&row| row as usize);
        match filter {
            Some(filter) => self.filter(epoch, filter, unfiltered_rows, unfiltered),
            None => Ok(()),
        }
    }

    /// Removes the candidates that the filter rejects, for the rows from `first_row` onwards.
    fn filter(
        &mut self,
        epoch: &KeyedEpoch,
        filter: &Filter<'_>,
        first_row: usize,
        first: usize,
    ) -> Result<(), FilterError> {
        let rows = &mut self.rows[first_row..];
        let kept = keep_filtered(epoch, filter, rows, self.pairs.numbers_mut(), first)?;
        self.pairs.truncate(kept);
        Ok(())
    }

    /// Drops the matches of rows before `row`.
    pub(super) fn drop_before(&mut self, row: usize) {
        let ReplicaCursor { rows, pair, .. } = self.cursor(row);
        let dropped = self.rows.len() - rows.len();
        self.rows.drain(..dropped);
        self.pairs.drop_front(pair);
        self.rows.iter_mut().for_each(|(_, end)| *end -= pair as u32);
    }

    /// Returns a cursor over the rows that this replica processed, starting at row `from` of the
    /// epoch.
    pub(super) fn cursor(&self, from: usize) -> ReplicaCursor<'_> {
        let next = self.rows.partition_point(|&(row, _)| (row as usize) < from);
        let pair = next.checked_sub(1).map_or(0, |before| self.rows[before].1 as usize);
        ReplicaCursor { rows: &self.rows[next..], pairs: self.pairs.padded(), pair }
    }

    /// Drops keys without rows.
    pub(super) fn forget(&mut self, me: u16, assignment: &Assignment, keys: &[u32]) {
        for &key in keys {
            let at_home = assignment.home_of(key, me).and_then(|home| self.home.get_mut(home));
            let shared = assignment.split_of(key).and_then(|split| self.shared.get_mut(split));
            for state in at_home.into_iter().chain(shared) {
                std::mem::take(state).0.into_iter().for_each(|buffer| self.cells.free(buffer));
            }
        }
    }

    /// Stores the logs' rows in the buffers, which must be empty.
    pub(super) fn restore(
        &mut self,
        me: u16,
        logs: &[RowLog<Chunks>; 2],
        assignment: &Assignment,
        reach: &Reach,
    ) {
        for side in SIDES.into_iter().filter(|&side| reach.is_stored(side)) {
            let log = &logs[side as usize];
            for (offset, key) in log.columns().keys().enumerate() {
                let number = (log.first() as u32).wrapping_add(offset as u32);
                let share = assignment.share(assignment.route(offset, key), key, me);
                if let Some((state, true)) =
                    buffers(&mut self.home, &mut self.shared, share, number)
                {
                    self.cells.push(&mut state.0[side as usize], number, log.first() as u32);
                }
            }
        }
    }

    /// Releases memory after a burst of rows. On each side, rows before `oldest` are no longer
    /// needed.
    pub(super) fn tidy(&mut self, oldest: [u32; 2]) {
        if self.cells.is_sparse() {
            self.pack(oldest);
        }
    }

    /// Drops all rows before the `oldest` row on each side. Dropping these rows is necessary only
    /// to keep row numbers comparable.
    pub(super) fn pack(&mut self, oldest: [u32; 2]) {
        let states = self.home.iter_mut().chain(&mut self.shared);
        self.cells.pack(states.flat_map(|state| state.0.iter_mut().zip(oldest)));
    }

    /// Drops all rows.
    pub(super) fn clear(&mut self) {
        self.home.clear();
        self.shared.clear();
        self.cells = Cells::default();
    }

    /// Returns whether the replica has rows with a split key that has its home on another replica.
    /// Rows before the `oldest` row on each side are ignored.
    pub(super) fn holds(&self, split: usize, oldest: [u32; 2]) -> bool {
        let held = |(mut buffer, oldest): (Buffer, u32)| {
            self.cells.drop_before(&mut buffer, oldest);
            buffer.len() > 0
        };
        self.shared.get(split).is_some_and(|state| state.0.into_iter().zip(oldest).any(held))
    }

    /// Returns the size of the buffers in bytes.
    pub(super) fn memory(&self) -> usize {
        self.cells.memory()
            + (self.home.capacity() + self.shared.capacity()) * size_of::<KeyState>()
    }
}

/// Returns the buffers for this replica's share of a key, and a flag that is `true` if the replica
/// stores the row with this number. The buffers are created if necessary.
#[inline(always)]
fn buffers<'a>(
    home: &'a mut Vec<KeyState>,
    shared: &'a mut Vec<KeyState>,
    share: KeyShare,
    number: u32,
) -> Option<(&'a mut KeyState, bool)> {
    match share {
        KeyShare::None => None,
        KeyShare::All(place) => Some((state_at(home, place), true)),
        KeyShare::Part(part) => {
            let state = match part.home {
                Some(place) => state_at(home, place),
                None => state_at(shared, part.split),
            };
            Some((state, part.stores(number)))
        }
    }
}

/// Returns the buffers of the key at a position, creating them if necessary.
#[inline(always)]
fn state_at(states: &mut Vec<KeyState>, place: u32) -> &mut KeyState {
    let place = place as usize;
    if states.len() <= place {
        make_states(states, place + 1);
    }
    &mut states[place]
}

#[cold]
fn make_states(states: &mut Vec<KeyState>, len: usize) {
    // The capacity grows less than that of a vector by default, since this is most of the state if
    // keys have few rows.
    if states.capacity() < len {
        states.reserve_exact(len + (len - 1) / 8 - states.len());
    }
    states.resize_with(len, KeyState::default);
}

/// Reads the matches that a replica has found, row by row.
#[derive(Debug)]
pub(super) struct ReplicaCursor<'a> {
    rows: &'a [(u32, u32)],
    pairs: &'a [u32],
    pair: usize,
}

impl<'a> ReplicaCursor<'a> {
    /// Returns the next row.
    #[inline]
    pub(super) fn peek(&self) -> Option<usize> {
        self.rows.first().map(|&(row, _)| row as usize)
    }

    /// Returns the next row before `end`, and that row's pairs.
    #[inline]
    pub(super) fn next(&mut self, end: usize) -> Option<(usize, ReplicaMatches<'a>)> {
        let row = self.peek().filter(|&row| row < end)?;
        Some((row, self.take(row)))
    }

    /// Returns the pairs of `row`, which must be the next row.
    #[inline]
    pub(super) fn take(&mut self, row: usize) -> ReplicaMatches<'a> {
        let &(next, end) = self.rows.first().expect("the replica has processed the row");
        debug_assert_eq!(next as usize, row, "rows are taken in order");
        self.rows = &self.rows[1..];
        let matches =
            ReplicaMatches { padded: &self.pairs[self.pair..], len: end as usize - self.pair };
        self.pair = end as usize;
        matches
    }

    /// Returns the position at which the pairs of the next row begin.
    pub(super) fn pair(&self) -> usize {
        self.pair
    }
}

/// The numbers of the rows that match a row, earliest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplicaMatches<'a> {
    padded: &'a [u32],
    len: usize,
}

impl<'a> ReplicaMatches<'a> {
    /// Returns the first `len` of the given numbers, which must be followed by at least [`LANES`]
    /// more.
    pub(super) fn new(padded: &'a [u32], len: usize) -> Self {
        ReplicaMatches { padded, len }
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn numbers(self) -> &'a [u32] {
        &self.padded[..self.len]
    }

    /// Returns the first few numbers. If there are fewer, any remaining values are arbitrary.
    #[inline]
    pub(super) fn first_lanes(self) -> &'a [u32; LANES] {
        self.padded[..LANES].try_into().expect("so many lanes")
    }
}
